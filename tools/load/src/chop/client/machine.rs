//! The machine: events in, messages of many clients out.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use synod_chopchop::card::Card;
use synod_chopchop::certificate::DeliveryCertificate;
use synod_chopchop::message::ClientMessage;
use synod_chopchop::receipt::Receipt;
use synod_chopchop::tree::TreeShape;
use synod_chopchop::vocabulary::{self, Message};
use synod_machine::{
    Bounded, Event, Link, Log, Machine, Never, QueueSpec, Recover, Span, Time, Turn, Unrecoverable,
};

use super::config::{Crowd, Invalid};
use super::due::Due;
use super::job::{Done, Job, Shared, Task};
use super::member::{Member, Stage};
use super::root::Roots;
use super::stats::{Account, Stats};

/// What a load client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Every member without an id signs up.
    SignUp,
    /// From now on messages are strokes instead of payments: each member's next so many, no two to the same pixel of the
    /// board that [`stroke`](super::stroke) names.
    Paint(u32),
    /// Every member broadcasts until it has begun so many messages in all.
    Broadcast(u32),
    /// No message is begun any more.
    Stop,
    /// Says what was counted.
    Report,
    /// Says what each member knows of its messages.
    Accounts,
}

/// What it tells.
#[derive(Clone, Debug)]
pub enum Output {
    /// The counts.
    Stats(Box<Stats>),
    /// A receipt, unverified.
    Receipt(Box<Receipt>),
    /// What each member with an id knows.
    Accounts(Vec<Account>),
}

/// The name of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Messages and cards are begun.
    Begin,
    /// What is due is done.
    Tick,
}

/// How often messages are begun.
pub(super) const BEGIN: Span = Span::millis(5);
/// How often it is looked what is due.
const TICK: Span = Span::millis(10);

/// How long something takes, smoothed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trip(Option<Span>);

impl Trip {
    pub(super) fn add(&mut self, took: Span) {
        let smooth = self.0.map_or(took, |old| Span((old.0 / 8).saturating_mul(7) + took.0 / 8));
        self.0 = Some(smooth);
    }

    /// So many times what it takes, at least `least` and at most ten times that.
    pub(super) fn times(self, count: u64, least: Span) -> Span {
        self.0.unwrap_or_default().times(count).max(least).min(least.times(10))
    }
}

/// Many clients.
pub struct LoadClient {
    pub(super) crowd: Crowd,
    pub(super) shared: Arc<Shared>,
    pub(super) members: Vec<Member>,
    pub(super) roots: Roots,
    /// Members whose turn to begin a message comes.
    pub(super) ready: VecDeque<u32>,
    pub(super) due: Due,
    /// Messages that each member begins.
    pub(super) goal: u32,
    /// Strokes of each member, if messages are strokes.
    pub(super) paints: Option<u32>,
    /// Messages that may be begun now, in thousandths.
    pub(super) allowance: u64,
    /// Members whose message no broker showed a root for.
    pub(super) unshown: u32,
    /// How long brokers take to show a root, and to deliver.
    pub(super) inclusion_trip: Trip,
    pub(super) delivery_trip: Trip,
    /// Members whose cards are to be made, and cards on their way.
    pub(super) strangers: VecDeque<u32>,
    pub(super) cards: BTreeMap<u32, Option<Box<Card>>>,
    /// The delivery of the highest height, unverified.
    pub(super) best: Option<DeliveryCertificate>,
    /// The highest height that was shown, unverified.
    pub(super) height: u64,
    /// The next nonce of Ed25519.
    nonce: u64,
    pub(super) stats: Stats,
}

pub(super) type Step<'a> = Turn<'a, LoadClient>;

impl LoadClient {
    pub(super) fn compute(&mut self, task: Task, signs: usize, turn: &mut Step<'_>) {
        self.nonce += signs as u64;
        turn.compute(Job { shared: self.shared.clone(), task });
    }

