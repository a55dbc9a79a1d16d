//! The state of one place: its machines, clocks, disk, processor and what waits for them.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};

use synod_crypto::Keys;
use synod_machine::host::Hosted;
use synod_machine::{Cost, QueueSpec, Time};
use synod_quorum::NodeId;

use crate::clock::Clock;
use crate::draw::{Draws, Stream};
use crate::happening::Work;
use crate::storage::{Loss, Storage};

/// What a place is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Running, or paused.
    Up,
    /// Crashed, or not started yet.
    Down,
    /// Stopped by its own judgement or because its log was refused; it never starts again.
    Halted,
}

/// A job that waits for a worker.
pub(super) struct Waiting {
    pub(super) peer: Option<NodeId>,
    pub(super) cost: Cost,
    /// The event that ordered it.
    pub(super) event: u64,
    pub(super) job: Box<dyn Any + Send>,
}

/// One hosted machine and what waits for it.
pub(super) struct Slot {
    pub(super) number: u8,
    pub(super) hosted: Option<Box<dyn Hosted>>,
    pub(super) queues: Vec<QueueSpec>,
    /// Virtual time of the earliest tick on the heap; `u64::MAX` for none.
    pub(super) wake: u64,
    pub(super) ticking: bool,
    /// Frames and inputs that came while the machine was not ready.
    pub(super) frames: VecDeque<(u64, Work)>,
    /// Inputs of connectors that came while it had no room.
    pub(super) inputs: VecDeque<(u64, Work)>,
    pub(super) jobs: VecDeque<Waiting>,
    /// Armed timers by name, for what checkers see, with the event that armed them.
    pub(super) timers: BTreeMap<Box<str>, (Time, u64)>,
    /// The last event that wrote to the journal.
    pub(super) wrote: u64,
    /// The same when the sync that is under way began.
    pub(super) syncing: u64,
}

impl Slot {
    pub(super) const fn new(number: u8) -> Self {
        Self {
            number,
            hosted: None,
            queues: Vec::new(),
            wake: u64::MAX,
            ticking: false,
            frames: VecDeque::new(),
            inputs: VecDeque::new(),
            jobs: VecDeque::new(),
            timers: BTreeMap::new(),
            wrote: 0,
            syncing: 0,
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new(self.number);
    }
}

/// A crash that is waiting for its boundary.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crash {
    /// Recipients and writes still to come before it.
    pub(super) after: u64,
    pub(super) loss: Loss,
    /// Virtual nanoseconds until the restart; `None` stays down.
    pub(super) restart: Option<u64>,
}

/// One running instance of a node.
pub(super) struct Node {
    pub(super) id: NodeId,
    pub(super) twin: u8,
    pub(super) slots: Vec<Slot>,
    pub(super) status: Status,
    pub(super) incarnation: u32,
    pub(super) clock: Clock,
    pub(super) storage: Box<dyn Storage>,
    pub(super) syncing: bool,
    pub(super) keys: Keys,
    /// Whether its disk was tampered with beyond what a correct node survives.
    pub(super) tainted: bool,
    pub(super) strategy: Option<u32>,
    /// Under which strategy all its frames count: twins, and whoever forgot.
    pub(super) mark: Option<&'static str>,
    /// Waits to be started as the second instance of its id.
    pub(super) dormant: bool,
    /// Runs the other release of the program.
    pub(super) other_release: bool,
    /// Its strategy breaks the protocol.
    pub(super) byzantine: bool,
    pub(super) backlog: VecDeque<(u64, u8, Work)>,
    pub(super) busy_until: u64,
    pub(super) paused_until: u64,
    pub(super) resuming: u64,
    pub(super) working: u32,
    pub(super) crash: Option<Crash>,
    /// A write or a sync of this life failed and the process goes on: it must send nothing more.
    pub(super) failed: bool,
    /// Nanoseconds until the restart after a failed write or sync.
    pub(super) write_restart: u64,
    /// Outside the healed core: it starts no more.
    pub(super) frozen: bool,
    /// Recipients and writes since the beginning, over all lives.
    pub(super) boundaries: u64,
    /// Speed of the processor: 100 is normal, 200 takes twice as long.
    pub(super) slow_percent: u64,
    /// Share of reads that come back damaged, in parts per million.
    pub(super) rot: u32,
    /// Longer syncs, in nanoseconds.
    pub(super) sync_extra: u64,
    /// Mean of the extra delay of each job's answer, in nanoseconds.
    pub(super) job_delay: u64,
    pub(super) ties: Stream,
    pub(super) disk: Stream,
    pub(super) lots: Stream,
}

impl Node {
    pub(super) fn new(
        (id, twin, place): (NodeId, u8, u32),
        machines: &[u8],
        storage: Box<dyn Storage>,
        keys: Keys,
        draws: Draws,
    ) -> Self {
        let entity = u64::from(place);
        Self {
            id,
            twin,
            slots: machines.iter().map(|number| Slot::new(*number)).collect(),
            status: Status::Down,
            incarnation: 0,
            clock: Clock::new(),
            storage,
            syncing: false,
            keys,
            tainted: false,
            strategy: None,
            mark: None,
            dormant: false,
            other_release: false,
            byzantine: false,
            backlog: VecDeque::new(),
            busy_until: 0,
            paused_until: 0,
            resuming: 0,
            working: 0,
            crash: None,
            failed: false,
            write_restart: 1_000_000_000,
            frozen: false,
            boundaries: 0,
            slow_percent: 100,
            rot: 0,
            sync_extra: 0,
            job_delay: 0,
            ties: draws.stream("node tie", entity),
            disk: draws.stream("disk", entity),
            lots: draws.stream("node", entity),
        }
    }

    pub(super) const fn honest(&self) -> bool {
        !self.tainted && !self.byzantine
    }

    /// Charges `nanos` of processor time from `now` on.
    pub(super) fn charge(&mut self, now: u64, nanos: u64) {
        self.busy_until = self.busy_until.max(now) + nanos.saturating_mul(self.slow_percent) / 100;
    }

    /// When it can take the next event.
    pub(super) fn free_at(&self) -> u64 {
        self.busy_until.max(self.paused_until)
    }

    pub(super) fn slot_of(&self, machine: u8) -> Option<u8> {
        let at = self.slots.iter().position(|slot| slot.number == machine)?;
        u8::try_from(at).ok()
    }
}
