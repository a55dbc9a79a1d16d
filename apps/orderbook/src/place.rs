//! Placing, cancelling and replacing: every refusal comes before the first change.

use crate::book::Book;
use crate::market::{Market, Resting, Waiting};
use crate::matching::{Taker, Teller, Whole, done};
use crate::order::{Delta, Handling, Life, Order, Pricing};
use crate::registry::{Place, Shelf};
use crate::reply::{Code, Reply};
use crate::units::{Lots, OrderId, Symbol, Ticks, TraderId};

impl Book {
    /// Places an order.
    pub(crate) fn place(&mut self, id: OrderId, order: &Order) -> Result<Reply, Code> {
        let market = self.market(order.symbol).ok_or(Code::NoSymbol)?;
        order.refusal(self.slot.time).map_or(Ok(()), Err)?;
        self.has_room(market, id, order)?;
        let waits =
            order.stop.is_some_and(|stop| !market.last.is_some_and(|last| order.side.reaches(last, stop)));
        let whole = if waits { Whole::Cannot } else { self.judge(market, &Taker::of(id, order), order)? };
        self.enter(id.trader)?;
        self.arrivals += 1;
        let reply = if waits { self.wait(id, order, self.arrivals) } else { self.come(id, order, whole) };
        self.settle(order.symbol);
        Ok(reply)
    }

    /// Ends an order.
    pub(crate) fn cancel(&mut self, id: OrderId) -> Result<Reply, Code> {
        let place = self.registry.places.get(&id).copied().ok_or(Code::NoOrder)?;
        self.enter(id.trader)?;
        self.take_out(id, &place);
        self.settle(place.symbol);
        Ok(Reply::of(Code::Cancelled))
    }

    /// Changes an order.
    pub(crate) fn replace(&mut self, id: OrderId, delta: Delta, price: Option<Ticks>) -> Result<Reply, Code> {
        let place = self.registry.places.get(&id).copied().ok_or(Code::NoOrder)?;
        let market = self.market(place.symbol).ok_or(Code::NoSymbol)?;
        let shelves = market.shelves(place.side);
        let reply = match place.shelf {
            Shelf::Resting => {
                let resting = shelves.resting.get(&place.rank).copied().ok_or(Code::NoOrder)?;
                self.replace_resting(&resting, &place, delta, price)?
            }
            Shelf::Waiting => {
                let waiting = shelves.waiting.get(&place.rank).copied().ok_or(Code::NoOrder)?;
                self.replace_waiting(&waiting, &place, delta, price)?
            }
        };
        self.settle(place.symbol);
        Ok(reply)
    }

    fn replace_resting(
        &mut self,
        resting: &Resting,
        place: &Place,
        delta: Delta,
        price: Option<Ticks>,
    ) -> Result<Reply, Code> {
        let Resting { id, side, handling, own, until, .. } = *resting;
        let (symbol, quantity) = (place.symbol, changed(resting.open, delta)?);
        let price = price.unwrap_or(resting.price);
        fits(price, quantity)?;
        if price == resting.price && !matches!(delta, Delta::More(_)) {
            self.enter(id.trader)?;
            if let Delta::Less(less) = delta
                && let Some(market) = self.markets.get_mut(usize::from(symbol.0))
            {
                market.lessen(side, place.rank, less);
            }
            return Ok(Reply::of(Code::Resting).with_left(quantity));
        }
        let life = until.map_or(Life::Standing, Life::Until);
        let order =
            Order { symbol, side, quantity, pricing: Pricing::Limit(price), life, handling, stop: None, own };
        let market = self.market(symbol).ok_or(Code::NoSymbol)?;
        let whole = self.judge(market, &Taker::of(id, &order), &order)?;
        self.enter(id.trader)?;
        self.take_out(id, place);
        self.arrivals += 1;
        Ok(self.come(id, &order, whole))
    }

    fn replace_waiting(
        &mut self,
        waiting: &Waiting,
        place: &Place,
        delta: Delta,
        price: Option<Ticks>,
    ) -> Result<Reply, Code> {
        let (id, former) = (waiting.id, &waiting.order);
        let quantity = changed(former.quantity, delta)?;
        let pricing = match (former.pricing, price) {
            (kept, None) => kept,
            (Pricing::Limit(_), Some(price)) => Pricing::Limit(price),
            (Pricing::Market, Some(_)) => return Err(Code::Contradictory),
        };
        let order = Order { quantity, pricing, ..*former };
        order.price().map_or(Ok(()), |price| fits(price, quantity))?;
        self.enter(id.trader)?;
        self.take_out(id, place);
        let keeps = pricing == former.pricing && !matches!(delta, Delta::More(_));
        let arrival = if keeps {
            waiting.arrival
        } else {
            self.arrivals += 1;
            self.arrivals
        };
        Ok(self.wait(id, &order, arrival))
    }

