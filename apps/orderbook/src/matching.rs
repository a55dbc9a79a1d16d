//! Matching: price-time priority, whole fills, stops, trades with oneself.
//!
//! An order that comes trades with the best one of the other side, of equal prices with the one that came first, at the
//! price of the one that rests. An all-or-none order that rests is passed over while less than all of it is wanted. Once an
//! operation is done, stops that the last trade reached come in, and then all-or-none orders that can be filled wholly
//! now, in the order in which they came, until nothing moves.

use crate::market::{Market, Resting, Waiting};
use crate::order::{Handling, Life, Order, OwnMeets, Side};
use crate::question::{EventKind, Trade};
use crate::registry::{Place, Rank, Registry, Shelf};
use crate::reply::{Code, Fill, Reply};
use crate::units::{Lots, OrderId, Ticks};
use core::ops::Bound;
use synod_service::{Position, Wall};

/// The slot that is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Slot {
    pub(crate) position: Position,
    pub(crate) time: Wall,
}

/// An order that comes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taker {
    pub(crate) id: OrderId,
    pub(crate) side: Side,
    pub(crate) limit: Option<Ticks>,
    pub(crate) left: Lots,
    pub(crate) own: OwnMeets,
}

/// What a taker does at an order that rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meeting {
    /// Trades so much.
    Trade(Lots),
    /// Passes over.
    Pass,
    /// It is the trader's own.
    Own,
}

/// Whether an order can be filled wholly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whole {
    Can,
    Cannot,
    /// It took too many looks to say.
    Unknown,
}

/// Where fills of a taker are told.
pub(crate) enum Teller<'a> {
    /// In the reply, and behind that in the stream.
    Reply(&'a mut Reply),
    /// In the stream: nobody waits for a reply.
    Stream,
}

impl Taker {
    pub(crate) const fn of(id: OrderId, order: &Order) -> Self {
        Self { id, side: order.side, limit: order.price(), left: order.quantity, own: order.own }
    }

    fn reaches(&self, price: Ticks) -> bool {
        self.limit.is_none_or(|limit| self.side.reaches(limit, price))
    }

    fn meets(&self, resting: &Resting, left: Lots) -> Meeting {
        if resting.id.trader == self.id.trader {
            return Meeting::Own;
        }
        if resting.handling == Handling::AllOrNone && resting.open > left {
            return Meeting::Pass;
        }
        Meeting::Trade(left.min(resting.open))
    }
}

impl Market {
    /// Whether a taker would trade, or meet its own, at once.
    pub(crate) fn would_trade(&self, taker: &Taker) -> bool {
        let others = self.shelves(taker.side.other()).resting.values();
        let mut met = others.take_while(|resting| taker.reaches(resting.price));
        met.any(|resting| taker.meets(resting, taker.left) != Meeting::Pass)
    }

    /// Whether a taker can be filled wholly; takes from `looks` what it looked at.
    pub(crate) fn whole(&self, taker: &Taker, looks: &mut u32) -> Whole {
        let mut left = taker.left;
        for resting in self.shelves(taker.side.other()).resting.values() {
            if !taker.reaches(resting.price) {
                break;
            }
            let Some(fewer) = looks.checked_sub(1) else { return Whole::Unknown };
            *looks = fewer;
            match taker.meets(resting, left) {
                Meeting::Own if taker.own == OwnMeets::CancelOldest => {}
                Meeting::Own => return Whole::Cannot,
                Meeting::Pass => {}
                Meeting::Trade(lots) => left.0 -= lots.0,
            }
            if left.is_zero() {
                return Whole::Can;
            }
        }
        Whole::Cannot
    }

    /// Trades as much of a taker as can be; false when it met its own and ends.
    pub(crate) fn take(
        &mut self,
        registry: &mut Registry,
        slot: Slot,
        taker: &mut Taker,
        teller: &mut Teller<'_>,
    ) -> bool {
        let other = taker.side.other();
        let mut from = Bound::Unbounded;
        while !taker.left.is_zero() {
            let next = self.shelves(other).resting.range((from, Bound::Unbounded)).next();
            let Some((rank, resting)) = next.filter(|(_, resting)| taker.reaches(resting.price)) else {
                break;
            };
            let (rank, resting) = (*rank, *resting);
            match taker.meets(&resting, taker.left) {
                // It wants less and less, so what it passes over once it never comes back to.
                Meeting::Pass => from = Bound::Excluded(rank),
                Meeting::Trade(lots) => self.trade(registry, slot, taker, (&resting, lots), teller),
                Meeting::Own => {
                    if taker.own != OwnMeets::CancelNewest {
                        self.end(registry, &resting, EventKind::MetOwn(resting.open));
                    }
                    if taker.own != OwnMeets::CancelOldest {
                        return false;
                    }
                }
            }
        }
        true
    }

