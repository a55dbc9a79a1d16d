//! Questions about the book, and their answers.
//!
//! *The feed.* Levels and trades are numbered per symbol. Who has taken a [`Depth`] applies the changes behind its number
//! in order, each of which gives a level's total, and has the depth of a later slot; where `lost` is at or above the
//! number asked for, changes are missing and a new depth is needed. All-or-none orders are not displayed: they may rest
//! across the other side.

use synod_service::{Position, Wall};
use synod_wire::{List, wire};

use crate::order::{Handling, Order, Side};
use crate::reply::Code;
use crate::units::{Lots, OrderId, Symbol, Ticks, TraderId};

/// Most lines of an answer.
pub const LINES_MAX: usize = 256;

wire! {
    /// A question about the present state.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Question {
        /// The best level of each side.
        0 = Best(Symbol),
        /// The best levels of each side.
        1 = Depth {
            /// Of what.
            symbol: Symbol,
            /// How many of each side, at most 256.
            levels: u16,
        },
        /// Trades behind a number.
        2 = Tape {
            /// Of what.
            symbol: Symbol,
            /// The last one that is known.
            after: u64,
        },
        /// Changes of levels behind a number.
        3 = Feed {
            /// Of what.
            symbol: Symbol,
            /// The last one that is known.
            after: u64,
        },
        /// A trader's events behind a number.
        4 = Events {
            /// Whose.
            trader: TraderId,
            /// The last one that is known.
            after: u64,
        },
        /// An order that is open.
        5 = Order(OrderId),
        /// What a trader has bought and sold.
        6 = Account {
            /// Who.
            trader: TraderId,
            /// Of what.
            symbol: Symbol,
        },
    }

    /// A price and what is open there, all-or-none orders aside.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Level {
        /// The price.
        pub price: Ticks,
        /// The sum of what is open.
        pub lots: Lots,
        /// How many orders.
        pub orders: u32,
    }

    /// The levels of both sides, best first.
    #[derive(Clone, Debug, PartialEq, Eq, Default)]
    pub struct Depth {
        /// The slot of the state.
        pub position: Position,
        /// The number of the last change in it.
        pub change: u64,
        /// Whether each side ended before the number that was asked for.
        pub whole: bool,
        /// What buyers pay.
        pub bids: List<Level, LINES_MAX>,
        /// What sellers want.
        pub offers: List<Level, LINES_MAX>,
    }

    /// A change of a level.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Change {
        /// 1, 2, 3, ... of the symbol.
        pub number: u64,
        /// The slot.
        pub position: Position,
        /// Which side.
        pub side: Side,
        /// The level as it is behind the slot; without orders when it is gone.
        pub level: Level,
    }

    /// A trade.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Trade {
        /// 1, 2, 3, ... of the symbol.
        pub number: u64,
        /// The slot.
        pub position: Position,
        /// The agreed time.
        pub time: Wall,
        /// At what price.
        pub price: Ticks,
        /// How much.
        pub lots: Lots,
        /// The side of the order that came.
        pub taker: Side,
    }

    /// What happened to an order of a trader, beyond what replies say.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Event {
        /// Rises by one; a new trader begins at any number.
        pub number: u64,
        /// Of what.
        pub symbol: Symbol,
        /// Which order.
        pub request: u64,
        /// What.
        pub kind: EventKind,
    }

    /// What happened.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum EventKind {
        /// It traded.
        0 = Fill {
            /// At what price.
            price: Ticks,
            /// How much.
            lots: Lots,
            /// The trade's number.
            trade: u64,
        },
        /// Its stop was reached.
        1 = Triggered,
        /// Its time came.
        2 = Expired(Lots),
        /// Nobody took the rest.
        3 = Ended(Lots),
        /// It met another order of the same trader.
        4 = MetOwn(Lots),
        /// Behind its stop it could not be filled wholly.
        5 = Killed(Lots),
    }

    /// What a trader, or all that are forgotten, bought and sold of a symbol.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct Account {
        /// Lots bought.
        pub bought: u128,
        /// Lots sold.
        pub sold: u128,
        /// Money paid.
        pub paid: u128,
        /// Money received.
        pub received: u128,
    }

    /// An order that is open.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Open {
        /// It rests in the book.
        0 = Rests {
            /// On this side.
            side: Side,
            /// At this price.
            price: Ticks,
            /// So much of it.
            left: Lots,
            /// Whether it is to be filled wholly.
            handling: Handling,
        },
        /// It waits for its stop.
        1 = Waits(Order),
    }

    /// The answer to a question.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Answer {
        /// To [`Question::Best`] and [`Question::Depth`].
        0 = Depth(Depth),
        /// To [`Question::Tape`]; `lost` is the number of the last trade that is forgotten.
        1 = Tape {
            /// See above.
            lost: u64,
            /// The oldest first.
            trades: List<Trade, LINES_MAX>,
        },
        /// To [`Question::Feed`]; `lost` is the number of the last change that is forgotten.
        2 = Feed {
            /// See above.
            lost: u64,
            /// The oldest first.
            changes: List<Change, LINES_MAX>,
        },
        /// To [`Question::Events`]; `lost` is the number of the last event that is forgotten.
        3 = Events {
            /// See above.
            lost: u64,
            /// The oldest first.
            events: List<Event, LINES_MAX>,
        },
        /// To [`Question::Order`].
        4 = Order(Option<Open>),
        /// To [`Question::Account`].
        5 = Account(Account),
        /// Why there is none.
        6 = None(Code),
    }
}
