//! The machine: what it holds, and which handler an event goes to.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::sync::Arc;

use synod_crypto::{Claim, Scope, Verified};
use synod_machine::broadcast::Context;
use synod_machine::{Bounded, Event, Machine, Span, Turn};
use synod_quorum::{Epoch, NodeId, NodeSet};
use synod_wire::{Blob, Wire};

use super::job::{Done, IsState, Job, Transfer};
use super::roll::{Founding, Roll};
use super::trace::Fault;
use super::view::{CHANGES_MAX, Change, Sequence, View, ViewId};
use super::words::{
    Agreed, Endorsement, Input, Message, Output, Proposal, Record, STATE_MAX, SignedState, Sworn, Timer,
};

/// Older views from which the members of one can come, at most.
pub(super) const WAYS_MAX: usize = 8;
/// Longest message for a view that is not installed here and is kept, in bytes. Longer ones are said again.
pub(super) const EARLY_BYTES: usize = 16 << 10;
/// Kinds of messages.
const KINDS: u64 = 11;

/// What a member needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// This node: a member of the first view, or one that is to join.
    pub me: NodeId,
    /// What everybody knows.
    pub founding: Arc<Founding>,
    /// When what is not superseded is said again; doubles up to `resend_max` while nothing new comes.
    pub resend: Span,
    /// See there.
    pub resend_max: Span,
}

/// All that a message rests on, checked.
pub(super) type Good = Vec<Verified<Claim<Sworn>>>;

/// A view above the current one, as it can be reached from an older one.
#[derive(Clone, Debug)]
pub(super) struct Way {
    /// The chain to it.
    pub(super) chain: Vec<Agreed>,
    /// The views of the chain, the first one included.
    pub(super) rolls: Vec<Arc<Roll>>,
    /// What members of the last but one kept.
    pub(super) states: BTreeMap<u8, SignedState>,
    /// Whether the user is merging.
    pub(super) is_merging: bool,
}

impl Way {
    pub(super) fn to(&self) -> &Arc<Roll> {
        self.rolls.last().expect("a chain has a first view")
    }

    pub(super) fn base(&self) -> &Arc<Roll> {
        let before = self.rolls.len().checked_sub(2).and_then(|at| self.rolls.get(at));
        before.expect("a way has a link")
    }

    /// The views up to the one that it starts from.
    fn before(&self) -> &[Arc<Roll>] {
        self.rolls.split_last().map_or(&[], |(_, before)| before)
    }

    pub(super) fn link(&self) -> &Agreed {
        self.chain.last().expect("a way has a link")
    }

    fn bytes(&self) -> u64 {
        let chain: u64 = self.chain.iter().map(Agreed::bytes).sum();
        let rolls: u64 = self.rolls.iter().map(|roll| roll.bytes()).sum();
        chain + rolls + self.states.values().map(SignedState::bytes).sum::<u64>()
    }
}

/// What this node kept of a view in which it stopped.
#[derive(Clone, Debug)]
pub(super) struct Frozen {
    pub(super) view: ViewId,
    pub(super) state: Option<Blob<STATE_MAX>>,
    pub(super) signed: Option<SignedState>,
}

/// A change that this node wants made.
#[derive(Clone, Debug)]
pub(super) struct Asking {
    pub(super) endorsement: Endorsement,
    /// Members of the current view that recorded it.
    pub(super) confirmed: NodeSet,
    pub(super) is_told: bool,
}