    fn trade(
        &mut self,
        registry: &mut Registry,
        slot: Slot,
        taker: &mut Taker,
        (resting, lots): (&Resting, Lots),
        teller: &mut Teller<'_>,
    ) {
        let (symbol, price, number) = (self.symbol, resting.price, self.trades + 1);
        let fill = Fill { price, lots };
        assert!(!lots.is_zero() && lots <= taker.left, "a trade is of lots that both have");
        taker.left.0 -= lots.0;
        registry.book(taker.id.trader, symbol, taker.side, fill);
        registry.book(resting.id.trader, symbol, resting.side, fill);
        let told = EventKind::Fill { price, lots, trade: number };
        registry.tell(resting.id, symbol, told);
        let replied = match teller {
            Teller::Reply(reply) => reply.fill(fill),
            Teller::Stream => false,
        };
        if !replied {
            registry.tell(taker.id, symbol, told);
        }
        if lots == resting.open {
            self.remove(resting.side, resting.rank());
            registry.closed(resting.id);
        } else {
            self.lessen(resting.side, resting.rank(), lots);
        }
        let Slot { position, time } = slot;
        self.note(Trade { number, position, time, price, lots, taker: taker.side }, &registry.config);
    }

    /// Takes an order out of the book, and tells its trader why.
    pub(crate) fn end(&mut self, registry: &mut Registry, resting: &Resting, why: EventKind) {
        self.remove(resting.side, resting.rank());
        registry.closed(resting.id);
        registry.tell(resting.id, self.symbol, why);
    }

    /// Lets what is left of a taker rest.
    pub(crate) fn keep(&mut self, registry: &mut Registry, taker: &Taker, order: &Order, arrival: u64) {
        let Some(price) = taker.limit else { unreachable!("what rests has a limit") };
        let (until, handling) = (order.until(), order.handling);
        let (id, side, open, own) = (taker.id, taker.side, taker.left, taker.own);
        let resting = Resting { id, side, price, arrival, open, until, handling, own };
        self.rest(resting);
        let place = Place { symbol: self.symbol, side, shelf: Shelf::Resting, rank: resting.rank(), until };
        registry.opened(id, place);
    }

    /// Lets stops in that were reached, and all-or-none orders that can be filled, until nothing moves.
    pub(crate) fn settle(&mut self, registry: &mut Registry, slot: Slot, arrivals: &mut u64) {
        let mut looks = registry.config.looks_max;
        loop {
            if let Some((side, rank)) = self.reached() {
                let Some(waiting) = self.awake(side, rank) else { unreachable!("it was just seen") };
                registry.closed(waiting.id);
                registry.tell(waiting.id, self.symbol, EventKind::Triggered);
                *arrivals += 1;
                self.release(registry, slot, &waiting, *arrivals);
            } else if let Some((side, rank)) = self.fillable(&mut looks) {
                let Some(resting) = self.remove(side, rank) else { unreachable!("it was just seen") };
                registry.closed(resting.id);
                let Resting { id, side, price, open, own, .. } = resting;
                let mut taker = Taker { id, side, limit: Some(price), left: open, own };
                self.take(registry, slot, &mut taker, &mut Teller::Stream);
                assert!(taker.left.is_zero(), "it was found that all of it can be filled");
            } else {
                return;
            }
        }
    }

    /// An order whose stop was reached comes in.
    fn release(&mut self, registry: &mut Registry, slot: Slot, waiting: &Waiting, arrival: u64) {
        let (id, order) = (waiting.id, &waiting.order);
        let mut taker = Taker::of(id, order);
        let mut looks = registry.config.looks_max;
        if order.life == Life::FillOrKill && self.whole(&taker, &mut looks) != Whole::Can {
            return registry.tell(id, self.symbol, EventKind::Killed(taker.left));
        }
        let goes_on = self.take(registry, slot, &mut taker, &mut Teller::Stream);
        if taker.left.is_zero() {
            return;
        }
        if !goes_on {
            registry.tell(id, self.symbol, EventKind::MetOwn(taker.left));
        } else if order.price().is_some() && matches!(order.life, Life::Standing | Life::Until(_)) {
            self.keep(registry, &taker, order, arrival);
        } else {
            registry.tell(id, self.symbol, EventKind::Ended(taker.left));
        }
    }

    /// The first all-or-none order that can be filled wholly, as far as the looks that are left say.
    fn fillable(&self, looks: &mut u32) -> Option<(Side, Rank)> {
        for (side, rank) in self.patient.values() {
            let resting = self.shelves(*side).resting.get(rank)?;
            let Resting { id, side, price, open, own, .. } = *resting;
            match self.whole(&Taker { id, side, limit: Some(price), left: open, own }, looks) {
                Whole::Can => return Some((side, *rank)),
                Whole::Cannot => {}
                Whole::Unknown => return None,
            }
        }
        None
    }
}

/// The code of an operation whose order is done, but for what rests.
pub(crate) const fn done(left: Lots) -> Code {
    if left.is_zero() { Code::Filled } else { Code::Ended }
}
