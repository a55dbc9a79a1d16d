//! The state of a replica, and what every turn does: handle the event, settle, flush.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use synod_crypto::{Claim, Hash, Signature, Verified};
use synod_machine::broadcast::{Delivered, Position, Refusal, Submit, Ticket};
use synod_machine::{Event, Lift, Link, Machine, Nested, Never, Time, Turn, planted};
use synod_quorum::{NodeId, NodeSet};

use crate::block::{Body, Item};
use crate::chain::{Blobs, Chain};
use crate::checkpoint::Checkpoints;
use crate::filter::Filter;
use crate::job::{Domain, Task};
use crate::leader::Leaders;
use crate::outbox::{After, Kept, Outbox};
use crate::pacemaker::{Pace, Pacemaker, Reason};
use crate::pool::Pool;
use crate::proof::Commitment;
use crate::proven::Certificates;
use crate::record::{Mark, Safety, Stopped, Why};
use crate::rules::Rules;
use crate::serve::Serving;
use crate::sync::{BlockSync, Question};
use crate::trace::{Note, NoteName};
use crate::tree::Tree;
use crate::view::Terms;
use crate::votes::Votes;
use crate::{Config, Job, Kind, Message, Qc, Record, Statement, Tc, Timer, View};

/// Whether the replica may promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It takes part.
    Acting,
    /// It has no memory of its promises and only listens (specification 3.5).
    Listening {
        /// What each other member showed since the restart, until a quorum did.
        shown: BTreeMap<NodeId, Shown>,
    },
    /// It found a contradiction that only an operator can resolve.
    Halted,
}

/// What a member showed in its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// View of its highest QC, which was verified.
    pub(crate) qc: View,
    /// View of its highest TC, verified if this member holds one at least as high.
    pub(crate) tc: View,
}

/// What came from far ahead: a leader's proposal follows its certificate at once, and neither must cost the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Far {
    /// A certificate by itself.
    Certificate,
    /// A proposal with its certificates.
    Proposal,
}

/// What was delivered to the user and applied by it.
#[derive(Default, Clone, Debug)]
pub(crate) struct Delivery {
    /// Height of the last block delivered whole.
    pub(crate) height: u64,
    /// Last position delivered.
    pub(crate) position: Position,
    /// Last position the user applied.
    pub(crate) applied: Position,
    /// What was applied and delivered at the last status, and for how many of them nothing moved.
    pub(crate) still: ((Position, Position), u32),
    /// The user said that it cannot go on, and applied nothing since.
    pub(crate) stuck: bool,
    /// Last positions of blocks delivered and not applied.
    pub(crate) unapplied: VecDeque<Position>,
    /// Tickets of own items by (height, index), until delivered.
    pub(crate) tickets: BTreeMap<(u64, u32), Ticket>,
    /// Blobs asked for.
    pub(crate) loading: BTreeSet<Hash>,
    /// Blobs that could not be read since the last status: they are asked from peers, and tried again later.
    pub(crate) unreadable: BTreeSet<Hash>,
    /// Barriers and the view whose delivery releases each.
    pub(crate) barriers: Vec<(Ticket, View)>,
    /// Proofs asked for and not given.
    pub(crate) proving: BTreeSet<Position>,
}

/// A committed block's order votes: counted on link authentication, verified only to be shown.
#[derive(Clone, Debug)]
pub(crate) struct Ordered {
    /// The votes.
    pub(crate) qc: Arc<Qc>,
    /// Whether they are verified.
    pub(crate) verified: bool,
}

/// What operators ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The current view.
    pub view: View,
    /// Its leader, as far as known.
    pub leader: Option<NodeId>,
    /// The highest certified view.
    pub high: View,
    /// The highest view given up.
    pub complained: View,
    /// Height of the last committed block.
    pub height: u64,
    /// Digest of the last committed block.
    pub digest: Hash,
    /// Last position committed.
    pub position: Position,
    /// Last position delivered.
    pub delivered: Position,
    /// Position of the newest stable checkpoint.
    pub stable: Position,
    /// Items pending.
    pub pending: u64,
    /// Whether it takes part.
    pub acting: bool,
    /// Whether it stopped at a contradiction.
    pub halted: bool,
}

