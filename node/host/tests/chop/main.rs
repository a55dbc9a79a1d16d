//! Chop Chop over sockets: servers over HotStuff or uBFT, brokers and clients in one process, ports drawn by the system.
#![expect(clippy::panic, reason = "a test says what it saw and fails")]

mod cluster;
mod delivery;
mod over_ubft;
mod restarts;
