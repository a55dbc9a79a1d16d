//! Jobs: a machine's queue, fair over peers, and the thread that runs batches of it, or none.
//!
//! *What it gives.* At most [`BATCH_MAX`] jobs a batch, one of each peer in turn, so that a peer that floods gets its
//! share and no more. Without a thread the poller runs them between ticks, with the same results.
//!
//! *Bounds.* A machine's host bounds what it has outstanding. [`BATCHES_MAX`] batches are under way.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use synod_crypto::Keys;
use synod_machine::host::{ErasedDone, ErasedJob, Runner};
use synod_quorum::NodeId;

use crate::error::Error;
use crate::mailbox::{Mail, Mailbox};

/// Jobs of one batch.
pub(crate) const BATCH_MAX: usize = 256;
/// Batches under way to the thread.
const BATCHES_MAX: usize = 2;

/// Queued jobs of one machine.
#[derive(Default)]
pub(crate) struct Jobs {
    queues: BTreeMap<Option<NodeId>, VecDeque<ErasedJob>>,
    after: Option<Option<NodeId>>,
    queued: usize,
}

impl Jobs {
    pub(crate) fn push(&mut self, job: ErasedJob) {
        self.queued += 1;
        self.queues.entry(job.peer).or_default().push_back(job);
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.queued == 0
    }

    /// The next batch: one job of each peer in turn, starting behind the last one served.
    pub(crate) fn batch(&mut self) -> Vec<ErasedJob> {
        let mut batch = Vec::with_capacity(self.queued.min(BATCH_MAX));
        while batch.len() < BATCH_MAX
            && let Some(peer) = self.turn()
        {
            self.after = Some(peer);
            let Some(queue) = self.queues.get_mut(&peer) else { break };
            batch.extend(queue.pop_front());
            if queue.is_empty() {
                self.queues.remove(&peer);
            }
        }
        self.queued -= batch.len();
        batch
    }

    /// Puts a batch back that nobody took; its order among the others' is lost, which no job minds.
    fn put_back(&mut self, jobs: Vec<ErasedJob>) {
        jobs.into_iter().rev().for_each(|job| {
            self.queued += 1;
            self.queues.entry(job.peer).or_default().push_front(job);
        });
    }

    fn turn(&self) -> Option<Option<NodeId>> {
        use core::ops::Bound::{Excluded, Unbounded};
        let behind = self.after.and_then(|after| self.queues.range((Excluded(after), Unbounded)).next());
        behind.or_else(|| self.queues.first_key_value()).map(|(peer, _)| *peer)
    }
}

struct Batch {
    slot: usize,
    runner: Runner,
    jobs: Vec<ErasedJob>,
    home: Arc<Mailbox>,
}

/// Who runs jobs.
#[derive(Clone)]
pub struct Crypto {
    keys: Arc<Keys>,
    thread: Option<SyncSender<Batch>>,
}

impl Crypto {
    /// The pollers do, between ticks.
    #[must_use]
    pub fn inline(keys: Keys) -> Self {
        Self { keys: Arc::new(keys), thread: None }
    }

    /// A thread of its own does, until the last copy of this value is dropped.
    ///
    /// # Errors
    /// [`Error::Thread`] when the system grants none.
    pub fn thread(keys: Keys) -> Result<(Self, JoinHandle<()>), Error> {
        let keys = Arc::new(keys);
        let (sender, receiver) = sync_channel(BATCHES_MAX);
        let own = Arc::clone(&keys);
        let thread = std::thread::Builder::new()
            .name("synod-crypto".to_owned())
            .spawn(move || work(&receiver, &own))
            .map_err(|error| Error::Thread(error.to_string()))?;
        Ok((Self { keys, thread: Some(sender) }, thread))
    }

    /// Runs what is queued, or hands it to the thread. What was run here is given back, for the machine.
    pub(crate) fn serve(
        &self,
        jobs: &mut Jobs,
        runner: Runner,
        slot: usize,
        home: &Arc<Mailbox>,
    ) -> Vec<ErasedDone> {
        let batch = jobs.batch();
        let Some(thread) = &self.thread else { return run(runner, batch, &self.keys) };
        match thread.try_send(Batch { slot, runner, jobs: batch, home: Arc::clone(home) }) {
            Ok(()) => {}
            Err(TrySendError::Full(batch) | TrySendError::Disconnected(batch)) => jobs.put_back(batch.jobs),
        }
        Vec::new()
    }
}

fn run(runner: Runner, jobs: Vec<ErasedJob>, keys: &Keys) -> Vec<ErasedDone> {
    let count = jobs.len();
    let done = runner(jobs, keys);
    assert!(done.len() == count, "each job has one answer");
    done
}

fn work(batches: &Receiver<Batch>, keys: &Keys) {
    while let Ok(Batch { slot, runner, jobs, home }) = batches.recv() {
        home.push(Mail::Done { slot, done: run(runner, jobs, keys) });
    }
}

#[cfg(test)]
mod tests {
    use synod_machine::Cost;

    use super::*;

    fn job(peer: u32) -> ErasedJob {
        ErasedJob { job: Box::new(peer), peer: Some(NodeId(peer)), cost: Cost::default() }
    }

    fn peers(batch: &[ErasedJob]) -> Vec<u32> {
        batch.iter().filter_map(|job| job.peer.map(|peer| peer.0)).collect()
    }

    #[test]
    fn a_flooding_peer_gets_its_share_of_a_batch_and_what_comes_back_is_not_lost() {
        let mut jobs = Jobs::default();
        (0..1_000).for_each(|_| jobs.push(job(7)));
        for peer in [1, 2, 1, 2] {
            jobs.push(job(peer));
        }
        let batch = jobs.batch();
        assert_eq!((batch.len(), &peers(&batch)[..6]), (BATCH_MAX, &[1, 2, 7, 1, 2, 7][..]));
        jobs.put_back(batch);
        let mut left = 0;
        while !jobs.is_empty() {
            left += jobs.batch().len();
        }
        assert_eq!(left, 1_004);
    }
}
