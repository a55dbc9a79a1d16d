//! Every header anybody sent, and every vote anybody cast.

use std::collections::BTreeMap;

use synod_crypto::Hash;

use super::sighting::{HeaderSeen, Phase, Seen, Sighting};

/// The union of all that was on the wire or in a journal.
#[derive(Default)]
pub struct Blocks {
    headers: BTreeMap<Hash, HeaderSeen>,
    children: BTreeMap<Hash, Vec<Hash>>,
    votes: BTreeMap<(Phase, u64, Hash), u128>,
}

impl Blocks {
    /// Adds what a sighting shows.
    pub fn learn(&mut self, sighting: &Sighting) {
        let own = 1_u128.checked_shl(sighting.node).unwrap_or(0);
        match sighting.seen {
            Seen::Header(header) => self.header(header),
            Seen::Voted(mark, phase) => self.votes(phase, mark.view, mark.digest, own),
            Seen::Certificate(cert) => self.votes(cert.phase, cert.of.view, cert.of.digest, cert.signers),
            Seen::Safety(safety) => {
                let (voted, phase) = safety.voted;
                self.votes(phase, voted.view, voted.digest, own);
                self.votes(Phase::Order, safety.ordered.view, safety.ordered.digest, own);
            }
            Seen::Proposed(_)
            | Seen::Complained { .. }
            | Seen::GaveUp { .. }
            | Seen::Committed(_)
            | Seen::Delivered { .. } => {}
        }
    }

    fn header(&mut self, header: HeaderSeen) {
        if self.headers.insert(header.own.digest, header).is_none() {
            self.children.entry(header.parent).or_default().push(header.own.digest);
        }
    }

    fn votes(&mut self, phase: Phase, view: u64, digest: Hash, who: u128) {
        *self.votes.entry((phase, view, digest)).or_default() |= who;
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

    /// How many members were seen to vote in this phase for this block in its view.
    #[must_use]
    pub fn support(&self, phase: Phase, digest: &Hash) -> u32 {
        let view = self.headers.get(digest).map(|h| h.own.view);
        view.and_then(|view| self.votes.get(&(phase, view, *digest))).map_or(0, |who| who.count_ones())
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
