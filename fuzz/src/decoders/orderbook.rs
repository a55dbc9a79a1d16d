//! The order book: operations, replies, answers, snapshots.

use synod_crypto::Hash;
use synod_machine::Wall;
use synod_machine::broadcast::Position;
use synod_orderbook::{
    Answer, Book, Code, Config, Lots, Operation, Order, Pricing, Reply, Side, Symbol, Ticks,
};
use synod_service::{App, At, Replies, Request};
use synod_wire::{Bytes, Draw, Drawn, Limits, Wire};

use super::wires;
use crate::check::{accept, bounded, drawn, wire};
use crate::{Kind, Target};

wires! {
    "book-reply" reply Reply;
    "book-answer" answer Answer;
    and Target::new("book-operation", Kind::Slow, operation, drawn::<Operation>);
    and Target::new("book-orders", Kind::Slow, orders, several);
    and Target::new("book-restore", Kind::Slow, restore, snapshot);
}

fn bounds() -> Config {
    Config {
        symbols: 2,
        orders_max: 64,
        trader_orders_max: 24,
        all_or_none_max: 8,
        traders_max: 6,
        events_max: 8,
        tape_max: 8,
        feed_max: 16,
        looks_max: 24,
    }
}

fn empty() -> Book {
    let Some(book) = Book::new(bounds()) else { unreachable!("the bounds are sound") };
    book
}

/// Executes one request; its reply.
fn execute(book: &mut Book, position: u64, session: u64, body: &[u8]) -> Bytes {
    let at = At { position: Position(position), time: Wall(position), draw: Hash([9; 32]) };
    let mut replies = Replies::default();
    let request = Request { session, sequence: position, body };
    book.execute(&at, &mut [request].into_iter(), &mut replies);
    assert_eq!(replies.count(), 1, "one reply per request");
    replies.drain().next().unwrap_or_default()
}

/// A book with orders on both sides.
fn stocked() -> Book {
    let mut book = empty();
    for at in 1..=20 {
        let (side, price) = if at % 2 == 0 { (Side::Buy, 50 - at) } else { (Side::Sell, 50 + at) };
        let order = Order::limit(Symbol(0), side, Lots(at), Ticks(price));
        let reply = execute(&mut book, at, at % 5, &Operation::Place(order).encode());
        assert_eq!(reply.first(), Some(&0), "it rests");
    }
    book
}

/// Decodes an operation and puts it to a book, as a question and as a request.
///
/// # Panics
/// When it breaks a property of encodings, has no reply of the promised size, changes the book as a question, or breaks an
/// invariant.
pub fn operation(bytes: &[u8]) {
    wire::<Operation>(bytes);
    let mut book = stocked();
    let before = book.root();
    let asked = book.query(bytes);
    assert_eq!(book.root(), before, "a question changed the state");
    let reply = execute(&mut book, 21, 3, bytes);
    book.invariants();
    if let Some(asked) = asked {
        assert!(Answer::decode(asked, &Limits::default()).is_ok(), "an answer does not decode");
        assert!(Answer::decode(reply, &Limits::default()).is_ok(), "an ordered answer does not decode");
        return;
    }
    assert!((32..=288).contains(&reply.len()), "a reply of {} bytes", reply.len());
    let Ok(reply) = Reply::decode(reply, &Limits::default()) else { unreachable!("the book's own reply") };
    let shown: u64 = reply.fills().iter().map(|fill| fill.lots.0).sum();
    assert!(shown <= reply.filled.0, "more was filled than was");
    let mut twin = stocked();
    execute(&mut twin, 21, 3, bytes);
    assert_eq!(twin.root(), book.root(), "two replicas differ");
}

