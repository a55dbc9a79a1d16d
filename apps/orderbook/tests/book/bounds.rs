//! Every bound at the cap, one below and one above.

use synod_orderbook::{
    Answer, Book, Code, Config, Delta, EventKind, FILLS_MAX, Handling, LOTS_MAX, Life, Lots,
    OPERATION_BYTES_MAX, Operation, Order, Pricing, Question, REPLY_BYTES_MAX, Reply, Ticks, TraderId,
};
use synod_service::App;
use synod_wire::{Bytes, Limits, Wire};

use crate::floor::{Floor, S, buy, sell};

fn within(change: impl FnOnce(&mut Config)) -> Floor {
    let mut config = Config { symbols: 2, ..Config::default() };
    change(&mut config);
    Floor::within(config)
}

#[test]
fn a_reply_shows_sixteen_fills_and_the_rest_is_in_the_stream_in_order() {
    for makers in [FILLS_MAX - 1, FILLS_MAX, FILLS_MAX + 1, 40] {
        let mut floor = Floor::new();
        let orders: Vec<_> = (0..makers as u64)
            .map(|at| (1 + at % 3, Operation::Place(sell(1 + at, 10 + at)).encode()))
            .collect();
        floor.slot(&orders);
        let body = Operation::Place(Order { pricing: Pricing::Market, ..buy(10_000, 1) }).encode();
        let bytes = floor.slot(&[(9, body)]).remove(0);
        let reply = Reply::decode(bytes.clone(), &Limits::default()).expect("a reply");
        let shown = makers.min(FILLS_MAX);
        assert_eq!((reply.fills().len(), reply.more as usize), (shown, makers - shown));
        assert_eq!(bytes.len(), 32 + 16 * shown);
        assert!(bytes.len() <= REPLY_BYTES_MAX);
        let told: Vec<_> = floor.kinds(9);
        let expected: Vec<_> = (shown as u64..makers as u64)
            .map(|at| EventKind::Fill { price: Ticks(10 + at), lots: Lots(1 + at), trade: 1 + at })
            .chain([])
            .collect();
        assert_eq!(told, expected);
    }
}

#[test]
fn a_symbol_and_a_trader_have_so_many_orders_and_no_more() {
    let mut floor = within(|config| config.orders_max = 3);
    floor.rests(1, buy(1, 1));
    floor.rests(2, buy(1, 1));
    let (stop, reply) = floor.place(3, Order { stop: Some(Ticks(9)), ..buy(1, 9) });
    assert_eq!(reply.code, Code::Waiting);
    assert_eq!(floor.refused(4, &Operation::Place(buy(1, 1))), Code::SymbolFull);
    let (_, reply) = floor.place(4, Order { life: Life::Immediate, ..sell(1, 1) });
    assert_eq!(reply.code, Code::Filled, "what never rests needs no room");
    floor.rests(4, buy(1, 1));
    floor.ask(3, &Operation::Cancel(stop));
    floor.rests(4, buy(1, 1));

    let mut floor = within(|config| config.trader_orders_max = 2);
    let first = floor.rests(1, buy(1, 1));
    floor.rests(1, buy(1, 1));
    assert_eq!(floor.refused(1, &Operation::Place(buy(1, 1))), Code::TraderFull);
    floor.ask(1, &Operation::Cancel(first));
    floor.rests(1, buy(1, 1));
}

#[test]
fn all_or_none_orders_and_looks_have_a_bound() {
    let patient = Order { handling: Handling::AllOrNone, ..buy(9, 5) };
    let mut floor = within(|config| config.all_or_none_max = 2);
    floor.rests(1, patient);
    floor.rests(1, patient);
    assert_eq!(floor.refused(1, &Operation::Place(patient)), Code::AllOrNoneFull);

    for (looks, code) in [(2, Code::TooDeep), (3, Code::Killed), (4, Code::Killed)] {
        let mut floor = within(|config| config.looks_max = looks);
        for _ in 0..3 {
            floor.rests(1, sell(1, 5));
        }
        let order = Operation::Place(Order { life: Life::FillOrKill, ..buy(4, 5) });
        let (_, reply) = floor.ask(2, &order);
        assert_eq!(reply.code, code, "{looks} looks");
        assert_eq!(floor.book.orders(), 3);
        let (_, reply) = floor.place(2, Order { life: Life::FillOrKill, ..buy(2, 5) });
        assert_eq!(reply.code, Code::Filled, "two looks are enough");
    }
}

#[test]
fn what_waits_and_finds_no_looks_left_waits_for_a_later_operation() {
    let mut floor = within(|config| config.looks_max = 2);
    let patient = floor.rests(1, Order { handling: Handling::AllOrNone, ..buy(3, 5) });
    for _ in 0..2 {
        floor.rests(2, sell(1, 5));
    }
    floor.rests(2, sell(1, 5));
    assert!(floor.is_open(1, patient), "three looks are too many");
    floor.rests(2, sell(2, 4));
    assert!(!floor.is_open(1, patient), "two are not");
}

