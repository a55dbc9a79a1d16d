//! Jobs: a machine's queue, fair over peers, and the threads that run batches of it.
//!
//! *What it gives.* [`Jobs`] hands out at most 256 jobs per batch, one of each peer in turn, so that a flooding peer
//! gets at most its share. [`Pool`] runs batches on k threads; 0 threads means the reactor runs them itself between
//! events, with the same results. A batch of its own is under way per thread, and the rest accumulates behind it:
//! the busier the pool, the larger the batches.
//!
//! *Small work stays.* Handing a batch to a thread and its answers back costs two wake-ups, as much as a signature.
//! What is priced below [`INLINE_NS`] per machine and turn is therefore run by the reactor: the node's own statements
//! always, the claims of peers while no batch of the machine is under way. What a peer can make a reactor do in a turn
//! is so bounded by the same constant, and a flood goes to the threads.
//!
//! *Keys* live in the pool; machines see them only inside a job.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use synod_crypto::Keys;
use synod_machine::host::{ErasedDone, ErasedJob, Runner};
use synod_machine::{Cost, Time};
use synod_quorum::NodeId;

use crate::Error;
use crate::counters::{Check, Counters};
use crate::mailbox::{Mail, Mailbox};
use crate::quotas::Bucket;

/// Jobs of one batch.
pub(crate) const BATCH_MAX: usize = 256;
/// Work that a reactor does itself per machine and turn, in nanoseconds: some signatures.
pub(crate) const INLINE_NS: u64 = 300_000;
/// Peers whose jobs are rationed; further ones share the last bucket.
const PEERS_MAX: usize = 4_096;

/// Queued jobs of one machine. At most `jobs_max` of the machine's host are outstanding, so the queue is bounded by
/// the pause of the machine that fills it.
pub(crate) struct Jobs {
    queues: BTreeMap<Option<NodeId>, VecDeque<ErasedJob>>,
    buckets: BTreeMap<NodeId, Bucket>,
    rate: u64,
    after: Option<Option<NodeId>>,
    queued: usize,
    /// What is queued costs about this much, in nanoseconds; and the part of it that is the node's own.
    price: u64,
    own_price: u64,
    under_way: u32,
}

impl Jobs {
    pub(crate) fn new(rate: u64) -> Self {
        let (queues, buckets) = (BTreeMap::new(), BTreeMap::new());
        Self { queues, buckets, rate, after: None, queued: 0, price: 0, own_price: 0, under_way: 0 }
    }

    pub(crate) fn push(&mut self, job: ErasedJob) {
        self.queued += 1;
        self.price += price(&job.cost);
        self.own_price += if job.peer.is_none() { price(&job.cost) } else { 0 };
        self.queues.entry(job.peer).or_default().push_back(job);
    }

    /// The next batch: one job of each peer in turn, starting behind the last one served; own jobs count as one
    /// peer's. A peer above its rate waits.
    pub(crate) fn batch(&mut self, now: Time) -> Vec<ErasedJob> {
        let mut batch = Vec::with_capacity(self.queued.min(BATCH_MAX));
        let mut idle = 0;
        while batch.len() < BATCH_MAX && idle < self.queues.len() {
            let Some(peer) = self.turn() else { break };
            self.after = Some(peer);
            if !self.admits(peer, now) {
                idle += 1;
                continue;
            }
            let Some(queue) = self.queues.get_mut(&peer) else { break };
            if let Some(job) = queue.pop_front() {
                batch.push(job);
                idle = 0;
            }
            if queue.is_empty() {
                self.queues.remove(&peer);
            }
        }
        self.taken(&batch);
        batch
    }

