//! One batch after another, in the order handed in: lanes as jobs, a barrier after each step.

use std::sync::Arc;

use synod_machine::Turn;
use synod_machine::broadcast::Position;

use super::job::{Answer, BatchDone, BatchJob, LaneBack, LaneTask, Task};
use super::{BatchExecutor, BatchOutput};
use crate::lanes::{Batch, LaneApp, Run, UNREADABLE, mail_by_lane, runs};

/// What waits for its turn.
#[derive(Debug)]
pub(super) enum Todo {
    /// A batch.
    Batch(Box<Batch>),
    /// Every batch up to this height lies before.
    Checkpoint { position: Position, height: u64 },
    /// The server awaits the batch of this height, which lies before.
    Say { height: u64 },
}

/// Bytes of the mail of a batch by those of the batch: at most three letters of 32 bytes for each entry of 12.
pub(super) const MAIL: u64 = 8;

impl Todo {
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Batch(batch) => batch.bytes(),
            Self::Checkpoint { .. } | Self::Say { .. } => 64,
        }
    }
}

/// What jobs are at.
pub(super) enum Work<P: LaneApp> {
    /// A batch in one job.
    Whole(Arc<Batch>),
    /// A step of a batch.
    Step { batch: Arc<Batch>, number: usize, back: Vec<Option<LaneBack<P>>> },
    /// Copying what changed.
    Freezing { position: Position, height: u64 },
}

impl<P: LaneApp> Work<P> {
    pub(super) fn bytes(&self) -> u64 {
        match self {
            // Mail: at most three letters of 32 bytes per entry.
            Self::Whole(batch) | Self::Step { batch, .. } => batch.bytes() + 96 * batch.ids.len() as u64,
            Self::Freezing { .. } => 0,
        }
    }
}

impl<P: LaneApp> BatchExecutor<P> {
    pub(super) fn job(&self, task: Task<P>, turn: &mut Turn<'_, Self>) {
        turn.compute(BatchJob { generation: self.generation, task });
    }

    /// Goes on with what waits, while nothing is at work.
    pub(super) fn advance(&mut self, turn: &mut Turn<'_, Self>) {
        while self.work.is_none() && self.install.is_none() {
            self.answer_reads(turn);
            let Some(todo) = self.queue.front() else { return };
            if matches!(todo, Todo::Checkpoint { .. }) && self.naming.is_some() {
                return;
            }
            let bytes = todo.bytes();
            let Some(todo) = self.queue.pop_front() else { return };
            self.queue_bytes -= bytes;
            match todo {
                // Handed in again after a restart: the checkpoint this node came back from covers it.
                Todo::Batch(batch) if batch.height <= self.height => {}
                Todo::Batch(batch) => self.start(*batch, turn),
                Todo::Checkpoint { position, height } => self.on_due(position, height, turn),
                Todo::Say { height } => turn.output(BatchOutput::Executed { height }),
            }
        }
    }

    fn start(&mut self, batch: Batch, turn: &mut Turn<'_, Self>) {
        self.state.grow(batch.directory);
        let batch = Arc::new(batch);
        let Some(runs) = runs::<P>(&batch, self.state.layout()) else {
            let codes = vec![UNREADABLE; batch.ids.len()];
            return self.finish(&batch, codes);
        };
        let shards = self.state.take();
        if shards.len() == 1 || (batch.ids.len() as u64) < u64::from(self.settings.limits.small) {
            let (app, layout) = (self.state.app().clone(), self.state.layout().clone());
            self.work = Some(Work::Whole(batch.clone()));
            return self.job(Task::Whole { app, layout, batch, shards }, turn);
        }
        let inboxes = shards.iter().map(|_| Vec::new()).collect();
        self.step_lanes(&batch, 0, (runs, shards), inboxes, turn);
    }

    /// Hands every lane to a job.
    fn step_lanes(
        &mut self,
        batch: &Arc<Batch>,
        number: usize,
        (runs, shards): (Vec<Run>, Vec<P::Shard>),
        inboxes: Vec<Vec<Vec<P::Mail>>>,
        turn: &mut Turn<'_, Self>,
    ) {
        let back = shards.iter().map(|_| None).collect();
        let lanes = runs.into_iter().zip(shards).zip(inboxes).enumerate();
        for (lane, ((run, shard), inbox)) in lanes {
            let (app, layout, batch) = (self.state.app().clone(), self.state.layout().clone(), batch.clone());
            self.job(Task::Lane(LaneTask { lane, number, app, layout, batch, run, shard, inbox }), turn);
        }
        self.work = Some(Work::Step { batch: batch.clone(), number, back });
    }

    /// A lane comes back; after the last the next step begins, or the batch is executed.
    fn on_lane(&mut self, lane: LaneBack<P>, turn: &mut Turn<'_, Self>) {
        let Some(Work::Step { batch, number, back }) = &mut self.work else { return };
        if *number != lane.number {
            return;
        }
        let (batch, number) = (batch.clone(), *number);
        let at = lane.lane;
        if let Some(place) = back.get_mut(at) {
            *place = Some(lane);
        }
        if back.iter().any(Option::is_none) {
            return;
        }
        let lanes = core::mem::take(back).into_iter().flatten();
        let (mut all, mut shards, mut posted) = (Vec::new(), Vec::new(), Vec::new());
        for LaneBack { run, shard, posted: outbox, .. } in lanes {
            all.push(run);
            shards.push(shard);
            posted.push(outbox);
        }
        self.work = None;
        if number + 1 < P::STEPS {
            return self.step_lanes(&batch, number + 1, (all, shards), mail_by_lane(posted), turn);
        }
        self.state.put(shards);
        self.finish(&batch, all.into_iter().flat_map(|run| run.codes).collect());
    }

    fn finish(&mut self, batch: &Batch, codes: Vec<u8>) {
        assert!(batch.height > self.height, "a batch is executed once");
        (self.height, self.position) = (batch.height, batch.at.position);
        self.operations += codes.len() as u64;
        let limits = self.settings.limits;
        let bounds = (limits.results_heights, limits.results_bytes);
        self.results.add(batch.height, batch.ids.clone(), codes, bounds);
    }

    pub(super) fn on_done(&mut self, done: BatchDone<P>, turn: &mut Turn<'_, Self>) {
        if done.generation != self.generation {
            return;
        }
        match done.answer {
            Answer::Whole { shards, codes } => {
                if let Some(Work::Whole(batch)) = self.work.take() {
                    self.state.put(shards);
                    self.finish(&batch, codes);
                }
            }
            Answer::Lane(lane) => self.on_lane(lane, turn),
            Answer::Frozen { shards, changed } => self.on_frozen(shards, changed, turn),
            Answer::Named { names, root, changed } => self.on_named(names, root, changed, turn),
        }
        self.advance(turn);
    }

    /// Tells the server the root at a checkpoint. What makes it durable stands before it in the lane.
    pub(super) fn applied(position: Position, root: synod_crypto::Hash, turn: &mut Turn<'_, Self>) {
        turn.output(BatchOutput::Applied { position, root });
    }
}
