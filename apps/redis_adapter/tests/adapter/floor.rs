//! An adapter that is asked slots.

use synod_crypto::Hash;
use synod_redis_adapter::{Adapter, Command, Config, Operation, resp::Reply};
use synod_service::{App, At, Position, Replies, Request, Wall};
use synod_wire::{Bytes, Wire};

use crate::model::Model;

pub(crate) struct Floor {
    pub(crate) adapter: Adapter<Model>,
    pub(crate) position: u64,
    pub(crate) time: u64,
}

pub(crate) fn words(line: &str) -> Vec<&[u8]> {
    line.split(' ').map(str::as_bytes).collect()
}

pub(crate) fn body(line: &str) -> Bytes {
    Operation::One(Command::of(&words(line)).expect("a short command")).encode()
}

impl Floor {
    /// An adapter in front of a model whose order of sets is that of `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self::within(seed, Config::default())
    }

    pub(crate) fn within(seed: u64, config: Config) -> Self {
        Self { adapter: Adapter::new(config, Model::new(seed)), position: 0, time: 1_000_000 }
    }

    /// Executes bodies in one slot.
    pub(crate) fn slot(&mut self, bodies: &[Bytes]) -> Vec<Bytes> {
        self.position += 1;
        let draw = Hash::of(&self.position.to_le_bytes());
        let at = At { position: Position(self.position), time: Wall(self.time), draw };
        let mut replies = Replies::default();
        let requests = (1..).zip(bodies).map(|(sequence, body)| Request { session: 1, sequence, body });
        self.adapter.execute(&at, &mut { requests }, &mut replies);
        self.adapter.invariants();
        let replies: Vec<Bytes> = replies.drain().collect();
        assert_eq!(replies.len(), bodies.len(), "one reply per request");
        replies
    }

    pub(crate) fn ask(&mut self, line: &str) -> Reply {
        let reply = self.slot(&[body(line)]).remove(0);
        let read = Reply::read(&reply).expect("RESP");
        let (decoded, length) = read.expect("a whole reply");
        assert_eq!(length, reply.len(), "one reply");
        decoded
    }

    /// The reply as text: elements between spaces, `nil` for nothing.
    pub(crate) fn text(&mut self, line: &str) -> String {
        shown(&self.ask(line))
    }
}

pub(crate) fn shown(reply: &Reply) -> String {
    match reply {
        Reply::Simple(text) | Reply::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
        Reply::Error(text) => format!("-{}", String::from_utf8_lossy(text)),
        Reply::Integer(number) => number.to_string(),
        Reply::Null => "nil".to_owned(),
        Reply::Array(items) => {
            let items: Vec<String> = items.iter().map(shown).collect();
            format!("[{}]", items.join(" "))
        }
    }
}
