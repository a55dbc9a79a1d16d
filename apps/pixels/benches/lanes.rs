//! What one stroke costs on one core: `cargo bench -p synod-pixels`. Budget (chopchop 8.2): 6 ns.

#[path = "../../../core/service/benches/lanes/mod.rs"]
mod lanes;

use lanes::{below, measure};
use synod_pixels::{PixelLanes, SIDE, operation};

fn main() {
    for lanes in [1, 16] {
        let asked = |draw: &mut _, _, _| {
            operation(below(draw, SIDE), below(draw, SIDE), below(draw, 1 << 24)).expect("on the board")
        };
        measure(PixelLanes, (lanes, 1 << 20), asked, 0);
    }
}
