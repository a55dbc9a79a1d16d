//! The memory nodes of a machine, whose registers are written and read in place.

use std::sync::Arc;

use synod_machine::register::{Region, RegisterOp, RegisterReply};
use synod_quorum::{Epoch, NodeId};

use crate::map::{Shown, Written};
use crate::poll::{Clock, Progress};
use crate::registers::Registers;

/// What became of a memory node, as one machine reaches it.
pub enum Memory {
    /// Its registers, under a boot number; those of an earlier boot are let go of.
    Joined(Box<Registers<Arc<Written>, Shown>>),
    /// The own region of an epoch.
    Own(Epoch, Arc<Written>),
    /// Another member's region.
    Shown(Region, Shown),
    /// Epochs below are over.
    Retired(Epoch),
    /// It stopped: it answers nothing.
    Gone,
}

/// The memory nodes of one machine.
#[derive(Default)]
pub(crate) struct Memories {
    all: Vec<(NodeId, Registers<Arc<Written>, Shown>)>,
}

impl Memories {
    fn get_mut(&mut self, node: NodeId) -> Option<&mut Registers<Arc<Written>, Shown>> {
        self.all.iter_mut().find(|(own, _)| *own == node).map(|(_, registers)| registers)
    }

    /// Takes an operation. A memory node that is not there answers nothing, as one that stopped; one that has too much
    /// to do is asked again by whoever asks.
    #[inline]
    pub(crate) fn begin(&mut self, node: NodeId, op: &RegisterOp) {
        if let Some(registers) = self.get_mut(node) {
            let begun = registers.begin(*op);
            tracing::trace!(%node, begun, "a register operation");
        }
    }

    /// Takes what became of a memory node; false when it does not fit what is there.
    pub(crate) fn change(&mut self, node: NodeId, memory: Memory) -> bool {
        match memory {
            Memory::Joined(registers) => {
                self.all.retain(|(own, _)| *own != node);
                self.all.push((node, *registers));
                true
            }
            Memory::Own(epoch, words) => self.get_mut(node).is_some_and(|at| at.own(epoch, words)),
            Memory::Shown(region, words) => self.get_mut(node).is_some_and(|at| at.show(region, words)),
            Memory::Retired(oldest) => {
                if let Some(registers) = self.get_mut(node) {
                    registers.retire(oldest);
                }
                true
            }
            Memory::Gone => {
                self.all.retain(|(own, _)| *own != node);
                true
            }
        }
    }

    /// Does what can be done, and hands the answers to `answer`.
    #[inline]
    pub(crate) fn tick(
        &mut self,
        clock: &impl Clock,
        answer: &mut dyn FnMut(NodeId, RegisterReply),
    ) -> Progress {
        let mut progress = Progress::Idle { next_timer: None };
        for (node, registers) in &mut self.all {
            if registers.waiting() > 0 {
                progress = progress.and(registers.tick(clock, &mut |reply| answer(*node, reply)));
            }
        }
        progress
    }
}
