//! One symbol: what rests, what waits, what was traded.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use synod_service::{Position, Wall};
use synod_wire::wire;

use crate::config::Config;
use crate::order::{Handling, Order, OwnMeets, Side};
use crate::question::{Account, Change, Level, Trade};
use crate::registry::Rank;
use crate::units::{Lots, OrderId, Symbol, Ticks};

wire! {
    /// An order that rests in the book.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Resting {
        pub(crate) id: OrderId,
        pub(crate) side: Side,
        pub(crate) price: Ticks,
        pub(crate) arrival: u64,
        pub(crate) open: Lots,
        pub(crate) until: Option<Wall>,
        pub(crate) handling: Handling,
        pub(crate) own: OwnMeets,
    }

    /// An order that waits for its stop.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Waiting {
        pub(crate) id: OrderId,
        pub(crate) order: Order,
        pub(crate) arrival: u64,
    }
}

impl Resting {
    pub(crate) const fn rank(&self) -> Rank {
        rank(self.side, self.price, self.arrival)
    }

    /// Whether it stands in what everybody sees.
    pub(crate) fn is_displayed(&self) -> bool {
        self.handling != Handling::AllOrNone
    }
}

impl Waiting {
    /// The rank of a stop: the one that is reached first comes first, which is the lowest for buyers.
    pub(crate) fn rank(&self) -> Rank {
        let stop = self.order.stop.map_or(0, |stop| stop.0);
        let worse = if self.order.side == Side::Buy { stop } else { u64::MAX - stop };
        Rank { worse, arrival: self.arrival }
    }

    /// Whether a trade at `last` sets it free.
    pub(crate) fn is_reached(&self, last: Ticks) -> bool {
        self.order.stop.is_some_and(|stop| self.order.side.reaches(last, stop))
    }
}

const fn rank(side: Side, price: Ticks, arrival: u64) -> Rank {
    let worse = match side {
        Side::Buy => u64::MAX - price.0,
        Side::Sell => price.0,
    };
    Rank { worse, arrival }
}

/// The orders of one side.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shelves {
    pub(crate) resting: BTreeMap<Rank, Resting>,
    pub(crate) waiting: BTreeMap<Rank, Waiting>,
    /// What is displayed at each price, under its rank without arrival.
    pub(crate) levels: BTreeMap<u64, Level>,
}

/// One symbol.
#[derive(Clone, Debug)]
pub(crate) struct Market {
    pub(crate) symbol: Symbol,
    buyers: Shelves,
    sellers: Shelves,
    /// All-or-none orders that rest, in the order in which they came.
    pub(crate) patient: BTreeMap<u64, (Side, Rank)>,
    /// The price of the last trade.
    pub(crate) last: Option<Ticks>,
    /// Trades so far.
    pub(crate) trades: u64,
    pub(crate) tape: VecDeque<Trade>,
    /// Changes so far.
    pub(crate) changes: u64,
    pub(crate) feed: VecDeque<Change>,
    /// Levels that the present slot changed.
    touched: BTreeSet<(Side, Ticks)>,
    /// What traders that are forgotten bought and sold.
    pub(crate) gone: Account,
}

impl Market {
    pub(crate) fn new(symbol: Symbol) -> Self {
        Self {
            symbol,
            buyers: Shelves::default(),
            sellers: Shelves::default(),
            patient: BTreeMap::new(),
            last: None,
            trades: 0,
            tape: VecDeque::new(),
            changes: 0,
            feed: VecDeque::new(),
            touched: BTreeSet::new(),
            gone: Account::default(),
        }
    }

    pub(crate) const fn shelves(&self, side: Side) -> &Shelves {
        match side {
            Side::Buy => &self.buyers,
            Side::Sell => &self.sellers,
        }
    }

    const fn shelves_mut(&mut self, side: Side) -> &mut Shelves {
        match side {
            Side::Buy => &mut self.buyers,
            Side::Sell => &mut self.sellers,
        }
    }

    /// Orders that rest or wait.
    pub(crate) fn orders(&self) -> usize {
        [&self.buyers, &self.sellers].iter().map(|side| side.resting.len() + side.waiting.len()).sum()
    }

