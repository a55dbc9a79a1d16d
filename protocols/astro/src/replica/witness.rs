//! Batches whose owners' signatures witnesses check for the others (specification, section 4.5, `verify = "witness"`).
//!
//! Who is no witness of a batch waits for the words of f members beside the representative, and checks by itself where one of them finds
//! something bad or speaks of other keys, or where too few speak in time: relying saves work, and is never needed. Whoever
//! checks says what it found, as a witness does. How long is in time: [`super::patience`].

use std::sync::Arc;

use synod_crypto::PublicKey;
use synod_machine::broadcast::Lot;
use synod_machine::{Turn, planted};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{Blob, List, Wire};

use super::lane::{Looks, Reliance};
use super::{Carrier, Replica, compute, say};
use crate::batch::Opened;
use crate::fault::Fault;
use crate::job::Work;
use crate::together::Signer;
use crate::trace::Rule;
use crate::witness::{FalseWitness, Looked, Verify, Witnessed};
use crate::words::{Output, Timer, Word};

impl<B: Carrier> Replica<B> {
    /// Who checks the signatures of a batch beside its representative: others take their turn with the number of the batch.
    pub(super) fn witnesses(&self, lot: Lot, margin: u8) -> NodeSet {
        let others: Vec<NodeId> =
            self.config.view.roster.all().without(NodeId(u32::from(lot.source))).iter().collect();
        let wanted = self.quorums.faulty().saturating_add(u32::from(margin));
        let turns = (0..u64::from(wanted)).map(|at| lot.sequence.wrapping_add(at));
        let nth = |turn: u64| usize::try_from(turn.checked_rem(others.len() as u64)?).ok();
        turns.filter_map(nth).filter_map(|at| others.get(at).copied()).collect()
    }

    /// Has the owners' signatures of a lane's next batch checked, by this node or by others.
    pub(super) fn check_owners(
        &mut self,
        opened: Arc<Opened>,
        keys: Vec<Option<Signer>>,
        turn: &mut Turn<'_, Self>,
    ) {
        let (lot, view) = (opened.lot(), Arc::clone(&self.config.view));
        self.lane_mut(lot.source).checking = Some(lot.sequence);
        match self.config.parameters.verify {
            Verify::All => {
                let points = self.points.clone();
                let recalled = self.recall(&opened);
                compute(turn, Work::Check { opened, view, keys, points, recalled });
            }
            Verify::Witness { margin } if self.witnesses(lot, margin).contains(self.config.me) => {
                self.bear_witness(opened, keys, turn);
            }
            Verify::Witness { margin } => {
                let (usual, since) = (self.config.parameters.resend, turn.now());
                let (witnesses, wanted) = (self.witnesses(lot, margin), self.quorums.faulty());
                let lane = self.lane_mut(lot.source);
                lane.reliance = Some(Reliance { opened, keys, since });
                turn.arm(Timer::Witness(lot), lane.patience.span(witnesses, wanted, usual));
                self.rely(lot.source, turn);
            }
        }
    }

    fn bear_witness(&self, opened: Arc<Opened>, keys: Vec<Option<Signer>>, turn: &mut Turn<'_, Self>) {
        let (view, me) = (Arc::clone(&self.config.view), self.config.me);
        let points = self.points.clone();
        compute(turn, Work::Witness { opened, view, me, keys, points });
    }

    /// This node checked a batch's signatures: `wanted` are the keys that it checked under, `good` those under which signatures are good.
    pub(super) fn on_witnessed(
        &mut self,
        opened: &Arc<Opened>,
        (wanted, good): (Vec<Option<Signer>>, Vec<Option<PublicKey>>),
        word: Witnessed,
        turn: &mut Turn<'_, Self>,
    ) {
        let lot = opened.lot();
        say(turn, self.others(), Word::Witnessed(word));
        let looks = self.lane_mut(lot.source).looks(lot.sequence);
        let others: Vec<Witnessed> = looks.words.values().copied().collect();
        looks.own = Some((word, Arc::clone(opened), wanted));
        for other in others {
            self.convict(other, turn);
        }
        self.on_checked(opened, good, std::collections::BTreeSet::new(), turn);
    }

    /// A member says what it found. Each has one word on a batch.
    pub(super) fn on_witness(&mut self, from: NodeId, word: Witnessed, turn: &mut Turn<'_, Self>) {
        let window = self.config.parameters.lane_window;
        let is_told = matches!(self.config.parameters.verify, Verify::Witness { .. });
        let Some(lane) = self.lanes.get_mut(&word.lot.source).filter(|_| is_told) else {
            return turn.blame(from, Fault::BadWitness);
        };
        lane.hear(from, word.lot.sequence, turn.now());
        let is_near =
            word.lot.sequence > lane.looked_from() && word.lot.sequence <= lane.judged.saturating_add(window);
        let is_new =
            lane.looks.get(&word.lot.sequence).is_none_or(|looks| !looks.words.contains_key(&word.member));
        if is_near && is_new {
            compute(turn, Work::Look { view: Arc::clone(&self.config.view), from, word });
        }
    }

