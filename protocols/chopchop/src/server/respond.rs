//! Answers to brokers: verdicts, heights, states, the directory (section 4.8).
//!
//! *Bounds.* The verdicts of the last 4,096 heights, signatures of 1,024 heights, 256 brokers whose questions are counted, and as
//! many of whom 8 heights each are remembered that they asked for before the delivery; brokers and servers of the genesis have places
//! of their own beside them, and half of what is at work at a time, for new names are to be had for nothing.
//! A height is signed as work of whoever asked for it, within its budget, and only if its signature will be kept: whoever asks
//! for old heights without end has none signed twice.

mod pulls;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use synod_crypto::Hash;
use synod_machine::broadcast::AtomicBroadcast;
use synod_machine::{Span, Time, Turn};
use synod_quorum::{MEMBERS_MAX, NodeId};
use synod_wire::Wire as _;

use super::{Server, ServerTask};
use crate::message::{ServerMessage, SignedHeight, StateAsk, Verdict};
use crate::rations::Rations;
use crate::statement::{BlsSignatureBytes, Height, State};

/// Heights whose verdicts are kept.
const VERDICTS: u64 = 4_096;
/// Bytes of verdicts kept, beyond the newest: long lists of exceptions push old ones out.
const VERDICT_BYTES: u64 = 64 << 20;
/// Heights whose signatures are kept.
const HEIGHTS: usize = 1_024;
/// Heights that are signed at a time, half of them for brokers outside the genesis, and of those for one broker.
const SIGNING_MAX: u32 = 64;
const SIGNING_SHARE: u32 = 8;
/// Heights that one broker may have signed each second; what is signed already is said as often as it is asked for.
const HEIGHTS_PER_SECOND: u32 = 128;
/// Brokers that wait for one thing, those of the genesis beside them.
const WAITERS: usize = 256;
/// Brokers and servers that a genesis names at most.
const NAMED: usize = 64 + MEMBERS_MAX as usize;
/// Accepted heights whose delivery one broker waits for.
const EARLY: usize = 8;
/// Bytes of them, at most.
const EARLY_BYTES: u64 = 256;
/// Questions about clients that a broker may ask each second.
const STATES_PER_SECOND: u32 = 10;
/// How long one client is not asked about again.
const STATE_AGAIN: Span = Span::secs(10);

/// What is known of one height.
#[derive(Clone, Debug)]
struct Kept {
    digest: Hash,
    brokers: Vec<NodeId>,
    verdict: Option<Verdict>,
}

/// What one broker asked.
#[derive(Clone, Debug)]
struct Asked {
    /// Whether the genesis names it.
    named: bool,
    second: Time,
    /// Clients and heights in this second.
    count: u32,
    heights: u32,
    /// Heights that are being signed for it.
    signing: u32,
    clients: VecDeque<(Time, u32)>,
}

/// Heights that one broker waits for.
#[derive(Clone, Debug)]
struct Early {
    named: bool,
    heights: BTreeSet<u64>,
}

/// Who asks, and whether the genesis names it.
type Asker = (NodeId, bool);

/// What becomes of a question for a height.
#[derive(Clone, Debug, PartialEq, Eq)]
enum HeightAnswer {
    /// Its signature is here.
    Known(BlsSignatureBytes),
    /// It is to be signed, for this broker.
    Sign,
    /// It is being signed, or cannot be now.
    Nothing,
}

/// What a server answers.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers {
    kept: BTreeMap<u64, Kept>,
    of: BTreeMap<Hash, u64>,
    verdict_bytes: u64,
    heights: BTreeMap<u64, (Option<BlsSignatureBytes>, Vec<NodeId>)>,
    signing: u32,
    /// Heights that brokers asked for before they were delivered.
    early: BTreeMap<NodeId, Early>,
    asked: BTreeMap<NodeId, Asked>,
    states: Vec<(NodeId, StateAsk)>,
    root: Option<(u32, Hash)>,
    rooting: bool,
    pulls: Vec<(NodeId, u32)>,
    pulled: Rations,
}

