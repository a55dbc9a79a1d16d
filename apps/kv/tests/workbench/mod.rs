//! What the tests of the store share: a store, a clock, commands as words, replies as one line.

#![expect(dead_code, reason = "each test file uses its part")]

use bytes::Bytes;
use synod_crypto::Hash;
use synod_kv::{Config, Kv, Verb, operation};
use synod_service::{App, At, Position, Replies, Request, Wall};

/// A store with a position and a time.
pub(crate) struct Bench {
    pub(crate) kv: Kv,
    pub(crate) time_ms: u64,
    position: u64,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with(Config::default())
    }

    pub(crate) fn with(config: Config) -> Self {
        Self { kv: Kv::new(config), time_ms: 1_000_000, position: 0 }
    }

    /// Executes operations as one entry; one reply each.
    pub(crate) fn execute(&mut self, operations: &[Vec<u8>]) -> Vec<Bytes> {
        self.position += 1;
        let draw = Hash::of(&self.position.to_le_bytes());
        let at = At { position: Position(self.position), time: Wall(self.time_ms), draw };
        let mut replies = Replies::default();
        let mut sequence = 0;
        let mut requests = operations.iter().map(|body| {
            sequence += 1;
            Request { session: 1, sequence, body }
        });
        self.kv.execute(&at, &mut requests, &mut replies);
        self.kv.invariants();
        assert_eq!(replies.count(), operations.len(), "one reply per request");
        replies.drain().collect()
    }

    /// Executes one command given as words; the reply as one line.
    pub(crate) fn run(&mut self, words: &str) -> String {
        line(&self.execute(&[command(words)])[0])
    }
}

/// Splits a line into words; `""` is the empty word, `\n` a line end.
fn words(line: &str) -> Vec<Vec<u8>> {
    line.split_ascii_whitespace()
        .map(|word| if word == "\"\"" { Vec::new() } else { word.replace("\\n", "\n").into_bytes() })
        .collect()
}

/// The operation of a command given as words.
pub(crate) fn command(line: &str) -> Vec<u8> {
    let words = words(line);
    let (name, arguments) = words.split_first().expect("a command has a name");
    let verb = Verb::find(name).expect("the test names a command of the table");
    let mut out = Vec::new();
    operation::write_command(verb, arguments.iter().map(Vec::as_slice), &mut out);
    out
}

/// The operation of a transaction.
pub(crate) fn transaction(watched: &[(&str, u64)], commands: &[&str]) -> Vec<u8> {
    let mut bodies = Vec::new();
    for line in commands {
        bodies.extend_from_slice(&command(line)[1..]);
    }
    let watched =
        watched.iter().map(|(key, version)| operation::Watched { key: key.as_bytes(), version: *version });
    let mut out = Vec::new();
    operation::write_transaction(watched, commands.len(), &bodies, &mut out);
    out
}

/// The version of a key, asked as a program asks.
pub(crate) fn version(kv: &Kv, key: &str) -> u64 {
    let mut question = Vec::new();
    operation::write_versions([key.as_bytes()].into_iter(), &mut question);
    let reply = kv.query(&question).expect("versions can be asked");
    let text = line(&reply);
    text.strip_prefix("*1 :").and_then(|number| number.parse().ok()).expect("one number")
}

/// A reply with its line ends as spaces.
pub(crate) fn line(reply: &[u8]) -> String {
    String::from_utf8_lossy(reply).replace("\r\n", " ").trim_end().to_owned()
}

/// Every chunk of the state.
pub(crate) fn chunks(kv: &Kv) -> Vec<Bytes> {
    (0..kv.chunks()).map(|index| kv.chunk(index)).collect()
}

/// Scattered numbers that are the same in every run.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}
