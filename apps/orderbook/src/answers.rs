//! Answers to questions, from the present state.

use synod_wire::List;

use crate::book::Book;
use crate::market::Market;
use crate::order::Side;
use crate::question::{Answer, Depth, LINES_MAX, Level, Open, Question};
use crate::registry::Shelf;
use crate::reply::Code;
use crate::units::{OrderId, Symbol, TraderId};

impl Book {
    /// Answers a question.
    #[must_use]
    pub fn answer(&self, question: &Question) -> Answer {
        match *question {
            Question::Best(symbol) => self.of(symbol, |market| Answer::Depth(self.depth(market, 1))),
            Question::Depth { symbol, levels } => {
                let levels = usize::from(levels).min(LINES_MAX);
                self.of(symbol, |market| Answer::Depth(self.depth(market, levels)))
            }
            Question::Tape { symbol, after } => self.of(symbol, |market| {
                let lost = market.trades - market.tape.len() as u64;
                let trades = market.tape.iter().filter(|trade| trade.number > after);
                Answer::Tape { lost, trades: first(trades) }
            }),
            Question::Feed { symbol, after } => self.of(symbol, |market| {
                let lost = market.changes - market.feed.len() as u64;
                let changes = market.feed.iter().filter(|change| change.number > after);
                Answer::Feed { lost, changes: first(changes) }
            }),
            Question::Events { trader, after } => self.events(trader, after),
            Question::Order(id) => Answer::Order(self.open(id)),
            Question::Account { trader, symbol } => self.of(symbol, |_| {
                let accounts = self.registry.traders.get(&trader).map(|trader| &trader.accounts);
                let account = accounts.and_then(|accounts| accounts.get(&symbol));
                Answer::Account(account.copied().unwrap_or_default())
            }),
        }
    }

    fn of(&self, symbol: Symbol, answer: impl FnOnce(&Market) -> Answer) -> Answer {
        self.market(symbol).map_or(Answer::None(Code::NoSymbol), answer)
    }

    fn depth(&self, market: &Market, levels: usize) -> Depth {
        let side = |side: Side| first(market.shelves(side).levels.values().take(levels));
        let whole = [Side::Buy, Side::Sell].iter().all(|side| market.shelves(*side).levels.len() <= levels);
        let (bids, offers): (List<Level, LINES_MAX>, _) = (side(Side::Buy), side(Side::Sell));
        Depth { position: self.slot.position, change: market.changes, whole, bids, offers }
    }

    fn events(&self, trader: TraderId, after: u64) -> Answer {
        let Some(trader) = self.registry.traders.get(&trader) else {
            return Answer::Events { lost: 0, events: List::default() };
        };
        let lost = trader.last - trader.events.len() as u64;
        Answer::Events { lost, events: first(trader.events.iter().filter(|event| event.number > after)) }
    }

    fn open(&self, id: OrderId) -> Option<Open> {
        let place = self.registry.places.get(&id)?;
        let shelves = self.market(place.symbol)?.shelves(place.side);
        match place.shelf {
            Shelf::Resting => {
                let resting = shelves.resting.get(&place.rank)?;
                let (side, price, left) = (resting.side, resting.price, resting.open);
                Some(Open::Rests { side, price, left, handling: resting.handling })
            }
            Shelf::Waiting => shelves.waiting.get(&place.rank).map(|waiting| Open::Waits(waiting.order)),
        }
    }
}

/// The first values, as many as an answer has lines.
fn first<'a, T: Copy + 'a>(values: impl Iterator<Item = &'a T>) -> List<T, LINES_MAX> {
    let mut list = List::default();
    for value in values {
        if list.push(*value).is_err() {
            break;
        }
    }
    list
}
