//! Formats of what travels and of what is kept.

use crate::market::{Resting, Waiting};
use crate::snapshot::Header;
use crate::{
    Account, Answer, Change, Code, Config, Delta, Depth, Event, EventKind, Fill, Handling, Level, Life, Lots,
    Open, Operation, Order, OrderId, OwnMeets, Pricing, Question, Reply, Side, Symbol, Ticks, Trade,
    TraderId,
};

synod_wire::conformance!(
    Account, Answer, Change, Code, Config, Delta, Depth, Event, EventKind, Fill, Handling, Header, Level,
    Life, Lots, Open, Operation, Order, OrderId, OwnMeets, Pricing, Question, Reply, Resting, Side, Symbol,
    Ticks, Trade, TraderId, Waiting,
);
