//! What a run of broadcasts knows of itself: what was asked for, what was sent, and how far everybody is.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use synod_crypto::Hash;
use synod_wire::Bytes;

/// How far a receiver is with the messages of a broadcaster.
#[derive(Clone, Debug, Default)]
struct Reach {
    /// Everything up to here was delivered, or a summary covers it.
    upto: u64,
    /// Beyond it.
    beyond: BTreeSet<u64>,
}

/// The shared notes of a run.
#[derive(Clone, Debug, Default)]
pub struct Book {
    /// What users asked a replica to broadcast, by its digest.
    pub asked: BTreeMap<u32, BTreeMap<Hash, Bytes>>,
    /// The last number that each replica sent.
    pub sent: BTreeMap<u32, u64>,
    /// Replicas that lied, now or before.
    pub liars: BTreeSet<u32>,
    /// Memory nodes that were started more than once.
    pub reborn: BTreeSet<u32>,
    /// The last number of each broadcaster that a summary covers.
    pub summarized: BTreeMap<u32, u64>,
    reaches: BTreeMap<(u32, u32), Reach>,
    /// Counts for coverage.
    pub counts: BTreeMap<&'static str, u64>,
}

/// The notes, as all sides hold them.
pub type Shared = Rc<RefCell<Book>>;

impl Book {
    /// A replica is asked to broadcast a body.
    pub fn ask(&mut self, node: u32, body: &Bytes) {
        self.asked.entry(node).or_default().insert(Hash::of(body), body.clone());
    }

    /// How many messages a replica is to broadcast.
    #[must_use]
    pub fn asked_of(&self, node: u32) -> u64 {
        self.asked.get(&node).map_or(0, |asked| asked.len() as u64)
    }

    /// The body of a digest, whoever was asked for it.
    #[must_use]
    pub fn body(&self, digest: &Hash) -> Option<&Bytes> {
        self.asked.values().find_map(|asked| asked.get(digest))
    }

    /// A replica delivered message `k` of a broadcaster. The number up to which a summary can be made, if it is a new one: f + 1
    /// replicas have everything up to it, and it ends half a tail.
    pub fn deliver(&mut self, node: u32, broadcaster: u32, k: u64, rule: Summing) -> Option<u64> {
        if node == broadcaster {
            let sent = self.sent.entry(node).or_default();
            *sent = k.max(*sent);
        }
        self.reaches.entry((node, broadcaster)).or_default().beyond.insert(k);
        let covered = self.summarized.get(&broadcaster).copied().unwrap_or(0);
        let mut all: Vec<u64> = Vec::new();
        for ((_, of), reach) in &mut self.reaches {
            if *of != broadcaster {
                continue;
            }
            reach.upto = reach.upto.max(covered);
            while reach.beyond.contains(&(reach.upto + 1)) {
                reach.upto += 1;
            }
            all.push(reach.upto);
        }
        all.sort_unstable_by(|a, b| b.cmp(a));
        let half = (rule.tail / 2).max(1);
        let upto = all.get(rule.wanted.checked_sub(1)?)? / half * half;
        (upto > covered).then(|| {
            self.summarized.insert(broadcaster, upto);
            upto
        })
    }

    /// Whether a replica delivered message `k` of a broadcaster.
    #[must_use]
    pub fn has(&self, node: u32, broadcaster: u32, k: u64) -> bool {
        self.reaches.get(&(node, broadcaster)).is_some_and(|reach| reach.beyond.contains(&k))
    }

    /// Adds to a count.
    pub fn add(&mut self, name: &'static str, by: u64) {
        *self.counts.entry(name).or_insert(0) += by;
    }
}

/// When a summary can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summing {
    /// t.
    pub tail: u64,
    /// f + 1.
    pub wanted: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_covers_what_enough_have_and_whoever_lacks_it_goes_on_behind_it() {
        let (mut book, rule) = (Book::default(), Summing { tail: 4, wanted: 2 });
        for k in 1..=4 {
            assert_eq!(book.deliver(0, 0, k, rule), None);
        }
        assert_eq!(book.sent[&0], 4);
        assert_eq!((book.deliver(1, 0, 2, rule), book.deliver(1, 0, 1, rule)), (None, Some(2)));
        assert_eq!(book.deliver(2, 0, 3, rule), None);
        assert_eq!(book.deliver(2, 0, 4, rule), Some(4), "what it lacks is covered");
        assert!(book.has(2, 0, 4) && !book.has(2, 0, 2));
    }
}