    /// What the reactor does itself, as long as it has `left` nanoseconds: all that is queued if no batch is under way,
    /// else what is the node's own; nothing if that is too much.
    pub(crate) fn small(&mut self, left: u64, now: Time) -> Vec<ErasedJob> {
        if self.under_way == 0 && self.price <= left {
            return self.batch(now);
        }
        if self.own_price > left {
            return Vec::new();
        }
        let own: Vec<ErasedJob> = self.queues.remove(&None).unwrap_or_default().into();
        self.taken(&own);
        own
    }

    fn taken(&mut self, batch: &[ErasedJob]) {
        self.queued -= batch.len();
        for job in batch {
            self.price -= price(&job.cost);
            self.own_price -= if job.peer.is_none() { price(&job.cost) } else { 0 };
        }
    }

    fn turn(&self) -> Option<Option<NodeId>> {
        use core::ops::Bound::{Excluded, Unbounded};
        let behind = self.after.and_then(|after| self.queues.range((Excluded(after), Unbounded)).next());
        behind.or_else(|| self.queues.first_key_value()).map(|(peer, _)| *peer)
    }

    fn admits(&mut self, peer: Option<NodeId>, now: Time) -> bool {
        let Some(peer) = peer else { return true };
        if !self.buckets.contains_key(&peer) && self.buckets.len() >= PEERS_MAX {
            self.buckets.pop_last();
        }
        let bucket = self.buckets.entry(peer).or_insert(Bucket::new(self.rate, now));
        bucket.refill(now);
        let open = bucket.open();
        if open {
            bucket.take(1);
        }
        open
    }

    pub(crate) const fn queued(&self) -> usize {
        self.queued
    }

    pub(crate) const fn under_way(&self) -> u32 {
        self.under_way
    }

    pub(crate) fn started(&mut self) {
        self.under_way += 1;
    }

    pub(crate) fn ended(&mut self) {
        assert!(self.under_way > 0, "a batch ends once");
        self.under_way -= 1;
    }
}

/// What a job costs on one core, in nanoseconds, rounded up: it decides where the job runs, never what it answers.
pub(crate) fn price(cost: &Cost) -> u64 {
    let each = |count: u32, ns: u64| u64::from(count) * ns;
    let signatures = each(cost.sign, 20_000) + each(cost.verify, 40_000) + each(cost.batch_verify, 30_000);
    let pairings =
        each(cost.pairing, 450_000) + each(cost.hash_to_curve, 120_000) + each(cost.subgroup, 60_000);
    signatures + pairings + each(cost.key_add, 400) + cost.hashed.saturating_add(cost.coded)
}

/// Jobs of one machine, ready to run.
pub(crate) struct Batch {
    pub(crate) machine: u8,
    pub(crate) runner: Runner,
    pub(crate) jobs: Vec<ErasedJob>,
    pub(crate) home: Arc<Mailbox>,
}

/// What verification jobs of a batch cost beside the rest of it, and how many of each kind there are.
struct Shares {
    price: u64,
    kinds: [(u64, u64); Check::ALL.len()],
}

impl Shares {
    fn of(jobs: &[ErasedJob]) -> Self {
        let mut shares = Self { price: 0, kinds: Default::default() };
        for job in jobs {
            let price = price(&job.cost).max(1);
            shares.price = shares.price.saturating_add(price);
            if let Some(kind) = Check::of(&job.cost) {
                let (count, of_kind) = &mut shares.kinds[kind as usize];
                *count += 1;
                *of_kind = of_kind.saturating_add(price);
            }
        }
        shares
    }

    /// Splits the time of the batch over its jobs.
    fn record(&self, took: Duration, counters: &Counters) {
        for (kind, (count, price)) in Check::ALL.into_iter().zip(self.kinds) {
            if count > 0 {
                let whole = took.as_nanos() * u128::from(price) / u128::from(self.price);
                let each = u64::try_from(whole / u128::from(count)).unwrap_or(u64::MAX);
                counters.check(kind).record_many(each, count);
            }
        }
    }
}

#[derive(Default)]
struct Work {
    batches: VecDeque<Batch>,
    stop: bool,
}

