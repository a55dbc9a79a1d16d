//! What a disk holds after a crash, in every way it can.
//!
//! Record by record: what was durable and every prefix of the rest; a torn record is one that recovery drops. On blocks:
//! the real journal writes what is queued and the power goes before its sync: every subset of the last four writes, and
//! the last one torn at a sector.

use synod_crypto::Hash;
use synod_machine::host::{LaneLog, Lsn};
use synod_machine::{Keep, Unrecoverable};
use synod_quorum::NodeId;
use synod_sim::{
    BlockJournal, Draws, Harm, Loss, Lost, RecordJournal, Storage, Stream, WriteFailed, Written,
};
use synod_wire::Bytes;

use super::enumerate::Edit;
use super::tape::Step;

/// A member's disk while its tape is read.
pub(super) struct Disk {
    lanes: usize,
    records: RecordJournal,
    /// The tape so far, where the journal is the real one: it is written again for each boundary.
    blocks: Option<(NodeId, Vec<Step>)>,
}

impl Disk {
    /// Of a node with so many lanes.
    pub(super) fn new(node: NodeId, lanes: usize, blocks: bool) -> Result<Self, String> {
        let mut records = RecordJournal::new(lanes);
        records.open().map_err(|refusal| refusal.0)?;
        Ok(Self { lanes, records, blocks: blocks.then(|| (node, Vec::new())) })
    }

    /// Takes one step.
    pub(super) fn take(&mut self, step: &Step) {
        apply(&mut self.records, step);
        if let Some((_, steps)) = &mut self.blocks
            && !matches!(step, Step::Effect(None, _))
        {
            let bare = match step {
                Step::Effect(written, _) => Step::Effect(written.clone(), Vec::new()),
                other => other.clone(),
            };
            steps.push(bare);
        }
    }

    /// Every disk that a start may find if the power goes now.
    pub(super) fn outcomes(&self) -> Vec<Box<dyn Storage>> {
        if let Some((node, steps)) = &self.blocks {
            let mut journal = BlockJournal::new(*node, self.lanes);
            if let Err(refusal) = journal.open() {
                unreachable!("an empty journal opens: {}", refusal.0)
            }
            steps.iter().for_each(|step| apply(&mut journal, step));
            return journal.cuts().into_iter().map(|disk| Box::new(disk) as Box<dyn Storage>).collect();
        }
        let mut stream = Draws::new(0).stream("crash", 0);
        let crashed = |kept: u32, stream: &mut Stream| {
            let mut disk = self.records.clone();
            let lost = disk.crash(Loss::Keep(kept), stream);
            (disk, lost)
        };
        let (first, lost) = crashed(0, &mut stream);
        let unsynced = u32::try_from(lost.unsynced).unwrap_or(u32::MAX);
        let more = (1..=unsynced).map(|kept| crashed(kept, &mut stream).0);
        core::iter::once(first).chain(more).map(|disk| Box::new(disk) as Box<dyn Storage>).collect()
    }
}

fn apply(disk: &mut dyn Storage, step: &Step) {
    match step {
        Step::Effect(Some((lane, _, written)), _) => {
            let lsn = disk.reserve(*lane);
            disk.write(*lane, lsn, written.clone());
        }
        Step::Effect(None, _) => {}
        Step::Begin => drop(disk.begin()),
        Step::Commit => {
            if let Err(failed) = disk.commit() {
                unreachable!("a disk in order takes what is written: {}", failed.0)
            }
        }
        Step::Compact(snapshots) => disk.compact(snapshots.clone()),
    }
}

/// A disk on which a start does not find everything, and nobody knows: the control of the enumeration.
pub(super) struct Forgetful {
    pub(super) inner: Box<dyn Storage>,
    pub(super) edit: Edit,
}

impl Storage for Forgetful {
    fn open(&mut self) -> Result<Vec<LaneLog>, Unrecoverable> {
        let mut logs = self.inner.open()?;
        (self.edit)(&mut logs);
        Ok(logs)
    }
    fn reserve(&mut self, lane: u8) -> Lsn {
        self.inner.reserve(lane)
    }
    fn write(&mut self, lane: u8, lsn: Lsn, what: Written) {
        self.inner.write(lane, lsn, what);
    }
    fn compact(&mut self, snapshots: Vec<Vec<(Keep, Bytes)>>) {
        self.inner.compact(snapshots);
    }
    fn readmit(&mut self, lane: u8) {
        self.inner.readmit(lane);
    }
    fn begin(&mut self) -> bool {
        self.inner.begin()
    }
    fn commit(&mut self) -> Result<Vec<(u8, Lsn)>, WriteFailed> {
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