    /// Puts an order into the book.
    pub(crate) fn rest(&mut self, resting: Resting) {
        assert!(!resting.open.is_zero(), "what rests is open");
        if resting.is_displayed() {
            let lots = resting.open;
            self.display(resting.side, resting.price, |level| {
                level.lots.0 += lots.0;
                level.orders += 1;
            });
        } else {
            self.patient.insert(resting.arrival, (resting.side, resting.rank()));
        }
        let former = self.shelves_mut(resting.side).resting.insert(resting.rank(), resting);
        assert!(former.is_none(), "arrivals are unique");
    }

    /// Takes an order out of the book.
    pub(crate) fn remove(&mut self, side: Side, rank: Rank) -> Option<Resting> {
        let resting = self.shelves_mut(side).resting.remove(&rank)?;
        if resting.is_displayed() {
            self.display(side, resting.price, |level| {
                level.lots.0 -= resting.open.0;
                level.orders -= 1;
            });
        } else {
            self.patient.remove(&resting.arrival);
        }
        Some(resting)
    }

    /// Takes lots away from an order that keeps its place and some of them.
    pub(crate) fn lessen(&mut self, side: Side, rank: Rank, less: Lots) {
        let Some(resting) = self.shelves_mut(side).resting.get_mut(&rank) else { return };
        assert!(less < resting.open, "an order without lots is removed");
        resting.open.0 -= less.0;
        let resting = *resting;
        if resting.is_displayed() {
            self.display(side, resting.price, |level| level.lots.0 -= less.0);
        }
    }

    pub(crate) fn wait(&mut self, waiting: Waiting) {
        self.shelves_mut(waiting.order.side).waiting.insert(waiting.rank(), waiting);
    }

    pub(crate) fn awake(&mut self, side: Side, rank: Rank) -> Option<Waiting> {
        self.shelves_mut(side).waiting.remove(&rank)
    }

    /// The stop that the last trade reached: of each side the first one, of both the one that came first.
    pub(crate) fn reached(&self) -> Option<(Side, Rank)> {
        let last = self.last?;
        let first = |side: Side| {
            let (rank, waiting) = self.shelves(side).waiting.first_key_value()?;
            waiting.is_reached(last).then_some((side, *rank))
        };
        [first(Side::Buy), first(Side::Sell)].into_iter().flatten().min_by_key(|(_, rank)| rank.arrival)
    }

    fn display(&mut self, side: Side, price: Ticks, change: impl FnOnce(&mut Level)) {
        self.touched.insert((side, price));
        let worse = rank(side, price, 0).worse;
        let levels = &mut self.shelves_mut(side).levels;
        let level = levels.entry(worse).or_insert(Level { price, lots: Lots::ZERO, orders: 0 });
        change(level);
        if level.orders == 0 {
            assert!(level.lots.is_zero(), "a level without orders has no lots");
            levels.remove(&worse);
        }
    }

    /// Notes a trade; the oldest is forgotten at the bound.
    pub(crate) fn note(&mut self, trade: Trade, config: &Config) {
        self.last = Some(trade.price);
        self.trades = trade.number;
        if self.tape.len() >= config.tape_max as usize {
            self.tape.pop_front();
        }
        self.tape.push_back(trade);
    }

    /// Tells what the slot changed; the oldest changes are forgotten at the bound.
    pub(crate) fn publish(&mut self, position: Position, config: &Config) {
        for (side, price) in std::mem::take(&mut self.touched) {
            let none = Level { price, lots: Lots::ZERO, orders: 0 };
            let level = self.shelves(side).levels.get(&rank(side, price, 0).worse).copied().unwrap_or(none);
            self.changes += 1;
            if self.feed.len() >= config.feed_max as usize {
                self.feed.pop_front();
            }
            self.feed.push_back(Change { number: self.changes, position, side, level });
        }
    }

    /// Forgets which levels a restore touched.
    pub(crate) fn settled(&mut self) {
        self.touched.clear();
    }

    /// Whether the present slot changed something.
    pub(crate) fn is_settled(&self) -> bool {
        self.touched.is_empty()
    }
}