struct Shared {
    work: Mutex<Work>,
    more: Condvar,
    keys: Arc<Keys>,
    counters: Arc<Counters>,
}

/// The threads that run jobs, or none.
#[derive(Clone)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
    threads: u32,
}

impl Pool {
    /// Starts `threads` threads.
    ///
    /// # Errors
    /// [`Error::Thread`] when the system refuses one.
    pub(crate) fn start(
        threads: u32,
        keys: Arc<Keys>,
        counters: Arc<Counters>,
    ) -> Result<(Self, Vec<JoinHandle<()>>), Error> {
        let (work, more) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { work, more, keys, counters });
        let mut handles = Vec::new();
        for number in 0..threads {
            let shared = shared.clone();
            let handle = std::thread::Builder::new()
                .name(format!("synod-job-{number}"))
                .spawn(move || shared.work())
                .map_err(|error| Error::Thread(error.to_string()))?;
            handles.push(handle);
        }
        Ok((Self { shared, threads }, handles))
    }

    /// Batches of one machine that may be under way: one per thread and one that waits.
    pub(crate) const fn batches_max(&self) -> u32 {
        self.threads + 1
    }

    pub(crate) const fn is_inline(&self) -> bool {
        self.threads == 0
    }

    /// Hands a batch to the threads.
    pub(crate) fn submit(&self, batch: Batch) {
        assert!(self.threads > 0, "an inline pool runs batches itself");
        self.shared.work.lock().unwrap_or_else(PoisonError::into_inner).batches.push_back(batch);
        self.shared.more.notify_one();
    }

    /// Runs jobs here and now.
    pub(crate) fn run(&self, runner: Runner, jobs: Vec<ErasedJob>) -> Vec<ErasedDone> {
        self.shared.run(runner, jobs)
    }

    pub(crate) fn stop(&self) {
        self.shared.work.lock().unwrap_or_else(PoisonError::into_inner).stop = true;
        self.shared.more.notify_all();
    }
}

impl Shared {
    fn run(&self, runner: Runner, jobs: Vec<ErasedJob>) -> Vec<ErasedDone> {
        let count = jobs.len();
        let shares = Shares::of(&jobs);
        let begun = Instant::now();
        let done = runner(jobs, &self.keys);
        shares.record(begun.elapsed(), &self.counters);
        assert!(done.len() == count, "each job has one answer");
        self.counters.jobs.add(count as u64);
        self.counters.job_batches.add(1);
        done
    }

    fn work(&self) {
        while let Some(batch) = self.next() {
            let Batch { machine, runner, jobs, home } = batch;
            let done = self.run(runner, jobs);
            home.push(Mail::Done { machine, done });
        }
    }

