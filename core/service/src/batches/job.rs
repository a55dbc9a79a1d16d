//! Work of a batch executor: lanes of a batch, and checkpoints.

use std::sync::Arc;

use synod_crypto::merkle::{self, Tree};
use synod_crypto::{Hash, Keys};
use synod_machine::{Cost, Job};
use synod_wire::Bytes;

use crate::lanes::{Batch, LaneApp, Layout, Run, Step, freeze, whole};

/// A lane in one step of a batch.
pub(super) struct LaneTask<P: LaneApp> {
    pub(super) lane: usize,
    pub(super) number: usize,
    pub(super) app: P,
    pub(super) layout: Arc<Layout>,
    pub(super) batch: Arc<Batch>,
    pub(super) run: Run,
    pub(super) shard: P::Shard,
    pub(super) inbox: Vec<Vec<P::Mail>>,
}

/// A lane that has done its step.
pub(super) struct LaneBack<P: LaneApp> {
    pub(super) lane: usize,
    pub(super) number: usize,
    pub(super) run: Run,
    pub(super) shard: P::Shard,
    pub(super) posted: Vec<Vec<P::Mail>>,
}

pub(super) enum Task<P: LaneApp> {
    /// All lanes of a batch in all steps.
    Whole { app: P, layout: Arc<Layout>, batch: Arc<Batch>, shards: Vec<P::Shard> },
    /// One lane in one step.
    Lane(LaneTask<P>),
    /// Copies the chunks that changed.
    Freeze { layout: Arc<Layout>, shards: Vec<P::Shard> },
    /// Names chunks; `names` are those of all chunks before.
    Name { names: Vec<(Hash, Hash)>, changed: Vec<(u32, Bytes)> },
}

pub(super) enum Answer<P: LaneApp> {
    Whole { shards: Vec<P::Shard>, codes: Vec<u8> },
    Lane(LaneBack<P>),
    Frozen { shards: Vec<P::Shard>, changed: Vec<(u32, Bytes)> },
    Named { names: Vec<(Hash, Hash)>, root: Hash, changed: Vec<(u32, Bytes)> },
}

/// Work of a batch executor.
pub struct BatchJob<P: LaneApp> {
    /// Of which state: answers about another one are of no use.
    pub(super) generation: u64,
    pub(super) task: Task<P>,
}

/// The answer of a [`BatchJob`].
pub struct BatchDone<P: LaneApp> {
    pub(super) generation: u64,
    pub(super) answer: Answer<P>,
}

impl<P: LaneApp> Job for BatchJob<P> {
    type Done = BatchDone<P>;

    fn run(self, _: &Keys) -> BatchDone<P> {
        let Self { generation, task } = self;
        let answer = match task {
            Task::Whole { app, layout, batch, mut shards } => {
                let codes = whole(&app, &layout, &batch, &mut shards);
                Answer::Whole { shards, codes }
            }
            Task::Lane(task) => {
                let LaneTask { lane, number, app, layout, batch, mut run, mut shard, inbox } = task;
                let step = Step { app: &app, layout: &layout, batch: &batch, number };
                let posted = step.run(&mut run, &mut shard, &inbox);
                Answer::Lane(LaneBack { lane, number, run, shard, posted })
            }
            Task::Freeze { layout, mut shards } => {
                let changed = freeze::<P>(&layout, &mut shards);
                Answer::Frozen { shards, changed }
            }
            Task::Name { mut names, changed } => {
                for (index, chunk) in &changed {
                    if let Some(place) = names.get_mut(*index as usize) {
                        *place = (Hash::of(chunk), merkle::leaf(chunk));
                    }
                }
                let root = Tree::new(names.iter().map(|(_, leaf)| *leaf).collect()).root();
                Answer::Named { names, root, changed }
            }
        };
        BatchDone { generation, answer }
    }

    fn cost(&self) -> Cost {
        let coded = match &self.task {
            Task::Whole { batch, .. } => batch.bytes(),
            Task::Lane(task) => 8 * task.run.entries.len() as u64,
            Task::Freeze { layout, .. } => 8 * layout.space(0).len,
            Task::Name { changed, .. } => {
                let hashed = changed.iter().map(|(_, chunk)| 2 * chunk.len() as u64).sum();
                return Cost { hashed, ..Cost::default() };
            }
        };
        Cost { coded, ..Cost::default() }
    }
}
