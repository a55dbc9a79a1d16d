//! Coming back: the chunks of the last mark are read before anything is decided (section 4.9).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use synod_crypto::Hash;
use synod_machine::broadcast::{AtomicBroadcast, Position};
use synod_machine::{Event, Log, Nested, QueueSpec, Recover, Turn, Unrecoverable};

use super::behind::Behind;
use super::checkpoint::{Checkpoints, KEPT_MAX, superfluous};
use super::given::Given;
use super::places::Checking;
use super::recent::Recent;
use super::respond::Answers;
use super::transfer::Loading;
use super::{MARKS_EVERY, Mark, Server, ServerConfig, ServerOutput, ServerRecord, ServerTimer};
use crate::dedup::{Chunk, Table};
use crate::directory::{Directory, MemberChunk};
use crate::store::StoreInput;
use crate::trace::{Note, NoteName};
use crate::vocabulary::queues;

fn part<T>(loading: &Loading, names: &[Hash], read: impl Fn(&[u8]) -> Option<T>) -> Option<Vec<T>> {
    names.iter().map(|name| loading.read.get(name)?.as_ref().and_then(|bytes| read(bytes))).collect()
}

/// What the records of a server say of its checkpoints.
#[derive(Default)]
struct Replay {
    marks: VecDeque<Mark>,
    /// Those let go last: a crash may have kept their chunks from being released.
    gone: VecDeque<Mark>,
    taking: Option<Mark>,
    /// Height of the newest that is certified.
    stable: u64,
}

impl Replay {
    fn certified(&mut self, position: Position) {
        let mark = self.marks.iter().find(|mark| mark.position == position);
        self.stable = mark.map_or(self.stable, |mark| self.stable.max(mark.height));
    }

    fn let_go(&mut self) {
        while let Some(mark) = superfluous(&mut self.marks, self.stable) {
            self.gone.push_back(mark);
            if self.gone.len() > KEPT_MAX {
                self.gone.pop_front();
            }
        }
    }

    /// Chunks of a state that a crash kept from being taken, or from being let go: those that no checkpoint here has.
    fn orphans(&self) -> Vec<Hash> {
        let held: BTreeSet<Hash> = self.marks.iter().flat_map(Mark::names).collect();
        let loose: BTreeSet<Hash> = self.taking.iter().chain(&self.gone).flat_map(Mark::names).collect();
        loose.difference(&held).copied().collect()
    }
}

impl<A: AtomicBroadcast> Server<A> {
    /// The first event: reads the state of the last mark, if there is one, and starts the ordering layer.
    pub(super) fn on_start(&mut self, turn: &mut Turn<'_, Self>) {
        turn.arm(ServerTimer::Marks, MARKS_EVERY);
        core::mem::take(&mut self.orphans).into_iter().for_each(|name| turn.erase(name));
        self.drive(Event::Start, turn);
        match &self.loading {
            Some(loading) => loading.read.keys().for_each(|name| turn.load(*name)),
            None => self.begin(turn),
        }
        self.loaded(turn);
    }

    /// The state of these chunks; `None` when they are none of a state.
    pub(super) fn state_of(&self, loading: &Loading) -> Option<(Table, Directory, Recent)> {
        let mark = loading.mark.as_ref()?;
        let dedup = part(loading, &mark.dedup, |bytes| Chunk::decode(bytes).map(Arc::new))?;
        let members = part(loading, &mark.directory, |bytes| MemberChunk::decode(bytes).map(Arc::new))?;
        let digests = |bytes: &[u8]| bytes.as_chunks::<32>().0.iter().copied().map(Hash).collect::<Vec<_>>();
        let ring = part(loading, &mark.ring, |bytes| Some(digests(bytes)))?.concat();
        let directory = Directory::restore(members).filter(|directory| directory.len() == mark.length)?;
        let table = Table::restore(self.settings.lanes, mark.length, dedup)?;
        let horizon = self.settings.cluster.rules().horizon;
        Some((table, directory, Recent::restore(horizon, mark.height, ring)?))
    }

