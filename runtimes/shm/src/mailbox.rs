//! What other threads say to a station, and the handle through which the rest of the process speaks to it.
//!
//! *Bounds.* Inputs from outside are counted against the machine's room and [`INPUTS_MAX`] and refused beyond; answers
//! are as many as were asked for; links come one for each hand-over. One lock is taken a push and one a tick that has
//! mail; a tick without mail pays a load.

use core::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use synod_crypto::Hash;
use synod_machine::host::{ErasedDone, Lsn};
use synod_quorum::NodeId;
use synod_wire::Bytes;

use crate::doorbell::Button;
use crate::line::Line;
use crate::station::Memory;

/// Inputs of one machine that wait.
pub const INPUTS_MAX: u32 = 4_096;

/// One message to a station. Slots are places in its list of machines.
pub(crate) enum Mail {
    Input { slot: usize, input: Box<dyn Any + Send> },
    Done { slot: usize, done: Vec<ErasedDone> },
    Loaded { slot: usize, name: Hash, bytes: Option<Bytes> },
    Snapshot { slot: usize },
    Readmit { slot: usize },
    Joined(Box<Line>),
    Memory { slot: usize, node: NodeId, memory: Memory },
    Reset(NodeId),
}

/// What others know about a machine without asking its poller.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    pub(crate) room: AtomicU32,
    /// Inputs that wait for it.
    pub(crate) inputs: AtomicU32,
    /// What its lane has made durable.
    pub(crate) durable: AtomicU64,
}

impl Gauge {
    /// The journal's word, from any thread: lanes only advance.
    pub(crate) fn raise(&self, lsn: Lsn) {
        self.durable.fetch_max(lsn, Ordering::AcqRel);
    }
}

/// The way into one station.
pub(crate) struct Mailbox {
    mail: Mutex<Vec<Mail>>,
    waiting: AtomicBool,
    button: Mutex<Button>,
    pub(crate) gauges: Vec<(u8, Gauge)>,
    /// Nothing leaves any more.
    halted: AtomicBool,
}

impl Mailbox {
    /// The way into a station with these machines, whose poller `button` wakes.
    pub(crate) fn new(machines: impl Iterator<Item = u8>, button: Button) -> Arc<Self> {
        Arc::new(Self {
            mail: Mutex::default(),
            waiting: AtomicBool::new(false),
            button: Mutex::new(button),
            gauges: machines.map(|machine| (machine, Gauge::default())).collect(),
            halted: AtomicBool::new(false),
        })
    }

    pub(crate) fn push(&self, mail: Mail) {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner).push(mail);
        self.ring();
    }

    /// Makes the poller look at everything.
    pub(crate) fn ring(&self) {
        if !self.waiting.swap(true, Ordering::AcqRel) {
            self.button.lock().unwrap_or_else(PoisonError::into_inner).press();
        }
    }

    /// Whether somebody rang since the last time.
    #[inline]
    pub(crate) fn rung(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) && self.waiting.swap(false, Ordering::AcqRel)
    }

    /// Swaps the waiting mail into `into`, which is empty.
    pub(crate) fn take(&self, into: &mut Vec<Mail>) {
        assert!(into.is_empty(), "earlier mail was handled");
        core::mem::swap(&mut *self.mail.lock().unwrap_or_else(PoisonError::into_inner), into);
    }

    /// Stops everything that leaves; whether this call was the first.
    pub(crate) fn halt(&self) -> bool {
        let first = !self.halted.swap(true, Ordering::AcqRel);
        self.ring();
        first
    }

    pub(crate) fn is_halted(&self) -> bool {
        self.halted.load(Ordering::Acquire)
    }

    fn slot(&self, machine: u8) -> Option<(usize, &Gauge)> {
        let at = self.gauges.iter().position(|(number, _)| *number == machine)?;
        self.gauges.get(at).map(|(_, gauge)| (at, gauge))
    }
}

/// The machine had no room for the input, which comes back.
#[derive(Debug)]
pub struct Busy<I>(pub I);

/// Speaks to a station from any thread; cheap to copy.
#[derive(Clone)]
pub struct Handle(pub(crate) Arc<Mailbox>);

impl Handle {
    /// Offers an input to a machine; it must be of the machine's input type.
    ///
    /// # Errors
    /// [`Busy`] gives the input back when the machine has no room, or there is no such machine.
    pub fn input<I: Any + Send>(&self, machine: u8, input: I) -> Result<(), Busy<I>> {
        let Some((slot, gauge)) = self.0.slot(machine) else { return Err(Busy(input)) };
        let room = gauge.room.load(Ordering::Relaxed).min(INPUTS_MAX);
        let taken = gauge.inputs.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |waiting| {
            (waiting < room).then_some(waiting + 1)
        });
        if taken.is_err() || self.0.is_halted() {
            return Err(Busy(input));
        }
        self.0.push(Mail::Input { slot, input: Box::new(input) });
        Ok(())
    }

    /// Inputs `machine` would take now; 0 for an unknown machine.
    #[must_use]
    pub fn room(&self, machine: u8) -> u32 {
        self.0.slot(machine).map_or(0, |(_, gauge)| {
            let room = gauge.room.load(Ordering::Relaxed).min(INPUTS_MAX);
            room.saturating_sub(gauge.inputs.load(Ordering::Relaxed))
        })
    }

    /// Tells what became of a memory node, as a machine reaches it. What does not fit what is there is ignored.
    pub fn memory(&self, machine: u8, node: NodeId, memory: Memory) {
        if let Some((slot, _)) = self.0.slot(machine) {
            self.0.push(Mail::Memory { slot, node, memory });
        }
    }

    /// Breaks the link to a peer, which comes up again by itself.
    pub fn reset(&self, peer: NodeId) {
        self.0.push(Mail::Reset(peer));
    }

    /// Says that the machine of a damaged lane has rejoined by its protocol's rule.
    pub fn readmit(&self, machine: u8) {
        if let Some((slot, _)) = self.0.slot(machine) {
            self.0.push(Mail::Readmit { slot });
        }
    }
}
