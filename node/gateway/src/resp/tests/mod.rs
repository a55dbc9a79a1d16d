//! What the tests share: connections over one real store, driven by hand.

mod foreign;
mod limits;
mod order;
mod parser;
mod render;
mod transcripts;

use std::sync::Arc;

use bytes::Bytes;
use synod_crypto::Hash;
use synod_kv::{Config, Kv};
use synod_service::{App, At, Position, Replies, Request, Wall};

use super::{Answer, Ask, Connection, Limits, Now, Protocol, Settings, Store, Trust};

/// Settings without a password.
fn settings() -> Settings {
    Settings {
        store: Store::Keys,
        limits: Limits::default(),
        password: None,
        trust: Trust::Gateway,
        version: "0.1.0".to_owned(),
        port: 7104,
    }
}

/// A moment, so many ms after the start.
fn at(ms: u64) -> Now {
    Now { monotonic_ms: ms, wall_us: 1_700_000_000_000_000 + ms * 1_000 }
}

/// A store that performs operations at once.
struct Server {
    kv: Kv,
    position: u64,
}

impl Server {
    fn new() -> Self {
        Self { kv: Kv::new(Config::default()), position: 0 }
    }

    fn perform(&mut self, ask: &Ask) -> Bytes {
        if !ask.ordered {
            return self.kv.query(&ask.operation).expect("only reads are unordered");
        }
        self.position += 1;
        let at = At {
            position: Position(self.position),
            time: Wall(1_000_000),
            draw: Hash::of(&self.position.to_le_bytes()),
        };
        let mut replies = Replies::default();
        let request = Request { session: 1, sequence: self.position, body: &ask.operation };
        self.kv.execute(&at, &mut [request].into_iter(), &mut replies);
        replies.drain().next().expect("one reply per request")
    }
}

/// A client at the other end of a connection.
struct Client {
    connection: Connection,
}

impl Client {
    fn new(settings: Settings) -> Self {
        Self { connection: Connection::new(Arc::new(settings), 7) }
    }

    /// Sends bytes, lets the server perform everything, and gives what came back.
    fn exchange(&mut self, server: &mut Server, bytes: &[u8]) -> Vec<u8> {
        self.connection.receive(bytes, at(0));
        self.settle(server)
    }

    /// Lets the server perform everything asked.
    fn settle(&mut self, server: &mut Server) -> Vec<u8> {
        let mut got = Vec::new();
        loop {
            let asks = self.connection.take_asks();
            for ask in &asks {
                let reply = server.perform(ask);
                self.connection.answer(ask.slot, Answer::Reply(reply), at(0));
            }
            let count = self.connection.output().len();
            got.extend_from_slice(self.connection.output());
            self.connection.sent(count, at(0));
            if asks.is_empty() && count == 0 {
                return got;
            }
        }
    }

    /// Sends one inline command; what came back, with line ends as spaces.
    fn say(&mut self, server: &mut Server, line: &str) -> String {
        shown(&self.exchange(server, format!("{line}\r\n").as_bytes()))
    }
}

/// Bytes with line ends as spaces.
fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace("\r\n", " ").trim_end().to_owned()
}

/// A command in multibulk form.
fn multibulk(words: &[&[u8]]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// Scattered numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).expect("a byte")
    }
}
