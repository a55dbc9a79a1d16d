//! Chop Chop over sockets: servers over HotStuff, brokers and clients in one process, ports drawn by the system.
#![expect(clippy::panic, reason = "a test says what it saw and fails")]

mod cluster;
mod delivery;
mod restarts;
