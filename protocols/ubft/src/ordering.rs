//! A replica with the null application, as an atomic broadcast (specification, 3.2): [`Ordering`].
//!
//! *How.* It owns a [`Replica`] and is, on the link of each peer, the client of its own session: what its user submits goes to all replicas
//! as a request of that session, is heard or signed there like any other, and comes back executed. So there is one way into the order, and
//! the fast path takes no signature. What a replica that lies asks is an entry as well; clients are not heard.
//!
//! *Positions* count the requests that are executed, in the order of slots; the last one of a slot is marked. A slot in which nothing is
//! executed (its batch is empty, opens sessions, changes the epoch or repeats) counts as one entry with an empty payload: so there are as
//! many positions as slots at least, and whoever leads cannot fill archives without users coming to the next checkpoint.
//!
//! *States.* At multiples of `checkpoint_every` the user says the root of its state; f + 1 equal ones are certified (`Stable`). A snapshot of the
//! replica holds sessions, epochs, the position and the time, and is signed only once a state at or above its position is certified. So whoever
//! is behind all archives takes a snapshot, finds a certified state above it, and is told to take that one (`Jump`); entries up to there
//! are let go, and the next one is delivered when the user has it.
//!
//! *Coming back.* Entries up to `resume` are executed again, or skipped with a snapshot, and not delivered. No payload is taken before an
//! epoch lists this life and the state here has reached it.
//!
//! *Stopping.* Where another state is certified than the own user has, or two batches for one slot, nothing more is done or said, and a note
//! says why: `ordering_diverged`, `ordering_broken`. It holds for this life; a life after it begins from the user's state again.
//!
//! *Bounds.* [`Ordering`] keeps within its `bytes_max`; `ahead_max` entries are given and not applied.

mod asking;
mod config;
mod delivery;
mod machine;
mod states;
mod vocabulary;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use synod_crypto::{Hash, Signature, merkle};
use synod_machine::broadcast::{Checkpoint, Delivered, Entry, Origin, Position, Refusal, Submit, Ticket};
use synod_machine::{Event, Nested, Note, Turn, Wall};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{Bytes, Wire as _};

pub use asking::RETRY_MAX;
pub use config::{CHECKPOINT_EVERY, OrderingConfig};
pub use vocabulary::{Done, Job, Message, OWN_QUEUES, Rooted, RootedBy, Timer};

use crate::batch::Slot;
use crate::config::{Config, NUMBER_END};
use crate::fault::Fault;
use crate::replica::{Input, Output, Replica, Requested};
use crate::sessions::FIRST_CLIENT;
use crate::statement::Statement;
use crate::trace::Rule;
use asking::{Asking, BUSY_MS, Said, Why};
use delivery::Delivery;
use states::States;
use vocabulary::Inside;

/// What the application of an [`Ordering`] is in a snapshot: position and time.
const CHUNK: usize = 16;

/// A snapshot that this replica took, until it is let go.
#[derive(Debug)]
struct Kept {
    position: u64,
    chunk: Bytes,
    /// Whether the replica may sign it: a state above it is certified.
    is_covered: bool,
}

/// See the module.
pub struct Ordering {
    replica: Nested<Replica>,
    genesis: Arc<Config>,
    checkpoint_every: u64,
    /// What the replica told.
    told: VecDeque<Output>,
    asking: Asking,
    delivery: Delivery,
    states: States,
    kept: BTreeMap<Slot, Kept>,
    /// Barriers that came back, and where.
    barriers: VecDeque<(u64, Ticket)>,
    /// The user cannot go on with what it was given: it is given no more before it says that it did, or has a state above it.
    is_stuck: bool,
    bytes_max: u64,
    is_asking: bool,
    is_halted: bool,
}

impl Ordering {
    /// The replica, to look at.
    #[must_use]
    pub const fn replica(&self) -> &Replica {
        self.replica.get()
    }

    /// The position of the last entry that is executed here, whether the user has it or not.
    #[must_use]
    pub const fn position(&self) -> Position {
        Position(self.delivery.counted())
    }

    /// Whether it stopped for good.
    #[must_use]
    pub const fn is_halted(&self) -> bool {
        self.is_halted
    }

    fn me(&self) -> NodeId {
        self.genesis.me
    }

    fn others(&self) -> NodeSet {
        self.genesis.roster.others(self.genesis.me)
    }

    fn drive(&mut self, event: Event<Replica>, turn: &mut Turn<'_, Self>) {
        self.told.extend(self.replica.step(event, &Inside, turn));
    }

