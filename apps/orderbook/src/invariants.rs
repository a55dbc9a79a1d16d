//! What holds between executions, and how much the state takes.

use crate::book::Book;
use crate::market::Market;
use crate::order::Side;
use crate::question::{Account, Level};
use crate::registry::Shelf;
use crate::units::{Lots, Symbol};
use core::mem::size_of;
use std::collections::BTreeMap;

/// Counters stay below this, so that the next one always fits.
const COUNTED_END: u64 = 1 << 63;

impl Book {
    /// Asserts what must hold.
    pub(crate) fn check(&self) {
        assert_eq!(self.broken(), None, "an invariant of the book is broken");
    }

    /// The first invariant that does not hold.
    pub(crate) fn broken(&self) -> Option<&'static str> {
        if self.arrivals >= COUNTED_END || self.registry.events >= COUNTED_END {
            return Some("a counter is at its end");
        }
        self.markets.iter().find_map(|market| self.broken_market(market)).or_else(|| self.broken_registry())
    }

    fn broken_market(&self, market: &Market) -> Option<&'static str> {
        let bound = market.orders() <= self.config.orders_max as usize
            && market.patient.len() <= self.config.all_or_none_max as usize
            && market.trades < COUNTED_END
            && market.changes < COUNTED_END;
        let best = |side: Side| market.shelves(side).levels.values().next().map(|level| level.price);
        let crossed = matches!((best(Side::Buy), best(Side::Sell)), (Some(bid), Some(offer)) if bid >= offer);
        let tape = contiguous(market.tape.iter().map(|trade| trade.number), market.trades);
        let last = market.tape.back().map(|trade| trade.price);
        let rules = [
            (bound, "a symbol is beyond its bounds"),
            (!crossed, "displayed orders cross"),
            (market.reached().is_none(), "a stop that was reached waits"),
            (market.is_settled(), "a change of a level was not told"),
            (tape && last == market.last, "the tape is not the last trades"),
            (
                contiguous(market.feed.iter().map(|change| change.number), market.changes),
                "the feed has a hole",
            ),
            (self.displays(market), "a level is not the sum of its orders"),
            (self.stands(market), "an order has another place"),
            (self.is_conserved(market).is_some(), "lots or money were made or lost"),
        ];
        rules.iter().find(|(holds, _)| !holds).map(|(_, broken)| *broken)
    }

    fn displays(&self, market: &Market) -> bool {
        [Side::Buy, Side::Sell].iter().all(|side| {
            let mut sums: BTreeMap<u64, Level> = BTreeMap::new();
            for resting in market.shelves(*side).resting.values().filter(|resting| resting.is_displayed()) {
                let none = Level { price: resting.price, lots: Lots::ZERO, orders: 0 };
                let sum = sums.entry(resting.rank().worse).or_insert(none);
                (sum.lots.0, sum.orders) = (sum.lots.0 + resting.open.0, sum.orders + 1);
            }
            sums == market.shelves(*side).levels
        })
    }

    fn stands(&self, market: &Market) -> bool {
        [Side::Buy, Side::Sell].iter().all(|side| {
            let shelves = market.shelves(*side);
            let resting =
                shelves.resting.iter().map(|(rank, order)| (order.id, Shelf::Resting, rank, order.arrival));
            let waiting =
                shelves.waiting.iter().map(|(rank, order)| (order.id, Shelf::Waiting, rank, order.arrival));
            resting.chain(waiting).all(|(id, shelf, rank, arrival)| {
                let found = self.registry.places.get(&id);
                let here = found.is_some_and(|place| {
                    (place.symbol, place.side, place.shelf, place.rank)
                        == (market.symbol, *side, shelf, *rank)
                });
                here && arrival <= self.arrivals
            })
        })
    }

    /// What was bought was sold, and what was paid was received; `None` otherwise.
    fn is_conserved(&self, market: &Market) -> Option<()> {
        let accounts =
            self.registry.traders.values().filter_map(|trader| trader.accounts.get(&market.symbol));
        let mut sum = Account::default();
        for account in accounts.chain([&market.gone]) {
            sum.bought = sum.bought.checked_add(account.bought)?;
            sum.sold = sum.sold.checked_add(account.sold)?;
            sum.paid = sum.paid.checked_add(account.paid)?;
            sum.received = sum.received.checked_add(account.received)?;
        }
        (sum.bought == sum.sold && sum.paid == sum.received).then_some(())
    }

    fn broken_registry(&self) -> Option<&'static str> {
        let registry = &self.registry;
        let mut orders: BTreeMap<_, u32> = BTreeMap::new();
        for id in registry.places.keys() {
            *orders.entry(id.trader).or_default() += 1;
        }
        let traders = registry.traders.iter().all(|(id, trader)| {
            let counted = orders.get(id).copied().unwrap_or(0);
            let idle = registry.idle.contains(&(trader.active, *id));
            trader.orders == counted
                && counted <= self.config.trader_orders_max
                && idle == (counted == 0)
                && trader.active <= self.arrivals + 1
                && trader.last <= registry.events
                && trader.events.len() <= self.config.events_max as usize
                && contiguous(trader.events.iter().map(|event| event.number), trader.last)
                && trader.accounts.keys().all(|symbol: &Symbol| symbol.0 < self.config.symbols)
        });
        let standing: usize = self.markets.iter().map(Market::orders).sum();
        let deadlines = registry.places.values().filter(|place| place.until.is_some()).count();
        let late = registry.deadlines.first().is_some_and(|(until, _)| *until <= self.slot.time);
        let rules = [
            (traders, "a trader is not what its orders and events say"),
            (standing == registry.places.len(), "an order stands twice or nowhere"),
            (deadlines == registry.deadlines.len(), "a deadline is missing or too many"),
            (!late, "an order outlived its time"),
            (registry.traders.len() <= self.config.traders_max as usize, "there are too many traders"),
        ];
        rules.iter().find(|(holds, _)| !holds).map(|(_, broken)| *broken)
    }

    /// About how many bytes the state takes, from its counts alone.
    pub(crate) fn account_bytes(&self) -> u64 {
        // An order stands in the book, in the table of places, in its level and maybe among the deadlines.
        let order = 3 * size_of::<crate::market::Waiting>() as u64 + 64;
        let trades: usize = self.markets.iter().map(|market| market.tape.len() + market.feed.len()).sum();
        let traders = self.registry.traders.values();
        let told: usize = traders.map(|trader| 8 + 2 * trader.events.len() + 3 * trader.accounts.len()).sum();
        order * self.orders() as u64 + 64 * trades as u64 + 32 * told as u64
    }
}

/// Whether the numbers rise by one and end with `last`.
fn contiguous(numbers: impl ExactSizeIterator<Item = u64>, last: u64) -> bool {
    let count = numbers.len() as u64;
    count <= last && numbers.zip(last - count + 1..).all(|(number, expected)| number == expected)
}