impl Answers {
    /// A batch was delivered: its verdict will come, for these brokers.
    pub(super) fn expect(&mut self, height: u64, digest: Hash, brokers: Vec<NodeId>) {
        self.kept.insert(height, Kept { digest, brokers, verdict: None });
        self.of.insert(digest, height);
        self.trim();
    }

    fn trim(&mut self) {
        while self.kept.len() as u64 > VERDICTS || (self.verdict_bytes > VERDICT_BYTES && self.kept.len() > 1)
        {
            let Some((_, old)) = self.kept.pop_first() else { return };
            self.of.remove(&old.digest);
            self.verdict_bytes -= old.verdict.map_or(0, |verdict| verdict.size_hint() as u64);
        }
    }

    /// Keeps a verdict; who waits for it.
    pub(super) fn keep(&mut self, verdict: Verdict) -> Vec<NodeId> {
        let Some(kept) = self.kept.get_mut(&verdict.statement.height) else { return Vec::new() };
        if kept.verdict.is_none() {
            self.verdict_bytes += verdict.size_hint() as u64;
        }
        kept.verdict = Some(verdict);
        let brokers = core::mem::take(&mut kept.brokers);
        self.trim();
        brokers
    }

    /// The verdict on a batch; a broker that asks before it is signed hears it then.
    fn verdict(&mut self, digest: &Hash, broker: NodeId) -> Option<Verdict> {
        let kept = self.kept.get_mut(self.of.get(digest)?)?;
        if kept.verdict.is_none() {
            super::order::remember(&mut kept.brokers, broker);
        }
        kept.verdict.clone()
    }

    /// What a broker asked before; none when too many others ask, unless the genesis names it.
    fn asked_by(&mut self, (broker, named): Asker, now: Time) -> Option<&mut Asked> {
        let full = |answers: &Self| answers.asked.values().filter(|asked| !asked.named).count() >= WAITERS;
        if !named && !self.asked.contains_key(&broker) && full(self) {
            self.asked.retain(|_, asked| now.since(asked.second) < STATE_AGAIN);
            if full(self) {
                return None;
            }
        }
        let fresh = Asked { named, second: now, count: 0, heights: 0, signing: 0, clients: VecDeque::new() };
        let asked = self.asked.entry(broker).or_insert(fresh);
        if now.since(asked.second) >= Span::secs(1) {
            (asked.second, asked.count, asked.heights) = (now, 0, 0);
        }
        Some(asked)
    }

    /// A broker asks for a height.
    fn ask_height(&mut self, asker: Asker, height: u64, now: Time) -> HeightAnswer {
        let (broker, named) = asker;
        if let Some((signature, waiters)) = self.heights.get_mut(&height) {
            if let Some(signature) = *signature {
                return HeightAnswer::Known(signature);
            }
            if !waiters.contains(&broker) && waiters.len() < if named { WAITERS + NAMED } else { WAITERS } {
                waiters.push(broker);
            }
            return HeightAnswer::Nothing;
        }
        let lowest = self.heights.first_key_value().map_or(0, |(lowest, _)| *lowest);
        let kept = self.heights.len() < HEIGHTS || height > lowest;
        let others =
            || self.asked.values().filter(|asked| !asked.named).map(|asked| asked.signing).sum::<u32>();
        if !kept || self.signing >= SIGNING_MAX || (!named && others() >= SIGNING_MAX / 2) {
            return HeightAnswer::Nothing;
        }
        let Some(asked) = self.asked_by(asker, now) else { return HeightAnswer::Nothing };
        if asked.heights >= HEIGHTS_PER_SECOND || asked.signing >= SIGNING_SHARE {
            return HeightAnswer::Nothing;
        }
        (asked.heights, asked.signing) = (asked.heights + 1, asked.signing + 1);
        self.signing += 1;
        self.heights.insert(height, (None, vec![broker]));
        if self.heights.len() > HEIGHTS {
            self.heights.pop_first();
        }
        HeightAnswer::Sign
    }