    /// Nothing more is done: whoever operates this is told why.
    fn halt(&mut self, name: &'static str, at: u64, turn: &mut Turn<'_, Self>) {
        self.is_halted = true;
        turn.note(Note { name, values: [at, 0, 0, 0], digest: Hash::ZERO });
    }

    fn on_told(&mut self, output: Output, turn: &mut Turn<'_, Self>) {
        match output {
            Output::Execute { slot, time, requests, .. } => self.on_execute(slot, time, requests),
            Output::Query { guest, id, .. } => {
                self.drive(Event::Input(Input::Answered { guest, id, value: None }), turn);
            }
            Output::TakeSnapshot { low } => {
                self.delivery.skip_to(low);
                let (position, time) = (self.delivery.counted(), self.delivery.time());
                let chunk = [position.to_le_bytes(), time.0.to_le_bytes()].concat();
                self.kept.insert(low, Kept { position, chunk: Bytes::from(chunk), is_covered: false });
            }
            Output::DropSnapshot { low } => drop(self.kept.remove(&low)),
            Output::NeedChunk { peer, low, index } => {
                let kept = self.kept.get(&low).filter(|_| index == 0);
                let bytes = kept.map(|kept| kept.chunk.clone());
                self.drive(Event::Input(Input::Chunk { peer, low, index, bytes }), turn);
            }
            Output::Install { low, chunk, .. } => self.on_install(low, &chunk, turn),
            Output::Broken(slot) => self.halt("ordering_broken", slot.0, turn),
            Output::Irreparable { low } => self.halt("ordering_diverged", low.0, turn),
            Output::Stranded { from } => {
                turn.note(Note { name: "stranded", values: [from.0, 0, 0, 0], digest: Hash::ZERO });
            }
            // Who submits hears of it by the floor of ids; whoever operates this by a note.
            Output::Ready(takes_part) => {
                let values = [u64::from(takes_part), 0, 0, 0];
                turn.note(Note { name: "takes_part", values, digest: Hash::ZERO });
            }
            // The replica takes another state.
            Output::Diverged { .. } => {}
        }
    }

    /// The requests of a slot are entries.
    fn on_execute(&mut self, slot: Slot, time: Wall, requests: Vec<Requested>) {
        let own = self.asking.session();
        let of: Vec<(u64, u64)> = requests.iter().map(|request| (request.session, request.id)).collect();
        let payloads = requests.into_iter().map(|request| request.op).collect();
        let (asking, barriers) = (&mut self.asking, &mut self.barriers);
        self.delivery.count((slot, time), payloads, |at, position| {
            let Some((session, id)) = of.get(at).copied() else {
                unreachable!("each payload is of a request")
            };
            let why = (session == own).then(|| asking.done(id)).flatten();
            match (why, u32::try_from(session)) {
                (Some(Why::Payload(ticket)), _) => Origin::Local(ticket),
                (Some(Why::Barrier(ticket)), Ok(node)) => {
                    barriers.push_back((position.0, ticket));
                    Origin::Member(NodeId(node))
                }
                (_, Ok(node)) if session < FIRST_CLIENT => Origin::Member(NodeId(node)),
                _ => Origin::Session { id: session, sequence: id },
            }
        });
    }

    /// The replica has the state of a snapshot, or none at all.
    fn on_install(&mut self, low: Slot, chunk: &Bytes, turn: &mut Turn<'_, Self>) {
        let (mut position, mut time) = (0, 0);
        if let (Some((first, rest)), CHUNK) = (chunk.split_first_chunk::<8>(), chunk.len()) {
            position = u64::from_le_bytes(*first);
            time = rest.first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        }
        assert!(low.0 == 0 || position > 0, "certified chunks are what an ordering holds");
        self.delivery.restart(low, Position(position), Wall(time));
        let session = self.asking.session();
        for id in self.asking.ids() {
            let is_done = self.replica.get().sessions().is_done(session, id);
            if let Some(Why::Barrier(ticket)) = is_done.then(|| self.asking.done(id)).flatten() {
                self.barriers.push_back((position, ticket));
            }
        }
        self.drive(Event::Input(Input::Installed { low }), turn);
    }

    /// Whatever the replica told is done, and the user has what it may have.
    fn settle(&mut self, turn: &mut Turn<'_, Self>) {
        while !self.is_halted {
            while let Some(output) = self.told.pop_front() {
                self.on_told(output, turn);
            }
            self.delivery.skip_to(self.replica.get().executed());
            self.consider_jump(turn);
            while let Some(entry) = self.next_entry() {
                turn.applied(Rule::Deliver);
                turn.output(Delivered::Entry(entry));
                self.release_barriers(turn);
            }
            self.release_barriers(turn);
            if let Some((slot, count)) = self.delivery.executed() {
                let replies = vec![Bytes::new(); count];
                self.drive(Event::Input(Input::Executed { slot, replies }), turn);
                continue;
            }
            self.cover(turn);
            if self.told.is_empty() {
                return self.ask(turn);
            }
        }
    }

