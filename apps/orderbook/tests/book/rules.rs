//! Each kind of order by a small example.

use synod_orderbook::{
    Code, Delta, EventKind, Fill, Handling, Life, Lots, Operation, Order, OwnMeets, Pricing, Reply, Side,
    Ticks,
};
use synod_service::Wall;

use crate::floor::{Floor, buy, sell};

fn fills(reply: &Reply) -> Vec<(u64, u64)> {
    reply.fills().iter().map(|Fill { price, lots }| (price.0, lots.0)).collect()
}

fn with(order: Order, life: Life) -> Order {
    Order { life, ..order }
}

#[test]
fn better_prices_come_first_then_those_who_came_first_at_the_price_of_who_rests() {
    let mut floor = Floor::new();
    let late = floor.rests(1, sell(5, 11));
    let first = floor.rests(2, sell(5, 10));
    let second = floor.rests(3, sell(5, 10));
    let (_, reply) = floor.place(4, buy(12, 12));
    assert_eq!((reply.code, fills(&reply)), (Code::Filled, vec![(10, 5), (10, 5), (11, 2)]));
    assert!(floor.is_open(1, late) && !floor.is_open(2, first) && !floor.is_open(3, second));
    let (_, offers) = floor.depth(0);
    assert_eq!((offers[0].price, offers[0].lots, offers[0].orders), (Ticks(11), Lots(3), 1));
    assert_eq!(floor.kinds(2), [EventKind::Fill { price: Ticks(10), lots: Lots(5), trade: 1 }]);
}

#[test]
fn market_and_immediate_orders_never_rest() {
    let mut floor = Floor::new();
    floor.rests(1, sell(3, 10));
    let (_, reply) = floor.place(2, Order { pricing: Pricing::Market, ..buy(5, 1) });
    assert_eq!((reply.code, reply.filled, reply.left), (Code::Ended, Lots(3), Lots(0)));
    floor.rests(1, sell(3, 10));
    let (_, reply) = floor.place(2, with(buy(5, 10), Life::Immediate));
    assert_eq!((reply.code, reply.filled), (Code::Ended, Lots(3)));
    let (_, reply) = floor.place(2, with(buy(5, 10), Life::Immediate));
    assert_eq!((reply.code, reply.filled), (Code::Ended, Lots(0)));
    assert_eq!(floor.book.orders(), 0);
}

#[test]
fn fill_or_kill_fills_wholly_or_changes_nothing() {
    let mut floor = Floor::new();
    floor.rests(1, sell(3, 10));
    floor.rests(2, sell(3, 11));
    let order = |lots, price| with(buy(lots, price), Life::FillOrKill);
    for unfillable in [order(4, 10), order(7, 11)] {
        let (_, reply) = floor.place(3, unfillable);
        assert_eq!((reply.code, reply.filled), (Code::Killed, Lots(0)));
        assert_eq!(floor.book.orders(), 2);
    }
    let (_, reply) = floor.place(3, order(6, 11));
    assert_eq!((reply.code, fills(&reply)), (Code::Filled, vec![(10, 3), (11, 3)]));
}

#[test]
fn an_all_or_none_order_waits_for_all_of_it_and_is_not_displayed() {
    let mut floor = Floor::new();
    let patient = floor.rests(1, Order { handling: Handling::AllOrNone, ..buy(10, 10) });
    assert!(floor.depth(0).0.is_empty(), "nobody sees it");
    let one = floor.rests(2, sell(6, 10));
    assert!(floor.is_open(1, patient) && floor.is_open(2, one), "six of ten are too few");
    // Four more rest first, and then the one that waits takes both.
    let (two, reply) = floor.place(3, sell(5, 9));
    assert_eq!(reply.code, Code::Resting);
    assert!(!floor.is_open(1, patient) && floor.is_open(2, one) && !floor.is_open(3, two));
    let told: Vec<_> = floor.kinds(1);
    assert_eq!(
        told,
        [
            EventKind::Fill { price: Ticks(9), lots: Lots(5), trade: 1 },
            EventKind::Fill { price: Ticks(10), lots: Lots(5), trade: 2 },
        ]
    );
}

#[test]
fn an_order_that_comes_passes_over_an_all_or_none_order_it_cannot_fill() {
    let mut floor = Floor::new();
    let patient = floor.rests(1, Order { handling: Handling::AllOrNone, ..sell(10, 9) });
    floor.rests(2, sell(4, 10));
    let (_, reply) = floor.place(3, buy(4, 10));
    assert_eq!(fills(&reply), [(10, 4)]);
    assert!(floor.is_open(1, patient));
    let (_, reply) = floor.place(3, buy(10, 10));
    assert_eq!(fills(&reply), [(9, 10)]);
}

