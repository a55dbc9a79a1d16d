//! X3: an ACK leaves once what it promises is on the disk, in the ledger's records and in the broadcast's; a receipt once all of
//! it settled for good.

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::Hash;

use super::Slot;
use crate::oracle::{Verdict, breach};

/// What a record promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Promised {
    /// The ledger accepted this batch but for some entries. Without a digest it is that of the record before.
    Endorsed(Slot, Option<Hash>, Vec<u32>),
    /// The broadcast signs this payload but for some items.
    Accepted(Slot, Hash, Vec<u32>),
}

type Kept = (Hash, BTreeSet<u32>);

/// What each member's disk holds.
#[derive(Clone, Debug, Default)]
pub struct Keeping {
    /// Written and not yet durable.
    written: BTreeMap<u32, Vec<(u64, Promised)>>,
    endorsed: BTreeMap<(u32, Slot), Kept>,
    accepted: BTreeMap<(u32, Slot), Kept>,
}

impl Keeping {
    /// A member starts with these records.
    pub fn open(&mut self, node: u32, records: impl Iterator<Item = Promised>) {
        self.written.remove(&node);
        self.endorsed.retain(|(of, _), _| *of != node);
        self.accepted.retain(|(of, _), _| *of != node);
        records.for_each(|promised| self.keep(node, promised));
    }

    /// What a member's records endorse in each slot, and what they leave out.
    #[must_use]
    pub fn endorsed(&self, node: u32) -> BTreeMap<Slot, (Hash, BTreeSet<u32>)> {
        let own = self.endorsed.iter().filter(|((of, _), _)| *of == node);
        own.map(|((_, slot), kept)| (*slot, kept.clone())).collect()
    }

    fn keep(&mut self, node: u32, promised: Promised) {
        match promised {
            Promised::Endorsed(slot, digest, except) => {
                let known = self.endorsed.get(&(node, slot)).map(|(digest, _)| *digest);
                if let Some(digest) = digest.or(known) {
                    self.endorsed.insert((node, slot), (digest, except.into_iter().collect()));
                }
            }
            Promised::Accepted(slot, digest, except) => {
                self.accepted.insert((node, slot), (digest, except.into_iter().collect()));
            }
        }
    }

    /// A member wrote a record.
    pub fn write(&mut self, node: u32, at: u64, promised: Promised) {
        self.written.entry(node).or_default().push((at, promised));
    }

    /// Everything up to here is on the disk.
    pub fn durable(&mut self, node: u32, until: u64) {
        let mut written = self.written.remove(&node).unwrap_or_default();
        let later = written.split_off(written.partition_point(|(at, _)| *at <= until));
        written.into_iter().for_each(|(_, promised)| self.keep(node, promised));
        if !later.is_empty() {
            self.written.insert(node, later);
        }
    }

    /// An honest member's ACK leaves.
    ///
    /// # Errors
    /// X3: a record is missing.
    pub fn said(&self, (node, slot): (u32, Slot), digest: Hash, except: &[u32]) -> Verdict {
        for (what, kept) in [("ledger", &self.endorsed), ("broadcast", &self.accepted)] {
            // What is on the disk may be ahead of what leaves: a list only shrinks.
            let covers = |kept: &Kept| kept.0 == digest && kept.1.iter().all(|item| except.contains(item));
            if !kept.get(&(node, slot)).is_some_and(covers) {
                return breach(
                    "X3",
                    format!("member {node} signs for slot {slot:?} before its {what} wrote it"),
                );
            }
        }
        Ok(())
    }
}
