//! The journal thread: group commit beside a reactor.
//!
//! Machines submit through their [`Lane`]; the thread takes everything that is queued, writes it, syncs
//! once, reports, and repeats. After 10 ms without work it writes a mark. Reports come on the journal
//! thread through one callback, which should only wake its reactor: it must not wait for a lane.
//!
//! A host that submits several writes in a row gives them as one list, so that one sync covers them.
//!
//! A lane counts its submissions from 1 and a report says up to which count each lane is durable, so a
//! gate needs no shared counter. Snapshots are given lane by lane; what a lane submits between its
//! snapshot and the last lane's is added behind it, and then the journal compacts.
//!
//! Bounds: at most [`REQUESTS_MAX`] requests and [`BYTES_MAX`] bytes wait (one submission more may pass
//! them); beyond that a submission blocks.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::compact::Snapshot;
use crate::config::{self, Keep, Lsn};
use crate::error::Error;
use crate::request::Request;
pub use crate::request::Write;
use crate::writer::{Counters, Journal};

/// Requests that may wait.
pub const REQUESTS_MAX: usize = 8192;

/// Bytes that may wait.
pub const BYTES_MAX: u64 = 64 << 20;

/// Bytes a lane may write behind its snapshot while that waits for the other lanes'.
pub const BEHIND_BYTES_MAX: usize = 64 << 20;

/// Time without work after which a mark is written.
pub const IDLE: Duration = Duration::from_millis(10);

/// What a sync made durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Durable {
    /// The highest durable position of the journal.
    pub lsn: Lsn,
    /// The lanes that advanced: each with the number of its submissions that are durable.
    pub lanes: Vec<(u8, u64)>,
    /// Submissions settled by this sync.
    pub records: u64,
    /// Time of writing and syncing them, in microseconds.
    pub sync_us: u64,
    /// Bytes of log behind the last compaction: the host asks for snapshots by this.
    pub log_bytes: u64,
    /// What the journal has done since it was opened.
    pub counters: Counters,
    /// Segment files in use.
    pub segments: u64,
    /// Time of the compaction since the sync before, in microseconds; 0 if there was none.
    pub compacted_us: u64,
}

/// What the journal thread tells its host.
#[derive(Debug, Clone)]
pub enum Report {
    /// A sync returned.
    Durable(Durable),
    /// The thread was idle and wrote a mark: everything up to here can no longer be taken for a torn tail.
    Marked {
        /// The highest durable position.
        lsn: Lsn,
    },
    /// The answer to a load.
    Loaded {
        /// Who asked.
        lane: u8,
        /// For what.
        name: [u8; 32],
        /// The blob; None when it is not there or not intact.
        bytes: Option<Bytes>,
    },
    /// Every lane's snapshot is the log now.
    Compacted {
        /// The highest durable position.
        lsn: Lsn,
        /// Time it took, in microseconds.
        took_us: u64,
    },
    /// A lane wrote so much behind its snapshot that the snapshot was dropped: it gives another.
    SnapshotDropped {
        /// The lane.
        lane: u8,
    },
    /// The journal failed and the thread has ended: the process stops, and sends nothing more.
    Failed(Error),
}

#[derive(Debug, Default)]
struct Queue {
    requests: VecDeque<Request>,
    bytes: u64,
    closing: bool,
    failed: Option<Error>,
}

/// The queue between the lanes and the thread.
#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    work: Condvar,
    room: Condvar,
}

