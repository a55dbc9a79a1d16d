//! What can come up in virtual time, and the heap it waits in.

use core::any::Any;

use synod_crypto::Hash;
use synod_machine::Link;
use synod_machine::host::{ErasedDone, Lsn};
use synod_quorum::NodeId;
use synod_wire::Bytes;

use crate::deed::Deed;
use crate::network::{NetEvent, Parcel};
use crate::schedule::Schedule;

/// Something for one machine of a node that is alive.
pub(crate) enum Work {
    Start,
    Input { value: Box<dyn Any + Send>, external: bool },
    Frame(Parcel),
    Tick,
    Done(ErasedDone),
    Loaded { name: Hash, bytes: Option<Bytes> },
    Link { peer: NodeId, link: Link },
    Durable(Lsn),
}

/// Something in virtual time. `life` tells events of a node's former lives apart.
pub(crate) enum Happening {
    Net(NetEvent),
    Work { place: u32, life: u32, slot: u8, work: Work },
    Tick { place: u32, life: u32, slot: u8 },
    Synced { place: u32, life: u32 },
    Jobs { place: u32, life: u32, slot: u8, dones: Vec<(u64, ErasedDone)> },
    Resume { place: u32 },
    Start { place: u32 },
    CrashDue { place: u32, life: u32 },
    Strategy { place: u32, slot: u8, by: Option<&'static str>, deed: Deed },
    Incident { index: u32, step: u32 },
    Input { place: u32, machine: u8, value: Box<dyn Any + Send> },
    Wake(u64),
}

/// The heap of everything that will happen, each with the number of the event that caused it.
pub(crate) struct Plan(Schedule<(u64, Happening)>);

impl Plan {
    pub(crate) const fn new() -> Self {
        Self(Schedule::new())
    }

    pub(crate) fn push(&mut self, at: u64, tie: u32, cause: u64, what: Happening) {
        self.0.push(at, tie, (cause, what));
    }

    pub(crate) fn net(&mut self, at: u64, tie: u32, cause: u64, event: NetEvent) {
        self.0.push(at, tie, (cause, Happening::Net(event)));
    }

    pub(crate) fn next(&self) -> Option<u64> {
        self.0.next()
    }

    pub(crate) fn pop(&mut self) -> Option<(u64, u64, Happening)> {
        self.0.pop().map(|(at, (cause, what))| (at, cause, what))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
