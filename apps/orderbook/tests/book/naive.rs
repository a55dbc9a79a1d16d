//! A book as one would write it down: lists that are searched, and copies of the world to see what would happen.

use std::collections::BTreeMap;

use synod_orderbook::{
    Code, Delta, EventKind, Fill, Handling, Life, Lots, Operation, Order, OwnMeets, Pricing, Side, Ticks,
};

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) trader: u64,
    pub(crate) request: u64,
    pub(crate) order: Order,
    pub(crate) open: u64,
    pub(crate) came: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Pit {
    pub(crate) resting: Vec<Entry>,
    pub(crate) stops: Vec<Entry>,
    pub(crate) tape: Vec<(Side, Fill)>,
}

/// What came of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) code: Code,
    pub(crate) left: u64,
    pub(crate) fills: Vec<Fill>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Naive {
    pub(crate) time: u64,
    came: u64,
    pub(crate) pits: BTreeMap<u16, Pit>,
    pub(crate) told: BTreeMap<u64, Vec<(u16, u64, EventKind)>>,
    /// Lots bought less lots sold, and money received less money paid.
    pub(crate) net: BTreeMap<(u64, u16), (i128, i128)>,
}

fn price(entry: &Entry) -> u64 {
    match entry.order.pricing {
        Pricing::Limit(Ticks(price)) => price,
        Pricing::Market if entry.order.side == Side::Buy => u64::MAX,
        Pricing::Market => 0,
    }
}

fn crosses(taker: &Entry, maker: &Entry) -> bool {
    match taker.order.side {
        Side::Buy => maker.order.side == Side::Sell && price(maker) <= price(taker),
        Side::Sell => maker.order.side == Side::Buy && price(maker) >= price(taker),
    }
}

const STAYS: fn(&Order) -> bool = |order| matches!(order.life, Life::Standing | Life::Until(_));

impl Naive {
    /// The clock moves: what is too old ends.
    pub(crate) fn clock(&mut self, time: u64) {
        self.time = time;
        let mut old = Vec::new();
        for (symbol, pit) in &self.pits {
            for entry in pit.resting.iter().chain(&pit.stops) {
                if let Life::Until(until) = entry.order.life
                    && until.0 <= time
                {
                    old.push((until.0, entry.trader, entry.request, *symbol, entry.open));
                }
            }
        }
        old.sort_unstable();
        for (_, trader, request, symbol, open) in &old {
            self.drop_order(*symbol, *trader, *request);
            self.tell(*trader, *symbol, *request, EventKind::Expired(Lots(*open)));
        }
        let mut symbols: Vec<u16> = old.iter().map(|order| order.3).collect();
        symbols.dedup();
        symbols.sort_unstable();
        symbols.dedup();
        symbols.into_iter().for_each(|symbol| self.settle(symbol));
    }

    pub(crate) fn perform(&mut self, trader: u64, request: u64, operation: &Operation) -> Outcome {
        match *operation {
            Operation::Place(order) => self.place(trader, request, order),
            Operation::Cancel(which) => match self.find(trader, which) {
                None => only(Code::NoOrder),
                Some((symbol, _, _)) => {
                    self.drop_order(symbol, trader, which);
                    self.settle(symbol);
                    only(Code::Cancelled)
                }
            },
            Operation::Replace { request: which, delta, price } => self.replace(trader, which, delta, price),
            Operation::Ask(_) => unreachable!("questions are asked elsewhere"),
        }
    }

    fn place(&mut self, trader: u64, request: u64, order: Order) -> Outcome {
        if let Some(code) = self.nonsense(&order) {
            return only(code);
        }
        let pit = self.pits.entry(order.symbol.0).or_default();
        let last = pit.tape.last().map(|(_, fill)| fill.price.0);
        let waits = match (order.stop, order.side, last) {
            (None, _, _) => false,
            (Some(_), _, None) => true,
            (Some(stop), Side::Buy, Some(last)) => last < stop.0,
            (Some(stop), Side::Sell, Some(last)) => last > stop.0,
        };
        let entry = Entry { trader, request, order, open: order.quantity.0, came: self.came + 1 };
        if !waits && order.handling == Handling::PostOnly && self.meets_somebody(&entry) {
            return only(Code::WouldTrade);
        }
        self.came += 1;
        let outcome = if waits {
            let left = entry.open;
            self.pits.entry(order.symbol.0).or_default().stops.push(entry);
            Outcome { code: Code::Waiting, left, fills: Vec::new() }
        } else {
            self.come(entry)
        };
        self.settle(order.symbol.0);
        outcome
    }

    fn nonsense(&self, order: &Order) -> Option<Code> {
        if order.symbol.0 > 1 {
            return Some(Code::NoSymbol);
        }
        let limit = match order.pricing {
            Pricing::Limit(price) => Some(price.0),
            Pricing::Market => None,
        };
        if order.quantity.0 == 0 || limit == Some(0) || order.stop == Some(Ticks(0)) {
            return Some(Code::Zero);
        }
        let special = order.handling != Handling::Plain;
        let until = match order.life {
            Life::Until(until) => Some(until.0),
            _ => None,
        };
        if special && (limit.is_none() || !STAYS(order) || order.stop.is_some())
            || until.is_some() && limit.is_none() && order.stop.is_none()
        {
            return Some(Code::Contradictory);
        }
        (until.is_some_and(|until| until <= self.time)).then_some(Code::Late)
    }

