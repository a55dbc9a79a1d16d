//! Runs of drawn operations, side by side with the naive book.

use proptest::prelude::*;
use synod_orderbook::{
    Account, Answer, Code, Config, Delta, FILLS_MAX, Fill, Handling, Life, Lots, Operation, Order, OwnMeets,
    Pricing, Question, Reply, Side, Symbol, Ticks, TraderId,
};
use synod_service::{App, Wall};
use synod_wire::{Bytes, Drawn, Limits, Wire};

use crate::floor::Floor;
use crate::naive::{Entry, Naive};

const TRADERS: u64 = 4;

fn order(draw: &mut Drawn, time: u64) -> Order {
    let side = if draw.below(2) == 0 { Side::Buy } else { Side::Sell };
    let lots = if draw.below(60) == 0 { 0 } else { 1 + draw.below(9) };
    let price = if draw.below(60) == 0 { 0 } else { 95 + draw.below(10) };
    let symbol = Symbol(u16::try_from(draw.below(12).saturating_sub(9)).expect("small"));
    let mut order = Order::limit(symbol, side, Lots(lots), Ticks(price));
    if draw.below(8) == 0 {
        order.pricing = Pricing::Market;
    }
    order.life = match draw.below(10) {
        0 => Life::Immediate,
        1 => Life::FillOrKill,
        2 => Life::Until(Wall(time - 1 + draw.below(30))),
        _ => Life::Standing,
    };
    order.handling = match draw.below(8) {
        0 | 1 => Handling::AllOrNone,
        2 => Handling::PostOnly,
        _ => Handling::Plain,
    };
    if draw.below(6) == 0 {
        order.stop = Some(Ticks(95 + draw.below(10)));
        order.handling = if draw.below(20) == 0 { order.handling } else { Handling::Plain };
    }
    order.own = match draw.below(3) {
        0 => OwnMeets::CancelNewest,
        1 => OwnMeets::CancelOldest,
        _ => OwnMeets::CancelBoth,
    };
    order
}

/// An operation after `requests` others.
pub(crate) fn operation(draw: &mut Drawn, requests: u64, time: u64) -> Operation {
    let request = 1 + draw.below(requests.max(1));
    match draw.below(10) {
        0 => Operation::Cancel(request),
        1 | 2 => Operation::Replace {
            request,
            delta: match draw.below(4) {
                0 | 1 => Delta::Same,
                2 => Delta::More(Lots(draw.below(4))),
                _ => Delta::Less(Lots(draw.below(5))),
            },
            price: (draw.below(2) == 0).then(|| Ticks(95 + draw.below(10))),
        },
        _ => Operation::Place(order(draw, time)),
    }
}

/// Cancels and replaces name the sender's own, so most are sent by whoever placed the order they name.
pub(crate) fn sender(draw: &mut Drawn, operation: &Operation) -> u64 {
    match operation {
        Operation::Cancel(request) | Operation::Replace { request, .. } => request % TRADERS,
        _ => draw.below(TRADERS),
    }
}

fn of_level(naive: &Naive, symbol: u16, side: Side) -> Vec<(u64, u64, u32)> {
    let mut sums: std::collections::BTreeMap<u64, (u64, u32)> = std::collections::BTreeMap::new();
    let displayed = |entry: &&Entry| entry.order.side == side && entry.order.handling != Handling::AllOrNone;
    for entry in naive.pits.get(&symbol).iter().flat_map(|pit| pit.resting.iter()).filter(displayed) {
        let Pricing::Limit(price) = entry.order.pricing else { unreachable!("a market order rests") };
        let sum = sums.entry(price.0).or_default();
        *sum = (sum.0 + entry.open, sum.1 + 1);
    }
    let mut levels: Vec<_> = sums.into_iter().map(|(price, (lots, orders))| (price, lots, orders)).collect();
    if side == Side::Buy {
        levels.reverse();
    }
    levels
}

/// Compares all that can be asked.
fn compare(floor: &Floor, naive: &Naive) {
    for symbol in 0..2 {
        let (bids, offers) = floor.depth(symbol);
        for (side, levels) in [(Side::Buy, bids), (Side::Sell, offers)] {
            let levels: Vec<_> = levels.iter().map(|l| (l.price.0, l.lots.0, l.orders)).collect();
            assert_eq!(levels, of_level(naive, symbol, side), "{side:?} of {symbol}");
        }
        let Answer::Tape { lost: 0, trades } =
            floor.answer(Question::Tape { symbol: Symbol(symbol), after: 0 })
        else {
            unreachable!("the tape")
        };
        let trades: Vec<_> =
            trades.iter().map(|t| (t.taker, Fill { price: t.price, lots: t.lots })).collect();
        let expected = naive.pits.get(&symbol).map_or(&[][..], |pit| &pit.tape);
        assert_eq!(trades, expected[..expected.len().min(256)]);
    }
    let orders: usize = naive.pits.values().map(|pit| pit.resting.len() + pit.stops.len()).sum();
    assert_eq!(floor.book.orders(), orders);
    let (mut lots, mut money) = ([0_i128; 2], [0_i128; 2]);
    for trader in 0..TRADERS {
        let told = naive.told.get(&trader).map_or(&[][..], Vec::as_slice);
        let events: Vec<_> =
            floor.events(trader).iter().map(|event| (event.symbol.0, event.request, event.kind)).collect();
        assert_eq!(events, told[..told.len().min(256)], "events of {trader}");
        for symbol in 0..2_u16 {
            let question = Question::Account { trader: TraderId(trader), symbol: Symbol(symbol) };
            let Answer::Account(Account { bought, sold, paid, received }) = floor.answer(question) else {
                unreachable!("an account")
            };
            let signed = |number: u128| i128::try_from(number).expect("a small number");
            let net = (signed(bought) - signed(sold), signed(received) - signed(paid));
            assert_eq!(net, naive.net.get(&(trader, symbol)).copied().unwrap_or_default());
            lots[usize::from(symbol)] += net.0;
            money[usize::from(symbol)] += net.1;
        }
    }
    assert_eq!((lots, money), ([0; 2], [0; 2]), "lots and money are neither made nor lost");
}

