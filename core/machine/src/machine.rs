//! The one trait every role of every protocol implements.

use core::fmt::Debug;

use crate::{Event, Job, Message, Record, Turn};

/// One role of one protocol at one node.
pub trait Machine: Sized {
    /// Asked by the local user: propose, broadcast, pay.
    type Input;
    /// Spoken between peers.
    type Message: Message;
    /// A timer's name; arming an armed timer moves it. It carries its view, slot or sequence, so that a stale
    /// firing is harmless.
    type Timer: Copy + Ord + Debug;
    /// A promise that must survive a crash.
    type Record: Record;
    /// Pure work that may run elsewhere.
    type Job: Job;
    /// Told to the local user: delivered, settled, refused.
    type Output;

    /// Takes one event and says its effects.
    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>);

    /// Inputs the machine will take now; beyond it the connector answers `Refused(Busy)`.
    fn room(&self) -> u32 {
        u32::MAX
    }

    /// Asserts what must hold between steps; called after every step in the simulator and in dev builds.
    fn invariants(&self) {}
}

/// A machine whose memory is a formula of its configuration. Both cost O(number of containers).
pub trait Bounded: Machine {
    /// Bytes held now.
    fn bytes(&self) -> u64;
    /// The formula's value; `bytes() <= bytes_max()` always.
    fn bytes_max(&self) -> u64;
}
