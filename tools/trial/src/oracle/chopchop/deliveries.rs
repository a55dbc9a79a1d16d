//! What servers deliver: C-S1 to C-S4, C-S7, C-S9, C-L3.

use std::collections::BTreeMap;

use synod_crypto::Hash;

use super::{BatchSeen, CertificateSeen, Facts, How, Model, Outcome, witnesses};
use crate::oracle::{Verdict, breach};

/// What took a height.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Taken {
    digest: Hash,
    /// Position, and what was not delivered; nothing for cards.
    content: Option<(u64, Vec<(u32, u8)>)>,
}

/// Counts of what was delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Batches of messages.
    pub batches: u64,
    /// Those in which at least one entry stands under the multi-signature.
    pub distilled: u64,
    /// Entries under the multi-signature.
    pub together: u64,
    /// Entries under signatures of their own.
    pub stragglers: u64,
    /// Entries that were delivered.
    pub messages: u64,
    /// Entries that were not.
    pub exceptions: u64,
    /// Batches of cards.
    pub cards: u64,
}

/// Everything delivered, by height.
#[derive(Clone, Debug, Default)]
pub struct Deliveries {
    faulty: u32,
    heights: BTreeMap<u64, Taken>,
    /// Life and height of each server.
    places: BTreeMap<u32, (u32, u64)>,
    model: Model,
    /// Deliveries of each message of each id.
    times: BTreeMap<(u32, Vec<u8>), u64>,
    /// Last delivered number of each id.
    last: BTreeMap<u32, u64>,
    told: BTreeMap<(u32, Vec<u8>), u64>,
    highest: u64,
    counts: Counts,
}

impl Deliveries {
    /// Of a cluster of which so many servers may be faulty.
    #[must_use]
    pub fn new(faulty: u32) -> Self {
        Self { faulty, highest: 1, ..Self::default() }
    }

    /// The most batches any honest server delivered, genesis included.
    #[must_use]
    pub const fn highest(&self) -> u64 {
        self.highest
    }

    /// Counts.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// The height a server reached in its present life.
    #[must_use]
    pub fn height_of(&self, node: u32) -> u64 {
        self.places.get(&node).map_or(0, |(_, height)| *height)
    }

    /// A server goes on behind this height, which it has from its journal or from others.
    pub fn place(&mut self, node: u32, life: u32, height: u64) {
        self.places.insert(node, (life, height));
    }

    fn step(&mut self, node: u32, life: u32, height: u64) -> Verdict {
        let before = self.places.insert(node, (life, height));
        match before {
            Some((same, last)) if same == life && height != last + 1 => {
                breach("C-S1", format!("height {height} follows {last}"))
            }
            _ => Ok(()),
        }
    }

    fn agree(&mut self, height: u64, taken: &Taken) -> Result<bool, crate::oracle::Breach> {
        match self.heights.get(&height) {
            Some(known) if known == taken => Ok(false),
            Some(known) => {
                let what = format!("two servers disagree about height {height}: {known:?} and {taken:?}");
                breach("C-S1", what).map(|()| false)
            }
            None => {
                if height != self.highest + 1 {
                    let what = format!("height {height} is delivered when {} was the highest", self.highest);
                    breach("C-S1", what)?;
                }
                self.heights.insert(height, taken.clone());
                self.highest = height;
                Ok(true)
            }
        }
    }

    /// An honest server took cards in.
    ///
    /// # Errors
    /// C-S1.
    pub fn cards(&mut self, (node, life): (u32, u32), height: u64, digest: Hash) -> Verdict {
        self.step(node, life, height)?;
        if self.agree(height, &Taken { digest, content: None })? {
            self.counts.cards += 1;
        }
        Ok(())
    }

