//! The rule of deduplication once more, as the specification says it: one map, one entry at a time, no lanes, no
//! columns, no fold but its own. Shares no code with what it judges.

use std::collections::BTreeMap;

/// One entry as a test makes it.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) id: u32,
    pub(super) message: Vec<u8>,
    pub(super) parity: bool,
    pub(super) standing: Standing,
}

/// By what an entry is authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Signer,
    Straggler(u64),
    Void,
}

/// What the table knows of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Known {
    next_k: u128,
    last: Option<(Vec<u8>, bool)>,
}

/// The sequential model.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    clients: BTreeMap<u32, Known>,
    /// Everything delivered, in order: client, number, message, parity.
    pub(super) delivered: Vec<(u32, u64, Vec<u8>, bool)>,
}

impl Oracle {
    /// The codes of a batch's entries: 0 delivered, 1 SAME, 2 STALE, 3 VOID.
    pub(super) fn batch(&mut self, k: u64, cases: &[Case]) -> Vec<u8> {
        cases.iter().map(|case| self.entry(k, case)).collect()
    }

    fn entry(&mut self, k: u64, case: &Case) -> u8 {
        let k = match case.standing {
            Standing::Signer => k,
            Standing::Straggler(own) => own,
            Standing::Void => return 3,
        };
        let known = self.clients.entry(case.id).or_default();
        let message = Some((case.message.clone(), case.parity));
        if known.last == message {
            known.next_k = known.next_k.max(u128::from(k) + 1);
            return 1;
        }
        if u128::from(k) < known.next_k {
            return 2;
        }
        known.next_k = u128::from(k) + 1;
        known.last = message;
        self.delivered.push((case.id, k, case.message.clone(), case.parity));
        0
    }

    /// The lowest free number of a client, 0 before its first delivery.
    pub(super) fn next_k(&self, id: u32) -> u64 {
        self.clients.get(&id).map_or(0, |known| u64::try_from(known.next_k).expect("below 2^64"))
    }
}

/// The tag of the specification, word by word.
pub(super) fn tag(message: &[u8], parity: bool) -> u64 {
    let mut h = u128::try_from(message.len()).expect("short");
    for start in (0..message.len()).step_by(8) {
        let mut w: u128 = 0;
        for (place, byte) in message[start..].iter().take(8).enumerate() {
            w += u128::from(*byte) << (8 * place);
        }
        h = ((h ^ w) * 0x9E37_79B9_7F4A_7C15) % (1 << 64);
        h ^= h >> 29;
    }
    u64::try_from((h * 2 + u128::from(parity)) % (1 << 64)).expect("reduced")
}
