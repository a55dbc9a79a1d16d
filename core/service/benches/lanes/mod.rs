//! What one operation of an application in lanes costs, for the benches of the applications.
//!
//! Batches of 65,536 operations of clients drawn uniformly, one lane after another; then a checkpoint's chunks and root.

use std::hint::black_box;
use std::time::Duration;

use synod_crypto::Hash;
use synod_service::lanes::{Batch, LaneApp, State};
use synod_service::{App, At, Lanes, Position, Wall};
use synod_wire::Drawn;

/// Draws one operation: of so many clients, at this height.
type Asked = fn(&mut Drawn, u32, u64) -> u64;

/// Operations of a batch.
const COUNT: u32 = 65_536;
/// Batches executed before a measurement.
const WARM: u64 = 16;
/// Batches of a measurement.
const BATCHES: u64 = 128;

#[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "a benchmark measures time")]
fn timed(run: impl FnOnce()) -> Duration {
    let start = std::time::Instant::now();
    run();
    start.elapsed()
}

/// A number below a bound.
pub(crate) fn below(draw: &mut Drawn, bound: u32) -> u32 {
    u32::try_from(draw.below(u64::from(bound))).expect("below a 32-bit number")
}

/// A batch of clients spread evenly, each drawn from its share.
fn batch(draw: &mut Drawn, height: u64, clients: u32, asked: Asked) -> Batch {
    let share = clients / COUNT;
    let ids = (0..COUNT).map(|at| at * share + below(draw, share)).collect();
    let at = At { position: Position(height), time: Wall(0), draw: Hash::of(&height.to_le_bytes()) };
    let operations: Vec<u8> = (0..COUNT).flat_map(|_| asked(draw, clients, height).to_le_bytes()).collect();
    Batch { height, at, directory: clients, ids, operations: operations.into(), skipped: Vec::new() }
}

/// Prints what an operation costs in so many lanes; codes up to `succeeded` are those of operations that changed something.
pub(crate) fn measure<P: LaneApp>(app: P, (lanes, clients): (u8, u32), asked: Asked, succeeded: u8) {
    let mut draw = Drawn::new(7);
    let pool: Vec<Batch> =
        (0..WARM + BATCHES).map(|height| batch(&mut draw, height, clients, asked)).collect();
    let mut state = State::new(app.clone(), lanes, clients);
    let mut done = 0_u64;
    let (warm, measured) = pool.split_at(usize::try_from(WARM).expect("few"));
    warm.iter().for_each(|batch| drop(black_box(state.execute(batch))));
    let time = timed(|| {
        for batch in measured {
            let codes = state.execute(batch);
            done += codes.iter().filter(|code| **code <= succeeded).count() as u64;
        }
    });
    let count = BATCHES * u64::from(COUNT);
    let ns_per_100 = time.as_nanos() * 100 / u128::from(count);
    println!(
        "{clients:>9} clients, {lanes:>2} lanes {:>4}.{:02} ns, {} % succeeded",
        ns_per_100 / 100,
        ns_per_100 % 100,
        done * 100 / count
    );
    let mut whole = Lanes::new(app, lanes, clients);
    let time = timed(|| {
        black_box(whole.root());
    });
    println!("{clients:>9} clients, whole root {:>9} us", time.as_micros());
}
