//! A limit order book for several symbols (uBFT's fourth application, in the place of Liquibook; paper, section 7).
//!
//! *What it gives.* Limit and market orders; immediate-or-cancel, fill-or-kill, all-or-none with deferred matching, stops,
//! post-only, good until an agreed time; cancel and replace; three ways to end trades with oneself; depth, tape, an
//! incremental feed per slot, a stream of events per trader, accounts.
//!
//! *Rules.* Better prices first, of equal prices who came first, at the price of the order that rests. Prices are ticks,
//! quantities lots, both integers of their own type; money is their checked product. An order is named by the session and
//! the request that placed it, so nobody names another's. Time is the agreed time of the slot, and never goes back.
//!
//! *Choices where venues differ.* A smaller quantity keeps an order's place; a larger one or a new price does not, and is
//! matched. All-or-none orders are not displayed and may rest across the other side; nothing else crosses. A stop looks at
//! the last price once the operation that traded is done. Whether an order can be filled wholly is what the same
//! pass from best to worst would give, not the best choice of orders. The policy of the order that comes decides about
//! trades with oneself.
//!
//! *Bounds.* [`Config`]; each bound has a [`Code`] or forgets the oldest, and forgetting shows in the numbers of what is
//! left. An operation looks at most at `looks_max` orders to learn whether one can be filled wholly, once more per
//! operation for what it set free; all else is paid for by the orders it fills.
//!
//! *Invariants.* Displayed orders do not cross; a level is the sum of its orders; per symbol what was bought was sold and what
//! was paid was received; a restored state is the one that was cut, byte for byte.

mod answers;
mod book;
mod config;
mod invariants;
mod market;
mod matching;
mod order;
mod place;
mod question;
mod registry;
mod reply;
mod snapshot;
#[cfg(test)]
mod tests;
mod units;

pub use book::{Book, OPERATION_BYTES_MAX};
pub use config::Config;
pub use order::{Delta, Handling, Life, Operation, Order, OwnMeets, Pricing, Side};
pub use question::{
    Account, Answer, Change, Depth, Event, EventKind, LINES_MAX, Level, Open, Question, Trade,
};
pub use reply::{Code, FILLS_MAX, Fill, REPLY_BYTES_MAX, REPLY_BYTES_MIN, Reply};
pub use units::{LOTS_MAX, Lots, Money, OrderId, Symbol, Ticks, TraderId};