    /// The first of the nonces that the next job takes.
    pub(super) const fn next_nonce(&self) -> u64 {
        self.nonce
    }

    pub(super) fn say(&self, member: u32, broker: u32, message: ClientMessage, turn: &mut Step<'_>) {
        turn.send(self.crowd.link(broker, member), Message::Client(message));
    }

    /// Does something for this member at this time, and nothing before.
    pub(super) fn set_due(&mut self, at: u32, due: Option<Time>) {
        self.due.set(at, due);
    }

    /// Goes to another broker; after a full round patience doubles.
    pub(super) fn next_broker(&mut self, at: u32) {
        let brokers = self.crowd.brokers;
        let Some(member) = self.members.get_mut(at as usize) else { return };
        member.broker += 1;
        if member.broker >= brokers {
            member.broker = 0;
            member.rounds = member.rounds.saturating_add(1);
        }
        member.attempts = 0;
        member.included = false;
        member.explain = false;
    }

    /// How long a broker has to deliver, after so many rounds over all of them.
    pub(super) fn patience(&self, rounds: u32) -> Span {
        let submit = self.crowd.pace.submit;
        // A broker that died is to be left before long, however slow it was.
        self.delivery_trip.times(4, submit).min(submit.times(3)).times(1 << rounds.min(4))
    }

    fn tick(&mut self, turn: &mut Step<'_>) {
        // What is due at once is done at the pace of beginning: a broker that died is many members' silence.
        let most = u64::from(self.crowd.pace.per_second) * TICK.as_millis() / 1_000;
        for _ in 0..most.max(1) {
            let Some(at) = self.due.pop(turn.now()) else { break };
            let Some(member) = self.members.get(at as usize) else { continue };
            match member.stage {
                Stage::Flying => self.flight_due(at, turn),
                Stage::Enrolling => self.card_due(at, turn),
                Stage::Asking => self.ask_again(at, turn),
                Stage::Stranger | Stage::Idle | Stage::Beginning => {}
            }
        }
        turn.arm(Timer::Tick, TICK);
    }

    fn on_input(&mut self, input: Input, turn: &mut Step<'_>) {
        match input {
            Input::SignUp => self.sign_up(),
            Input::Paint(each) => self.paints = Some(each),
            Input::Broadcast(goal) => self.broadcast(goal),
            Input::Stop => {
                self.goal = 0;
                self.ready.clear();
            }
            Input::Report => {
                // Whatever was begun and is not confirmed flies: nobody has to look at every member for that.
                let flying = self.stats.begun.saturating_sub(self.stats.confirmed);
                self.stats.flying = u32::try_from(flying).unwrap_or(u32::MAX);
                turn.output(Output::Stats(Box::new(self.stats)));
            }
            Input::Accounts => {
                let known = self.members.iter().filter(|member| member.id != u32::MAX);
                let account = |member: &Member| Account {
                    id: member.id,
                    keeps_rules: member.conduct.keeps_rules(),
                    begun: member.begun,
                    confirmed: member.confirmed,
                };
                turn.output(Output::Accounts(known.map(account).collect()));
            }
        }
    }

    fn on_message(&mut self, (broker, at): (u32, u32), message: ClientMessage, turn: &mut Step<'_>) {
        match message {
            ClientMessage::Inclusion(inclusion) => self.on_inclusion(broker, at, inclusion, turn),
            ClientMessage::Delivery(delivery) => self.on_delivery(broker, at, &delivery, turn),
            ClientMessage::Nack { why, retry_ms } => self.on_nack((broker, at), why, retry_ms, turn),
            ClientMessage::State(answer) => self.on_state(at, &answer, turn),
            ClientMessage::Signed(signed) => self.on_signed(at, &signed),
            // Only lazy brokers challenge; what clients say comes from none.
            ClientMessage::Challenge { .. }
            | ClientMessage::Submit(_)
            | ClientMessage::MultiSig { .. }
            | ClientMessage::Ack { .. }
            | ClientMessage::Query { .. }
            | ClientMessage::SignUp(_)
            | ClientMessage::Claim { .. } => {}
        }
    }
}

