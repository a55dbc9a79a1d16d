//! Formats that replicas and operators rely on.

use synod_ubft::batch::{Auth, Batch, Op, Request, Slot, View};
use synod_ubft::certificate::{Certified, Checkpoint, Committed, Left, Summarized};
use synod_ubft::ctb::{Message, Told, TwoMessages};
use synod_ubft::registers::MemoryWords;
use synod_ubft::stream::{Row, State};
use synod_ubft::{Body, Statement};

/// As of a proposal.
type Certificate = synod_ubft::certificate::Certificate<Certified>;

synod_wire::conformance!(
    Auth,
    Batch,
    Body,
    Certificate,
    Certified,
    Checkpoint,
    Committed,
    Left,
    MemoryWords,
    Message,
    Op,
    Request,
    Row,
    Slot,
    State,
    Statement,
    Summarized,
    Told,
    TwoMessages,
    View,
);
