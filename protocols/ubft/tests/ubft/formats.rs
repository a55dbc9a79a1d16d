//! Formats that replicas and operators rely on.

use synod_ubft::batch::{Auth, Batch, Op, Request, Slot, View};
use synod_ubft::certificate::{Certified, Checkpoint, Committed, Left, Snapshotted, Summarized};
use synod_ubft::ctb::{Message, Told, TwoMessages};
use synod_ubft::epoch::{Change, Configuration, Ending, Epochs, Readmission};
use synod_ubft::message::{ClientStatement, Registration, Replied, Standing};
use synod_ubft::ordering::Rooted;
use synod_ubft::registers::MemoryWords;
use synod_ubft::replica::{Incarnation, Summary, Want, Word};
use synod_ubft::sessions::SessionRow;
use synod_ubft::snapshot::{Held, Part, Snapshot};
use synod_ubft::stream::{Row, State};
use synod_ubft::{Body, Statement};

/// Of replicas and clients.
type ReplicaMessage = synod_ubft::Message;
/// Of replicas that order.
type OrderingMessage = synod_ubft::ordering::Message;
/// As of a proposal.
type Certificate = synod_ubft::certificate::Certificate<Certified>;

synod_wire::conformance!(
    Auth,
    Batch,
    Body,
    Certificate,
    Certified,
    Change,
    Checkpoint,
    ClientStatement,
    Committed,
    Configuration,
    Ending,
    Epochs,
    Held,
    Incarnation,
    Left,
    MemoryWords,
    Message,
    Op,
    OrderingMessage,
    Part,
    Readmission,
    Registration,
    Replied,
    ReplicaMessage,
    Request,
    Rooted,
    Row,
    SessionRow,
    Slot,
    Snapshot,
    Snapshotted,
    Standing,
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
