//! Every header anybody sent, and every promise honest members made.

use std::collections::BTreeMap;

use synod_crypto::Hash;

use super::sighting::{HeaderSeen, Phase, Seen, Sighting};

/// The union of all that was on the wire or in a journal. Votes and complaints are learned from those who cast them,
/// never from certificates; a member that was faulty at any time counts as having signed everything.
#[derive(Clone, Default)]
pub struct Blocks {
    headers: BTreeMap<Hash, HeaderSeen>,
    children: BTreeMap<Hash, Vec<Hash>>,
    votes: BTreeMap<(Phase, u64, Hash), u128>,
    complaints: BTreeMap<u64, u128>,
    faulty: u128,
}

impl Blocks {
    /// Adds what a sighting shows.
    pub fn learn(&mut self, sighting: &Sighting) {
        let own = 1_u128.checked_shl(sighting.node).unwrap_or(0);
        if !sighting.honest {
            self.faulty |= own;
        }
        match sighting.seen {
            Seen::Header(header) => self.header(header),
            Seen::Voted(mark, phase) => self.vote(phase, mark.view, mark.digest, own),
            Seen::Complained { view, .. } => {
                *self.complaints.entry(view).or_default() |= own;
            }
            Seen::Safety(safety) => {
                let (voted, phase) = safety.voted;
                self.vote(phase, voted.view, voted.digest, own);
                self.vote(Phase::Order, safety.ordered.view, safety.ordered.digest, own);
                *self.complaints.entry(safety.complained).or_default() |= own;
            }
            Seen::Reopened
            | Seen::Started
            | Seen::Entered(_)
            | Seen::Jumped(_)
            | Seen::Proposed(_)
            | Seen::Certificate(_)
            | Seen::GaveUp { .. }
            | Seen::Committed { .. }
            | Seen::Stable(_)
            | Seen::Delivered { .. }
            | Seen::Item { .. }
            | Seen::Proved { .. } => {}
        }
    }

    /// The member breaks its protocol from now on: it may have signed anything.
    pub fn fault(&mut self, node: u32) {
        self.faulty |= 1_u128.checked_shl(node).unwrap_or(0);
    }

    fn header(&mut self, header: HeaderSeen) {
        if self.headers.insert(header.own.digest, header).is_none() {
            self.children.entry(header.parent).or_default().push(header.own.digest);
        }
    }

    fn vote(&mut self, phase: Phase, view: u64, digest: Hash, who: u128) {
        *self.votes.entry((phase, view, digest)).or_default() |= who;
    }

    /// Number of different headers seen.
    #[must_use]
    pub fn count(&self) -> usize {
        self.headers.len()
    }

    /// The header of a digest, if it was ever sent.
    #[must_use]
    pub fn get(&self, digest: &Hash) -> Option<&HeaderSeen> {
        self.headers.get(digest)
    }

    /// The children of a block.
    #[must_use]
    pub fn children(&self, digest: &Hash) -> &[Hash] {
        self.children.get(digest).map_or(&[], Vec::as_slice)
    }

    /// Who voted in this phase and view for this block, the faulty always among them.
    #[must_use]
    pub fn voters(&self, phase: Phase, view: u64, digest: &Hash) -> u128 {
        self.votes.get(&(phase, view, *digest)).copied().unwrap_or(0) | self.faulty
    }

    /// How many members voted in this phase for this block in its view.
    #[must_use]
    pub fn support(&self, phase: Phase, digest: &Hash) -> u32 {
        let view = self.headers.get(digest).map(|h| h.own.view);
        view.map_or(0, |view| self.voters(phase, view, digest).count_ones())
    }

    /// The most members that voted in this phase for one block of this view.
    #[must_use]
    pub fn best(&self, phase: Phase, view: u64) -> u32 {
        let of_view = self.votes.range((phase, view, Hash([0; 32]))..=(phase, view, Hash([255; 32])));
        of_view.map(|(_, who)| (*who | self.faulty).count_ones()).max().unwrap_or(0)
    }

    /// Who complained about the term that ends with this view, the faulty always among them.
    #[must_use]
    pub fn complainers(&self, view: u64) -> u128 {
        self.complaints.get(&view).copied().unwrap_or(0) | self.faulty
    }

    /// Whether `ancestor` is `digest` or on its branch.
    #[must_use]
    pub fn extends(&self, digest: &Hash, ancestor: &Hash) -> bool {
        let mut at = *digest;
        loop {
            if at == *ancestor {
                return true;
            }
            match self.headers.get(&at) {
                Some(header) => at = header.parent,
                None => return false,
            }
        }
    }
}