/// One member's part in changing views, or that of a node which wants to be one.
#[derive(Clone, Debug)]
pub struct Reconfig<S> {
    pub(super) config: Config,
    /// How the current view came about.
    pub(super) chain: Vec<Agreed>,
    /// The views of the chain; the last is the current one.
    pub(super) rolls: Vec<Arc<Roll>>,
    /// Whether the current view's user goes on in it.
    pub(super) resumes: bool,
    /// What was left over when the current view was installed.
    pub(super) start: Vec<View>,
    /// Lists that were accepted in the current view, but those all of whose views a later one has.
    pub(super) accepted: Vec<Agreed>,
    /// L: all accepted views, in order.
    pub(super) list: Vec<View>,
    /// Changes above the current view that operators want.
    pub(super) endorsed: BTreeMap<Change, Endorsement>,
    /// How many statements of this node's own there are in the current view.
    pub(super) numbered: u64,
    /// The last list that this node proposed, and the last that it converged on.
    pub(super) mine: (Option<Sequence>, Option<Sequence>),
    /// The last of each member of the current view.
    pub(super) proposals: BTreeMap<u8, Proposal>,
    /// See there.
    pub(super) converged: BTreeMap<u8, Proposal>,
    /// Ways to the next view, by the view that they start from.
    pub(super) ways: BTreeMap<ViewId, Way>,
    /// Set once this node stopped in the current view.
    pub(super) stopped: Option<Frozen>,
    /// What it kept of the one before.
    pub(super) before: Option<Frozen>,
    /// Who has that, or what it kept of the current one.
    pub(super) have: NodeSet,
    pub(super) has_left: bool,
    /// What was merged for the current view.
    pub(super) merged: (synod_crypto::Hash, BTreeMap<u8, SignedState>),
    /// Messages for a view that is not installed here, by sender and kind.
    pub(super) early: BTreeMap<(u8, u8), (ViewId, Message)>,
    pub(super) asking: Option<Asking>,
    /// Messages that are checked: one of each kind per sender, of states one per member.
    pub(super) checking: BTreeSet<(NodeId, u8, u8)>,
    pub(super) wait: Span,
    pub(super) is_state: IsState,
    transfer: PhantomData<S>,
}

impl<S: Transfer> Reconfig<S> {
    pub(super) fn fresh(config: Config, first: Arc<Roll>) -> Self {
        Self {
            wait: config.resend,
            config,
            chain: Vec::new(),
            rolls: vec![first],
            resumes: true,
            start: Vec::new(),
            accepted: Vec::new(),
            list: Vec::new(),
            endorsed: BTreeMap::new(),
            numbered: 0,
            mine: (None, None),
            proposals: BTreeMap::new(),
            converged: BTreeMap::new(),
            ways: BTreeMap::new(),
            stopped: None,
            before: None,
            have: NodeSet::EMPTY,
            has_left: false,
            merged: (synod_crypto::Hash::ZERO, BTreeMap::new()),
            early: BTreeMap::new(),
            asking: None,
            checking: BTreeSet::new(),
            is_state: S::is_state,
            transfer: PhantomData,
        }
    }

    /// This node.
    #[must_use]
    pub const fn id(&self) -> NodeId {
        self.config.me
    }

    /// The newest view that is installed here.
    #[must_use]
    pub fn current(&self) -> &Arc<Roll> {
        self.rolls.last().expect("there is a first view")
    }

    /// The views that led to it, the first one and itself included.
    #[must_use]
    pub fn rolls(&self) -> &[Arc<Roll>] {
        &self.rolls
    }

    /// How it came about since the genesis: proof for anybody.
    #[must_use]
    pub fn chain(&self) -> &[Agreed] {
        &self.chain
    }

    /// Whether its user goes on in it, and did not stop.
    #[must_use]
    pub const fn runs(&self) -> bool {
        self.resumes && self.stopped.is_none()
    }

    /// Whether this node is a member of the current view and did not stop in it.
    pub(super) fn is_active(&self) -> bool {
        self.stopped.is_none() && self.ways.is_empty() && self.current().members().contains(self.config.me)
    }

    pub(super) fn me(&self) -> u8 {
        self.config.me.member().expect("checked when the machine was made")
    }

    /// Statements of a view that is known by its names alone.
    pub(super) fn place(&self, view: ViewId) -> (Scope, Context) {
        let founding = &self.config.founding;
        let scope = Scope { cluster: founding.cluster, epoch: Epoch(view.number) };
        (scope, Context { shard: founding.shard, view: view.digest })
    }

