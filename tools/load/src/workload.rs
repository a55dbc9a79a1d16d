//! What the load consists of: reads and writes of keys of which each belongs to one lane.
//!
//! The value of the n-th operation of a lane begins with n, so that a value found later names the write it is of.
//! [`Keys`] notes in a [`Ledger`] what became of each write.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use synod_host::{Mode, Operation, Outcome};
use synod_kv::Verb;
use synod_kv::operation::write_command;

use crate::Tally;
use crate::ledger::{Findings, Ledger, Write};
use crate::resp::write_resp;

/// Bytes of a key.
pub const KEY_BYTES: usize = 16;
/// Bytes at the start of a value that name its write.
pub const INDEX_BYTES: usize = 8;

/// Operations taken together.
pub struct Batch {
    /// Index of the first within its lane.
    pub first: u64,
    /// What to do, in order.
    pub operations: Vec<Operation>,
}

/// A source of operations that hears what became of them.
pub trait Workload: Send + Sync + 'static {
    /// The next `count` operations of a lane.
    fn take(&self, lane: u64, count: usize) -> Batch;

    /// What became of the operations of `lane` from `first` on.
    fn told(&self, lane: u64, first: u64, outcomes: &[Outcome]);
}

/// A small deterministic mix of two numbers (SplitMix64's finaliser).
pub(crate) fn mix(lane: u64, index: u64) -> u64 {
    let mut z = lane.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(index);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The form in which the backends take commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The store's own encoding, for sessions with the cluster.
    Binary,
    /// Text of the Redis protocol, for [`crate::RespClient`].
    Resp,
}

/// How a load is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Draw {
    /// Lanes; each has keys of its own.
    pub lanes: u64,
    /// Number of keys, at least one per lane.
    pub keys: u64,
    /// Bytes of a value, at least [`INDEX_BYTES`].
    pub value_bytes: usize,
    /// Reads, of a thousand.
    pub reads: u16,
    /// How reads are carried out.
    pub read: Mode,
    /// How commands are written.
    pub form: Form,
}

impl Draw {
    fn per_lane(&self) -> u64 {
        (self.keys / self.lanes.max(1)).max(1)
    }

    /// The key of an operation, and whether it reads.
    fn of(&self, lane: u64, index: u64) -> (u64, bool) {
        let drawn = mix(lane, index);
        // The first operations of a lane write each of its keys where the load reads: [`Keys::filling`].
        if self.reads > 0 && index < self.per_lane() {
            return (index * self.lanes + lane, false);
        }
        let key = (drawn % self.per_lane()) * self.lanes + lane;
        (key, (drawn >> 32) % 1_000 < u64::from(self.reads))
    }

    fn operation(&self, lane: u64, index: u64) -> Operation {
        let (key, reads) = self.of(lane, index);
        let key = name(key);
        if reads {
            return self.written("GET", &[&key], self.read);
        }
        let mut value = vec![b'x'; self.value_bytes.max(INDEX_BYTES)];
        value.iter_mut().zip(index.to_le_bytes()).for_each(|(to, from)| *to = from);
        self.written("SET", &[&key, &value], Mode::Ordered)
    }

    fn written(&self, verb: &str, arguments: &[&[u8]], mode: Mode) -> Operation {
        let mut body = Vec::with_capacity(64 + arguments.iter().map(|a| a.len() + 8).sum::<usize>());
        match self.form {
            Form::Resp => write_resp(verb, arguments, &mut body),
            Form::Binary => {
                let verb = Verb::find(verb.as_bytes()).expect("the store has the verbs of its load");
                write_command(verb, arguments.iter().copied(), &mut body);
            }
        }
        Operation { body: Bytes::from(body), mode }
    }
}

/// The name of a key by its number.
fn name(n: u64) -> [u8; KEY_BYTES] {
    let mut key = *b"key:000000000000";
    let mut rest = n;
    for digit in key.iter_mut().skip(4).rev() {
        *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
    }
    key
}