/// The state of one replica. Grouped by what changes together.
#[derive(Clone, Debug)]
pub(crate) struct Core {
    pub(crate) config: Config,
    pub(crate) rules: Rules,
    pub(crate) domain: Arc<Domain>,
    pub(crate) leaders: Leaders,
    pub(crate) terms: Terms,
    pub(crate) genesis: Hash,
    pub(crate) mode: Mode,
    /// Why it is halted.
    pub(crate) stopped: Option<Stopped>,

    pub(crate) safety: Safety,
    pub(crate) high: Arc<Qc>,
    pub(crate) tc: Option<Arc<Tc>>,
    pub(crate) decided: Option<Arc<Qc>>,

    pub(crate) view: View,
    pub(crate) reason: Reason,
    pub(crate) entered_at: Time,
    pub(crate) leader: Option<NodeId>,
    pub(crate) newviews: BTreeMap<NodeId, View>,
    pub(crate) complaining: Option<(Arc<Qc>, u32)>,

    pub(crate) tree: Tree,
    pub(crate) chain: Chain,
    pub(crate) blobs: Blobs,
    pub(crate) early: BTreeMap<NodeId, Arc<Body>>,
    pub(crate) proposals: BTreeMap<(View, NodeId), (Hash, Signature)>,
    pub(crate) pending_commit: Option<(Mark, Option<Arc<Commitment>>)>,
    pub(crate) ordered: Option<Ordered>,
    /// The top of the chain is committed and the log does not say so yet.
    pub(crate) commit_due: bool,

    pub(crate) votes: Votes,
    pub(crate) checking: BTreeSet<(Kind, View, Hash)>,
    pub(crate) formed: BTreeMap<Kind, View>,
    pub(crate) announce: Option<Arc<Qc>>,
    pub(crate) certificates: Certificates,
    pub(crate) known: Vec<Verified<Claim<Statement>>>,
    pub(crate) bodies_in_check: BTreeMap<NodeId, u32>,
    pub(crate) far: BTreeMap<(NodeId, Far), Time>,
    pub(crate) helped: BTreeMap<NodeId, Time>,

    pub(crate) pool: Pool,
    pub(crate) filter: Filter,
    pub(crate) linger: crate::batch::Linger,
    pub(crate) linger_due: Option<(View, Time)>,
    pub(crate) unforwarded: Vec<Item>,
    pub(crate) forward_again: bool,
    pub(crate) empties: u64,

    pub(crate) pacemaker: Nested<Pacemaker>,
    pub(crate) working: bool,
    pub(crate) sync: Nested<BlockSync>,
    pub(crate) delivery: Delivery,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) serving: Serving,
    pub(crate) proof_waiters: NodeSet,
    pub(crate) quiet: bool,
    /// The block that was missing below the high QC at the last status.
    pub(crate) gap: Option<Hash>,
    pub(crate) out: Outbox,
    pub(crate) restart: Vec<Hash>,
}

struct InPacemaker;

impl Lift<Pacemaker, Core> for InPacemaker {
    fn message(&self, message: Never) -> Message {
        match message {}
    }
    fn timer(&self, timer: View) -> Timer {
        Timer::View(timer)
    }
    fn record(&self, record: Never) -> Record {
        match record {}
    }
    fn job(&self, job: Never) -> Job {
        match job {}
    }
}

struct InSync;

impl Lift<BlockSync, Core> for InSync {
    fn message(&self, question: Question) -> Message {
        Message::Fetch(question.0)
    }
    fn timer(&self, timer: u64) -> Timer {
        Timer::Fetch(timer)
    }
    fn record(&self, record: Never) -> Record {
        match record {}
    }
    fn job(&self, job: Never) -> Job {
        match job {}
    }
}

