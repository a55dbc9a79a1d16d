//! Consensus of one epoch (paper, section 5; Algorithms 2 to 5): what replicas say by Consistent Tail Broadcast, read as streams,
//! decides one batch for each slot.
//!
//! *Protocol.* The leader of a view proposes; each replica that vouches for the proposal promises to certify it, and once all have, to
//! commit to it; once all have promised that, it is decided: no signature. What is slow is signed: f + 1 signatures are a certificate,
//! f + 1 streams that show it decide. Promises are honoured before a view is left, and the next leader shows what must be proposed
//! again. Slots below a certified checkpoint are let go.
//!
//! *The user* knows what requests are: it is asked to vouch for batches ([`Told::Judge`]), is given them in the order of slots
//! ([`Told::Decided`]), and says what state they led to ([`Ask::Executed`]).
//!
//! *Where.* `propose`: leading. `promise`: the fast path. `certify`, `commit`: the slow path. `checkpoint`. `summary`: streams, their
//! gaps and summaries. `seal`, `new_view`, `suspect`: views. `fetch`: what is missed.
//!
//! *Bounds.* 2 W slots, n streams, [`super::fetch::WANTS_MAX`] things that are asked for; see [`Consensus::bytes_max`].

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use synod_crypto::{Claim, Hash, Verified};
use synod_machine::{Event, Family, Lift, Machine, Never, Turn};
use synod_quorum::{NodeId, NodeSet, Quorums};
use synod_wire::{Bytes, Wire as _};

use super::fetch::Fetches;
use super::job::{Finished, Task};
use super::pace::Pace;
use super::suspect::Suspicion;
use super::words::{Alarm, Ask, Told, Word, node};
use super::work::{Lane, Own, Work};
use crate::batch::{Slot, View};
use crate::body::{Body, CheckpointBy};
use crate::certificate::Checkpoint;
use crate::config::{Config, Unsound};
use crate::ctb::{self, CtBroadcast};
use crate::fault::Fault;
use crate::job;
use crate::statement::Statement;
use crate::stream::{Low, Stream};
use crate::stretch::Stretch;
use crate::trace::Rule;

/// A share that was checked.
pub(super) type Share = Verified<Claim<Statement>>;

/// What a broadcast told, and is to be looked at.
#[derive(Clone, Debug)]
enum Heard {
    Message(Bytes),
    Promise(NodeId),
}

/// How this replica's slots go (4.10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mode {
    pub(super) is_slow: bool,
    /// The fast path is off for good.
    pub(super) is_forced: bool,
    /// Slots in a row that were fast, and slow.
    pub(super) fast: u32,
    pub(super) slow: u32,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Consensus {
    pub(super) config: Arc<Config>,
    pub(super) quorums: Quorums,
    pub(super) ctb: Family<NodeId, CtBroadcast>,
    pub(super) lanes: BTreeMap<NodeId, Lane>,
    /// Messages that were delivered and not looked at.
    inbox: VecDeque<(NodeId, u64, Heard)>,
    pub(super) works: Stretch<Work>,
    /// Of slots that are over, for their memory: at most a window of them.
    pub(super) spare: Vec<Work>,
    pub(super) own: Own,
    pub(super) view: View,
    pub(super) sealing: Option<View>,
    /// The newest certified checkpoint, and its certificate unless the epoch began with it.
    pub(super) low: Low,
    pub(super) certified: Option<CheckpointBy>,
    /// Checked signatures of that checkpoint, of each replica one at most.
    pub(super) certified_by: Vec<Share>,
    /// Of each replica its newest share of a checkpoint.
    pub(super) checkpoints: BTreeMap<NodeId, (Checkpoint, Share)>,
    /// Shares of summaries of the own stream, by number.
    pub(super) summaries: BTreeMap<u64, BTreeMap<NodeId, Share>>,
    /// Shares of where replicas stood, for the view that this replica leads or will lead.
    pub(super) left: BTreeMap<(u8, NodeId), Share>,
    /// The next slot to be handed over.
    pub(super) next: Slot,
    /// The user knows that it is behind this checkpoint.
    pub(super) behind: Option<Slot>,
    pub(super) mode: Mode,
    pub(super) pace: Pace,
    pub(super) suspicion: Suspicion,
    pub(super) fetches: Fetches,
    pub(super) checks: BTreeMap<NodeId, u32>,
    pub(super) is_fast_armed: bool,
    pub(super) is_gap_armed: bool,
    /// Where the epoch ends, once it is ordered.
    ending: Option<Slot>,
}