/// The number of a key by its name.
fn number(key: &[u8]) -> Option<u64> {
    let digits = key.strip_prefix(b"key:").filter(|digits| digits.len() == KEY_BYTES - 4)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The index in a value.
fn index_in(value: &[u8]) -> Option<u64> {
    value.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// The string in a reply to GET, in the store's form or in that of the Redis protocol; inside `None` for an absent
/// key.
fn string_in(reply: &[u8]) -> Option<Option<&[u8]>> {
    if matches!(reply, b"_\r\n" | b"$-1\r\n") {
        return Some(None);
    }
    let rest = reply.strip_prefix(b"$")?;
    let end = rest.iter().position(|byte| *byte == b'\r')?;
    let length: usize = std::str::from_utf8(rest.get(..end)?).ok()?.parse().ok()?;
    rest.get(end + 2..).filter(|text| text.len() == length + 2)?.get(..length).map(Some)
}

/// Reads and writes over a range of keys, with the ledger of what became of them.
pub struct Keys {
    draw: Draw,
    ledger: Mutex<Ledger>,
}

impl Keys {
    /// A load of which nothing was done yet.
    #[must_use]
    pub fn new(draw: Draw) -> Self {
        let keys = draw.per_lane() * draw.lanes.max(1);
        Self { draw, ledger: Mutex::new(Ledger::new(draw.lanes, keys)) }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Operations at the start of each lane that only write its keys; 0 unless the load reads.
    #[must_use]
    pub fn filling(&self) -> u64 {
        if self.draw.reads > 0 { self.draw.per_lane() } else { 0 }
    }

    /// What became of the writes so far.
    #[must_use]
    pub fn writes(&self) -> Tally {
        self.ledger().writes
    }

    /// Compares keys and values found at the end with what was told.
    pub fn judge(&self, found: impl IntoIterator<Item = (Bytes, Bytes)>) -> Findings {
        let ledger = self.ledger();
        let numbered = found.into_iter().filter_map(|(key, value)| Some((number(&key)?, index_in(&value))));
        ledger.judge(numbered)
    }

    /// Whether a reply to a read can be true: a value that was written to this key, or of none where one member
    /// alone is asked, which may be behind.
    fn is_possible(&self, ledger: &Ledger, lane: u64, key: u64, reply: &[u8]) -> bool {
        match string_in(reply) {
            None => false,
            Some(None) => self.draw.read == Mode::Local,
            Some(Some(value)) => index_in(value).is_some_and(|index| {
                index < ledger.issued(lane) && self.draw.of(lane, index) == (key, false)
            }),
        }
    }
}

impl Workload for Keys {
    fn take(&self, lane: u64, count: usize) -> Batch {
        let first = self.ledger().issue(lane, count as u64);
        let indices = first..first + count as u64;
        Batch { first, operations: indices.map(|index| self.draw.operation(lane, index)).collect() }
    }

    fn told(&self, lane: u64, first: u64, outcomes: &[Outcome]) {
        let mut ledger = self.ledger();
        for (index, outcome) in (first..).zip(outcomes) {
            let (key, reads) = self.draw.of(lane, index);
            match outcome {
                Outcome::Accepted { value, .. } if reads => {
                    let possible = self.is_possible(&ledger, lane, key, value);
                    ledger.read(possible);
                }
                _ if reads => {}
                _ => ledger.wrote(&Write { lane, key, index }, outcome),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAW: Draw =
        Draw { lanes: 4, keys: 100, value_bytes: 16, reads: 0, read: Mode::Quorum, form: Form::Binary };

    fn accepted(value: &[u8]) -> Outcome {
        Outcome::Accepted { value: Bytes::copy_from_slice(value), position: 1 }
    }

    #[test]
    fn equal_indices_give_equal_operations_and_lanes_share_no_key() {
        let draw = Draw { reads: 500, ..DRAW };
        for index in 0..200 {
            assert_eq!(draw.operation(3, index).body, draw.operation(3, index).body);
            assert_eq!(draw.of(3, index).0 % 4, 3);
            assert!(draw.of(3, index).0 < 100);
        }
    }

    #[test]
    fn a_mix_reads_its_share_after_every_key_was_written() {
        let draw = Draw { reads: 300, ..DRAW };
        let filled: std::collections::BTreeSet<u64> = (0..25).map(|i| draw.of(1, i).0).collect();
        assert_eq!(filled.len(), 25);
        assert!((0..25).all(|i| !draw.of(1, i).1));
        let reads = (25..10_025).filter(|i| draw.operation(1, *i).mode == Mode::Quorum).count();
        assert!((2_700..3_300).contains(&reads), "{reads}");
    }

    #[test]
    fn a_key_is_its_number() {
        assert_eq!(&name(1_234), b"key:000000001234");
        assert_eq!(number(&name(1_234)), Some(1_234));
        for other in [&b"synod:audit"[..], b"key:12", b"key:00000000012x"] {
            assert_eq!(number(other), None);
        }
    }

    #[test]
    fn a_value_names_its_write_in_both_forms_of_a_reply() {
        for form in [Form::Binary, Form::Resp] {
            let body = Draw { form, ..DRAW }.operation(2, 0x0102).body;
            assert!(body.windows(8).any(|part| part == 0x0102_u64.to_le_bytes()));
        }
        assert_eq!(string_in(b"$3\r\na\rb\r\n"), Some(Some(&b"a\rb"[..])));
        assert_eq!((string_in(b"_\r\n"), string_in(b"$-1\r\n")), (Some(None), Some(None)));
        for wrong in [&b"+OK\r\n"[..], b"$3\r\nab\r\n", b"$x\r\n\r\n", b""] {
            assert_eq!(string_in(wrong), None);
        }
    }

    #[test]
    fn a_read_of_what_was_never_written_there_is_noticed() {
        let keys = Keys::new(Draw { lanes: 1, keys: 2, reads: 500, ..DRAW });
        let batch = keys.take(0, 50);
        assert_eq!((batch.first, batch.operations.len(), keys.filling()), (0, 50, 2));
        let read = (2..50).find(|index| keys.draw.of(0, *index).1).expect("half of them read");
        let key = keys.draw.of(0, read).0;
        let reply = |index: u64| [b"$8\r\n", &index.to_le_bytes()[..], b"\r\n"].concat();
        keys.told(0, read, &[accepted(&reply(key))]);
        assert_eq!(keys.judge([]).wrong_reads, 0);
        for wrong in [reply(1 - key), reply(1_000), b"_\r\n".to_vec()] {
            keys.told(0, read, &[accepted(&wrong)]);
        }
        assert_eq!(keys.judge([]).wrong_reads, 3);
    }

    #[test]
    fn what_the_store_holds_is_compared_with_what_was_told() {
        let keys = Keys::new(Draw { lanes: 1, keys: 1, ..DRAW });
        keys.take(0, 2);
        keys.told(0, 0, &[accepted(b"+OK\r\n"), accepted(b"+OK\r\n")]);
        let held =
            |index: u64| [(Bytes::copy_from_slice(&name(0)), Bytes::from(index.to_le_bytes().to_vec()))];
        assert_eq!(keys.judge(held(1)).lost, 0);
        assert_eq!(keys.judge(held(7)).lost, 1);
        assert_eq!(keys.judge([]).lost, 1);
    }
}
