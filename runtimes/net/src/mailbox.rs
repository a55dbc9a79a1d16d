//! What other threads say to a reactor: inputs, answers, frames, and the wake-up that goes with them.
//!
//! *Bounds.* Inputs from outside are counted against the machine's room and `inputs_max` and refused beyond; answers
//! are as many as were asked for; frames for a machine of another reactor are at most 256 under way; what connectors
//! deliver pauses its source above 1,024, and so do 8,192 sends of another reactor. One lock is taken per push and one per wake-up; nothing is called under it.

use core::any::Any;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use synod_crypto::Hash;
use synod_machine::host::{ErasedDone, Frame, Lsn};
use synod_machine::{Link, Queue, To};
use synod_quorum::NodeId;
use synod_wire::Bytes;
use tokio::sync::Notify;

use crate::handshake::Established;
use crate::reactor::Wrong;
use crate::{Brake, Busy};

/// Frames under way to a machine of another reactor.
pub(crate) const FRAMES_UNDER_WAY: u32 = 256;
/// Inputs that wait for a machine before the machines that feed it pause.
pub(crate) const INPUTS_HIGH: u32 = 1_024;

/// Sends under way to reactor 0 before the machines that send pause.
pub(crate) const SENDS_HIGH: u32 = 8_192;

/// One message to a reactor.
pub(crate) enum Mail {
    Input { machine: u8, input: Box<dyn Any + Send> },
    Frame { machine: u8, frame: Frame },
    Link { peer: NodeId, link: Link },
    Send { machine: u8, to: To, queue: Queue, body: Bytes },
    Done { machine: u8, done: Vec<ErasedDone> },
    Loaded { machine: u8, name: Hash, bytes: Option<Bytes> },
    Snapshot { machine: u8 },
    Readmit { machine: u8 },
    Strike { peer: NodeId, wrong: Wrong },
    Joined(Box<Established>),
    Stop,
}

/// The way into one reactor.
#[derive(Default)]
pub(crate) struct Mailbox {
    mail: Mutex<Vec<Mail>>,
    pub(crate) bell: Arc<Notify>,
    waiting: AtomicBool,
    /// Sends of other reactors under way to this one.
    pub(crate) sends: AtomicU32,
}

impl Mailbox {
    pub(crate) fn push(&self, mail: Mail) {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner).push(mail);
        self.ring();
    }

    /// Wakes the reactor, which then looks at everything.
    pub(crate) fn ring(&self) {
        if !self.waiting.swap(true, Ordering::AcqRel) {
            self.bell.notify_one();
        }
    }

    /// Swaps the waiting mail into `into`, which is empty.
    pub(crate) fn take(&self, into: &mut Vec<Mail>) {
        assert!(into.is_empty(), "earlier mail was handled");
        self.waiting.store(false, Ordering::Release);
        core::mem::swap(&mut *self.mail.lock().unwrap_or_else(PoisonError::into_inner), into);
    }
}

/// What others know about a machine without asking its reactor.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    /// Inputs it takes now.
    pub(crate) room: AtomicU32,
    /// Inputs that wait for it.
    pub(crate) inputs: AtomicU32,
    /// Frames under way to it from another reactor.
    pub(crate) frames: AtomicU32,
    /// Bytes it holds, sampled each second.
    pub(crate) bytes: AtomicU64,
    /// Its formula's value.
    pub(crate) bytes_max: AtomicU64,
}

/// Where a machine lives.
#[derive(Clone)]
pub(crate) struct Home {
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) gauge: Arc<Gauge>,
}

/// Every machine of the node, and every reactor.
pub(crate) struct Exchange {
    pub(crate) machines: BTreeMap<u8, Home>,
    pub(crate) mailboxes: Vec<Arc<Mailbox>>,
    pub(crate) inputs_max: u32,
    /// Nothing leaves any more.
    pub(crate) brake: Brake,
}

impl Exchange {
    /// Offers an input from outside.
    pub(crate) fn offer(
        &self,
        machine: u8,
        input: Box<dyn Any + Send>,
    ) -> Result<(), Busy<Box<dyn Any + Send>>> {
        let Some(home) = self.machines.get(&machine) else { return Err(Busy(input)) };
        let room = home.gauge.room.load(Ordering::Relaxed).min(self.inputs_max);
        if home.gauge.inputs.fetch_add(1, Ordering::Relaxed) >= room {
            home.gauge.inputs.fetch_sub(1, Ordering::Relaxed);
            return Err(Busy(input));
        }
        home.mailbox.push(Mail::Input { machine, input });
        Ok(())
    }

    /// Whether the machines that feed `machine` must pause.
    pub(crate) fn congested(&self, machine: u8) -> bool {
        self.machines
            .get(&machine)
            .is_some_and(|home| home.gauge.inputs.load(Ordering::Relaxed) > INPUTS_HIGH)
    }

    pub(crate) fn is_halted(&self) -> bool {
        self.brake.is_pulled()
    }

    /// Stops every reactor; whether this was the first call.
    pub(crate) fn halt(&self) -> bool {
        let first = self.brake.pull();
        self.mailboxes.iter().for_each(|mailbox| mailbox.ring());
        first
    }
}

/// The newest durable place of a lane, as its journal reports it.
#[derive(Debug, Default)]
pub(crate) struct Durable(AtomicU64);

impl Durable {
    pub(crate) fn raise(&self, lsn: Lsn) {
        self.0.fetch_max(lsn, Ordering::AcqRel);
    }

    pub(crate) fn get(&self) -> Lsn {
        self.0.load(Ordering::Acquire)
    }
}