    pub(super) fn sign(&self, view: ViewId, sworn: Sworn, turn: &mut Turn<'_, Self>) {
        turn.compute(Job::Sign { scope: self.place(view).0, me: self.config.me, sworn });
    }

    /// Has all that a message rests on checked, unless another of the kind, the sender and the member is.
    pub(super) fn check(
        &mut self,
        from: NodeId,
        claims: Vec<Claim<Sworn>>,
        message: Message,
        turn: &mut Turn<'_, Self>,
    ) {
        if self.checking.insert(checked_as(from, &message)) {
            let state = match &message {
                Message::State(state) => self
                    .ways
                    .get(&state.view)
                    .map(|way| (way.before().to_vec(), state.state.bytes().clone(), self.is_state)),
                _ => None,
            };
            turn.compute(Job::Check { from, claims, state, message: Box::new(message) });
        }
    }

    fn on_message(&mut self, from: NodeId, message: Message, good: Option<Good>, turn: &mut Turn<'_, Self>) {
        if from.member().is_none() {
            return turn.blame(from, Fault::Stranger);
        }
        let good = good.as_ref();
        match message {
            Message::Reconfig { view, endorsement } => self.on_reconfig(from, view, endorsement, good, turn),
            Message::ReconfigConfirm { view, change } => self.on_confirm(from, view, &change, turn),
            Message::Propose { proposal, endorsements } => {
                self.on_propose(from, proposal, endorsements, good, turn);
            }
            Message::Accepted { agreed, endorsements } => {
                self.on_accepted(from, agreed, endorsements, good, turn);
            }
            Message::Converged(proposal) => self.on_converged(from, proposal, good, turn),
            Message::Install { agreed, endorsements } => self.on_install(from, agreed, endorsements, turn),
            Message::State(state) => self.on_state(from, state, good, turn),
            Message::Have { view } => self.on_have(from, view, turn),
            Message::AskChain { view } => self.show_newer(from, view, turn),
            Message::Chain { installs, endorsements } => {
                self.on_chain(from, installs.into_vec(), endorsements, good, turn);
            }
            Message::AskStates { view } => self.on_ask_states(from, view, turn),
        }
    }

    /// A message that was kept for the view which is now current.
    pub(super) fn on_early(&mut self, from: NodeId, message: Message, turn: &mut Turn<'_, Self>) {
        self.on_message(from, message, None, turn);
    }

    fn on_done(&mut self, done: Done, turn: &mut Turn<'_, Self>) {
        match done {
            Done::Signed(claim) => self.on_signed(&claim, turn),
            Done::Checked { from, good, message } => {
                self.checking.remove(&checked_as(from, &message));
                match good {
                    Ok(good) => self.on_message(from, *message, Some(good), turn),
                    Err(fault) => turn.blame(from, fault),
                }
            }
        }
    }

    fn on_signed(&mut self, claim: &Verified<Claim<Sworn>>, turn: &mut Turn<'_, Self>) {
        match claim.statement {
            Sworn::Proposed { context, views } | Sworn::Converged { context, views } => {
                self.on_list_signed(claim, (context, views), turn);
            }
            Sworn::Stated { context, state } => self.on_state_signed(claim, (context, state), turn),
            Sworn::Endorsed { .. } => {}
        }
    }
}

/// Under which name a message of a sender is checked: whoever passes states of several members on has them checked together.
const fn checked_as(from: NodeId, message: &Message) -> (NodeId, u8, u8) {
    let member = match message {
        Message::State(state) => state.member,
        _ => 0,
    };
    (from, kind(message), member)
}