/// A broadcast's words, said by consensus.
struct Of(u8);

impl Lift<CtBroadcast, Consensus> for Of {
    fn message(&self, word: ctb::Message) -> Word {
        Word::Ctb { broadcaster: self.0, word }
    }
    fn timer(&self, timer: ctb::Timer) -> Alarm {
        Alarm::Ctb(self.0, timer)
    }
    fn record(&self, record: Never) -> Never {
        record
    }
    fn job(&self, job: job::Job) -> Task {
        Task::Ctb(self.0, job)
    }
}

impl Consensus {
    /// Consensus of the epoch of a configuration, which begins behind a checkpoint.
    ///
    /// # Errors
    /// A configuration that cannot work.
    pub fn new(config: Arc<Config>, start: Low) -> Result<Self, Unsound> {
        let quorums = config.quorums()?;
        let n = usize::try_from(config.roster.size()).unwrap_or(0);
        let mut ctb = Family::new(n);
        for id in config.roster.all().iter() {
            let one = CtBroadcast::new(Arc::clone(&config), id)?;
            ctb.member(id, || one);
        }
        let lane = |id| (id, Lane::new(Stream::new(&config, id, start)));
        let own = Own {
            view: config.first_view,
            low: start.low,
            next_prepare: Some(start.low),
            is_shown: true,
            states: BTreeMap::new(),
            summarized: 0,
        };
        let suspicion = Suspicion::new(config.parameters.suspect);
        Ok(Self {
            lanes: config.roster.all().iter().map(lane).collect(),
            quorums,
            ctb,
            inbox: VecDeque::new(),
            works: Stretch::new(),
            spare: Vec::new(),
            own,
            view: config.first_view,
            sealing: None,
            low: start,
            certified: None,
            certified_by: Vec::new(),
            checkpoints: BTreeMap::new(),
            summaries: BTreeMap::new(),
            left: BTreeMap::new(),
            next: start.low,
            behind: None,
            mode: Mode::default(),
            pace: Pace::default(),
            suspicion,
            fetches: Fetches::default(),
            checks: BTreeMap::new(),
            is_fast_armed: false,
            is_gap_armed: false,
            ending: None,
            config,
        })
    }

    /// The same, of a user whose state is the one behind `executed`.
    #[must_use]
    pub fn behind(self, executed: Slot) -> Self {
        Self { next: executed, ..self }
    }

