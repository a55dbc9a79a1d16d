//! Checkpoints: which states members attest, which are stable, and from where a member far behind starts again.
//!
//! *Loss.* Own attestations are said again until they are certified. To a member that says again what is certified here,
//! this member says its own again: so that one forms the certificate too.
//!
//! *Bounds.* Two attestations per member, as many own states as the user may be ahead, one certificate; one answer per
//! member and half second.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_crypto::{Certificate, Signature};
use synod_machine::broadcast::Position;
use synod_machine::{Span, Time};
use synod_quorum::{Epoch, NodeId, Roster};

use crate::CheckpointCert;
use crate::certificate::Anchor;
use crate::statement::Attested;

/// Attestations kept of one member.
const PER_MEMBER_MAX: usize = 2;
/// Own states kept until they are certified: as many as the user keeps above the newest certified one.
pub(crate) const OWN_MAX: usize = 16;

/// Between two answers to the same attestation of one member; it says it again once a second.
const ANSWER_EVERY: Span = Span::millis(500);

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
    /// Own attestations as they were signed, and whether a status was due since.
    signed: Vec<(Attested, Signature, bool)>,
    /// Attestations of what is stable here, and when they came or were answered last.
    late: BTreeMap<NodeId, (Position, Time)>,
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
            signed: Vec::new(),
            late: BTreeMap::new(),
            in_check: None,
            certified: None,
            jumping: None,
        }
    }

    /// Whether a checkpoint is due at `position`.
    pub(crate) const fn is_due(&self, position: Position) -> bool {
        position.0 > 0 && position.0.is_multiple_of(self.every)
    }

    /// Whether a user that was given everything up to `given` surely has the state of `position` still, which it reached: it
    /// keeps the [`OWN_MAX`] newest. What it was given before it hears of a certificate, it may apply first.
    pub(crate) const fn is_kept(&self, position: Position, given: Position) -> bool {
        given.0 / self.every < position.0 / self.every + OWN_MAX as u64
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

    /// Keeps an own attestation, to say it again.
    pub(crate) fn keep_signed(&mut self, state: Attested, signature: Signature) {
        self.signed.retain(|(held, ..)| held.position != state.position);
        self.signed.push((state, signature, false));
        self.signed.sort_by_key(|(held, ..)| held.position);
        if self.signed.len() > PER_MEMBER_MAX {
            self.signed.remove(0);
        }
    }

    /// Own attestations that nothing certifies yet.
    pub(crate) fn unsettled(&self) -> Vec<(Attested, Signature)> {
        let stable = self.stable_position();
        let open = self.signed.iter().filter(|(state, ..)| state.position > stable);
        open.map(|(state, signature, _)| (*state, *signature)).collect()
    }

    /// Those of them that were unsettled when this was asked last, too.
    pub(crate) fn overdue(&mut self) -> Vec<(Attested, Signature)> {
        let stable = self.stable_position();
        let mut overdue = Vec::new();
        for (state, signature, aged) in self.signed.iter_mut().filter(|(state, ..)| state.position > stable) {
            if core::mem::replace(aged, true) {
                overdue.push((*state, *signature));
            }
        }
        overdue
    }

    /// What to say to a member that says again what is stable here: the own attestation of that position.
    pub(crate) fn answer(
        &mut self,
        from: NodeId,
        position: Position,
        now: Time,
    ) -> Option<(Attested, Signature)> {
        let (own, signature, _) = self.signed.iter().find(|(state, ..)| state.position == position)?;
        let again = self.late.get(&from).is_some_and(|(last, _)| *last == position);
        let due = self.late.get(&from).is_none_or(|(_, at)| now.since(*at) >= ANSWER_EVERY);
        if !again || due {
            self.late.insert(from, (position, now));
        }
        (again && due).then_some((*own, *signature))
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
        256 * (held + self.signed.len() + self.late.len()) as u64
            + 128 * self.own.len() as u64
            + anchors
            + certified
    }
}

#[cfg(test)]
mod tests {
    use super::{Checkpoints, PER_MEMBER_MAX};
    use crate::View;
    use crate::statement::Attested;
    use synod_crypto::{Hash, Signature};
    use synod_machine::broadcast::Position;
    use synod_machine::{Span, Time};
    use synod_quorum::NodeId;

    fn state(position: u64) -> Attested {
        let (digest, root) = (Hash::of(b"block"), Hash::of(&position.to_le_bytes()));
        Attested { position: Position(position), view: View(position), digest, index: 1, root }
    }

    fn positions(attestations: &[(Attested, Signature)]) -> Vec<u64> {
        attestations.iter().map(|(state, _)| state.position.0).collect()
    }

    #[test]
    fn an_attestation_is_overdue_at_the_second_status_and_only_the_newest_are_kept() {
        let mut checkpoints = Checkpoints::new(10);
        checkpoints.keep_signed(state(10), Signature([0; 64]));
        assert_eq!(
            (positions(&checkpoints.overdue()), positions(&checkpoints.unsettled())),
            (vec![], vec![10])
        );
        checkpoints.keep_signed(state(20), Signature([0; 64]));
        assert_eq!(positions(&checkpoints.overdue()), [10]);
        assert_eq!(positions(&checkpoints.overdue()), [10, 20]);
        checkpoints.keep_signed(state(30), Signature([0; 64]));
        assert_eq!(positions(&checkpoints.unsettled()), [20, 30]);
        assert_eq!(checkpoints.signed.len(), PER_MEMBER_MAX);
    }

    #[test]
    fn only_a_repetition_is_answered_and_not_at_once() {
        let mut checkpoints = Checkpoints::new(10);
        checkpoints.keep_signed(state(10), Signature([0; 64]));
        let at = |ms| Time::ZERO + Span::millis(ms);
        let mut ask = |from, position, ms| {
            let answer = checkpoints.answer(NodeId(from), Position(position), at(ms));
            answer.map(|(state, _)| state.position.0)
        };
        assert_eq!(ask(1, 10, 0), None, "it was late, and may have the certificate soon");
        assert_eq!(ask(1, 10, 100), None);
        assert_eq!(ask(1, 10, 1_000), Some(10));
        assert_eq!(ask(1, 10, 1_100), None, "once in a while");
        assert_eq!((ask(2, 10, 1_100), ask(2, 20, 3_000)), (None, None), "another member, another position");
        assert_eq!(ask(1, 10, 2_000), Some(10));
    }
}