impl Machine for Core {
    type Input = Submit;
    type Message = Message;
    type Timer = Timer;
    type Record = Record;
    type Job = Job;
    type Output = Delivered;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        if self.mode == Mode::Halted {
            return self.stay_halted(&event, turn);
        }
        match event {
            Event::Start => self.on_start(turn),
            Event::Input(input) => self.on_input(input, turn),
            Event::Message { from, message } => self.on_message(from, message, turn),
            Event::Timer(Timer::View(view)) => self.pace(Event::Timer(view), turn),
            Event::Timer(Timer::Fetch(number)) => self.want(Event::Timer(number), turn),
            Event::Timer(Timer::Linger(_)) => {}
            Event::Timer(Timer::Status) => self.on_status_timer(turn),
            Event::Done(done) => self.on_done(done, turn),
            Event::Loaded { name, bytes } => self.on_loaded(name, bytes, turn),
            Event::Link { peer, link: Link::Up } => self.on_link_up(peer, turn),
            Event::Link { .. } => {}
        }
        if self.mode != Mode::Halted {
            self.settle(turn);
        }
        self.flush(turn);
    }

    /// Never 0: a full pool refuses payloads itself, and what the user applied must come in for the pool to empty.
    fn room(&self) -> u32 {
        if self.may_act() { self.pool.room().max(1) } else { 1 }
    }

    fn invariants(&self) {
        assert!(self.high.view >= self.safety.lock.view || !self.may_act() || planted!(H11));
        assert!(self.safety.ordered.view <= self.high.view || !self.may_act() || planted!(H11));
        assert!(
            self.filter.marked().all(|digest| self.tree.get(digest).is_some()),
            "marks name blocks of the tree"
        );
        assert!(self.delivery.height <= self.chain.top().header.height);
        assert_eq!(self.chain.top().digest, self.tree.root(), "the tree grows on the committed chain");
        let started = self.view > View::GENESIS;
        assert!(
            !started || self.view == self.start_view() || planted!(H11),
            "the view follows the highest certificate"
        );
        self.votes.invariants();
        self.pacemaker.get().invariants();
        self.sync.get().invariants();
    }
}

impl Core {
    /// This member.
    pub(crate) const fn own(&self) -> NodeId {
        self.config.own()
    }

    /// Every member but this one.
    pub(crate) fn others(&self) -> NodeSet {
        self.config.roster().others(self.own())
    }

    /// Whether it may promise anything.
    pub(crate) fn may_act(&self) -> bool {
        self.mode == Mode::Acting
    }

    /// Starts a job in the domain of this epoch.
    pub(crate) fn compute(&self, task: Task, turn: &mut Turn<'_, Self>) {
        turn.compute(Job { domain: Arc::clone(&self.domain), task });
    }

    /// Steps the pacemaker and acts on what it says.
    pub(crate) fn pace(&mut self, event: Event<Pacemaker>, turn: &mut Turn<'_, Self>) {
        let told: Vec<_> = self.pacemaker.step(event, &InPacemaker, turn).collect();
        for paced in told {
            self.on_paced(paced, turn);
        }
    }

    /// Tells the pacemaker.
    pub(crate) fn tell(&mut self, pace: Pace, turn: &mut Turn<'_, Self>) {
        self.pace(Event::Input(pace), turn);
    }

    /// Steps block sync, which has nothing to say but messages.
    pub(crate) fn want(&mut self, event: Event<BlockSync>, turn: &mut Turn<'_, Self>) {
        if let Some(never) = self.sync.step(event, &InSync, turn).next() {
            match never {}
        }
    }

    /// What follows from any event: proposing, delivering, timers, forwarding.
    fn settle(&mut self, turn: &mut Turn<'_, Self>) {
        self.deliver(turn);
        self.try_propose(turn);
        self.announce(turn);
        self.forward(turn);
        let working = self.has_work();
        if working != self.working {
            self.working = working;
            self.tell(Pace::Work(working), turn);
        }
    }

