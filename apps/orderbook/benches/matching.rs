//! What one operation costs on one core: `cargo bench -p synod-orderbook`. Budget: 2,000 ns for each.
//!
//! Half of the orders buy and half sell (the mix of the paper's figure 7), around one price, in blocks of 256; 10,000
//! orders rest before the clock starts.

use std::hint::black_box;
use std::time::Duration;

use synod_crypto::Hash;
use synod_orderbook::{Book, Delta, Lots, Operation, Order, Pricing, Side, Symbol, Ticks};
use synod_service::{App, At, Position, Replies, Request, Wall};
use synod_wire::{Bytes, Drawn, Wire};

const BLOCK: usize = 256;
const OPERATIONS: usize = 1 << 17;
const RESTING: usize = 10_000;
const TRADERS: u64 = 64;

#[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "a benchmark measures time")]
fn timed(run: impl FnOnce()) -> Duration {
    let start = std::time::Instant::now();
    run();
    start.elapsed()
}

struct Floor {
    book: Book,
    sent: u64,
}

impl Floor {
    /// A book with orders on both sides, none of which meet.
    fn new(draw: &mut Drawn) -> Self {
        let mut floor = Self { book: Book::default(), sent: 0 };
        let orders: Vec<Bytes> = (0..RESTING).map(|at| place(draw, 1 + at % 2, 100)).collect();
        floor.execute(&orders);
        assert_eq!(floor.book.orders(), RESTING, "nothing met");
        floor
    }

    fn execute(&mut self, operations: &[Bytes]) {
        let mut replies = Replies::default();
        for block in operations.chunks(BLOCK) {
            let position = 1 + self.sent;
            let at = At { position: Position(position), time: Wall(position), draw: Hash::ZERO };
            let first = self.sent;
            let mut requests = (first..).zip(block).map(|(sequence, body)| Request {
                session: sequence % TRADERS,
                sequence,
                body,
            });
            self.book.execute(&at, &mut requests, &mut replies);
            self.sent += block.len() as u64;
            black_box(replies.drain().count());
        }
    }
}

/// An order of `side` (1 buys, 2 sells) at a distance below 512 ticks from the middle, at least `least`.
fn place(draw: &mut Drawn, side: usize, least: u64) -> Bytes {
    let (side, price) = match (side, least + draw.below(512)) {
        (1, away) => (Side::Buy, 10_000 - away),
        (_, away) => (Side::Sell, 10_000 + away),
    };
    Operation::Place(Order::limit(Symbol(0), side, Lots(1 + draw.below(100)), Ticks(price))).encode()
}

fn main() {
    let mut draw = Drawn::new(7);
    let mut cases: Vec<(&str, Vec<Bytes>)> = Vec::new();
    cases.push(("rest", (0..OPERATIONS / 4).map(|at| place(&mut draw, 1 + at % 2, 100)).collect()));
    let crossing = |draw: &mut Drawn, at: usize| {
        let side = if at.is_multiple_of(2) { Side::Buy } else { Side::Sell };
        let price = Ticks(9_900 + draw.below(200));
        Operation::Place(Order::limit(Symbol(0), side, Lots(1 + draw.below(100)), price)).encode()
    };
    cases.push(("cross, half buy", (0..OPERATIONS).map(|at| crossing(&mut draw, at)).collect()));
    let market = |draw: &mut Drawn, at: usize| {
        let side = if at.is_multiple_of(2) { Side::Buy } else { Side::Sell };
        let order = Order::limit(Symbol(0), side, Lots(1 + draw.below(10)), Ticks(1));
        Operation::Place(Order { pricing: Pricing::Market, ..order }).encode()
    };
    cases.push(("market", (0..1 << 14).map(|at| market(&mut draw, at)).collect()));
    for (name, operations) in &cases {
        let mut floor = Floor::new(&mut draw);
        let time = timed(|| floor.execute(operations));
        report(name, time, operations.len());
    }
    let mut floor = Floor::new(&mut draw);
    let less =
        |request: u64| Operation::Replace { request, delta: Delta::More(Lots(1)), price: None }.encode();
    // The request after 10,000 others is of the same trader, so its sequence names what it replaces.
    let first = floor.sent;
    let replaces: Vec<Bytes> = (0..4_096).map(|at| less((first + at) % TRADERS + 64 * (at / 64))).collect();
    report("replace", timed(|| floor.execute(&replaces)), replaces.len());
    let time = timed(|| {
        black_box(floor.book.root());
    });
    println!("root of {RESTING} orders  {:>8} us for {} chunks", time.as_micros(), floor.book.chunks());
}

fn report(name: &str, time: Duration, count: usize) {
    println!("{name:<18} {:>8} ns", time.as_nanos() / count as u128);
}