fn bounds() -> Config {
    Config { symbols: 2, events_max: 4_096, tape_max: 4_096, ..Config::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn every_reply_event_trade_and_level_is_that_of_the_naive_book(seed in any::<u64>(), count in 1..160_u64) {
        let mut draw = Drawn::new(seed);
        let (mut floor, mut naive) = (Floor::within(bounds()), Naive::default());
        for _ in 0..count {
            let operation = operation(&mut draw, floor.requests, floor.time);
            let trader = sender(&mut draw, &operation);
            if draw.below(4) == 0 {
                floor.time += draw.below(6);
            }
            naive.clock(floor.time);
            let (request, reply) = floor.ask(trader, &operation);
            let expected = naive.perform(trader, request, &operation);
            let shown = expected.fills.len().min(FILLS_MAX);
            prop_assert_eq!(reply.code, expected.code, "{:?} by {}", operation, trader);
            prop_assert_eq!(reply.left.0, expected.left);
            prop_assert_eq!(reply.fills(), &expected.fills[..shown]);
            prop_assert_eq!(reply.more as usize, expected.fills.len() - shown);
            prop_assert_eq!(reply.filled.0, expected.fills.iter().map(|fill| fill.lots.0).sum::<u64>());
            if let Some(event) = floor.events(trader).last() {
                prop_assert_eq!(reply.event, event.number, "a reply says which events there are");
            }
            never_worse(&operation, &reply);
            compare(&floor, &naive);
        }
    }

    #[test]
    fn a_replay_gives_equal_replies_and_roots_and_so_does_a_restore_at_any_point(
        seed in any::<u64>(), count in 1..120_u64, cut in any::<u64>(),
    ) {
        let (mut first, mut second) = (Floor::new(), Floor::new());
        let mut restored: Option<Floor> = None;
        let (mut draw, cut) = (Drawn::new(seed), cut % count);
        for at in 0..count {
            let slot: Vec<(u64, Bytes)> = (0..1 + draw.below(4))
                .map(|_| {
                    let operation = operation(&mut draw, first.requests, first.time);
                    (sender(&mut draw, &operation), operation.encode())
                })
                .collect();
            let time = first.time + draw.below(5);
            (first.time, second.time) = (time, time);
            let replies = first.slot(&slot);
            prop_assert_eq!(&second.slot(&slot), &replies);
            prop_assert_eq!(first.book.root(), second.book.root());
            if let Some(restored) = &mut restored {
                restored.time = time;
                prop_assert_eq!(&restored.slot(&slot), &replies);
                prop_assert_eq!(restored.book.root(), first.book.root());
            }
            if at == cut {
                let mut other = Floor::new();
                for index in 0..first.book.chunks() {
                    other.book.restore(index, &first.book.chunk(index)).expect("its own chunk");
                }
                (other.position, other.requests) = (first.position, first.requests);
                prop_assert_eq!(other.book.root(), first.book.root());
                restored = Some(other);
            }
        }
        prop_assert!(restored.is_some());
    }

    #[test]
    fn no_bytes_panic_and_what_is_no_operation_changes_nothing(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut floor = Floor::new();
        floor.rests(1, Order::limit(Symbol(0), Side::Buy, Lots(5), Ticks(10)));
        let body = Bytes::from(bytes);
        let decoded = Operation::decode(body.clone(), &Limits { frame_max: 128 });
        let replies = floor.slot(&[(2, body.clone())]);
        if decoded.is_err() {
            let reply = Reply::decode(replies[0].clone(), &Limits::default()).expect("a reply");
            prop_assert_eq!(reply.code, Code::Malformed);
            prop_assert_eq!(floor.book.orders(), 1);
            prop_assert!(floor.book.query(&body).is_none());
        }
    }
}

fn never_worse(operation: &Operation, reply: &Reply) {
    let Operation::Place(Order { side, pricing: Pricing::Limit(limit), .. }) = operation else { return };
    for fill in reply.fills() {
        let fair = if *side == Side::Buy { fill.price <= *limit } else { fill.price >= *limit };
        assert!(fair, "{fill:?} is worse than {limit:?}");
        assert!(fill.lots > Lots(0));
    }
}
