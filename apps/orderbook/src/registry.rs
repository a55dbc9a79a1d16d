//! What is known across symbols: traders, where their orders stand, and when orders end by themselves.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use synod_service::Wall;

use crate::config::Config;
use crate::order::Side;
use crate::question::{Account, Event, EventKind};
use crate::reply::{Code, Fill};
use crate::units::{OrderId, Symbol, TraderId};

/// Where an order stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) symbol: Symbol,
    pub(crate) side: Side,
    pub(crate) shelf: Shelf,
    /// Its place in the map of that shelf.
    pub(crate) rank: Rank,
    pub(crate) until: Option<Wall>,
}

/// Among which orders of a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shelf {
    /// Those that may trade.
    Resting,
    /// Those that wait for their stop.
    Waiting,
}

/// The order of orders: better prices first, then those that came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    pub(crate) worse: u64,
    pub(crate) arrival: u64,
}

/// A trader.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trader {
    /// Orders that are open.
    pub(crate) orders: u32,
    /// The arrival of its last operation.
    pub(crate) active: u64,
    /// The number of its last event.
    pub(crate) last: u64,
    pub(crate) events: VecDeque<Event>,
    pub(crate) accounts: BTreeMap<Symbol, Account>,
}

/// Traders, places, deadlines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registry {
    pub(crate) config: Config,
    pub(crate) traders: BTreeMap<TraderId, Trader>,
    pub(crate) places: BTreeMap<OrderId, Place>,
    pub(crate) deadlines: BTreeSet<(Wall, OrderId)>,
    /// Traders without orders, those that are idle longest first: they are forgotten first.
    pub(crate) idle: BTreeSet<(u64, TraderId)>,
    /// Events of all traders so far: a trader that comes back never repeats a number.
    pub(crate) events: u64,
}

impl Registry {
    /// Lets a trader in; gives the accounts of the one that is forgotten for it.
    pub(crate) fn enter(
        &mut self,
        id: TraderId,
        arrival: u64,
    ) -> Result<Option<BTreeMap<Symbol, Account>>, Code> {
        if let Some(trader) = self.traders.get_mut(&id) {
            if trader.orders == 0 {
                self.idle.remove(&(trader.active, id));
                self.idle.insert((arrival, id));
            }
            trader.active = arrival;
            return Ok(None);
        }
        let mut forgotten = None;
        if self.traders.len() >= self.config.traders_max as usize {
            let (_, oldest) = self.idle.pop_first().ok_or(Code::TradersFull)?;
            forgotten = self.traders.remove(&oldest).map(|trader| trader.accounts);
        }
        let last = self.events;
        self.traders.insert(id, Trader { active: arrival, last, ..Trader::default() });
        self.idle.insert((arrival, id));
        Ok(forgotten)
    }

    /// How many orders a trader has open.
    pub(crate) fn orders(&self, trader: TraderId) -> u32 {
        self.traders.get(&trader).map_or(0, |trader| trader.orders)
    }

    /// An order stands somewhere now.
    pub(crate) fn opened(&mut self, id: OrderId, place: Place) {
        if let Some(until) = place.until {
            self.deadlines.insert((until, id));
        }
        let former = self.places.insert(id, place);
        assert!(former.is_none(), "an order stands in one place");
        if let Some(trader) = self.traders.get_mut(&id.trader) {
            if trader.orders == 0 {
                self.idle.remove(&(trader.active, id.trader));
            }
            trader.orders += 1;
        }
    }

    /// An order is gone.
    pub(crate) fn closed(&mut self, id: OrderId) {
        let Some(place) = self.places.remove(&id) else { unreachable!("an order in the book has a place") };
        if let Some(until) = place.until {
            self.deadlines.remove(&(until, id));
        }
        if let Some(trader) = self.traders.get_mut(&id.trader) {
            trader.orders -= 1;
            if trader.orders == 0 {
                self.idle.insert((trader.active, id.trader));
            }
        }
    }

    /// Tells a trader; at its bound the oldest event is forgotten.
    pub(crate) fn tell(&mut self, id: OrderId, symbol: Symbol, kind: EventKind) {
        let Some(trader) = self.traders.get_mut(&id.trader) else { return };
        self.events += 1;
        trader.last += 1;
        if trader.events.len() >= self.config.events_max as usize {
            trader.events.pop_front();
        }
        trader.events.push_back(Event { number: trader.last, symbol, request: id.request, kind });
    }

    /// Books a trade for one of its sides.
    pub(crate) fn book(&mut self, trader: TraderId, symbol: Symbol, side: Side, fill: Fill) {
        let Some(money) = fill.price.times(fill.lots) else {
            unreachable!("an order whose money does not fit was refused")
        };
        let Some(trader) = self.traders.get_mut(&trader) else { return };
        let account = trader.accounts.entry(symbol).or_default();
        account.add(side, fill.lots.0.into(), money.0.into());
    }
}

impl Account {
    fn add(&mut self, side: Side, lots: u128, money: u128) {
        let (counted, paid) = match side {
            Side::Buy => (&mut self.bought, &mut self.paid),
            Side::Sell => (&mut self.sold, &mut self.received),
        };
        *counted += lots;
        *paid += money;
    }

    /// Adds the account of somebody who is forgotten.
    pub(crate) fn absorb(&mut self, other: &Self) {
        self.add(Side::Buy, other.bought, other.paid);
        self.add(Side::Sell, other.sold, other.received);
    }
}
