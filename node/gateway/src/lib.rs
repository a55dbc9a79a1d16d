//! RESP and HTTP listeners, metrics and health.

pub mod resp;
