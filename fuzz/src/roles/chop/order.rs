//! An order that the target writes: entries stand in a list that outlives restarts.

use std::sync::{Arc, Mutex};

use synod_machine::broadcast::{Checkpoint, Delivered, Entry, Origin, Position, Submit};
use synod_machine::{
    Bounded, Event, Log, Machine, Never, QueueSpec, Recover, Span, Turn, Unrecoverable, Wall,
};
use synod_quorum::NodeId;
use synod_wire::{Blob, Bytes};

/// How often the list is looked at.
const EVERY: Span = Span::millis(20);

/// The list of entries, by position from 1 on.
#[derive(Clone, Debug, Default)]
pub(super) struct List(Arc<Mutex<Vec<Bytes>>>);

impl List {
    /// Orders a payload.
    pub(super) fn push(&self, payload: Bytes) {
        if let Ok(mut list) = self.0.lock() {
            list.push(payload);
        }
    }

    fn get(&self, position: u64) -> Option<Bytes> {
        let at = usize::try_from(position).ok()?.checked_sub(1)?;
        self.0.lock().ok()?.get(at).cloned()
    }
}

/// Delivers the list.
pub(super) struct Listed {
    list: List,
    delivered: u64,
}

impl Listed {
    fn deliver(&mut self, turn: &mut Turn<'_, Self>) {
        while let Some(payload) = self.list.get(self.delivered + 1) {
            self.delivered += 1;
            turn.output(Delivered::Entry(Entry {
                position: Position(self.delivered),
                time: Wall(self.delivered * 10),
                last: true,
                origin: Origin::Member(NodeId(0)),
                payload,
                proof: None,
            }));
        }
    }
}

impl Machine for Listed {
    type Input = Submit;
    type Message = Never;
    type Timer = u8;
    type Record = Never;
    type Job = Never;
    type Output = Delivered;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Input(Submit::Payload { payload, .. }) => {
                self.list.push(payload);
                self.deliver(turn);
            }
            Event::Input(Submit::Applied { position, root: Some(root) }) => {
                let certificate = Blob::default();
                turn.output(Delivered::Stable(Checkpoint { position, root, certificate }));
            }
            Event::Start | Event::Timer(_) => {
                self.deliver(turn);
                turn.arm(0, EVERY);
            }
            _ => {}
        }
    }
}

impl Bounded for Listed {
    fn bytes(&self) -> u64 {
        0
    }
    fn bytes_max(&self) -> u64 {
        0
    }
}

impl Recover for Listed {
    type Config = (Position, List);

    fn queues(_: &Self::Config) -> Vec<QueueSpec> {
        QueueSpec::standard()
    }

    fn recover((resume, list): Self::Config, _: Log<'_, Never>) -> Result<Self, Unrecoverable> {
        Ok(Self { list, delivered: resume.0 })
    }

    fn snapshot(&self, _: &mut dyn FnMut(Never)) {}
}
