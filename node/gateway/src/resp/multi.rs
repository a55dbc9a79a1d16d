//! MULTI, EXEC and WATCH: commands collected into one operation with the versions it depends on.

use bytes::{BufMut, Bytes, BytesMut};
use synod_kv::{COMMANDS_MAX, OPERATION_BYTES_MAX, Verb, WATCHED_MAX, operation};
use synod_redis_adapter::Command;

use crate::resp::{parser::Arguments, render::end_of_value};

/// Bytes kept free in a transaction for its counts.
const FRAME_BYTES: usize = 64;

/// A transaction being collected.
#[derive(Debug, Default)]
pub(crate) struct Multi {
    /// Bodies of the data commands.
    bodies: Vec<u8>,
    data: usize,
    /// For each command, its reply if it is known already.
    replies: Vec<Option<Vec<u8>>>,
    local_bytes: usize,
    /// Commands for a replicated server, and their bytes.
    commands: Vec<Command>,
    command_bytes: usize,
    /// Whether a command was refused, so that EXEC must refuse.
    pub(crate) broken: bool,
}

impl Multi {
    /// Queues a data command; false when the transaction would be too large.
    pub(crate) fn queue(&mut self, verb: Verb, arguments: &Arguments<'_>, watched_bytes: usize) -> bool {
        let before = self.bodies.len();
        operation::write_body(verb, arguments.from(1), &mut self.bodies);
        let fits = self.replies.len() < COMMANDS_MAX
            && self.bytes() + watched_bytes + FRAME_BYTES <= OPERATION_BYTES_MAX;
        if fits {
            self.data += 1;
            self.replies.push(None);
        } else {
            self.bodies.truncate(before);
        }
        fits
    }

    /// Queues a command for a replicated server, of at most `most`; false when the transaction would be too large.
    pub(crate) fn queue_foreign(&mut self, command: Command, bytes: usize, most: usize) -> bool {
        let fits = self.commands.len() < most && self.bytes() + bytes + FRAME_BYTES <= OPERATION_BYTES_MAX;
        if fits {
            self.command_bytes += bytes;
            self.commands.push(command);
            self.replies.push(None);
        }
        fits
    }

    /// Queues a command whose reply is known; false when the transaction would be too large.
    pub(crate) fn queue_local(&mut self, reply: Vec<u8>, watched_bytes: usize) -> bool {
        let fits = self.replies.len() < COMMANDS_MAX
            && self.bytes() + reply.len() + watched_bytes + FRAME_BYTES <= OPERATION_BYTES_MAX;
        if fits {
            self.local_bytes += reply.len();
            self.replies.push(Some(reply));
        }
        fits
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.bodies.len() + self.local_bytes + self.command_bytes
    }

    /// Whether nothing must be ordered.
    pub(crate) fn is_local(&self) -> bool {
        self.data == 0 && self.commands.is_empty()
    }

    /// The commands for a replicated server, and the replies that are known.
    pub(crate) fn foreign(self) -> (Vec<Command>, Vec<Option<Vec<u8>>>) {
        (self.commands, self.replies)
    }

    /// The operation, and the replies that are known.
    pub(crate) fn finish(self, watches: &Watches) -> (Vec<u8>, Vec<Option<Vec<u8>>>) {
        let mut out = Vec::with_capacity(self.bodies.len() + watches.bytes + FRAME_BYTES);
        operation::write_transaction(watches.iter(), self.data, &self.bodies, &mut out);
        (out, self.replies)
    }

    /// The reply of a transaction that needs nothing ordered.
    pub(crate) fn local_reply(self) -> Vec<u8> {
        let mut out = format!("*{}\r\n", self.replies.len()).into_bytes();
        self.replies.into_iter().flatten().for_each(|reply| out.extend_from_slice(&reply));
        out
    }
}

/// Puts the known replies between the results; `None` when the results do not fit.
pub(crate) fn weave(results: &Bytes, known: Vec<Option<Vec<u8>>>) -> Option<Bytes> {
    if known.iter().all(Option::is_none) || !results.starts_with(b"*") {
        return Some(results.clone());
    }
    let end = results.iter().position(|byte| *byte == b'\n')? + 1;
    let mut rest = results.slice(end..);
    let mut out = BytesMut::new();
    out.put_slice(format!("*{}\r\n", known.len()).as_bytes());
    for reply in known {
        match reply {
            Some(reply) => out.put_slice(&reply),
            None => {
                let result = rest.split_to(end_of_value(&rest)?);
                out.put_slice(&result);
            }
        }
    }
    rest.is_empty().then(|| out.freeze())
}

/// Watched keys with their versions.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    keys: Vec<(Bytes, u64)>,
    bytes: usize,
    /// Whether versions could not be read, so that EXEC must refuse.
    pub(crate) failed: bool,
}

impl Watches {
    /// Whether `count` more keys of together `bytes` may be watched.
    pub(crate) fn fits(&self, count: usize, bytes: usize) -> bool {
        self.keys.len() + count <= WATCHED_MAX && self.bytes + bytes + 16 * count <= OPERATION_BYTES_MAX / 2
    }

    /// Watches a key; one that is watched keeps its first version.
    pub(crate) fn add(&mut self, key: Bytes, version: u64) {
        if self.keys.iter().all(|(other, _)| *other != key) {
            self.bytes += key.len() + 16;
            self.keys.push((key, version));
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Bytes that the keys take in an operation, from above.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    fn iter(&self) -> impl ExactSizeIterator<Item = operation::Watched<'_>> {
        self.keys.iter().map(|(key, version)| operation::Watched { key, version: *version })
    }
}

/// Reads the versions that answer a WATCH of `count` keys.
pub(crate) fn versions(reply: &Bytes, count: usize) -> Option<Vec<u64>> {
    let synod_kv::Reply::Array(items) = synod_kv::Reply::decode(reply)? else { return None };
    let versions = items.iter().map(|item| match item {
        synod_kv::Reply::Integer(version) => u64::try_from(*version).ok(),
        _ => None,
    });
    let versions: Vec<u64> = versions.collect::<Option<_>>()?;
    (versions.len() == count).then_some(versions)
}
