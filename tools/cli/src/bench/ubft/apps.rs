//! The applications, and requests of theirs with the results that are right.

use synod_crypto::{Hash, merkle};
use synod_flip::Flip;
use synod_kv::{Kv, Verb, operation};
use synod_machine::{Unrecoverable, Wall};
use synod_orderbook::{Book, Lots, Operation, Order, OwnMeets, Side, Symbol, Ticks};
use synod_service::{App as Application, At, Position, Replies, Request};
use synod_wire::{Bytes, Wire as _};

use super::plan::App;

/// A request and what it is answered with.
pub(super) type Pair = (Bytes, Bytes);
/// Request number so many, from 1 on in order, with its answer.
pub(super) type Pairs = Box<dyn FnMut(u64) -> Pair + Send>;

/// What every request of `noop` is answered with.
const DONE: &[u8] = b"done";

/// Counts requests, and does nothing with them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Noop {
    executed: u64,
}

impl Application for Noop {
    fn execute(&mut self, _: &At, requests: &mut dyn Iterator<Item = Request<'_>>, replies: &mut Replies) {
        for _ in requests {
            self.executed += 1;
            replies.push(Bytes::from_static(DONE));
        }
    }

    fn query(&self, _: &[u8]) -> Option<Bytes> {
        Some(Bytes::from_static(DONE))
    }

    fn root(&mut self) -> Hash {
        merkle::Tree::new(vec![merkle::leaf(&self.chunk(0))]).root()
    }

    fn chunks(&self) -> u32 {
        1
    }

    fn chunk(&self, index: u32) -> Bytes {
        if index == 0 { Bytes::copy_from_slice(&self.executed.to_le_bytes()) } else { Bytes::new() }
    }

    fn restore(&mut self, index: u32, chunk: &[u8]) -> Result<(), Unrecoverable> {
        let executed = chunk.try_into().ok().filter(|_| index == 0).map(u64::from_le_bytes);
        self.executed = executed.ok_or_else(|| Unrecoverable(format!("chunk {index} is no count")))?;
        Ok(())
    }

    fn bytes(&self) -> u64 {
        8
    }
}

/// A book of the default bounds.
pub(super) fn book() -> Book {
    let Some(book) = Book::new(synod_orderbook::Config::default()) else {
        unreachable!("the default bounds are sound");
    };
    book
}

/// The application, for the server without replicas.
pub(super) fn application(app: App) -> Box<dyn Application> {
    match app {
        App::Flip => Box::new(Flip::default()),
        App::Kv => Box::new(Kv::new(synod_kv::Config::default())),
        App::Noop => Box::new(Noop::default()),
        App::Book => Box::new(book()),
    }
}

/// Bytes of `size` that differ from one number to the next, as far as there is room for it.
fn body(number: u64, size: usize) -> Vec<u8> {
    let mut body = vec![7_u8; size];
    body.iter_mut().zip(number.to_le_bytes()).for_each(|(at, byte)| *at = byte);
    body
}

/// Requests of a size with what they are answered with.
pub(super) fn pairs(app: App, size: u32) -> Pairs {
    let size = usize::try_from(size).unwrap_or(32);
    match app {
        App::Flip => Box::new(move |number| {
            let body = body(number, size);
            let reversed: Vec<u8> = body.iter().rev().copied().collect();
            (body.into(), reversed.into())
        }),
        App::Kv => Box::new(move |number| {
            let (key, value) = (format!("key{:013}", number % 1_000), vec![b'v'; size]);
            let mut body = Vec::new();
            if let Some(set) = Verb::find(b"SET") {
                operation::write_command(set, [key.as_bytes(), &value].into_iter(), &mut body);
            }
            (body.into(), Bytes::from_static(b"+OK\r\n"))
        }),
        App::Noop => Box::new(move |number| (body(number, size).into(), Bytes::from_static(DONE))),
        App::Book => {
            // Answers depend on all orders before: a book of the client's own says which is right.
            let mut model = book();
            Box::new(move |number| {
                let op = Operation::Place(order(number)).encode();
                let at = At { position: Position(number), time: Wall(0), draw: Hash::ZERO };
                let mut replies = Replies::default();
                let request = Request { session: 1, sequence: number, body: &op };
                model.execute(&at, &mut [request].into_iter(), &mut replies);
                let reply = replies.drain().next().unwrap_or_default();
                (op, reply)
            })
        }
    }
}

/// Sells and buys in turn. All orders are of one trader, so those that meet end each other.
fn order(number: u64) -> Order {
    let side = if number.is_multiple_of(2) { Side::Buy } else { Side::Sell };
    let (lots, price) = (Lots(1 + number % 3), Ticks(1_000 + number / 2 % 7));
    Order { own: OwnMeets::CancelBoth, ..Order::limit(Symbol(0), side, lots, price) }
}

/// Bytes of a request of this application, as rows tell it: of a book they follow from the order.
pub(super) fn bytes(app: App, size: u32) -> u64 {
    match app {
        App::Flip | App::Kv | App::Noop => u64::from(size),
        App::Book => pairs(app, size)(1).0.len() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(app: App, size: u32, count: u64) -> Vec<(Pair, Bytes)> {
        let (mut pairs, mut application) = (pairs(app, size), application(app));
        let mut all = Vec::new();
        for number in 1..=count {
            let pair = pairs(number);
            let at = At { position: Position(number), time: Wall(9), draw: Hash::ZERO };
            let mut replies = Replies::default();
            let request = Request { session: 200, sequence: number, body: &pair.0 };
            application.execute(&at, &mut [request].into_iter(), &mut replies);
            let reply = replies.drain().next().expect("a reply for each request");
            all.push((pair, reply));
        }
        all
    }

    #[test]
    fn what_is_expected_is_what_the_application_answers() {
        for (app, sizes) in
            [(App::Flip, [2, 8_192]), (App::Kv, [2, 8_192]), (App::Noop, [2, 8_192]), (App::Book, [32, 32])]
        {
            for size in sizes {
                for ((op, expected), reply) in answers(app, size, 50) {
                    assert_eq!(reply, expected, "{app:?} {size}");
                    let is_sized = op.len() as u64 == bytes(app, size);
                    assert!(is_sized || app == App::Kv || app == App::Book, "{app:?} {size}");
                }
            }
        }
    }

    #[test]
    fn orders_rest_and_meet_and_none_is_refused() {
        let all = answers(App::Book, 32, 1_000);
        let first: std::collections::BTreeSet<u8> =
            all.iter().filter_map(|(_, reply)| reply.first().copied()).collect();
        assert!(first.len() > 1 && first.iter().all(|code| *code < 16), "{first:?}");
    }
}