    /// A broker asks for a height before it is delivered, and hears of it then. The lowest stay: they are delivered first.
    fn ask_early(&mut self, (broker, named): Asker, height: u64) {
        let others = || self.early.values().filter(|early| !early.named).count();
        if named || self.early.contains_key(&broker) || others() < WAITERS {
            let fresh = Early { named, heights: BTreeSet::new() };
            let heights = &mut self.early.entry(broker).or_insert(fresh).heights;
            heights.insert(height);
            if heights.len() > EARLY {
                heights.pop_last();
            }
        }
    }

    /// Who asked too early for what is delivered now.
    pub(super) fn due(&mut self, delivered: u64) -> Vec<(NodeId, u64)> {
        let mut due = Vec::new();
        self.early.retain(|broker, Early { heights, .. }| {
            let later = heights.split_off(&(delivered + 1));
            due.extend(core::mem::replace(heights, later).into_iter().map(|height| (*broker, height)));
            !heights.is_empty()
        });
        due
    }

    /// A height was signed for this broker: who waits for it.
    fn height_signed(&mut self, broker: NodeId, height: u64, signature: &BlsSignatureBytes) -> Vec<NodeId> {
        self.signing = self.signing.saturating_sub(1);
        if let Some(asked) = self.asked.get_mut(&broker) {
            asked.signing = asked.signing.saturating_sub(1);
        }
        let Some((place, waiters)) = self.heights.get_mut(&height) else { return Vec::new() };
        *place = Some(*signature);
        core::mem::take(waiters)
    }

    /// Whether a broker may ask about a client now: 10 clients a second, each once in ten.
    fn admits(&mut self, asker: Asker, id: u32, now: Time) -> bool {
        let Some(asked) = self.asked_by(asker, now) else { return false };
        while asked.clients.front().is_some_and(|(at, _)| now.since(*at) >= STATE_AGAIN) {
            asked.clients.pop_front();
        }
        let again = asked.clients.iter().any(|(_, client)| *client == id);
        if again || asked.count >= STATES_PER_SECOND {
            return false;
        }
        asked.count += 1;
        asked.clients.push_back((now, id));
        true
    }

    pub(super) fn bytes(&self) -> u64 {
        self.verdict_bytes
            + self.pulled.bytes()
            + (self.kept.len() * 320 + self.heights.len() * 160 + self.asked.len() * 4_096) as u64
            + self.early.len() as u64 * EARLY_BYTES
    }

    pub(super) const fn bytes_max() -> u64 {
        // One verdict more than the cap: the vector of the largest batch.
        VERDICT_BYTES
            + (1 << 20)
            + Rations::bytes_max(&pulls::PULLS)
            + VERDICTS * 320
            + HEIGHTS as u64 * 160
            + (WAITERS + NAMED) as u64 * (4_096 + EARLY_BYTES)
    }
}

impl<A: AtomicBroadcast> Server<A> {
    /// Whether the genesis names it, as a broker or a server.
    fn names(&self, node: NodeId) -> bool {
        self.settings.brokers.contains(&node) || self.settings.cluster.roster().member(node).is_some()
    }

    /// A broker asks again for the verdict on a batch.
    pub(super) fn on_certify(&mut self, from: NodeId, digest: &Hash, turn: &mut Turn<'_, Self>) {
        if let Some(verdict) = self.answers.verdict(digest, from) {
            turn.send(from, ServerMessage::Delivered(verdict).into());
        } else if let Some(accepted) =
            self.backlog.iter_mut().find(|accepted| accepted.statement.digest == *digest)
        {
            super::order::remember(&mut accepted.brokers, from);
        }
    }