#[test]
fn a_stop_comes_in_once_a_trade_reaches_it_and_one_stop_may_reach_another() {
    let mut floor = Floor::new();
    let stop = |order: Order, at| Order { stop: Some(Ticks(at)), pricing: Pricing::Market, ..order };
    let (waiting, reply) = floor.place(1, stop(sell(2, 1), 9));
    assert_eq!((reply.code, reply.left), (Code::Waiting, Lots(2)));
    let (further, _) = floor.place(2, stop(sell(2, 1), 8));
    floor.rests(3, buy(1, 9));
    floor.rests(3, buy(2, 8));
    floor.rests(3, buy(5, 7));
    assert!(floor.is_open(1, waiting));
    floor.place(4, sell(1, 9));
    assert!(!floor.is_open(1, waiting) && !floor.is_open(2, further));
    let fill = |price, trade| EventKind::Fill { price: Ticks(price), lots: Lots(2), trade };
    assert_eq!(floor.kinds(1), [EventKind::Triggered, fill(8, 2)]);
    assert_eq!(floor.kinds(2), [EventKind::Triggered, fill(7, 3)]);
    // The last trade was at 7: a seller's stop at 9 has been reached already.
    let (_, reply) = floor.place(1, stop(sell(1, 1), 9));
    assert_eq!(fills(&reply), [(7, 1)]);
    let (_, reply) = floor.place(1, stop(buy(1, 1), 9));
    assert_eq!(reply.code, Code::Waiting);
}

#[test]
fn post_only_orders_rest_or_are_refused() {
    let mut floor = Floor::new();
    floor.rests(1, sell(1, 10));
    let post = |order: Order| Operation::Place(Order { handling: Handling::PostOnly, ..order });
    assert_eq!(floor.refused(2, &post(buy(1, 10))), Code::WouldTrade);
    assert_eq!(floor.refused(1, &post(buy(1, 10))), Code::WouldTrade, "with oneself, too");
    let (request, reply) = floor.ask(2, &post(buy(1, 9)));
    assert_eq!(reply.code, Code::Resting);
    let replaced = Operation::Replace { request, delta: Delta::Same, price: Some(Ticks(10)) };
    assert_eq!(floor.refused(2, &replaced), Code::WouldTrade);
}

#[test]
fn trades_with_oneself_end_as_the_order_that_comes_says() {
    for (own, code, first_lives, second_filled) in [
        (OwnMeets::CancelNewest, Code::Ended, true, 0),
        (OwnMeets::CancelOldest, Code::Filled, false, 3),
        (OwnMeets::CancelBoth, Code::Ended, false, 0),
    ] {
        let mut floor = Floor::new();
        let first = floor.rests(1, sell(3, 10));
        floor.rests(2, sell(3, 11));
        let (_, reply) = floor.place(1, Order { own, ..buy(3, 11) });
        assert_eq!((reply.code, reply.filled), (code, Lots(second_filled)), "{own:?}");
        assert_eq!(floor.is_open(1, first), first_lives, "{own:?}");
        if !first_lives {
            assert_eq!(floor.kinds(1)[0], EventKind::MetOwn(Lots(3)));
        }
    }
}

#[test]
fn an_order_ends_when_its_time_has_come_before_anything_else_of_the_slot() {
    let mut floor = Floor::new();
    let until = with(sell(3, 10), Life::Until(Wall(floor.time + 5)));
    let request = floor.rests(1, until);
    floor.time += 4;
    floor.rests(3, buy(1, 1));
    assert!(floor.is_open(1, request));
    floor.time += 1;
    let (_, reply) = floor.place(2, with(buy(3, 10), Life::Immediate));
    assert_eq!((reply.code, reply.filled), (Code::Ended, Lots(0)));
    assert_eq!(floor.kinds(1), [EventKind::Expired(Lots(3))]);
    assert_eq!(floor.refused(1, &Operation::Place(until)), Code::Late);
}