impl Machine for LoadClient {
    type Input = Input;
    type Message = Message<Never>;
    type Timer = Timer;
    type Record = Never;
    type Job = Job;
    type Output = Output;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Start => {
                turn.arm(Timer::Tick, TICK);
                turn.arm(Timer::Begin, BEGIN);
            }
            Event::Input(input) => self.on_input(input, turn),
            Event::Message { from, message: Message::Client(message) } => {
                if let Some(link) = self.crowd.of_link(from) {
                    self.on_message(link, message, turn);
                }
            }
            Event::Timer(Timer::Tick) => self.tick(turn),
            Event::Timer(Timer::Begin) => {
                self.begin(turn);
                self.make_cards(turn);
                turn.arm(Timer::Begin, BEGIN);
            }
            Event::Done(Done::Submissions(signed)) => self.submissions_signed(signed, turn),
            Event::Done(Done::Shares(half, shares)) => self.shares_made(half, shares, turn),
            Event::Done(Done::Cards(cards)) => self.cards_made(cards, turn),
            Event::Link { peer, link: Link::Up } => {
                if let Some(link) = self.crowd.of_link(peer) {
                    self.linked(link, turn);
                }
            }
            Event::Message { .. } | Event::Loaded { .. } | Event::Link { .. } => {}
        }
    }
}

/// Bytes of a member with what it remembers, receipts left aside.
const MEMBER_BYTES: u64 = 512;
/// Bytes of the roots that a member remembers for a receipt.
const PROOF_BYTES: u64 = 4 * 1_024;

impl Bounded for LoadClient {
    fn bytes(&self) -> u64 {
        let proofs = if self.crowd.receipts { PROOF_BYTES } else { 0 };
        let cards = self.cards.len() as u64 * 320;
        self.members.len() as u64 * (MEMBER_BYTES + proofs) + self.roots.bytes() + cards
    }

    fn bytes_max(&self) -> u64 {
        let cards = u64::from(self.crowd.pace.cards) * 320;
        let most = MEMBER_BYTES + PROOF_BYTES;
        let shape =
            TreeShape { count: self.crowd.cluster.rules().batch_max, msg_size: self.crowd.class.msg_size() };
        self.members.len() as u64 * most + Roots::bytes_max(self.crowd.members.1, &shape) + cards
    }
}

impl Recover for LoadClient {
    type Config = Crowd;

    fn queues(_: &Crowd) -> Vec<QueueSpec> {
        vocabulary::queues([])
    }

    fn recover(crowd: Crowd, _: Log<'_, Never>) -> Result<Self, Unrecoverable> {
        crowd.check().map_err(|Invalid(rule)| Unrecoverable(rule.to_owned()))?;
        let (_, count) = crowd.members;
        let member = |at: u32| Member::new(crowd.ids.map(|first| first + at), crowd.conduct(at));
        let members: Vec<Member> = (0..count).map(member).collect();
        let enrolled = if crowd.ids.is_some() { count } else { 0 };
        let shared = Shared::new(crowd.family.clone(), crowd.cluster.clone(), crowd.members);
        Ok(Self {
            shared: Arc::new(shared),
            members,
            roots: Roots::default(),
            ready: VecDeque::new(),
            due: Due::new(count),
            goal: 0,
            paints: None,
            allowance: 0,
            unshown: 0,
            inclusion_trip: Trip::default(),
            delivery_trip: Trip::default(),
            strangers: VecDeque::new(),
            cards: BTreeMap::new(),
            best: None,
            height: 1,
            nonce: 0,
            stats: Stats { enrolled, ..Stats::default() },
            crowd,
        })
    }

    fn snapshot(&self, _: &mut dyn FnMut(Never)) {}
}
