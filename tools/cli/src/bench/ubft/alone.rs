//! One server without replicas, in the words of uBFT's clients, and the client that believes it.

use std::collections::BTreeSet;

use synod_machine::{Bounded, Event, Log, Machine, Never, QueueSpec, Recover, Turn, Unrecoverable, Wall};
use synod_quorum::NodeId;
use synod_service::{App, At, Position, Replies, Request};
use synod_ubft::client::{Input, Output};
use synod_ubft::message::{Message, Replied};
use synod_wire::Bytes;

use super::plan::CLOSED_MAX;

/// What both are made of.
pub(super) struct Speaks {
    /// The queues of a replica and of its client.
    pub(super) queues: Vec<QueueSpec>,
}

/// Executes what it is asked, in the order in which it comes.
pub(super) struct Alone {
    app: Box<dyn App>,
    replies: Replies,
    position: u64,
}

/// Asks the server.
pub(super) struct Asker {
    /// Requests that wait, at most as many as a session may have.
    waiting: BTreeSet<u64>,
}

/// The one session.
const SESSION: u64 = 128;

impl Machine for Alone {
    type Input = Never;
    type Message = Message;
    type Timer = u8;
    type Record = Never;
    type Job = Never;
    type Output = Never;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        let Event::Message { from, message: Message::Ask { session, id, op, .. } } = event else { return };
        self.position += 1;
        let at = At {
            position: Position(self.position),
            time: Wall(turn.wall().0),
            draw: synod_crypto::Hash::ZERO,
        };
        let op = op.into_bytes();
        let request = Request { session, sequence: id, body: &op };
        self.app.execute(&at, &mut [request].into_iter(), &mut self.replies);
        for reply in self.replies.drain() {
            if let Ok(reply) = reply.try_into() {
                let result = Replied::Full(reply);
                turn.send(from, Message::Reply { session, id, result, is_slow: false });
            }
        }
    }
}

impl Machine for Asker {
    type Input = Input;
    type Message = Message;
    type Timer = u8;
    type Record = Never;
    type Job = Never;
    type Output = Output;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Link { peer: NodeId(0), link: synod_machine::Link::Up } => {
                turn.output(Output::Ready(SESSION))
            }
            Event::Input(Input::Call { ticket, op }) => {
                self.waiting.insert(ticket);
                let asked = op.try_into().map(|op| Message::Ask {
                    session: SESSION,
                    id: ticket,
                    op,
                    signature: None,
                });
                match asked {
                    Ok(message) => turn.send(NodeId(0), message),
                    Err(_) => {
                        self.waiting.remove(&ticket);
                        turn.output(Output::Refused { ticket });
                    }
                }
            }
            Event::Message { message: Message::Reply { id, result: Replied::Full(result), .. }, .. }
                if self.waiting.remove(&id) =>
            {
                let result: Bytes = result.into_bytes();
                turn.output(Output::Done { ticket: id, result });
            }
            _ => {}
        }
    }

    fn room(&self) -> u32 {
        CLOSED_MAX.saturating_sub(u32::try_from(self.waiting.len()).unwrap_or(u32::MAX))
    }
}

macro_rules! without_records {
    ($machine:ty) => {
        impl Bounded for $machine {
            fn bytes(&self) -> u64 {
                0
            }
            fn bytes_max(&self) -> u64 {
                0
            }
        }
    };
}

without_records!(Alone);
without_records!(Asker);

impl Recover for Alone {
    type Config = (Speaks, Box<dyn Fn() -> Box<dyn App> + Send>);

    fn queues(config: &Self::Config) -> Vec<QueueSpec> {
        config.0.queues.clone()
    }

    fn recover(config: Self::Config, _: Log<'_, Never>) -> Result<Self, Unrecoverable> {
        Ok(Self { app: (config.1)(), replies: Replies::default(), position: 0 })
    }

    fn snapshot(&self, _: &mut dyn FnMut(Never)) {}
}

impl Recover for Asker {
    type Config = Speaks;

    fn queues(config: &Self::Config) -> Vec<QueueSpec> {
        config.queues.clone()
    }

    fn recover(_: Self::Config, _: Log<'_, Never>) -> Result<Self, Unrecoverable> {
        Ok(Self { waiting: BTreeSet::new() })
    }

    fn snapshot(&self, _: &mut dyn FnMut(Never)) {}
}
