//! Signing roots: only under a number that is the client's to give and proven legitimate (4.1, steps 5 and 6).

use synod_crypto::bls::BlsCertificate;
use synod_crypto::{Hash, Verified};
use synod_machine::planted;
use synod_quorum::NodeId;

use super::flight::{Stage, half};
use super::{Client, Step, Task};
use crate::certificate::{HeightCertificate, Legitimacy};
use crate::certified::aggregate_of;
use crate::fault::Fault;
use crate::message::{ClientMessage, Inclusion};
use crate::statement::{BlsShareBytes, Height};
use crate::trace::Rule;
use crate::tree::root_commit;

/// The highest number that leaves a free one above it.
const K_MAX: u64 = u64::MAX - 1;

impl Client {
    /// Step 5. A root under which the message stands is remembered, for it is needed to read DELIVERY.
    pub(super) fn on_inclusion(&mut self, from: NodeId, inclusion: Inclusion, turn: &mut Step<'_>) {
        let (Some(id), Some(flight)) = (self.id, &mut self.flight) else { return };
        if flight.t.is_none() {
            return;
        }
        let (domains, rules) = (self.config.cluster.domains(), self.config.cluster.rules());
        let Inclusion { root, k, shape, proof, .. } = &inclusion;
        let counted = (1..=rules.batch_max).contains(&shape.count);
        if !counted || shape.msg_size != self.config.class.msg_size() {
            turn.blame(from, Fault::FalseInclusion);
            return;
        }
        if proof.root(domains, shape, &flight.entry(id)) != Some(*root) {
            // A correct broker's word about an earlier message may be this late.
            turn.blame(from, Fault::StrangeInclusion);
            return;
        }
        turn.applied(Rule::Step5);
        let commit = root_commit(domains, *k, shape, root);
        let checking = flight.is_checking(from);
        let is_first = from == self.config.brokers[self.turn_of] && !flight.included;
        flight.included |= is_first;
        let (k0, since, shown) = (flight.k0, flight.since, flight.remember(from, commit, &inclusion));
        let stage = shown.stage.clone();
        if is_first {
            self.included(turn.now().since(since), turn);
        }
        match stage {
            Stage::Signed(share) => {
                Self::say(from, ClientMessage::MultiSig { id, root_commit: half(&commit), share }, turn);
            }
            Stage::Checking | Stage::Signing => {}
            Stage::Known if inclusion.closed => {}
            Stage::Known if *k > K_MAX => turn.blame(from, Fault::IllegitimateK),
            // Late, of an equal message before this one or of this one under a lower number.
            Stage::Known if *k < k0 => {}
            Stage::Known if *k < self.height() || planted!(C6) => self.sign(from, commit, turn),
            Stage::Known => match inclusion.height {
                Some(height) if height.statement.height > *k => {
                    if !checking {
                        self.check_height(from, commit, height, turn);
                    }
                }
                // A broker cannot know that the number the client itself gave is not proven to it: it is shown again.
                None if *k == k0 => {}
                Some(_) | None => turn.blame(from, Fault::IllegitimateK),
            },
        }
    }

    fn check_height(&mut self, from: NodeId, commit: Hash, height: HeightCertificate, turn: &mut Step<'_>) {
        if let Some(shown) = self.flight.as_mut().and_then(|flight| flight.shown_mut(from, &commit)) {
            shown.stage = Stage::Checking;
            self.compute(turn, Task::Height(from, commit, height));
        }
    }

    /// Takes a height that was proven.
    pub(super) fn raise(&mut self, proven: &Verified<BlsCertificate<Height>>) {
        let aggregate = aggregate_of(proven, &self.config.cluster);
        if let Some(aggregate) = aggregate.filter(|_| proven.statement.height > self.height()) {
            let statement = proven.statement.clone();
            self.best = Some(Legitimacy::Height(HeightCertificate { statement, aggregate }));
        }
    }

    pub(super) fn height_checked(
        &mut self,
        from: NodeId,
        commit: Hash,
        proven: Option<Verified<BlsCertificate<Height>>>,
        turn: &mut Step<'_>,
    ) {
        match &proven {
            Some(proven) => {
                turn.applied(Rule::LegitimacyProof);
                self.raise(proven);
            }
            None => turn.blame(from, Fault::BadCertificate),
        }
        let height = self.height();
        let Some(flight) = &mut self.flight else { return };
        let k0 = flight.k0;
        let Some(shown) = flight.shown_mut(from, &commit) else { return };
        if shown.stage != Stage::Checking {
            return;
        }
        shown.stage = Stage::Known;
        if (k0..height).contains(&shown.k) && shown.k <= K_MAX {
            self.sign(from, commit, turn);
        }
    }

    /// The number is used up before its signature can leave.
    fn sign(&mut self, from: NodeId, commit: Hash, turn: &mut Step<'_>) {
        let Some(shown) = self.flight.as_mut().and_then(|flight| flight.shown_mut(from, &commit)) else {
            return;
        };
        turn.applied(Rule::LegitimateK);
        shown.stage = Stage::Signing;
        self.next_k = self.next_k.max(shown.k.saturating_add(1));
        self.compute(turn, Task::Root(from, commit));
    }

    /// Step 6: remembered, then sent.
    pub(super) fn rooted(
        &mut self,
        from: NodeId,
        commit: Hash,
        share: Option<Box<BlsShareBytes>>,
        turn: &mut Step<'_>,
    ) {
        let Some(shown) = self.flight.as_mut().and_then(|flight| flight.shown_mut(from, &commit)) else {
            return;
        };
        // A client without a key for multi-signatures is a straggler by design.
        let (Some(share), Some(id)) = (share, self.id) else {
            shown.stage = Stage::Known;
            return;
        };
        shown.stage = Stage::Signed(share.clone());
        self.persist(turn);
        turn.applied(Rule::Step6);
        Self::say(from, ClientMessage::MultiSig { id, root_commit: half(&commit), share }, turn);
    }
}