#[test]
fn the_trader_without_orders_that_is_idle_longest_is_forgotten_and_its_trades_stay_counted() {
    let mut floor = within(|config| config.traders_max = 3);
    floor.rests(1, sell(2, 5));
    floor.place(2, buy(2, 5));
    assert_ne!(floor.events(1), []);
    floor.rests(3, sell(1, 5));
    floor.rests(4, sell(1, 5));
    assert_eq!(floor.events(1), [], "the first one is forgotten");
    let account =
        |floor: &Floor, trader| floor.answer(Question::Account { trader: TraderId(trader), symbol: S });
    assert_eq!(account(&floor, 1), Answer::Account(synod_orderbook::Account::default()));
    assert_ne!(account(&floor, 2), Answer::Account(synod_orderbook::Account::default()));
    floor.rests(2, buy(1, 1));
    assert_eq!(floor.refused(5, &Operation::Place(buy(1, 1))), Code::TradersFull);
    // Who comes back counts its events on, behind all that were told.
    let before = floor.events(2).last().map_or(0, |event| event.number);
    let (_, reply) = floor.ask(4, &Operation::Cancel(4));
    assert_eq!(reply.code, Code::Cancelled);
    let (_, reply) = floor.place(1, Order { pricing: Pricing::Market, ..buy(1, 1) });
    assert!(reply.event >= before, "{} after {before}", reply.event);
}

#[test]
fn events_and_trades_are_forgotten_oldest_first_and_the_numbers_say_so() {
    let mut floor = within(|config| (config.events_max, config.tape_max) = (2, 2));
    floor.rests(1, sell(10, 5));
    (0..3).for_each(|_| drop(floor.place(2, buy(1, 5))));
    let events = floor.answer(Question::Events { trader: TraderId(1), after: 0 });
    let Answer::Events { lost, events } = events else { unreachable!("events") };
    assert_eq!((lost, events.len(), events[0].number), (1, 2, 2));
    let Answer::Tape { lost, trades } = floor.answer(Question::Tape { symbol: S, after: 2 }) else {
        unreachable!("tape")
    };
    assert_eq!((lost, trades.len(), trades[0].number), (1, 1, 3));
}

#[test]
fn quantities_and_money_end_where_they_are_counted() {
    let mut floor = Floor::new();
    for (order, code) in [
        (buy(LOTS_MAX.0 + 1, 1), Some(Code::TooLarge)),
        (buy(LOTS_MAX.0, 1), None),
        (buy(LOTS_MAX.0 - 1, 1), None),
        (buy(1, u64::MAX), None),
        (buy(2, u64::MAX), Some(Code::TooLarge)),
        (sell(1 << 20, 1 << 44), Some(Code::TooLarge)),
        (buy(u64::MAX, u64::MAX), Some(Code::TooLarge)),
    ] {
        match code {
            Some(code) => assert_eq!(floor.refused(1, &Operation::Place(order)), code),
            None => {
                floor.rests(1, order);
            }
        }
    }
    // A seller that takes any price meets the dearest buyer without a sum that overflows.
    let (_, reply) = floor.place(2, Order { pricing: Pricing::Market, ..sell(LOTS_MAX.0, 1) });
    assert_eq!((reply.code, reply.filled), (Code::Filled, LOTS_MAX));
}

#[test]
fn a_request_places_one_order_and_long_operations_are_none() {
    let mut floor = Floor::new();
    let body = Operation::Place(buy(1, 1)).encode();
    floor.slot(&[(1, body.clone())]);
    floor.requests = 0;
    assert_eq!(floor.refused(1, &Operation::Place(buy(1, 1))), Code::Repeated);
    let long = Bytes::from(vec![0; OPERATION_BYTES_MAX as usize + 1]);
    let replies = floor.slot(&[(1, long)]);
    let reply = Reply::decode(replies[0].clone(), &Limits::default()).expect("a reply");
    assert_eq!(reply.code, Code::Malformed);
}

#[test]
fn every_operation_fits_its_bound_and_an_unsound_config_makes_no_book() {
    let dearest = Order {
        symbol: synod_orderbook::Symbol(u16::MAX),
        quantity: Lots(u64::MAX),
        pricing: Pricing::Limit(Ticks(u64::MAX)),
        life: Life::Until(synod_service::Wall(u64::MAX)),
        stop: Some(Ticks(u64::MAX)),
        ..buy(1, 1)
    };
    let replace = Operation::Replace {
        request: u64::MAX,
        delta: Delta::More(Lots(u64::MAX)),
        price: Some(Ticks(u64::MAX)),
    };
    for operation in [Operation::Place(dearest), replace] {
        assert!(operation.encode().len() <= OPERATION_BYTES_MAX as usize);
    }
    assert!(Operation::Place(buy(1_000, 10_000)).encode().len() <= 32, "the size of the paper's requests");
    assert!(Book::new(Config { symbols: 0, ..Config::default() }).is_none());
    assert!(Book::default().bytes() < 1 << 10);
}
