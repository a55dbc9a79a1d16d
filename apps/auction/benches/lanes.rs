//! What one bid or take costs on one core: `cargo bench -p synod-auction`. Budget (chopchop 8.2): 25 to 50 ns at a million
//! clients.

#[path = "../../../core/service/benches/lanes/mod.rs"]
mod lanes;

use lanes::{below, measure};
use synod_auction::{AuctionLanes, bid, take};
use synod_wire::Drawn;

/// A bid for any token, above those of earlier batches; one of eight is a take.
fn auction(draw: &mut Drawn, clients: u32, height: u64) -> u64 {
    let token = below(draw, clients);
    let asked = if below(draw, 8) == 0 {
        take(token)
    } else {
        bid(token, 1 + 10 * u32::try_from(height).expect("few batches") + below(draw, 10))
    };
    asked.expect("a short number")
}

fn main() {
    for lanes in [1, 16] {
        let app = AuctionLanes::new(1_000_000, 1 << 20).expect("little money");
        measure(app, (lanes, 1 << 20), auction, 1);
    }
}
