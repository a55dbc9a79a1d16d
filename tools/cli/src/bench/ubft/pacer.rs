//! Says when the next request of an open loop is due: a machine beside the client's, at the same poller.

use synod_machine::{Bounded, Event, Log, Machine, Never, QueueSpec, Recover, Span, Turn, Unrecoverable};

/// Waits.
pub(super) struct Pacer;

/// Tell it after so long; what was asked before is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait(pub(super) Span);

/// It is time to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due;

impl Machine for Pacer {
    type Input = Wait;
    type Message = Never;
    type Timer = u8;
    type Record = Never;
    type Job = Never;
    type Output = Due;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Input(Wait(span)) => turn.arm(0, span),
            Event::Timer(_) => turn.output(Due),
            _ => {}
        }
    }
}

impl Bounded for Pacer {
    fn bytes(&self) -> u64 {
        0
    }

    fn bytes_max(&self) -> u64 {
        0
    }
}

impl Recover for Pacer {
    type Config = ();

    fn queues((): &()) -> Vec<QueueSpec> {
        Vec::new()
    }

    fn recover((): (), _: Log<'_, Never>) -> Result<Self, Unrecoverable> {
        Ok(Self)
    }

    fn snapshot(&self, _: &mut dyn FnMut(Never)) {}
}
