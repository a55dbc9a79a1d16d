//! Operations on registers, carried as frames between whoever uses registers and the nodes that hold them.
//!
//! A memory node is a seat whose machine speaks bare operations and answers, as the network runtime frames them: a version byte,
//! then the operation. So links delay and lose them, and nodes that hold registers crash, pause and come back like all others.

use synod_machine::host::UNDECODABLE;
use synod_machine::register::{RegisterOp, RegisterReply};
use synod_machine::{Fault, Queue, QueueSpec, To};
use synod_quorum::NodeId;
use synod_wire::{Limits, Wire, Writer};

use super::effects::Outgoing;
use super::run::World;
use crate::checker::Violation;
use crate::network::Parcel;

/// First byte of every operation and answer.
const VERSION: u8 = 1;

fn answer(parcel: &Parcel) -> Option<RegisterReply> {
    let is_known = parcel.body.first() == Some(&VERSION);
    is_known.then(|| RegisterReply::decode(parcel.body.slice(1..), &Limits::default()).ok()).flatten()
}

impl World {
    /// An operation leaves for a memory node.
    pub(super) fn ask_memory(
        &mut self,
        place: u32,
        to: NodeId,
        op: &RegisterOp,
        (cause, touched): (u64, Option<&'static str>),
    ) {
        let Some(memory) = self.memory else {
            let what = "this world has no memory nodes: register operations are not simulated";
            return self.violate(Violation::new("registers", what), None);
        };
        let mut body = Writer::with_capacity(1 + op.size_hint());
        body.byte(VERSION);
        op.write(&mut body);
        let (machine, queue, spec) = (memory.machine, Queue::CONTROL, QueueSpec::CONTROL);
        let out = Outgoing { machine, queue, spec, body: body.freeze(), cause, touched };
        self.send(place, To::Node(to), &out);
    }

    /// The machine that a frame of a memory node's is for. One that is no answer counts against its link.
    pub(super) fn answered_by_memory(&mut self, parcel: &Parcel) -> Option<u8> {
        let memory = self.memory.filter(|memory| memory.machine == parcel.machine)?;
        let slot = self.nodes[parcel.to as usize].slot_of(memory.user)?;
        if answer(parcel).is_none() {
            let body = parcel.body.slice(..parcel.body.len().min(4_096));
            let fault = Fault { code: UNDECODABLE, name: "undecodable_frame", evidence: body };
            let from = self.local(parcel.to, parcel.from);
            self.blamed(parcel.to, from, &fault);
            return None;
        }
        Some(slot)
    }

    /// The answer of a memory node in a frame for this machine, if it is one.
    pub(super) fn reply_in(&self, place: u32, slot: u8, parcel: &Parcel) -> Option<RegisterReply> {
        let memory = self.memory.filter(|memory| memory.machine == parcel.machine)?;
        let number = self.nodes[place as usize].slots[usize::from(slot)].number;
        if number == memory.machine { None } else { answer(parcel) }
    }
}