    /// Takes the state over once every chunk is here.
    pub(super) fn loaded(&mut self, turn: &mut Turn<'_, Self>) {
        match &self.loading {
            Some(loading) if loading.whole() && !loading.own => return self.tell_application(turn),
            Some(loading) if loading.whole() => {}
            Some(_) | None => return,
        }
        let Some(loading) = self.loading.take() else { return };
        let (Some(mark), Some((table, directory, recent))) = (&loading.mark, self.state_of(&loading)) else {
            unreachable!("the chunks of an own mark are a state")
        };
        (self.table, self.directory, self.recent) = (table, directory, recent);
        self.delivered = self.height();
        turn.disarm(ServerTimer::Fetch);
        let values = [loading.position.0, self.delivered, 0];
        turn.note(Note::of(NoteName::Resumed, values, Hash::ZERO));
        // An application whose lane lost what it had goes back to the same state; one that has it stays there.
        let Mark { position, height, app, .. } = *mark;
        turn.output(ServerOutput::Jump { position, height, root: app });
        self.begin(turn);
        self.accept(turn);
    }

    /// Tells the store what was ordered before.
    pub(super) fn begin(&mut self, turn: &mut Turn<'_, Self>) {
        self.said_own();
        let (last, digests) = (self.height(), self.recent.digests());
        turn.output(ServerOutput::Store(StoreInput::Recent { last, digests }));
    }
}

impl<A: AtomicBroadcast + Recover> Recover for Server<A> {
    type Config = ServerConfig<A>;

    /// Those of this protocol, then those of the ordering layer. The ordering layer's queues must not depend on where it
    /// resumes.
    fn queues(config: &ServerConfig<A>) -> Vec<QueueSpec> {
        queues(A::queues(&(config.order)(Position(0))))
    }

    fn recover(
        config: ServerConfig<A>,
        log: Log<'_, ServerRecord<A::Record>>,
    ) -> Result<Self, Unrecoverable> {
        let ServerConfig { settings, genesis, order } = config;
        let (mut replay, mut records) = (Replay::default(), Vec::new());
        for record in log.records {
            match record {
                ServerRecord::Mark(mark) => replay.marks.push_back(mark),
                ServerRecord::Order(record) => records.push(record),
                ServerRecord::Taking(mark) => replay.taking = Some(mark),
                ServerRecord::Certified(position) => replay.certified(position),
            }
            replay.let_go();
        }
        let resume = replay.marks.back().map_or(Position(0), |mark: &Mark| mark.position);
        let mut records = records.into_iter();
        let order = A::recover(order(resume), Log { condition: log.condition, records: &mut records })?;
        let mut table = Table::new(settings.lanes);
        table.grow(genesis.len());
        let mut checkpoints = Checkpoints::new(settings.cluster.roster().size());
        let orphans = replay.orphans();
        (checkpoints.marks, checkpoints.stable) = (replay.marks, replay.stable);
        let loading = checkpoints.marks.back().cloned().map(Loading::own);
        let recent = Recent::new(settings.cluster.rules().horizon);
        Ok(Self {
            settings,
            order: Nested::new(order),
            submits: VecDeque::new(),
            recent,
            queue: VecDeque::new(),
            known: VecDeque::new(),
            pending: BTreeMap::new(),
            tickets: BTreeMap::new(),
            next_ticket: 0,
            checking: Checking::default(),
            backlog: VecDeque::new(),
            delivered: 1,
            work: None,
            directory: genesis,
            table,
            answers: Answers::default(),
            checkpoints,
            given: Given::default(),
            loading,
            behind: Behind::default(),
            orphans,
            serving: BTreeMap::new(),
            halted: false,
            said: (0, 0, 0, 0),
        })
    }

    fn snapshot(&self, put: &mut dyn FnMut(ServerRecord<A::Record>)) {
        for mark in &self.checkpoints.marks {
            put(ServerRecord::Mark(mark.clone()));
        }
        let stable = self.checkpoints.stable();
        if let Some(mark) = self.checkpoints.marks.iter().rev().find(|mark| mark.height <= stable) {
            put(ServerRecord::Certified(mark.position));
        }
        if let Some(taking) = self.loading.as_ref().and_then(Loading::taking) {
            put(ServerRecord::Taking(taking.clone()));
        }
        self.order.get().snapshot(&mut |record| put(ServerRecord::Order(record)));
    }
}