/// What the thread finds to do.
enum Work {
    Requests(VecDeque<Request>),
    Idle,
    Close,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, request: Request) -> Result<(), Error> {
        self.push_all(std::iter::once(request))
    }

    /// Queues requests as one: they find room together, and the thread takes all of them or none.
    fn push_all(&self, requests: impl Iterator<Item = Request>) -> Result<(), Error> {
        let mut queue = self.queue();
        loop {
            if let Some(error) = &queue.failed {
                return Err(error.clone());
            }
            if queue.closing {
                return Err(Error::Closed);
            }
            if queue.requests.len() < REQUESTS_MAX && queue.bytes < BYTES_MAX {
                break;
            }
            queue = self.room.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        for request in requests {
            queue.bytes += request.bytes();
            queue.requests.push_back(request);
        }
        drop(queue);
        self.work.notify_one();
        Ok(())
    }

    /// Waits for work: for ever, or, when a mark may be due, for [`IDLE`].
    fn take(&self, mark_due: bool) -> Work {
        let mut queue = self.queue();
        loop {
            if !queue.requests.is_empty() {
                queue.bytes = 0;
                let requests = std::mem::take(&mut queue.requests);
                drop(queue);
                self.room.notify_all();
                return Work::Requests(requests);
            }
            if queue.closing {
                return Work::Close;
            }
            if !mark_due {
                queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let (back, waited) = self.work.wait_timeout(queue, IDLE).unwrap_or_else(PoisonError::into_inner);
            queue = back;
            if waited.timed_out() && queue.requests.is_empty() && !queue.closing {
                return Work::Idle;
            }
        }
    }

    fn fail(&self, error: Error) {
        let mut queue = self.queue();
        queue.failed.get_or_insert(error);
        queue.requests.clear();
        drop(queue);
        self.room.notify_all();
    }
}

/// Frees blocked lanes however the thread ends.
struct Fuse(Arc<Shared>);

impl Drop for Fuse {
    fn drop(&mut self) {
        self.0.fail(Error::Closed);
    }
}

/// One machine's way to the journal.
#[derive(Debug)]
pub struct Lane {
    lane: u8,
    issued: u64,
    shared: Arc<Shared>,
}

impl Lane {
    /// Submits a record and returns its count in this lane.
    ///
    /// # Errors
    /// The error that ended the journal.
    pub fn append(&mut self, keep: Keep, body: Bytes) -> Result<u64, Error> {
        self.submit(Request::Append { lane: self.lane, keep, body })
    }

    /// Submits a blob, named by the BLAKE3 of its bytes, and returns its count in this lane.
    ///
    /// # Errors
    /// The error that ended the journal.
    pub fn store(&mut self, name: [u8; 32], bytes: Bytes) -> Result<u64, Error> {
        self.submit(Request::Store { lane: self.lane, name, bytes })
    }

    /// Submits the release of a blob and returns its count in this lane.
    ///
    /// # Errors
    /// The error that ended the journal.
    pub fn erase(&mut self, name: [u8; 32]) -> Result<u64, Error> {
        self.submit(Request::Erase { lane: self.lane, name })
    }

    /// Submits writes in their order, for one sync; gives the count of the last in this lane.
    ///
    /// # Errors
    /// The error that ended the journal; then none of them was taken.
    pub fn submit_all(&mut self, writes: Vec<Write>) -> Result<u64, Error> {
        let (lane, count) = (self.lane, config::bytes(writes.len()));
        if count > 0 {
            self.shared.push_all(writes.into_iter().map(|write| Request::write(lane, write)))?;
        }
        self.issued += count;
        Ok(self.issued)
    }

    /// Asks for a blob; [`Report::Loaded`] answers.
    ///
    /// # Errors
    /// The error that ended the journal.
    pub fn load(&mut self, name: [u8; 32]) -> Result<(), Error> {
        self.shared.push(Request::Load { lane: self.lane, name })
    }

    /// Gives records equivalent to everything submitted so far.
    ///
    /// # Errors
    /// The error that ended the journal.
    pub fn snapshot(&mut self, records: Snapshot) -> Result<(), Error> {
        self.shared.push(Request::Snapshot { lane: self.lane, records })
    }

    /// States that this damaged lane's machine has rejoined; the snapshot that follows makes it Clean.
    ///
    /// # Errors
    /// The error that ended the journal.
    pub fn readmit(&mut self) -> Result<(), Error> {
        self.shared.push(Request::Readmit { lane: self.lane })
    }

    /// The number of submissions so far.
    pub fn issued(&self) -> u64 {
        self.issued
    }

    fn submit(&mut self, request: Request) -> Result<u64, Error> {
        self.shared.push(request)?;
        self.issued += 1;
        Ok(self.issued)
    }
}

/// The running journal of a node. Dropping it closes the journal and loses the last error;
/// [`JournalThread::close`] does not.
#[derive(Debug)]
pub struct JournalThread {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

/// Starts the thread; gives its handle and the lanes in order.
///
/// # Errors
/// [`Error::Write`] when the system grants no thread.
pub fn spawn(
    journal: Journal,
    report: Box<dyn Fn(Report) + Send>,
) -> Result<(JournalThread, Vec<Lane>), Error> {
    let shared = Arc::new(Shared::default());
    let lanes = journal.config.lanes;
    let committer = Committer {
        counts: vec![0; usize::from(lanes)],
        gathered: vec![None; usize::from(lanes)],
        compacted_us: 0,
        journal,
        report,
    };
    let queue = Arc::clone(&shared);
    let thread = std::thread::Builder::new().name("journal".to_owned()).spawn(move || {
        let _fuse = Fuse(Arc::clone(&queue));
        committer.run(&queue)
    });
    let thread = thread.map_err(|error| Error::write("thread", ".", error))?;
    let lanes = (0..lanes).map(|lane| Lane { lane, issued: 0, shared: Arc::clone(&shared) }).collect();
    Ok((JournalThread { shared, thread: Some(thread) }, lanes))
}

impl JournalThread {
    /// Settles what is queued, writes a mark, and ends the thread.
    ///
    /// # Errors
    /// The error that ended the journal.
    pub fn close(mut self) -> Result<(), Error> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        self.shared.queue().closing = true;
        self.shared.work.notify_all();
        self.shared.room.notify_all();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            Some(Err(_)) | None => Err(Error::Closed),
        }
    }
}

