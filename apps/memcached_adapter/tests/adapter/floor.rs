//! An adapter that is asked slots.

use synod_crypto::Hash;
use synod_memcached_adapter::{Adapter, Config};
use synod_service::{App, At, Position, Replies, Request, Wall};
use synod_wire::Bytes;

use crate::model::Model;

pub(crate) struct Floor {
    pub(crate) adapter: Adapter<Model>,
    pub(crate) position: u64,
    pub(crate) time: u64,
}

impl Floor {
    pub(crate) fn new() -> Self {
        Self::within(Config::default())
    }

    pub(crate) fn within(config: Config) -> Self {
        // Times beyond thirty days of seconds are dates, so the tests begin behind them.
        Self { adapter: Adapter::new(config, Model::default()), position: 0, time: 10_000_000_000 }
    }

    pub(crate) fn slot(&mut self, bodies: &[Bytes]) -> Vec<Bytes> {
        self.position += 1;
        let at = At { position: Position(self.position), time: Wall(self.time), draw: Hash::ZERO };
        let mut replies = Replies::default();
        let requests = (1..).zip(bodies).map(|(sequence, body)| Request { session: 1, sequence, body });
        self.adapter.execute(&at, &mut { requests }, &mut replies);
        self.adapter.invariants();
        let replies: Vec<Bytes> = replies.drain().collect();
        assert_eq!(replies.len(), bodies.len(), "one reply per request");
        replies
    }

    /// The reply to a command whose lines are cut by `|`.
    pub(crate) fn text(&mut self, text: &str) -> String {
        let reply = self.slot(&[body(text)]).remove(0);
        assert!(reply.ends_with(b"\r\n"), "{reply:?}");
        String::from_utf8_lossy(&reply[..reply.len() - 2]).replace("\r\n", "|")
    }
}

pub(crate) fn body(text: &str) -> Bytes {
    Bytes::from(format!("{}\r\n", text.replace('|', "\r\n")).into_bytes())
}
