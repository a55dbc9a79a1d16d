//! J-S3: a process whose journal failed sends nothing, on records and on blocks, and one that does is caught.

use synod_crypto::Hash;
use synod_machine::host::{LaneLog, Lsn};
use synod_machine::{Condition, Keep, Span, Time, Unrecoverable};
use synod_quorum::{NodeId, NodeSet};
use synod_sim::{
    BlockJournal, Family, Harm, Incident, Loss, Lost, RecordJournal, Setup, Storage, Stream, Violation,
    World, WriteFailed, Written,
};
use synod_wire::Bytes;

use crate::probe::{Do, Said, calm, said, setup, tell};

/// A journal that hears of its failures and goes on.
struct Careless(RecordJournal);

impl Storage for Careless {
    fn open(&mut self) -> Result<Vec<LaneLog>, Unrecoverable> {
        self.0.open()
    }
    fn reserve(&mut self, lane: u8) -> Lsn {
        self.0.reserve(lane)
    }
    fn write(&mut self, lane: u8, lsn: Lsn, what: Written) {
        self.0.write(lane, lsn, what);
    }
    fn compact(&mut self, snapshots: Vec<Vec<(Keep, Bytes)>>) {
        self.0.compact(snapshots);
    }
    fn readmit(&mut self, lane: u8) {
        self.0.readmit(lane);
    }
    fn begin(&mut self) -> bool {
        self.0.begin()
    }
    fn commit(&mut self) -> Result<Vec<(u8, Lsn)>, WriteFailed> {
        Ok(self.0.commit().unwrap_or_else(|_| vec![(0, Lsn::MAX)]))
    }
    fn read(&mut self, lane: u8, name: Hash) -> Option<Bytes> {
        self.0.read(lane, name)
    }
    fn failed(&self) -> bool {
        self.0.failed()
    }
    fn crash(&mut self, loss: Loss, stream: &mut Stream) -> Lost {
        self.0.crash(loss, stream)
    }
    fn harm(&mut self, harm: Harm) -> bool {
        self.0.harm(harm)
    }
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }
}

/// Two probes; the first one's next sync, or next write, fails. It then keeps a number and sends it.
fn promised(disks: fn(NodeId, usize) -> Box<dyn Storage>, family: Family) -> Result<World, Violation> {
    let mut world = World::new(Setup { disks: Box::new(disks), ..setup(2, &[0], calm(3)) });
    let (at, lasts) = (Span::millis(60), Span::millis(10));
    world.load(&[Incident { id: 1, family, at, lasts, nodes: vec![0], amount: 0 }]);
    world.run(Time(Span::millis(70).0), &mut ())?;
    let to = NodeSet::first(2).without(NodeId(0));
    tell(&mut world, 0, vec![Do::Persist(7), Do::Send(to, 7)]);
    let until = world.now() + Span::millis(5);
    world.run(until, &mut ())?;
    Ok(world)
}

#[test]
fn who_goes_on_after_a_failed_sync_is_caught_when_it_sends() {
    for family in [Family::DiskSyncFail, Family::DiskFull] {
        let careless = |_, lanes| -> Box<dyn Storage> { Box::new(Careless(RecordJournal::new(lanes))) };
        let violation = promised(careless, family).err().expect("the checker fires");
        assert_eq!((violation.checker.as_str(), violation.node), ("J-S3", Some(NodeId(0))));
    }
}

#[test]
fn a_failed_sync_takes_what_it_covered_and_the_process_with_it() {
    let records = |_, lanes| -> Box<dyn Storage> { Box::new(RecordJournal::new(lanes)) };
    let blocks = |node, lanes| -> Box<dyn Storage> { Box::new(BlockJournal::new(node, lanes)) };
    for disks in [records as fn(NodeId, usize) -> Box<dyn Storage>, blocks] {
        let mut world = promised(disks, Family::DiskSyncFail).expect("a process that ends is correct");
        assert_eq!(world.stats().crashes, 1);
        let all = said(&mut world, Span::millis(100));
        assert!(
            all.iter()
                .any(|(node, _, said)| *node == 0 && matches!(said, Said::Started(Condition::Clean, _)))
        );
        assert!(!all.iter().any(|(_, _, said)| matches!(said, Said::Heard(..))), "nothing was sent");
    }
}
