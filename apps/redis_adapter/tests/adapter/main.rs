//! What the adapter promises, in front of model servers that answer sets in an order of their own.

mod classes;
mod clock;
mod floor;
mod model;
mod replicas;
mod state;