    /// A broker asks for a signature over a height. Only delivered ones are signed; stores speak of accepted ones (CREDIT), and
    /// those who ask for one are answered when it is delivered.
    pub(super) fn on_height_ask(&mut self, from: NodeId, height: u64, turn: &mut Turn<'_, Self>) {
        let asker = (from, self.names(from));
        if height > self.delivered && height <= self.height() {
            return self.answers.ask_early(asker, height);
        }
        if height == 0 || height > self.delivered {
            return;
        }
        let statement = Height { height };
        match self.answers.ask_height(asker, height, turn.now()) {
            HeightAnswer::Known(signature) => {
                turn.send(from, ServerMessage::Height(SignedHeight { statement, signature }).into());
            }
            HeightAnswer::Sign => self.job(ServerTask::Height(from, statement), turn),
            HeightAnswer::Nothing => {}
        }
    }

    /// Answers those who asked for a height before it was delivered.
    pub(super) fn answer_early(&mut self, turn: &mut Turn<'_, Self>) {
        for (broker, height) in self.answers.due(self.delivered) {
            self.on_height_ask(broker, height, turn);
        }
    }

    /// A height was signed, which this broker asked for first.
    pub(super) fn on_height(&mut self, asker: NodeId, signed: SignedHeight, turn: &mut Turn<'_, Self>) {
        for broker in self.answers.height_signed(asker, signed.statement.height, &signed.signature) {
            turn.send(broker, ServerMessage::Height(signed.clone()).into());
        }
    }

    /// A broker asks where a client stands.
    pub(super) fn on_state_ask(&mut self, from: NodeId, ask: StateAsk, turn: &mut Turn<'_, Self>) {
        let known = self.loading.is_none() && ask.id < self.table.len();
        let named = self.names(from);
        let waiting = &self.answers.states;
        let others = waiting.iter().filter(|(broker, _)| !self.names(*broker)).count();
        let full = waiting.len() >= WAITERS || (!named && others >= WAITERS / 2);
        if known && !full && self.answers.admits((from, named), ask.id, turn.now()) {
            self.answers.states.push((from, ask));
            self.answer_states(turn);
        }
    }