    fn next_entry(&mut self) -> Option<Entry> {
        if self.is_stuck { None } else { self.delivery.give() }
    }

    fn release_barriers(&mut self, turn: &mut Turn<'_, Self>) {
        while let Some((_, ticket)) = self.barriers.pop_front_if(|(at, _)| *at <= self.delivery.delivered()) {
            turn.output(Delivered::Barrier(ticket));
        }
    }

    /// What waits and has an id goes to all replicas, this one included.
    fn ask(&mut self, turn: &mut Turn<'_, Self>) {
        self.asking.begin(self.replica.get().own_floor());
        let is_slow = self.replica.get().is_slow();
        while let Some(id) = self.asking.next(turn.now()) {
            self.say(id, turn);
            if is_slow {
                self.sign(id, turn);
            }
        }
        if !self.is_asking && !self.asking.is_empty() {
            self.is_asking = true;
            turn.arm(Timer::Ask, self.asking.retry());
        }
    }

    fn say(&self, id: u64, turn: &mut Turn<'_, Self>) {
        let Some(Said { payload, signature }) = self.asking.said(id) else { return };
        if let Ok(op) = payload.try_into() {
            let message = crate::Message::Ask {
                session: self.asking.session(),
                id,
                op,
                signature: signature.map(Box::new),
            };
            turn.send(self.genesis.roster.all(), Message::Replica(message));
        }
    }

    fn sign(&mut self, id: u64, turn: &mut Turn<'_, Self>) {
        if let Some(statement) = self.asking.unsigned(id) {
            turn.compute(Job::Ask { cluster: self.genesis.cluster, statement });
        }
    }

    fn on_ask(&mut self, turn: &mut Turn<'_, Self>) {
        self.is_asking = false;
        for id in self.asking.due(turn.now()) {
            self.say(id, turn);
            self.sign(id, turn);
        }
    }

    fn on_submit(&mut self, submit: Submit, turn: &mut Turn<'_, Self>) {
        match submit {
            Submit::Payload { ticket, payload } => {
                if let Err(why) = self.asking.take(Why::Payload(ticket), payload) {
                    turn.output(Delivered::Refused { ticket, why });
                }
            }
            // Those that came back wait as well, while the user takes a state.
            Submit::Barrier(ticket) if self.barriers.len() >= self.asking.pending_max() => {
                turn.output(Delivered::Refused { ticket, why: Refusal::Busy { retry_ms: BUSY_MS } });
            }
            Submit::Barrier(ticket) => {
                if let Err(why) = self.asking.take(Why::Barrier(ticket), Bytes::new()) {
                    turn.output(Delivered::Refused { ticket, why });
                }
            }
            Submit::Applied { position, root } => self.on_applied(position, root, turn),
            // A decision leaves nothing behind that shows it to others.
            Submit::Prove(position) => turn.output(Delivered::Proof { position, proof: None }),
            Submit::Stuck => {
                self.is_stuck = true;
                self.fetch(turn);
            }
        }
    }

    fn on_applied(&mut self, position: Position, root: Option<Hash>, turn: &mut Turn<'_, Self>) {
        let before = self.delivery.applied();
        if !self.delivery.apply(position) {
            return;
        }
        self.is_stuck &= self.delivery.applied() == before;
        let is_due = position.0 > 0 && position.0.is_multiple_of(self.checkpoint_every);
        if let (Some(root), Some(signer)) = (root.filter(|_| is_due), self.me().member())
            && self.states.report(Rooted { position, root })
        {
            let statement = Statement::Applied { signer, position, root };
            turn.compute(Job::Attest { scope: self.genesis.scope(), statement });
        }
        self.tell_stable(turn);
    }

    /// States that are certified, as far as the user is; an unequal one ends this replica.
    fn tell_stable(&mut self, turn: &mut Turn<'_, Self>) {
        if let Some(at) = self.states.differs().map(|certificate| certificate.subject.position) {
            turn.applied(Rule::Diverged);
            return self.halt("ordering_diverged", at.0, turn);
        }
        while let Some(certificate) = self.states.tell(self.delivery.applied()) {
            turn.output(Delivered::Stable(checkpoint(&certificate)));
        }
    }

    /// A state is certified: snapshots below it may be signed.
    fn on_certified(&mut self, certificate: RootedBy, turn: &mut Turn<'_, Self>) {
        if self.states.certify(certificate) {
            turn.applied(Rule::Rooted);
            self.tell_stable(turn);
        }
    }

