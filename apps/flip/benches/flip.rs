//! What one flip costs on one core: `cargo bench -p synod-flip`. Budget: 250 ns at 32 bytes, the request of the paper's
//! figure 7; most of it is the hash that tells orders apart.

use std::hint::black_box;

use synod_crypto::Hash;
use synod_flip::Flip;
use synod_service::{App, At, Position, Replies, Request, Wall};

const ROUNDS: u32 = 200_000;

#[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "a bench measures time")]
fn timed(run: impl FnOnce()) -> u128 {
    let start = std::time::Instant::now();
    run();
    start.elapsed().as_nanos()
}

fn main() {
    for size in [2, 32, 64, 2_048, 8_192] {
        let body = vec![7; size];
        let mut flip = Flip::default();
        let mut replies = Replies::default();
        let rounds = if size > 64 { ROUNDS / 10 } else { ROUNDS };
        let spent = timed(|| {
            for sequence in 0..u64::from(rounds) {
                let at = At { position: Position(1 + sequence), time: Wall(0), draw: Hash::ZERO };
                let request = Request { session: 1, sequence, body: &body };
                flip.execute(&at, &mut [request].into_iter(), &mut replies);
                black_box(replies.drain().count());
            }
        });
        println!("{size:>6} bytes {:>8} ns", spent / u128::from(rounds));
    }
}