/// Which kind of message it is: one of each is kept, or checked, per sender.
pub(super) const fn kind(message: &Message) -> u8 {
    match message {
        Message::Reconfig { .. } => 0,
        Message::ReconfigConfirm { .. } => 1,
        Message::Propose { .. } => 2,
        Message::Accepted { .. } => 3,
        Message::Converged(_) => 4,
        Message::Install { .. } => 5,
        Message::State(_) => 6,
        Message::Have { .. } => 7,
        Message::AskChain { .. } => 8,
        Message::Chain { .. } => 9,
        Message::AskStates { .. } => 10,
    }
}

impl<S: Transfer> Machine for Reconfig<S> {
    type Input = Input;
    type Message = Message;
    type Timer = Timer;
    type Record = Record;
    type Job = Job;
    type Output = Output;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Start => self.on_start(turn),
            Event::Input(Input::Request(endorsement)) => self.on_request(endorsement, turn),
            Event::Input(Input::Stopped { view, state }) => self.on_stopped(view, state, turn),
            Event::Input(Input::Merged { view, state }) => self.on_merged(view, state, turn),
            Event::Message { from, message } => self.on_message(from, message, None, turn),
            Event::Timer(Timer::Resend) => self.on_resend_due(turn),
            Event::Done(done) => self.on_done(done, turn),
            Event::Loaded { .. } | Event::Link { .. } => {}
        }
    }

    fn invariants(&self) {
        assert!(self.list.is_sorted_by(|lower, upper| upper.is_above(lower)), "accepted views are no chain");
        assert!(self.rolls.len() == self.chain.len() + 1, "a view without its certificate");
        assert!(self.ways.len() <= WAYS_MAX, "more ways than are kept");
        let current = self.current();
        assert!(
            self.list.iter().all(|view| view.is_above(current.view())),
            "an accepted view is not above the current one"
        );
        assert!(self.endorsed.keys().all(|change| !current.view().contains(change)), "a change that is made");
        for (base, way) in &self.ways {
            assert!(way.base().id() == *base, "a way from another view");
            assert!(way.to().view().is_above(current.view()), "a way to nothing new");
        }
    }
}

impl<S: Transfer> Bounded for Reconfig<S> {
    fn bytes(&self) -> u64 {
        let chain: u64 = self.chain.iter().chain(&self.accepted).map(Agreed::bytes).sum();
        let rolls: u64 = self.rolls.iter().map(|roll| roll.bytes()).sum();
        let heard = self.proposals.values().chain(self.converged.values());
        let heard: u64 = heard.map(|one| size_of::<Proposal>() as u64 + one.views.bytes()).sum();
        let lists = self.list.iter().chain(&self.start);
        let lists: u64 = lists.map(|view| 24 + u64::from(view.number()) * size_of::<Change>() as u64).sum();
        let frozen = self.stopped.iter().chain(&self.before);
        let frozen: u64 = frozen.filter_map(|one| one.state.as_ref()).map(|state| state.len() as u64).sum();
        let early: u64 = self.early.values().map(|(_, message)| 128 + message.size_hint() as u64).sum();
        chain
            + rolls
            + heard
            + lists
            + frozen
            + early
            + self.endorsed.values().map(Endorsement::bytes).sum::<u64>()
            + self.ways.values().map(Way::bytes).sum::<u64>()
            + self.merged.1.values().map(SignedState::bytes).sum::<u64>()
            + self.checking.len() as u64 * 16
    }

    fn bytes_max(&self) -> u64 {
        let changes = CHANGES_MAX as u64;
        let members = u64::from(synod_quorum::MEMBERS_MAX);
        let view = changes * (size_of::<Change>() as u64 + 64);
        let agreed = 512 + view + members * 72;
        let roll = 512 + view + members * 40;
        let states = members * (STATE_MAX as u64 + 256);
        let chain = (changes + 1) * (agreed + roll);
        (WAYS_MAX as u64 + 2) * (chain + states)
            + 2 * changes * view
            + 2 * members * (view + 256)
            + members * KINDS * (EARLY_BYTES as u64 + 256)
            + changes * 2_048
    }
}
