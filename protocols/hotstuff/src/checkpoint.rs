//! Checkpoints: which states members attest, which are stable, and from where a member far behind starts again.
//!
//! *Bounds.* Two attestations per member, as many own states as the user may be ahead, one certificate.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_crypto::{Certificate, Signature};
use synod_machine::broadcast::Position;
use synod_quorum::{Epoch, NodeId, Roster};

use crate::CheckpointCert;
use crate::certificate::Anchor;
use crate::statement::Attested;

/// Attestations kept of one member.
const PER_MEMBER_MAX: usize = 2;
/// Own states kept until they are certified.
const OWN_MAX: usize = 16;

/// What came of an attestation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Attesting {
    /// It counts.
    New,
    /// It is old or stands already.
    Nothing,
    /// The member attested another state for this position.
    Conflict(Attested),
}

/// The checkpoints of one replica.
#[derive(Clone, Debug)]
pub(crate) struct Checkpoints {
    every: u64,
    stable: Option<Arc<Anchor>>,
    own: BTreeMap<Position, Attested>,
    held: BTreeMap<NodeId, Vec<(Attested, Signature)>>,
    in_check: Option<Position>,
    certified: Option<Arc<CheckpointCert>>,
    jumping: Option<Arc<Anchor>>,
}

impl Checkpoints {
    /// No checkpoint yet.
    pub(crate) const fn new(every: u64) -> Self {
        Self {
            every,
            stable: None,
            own: BTreeMap::new(),
            held: BTreeMap::new(),
            in_check: None,
            certified: None,
            jumping: None,
        }
    }

    /// Whether a checkpoint is due at `position`.
    pub(crate) const fn is_due(&self, position: Position) -> bool {
        position.0 > 0 && position.0.is_multiple_of(self.every)
    }

    /// The newest stable checkpoint.
    pub(crate) fn stable(&self) -> Option<Arc<Anchor>> {
        self.stable.clone()
    }

    /// Its position; 0 before the first.
    pub(crate) fn stable_position(&self) -> Position {
        self.stable.as_ref().map_or(Position(0), |anchor| anchor.certificate.state().position)
    }

    /// Makes a checkpoint the stable one and forgets what lies at or below it.
    pub(crate) fn set_stable(&mut self, anchor: Arc<Anchor>) {
        let position = anchor.certificate.state().position;
        assert!(position > self.stable_position(), "checkpoints only rise");
        self.stable = Some(anchor);
        self.own.retain(|at, _| *at > position);
        self.held.values_mut().for_each(|held| held.retain(|(state, _)| state.position > position));
        if self.certified.as_ref().is_some_and(|c| c.state().position <= position) {
            self.certified = None;
        }
    }

    /// The state this member reached at `position`.
    pub(crate) fn own(&self, position: Position) -> Option<&Attested> {
        self.own.get(&position)
    }

    /// Notes a state this member reached.
    pub(crate) fn reach(&mut self, state: Attested) {
        self.own.insert(state.position, state);
        while self.own.len() > OWN_MAX {
            self.own.pop_first();
        }
    }

    /// Records an attestation.
    pub(crate) fn add(&mut self, from: NodeId, state: Attested, signature: Signature) -> Attesting {
        if state.position <= self.stable_position() {
            return Attesting::Nothing;
        }
        let held = self.held.entry(from).or_default();
        if let Some((first, _)) = held.iter().find(|(s, _)| s.position == state.position) {
            return if *first == state { Attesting::Nothing } else { Attesting::Conflict(*first) };
        }
        held.push((state, signature));
        held.sort_by_key(|(s, _)| s.position);
        if held.len() > PER_MEMBER_MAX {
            held.remove(0);
        }
        Attesting::New
    }

    /// Attestations of `state` of quorum power, if they are there and not in check.
    pub(crate) fn assemble(
        &mut self,
        state: &Attested,
        epoch: Epoch,
        roster: &Roster,
    ) -> Option<Arc<CheckpointCert>> {
        let votes: Vec<(NodeId, Signature)> = self
            .held
            .iter()
            .filter_map(|(id, held)| held.iter().find(|(s, _)| s == state).map(|(_, sig)| (*id, *sig)))
            .collect();
        let signers = votes.iter().map(|(id, _)| *id).collect();
        let busy = self.in_check.is_some_and(|at| at >= state.position);
        let certified = self.certified.as_ref().is_some_and(|c| c.state().position >= state.position);
        if busy || certified || !roster.weights().is_quorum(signers) {
            return None;
        }
        self.in_check = Some(state.position);
        Some(Arc::new(CheckpointCert { epoch, attested: Certificate::assemble(*state, votes) }))
    }

    /// The check of an assembled certificate ended; forgers lose their attestation.
    pub(crate) fn checked(&mut self, state: &Attested, forgers: &[NodeId]) {
        self.in_check = None;
        for forger in forgers {
            if let Some(held) = self.held.get_mut(forger) {
                held.retain(|(s, _)| s != state);
            }
        }
    }

    /// A certificate this member cannot act on before it applied its position.
    pub(crate) fn certify(&mut self, certificate: Arc<CheckpointCert>) {
        let newer = self.certified.as_ref().is_none_or(|c| c.state().position < certificate.state().position);
        if newer {
            self.certified = Some(certificate);
        }
    }

    /// The certificate that waits for the user to apply its position.
    pub(crate) fn certified(&self) -> Option<Arc<CheckpointCert>> {
        self.certified.clone()
    }

    /// Where the user is told to start again, until it says it did.
    pub(crate) fn jumping(&self) -> Option<Arc<Anchor>> {
        self.jumping.clone()
    }

    /// Begins or ends a jump.
    pub(crate) fn set_jumping(&mut self, anchor: Option<Arc<Anchor>>) {
        self.jumping = anchor;
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        let held: usize = self.held.values().map(Vec::len).sum();
        let anchors = [&self.stable, &self.jumping].into_iter().flatten();
        let anchors: u64 = anchors.map(|a| a.certificate.memory() + a.header.memory()).sum();
        let certified = self.certified.as_ref().map_or(0, |c| c.memory());
        256 * held as u64 + 128 * self.own.len() as u64 + anchors + certified
    }
}
