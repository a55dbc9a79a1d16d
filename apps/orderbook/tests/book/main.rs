//! What the order book promises, against a naive book that shares no code with it.

mod bounds;
mod feed;
mod floor;
mod naive;
mod properties;
mod rules;
mod state;