#[test]
fn less_keeps_the_place_more_and_a_new_price_do_not() {
    let replace =
        |request, delta, price: Option<u64>| Operation::Replace { request, delta, price: price.map(Ticks) };
    let first_of = |floor: &mut Floor| {
        floor.place(9, Order { pricing: Pricing::Market, ..buy(1, 1) });
        [1, 2].map(|trader| {
            floor.kinds(trader).iter().filter(|kind| matches!(kind, EventKind::Fill { .. })).count()
        })
    };
    for (delta, price, winner) in [
        (Delta::Less(Lots(1)), None, [1, 0]),
        (Delta::Same, Some(10), [1, 0]),
        (Delta::More(Lots(1)), None, [0, 1]),
        (Delta::Less(Lots(1)), Some(11), [0, 1]),
        (Delta::Same, Some(9), [1, 0]),
    ] {
        let mut floor = Floor::new();
        let first = floor.rests(1, sell(3, 10));
        floor.rests(2, sell(3, 10));
        let (_, reply) = floor.ask(1, &replace(first, delta, price));
        assert_eq!(reply.code, Code::Resting);
        assert_eq!(first_of(&mut floor), winner, "{delta:?} {price:?}");
    }
    // A new price is matched.
    let mut floor = Floor::new();
    floor.rests(2, buy(2, 8));
    let first = floor.rests(1, sell(3, 10));
    let (_, reply) = floor.ask(1, &replace(first, Delta::More(Lots(1)), Some(8)));
    assert_eq!((reply.code, fills(&reply), reply.left), (Code::Resting, vec![(8, 2)], Lots(2)));
    for (delta, code) in [
        (Delta::Less(Lots(2)), Code::TooMuch),
        (Delta::Less(Lots(0)), Code::Zero),
        (Delta::More(Lots(1 << 48)), Code::TooLarge),
    ] {
        assert_eq!(floor.refused(1, &replace(first, delta, None)), code);
    }
    assert_eq!(floor.refused(1, &replace(first, Delta::Same, Some(0))), Code::Zero);
    assert_eq!(floor.refused(1, &replace(first, Delta::Same, Some(u64::MAX))), Code::TooLarge);
    assert_eq!(floor.refused(2, &replace(first, Delta::Same, Some(9))), Code::NoOrder, "of somebody else");
}

#[test]
fn a_stop_is_replaced_while_it_waits_and_a_market_one_gets_no_price() {
    let mut floor = Floor::new();
    let stop = Order { stop: Some(Ticks(12)), ..buy(3, 20) };
    let (limited, _) = floor.place(1, stop);
    let (market, _) = floor.place(1, Order { pricing: Pricing::Market, ..stop });
    let replace = |request, price| Operation::Replace { request, delta: Delta::More(Lots(2)), price };
    let (_, reply) = floor.ask(1, &replace(limited, Some(Ticks(21))));
    assert_eq!((reply.code, reply.left), (Code::Waiting, Lots(5)));
    assert_eq!(floor.refused(1, &replace(market, Some(Ticks(21)))), Code::Contradictory);
    let (_, reply) = floor.ask(1, &Operation::Cancel(market));
    assert_eq!(reply.code, Code::Cancelled);
    assert_eq!(floor.refused(1, &Operation::Cancel(market)), Code::NoOrder);
    assert_eq!(floor.book.orders(), 1);
}

#[test]
fn what_excludes_itself_is_refused() {
    let mut floor = Floor::new();
    let market = Order { pricing: Pricing::Market, ..buy(1, 1) };
    let patient = Order { handling: Handling::AllOrNone, ..buy(1, 1) };
    let post = Order { handling: Handling::PostOnly, ..buy(1, 1) };
    for order in [
        Order { handling: Handling::AllOrNone, ..market },
        Order { handling: Handling::PostOnly, ..market },
        Order { life: Life::Until(Wall(9_999)), ..market },
        Order { life: Life::Immediate, ..patient },
        Order { life: Life::FillOrKill, ..patient },
        Order { life: Life::Immediate, ..post },
        Order { stop: Some(Ticks(3)), ..post },
        Order { stop: Some(Ticks(3)), ..patient },
    ] {
        assert_eq!(floor.refused(1, &Operation::Place(order)), Code::Contradictory, "{order:?}");
    }
    for order in [buy(0, 1), buy(1, 0), Order { stop: Some(Ticks(0)), ..buy(1, 1) }] {
        assert_eq!(floor.refused(1, &Operation::Place(order)), Code::Zero);
    }
    let elsewhere = Order { symbol: synod_orderbook::Symbol(2), ..buy(1, 1) };
    assert_eq!(floor.refused(1, &Operation::Place(elsewhere)), Code::NoSymbol);
    assert_eq!(Side::Buy.other(), Side::Sell);
}
