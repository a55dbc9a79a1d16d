//! The order of a turn's effects: bodies first, then records, then signatures and what rests on the records.

use synod_crypto::Hash;
use synod_machine::broadcast::Delivered;
use synod_machine::{To, planted};
use synod_wire::Bytes;

use crate::{Message, Record, Statement};

/// Something to write, in order.
#[derive(Clone, Debug)]
pub(crate) enum Kept {
    /// A record.
    Record(Record),
    /// A body.
    Blob(Hash, Bytes),
    /// The release of a body.
    Erase(Hash),
}

/// Something that leaves once everything before it is written.
#[derive(Clone, Debug)]
pub(crate) enum After {
    /// A message.
    Send(To, Message),
    /// An output.
    Output(Delivered),
    /// The journal may be compacted.
    Compact,
}

/// What one turn decided, flushed at its end. Empty between turns, but for a planted bug.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outbox {
    /// Records and blobs, in order; the safety record comes last.
    pub(crate) kept: Vec<Kept>,
    /// Whether a promise was made.
    pub(crate) promised: bool,
    /// Statements to sign.
    pub(crate) sign: Vec<Statement>,
    /// What leaves after.
    pub(crate) after: Vec<After>,
}

impl Outbox {
    /// Writes a record.
    pub(crate) fn keep(&mut self, record: Record) {
        self.kept.push(Kept::Record(record));
    }

    /// The turn's records and blobs, to be written now.
    pub(crate) fn records(&mut self) -> impl Iterator<Item = Kept> {
        let late = planted!(K1) && self.after.iter().any(|after| matches!(after, After::Output(_)));
        self.kept.drain(if late { ..0 } else { ..self.kept.len() })
    }

    /// Sends once the turn's records are written.
    pub(crate) fn send(&mut self, to: impl Into<To>, message: Message) {
        self.after.push(After::Send(to.into(), message));
    }

    /// Outputs once the turn's records are written.
    pub(crate) fn output(&mut self, output: Delivered) {
        self.after.push(After::Output(output));
    }

    /// Signs a promise that the safety record of this turn keeps; once, however often the turn comes to it.
    pub(crate) fn promise(&mut self, statement: Statement) {
        self.promised = true;
        if !self.sign.contains(&statement) {
            self.sign.push(statement);
        }
    }

    /// Whether this flush writes anything.
    pub(crate) fn writes(&self) -> bool {
        !self.kept.is_empty() || self.is_due()
    }

    /// Whether the safety record is due in this flush.
    pub(crate) fn is_due(&self) -> bool {
        self.promised && !(planted!(H8) && !self.sign.is_empty())
    }
}
