//! Replies and answers as reports, refusals as codes.

use crate::output::Report;
use serde_json::Value;
use synod_config::{SynError, code};
use synod_orderbook::{
    Answer, Code, Event, EventKind, Handling, Level, Open, Operation, Pricing, Reply, Side,
};

const fn word(code: Code) -> &'static str {
    match code {
        Code::Resting => "resting",
        Code::Filled => "filled",
        Code::Ended => "ended",
        Code::Waiting => "waiting",
        Code::Cancelled => "cancelled",
        Code::Killed => "killed",
        Code::Malformed => "those bytes are no operation",
        Code::NoSymbol => "there is no such symbol",
        Code::Zero => "a price or a quantity is zero",
        Code::Contradictory => "what it asks excludes itself",
        Code::TooLarge => "its quantity or money is beyond what is counted",
        Code::Late => "its time is over already",
        Code::WouldTrade => "it would trade at once",
        Code::NoOrder => "the trader has no such order open",
        Code::TooMuch => "that many lots are not open",
        Code::SymbolFull => "the symbol",
        Code::TraderFull => "the trader",
        Code::TradersFull => "the book",
        Code::AllOrNoneFull => "the symbol, of all-or-none orders,",
        Code::TooDeep => "it takes too many orders to say whether it can be filled wholly",
        Code::Repeated => "an order of this number is open already",
    }
}

const fn side(side: Side) -> &'static str {
    match side {
        Side::Buy => "buy",
        Side::Sell => "sell",
    }
}

/// Why an operation was refused, if it was.
pub(super) fn refusal(refused: Code, operation: &Operation) -> Option<SynError> {
    let problem = word(refused);
    Some(match refused {
        Code::Resting | Code::Filled | Code::Ended | Code::Waiting | Code::Cancelled | Code::Killed => {
            return None;
        }
        Code::NoOrder => match operation {
            Operation::Cancel(request) | Operation::Replace { request, .. } => unknown_order(*request),
            _ => unknown_order(0),
        },
        Code::NoSymbol => no_symbol(match operation {
            Operation::Place(order) => order.symbol.0,
            _ => 0,
        }),
        Code::WouldTrade => SynError::of(code::WOULD_TRADE, &[]),
        Code::SymbolFull | Code::TraderFull | Code::TradersFull | Code::AllOrNoneFull => {
            SynError::of(code::BOOK_FULL, &[("what", problem)])
        }
        Code::TooDeep => SynError::of(code::TOO_DEEP, &[]),
        Code::Malformed => SynError::of(code::MALFORMED, &[("problem", problem)]),
        _ => SynError::of(code::ORDER_INVALID, &[("problem", problem)]),
    })
}

/// That an order is not open.
pub(super) fn unknown_order(request: u64) -> SynError {
    SynError::of(code::ORDER_UNKNOWN, &[("order", &request.to_string())])
}

fn no_symbol(symbol: u16) -> SynError {
    SynError::of(code::SYMBOL_UNKNOWN, &[("symbol", &symbol.to_string())])
}

pub(super) fn reply(request: u64, reply: &Reply) -> Report {
    let fills = reply.fills().iter().map(|fill| vec![Value::from(fill.price.0), Value::from(fill.lots.0)]);
    Report::new("synod-order/1")
        .field("order", request)
        .field("outcome", word(reply.code))
        .field("filled", reply.filled.0)
        .field("left", reply.left.0)
        .field("more_fills", reply.more)
        .field("last_event", reply.event)
        .list("fills", &["price", "lots"], fills.collect())
}

