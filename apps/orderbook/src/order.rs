//! What a request asks: to place, cancel or replace an order, or a question.

use synod_service::Wall;
use synod_wire::wire;

use crate::question::Question;
use crate::reply::Code;
use crate::units::{LOTS_MAX, Lots, Symbol, Ticks};

wire! {
    /// Which side of the book.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Side {
        /// Pays money for lots.
        0 = Buy,
        /// Gives lots for money.
        1 = Sell,
    }

    /// At which prices an order trades.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Pricing {
        /// At any; what finds nobody ends.
        0 = Market,
        /// At this one or better.
        1 = Limit(Ticks),
    }

    /// How long an order lives.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Life {
        /// Until it is filled or cancelled.
        0 = Standing,
        /// It trades at once, and the rest ends.
        1 = Immediate,
        /// It trades wholly at once, or not at all.
        2 = FillOrKill,
        /// Until the agreed time has reached this.
        3 = Until(Wall),
    }

    /// What else is asked of a limit order that may rest.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Handling {
        /// Nothing.
        0 = Plain,
        /// It trades wholly or not at all, and waits for that.
        1 = AllOrNone,
        /// It is refused where it would trade at once.
        2 = PostOnly,
    }

    /// What happens where an order would trade with another one of the same trader.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum OwnMeets {
        /// The rest of the one that comes ends.
        0 = CancelNewest,
        /// The one that rests ends, and matching goes on.
        1 = CancelOldest,
        /// Both end.
        2 = CancelBoth,
    }

    /// An order as it is placed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Order {
        /// What.
        pub symbol: Symbol,
        /// Bought or sold.
        pub side: Side,
        /// How much.
        pub quantity: Lots,
        /// At which prices.
        pub pricing: Pricing,
        /// For how long.
        pub life: Life,
        /// What else.
        pub handling: Handling,
        /// Waits for a trade at this price or beyond: at or above for a buyer, at or below for a seller.
        pub stop: Option<Ticks>,
        /// Against trades with oneself.
        pub own: OwnMeets,
    }

    /// How a quantity changes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Delta {
        /// Not.
        0 = Same,
        /// It grows, and the order goes to the end of its level.
        1 = More(Lots),
        /// It shrinks, and the order keeps its place.
        2 = Less(Lots),
    }

    /// What a request asks. An order is named by the request that placed it; it is always the sender's own.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Operation {
        /// Places an order.
        0 = Place(Order),
        /// Ends an order.
        1 = Cancel(u64),
        /// Changes an order.
        2 = Replace {
            /// Which.
            request: u64,
            /// Its open quantity.
            delta: Delta,
            /// Its limit; a new one puts it at the end of its level and matches it.
            price: Option<Ticks>,
        },
        /// Asks, and changes nothing.
        3 = Ask(Question),
    }
}

impl Side {
    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Buy => Self::Sell,
            Self::Sell => Self::Buy,
        }
    }

    /// Whether an order of this side with this limit trades at `price`.
    #[must_use]
    pub const fn reaches(self, limit: Ticks, price: Ticks) -> bool {
        match self {
            Self::Buy => price.0 <= limit.0,
            Self::Sell => price.0 >= limit.0,
        }
    }
}

impl Order {
    /// A plain limit order that stands until it is filled.
    #[must_use]
    pub const fn limit(symbol: Symbol, side: Side, quantity: Lots, price: Ticks) -> Self {
        Self {
            symbol,
            side,
            quantity,
            pricing: Pricing::Limit(price),
            life: Life::Standing,
            handling: Handling::Plain,
            stop: None,
            own: OwnMeets::CancelNewest,
        }
    }

    /// The limit, if it has one.
    #[must_use]
    pub const fn price(&self) -> Option<Ticks> {
        match self.pricing {
            Pricing::Market => None,
            Pricing::Limit(price) => Some(price),
        }
    }

    /// When it ends by itself, if it does.
    #[must_use]
    pub const fn until(&self) -> Option<Wall> {
        match self.life {
            Life::Until(time) => Some(time),
            _ => None,
        }
    }

    /// Whether it may wait or rest, and so needs room in the book.
    #[must_use]
    pub const fn may_stay(&self) -> bool {
        let rests = matches!(self.pricing, Pricing::Limit(_));
        self.stop.is_some() || rests && matches!(self.life, Life::Standing | Life::Until(_))
    }

    /// Why it cannot be an order, whatever the book holds.
    pub(crate) fn refusal(&self, now: Wall) -> Option<Code> {
        let zero = Some(Ticks(0));
        if self.quantity.is_zero() || self.price() == zero || self.stop == zero {
            return Some(Code::Zero);
        }
        if self.is_contradictory() {
            return Some(Code::Contradictory);
        }
        if self.quantity > LOTS_MAX || self.price().is_some_and(|price| price.times(self.quantity).is_none())
        {
            return Some(Code::TooLarge);
        }
        self.until().is_some_and(|until| until <= now).then_some(Code::Late)
    }

    fn is_contradictory(&self) -> bool {
        let stays = matches!(self.life, Life::Standing | Life::Until(_));
        let limited = matches!(self.pricing, Pricing::Limit(_));
        let handled = self.handling != Handling::Plain;
        let endless = matches!(self.life, Life::Until(_)) && !limited && self.stop.is_none();
        endless || handled && (!limited || !stays || self.stop.is_some())
    }
}
