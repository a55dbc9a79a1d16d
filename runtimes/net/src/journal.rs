//! Between a machine's lane and the journal thread.
//!
//! *What it gives.* The runtime calls a [`LaneWriter`]; whoever writes answers through [`Reports`] from any thread.
//! [`Volatile`] is the lane of mode `volatile-UNSAFE`: it forgets everything at exit and calls each record durable at
//! once.
//!
//! *A failure is final.* [`Reports::failed`] halts every reactor before it calls the fatal hook: what was held for
//! the failed write never leaves.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_crypto::Hash;
use synod_machine::Keep;
use synod_machine::host::Lsn;
use synod_wire::Bytes;

use crate::Error;
use crate::mailbox::{Durable, Exchange, Mail, Mailbox};

/// Ends the process: called once, from the thread that met the failure. The default logs and exits with code 9.
pub type Fatal = Arc<dyn Fn(&Error) + Send + Sync>;

/// A machine's lane as the runtime writes it. Calls return at once; a queue that is full may make them wait for
/// the disk, never for the reactor.
pub trait LaneWriter: Send {
    /// Appends a record; its place in the lane, above every earlier one.
    fn append(&mut self, keep: Keep, record: Bytes) -> Lsn;
    /// Appends a blob; its place in the lane.
    fn store(&mut self, name: Hash, bytes: Bytes) -> Lsn;
    /// Appends the release of a blob.
    fn erase(&mut self, name: Hash);
    /// Reads a blob; [`Reports::loaded`] answers.
    fn load(&mut self, name: Hash);
    /// Replaces the lane by `snapshot` at the journal's leisure.
    fn compact(&mut self, snapshot: Vec<(Keep, Bytes)>);
    /// The machine of a damaged lane has rejoined; the snapshot that follows makes the lane clean. A lane that is
    /// never damaged has nothing to do.
    fn readmit(&mut self) {}
    /// The wake-up is over: what was appended may be committed as one group.
    fn flush(&mut self);
}

/// Makes a lane once its reports are known.
pub type Lane = Box<dyn FnOnce(Arc<Reports>) -> Box<dyn LaneWriter> + Send>;

/// How the journal answers, from any thread.
pub struct Reports {
    pub(crate) machine: u8,
    pub(crate) durable: Durable,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) exchange: Arc<Exchange>,
    pub(crate) fatal: Fatal,
}

impl Reports {
    /// Everything of this lane up to `lsn` is durable.
    pub fn durable(&self, lsn: Lsn) {
        self.durable.raise(lsn);
        self.mailbox.ring();
    }

    /// A blob was read; `None` when it is missing or damaged.
    pub fn loaded(&self, name: Hash, bytes: Option<Bytes>) {
        // The runtime checks the hash, so that a journal cannot hand out other bytes under a name.
        let bytes = bytes.filter(|bytes| Hash::of(bytes) == name);
        self.mailbox.push(Mail::Loaded { machine: self.machine, name, bytes });
    }

    /// Asks for the lane's snapshot; [`LaneWriter::compact`] brings it.
    pub fn snapshot(&self) {
        self.mailbox.push(Mail::Snapshot { machine: self.machine });
    }

    /// A write or sync failed. Nothing leaves the node any more; the process ends.
    pub fn failed(&self, why: &str) {
        if self.exchange.halt() {
            (self.fatal)(&Error::Journal { machine: self.machine, why: why.to_owned() });
        }
    }
}

/// The lane of mode `volatile-UNSAFE`: nothing is written, everything is durable at once, a restart forgets all.
pub struct Volatile {
    reports: Arc<Reports>,
    issued: Lsn,
    blobs: BTreeMap<Hash, Bytes>,
}

impl Volatile {
    /// A lane without anything in it.
    #[must_use]
    pub fn lane() -> Lane {
        Box::new(|reports| Box::new(Self { reports, issued: 0, blobs: BTreeMap::new() }))
    }

    fn issue(&mut self) -> Lsn {
        self.issued += 1;
        self.reports.durable.raise(self.issued);
        self.issued
    }
}

impl LaneWriter for Volatile {
    fn append(&mut self, _: Keep, _: Bytes) -> Lsn {
        self.issue()
    }

    fn store(&mut self, name: Hash, bytes: Bytes) -> Lsn {
        self.blobs.insert(name, bytes);
        self.issue()
    }

    fn erase(&mut self, name: Hash) {
        self.blobs.remove(&name);
    }

    fn load(&mut self, name: Hash) {
        self.reports.loaded(name, self.blobs.get(&name).cloned());
    }

    fn compact(&mut self, _: Vec<(Keep, Bytes)>) {}

    fn flush(&mut self) {}
}
