//! The order of a cluster of one: what is submitted is ordered at once.

use synod_crypto::Hash;
use synod_machine::broadcast::{Checkpoint, Delivered, Entry, Origin, Position, Submit};
use synod_machine::{Bounded, Event, Log, Machine, Never, QueueSpec, Recover, Turn, Unrecoverable};
use synod_wire::Blob;

/// Orders for itself.
pub(super) struct Solo {
    last: u64,
}

impl Machine for Solo {
    type Input = Submit;
    type Message = Never;
    type Timer = u8;
    type Record = Never;
    type Job = Never;
    type Output = Delivered;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Input(Submit::Payload { ticket, payload }) => {
                self.last += 1;
                let (position, origin) = (Position(self.last), Origin::Local(ticket));
                let entry = Entry { position, time: turn.wall(), last: true, origin, payload, proof: None };
                turn.output(Delivered::Entry(entry));
            }
            Event::Input(Submit::Applied { position, root }) => {
                let certificate = Blob::default();
                let stable = |root: Hash| Delivered::Stable(Checkpoint { position, root, certificate });
                if let Some(root) = root {
                    turn.output(stable(root));
                }
            }
            Event::Start
            | Event::Timer(_)
            | Event::Input(_)
            | Event::Message { .. }
            | Event::Done(_)
            | Event::Loaded { .. }
            | Event::Link { .. } => {}
        }
    }
}

impl Bounded for Solo {
    fn bytes(&self) -> u64 {
        0
    }
    fn bytes_max(&self) -> u64 {
        0
    }
}

impl Recover for Solo {
    type Config = Position;
    fn queues(_: &Position) -> Vec<QueueSpec> {
        QueueSpec::standard()
    }
    fn recover(resume: Position, _: Log<'_, Never>) -> Result<Self, Unrecoverable> {
        Ok(Self { last: resume.0 })
    }
    fn snapshot(&self, _: &mut dyn FnMut(Never)) {}
}