    /// An honest server delivered a batch of messages. `exceptions` are index and reason: 1 the same again, 2 stale, 3
    /// void.
    ///
    /// # Errors
    /// The property that is broken.
    pub fn delivered(
        &mut self,
        (cluster, facts): (&Hash, &Facts),
        (node, life): (u32, u32),
        (height, position): (u64, u64),
        batch: &BatchSeen,
        exceptions: Vec<(u32, u8)>,
    ) -> Verdict {
        self.step(node, life, height)?;
        let taken = Taken { digest: batch.digest, content: Some((position, exceptions.clone())) };
        if !self.agree(height, &taken)? {
            return Ok(());
        }
        witnesses::sound(cluster, facts, batch)?;
        self.count(batch, exceptions.len());
        let said = |index: u32| exceptions.iter().find(|(at, _)| *at == index).map_or(0, |(_, code)| *code);
        for (index, entry) in (0_u32..).zip(&batch.entries) {
            let expected = match self.model.take(entry) {
                Outcome::Delivered => 0,
                Outcome::Same => 1,
                Outcome::Stale => 2,
                Outcome::Void => 3,
            };
            let got = said(index);
            if got == 0 {
                self.one(facts, height, entry)?;
            }
            if got != expected {
                let checker = if expected == 0 { "C-L3" } else { "C-S9" };
                let what = format!(
                    "entry {index} of client {} at height {height} has reason {got} instead of {expected}",
                    entry.id
                );
                return breach(checker, what);
            }
        }
        Ok(())
    }

    fn count(&mut self, batch: &BatchSeen, exceptions: usize) {
        let of = |how: How| batch.entries.iter().filter(|entry| entry.how == how).count() as u64;
        let (together, alone) = (of(How::Together), of(How::Alone));
        self.counts.batches += 1;
        self.counts.distilled += u64::from(together > 0);
        self.counts.together += together;
        self.counts.stragglers += alone;
        self.counts.exceptions += exceptions as u64;
        self.counts.messages += (batch.entries.len() - exceptions) as u64;
    }

    /// One entry was delivered for the first time.
    fn one(&mut self, facts: &Facts, height: u64, entry: &super::EntrySeen) -> Verdict {
        let id = entry.id;
        if self.last.get(&id).is_some_and(|last| *last >= entry.k) {
            return breach("C-S4", format!("number {} of client {id} does not rise at {height}", entry.k));
        }
        self.last.insert(id, entry.k);
        let times = self.times.entry((id, entry.message.clone())).or_insert(0);
        *times += 1;
        let Some(node) = facts.client(id) else { return Ok(()) };
        let asked = facts.asked(node, &entry.message);
        if asked == 0 {
            return breach("C-S2", format!("client {id} never broadcast what height {height} delivers"));
        }
        if *times > asked {
            return breach(
                "C-S3",
                format!("client {id} broadcast it {asked} times, delivered {times} times"),
            );
        }
        Ok(())
    }

    /// An honest client believes that a message of its own was delivered, by this certificate or because it was told that it
    /// is the last one again.
    ///
    /// # Errors
    /// C-S9 for a certificate that lists what nobody delivered, C-L3 for a message that is lost.
    pub fn believed(&mut self, id: u32, message: &[u8], by: Option<&CertificateSeen>) -> Verdict {
        if let Some(CertificateSeen { height, digest, signers }) = by {
            if *signers < self.faulty + 1 {
                return breach("C-S9", format!("client {id} believes {signers} servers"));
            }
            let taken = self.heights.get(height);
            if taken.is_none_or(|taken| taken.digest != *digest) {
                return breach("C-S9", format!("client {id} believes that {digest:?} is height {height}"));
            }
        }
        let key = (id, message.to_vec());
        let delivered = self.times.get(&key).copied().unwrap_or(0);
        let told = self.told.entry(key).or_insert(0);
        *told += 1;
        if *told <= delivered {
            return Ok(());
        }
        let checker = if by.is_some() { "C-S9" } else { "C-L3" };
        breach(checker, format!("client {id} was told {told} times, servers delivered it {delivered} times"))
    }

    /// An honest server signs what it delivered at a height.
    ///
    /// # Errors
    /// C-S9.
    pub fn signed(&self, height: u64, digest: &Hash, count: u32) -> Verdict {
        match self.heights.get(&height) {
            Some(taken) if taken.digest == *digest => match &taken.content {
                Some((_, exceptions)) if u32::try_from(exceptions.len()) != Ok(count) => {
                    breach("C-S9", format!("a verdict on height {height} lists {count} exceptions"))
                }
                _ => Ok(()),
            },
            _ => breach("C-S9", format!("a verdict on {digest:?} at height {height}, where it is not")),
        }
    }
}