    /// Whether the last checkpoint of the epoch is certified: nothing is said any more but answers to whoever misses something.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.low.end == Some(self.low.low)
    }

    /// Where the epoch ends, as far as that is known here.
    pub(super) fn end(&self) -> Option<Slot> {
        self.low.end.or(self.ending)
    }

    /// The view that this replica is in.
    #[must_use]
    pub const fn view(&self) -> View {
        self.view
    }

    /// Whether it is about to leave its view.
    #[must_use]
    pub const fn is_sealing(&self) -> bool {
        self.sealing.is_some()
    }

    /// Whether slots are signed at once.
    #[must_use]
    pub const fn is_slow(&self) -> bool {
        self.mode.is_slow
    }

    /// The newest certified checkpoint.
    #[must_use]
    pub const fn low(&self) -> Low {
        self.low
    }

    /// The certificate of [`Self::low`], unless the epoch began with it.
    #[must_use]
    pub const fn certified(&self) -> Option<&CheckpointBy> {
        self.certified.as_ref()
    }

    /// The next slot to be handed over.
    #[must_use]
    pub const fn next(&self) -> Slot {
        self.next
    }

    /// What a replica said, as far as it is applied here.
    #[must_use]
    pub fn stream(&self, of: NodeId) -> Option<&Stream> {
        self.lanes.get(&of).map(|lane| &lane.stream)
    }

    /// Whether a replica said something that it may not.
    #[must_use]
    pub fn is_halted(&self, of: NodeId) -> bool {
        self.lanes.get(&of).is_some_and(|lane| lane.is_halted)
    }

    /// The leader of the present view.
    #[must_use]
    pub fn leader(&self) -> NodeId {
        self.config.leader(self.view)
    }

    pub(super) fn me(&self) -> NodeId {
        self.config.me
    }

    pub(super) fn others(&self) -> NodeSet {
        self.config.roster.others(self.config.me)
    }

    pub(super) fn one_correct(&self) -> u32 {
        self.quorums.one_correct()
    }

    /// The end of the window behind a checkpoint, which the end of the epoch cuts.
    pub(super) fn window_end(&self, low: Slot) -> Slot {
        let end = low.0.saturating_add(u64::from(self.config.parameters.window));
        Slot(self.low.end.map_or(end, |last| end.min(last.0)))
    }

    /// Whether this replica may speak about a slot.
    pub(super) fn is_open(&self, slot: Slot) -> bool {
        (self.low.low..self.window_end(self.low.low)).contains(&slot)
    }

    /// The place of a slot, if it is one that is kept: from the checkpoint on, two windows.
    pub(super) fn work(&mut self, slot: Slot) -> Option<&mut Work> {
        let window = u64::from(self.config.parameters.window);
        let end = self.low.low.0.saturating_add(2 * window);
        if slot < self.low.low || slot.0 >= end {
            return None;
        }
        let spare = &mut self.spare;
        self.works.get_or_insert_with(slot, || match spare.pop() {
            Some(work) => work.renew(slot),
            None => Work::new(slot),
        })
    }

    pub(super) fn sign(&self, turn: &mut Turn<'_, Self>, statement: impl FnOnce(u8) -> Statement) {
        let signer = self.me().member();
        let scope = self.config.scope();
        if let Some(me) = signer {
            turn.compute(Task::Sign { scope, statement: statement(me) });
        }
    }

    /// Says the next message of the own stream; a long one by reference (D3).
    pub(super) fn say(&mut self, body: &Body, turn: &mut Turn<'_, Self>) {
        let signed = matches!(body, Body::SealView(_) | Body::NewView { .. });
        let (mut bytes, me) = (body.encode(), self.me());
        if bytes.len() > self.config.body_max() {
            let digest = Hash::of(&bytes);
            let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            self.lanes.get_mut(&me).into_iter().for_each(|lane| lane.keep_body(digest, bytes.clone()));
            bytes = Body::Ref { digest, length }.encode();
        }
        self.cast(me, Event::Input(ctb::Input::Broadcast { body: bytes, signed }), turn);
    }

    /// Messages that the own stream has room for.
    pub(super) fn can_say(&self) -> bool {
        self.ctb.get(self.me()).is_some_and(|own| own.room() > 0)
    }

    /// Whether everything said is sent: nothing waits for a summary.
    pub(super) fn is_said(&self) -> bool {
        self.ctb.get(self.me()).is_some_and(|own| !own.is_blocked())
    }

    /// Steps the broadcast of one replica's messages.
    pub(super) fn cast(&mut self, broadcaster: NodeId, event: Event<CtBroadcast>, turn: &mut Turn<'_, Self>) {
        let Some((nested, member)) = self.ctb.get_mut(broadcaster).zip(broadcaster.member()) else { return };
        let told: Vec<ctb::Output> = nested.step(event, &Of(member), turn).collect();
        for told in told {
            match told {
                ctb::Output::Delivered { k, body } => {
                    self.inbox.push_back((broadcaster, k, Heard::Message(body)));
                }
                ctb::Output::Promised { k, by } => self.inbox.push_back((broadcaster, k, Heard::Promise(by))),
                ctb::Output::Missing { k, digest } => self.miss_body(member, k, digest, turn),
                ctb::Output::Retired { .. } => turn.output(Told::Retired),
                ctb::Output::Reborn { memory, boot } => turn.output(Told::Reborn { memory, boot }),
                ctb::Output::Refused(_) => turn.applied(Rule::Unsaid),
                // It blamed whom it names; nothing more of it is delivered.
                ctb::Output::Equivocated(_) => {}
            }
        }
    }

    fn on_word(&mut self, from: NodeId, word: Word, turn: &mut Turn<'_, Self>) {
        if let Word::Ctb { broadcaster, word } = word {
            let of = match word.reply() {
                Some(reply) => ctb::broadcaster_of(reply.place, self.config.parameters.tail),
                None => Some(node(broadcaster)),
            };
            let is_promised = match &word {
                ctb::Message::Lock { k, body } if of == Some(from) => {
                    self.promise_early(from, (*k, body.bytes()), turn)
                }
                _ => false,
            };
            if let Some(of) = of.filter(|_| !is_promised) {
                self.cast(of, Event::Message { from, message: word }, turn);
            }
            return;
        }
        if !self.others().contains(from) {
            turn.blame(from, Fault::NoReceiver);
            return;
        }
        match word {
            Word::WillCertify { view, slot, .. } => self.on_will_certify(from, view, slot, turn),
            Word::WillCommit { view, slot, .. } => self.on_will_commit(from, view, slot, turn),
            Word::Certify { view, slot, digest, signature } => {
                let signer = from.member().unwrap_or(u8::MAX);
                self.on_share(from, Statement::Certify { signer, view, slot, digest }, *signature, turn);
            }
            Word::CertifyCheckpoint { checkpoint, signature } => {
                let signer = from.member().unwrap_or(u8::MAX);
                self.on_share(
                    from,
                    Statement::Checkpoint { signer, checkpoint: *checkpoint },
                    *signature,
                    turn,
                );
            }
            Word::CertifySummary { summarized, signature } => {
                let signer = from.member().unwrap_or(u8::MAX);
                self.on_share(
                    from,
                    crate::certificate::Subject::statement(&summarized, signer),
                    *signature,
                    turn,
                );
            }
            Word::CertifyLeft { view, about, low, checkpoint, commits, signature } => {
                let signer = from.member().unwrap_or(u8::MAX);
                let statement = Statement::Left { signer, view, about, low, checkpoint, commits };
                self.on_share(from, statement, *signature, turn);
            }
            Word::Summary(summary) => self.on_summary(from, *summary, turn),
            Word::Hint { view, slot } => self.on_hint(from, view, slot, turn),
            Word::Fetch(want) => self.on_fetch(from, want, turn),
            Word::Content { digest, at, total, bytes } => {
                self.on_content(from, (digest, at, total), bytes.bytes(), turn);
            }
            Word::Checkpoint(certificate) => self.on_certificate(from, *certificate, turn),
            Word::Left(left) => self.on_left_body(*left, turn),
            Word::Ctb { .. } => {}
        }
    }

    fn on_finished(&mut self, finished: Finished, turn: &mut Turn<'_, Self>) {
        match finished {
            Finished::Ctb(broadcaster, done) => self.cast(node(broadcaster), Event::Done(done), turn),
            Finished::Signed(claim) => self.on_signed(claim, turn),
            Finished::Share(claim) => {
                let signer = match &claim {
                    Ok(claim) => claim.signer,
                    Err(claim) => claim.signer,
                };
                self.checks.entry(signer).and_modify(|checks| *checks = checks.saturating_sub(1));
                match claim {
                    Ok(claim) if self.is_useful(signer, &claim.statement) => self.on_good_share(claim, turn),
                    Ok(_) => {}
                    Err(_) => turn.blame(signer, Fault::BadShare),
                }
            }
            Finished::Body { about, k, checked, seen } => self.on_body(node(about), k, (checked, seen), turn),
            Finished::Summary { from, about, good } => self.on_good_summary((from, about), good, turn),
            Finished::Checkpoint { from, good: None } => turn.blame(from, Fault::BadCertificate),
            Finished::Checkpoint { good: Some(good), .. } => {
                self.adopt(good.into_inner().into_certificate(), turn);
            }
        }
    }

    fn on_ask(&mut self, ask: Ask, turn: &mut Turn<'_, Self>) {
        match ask {
            Ask::Propose { time, requests } => self.propose(time, requests, turn),
            Ask::Endorse { view, slot, digest } => self.on_endorsed(view, slot, digest, turn),
            Ask::Executed(checkpoint) => self.on_executed(*checkpoint, turn),
            Ask::Resume(slot) => self.resume(slot, turn),
            Ask::Goto(slot) => self.go_to(slot, turn),
            Ask::Adopt(certificate) => self.adopt(*certificate, turn),
            Ask::Ending(slot) => self.ending = Some(slot),
            Ask::Greet(peer) => self.greet(peer, turn),
            Ask::Pressing(since) => self.on_pressing(since, turn),
            Ask::SlowOnly => {
                self.mode.is_forced = true;
                self.become_slow(true, turn);
            }
        }
    }

    /// Whatever was delivered meanwhile is looked at, one after the other and never within one another.
    pub(super) fn settle(&mut self, turn: &mut Turn<'_, Self>) {
        while let Some((of, k, heard)) = self.inbox.pop_front() {
            match heard {
                Heard::Message(body) => self.on_delivered(of, k, body, turn),
                Heard::Promise(by) => self.on_promised(of, k, by, turn),
            }
        }
    }
}

