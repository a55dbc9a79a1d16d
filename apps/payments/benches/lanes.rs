//! What one payment costs on one core: `cargo bench -p synod-payments`. Budget (chopchop 8.2): 4 to 8 ns at a million
//! accounts, 19 at 16 million.

#[path = "../../../core/service/benches/lanes/mod.rs"]
mod lanes;

use lanes::{below, measure};
use synod_payments::{PaymentLanes, operation};

fn main() {
    for clients in [1 << 20, 1 << 24] {
        for lanes in [1, 16] {
            let app = PaymentLanes::new(1_000_000).expect("little money");
            let asked = |draw: &mut _, clients, _| {
                operation(below(draw, clients), 1 + below(draw, 9)).expect("a short id")
            };
            measure(app, (lanes, clients), asked, 0);
        }
    }
}
