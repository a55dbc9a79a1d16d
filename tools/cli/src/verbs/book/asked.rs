//! Orders as people write them.

use clap::{Args, ValueEnum};
use synod_machine::Wall;
use synod_orderbook::{Handling, Life, Lots, Order, OwnMeets, Pricing, Side, Symbol, Ticks};

/// Which side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Way {
    /// Pays money for lots.
    Buy,
    /// Gives lots for money.
    Sell,
}

/// How long an order lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Lives {
    /// Until it is filled or cancelled.
    Standing,
    /// It trades at once, and the rest ends.
    Immediate,
    /// It trades wholly at once, or not at all.
    FillOrKill,
}

/// What happens where it would trade with the same trader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Own {
    /// The rest of the order that comes ends.
    #[value(name = "cancel-newest")]
    Newest,
    /// The order that rests ends.
    #[value(name = "cancel-oldest")]
    Oldest,
    /// Both end.
    #[value(name = "cancel-both")]
    Both,
}

/// What an order has beyond side, lots and price.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct OrderOptions {
    /// How long it lives.
    #[arg(long, value_enum, default_value = "standing")]
    life: Lives,
    /// It ends when the agreed time reaches this, in ms of Unix time.
    #[arg(long, value_name = "MS", conflicts_with = "life")]
    until: Option<u64>,
    /// It waits until all of it can be filled.
    #[arg(long, conflicts_with = "post_only")]
    all_or_none: bool,
    /// It is refused where it would trade at once.
    #[arg(long)]
    post_only: bool,
    /// It waits for a trade at this price or beyond.
    #[arg(long, value_name = "TICKS")]
    stop: Option<u64>,
    /// What happens where it would trade with an order of the same trader.
    #[arg(long, value_enum, default_value = "cancel-newest")]
    own: Own,
}

impl OrderOptions {
    pub(super) fn order(self, way: Way, quantity: Lots, price: Option<Ticks>, symbol: Symbol) -> Order {
        Order {
            symbol,
            side: match way {
                Way::Buy => Side::Buy,
                Way::Sell => Side::Sell,
            },
            quantity,
            pricing: price.map_or(Pricing::Market, Pricing::Limit),
            life: match (self.until, self.life) {
                (Some(until), _) => Life::Until(Wall(until)),
                (None, Lives::Standing) => Life::Standing,
                (None, Lives::Immediate) => Life::Immediate,
                (None, Lives::FillOrKill) => Life::FillOrKill,
            },
            handling: match (self.all_or_none, self.post_only) {
                (true, _) => Handling::AllOrNone,
                (false, true) => Handling::PostOnly,
                (false, false) => Handling::Plain,
            },
            stop: self.stop.map(Ticks),
            own: match self.own {
                Own::Newest => OwnMeets::CancelNewest,
                Own::Oldest => OwnMeets::CancelOldest,
                Own::Both => OwnMeets::CancelBoth,
            },
        }
    }
}
