//! A key-value store with Redis commands, deterministic and total.