    fn replace(&mut self, trader: u64, request: u64, delta: Delta, price: Option<Ticks>) -> Outcome {
        let Some((symbol, is_stop, entry)) = self.find(trader, request) else { return only(Code::NoOrder) };
        let open = match delta {
            Delta::Same => entry.open,
            Delta::More(Lots(0)) | Delta::Less(Lots(0)) => return only(Code::Zero),
            Delta::More(more) => entry.open + more.0,
            Delta::Less(less) if less.0 >= entry.open => return only(Code::TooMuch),
            Delta::Less(less) => entry.open - less.0,
        };
        if is_stop && price.is_some() && entry.order.pricing == Pricing::Market {
            return only(Code::Contradictory);
        }
        let pricing = price.map_or(entry.order.pricing, Pricing::Limit);
        if price == Some(Ticks(0)) {
            return only(Code::Zero);
        }
        let behind = pricing != entry.order.pricing || matches!(delta, Delta::More(_));
        let mut changed = entry.clone();
        changed.open = open;
        changed.order.pricing = pricing;
        changed.order.quantity = Lots(open);
        if !is_stop && behind && entry.order.handling == Handling::PostOnly && self.meets_somebody(&changed) {
            return only(Code::WouldTrade);
        }
        if behind {
            self.came += 1;
            changed.came = self.came;
        }
        let pit = self.pits.entry(symbol).or_default();
        let outcome = if is_stop {
            let place = pit.stops.iter_mut().find(|stop| stop.request == request && stop.trader == trader);
            *place.expect("it was found") = changed;
            Outcome { code: Code::Waiting, left: open, fills: Vec::new() }
        } else if behind {
            self.drop_order(symbol, trader, request);
            self.come(changed)
        } else {
            let place =
                pit.resting.iter_mut().find(|order| order.request == request && order.trader == trader);
            *place.expect("it was found") = changed;
            Outcome { code: Code::Resting, left: open, fills: Vec::new() }
        };
        self.settle(symbol);
        outcome
    }

    fn find(&self, trader: u64, request: u64) -> Option<(u16, bool, Entry)> {
        let is = |entry: &&Entry| entry.trader == trader && entry.request == request;
        self.pits.iter().find_map(|(symbol, pit)| {
            let rests = pit.resting.iter().find(is).map(|entry| (*symbol, false, entry.clone()));
            rests.or_else(|| pit.stops.iter().find(is).map(|entry| (*symbol, true, entry.clone())))
        })
    }

    fn drop_order(&mut self, symbol: u16, trader: u64, request: u64) {
        let pit = self.pits.entry(symbol).or_default();
        pit.resting.retain(|entry| (entry.trader, entry.request) != (trader, request));
        pit.stops.retain(|entry| (entry.trader, entry.request) != (trader, request));
    }

    fn tell(&mut self, trader: u64, symbol: u16, request: u64, kind: EventKind) {
        self.told.entry(trader).or_default().push((symbol, request, kind));
    }

    /// The orders that cross, best first.
    fn crossed(&self, taker: &Entry) -> Vec<Entry> {
        let Some(pit) = self.pits.get(&taker.order.symbol.0) else { return Vec::new() };
        let mut crossed: Vec<Entry> =
            pit.resting.iter().filter(|maker| crosses(taker, maker)).cloned().collect();
        crossed.sort_by_key(|maker| {
            let price = i128::from(price(maker));
            (if taker.order.side == Side::Buy { price } else { -price }, maker.came)
        });
        crossed
    }

    fn meets_somebody(&self, taker: &Entry) -> bool {
        self.crossed(taker).iter().any(|maker| {
            maker.trader == taker.trader
                || maker.order.handling != Handling::AllOrNone
                || maker.open <= taker.open
        })
    }

    /// Whether a copy of the world in which it came has all of it filled.
    fn would_fill(&self, taker: &Entry) -> bool {
        let mut copy = self.clone();
        let mut other = taker.clone();
        copy.trade(&mut other, &mut Vec::new());
        other.open == 0
    }

    /// Trades; false when the rest ends because it met its own.
    fn trade(&mut self, taker: &mut Entry, fills: &mut Vec<Fill>) -> bool {
        let symbol = taker.order.symbol.0;
        for maker in self.crossed(taker) {
            if taker.open == 0 {
                break;
            }
            if maker.trader == taker.trader {
                if taker.order.own != OwnMeets::CancelNewest {
                    self.drop_order(symbol, maker.trader, maker.request);
                    self.tell(maker.trader, symbol, maker.request, EventKind::MetOwn(Lots(maker.open)));
                }
                if taker.order.own != OwnMeets::CancelOldest {
                    return false;
                }
                continue;
            }
            if maker.order.handling == Handling::AllOrNone && maker.open > taker.open {
                continue;
            }
            self.fill(taker, &maker, fills);
        }
        true
    }