    fn on_own_state(&mut self, rooted: Rooted, signature: Signature, turn: &mut Turn<'_, Self>) {
        turn.send(self.others(), Message::Attest { rooted, signature });
        if let Some(certificate) = self.states.sign(self.me(), rooted, signature) {
            self.on_certified(certificate, turn);
        }
    }

    /// A peer's user has a state.
    fn on_attest(&mut self, from: NodeId, rooted: Rooted, signature: Signature, turn: &mut Turn<'_, Self>) {
        let Some(signer) = from.member().filter(|_| self.others().contains(from)) else { return };
        let Rooted { position, root } = rooted;
        if position.0 >= NUMBER_END || position.0 == 0 || !position.0.is_multiple_of(self.checkpoint_every) {
            return turn.blame(from, Fault::Malformed);
        }
        if position.0 <= self.states.top() {
            return self.show(from, position, turn);
        }
        let claim = self.genesis.claim(Statement::Applied { signer, position, root }, signature);
        let is_of_use = self.states.wants(from, &rooted);
        if let Some(claim) = claim.filter(|_| is_of_use && self.states.may_check(from)) {
            turn.compute(Job::Share(claim));
        }
    }

    /// Whoever asks for a state at or above a position is shown the newest that is certified.
    fn show(&mut self, to: NodeId, least: Position, turn: &mut Turn<'_, Self>) {
        let (now, every) = (turn.now(), self.genesis.parameters.fast);
        let newest = self.states.newest().filter(|newest| newest.subject.position >= least).cloned();
        if let Some(newest) = newest.filter(|_| self.states.may_serve(to, now, every)) {
            turn.send(to, Message::Rooted(newest));
        }
    }

    fn on_rooted(&mut self, from: NodeId, certificate: RootedBy, turn: &mut Turn<'_, Self>) {
        let at = certificate.subject.position.0;
        let is_due = at < NUMBER_END && at.is_multiple_of(self.checkpoint_every);
        if self.others().contains(from) && is_due && at > self.states.top() && self.states.may_check(from) {
            let genesis = Arc::clone(&self.genesis);
            turn.compute(Job::Rooted { from, certificate, genesis });
        }
    }

    /// Whether the user lacks what is not here: a certified state takes its place.
    fn consider_jump(&mut self, turn: &mut Turn<'_, Self>) {
        let above = self.is_stuck.then(|| self.delivery.reaches().saturating_add(1));
        let least = self.delivery.missing().max(above);
        let Some(least) = least else { return };
        let newest = self.states.newest().filter(|newest| newest.subject.position.0 >= least);
        if let Some(checkpoint) = newest.map(checkpoint) {
            self.is_stuck = false;
            turn.applied(Rule::Jump);
            self.delivery.jump(checkpoint.position);
            turn.output(Delivered::Jump(checkpoint));
        }
    }

    /// Snapshots below a certified state are signed.
    fn cover(&mut self, turn: &mut Turn<'_, Self>) {
        let top = self.states.top();
        let covered: Vec<(Slot, Hash)> = self
            .kept
            .iter_mut()
            .filter(|(_, kept)| !kept.is_covered && kept.position <= top)
            .map(|(low, kept)| {
                kept.is_covered = true;
                (*low, merkle::leaf(&kept.chunk))
            })
            .collect();
        for (low, leaf) in covered {
            self.drive(Event::Input(Input::Taken { low, leaves: vec![leaf] }), turn);
        }
    }

    /// Asks for a certified state above all that is known here.
    fn fetch(&self, turn: &mut Turn<'_, Self>) {
        turn.send(self.others(), Message::FetchRooted(Position(self.states.top().saturating_add(1))));
    }

    /// What is not certified is said again, and what is missed is asked for.
    fn on_again(&mut self, turn: &mut Turn<'_, Self>) {
        turn.arm(Timer::Again, self.genesis.parameters.suspect);
        for (rooted, signature) in self.states.uncertified() {
            turn.send(self.others(), Message::Attest { rooted, signature });
        }
        let is_uncovered = self.kept.values().any(|kept| !kept.is_covered);
        if is_uncovered || self.is_stuck || self.delivery.missing().is_some() {
            self.fetch(turn);
        }
    }
}

/// A certified state, as users are told of it.
fn checkpoint(certificate: &RootedBy) -> Checkpoint {
    let Rooted { position, root } = certificate.subject;
    let certificate = certificate.signed.encode().try_into().unwrap_or_default();
    Checkpoint { position, root, certificate }
}
