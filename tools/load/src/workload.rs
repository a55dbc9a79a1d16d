//! What the load consists of.

use bytes::Bytes;
use synod_host::{Mode, Operation};
use synod_kv::Verb;
use synod_kv::operation::write_command;

/// A source of operations; deterministic in (lane, index).
pub trait Workload: Send + Sync + 'static {
    /// The `index`-th operation of `lane`.
    fn operation(&self, lane: u64, index: u64) -> Operation;

    /// Whether the reply to it is right, as far as one reply can show.
    fn is_right(&self, reply: &Bytes) -> bool;
}

/// A small deterministic mix of two numbers (SplitMix64's finaliser).
pub(crate) fn mix(lane: u64, index: u64) -> u64 {
    let mut z = lane.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(index);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// What a key-value load does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvOperation {
    /// SET only.
    Set,
    /// GET only, by quorum read.
    Get,
    /// Reads in this share of a thousand, writes otherwise.
    Mix(u16),
}

/// SET and GET over a range of keys.
pub struct Kv {
    /// Which.
    pub what: KvOperation,
    /// Number of keys.
    pub keys: u64,
    /// Bytes of a value.
    pub size: usize,
    /// How reads are carried out.
    pub read: Mode,
}

fn command(verb: &str, arguments: &[&[u8]], mode: Mode) -> Operation {
    let verb = Verb::find(verb.as_bytes()).expect("the store has the verbs of its load");
    let mut body = Vec::with_capacity(32 + arguments.iter().map(|a| a.len() + 4).sum::<usize>());
    write_command(verb, arguments.iter().copied(), &mut body);
    Operation { body: Bytes::from(body), mode }
}

fn key(n: u64) -> [u8; 16] {
    let mut key = *b"key:000000000000";
    let mut rest = n;
    for digit in key.iter_mut().skip(4).rev() {
        *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
    }
    key
}

impl Workload for Kv {
    fn operation(&self, lane: u64, index: u64) -> Operation {
        let drawn = mix(lane, index);
        let key = key(drawn % self.keys.max(1));
        let reads = match self.what {
            KvOperation::Set => false,
            KvOperation::Get => true,
            KvOperation::Mix(share) => (drawn >> 32) % 1_000 < u64::from(share),
        };
        if reads {
            return command("GET", &[&key], self.read);
        }
        let mut value = vec![b'x'; self.size];
        value.iter_mut().zip(drawn.to_le_bytes()).for_each(|(to, from)| *to = b'a' + from % 26);
        command("SET", &[&key, &value], Mode::Ordered)
    }

    fn is_right(&self, reply: &Bytes) -> bool {
        !reply.is_empty() && reply.first() != Some(&b'-')
    }
}

/// Commands of a size that change one value per lane: ordering with the cheapest execution the store has.
pub struct Null {
    /// Bytes of a command.
    pub size: usize,
}

impl Workload for Null {
    fn operation(&self, lane: u64, index: u64) -> Operation {
        let key = key(lane);
        let mut value = vec![b'.'; self.size.saturating_sub(key.len() + 8)];
        value.iter_mut().zip(index.to_le_bytes()).for_each(|(to, from)| *to = from);
        command("SET", &[&key, &value], Mode::Ordered)
    }

    fn is_right(&self, reply: &Bytes) -> bool {
        reply.first() == Some(&b'+')
    }
}

#[cfg(test)]
mod tests {
    use super::{Kv, KvOperation, Null, Workload, key};
    use synod_host::Mode;

    #[test]
    fn equal_indices_give_equal_operations() {
        let kv = Kv { what: KvOperation::Mix(500), keys: 100, size: 16, read: Mode::Quorum };
        for index in 0..50 {
            assert_eq!(kv.operation(3, index).body, kv.operation(3, index).body);
        }
        let different = (0..50).filter(|i| kv.operation(3, *i).body != kv.operation(4, *i).body).count();
        assert!(different > 40);
    }

    #[test]
    fn a_mix_reads_its_share() {
        let kv = Kv { what: KvOperation::Mix(300), keys: 100, size: 16, read: Mode::Quorum };
        let reads = (0..10_000).filter(|i| kv.operation(1, *i).mode == Mode::Quorum).count();
        assert!((2_700..3_300).contains(&reads), "{reads}");
    }

    #[test]
    fn a_key_is_its_number() {
        assert_eq!(&key(1_234), b"key:000000001234");
    }

    #[test]
    fn a_null_command_has_about_its_size() {
        let body = Null { size: 128 }.operation(1, 2).body;
        assert!((112..=140).contains(&body.len()), "{}", body.len());
    }
}