impl Machine for Consensus {
    type Input = Ask;
    type Message = Word;
    type Timer = Alarm;
    type Record = Never;
    type Job = Task;
    type Output = Told;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        if self.is_over() {
            if let Event::Message { from, message: Word::Fetch(want) } = event {
                self.on_fetch(from, want, turn);
            }
            return;
        }
        match event {
            Event::Start => self.start(turn),
            Event::Input(ask) => self.on_ask(ask, turn),
            Event::Message { from, message } => self.on_word(from, message, turn),
            Event::Timer(Alarm::Ctb(of, timer)) => self.cast(node(of), Event::Timer(timer), turn),
            Event::Timer(Alarm::Fast) => self.on_slow(turn),
            Event::Timer(Alarm::Gap) => self.on_gap(turn),
            Event::Timer(Alarm::Suspect) => self.on_suspect(turn),
            Event::Timer(Alarm::Reshare) => self.reshare(turn),
            Event::Timer(Alarm::Fetch) => self.on_refetch(turn),
            Event::Done(finished) => self.on_finished(finished, turn),
            Event::Loaded { .. } | Event::Link { .. } => {}
        }
        self.settle(turn);
        self.lead(turn);
        self.settle(turn);
        self.try_seal(turn);
        self.settle(turn);
        self.watch(turn);
    }

    fn invariants(&self) {
        for (_, one) in self.ctb.iter() {
            one.invariants();
        }
        assert!(self.inbox.is_empty(), "what was delivered is looked at");
        assert!(self.sealing.is_none_or(|to| to > self.view), "a view is left for a later one");
        assert!(self.own.low <= self.low.low, "the own stream shows no more than is certified");
        let most = 2 * usize::try_from(self.config.parameters.window).unwrap_or(0);
        assert!(self.works.len() <= most + most, "{} slots", self.works.len());
    }
}
