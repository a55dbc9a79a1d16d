//! What was said, written and acknowledged, judged while a tape is read and again after each crash.

use std::collections::BTreeSet;

use synod_hotstuff::Header;

use crate::oracle::{Blocks, Breach, Conflict, Oracle as _, Pack, Promises, Seen, Sighting, Signatures};
use crate::sight::header_of;

/// Acknowledged positions that are asked for again after a crash: the newest ones.
const ACKNOWLEDGED: usize = 4;

/// Whose the blocks of the conversation are: no member's.
const NOBODY: u32 = 200;

/// What broke.
#[derive(Clone, Debug)]
pub(super) enum Broken {
    /// Two statements of one key.
    Conflict(Conflict),
    /// A promise without its record, a rule of votes or locks, a lost acknowledgement.
    Gate(Breach),
}

/// The oracles of one member's life.
#[derive(Clone)]
pub(super) struct Judge {
    signatures: Signatures,
    promises: Promises,
    blocks: Blocks,
    /// Views about which it promised something, on the wire or in what it wrote.
    pub(super) promised: BTreeSet<u64>,
    /// The last deliveries to its user.
    delivered: Vec<Sighting>,
    /// What was found.
    pub(super) broken: Vec<Broken>,
}

impl Judge {
    pub(super) fn new(pack: Pack) -> Self {
        Self {
            signatures: Signatures::default(),
            promises: Promises::new(pack),
            blocks: Blocks::default(),
            promised: BTreeSet::new(),
            delivered: Vec::new(),
            broken: Vec::new(),
        }
    }

    /// Learns blocks that others made: what a member votes for may stand on blocks that it never repeats.
    pub(super) fn know<'a>(&mut self, headers: impl IntoIterator<Item = &'a Header>) {
        for header in headers {
            let seen = Seen::Header(header_of(header));
            self.blocks.learn(&Sighting { at: 0, node: NOBODY, honest: true, incarnation: 0, seen });
        }
    }

    /// Takes what the member showed.
    pub(super) fn see(&mut self, sightings: &[Sighting]) {
        for sighting in sightings {
            self.blocks.learn(sighting);
            if let Some(conflict) = self.signatures.see(sighting) {
                self.broken.push(Broken::Conflict(conflict));
            }
            if let Err(breach) = self.promises.see(sighting, &self.blocks) {
                self.broken.push(Broken::Gate(breach));
            }
            self.note(sighting);
        }
    }

    fn note(&mut self, sighting: &Sighting) {
        match sighting.seen {
            Seen::Voted(mark, _) | Seen::Proposed(mark) => drop(self.promised.insert(mark.view)),
            Seen::Complained { view, .. } => drop(self.promised.insert(view)),
            Seen::Safety(safety) => {
                let views = [safety.voted.0.view, safety.proposed.view, safety.ordered.view];
                self.promised.extend(views.into_iter().chain([safety.complained]));
            }
            Seen::Delivered { .. } => {
                self.delivered.push(*sighting);
                if self.delivered.len() > ACKNOWLEDGED {
                    self.delivered.remove(0);
                }
            }
            _ => {}
        }
    }

    /// Everything the member acknowledged before the crash is covered by what it read back; to be asked once it has.
    pub(super) fn demand_acknowledged(&mut self, before: &[Sighting]) {
        for sighting in before {
            if let Err(Breach { what, .. }) = self.promises.see(sighting, &self.blocks) {
                self.broken
                    .push(Broken::Gate(Breach { checker: "H-S2", what: format!("after the crash {what}") }));
            }
        }
    }

    /// The last deliveries to its user.
    pub(super) fn delivered(&self) -> Vec<Sighting> {
        self.delivered.clone()
    }

    /// How many statements were compared.
    pub(super) fn statements(&self) -> u64 {
        self.signatures.count() as u64
    }
}