    fn fill(&mut self, taker: &mut Entry, maker: &Entry, fills: &mut Vec<Fill>) {
        let symbol = taker.order.symbol.0;
        let lots = taker.open.min(maker.open);
        let fill = Fill { price: Ticks(price(maker)), lots: Lots(lots) };
        taker.open -= lots;
        let pit = self.pits.entry(symbol).or_default();
        pit.tape.push((taker.order.side, fill));
        let told = EventKind::Fill { price: fill.price, lots: fill.lots, trade: pit.tape.len() as u64 };
        for order in &mut pit.resting {
            if order.trader == maker.trader && order.request == maker.request {
                order.open -= lots;
            }
        }
        pit.resting.retain(|order| order.open > 0);
        let money = i128::from(lots) * i128::from(fill.price.0);
        for (entry, other) in [(&*taker, maker), (maker, &*taker)] {
            let sign = if entry.order.side == Side::Buy { 1 } else { -1 };
            assert_ne!(entry.trader, other.trader, "nobody trades with oneself");
            let net = self.net.entry((entry.trader, symbol)).or_default();
            *net = (net.0 + sign * i128::from(lots), net.1 - sign * money);
        }
        self.tell(maker.trader, symbol, maker.request, told);
        fills.push(fill);
        if fills.len() > 16 {
            self.tell(taker.trader, symbol, taker.request, told);
        }
    }

    fn come(&mut self, mut entry: Entry) -> Outcome {
        let mut fills = Vec::new();
        let order = entry.order;
        let whole = order.life == Life::FillOrKill || order.handling == Handling::AllOrNone;
        let mut goes_on = true;
        if !whole || self.would_fill(&entry) {
            goes_on = self.trade(&mut entry, &mut fills);
        } else if order.life == Life::FillOrKill {
            return only(Code::Killed);
        }
        let left = entry.open;
        if left == 0 {
            return Outcome { code: Code::Filled, left, fills };
        }
        if goes_on && STAYS(&order) && order.pricing != Pricing::Market {
            self.pits.entry(order.symbol.0).or_default().resting.push(entry);
            return Outcome { code: Code::Resting, left, fills };
        }
        Outcome { code: Code::Ended, left: 0, fills }
    }

    fn settle(&mut self, symbol: u16) {
        loop {
            if let Some(stop) = self.reached(symbol) {
                self.drop_order(symbol, stop.trader, stop.request);
                self.tell(stop.trader, symbol, stop.request, EventKind::Triggered);
                self.came += 1;
                self.release(Entry { came: self.came, ..stop });
                continue;
            }
            let pit = self.pits.entry(symbol).or_default().clone();
            let mut patient: Vec<Entry> =
                pit.resting.into_iter().filter(|order| order.order.handling == Handling::AllOrNone).collect();
            patient.sort_by_key(|order| order.came);
            let Some(mut order) = patient.into_iter().find(|order| self.would_fill(order)) else { return };
            self.drop_order(symbol, order.trader, order.request);
            self.quietly(&mut order);
        }
    }

    /// Trades with nobody waiting for a reply: every fill is told.
    fn quietly(&mut self, entry: &mut Entry) -> bool {
        let mut padding = vec![Fill { price: Ticks(0), lots: Lots(0) }; 16];
        self.trade(entry, &mut padding)
    }

    fn reached(&mut self, symbol: u16) -> Option<Entry> {
        let pit = self.pits.entry(symbol).or_default();
        let last = pit.tape.last()?.1.price.0;
        let stop = |entry: &Entry| entry.order.stop.map_or(0, |stop| stop.0);
        let buys = pit.stops.iter().filter(|entry| entry.order.side == Side::Buy && stop(entry) <= last);
        let buy = buys.min_by_key(|entry| (stop(entry), entry.came));
        let sells = pit.stops.iter().filter(|entry| entry.order.side == Side::Sell && stop(entry) >= last);
        let sell = sells.min_by_key(|entry| (u64::MAX - stop(entry), entry.came));
        [buy, sell].into_iter().flatten().min_by_key(|entry| entry.came).cloned()
    }

    fn release(&mut self, mut entry: Entry) {
        let (order, symbol) = (entry.order, entry.order.symbol.0);
        let why = if order.life == Life::FillOrKill && !self.would_fill(&entry) {
            EventKind::Killed(Lots(entry.open))
        } else if !self.quietly(&mut entry) {
            EventKind::MetOwn(Lots(entry.open))
        } else if STAYS(&order) && order.pricing != Pricing::Market {
            if entry.open > 0 {
                self.pits.entry(symbol).or_default().resting.push(entry);
            }
            return;
        } else {
            EventKind::Ended(Lots(entry.open))
        };
        if entry.open > 0 {
            self.tell(entry.trader, symbol, entry.request, why);
        }
    }
}

const fn only(code: Code) -> Outcome {
    Outcome { code, left: 0, fills: Vec::new() }
}
