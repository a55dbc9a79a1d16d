//! RESP and HTTP listeners, metrics and health.