impl Drop for JournalThread {
    fn drop(&mut self) {
        if self.thread.is_some() {
            // Nobody is left to hear of an error; the callback has reported it.
            let _ = self.end();
        }
    }
}

/// The thread's own state.
struct Committer {
    journal: Journal,
    report: Box<dyn Fn(Report) + Send>,
    /// Submissions taken, per lane.
    counts: Vec<u64>,
    /// Snapshots that wait for the other lanes', with what came behind them and the bytes of that.
    gathered: Vec<Option<(Snapshot, usize)>>,
    /// Time of the compaction since the last sync.
    compacted_us: u64,
}

impl Committer {
    fn run(mut self, shared: &Shared) -> Result<(), Error> {
        let done = self.serve(shared);
        if let Err(error) = &done {
            shared.fail(error.clone());
            (self.report)(Report::Failed(error.clone()));
        }
        done
    }

    fn serve(&mut self, shared: &Shared) -> Result<(), Error> {
        let mut mark_due = false;
        loop {
            match shared.take(mark_due) {
                Work::Requests(requests) => {
                    self.commit(requests)?;
                    mark_due = true;
                }
                Work::Idle => {
                    if self.journal.mark()? {
                        (self.report)(Report::Marked { lsn: self.journal.durable() });
                    }
                    mark_due = false;
                }
                Work::Close => return self.journal.mark().map(drop),
            }
        }
    }

    fn commit(&mut self, requests: VecDeque<Request>) -> Result<(), Error> {
        let before = self.counts.clone();
        let begun = Instant::now();
        for request in requests {
            self.take(request)?;
        }
        let lanes: Vec<(u8, u64)> = (0u8..)
            .zip(self.counts.iter().zip(&before))
            .filter(|(_, (now, before))| now > before)
            .map(|(lane, (now, _))| (lane, *now))
            .collect();
        if !lanes.is_empty() {
            let lsn = self.journal.sync()?;
            (self.report)(Report::Durable(Durable {
                lsn,
                lanes,
                records: self.counts.iter().sum::<u64>() - before.iter().sum::<u64>(),
                sync_us: microseconds(begun),
                log_bytes: self.journal.log_bytes(),
                counters: self.journal.counters(),
                segments: config::bytes(self.journal.segments()),
                compacted_us: std::mem::take(&mut self.compacted_us),
            }));
        }
        self.compact_when_gathered()
    }

    fn take(&mut self, request: Request) -> Result<(), Error> {
        match request {
            Request::Append { lane, keep, body } => {
                self.gather(lane, keep, &body);
                self.journal.append(lane, keep, body)?;
                self.counts[usize::from(lane)] += 1;
            }
            Request::Store { lane, name, bytes } => {
                self.journal.store(lane, name, bytes)?;
                self.counts[usize::from(lane)] += 1;
            }
            Request::Erase { lane, name } => {
                self.journal.erase(lane, name)?;
                self.counts[usize::from(lane)] += 1;
            }
            Request::Load { lane, name } => {
                let bytes = self.journal.load(lane, name)?;
                (self.report)(Report::Loaded { lane, name, bytes });
            }
            Request::Snapshot { lane, records } => {
                self.gathered[usize::from(lane)] = Some((records, 0));
            }
            Request::Readmit { lane } => {
                // A snapshot from before does not hold what the machine learned since.
                self.gathered[usize::from(lane)] = None;
                self.journal.readmit(lane);
            }
        }
        Ok(())
    }

    /// Adds a record behind its lane's waiting snapshot.
    fn gather(&mut self, lane: u8, keep: Keep, body: &Bytes) {
        let waiting = &mut self.gathered[usize::from(lane)];
        let Some((records, bytes)) = waiting else { return };
        *bytes += body.len();
        records.push((keep, body.clone()));
        if *bytes > BEHIND_BYTES_MAX {
            *waiting = None;
            (self.report)(Report::SnapshotDropped { lane });
        }
    }

    fn compact_when_gathered(&mut self) -> Result<(), Error> {
        if self.gathered.iter().any(Option::is_none) {
            return Ok(());
        }
        let begun = Instant::now();
        let snapshots: Vec<Snapshot> =
            self.gathered.iter_mut().filter_map(Option::take).map(|(records, _)| records).collect();
        let lsn = self.journal.compact(&snapshots)?;
        self.compacted_us = microseconds(begun);
        (self.report)(Report::Compacted { lsn, took_us: self.compacted_us });
        Ok(())
    }
}

fn microseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}