    fn next(&self) -> Option<Batch> {
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if work.stop {
                return None;
            }
            match work.batches.pop_front() {
                Some(batch) => return Some(batch),
                None => work = self.more.wait(work).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_machine::Cost;

    fn job(peer: u32) -> ErasedJob {
        ErasedJob { job: Box::new(peer), peer: Some(NodeId(peer)), cost: Cost::default() }
    }

    fn peers(batch: Vec<ErasedJob>) -> Vec<u32> {
        batch.into_iter().filter_map(|job| job.peer.map(|peer| peer.0)).collect()
    }

    #[test]
    fn a_flooding_peer_gets_its_share_of_a_batch() {
        let mut jobs = Jobs::new(1_000_000);
        for _ in 0..1_000 {
            jobs.push(job(7));
        }
        for peer in [1, 2, 1, 2, 1, 2] {
            jobs.push(job(peer));
        }
        let batch = peers(jobs.batch(Time::ZERO));
        assert_eq!(batch.len(), BATCH_MAX);
        assert_eq!(batch[..9], [1, 2, 7, 1, 2, 7, 1, 2, 7]);
        assert_eq!(jobs.queued(), 1_006 - BATCH_MAX);
    }

    #[test]
    fn service_goes_on_behind_the_last_peer_served() {
        let mut jobs = Jobs::new(1_000_000);
        (0..300).for_each(|n| jobs.push(job(n)));
        let first = peers(jobs.batch(Time::ZERO));
        let second = peers(jobs.batch(Time::ZERO));
        assert_eq!((first[0], second[0]), (0, 256));
        assert_eq!(first.len() + second.len(), 300);
        assert!(jobs.batch(Time::ZERO).is_empty());
    }

    #[test]
    fn a_peer_above_its_rate_waits_and_others_do_not() {
        let mut jobs = Jobs::new(2);
        for _ in 0..5 {
            jobs.push(job(1));
        }
        jobs.push(job(2));
        assert_eq!(peers(jobs.batch(Time::ZERO)), [1, 2, 1]);
        assert!(jobs.batch(Time::ZERO).is_empty());
        assert_eq!(peers(jobs.batch(Time(500_000_000))), [1]);
    }

    #[test]
    fn the_time_of_a_batch_is_shared_by_cost_and_only_checks_are_counted() {
        let counters = Counters::new(1);
        let sign = Cost { sign: 4, ..Cost::default() };
        let batch = Cost { batch_verify: 4, ..Cost::default() };
        let job = |cost| ErasedJob { job: Box::new(()), peer: None, cost };
        // 40 + 40 + 120 + 80 us by their prices.
        let jobs = [priced(None, 1), priced(Some(1), 1), job(batch), job(sign)];
        Shares::of(&jobs).record(Duration::from_micros(280), &counters);
        let read = Check::ALL.map(|kind| counters.check(kind).read());
        assert_eq!(read.each_ref().map(|read| read.count), [2, 1, 0]);
        assert_eq!(read.map(|read| read.sum), [80_000, 120_000, 0]);
    }

    fn priced(peer: Option<u32>, verify: u32) -> ErasedJob {
        let cost = Cost { verify, ..Cost::default() };
        ErasedJob { job: Box::new(()), peer: peer.map(NodeId), cost }
    }

    #[test]
    fn a_reactor_does_what_is_small_and_leaves_what_is_large() {
        let mut jobs = Jobs::new(1_000_000);
        (0..5).for_each(|n| jobs.push(priced(Some(n), 1)));
        jobs.push(priced(None, 1));
        assert_eq!(jobs.small(INLINE_NS, Time::ZERO).len(), 6, "240 us of work");
        assert_eq!((jobs.queued(), jobs.price, jobs.own_price), (0, 0, 0));
        (0..10).for_each(|n| jobs.push(priced(Some(n), 1)));
        jobs.push(priced(None, 1));
        let own = jobs.small(INLINE_NS, Time::ZERO);
        assert!(own.iter().all(|job| job.peer.is_none()) && own.len() == 1, "peers' claims are too much");
        assert!(jobs.small(INLINE_NS, Time::ZERO).is_empty());
        assert_eq!((jobs.queued(), jobs.price), (10, 400_000));
        jobs.push(priced(None, 8));
        assert!(jobs.small(INLINE_NS, Time::ZERO).is_empty(), "own work can be too much as well");
        assert_eq!(jobs.batch(Time::ZERO).len(), 11, "all of it is for the threads");
        assert_eq!((jobs.price, jobs.own_price), (0, 0));
    }

    #[test]
    fn claims_of_peers_join_the_next_batch_while_one_is_under_way() {
        let mut jobs = Jobs::new(1_000_000);
        jobs.started();
        jobs.push(priced(Some(1), 1));
        jobs.push(priced(None, 1));
        assert_eq!(jobs.small(INLINE_NS, Time::ZERO).len(), 1, "the own one");
        assert_eq!(jobs.queued(), 1);
        jobs.ended();
        assert_eq!(jobs.small(INLINE_NS, Time::ZERO).len(), 1);
    }
}
