//! The roles of Chop Chop: a server with its store, a broker, a client.

pub mod broker;
mod cast;
pub mod client;
mod order;
pub mod server;
