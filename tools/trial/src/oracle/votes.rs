//! H-S4, H-S5 and H-S9: one vote per view and phase, rising; no promise below a complaint; certificates of enough
//! distinct members that signed what it says, one per view and phase.

use std::collections::BTreeMap;

use synod_crypto::Hash;

use super::sighting::{CertSeen, MarkSeen, Phase, Seen, Sighting};
use super::{Blocks, Oracle, Verdict, breach, quorum};

#[derive(Clone, Default)]
struct Voter {
    last: BTreeMap<bool, (u64, Phase)>,
    by_slot: BTreeMap<(u64, Phase), Hash>,
    proposed: BTreeMap<u64, Hash>,
    complained: u64,
}

/// Watches votes, proposals, complaints and certificates.
#[derive(Clone)]
pub struct Votes {
    members: u32,
    voters: BTreeMap<u32, Voter>,
    certified: BTreeMap<(Phase, u64), Hash>,
}

impl Votes {
    /// For a cluster of `members`.
    #[must_use]
    pub fn new(members: u32) -> Self {
        Self { members, voters: BTreeMap::new(), certified: BTreeMap::new() }
    }

    fn voted(&mut self, node: u32, mark: MarkSeen, phase: Phase) -> Verdict {
        let voter = self.voters.entry(node).or_default();
        let slot = (mark.view, phase);
        match voter.by_slot.get(&slot) {
            Some(first) if *first != mark.digest => {
                return breach("H-S5", format!("n{node} voted twice in view {} {phase:?}", mark.view));
            }
            Some(_) => {}
            None => {
                let order = phase == Phase::Order;
                if voter.last.get(&order).is_some_and(|last| *last >= slot) {
                    return breach("H-S5", format!("n{node} voted in view {} after a later one", mark.view));
                }
                voter.last.insert(order, slot);
                voter.by_slot.insert(slot, mark.digest);
            }
        }
        if voter.complained > 0 && mark.view <= voter.complained {
            let (view, given) = (mark.view, voter.complained);
            return breach(
                "H-S5",
                format!("n{node} promised {phase:?} in view {view} after complaining of {given}"),
            );
        }
        Ok(())
    }

    fn proposed(&mut self, node: u32, mark: MarkSeen) -> Verdict {
        let first = *self.voters.entry(node).or_default().proposed.entry(mark.view).or_insert(mark.digest);
        if first == mark.digest {
            return Ok(());
        }
        breach("H-S5", format!("n{node} proposed twice in view {}", mark.view))
    }

    fn signers(&self, node: u32, what: &str, signers: u128) -> Verdict {
        let strangers = self.members < 128 && signers >> self.members != 0;
        if strangers || signers.count_ones() < quorum(self.members) {
            let count = signers.count_ones();
            return breach("H-S9", format!("n{node} holds {what} by {count}"));
        }
        Ok(())
    }

    fn certificate(&mut self, node: u32, cert: &CertSeen, blocks: &Blocks) -> Verdict {
        let CertSeen { phase, of, signers } = *cert;
        if of.view == 0 {
            return Ok(());
        }
        self.signers(node, &format!("a {phase:?} certificate of view {}", of.view), signers)?;
        let invented = signers & !blocks.voters(phase, of.view, &of.digest);
        if invented != 0 {
            let who = invented.trailing_zeros();
            return breach(
                "H-S9",
                format!("n{node} holds a {phase:?} vote of n{who} in view {} that was never cast", of.view),
            );
        }
        if blocks.get(&of.digest).is_some_and(|header| header.own.view != of.view) {
            return breach(
                "H-S9",
                format!("n{node} holds a certificate of view {} for a block of another", of.view),
            );
        }
        let first = *self.certified.entry((phase, of.view)).or_insert(of.digest);
        if first == of.digest {
            return Ok(());
        }
        breach("H-S4", format!("view {} {phase:?} certified both {first} and {}", of.view, of.digest))
    }

    fn gave_up(&self, node: u32, view: u64, signers: u128, blocks: &Blocks) -> Verdict {
        self.signers(node, &format!("a timeout certificate of {view}"), signers)?;
        let invented = signers & !blocks.complainers(view);
        if invented == 0 {
            return Ok(());
        }
        let who = invented.trailing_zeros();
        breach("H-S9", format!("n{node} holds a complaint of n{who} about {view} that was never made"))
    }
}

impl Oracle for Votes {
    fn see(&mut self, sighting: &Sighting, blocks: &Blocks) -> Verdict {
        if !sighting.honest {
            return Ok(());
        }
        let node = sighting.node;
        match sighting.seen {
            Seen::Voted(mark, phase) => self.voted(node, mark, phase),
            Seen::Proposed(mark) => self.proposed(node, mark),
            Seen::Complained { view, .. } => {
                let voter = self.voters.entry(node).or_default();
                voter.complained = voter.complained.max(view);
                Ok(())
            }
            Seen::Certificate(cert) => self.certificate(node, &cert, blocks),
            Seen::GaveUp { view, signers, .. } => self.gave_up(node, view, signers, blocks),
            Seen::Reopened
            | Seen::Started
            | Seen::Entered(_)
            | Seen::Jumped(_)
            | Seen::Header(_)
            | Seen::Safety(_)
            | Seen::Committed { .. }
            | Seen::Stable(_)
            | Seen::Delivered { .. }
            | Seen::Item { .. }
            | Seen::Proved { .. } => Ok(()),
        }
    }
}