    /// Answers about the clients whose lanes are not at work.
    pub(super) fn answer_states(&mut self, turn: &mut Turn<'_, Self>) {
        let asked = core::mem::take(&mut self.answers.states);
        for (from, ask) in asked {
            match self.table.slot(ask.id) {
                Some(slot) => {
                    let StateAsk { nonce, id } = ask;
                    let state = State { nonce, id, next_k: slot.next_k, tag: slot.tag };
                    self.job(ServerTask::State(from, state), turn);
                }
                None => self.answers.states.push((from, ask)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Answers, EARLY, HEIGHTS, HEIGHTS_PER_SECOND, HeightAnswer, NAMED, SIGNING_MAX, SIGNING_SHARE, WAITERS,
    };
    use crate::statement::BlsSignatureBytes;
    use synod_machine::{Span, Time};
    use synod_quorum::NodeId;

    const SIGNED: BlsSignatureBytes = BlsSignatureBytes([7; 96]);

    fn asks(answers: &mut Answers, height: u64, now: Time) -> bool {
        let begun = answers.ask_height((NodeId(200), false), height, now) == HeightAnswer::Sign;
        if begun {
            assert_eq!(answers.height_signed(NodeId(200), height, &SIGNED), [NodeId(200)]);
        }
        begun
    }

    #[test]
    fn no_height_is_signed_twice_however_old_it_is() {
        let (mut answers, mut now, mut signed) = (Answers::default(), Time::ZERO, 0);
        for round in 0..3 {
            for height in 1..=3 * HEIGHTS as u64 {
                now = now + Span::millis(100);
                signed += u64::from(asks(&mut answers, height, now));
            }
            assert_eq!(signed, 3 * HEIGHTS as u64, "round {round}");
        }
        let known = answers.ask_height((NodeId(201), false), 3 * HEIGHTS as u64, now);
        assert_eq!(known, HeightAnswer::Known(SIGNED), "the newest are said at once");
    }

    #[test]
    fn a_broker_that_asks_for_height_after_height_keeps_to_its_budget_and_others_have_their_own() {
        let (mut answers, now) = (Answers::default(), Time(Span::secs(1).0));
        let begun = (1..=500).filter(|height| asks(&mut answers, *height, now)).count();
        assert_eq!(begun, HEIGHTS_PER_SECOND as usize);
        let ask =
            |answers: &mut Answers, broker, height| answers.ask_height((NodeId(broker), false), height, now);
        assert_eq!(ask(&mut answers, 201, 500), HeightAnswer::Sign);
        assert_eq!(ask(&mut answers, 202, 500), HeightAnswer::Nothing, "one signature serves both");
        assert_eq!(answers.height_signed(NodeId(201), 500, &SIGNED), [NodeId(201), NodeId(202)]);
        let at_once = (1_000..1_100).filter(|h| ask(&mut answers, 203, *h) == HeightAnswer::Sign).count();
        assert_eq!(at_once, SIGNING_SHARE as usize);
        assert_eq!(ask(&mut answers, 204, 1_200), HeightAnswer::Sign);
        assert!(asks(&mut answers, 400, now + Span::secs(1)), "a second later it has another");
    }

    #[test]
    fn who_asks_too_early_hears_of_the_lowest_heights_and_keeps_nobody_else_from_it() {
        let mut answers = Answers::default();
        for broker in (0_u32..).take(2 * WAITERS) {
            (10..100).rev().for_each(|height| answers.ask_early((NodeId(broker), false), height));
        }
        assert!(answers.bytes() <= Answers::bytes_max());
        assert_eq!(answers.due(9), []);
        assert_eq!(answers.due(10).len(), WAITERS);
        answers.ask_early((NodeId(9_000), false), 12);
        assert_eq!(answers.due(11).len(), WAITERS);
        let due = answers.due(200);
        let of = |broker| due.iter().filter(move |(of, _)| *of == NodeId(broker)).map(|(_, height)| *height);
        assert!(of(0).eq(12..10 + EARLY as u64), "the lowest of those that it asked for");
        assert_eq!(of(9_000).count(), 0, "as many wait as may");
        answers.ask_early((NodeId(9_000), false), 300);
        assert_eq!(answers.due(300), [(NodeId(9_000), 300)], "those that were answered make room");
    }

    #[test]
    fn names_that_nobody_knows_take_no_place_from_those_of_the_genesis() {
        let (mut answers, now) = (Answers::default(), Time(Span::secs(1).0));
        let guests = (1_000_u32..).take(2 * WAITERS);
        let counted = guests.clone().filter(|guest| answers.admits((NodeId(*guest), false), 5, now)).count();
        assert_eq!(counted, WAITERS, "as many others as there are places");
        guests.for_each(|guest| answers.ask_early((NodeId(guest), false), 7));
        assert!(answers.admits((NodeId(200), true), 5, now) && answers.admits((NodeId(3), true), 5, now));
        assert_eq!(answers.ask_height((NodeId(201), true), 1, now), HeightAnswer::Sign);
        answers.ask_early((NodeId(202), true), 7);
        assert!(answers.due(7).contains(&(NodeId(202), 7)), "also of what is to be delivered");
        // Later others come and go as before.
        let late = now + Span::secs(10);
        assert!(answers.admits((NodeId(9_000), false), 5, late));
        let named = 0..u32::try_from(NAMED).expect("few");
        assert!(named.map(|id| (NodeId(id), true)).all(|of| answers.asked_by(of, late).is_some()));
        assert!(answers.bytes() <= Answers::bytes_max());
    }

    #[test]
    fn heights_that_are_signed_for_others_leave_half_of_the_places() {
        let (mut answers, now) = (Answers::default(), Time(Span::secs(1).0));
        let mut begun = |brokers: core::ops::Range<u32>, named: bool, from: u64| {
            let each = (from..).zip(brokers.flat_map(|broker| [broker; 16]));
            each.filter(|(height, broker)| {
                answers.ask_height((NodeId(*broker), named), *height, now) == HeightAnswer::Sign
            })
            .count()
        };
        assert_eq!(begun(1_000..1_100, false, 1), SIGNING_MAX as usize / 2);
        assert_eq!(begun(200..300, true, 5_000), SIGNING_MAX as usize / 2);
    }
}
