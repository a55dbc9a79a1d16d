//! A disk that tells a tape when it syncs and when its lanes are replaced.

use synod_crypto::Hash;
use synod_machine::host::{LaneLog, Lsn};
use synod_machine::{Keep, Unrecoverable};
use synod_sim::{Harm, Loss, Lost, RecordJournal, Storage, Stream, WriteFailed, Written};
use synod_wire::Bytes;

use super::tape::Step;

/// Told of every step of the disk.
type Tell = Box<dyn Fn(Step)>;

/// The disk.
pub(super) struct Taped {
    inner: RecordJournal,
    tell: Tell,
}

impl Taped {
    pub(super) fn new(lanes: usize, tell: Tell) -> Self {
        Self { inner: RecordJournal::new(lanes), tell }
    }
}

impl Storage for Taped {
    fn open(&mut self) -> Result<Vec<LaneLog>, Unrecoverable> {
        self.inner.open()
    }
    fn reserve(&mut self, lane: u8) -> Lsn {
        self.inner.reserve(lane)
    }
    fn write(&mut self, lane: u8, lsn: Lsn, what: Written) {
        self.inner.write(lane, lsn, what);
    }
    fn compact(&mut self, snapshots: Vec<Vec<(Keep, Bytes)>>) {
        (self.tell)(Step::Compact(snapshots.clone()));
        self.inner.compact(snapshots);
    }
    fn readmit(&mut self, lane: u8) {
        self.inner.readmit(lane);
    }
    fn begin(&mut self) -> bool {
        let begun = self.inner.begin();
        if begun {
            (self.tell)(Step::Begin);
        }
        begun
    }
    fn commit(&mut self) -> Result<Vec<(u8, Lsn)>, WriteFailed> {
        (self.tell)(Step::Commit);
        self.inner.commit()
    }
    fn read(&mut self, lane: u8, name: Hash) -> Option<Bytes> {
        self.inner.read(lane, name)
    }
    fn failed(&self) -> bool {
        self.inner.failed()
    }
    fn crash(&mut self, loss: Loss, stream: &mut Stream) -> Lost {
        self.inner.crash(loss, stream)
    }
    fn harm(&mut self, harm: Harm) -> bool {
        self.inner.harm(harm)
    }
    fn bytes(&self) -> u64 {
        self.inner.bytes()
    }
}