/// Executes orders made of four bytes each: two sides, few prices, so that they meet.
///
/// # Panics
/// When an invariant breaks, a fill is worse than the limit, or a restored book goes on differently.
pub fn orders(bytes: &[u8]) {
    let mut book = empty();
    let (pieces, _) = bytes.as_chunks::<4>();
    if pieces.is_empty() {
        return;
    }
    for (position, piece) in (1..).zip(pieces.iter().take(64)) {
        let operation = of(piece, position);
        let reply = execute(&mut book, position, u64::from(piece[3] % 7), &operation.encode());
        let Ok(reply) = Reply::decode(reply, &Limits::default()) else {
            unreachable!("the book's own reply")
        };
        book.invariants();
        if let Operation::Place(Order { side, pricing: Pricing::Limit(limit), .. }) = operation {
            let fair = |price: Ticks| if side == Side::Buy { price <= limit } else { price >= limit };
            assert!(reply.fills().iter().all(|fill| fair(fill.price)), "a fill is worse than the limit");
        }
        if reply.code < Code::Malformed {
            accept();
        }
    }
    let mut other = empty();
    for index in 0..book.chunks() {
        assert!(other.restore(index, &book.chunk(index)).is_ok(), "its own chunk is refused");
    }
    assert_eq!(other.root(), book.root(), "a restored book is another one");
}

/// The operation of four bytes.
fn of(piece: &[u8; 4], position: u64) -> Operation {
    let [kind, lots, price, how] = *piece;
    let mut from = Drawn::new(u64::from(how));
    let request = 1 + u64::from(lots) % position;
    match kind % 8 {
        0 => Operation::Cancel(request),
        1 => {
            let price = (price % 2 == 0).then_some(Ticks(1 + u64::from(price % 9)));
            Operation::Replace { request, delta: synod_orderbook::Delta::draw(&mut from), price }
        }
        _ => {
            let side = if kind >= 128 { Side::Buy } else { Side::Sell };
            let (lots, price) = (Lots(u64::from(lots % 9)), Ticks(u64::from(price % 9)));
            let mut order = Order::limit(Symbol(u16::from(kind) >> 3 & 1), side, lots, price);
            match kind % 8 {
                2 | 3 => {}
                4 => order.handling = synod_orderbook::Handling::draw(&mut from),
                5 => order.life = synod_orderbook::Life::draw(&mut from),
                6 => order.stop = Some(Ticks(u64::from(how % 9))),
                _ => order.pricing = Pricing::Market,
            }
            order.own = synod_orderbook::OwnMeets::draw(&mut from);
            Operation::Place(order)
        }
    }
}

fn several(from: &mut Drawn) -> Vec<u8> {
    (0..1 + from.below(40)).flat_map(|_| from.next().to_le_bytes().into_iter().take(4)).collect()
}

/// Restores a book: chunks behind a length of two bytes each, in order.
///
/// # Panics
/// When a refused snapshot leaves a state behind, or an accepted one breaks an invariant or is encoded as others.
pub fn restore(bytes: &[u8]) {
    let mut book = empty();
    let mut chunks: Vec<&[u8]> = Vec::new();
    let mut rest = bytes;
    while let Some((length, behind)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes(*length));
        let (chunk, behind) = behind.split_at_checked(length).unwrap_or((behind, &[]));
        chunks.push(chunk);
        rest = behind;
    }
    for (index, chunk) in (0_u32..).zip(&chunks) {
        if bounded(bytes.len(), || book.restore(index, chunk)).is_err() {
            assert_eq!((book.orders(), book.chunks()), (0, 2), "a refused snapshot left a state behind");
            return;
        }
    }
    if chunks.len() == 2 {
        accept();
        book.invariants();
        let again = (0..book.chunks()).map(|index| book.chunk(index));
        assert!(again.eq(chunks.iter().copied()), "roundtrip: a restored book is not the one of its chunks");
    }
}

fn snapshot(from: &mut Drawn) -> Vec<u8> {
    let mut book = if from.below(4) == 0 { empty() } else { stocked() };
    for position in 21..21 + from.below(8) {
        let piece = from.next().to_le_bytes();
        let operation = of(&[piece[0], piece[1], piece[2], piece[3]], position);
        execute(&mut book, position, u64::from(piece[4] % 5), &operation.encode());
    }
    let mut out = Vec::new();
    for index in 0..book.chunks() {
        let chunk = book.chunk(index);
        out.extend(u16::try_from(chunk.len()).unwrap_or(u16::MAX).to_le_bytes());
        out.extend_from_slice(&chunk);
    }
    out
}
