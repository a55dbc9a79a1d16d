//! What RESP costs per command: `cargo bench -p synod-gateway`. Budget: 300 ns to parse a SET.
//!
//! Prints nanoseconds per command: the parser alone, and a connection from bytes to operations to reply bytes,
//! in bursts of 16.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use synod_gateway::resp::{Answer, Connection, Limits, Now, Parser, Settings, Store, Trust};

/// Commands per burst.
const BURST: usize = 16;
/// Bursts per measurement.
const BURSTS: usize = 1 << 16;

const SET: &[u8] = b"*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000042\r\n$3\r\nxxx\r\n";

fn report(name: &str, start: Instant) {
    println!("{name:<12} {:>6} ns", start.elapsed().as_nanos() / (BURST * BURSTS) as u128);
}

fn main() {
    let burst = SET.repeat(BURST);
    let mut parser = Parser::new(Limits::default());
    let start = Instant::now();
    for _ in 0..BURSTS {
        parser.feed(&burst);
        while let Ok(Some(arguments)) = parser.next(true) {
            black_box(arguments.len());
        }
    }
    report("parse", start);

    let settings = Settings {
        store: Store::Keys,
        limits: Limits::default(),
        password: None,
        trust: Trust::Gateway,
        version: String::new(),
        port: 0,
    };
    let now = Now { monotonic_ms: 0, wall_us: 0 };
    let mut connection = Connection::new(Arc::new(settings), 1);
    let start = Instant::now();
    for _ in 0..BURSTS {
        connection.receive(&burst, now);
        for ask in connection.take_asks() {
            connection.answer(ask.slot, Answer::Reply(bytes::Bytes::from_static(b"+OK\r\n")), now);
        }
        let count = black_box(connection.output().len());
        connection.sent(count, now);
    }
    report("connection", start);
}