    /// Whether there is room for one more order.
    fn has_room(&self, market: &Market, id: OrderId, order: &Order) -> Result<(), Code> {
        let config = &self.config;
        if self.registry.places.contains_key(&id) {
            return Err(Code::Repeated);
        }
        if !order.may_stay() {
            return Ok(());
        }
        if market.orders() >= config.orders_max as usize {
            return Err(Code::SymbolFull);
        }
        if self.registry.orders(id.trader) >= config.trader_orders_max {
            return Err(Code::TraderFull);
        }
        let patient = order.handling == Handling::AllOrNone;
        let full = patient && market.patient.len() >= config.all_or_none_max as usize;
        if full { Err(Code::AllOrNoneFull) } else { Ok(()) }
    }

    /// Whether an order that must be filled wholly can be; refuses what may not come at all.
    fn judge(&self, market: &Market, taker: &Taker, order: &Order) -> Result<Whole, Code> {
        if order.handling == Handling::PostOnly && market.would_trade(taker) {
            return Err(Code::WouldTrade);
        }
        if order.life != Life::FillOrKill && order.handling != Handling::AllOrNone {
            return Ok(Whole::Cannot);
        }
        let mut looks = self.config.looks_max;
        match market.whole(taker, &mut looks) {
            Whole::Unknown => Err(Code::TooDeep),
            known => Ok(known),
        }
    }

    /// Lets a trader in; what a forgotten one bought and sold stays counted.
    fn enter(&mut self, trader: TraderId) -> Result<(), Code> {
        let forgotten = self.registry.enter(trader, self.arrivals + 1)?;
        for (symbol, account) in forgotten.into_iter().flatten() {
            if let Some(market) = self.markets.get_mut(usize::from(symbol.0)) {
                market.gone.absorb(&account);
            }
        }
        Ok(())
    }

    fn take_out(&mut self, id: OrderId, place: &Place) {
        let Some(market) = self.markets.get_mut(usize::from(place.symbol.0)) else { return };
        match place.shelf {
            Shelf::Resting => drop(market.remove(place.side, place.rank)),
            Shelf::Waiting => drop(market.awake(place.side, place.rank)),
        }
        self.registry.closed(id);
    }

    fn wait(&mut self, id: OrderId, order: &Order, arrival: u64) -> Reply {
        let waiting = Waiting { id, order: *order, arrival };
        let symbol: Symbol = order.symbol;
        let place = Place {
            symbol,
            side: order.side,
            shelf: Shelf::Waiting,
            rank: waiting.rank(),
            until: order.until(),
        };
        if let Some(market) = self.markets.get_mut(usize::from(symbol.0)) {
            market.wait(waiting);
            self.registry.opened(id, place);
        }
        Reply::of(Code::Waiting).with_left(order.quantity)
    }

    /// An order comes in: it trades, and what is left rests or ends.
    fn come(&mut self, id: OrderId, order: &Order, whole: Whole) -> Reply {
        let mut reply = Reply::of(Code::Resting);
        let arrival = self.arrivals;
        let Some(market) = self.markets.get_mut(usize::from(order.symbol.0)) else { return reply };
        if order.life == Life::FillOrKill && whole != Whole::Can {
            return Reply::of(Code::Killed);
        }
        let mut taker = Taker::of(id, order);
        let patient = order.handling == Handling::AllOrNone && whole != Whole::Can;
        let mut teller = Teller::Reply(&mut reply);
        let goes_on = patient || market.take(&mut self.registry, self.slot, &mut taker, &mut teller);
        let rests = goes_on && order.price().is_some() && !matches!(order.life, Life::Immediate);
        if taker.left.is_zero() || !rests {
            reply.code = done(taker.left);
            return reply;
        }
        market.keep(&mut self.registry, &taker, order, arrival);
        reply.left = taker.left;
        reply
    }
}

/// What is open after a change.
fn changed(open: Lots, delta: Delta) -> Result<Lots, Code> {
    match delta {
        Delta::Same => Ok(open),
        Delta::More(Lots(0)) | Delta::Less(Lots(0)) => Err(Code::Zero),
        Delta::More(more) => open.plus(more).ok_or(Code::TooLarge),
        Delta::Less(less) => open.minus(less).filter(|left| !left.is_zero()).ok_or(Code::TooMuch),
    }
}

fn fits(price: Ticks, quantity: Lots) -> Result<(), Code> {
    if price == Ticks(0) {
        return Err(Code::Zero);
    }
    price.times(quantity).map_or(Err(Code::TooLarge), |_| Ok(()))
}
