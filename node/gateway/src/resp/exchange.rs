//! What a connection and its gateway say to each other: settings and time in, operations out, results in.

use bytes::Bytes;
use synod_crypto::Hash;
use synod_kv::Reply;

use crate::resp::{
    Limits,
    local::{error, shown},
    replies::Slot,
};

/// Whose word the answers are (docs/trust.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The node that this gateway is part of.
    Gateway,
    /// A quorum: every answer was checked by the proxy.
    Verified,
}

/// Whose commands a gateway takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Store {
    /// The key-value store's.
    #[default]
    Keys,
    /// Those of a Redis server that is replicated as it is.
    Redis,
}

/// What all connections of a gateway share.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whose commands are taken.
    pub store: Store,
    /// Limits of each connection.
    pub limits: Limits,
    /// BLAKE3 of the password; `None` asks for none.
    pub password: Option<Hash>,
    /// What INFO says about trust.
    pub trust: Trust,
    /// Synod's version, for INFO.
    pub version: String,
    /// The listening port, for INFO.
    pub port: u16,
}

/// The time at which something happens, sampled by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// A clock that never goes back, in ms.
    pub monotonic_ms: u64,
    /// Unix time in microseconds, for TIME.
    pub wall_us: u64,
}

/// An operation to be performed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Where its reply belongs.
    pub slot: Slot,
    /// The operation, encoded for the store.
    pub operation: Bytes,
    /// Whether it must be ordered; otherwise it is a read, and a quorum read will do.
    pub ordered: bool,
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The store's reply.
    Reply(Bytes),
    /// Over a budget; nothing was sent.
    Busy {
        /// When to try again, in ms from now.
        retry_ms: u64,
    },
    /// Too few members answer; nothing was sent.
    NoQuorum,
    /// The deadline passed; the operation may still take effect.
    Unknown {
        /// The request's id, to be asked for later.
        id: String,
    },
    /// Refused for another reason; it will not take effect.
    Refused {
        /// The SYN code.
        code: u16,
        /// What it says.
        text: String,
    },
}

impl Answer {
    /// The canonical reply that says so.
    pub(crate) fn into_reply(self) -> Bytes {
        let text = match self {
            Self::Reply(reply) => return reply,
            Self::Busy { retry_ms } => format!("TRYAGAIN SYN-3402 retry-ms={retry_ms}"),
            Self::NoQuorum => "CLUSTERDOWN SYN-3401 too few members answer".to_owned(),
            Self::Unknown { id } => format!("UNKNOWN SYN-3501 id={}", shown(id.as_bytes())),
            Self::Refused { code, text } => format!("ERR SYN-{code} {}", shown(text.as_bytes())),
        };
        encode(&error(text))
    }
}

/// Why a connection should be closed although it owes replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overdue {
    /// One command took too long to arrive.
    Command,
    /// Replies were not read for too long.
    Output,
}

/// The canonical bytes of a reply.
pub(crate) fn encode(reply: &Reply) -> Bytes {
    let mut out = Vec::new();
    reply.write(&mut out);
    Bytes::from(out)
}