    /// M1, R9: whether somebody waits for this replica's views to advance. The timer stops while the user is behind.
    fn has_work(&self) -> bool {
        let waiting = !self.pool.is_empty() || self.tree.has_certified_work();
        waiting && self.may_act() && !self.is_lagging()
    }

    /// Records, then signatures, then what rests on the records: the order is durability.
    fn flush(&mut self, turn: &mut Turn<'_, Self>) {
        if self.mode == Mode::Halted {
            self.out = Outbox::default();
        }
        if self.out.writes() && core::mem::take(&mut self.commit_due) {
            // Its block was written in an earlier turn, so it may stand before what this one writes.
            self.out.kept.insert(0, Kept::Record(self.commit_record()));
        }
        for kept in self.out.records() {
            match kept {
                Kept::Record(record) => turn.persist(record),
                Kept::Blob(name, bytes) => turn.store(name, bytes),
                Kept::Erase(name) => turn.erase(name),
            }
        }
        if self.out.is_due() {
            self.out.promised = false;
            turn.persist(Record::Safety(self.promises()));
        }
        for statement in core::mem::take(&mut self.out.sign) {
            assert!(self.may_act(), "a replica that may not promise signs nothing");
            self.compute(Task::Sign(self.own(), statement), turn);
        }
        for after in self.out.after.drain(..) {
            match after {
                After::Send(to, message) => turn.send(to, message),
                After::Output(output) => turn.output(output),
                After::Compact => turn.compact(),
            }
        }
    }

    /// The safety record as it is written.
    fn promises(&self) -> Safety {
        let forgotten = Mark { view: View::GENESIS, digest: self.genesis };
        let lock = if planted!(H9) { forgotten } else { self.safety.lock };
        Safety { lock, ..self.safety.clone() }
    }

    /// Stops at a contradiction that only an operator can resolve, for this life and those after it.
    pub(crate) fn halt(&mut self, name: NoteName, values: [u64; 3], digest: Hash, turn: &mut Turn<'_, Self>) {
        turn.note(Note { name, values, digest });
        let why = match name {
            NoteName::Divergence => Why::Divergence,
            NoteName::RolledBack => Why::RolledBack,
            _ => Why::Conflict,
        };
        let stopped = Stopped { why, at: values[0], digest };
        turn.persist(Record::Stopped(stopped));
        (self.mode, self.stopped) = (Mode::Halted, Some(stopped));
    }

    /// A replica that is halted tells operators again when it starts, and its user that nothing will come.
    fn stay_halted(&self, event: &Event<Self>, turn: &mut Turn<'_, Self>) {
        match (event, self.stopped) {
            (Event::Start, Some(Stopped { why, at, digest })) => {
                let name = match why {
                    Why::Conflict => NoteName::Conflict,
                    Why::Divergence => NoteName::Divergence,
                    Why::RolledBack => NoteName::RolledBack,
                };
                turn.note(Note { name, values: [at, 0, 0], digest });
            }
            (Event::Input(Submit::Payload { ticket, .. } | Submit::Barrier(ticket)), _) => {
                turn.output(Delivered::Refused { ticket: *ticket, why: Refusal::NotReady });
            }
            (Event::Input(Submit::Prove(position)), _) => {
                turn.output(Delivered::Proof { position: *position, proof: None });
            }
            _ => {}
        }
    }

    /// What operators ask.
    pub(crate) fn seen(&self) -> Seen {
        let top = self.chain.top();
        Seen {
            view: self.view,
            leader: self.leader,
            high: self.high.view,
            complained: self.safety.complained,
            height: top.header.height,
            digest: top.digest,
            position: top.last,
            delivered: self.delivery.position,
            stable: self.checkpoints.stable_position(),
            pending: self.pool.count(),
            acting: self.may_act(),
            halted: self.mode == Mode::Halted,
        }
    }
}
