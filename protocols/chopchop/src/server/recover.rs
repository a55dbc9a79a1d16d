//! Coming back: the chunks of the last mark are read before anything is decided (section 4.9).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use synod_crypto::Hash;
use synod_machine::broadcast::{AtomicBroadcast, Position};
use synod_machine::{Event, Log, Nested, QueueSpec, Recover, Turn, Unrecoverable};
use synod_wire::Bytes;

use super::checkpoint::Checkpoints;
use super::recent::Recent;
use super::respond::Answers;
use super::{MARKS_EVERY, Mark, Server, ServerConfig, ServerOutput, ServerRecord, ServerTimer};
use crate::dedup::{Chunk, Table};
use crate::directory::{Directory, MemberChunk};
use crate::store::StoreInput;
use crate::trace::{Note, NoteName};
use crate::vocabulary::queues;

/// The chunks of a mark that are being read.
#[derive(Clone, Debug)]
pub(super) struct Loading {
    mark: Mark,
    missing: usize,
    read: BTreeMap<Hash, Option<Bytes>>,
}

impl Loading {
    fn of(mark: Mark) -> Self {
        let read: BTreeMap<Hash, Option<Bytes>> = mark.names().map(|name| (name, None)).collect();
        Self { mark, missing: read.len(), read }
    }

    fn part<T>(&self, names: &[Hash], read: impl Fn(&[u8]) -> Option<T>) -> Option<Vec<T>> {
        names.iter().map(|name| self.read.get(name)?.as_ref().and_then(|bytes| read(bytes))).collect()
    }

    /// The state; `None` when the chunks are none of a state.
    fn state(&self, lanes: u8, horizon: u64) -> Option<(Table, Directory, Recent)> {
        let mark = &self.mark;
        let dedup = self.part(&mark.dedup, |bytes| Chunk::decode(bytes).map(Arc::new))?;
        let members = self.part(&mark.directory, |bytes| MemberChunk::decode(bytes).map(Arc::new))?;
        let digest = |bytes: &[u8]| bytes.as_chunks::<32>().0.iter().copied().map(Hash).collect::<Vec<_>>();
        let ring = self.part(&mark.ring, |bytes| Some(digest(bytes)))?.concat();
        let directory = Directory::restore(members).filter(|directory| directory.len() == mark.length)?;
        let table = Table::restore(lanes, mark.length, dedup)?;
        Some((table, directory, Recent::restore(horizon, mark.height, ring)?))
    }
}

impl<A: AtomicBroadcast> Server<A> {
    /// The first event: reads the state of the last mark, if there is one, and starts the ordering layer.
    pub(super) fn on_start(&mut self, turn: &mut Turn<'_, Self>) {
        turn.arm(ServerTimer::Marks, MARKS_EVERY);
        self.drive(Event::Start, turn);
        match &self.loading {
            Some(loading) => loading.read.keys().for_each(|name| turn.load(*name)),
            None => self.begin(turn),
        }
        self.loaded(turn);
    }

    /// A chunk was read, or is lost.
    pub(super) fn on_chunk(&mut self, name: Hash, bytes: Option<&Bytes>, turn: &mut Turn<'_, Self>) {
        let Some(loading) = &mut self.loading else { return };
        let Some(place) = loading.read.get_mut(&name).filter(|place| place.is_none()) else { return };
        let Some(bytes) = bytes else {
            let position = loading.mark.position;
            return self.stop_behind(position, turn);
        };
        *place = Some(bytes.clone());
        loading.missing -= 1;
        self.loaded(turn);
    }

    /// Takes the state over once every chunk is here.
    fn loaded(&mut self, turn: &mut Turn<'_, Self>) {
        let Some(loading) = self.loading.take_if(|loading| loading.missing == 0) else { return };
        let horizon = self.settings.cluster.rules().horizon;
        let Some((table, directory, recent)) = loading.state(self.settings.lanes, horizon) else {
            return self.stop_behind(loading.mark.position, turn);
        };
        (self.table, self.directory, self.recent) = (table, directory, recent);
        self.delivered = loading.mark.height;
        let values = [loading.mark.position.0, self.delivered, 0];
        turn.note(Note::of(NoteName::Installed, values, Hash::ZERO));
        self.begin(turn);
        self.accept(turn);
    }

    /// Tells the store what was ordered before.
    fn begin(&mut self, turn: &mut Turn<'_, Self>) {
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
        let (mut marks, mut records) = (VecDeque::new(), Vec::new());
        for record in log.records {
            match record {
                ServerRecord::Mark(mark) => marks.push_back(mark),
                ServerRecord::Order(record) => records.push(record),
            }
            if marks.len() > 2 {
                marks.pop_front();
            }
        }
        let resume = marks.back().map_or(Position(0), |mark: &Mark| mark.position);
        let mut records = records.into_iter();
        let order = A::recover(order(resume), Log { condition: log.condition, records: &mut records })?;
        let mut table = Table::new(settings.lanes);
        table.grow(genesis.len());
        let mut checkpoints = Checkpoints::new(settings.cluster.roster().size());
        checkpoints.marks = marks;
        let loading = checkpoints.marks.back().cloned().map(Loading::of);
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
            checking: 0,
            backlog: VecDeque::new(),
            delivered: 1,
            work: None,
            directory: genesis,
            table,
            answers: Answers::default(),
            checkpoints,
            loading,
            halted: false,
            said: (0, 0, 0, 0),
        })
    }

    fn snapshot(&self, put: &mut dyn FnMut(ServerRecord<A::Record>)) {
        for mark in &self.checkpoints.marks {
            put(ServerRecord::Mark(mark.clone()));
        }
        self.order.get().snapshot(&mut |record| put(ServerRecord::Order(record)));
    }
}