    /// A member's word was checked.
    pub(super) fn on_looked(&mut self, from: NodeId, word: Option<Witnessed>, turn: &mut Turn<'_, Self>) {
        let Some(word) = word else { return turn.blame(from, Fault::BadWitness) };
        let lane = self.lane_mut(word.lot.source);
        if word.lot.sequence <= lane.looked_from() {
            return;
        }
        lane.looks(word.lot.sequence).words.entry(word.member).or_insert(word);
        self.convict(word, turn);
        self.rely(word.lot.source, turn);
    }

    /// Takes the word of others on the batch that waits for it, once enough have said that it is good; checks where one says otherwise.
    fn rely(&mut self, source: u8, turn: &mut Turn<'_, Self>) {
        let lane = self.lane_mut(source);
        let Some(Reliance { opened, keys, .. }) = &lane.reliance else { return };
        let (lot, digest, of) = (opened.lot(), opened.digest, Looked::over_keys(keys));
        let none = Looks::default();
        let words = lane.looks.get(&lot.sequence).unwrap_or(&none).words.values();
        // Who speaks of another batch in this place says nothing of this one.
        let words: Vec<Witnessed> = words.filter(|word| word.digest == digest).copied().collect();
        if words.iter().any(|word| !word.is_good || word.keys != of) {
            return self.check_alone(source, turn);
        }
        let mut by: NodeSet = words.iter().map(|word| NodeId(u32::from(word.member))).collect();
        by.insert(NodeId(u32::from(source)));
        if !self.quorums.has_correct(by) && !planted!(A35) {
            return;
        }
        let taken = self.lane_mut(source).reliance.take();
        let Some(Reliance { opened, keys, .. }) = taken else { unreachable!("it was there") };
        turn.disarm(Timer::Witness(lot));
        turn.applied(Rule::Rely);
        let keys = keys.into_iter().map(|key| key.map(|signer| signer.single)).collect();
        self.on_checked(&opened, keys, std::collections::BTreeSet::new(), turn);
    }

    /// Checks the batch that waits for others' words by itself.
    fn check_alone(&mut self, source: u8, turn: &mut Turn<'_, Self>) {
        if let Some(Reliance { opened, keys, .. }) = self.lane_mut(source).reliance.take() {
            turn.disarm(Timer::Witness(opened.lot()));
            turn.applied(Rule::CheckAlone);
            self.bear_witness(opened, keys, turn);
        }
    }

    /// Too few spoke in time.
    pub(super) fn on_witness_due(&mut self, lot: Lot, turn: &mut Turn<'_, Self>) {
        let reliance = self.lanes.get(&lot.source).and_then(|lane| lane.reliance.as_ref());
        let Some(since) = reliance.filter(|reliance| reliance.opened.lot() == lot).map(|one| one.since)
        else {
            return;
        };
        let Verify::Witness { margin } = self.config.parameters.verify else { return };
        let mut silent = self.witnesses(lot, margin);
        let lane = self.lane_mut(lot.source);
        let spoke = lane.looks.get(&lot.sequence).into_iter().flat_map(|looks| looks.words.keys());
        spoke.for_each(|member| silent = silent.without(NodeId(u32::from(*member))));
        lane.patience.give_up(silent, (lot.sequence, since));
        self.check_alone(lot.source, turn);
    }

    /// A batch is certified: its endorsement waits for no words any more.
    pub(super) fn rely_no_more(&mut self, lot: Lot, turn: &mut Turn<'_, Self>) {
        let lane = self.lane_mut(lot.source);
        let Some(Reliance { opened, .. }) = lane.reliance.take_if(|reliance| reliance.opened.lot() == lot)
        else {
            return;
        };
        lane.checking = None;
        // Judged as what it is: the next of its lane that is certified.
        lane.waiting.insert(lot.sequence, opened);
        turn.disarm(Timer::Witness(lot));
        self.go_on(lot.source, turn);
    }

    /// Shows a word that says of the same signatures what this node found not to be so.
    fn convict(&self, word: Witnessed, turn: &mut Turn<'_, Self>) {
        let looks = self.lanes.get(&word.lot.source).and_then(|lane| lane.looks.get(&word.lot.sequence));
        let Some((own, opened, wanted)) = looks.and_then(|looks| looks.own.as_ref()) else { return };
        let is_same = (own.digest, own.keys) == (word.digest, word.keys);
        if !is_same || own.is_good == word.is_good || own.member == word.member {
            return;
        }
        let keys = List::try_from(wanted.clone()).expect("as many as a batch has entries");
        let payload = Blob::try_from(opened.payload()).expect("it came in a payload");
        let (member, evidence) = (NodeId(u32::from(word.member)), FalseWitness { word, keys, payload });
        turn.blame(member, Fault::FalseWitness);
        turn.output(Output::FalseWitness { member, lot: word.lot, evidence: evidence.encode() });
    }
}
