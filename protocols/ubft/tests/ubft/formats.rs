//! Formats that replicas and operators rely on.

use synod_ubft::batch::{Auth, Batch, Op, Request, Slot, View};
use synod_ubft::certificate::{Certified, Checkpoint, Committed, Left, Summarized};
use synod_ubft::ctb::{Message, Told, TwoMessages};
use synod_ubft::message::{ClientStatement, Registration, Replied};
use synod_ubft::registers::MemoryWords;
use synod_ubft::replica::{Incarnation, Summary, Want, Word};
use synod_ubft::stream::{Row, State};
use synod_ubft::{Body, Statement};

/// Of replicas and clients.
type ReplicaMessage = synod_ubft::Message;
/// As of a proposal.
type Certificate = synod_ubft::certificate::Certificate<Certified>;

synod_wire::conformance!(
    Auth,
    Batch,
    Body,
    Certificate,
    Certified,
    Checkpoint,
    ClientStatement,
    Committed,
    Incarnation,
    Left,
    MemoryWords,
    Message,
    Op,
    Registration,
    Replied,
    ReplicaMessage,
    Request,
    Row,
    Slot,
    State,
    Statement,
    Summarized,
    Summary,
    Told,
    TwoMessages,
    View,
    Want,
    Word,
);
