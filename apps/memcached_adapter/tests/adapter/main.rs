//! What the adapter promises, in front of a model server.

mod commands;
mod floor;
mod model;
mod replicas;