/// A report of an answer.
///
/// # Errors
/// SYN-3321 where the book has no such symbol.
pub(super) fn answer(answer: &Answer, symbol: u16) -> Result<Report, SynError> {
    Ok(match answer {
        Answer::None(_) => return Err(no_symbol(symbol)),
        Answer::Depth(depth) => {
            let row = |way: Side| {
                move |level: &Level| {
                    vec![
                        Value::from(side(way)),
                        level.price.0.into(),
                        level.lots.0.into(),
                        level.orders.into(),
                    ]
                }
            };
            let rows = depth.bids.iter().map(row(Side::Buy)).chain(depth.offers.iter().map(row(Side::Sell)));
            Report::new("synod-depth/1")
                .field("symbol", symbol)
                .field("position", depth.position.0)
                .field("change", depth.change)
                .field("whole", depth.whole)
                .list("levels", &["side", "price", "lots", "orders"], rows.collect())
        }
        Answer::Tape { lost, trades } => {
            let rows = trades.iter().map(|trade| {
                let numbers = [trade.number, trade.position.0, trade.time.0, trade.price.0, trade.lots.0];
                numbers.into_iter().map(Value::from).chain([side(trade.taker).into()]).collect()
            });
            let columns = ["number", "position", "time_ms", "price", "lots", "taker"];
            Report::new("synod-tape/1").field("symbol", symbol).field("forgotten", *lost).list(
                "trades",
                &columns,
                rows.collect(),
            )
        }
        Answer::Feed { lost, changes } => {
            let rows = changes.iter().map(|change| {
                let level = change.level;
                vec![
                    Value::from(change.number),
                    side(change.side).into(),
                    level.price.0.into(),
                    level.lots.0.into(),
                ]
            });
            Report::new("synod-feed/1").field("symbol", symbol).field("forgotten", *lost).list(
                "changes",
                &["number", "side", "price", "lots"],
                rows.collect(),
            )
        }
        Answer::Events { lost, events } => Report::new("synod-events/1").field("forgotten", *lost).list(
            "events",
            &["number", "symbol", "order", "what", "price", "lots", "trade"],
            events.iter().map(event).collect(),
        ),
        Answer::Order(open) => order(open.as_ref()),
        Answer::Account(account) => Report::new("synod-account/1")
            .field("symbol", symbol)
            .field("bought", account.bought.to_string())
            .field("sold", account.sold.to_string())
            .field("paid", account.paid.to_string())
            .field("received", account.received.to_string()),
    })
}

fn event(event: &Event) -> Vec<Value> {
    let (what, price, lots, trade) = match event.kind {
        EventKind::Fill { price, lots, trade } => ("fill", Some(price.0), Some(lots.0), Some(trade)),
        EventKind::Triggered => ("triggered", None, None, None),
        EventKind::Expired(lots) => ("expired", None, Some(lots.0), None),
        EventKind::Ended(lots) => ("ended", None, Some(lots.0), None),
        EventKind::MetOwn(lots) => ("met own", None, Some(lots.0), None),
        EventKind::Killed(lots) => ("killed", None, Some(lots.0), None),
    };
    let named = [Value::from(event.number), event.symbol.0.into(), event.request.into(), what.into()];
    named.into_iter().chain([price, lots, trade].map(Value::from)).collect()
}

fn order(open: Option<&Open>) -> Report {
    let report = Report::new("synod-open-order/1");
    match open {
        None => report.field("state", "not open"),
        Some(Open::Rests { side: way, price, left, handling }) => report
            .field("state", "resting")
            .field("side", side(*way))
            .field("price", price.0)
            .field("left", left.0)
            .field("all_or_none", *handling == Handling::AllOrNone),
        Some(Open::Waits(order)) => report
            .field("state", "waiting")
            .field("side", side(order.side))
            .field("price", if let Pricing::Limit(price) = order.pricing { Some(price.0) } else { None })
            .field("left", order.quantity.0)
            .field("stop", order.stop.map(|stop| stop.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::refusal;
    use synod_orderbook::{Code, Operation};

    #[test]
    fn each_refusal_of_the_book_has_a_code_and_no_outcome_has() {
        let of = |code| refusal(code, &Operation::Cancel(7)).map(|error| error.code().number());
        for outcome in
            [Code::Resting, Code::Filled, Code::Ended, Code::Waiting, Code::Cancelled, Code::Killed]
        {
            assert_eq!(of(outcome), None, "{outcome:?}");
        }
        for (code, number) in [
            (Code::Malformed, 3001),
            (Code::NoSymbol, 3321),
            (Code::NoOrder, 3322),
            (Code::Zero, 3323),
            (Code::Contradictory, 3323),
            (Code::TooLarge, 3323),
            (Code::Late, 3323),
            (Code::TooMuch, 3323),
            (Code::Repeated, 3323),
            (Code::WouldTrade, 3324),
            (Code::SymbolFull, 3325),
            (Code::TraderFull, 3325),
            (Code::TradersFull, 3325),
            (Code::AllOrNoneFull, 3325),
            (Code::TooDeep, 3326),
        ] {
            assert_eq!(of(code), Some(number), "{code:?}");
            assert!(code.is_refusal(), "{code:?}");
        }
        let told = refusal(Code::NoOrder, &Operation::Cancel(7)).expect("a refusal");
        assert!(told.message().contains('7'), "{told:?}");
    }
}
