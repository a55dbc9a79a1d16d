//! The formats of every message, record and statement, watched by hashes in `conformance.toml`.

use crate::block::{Header, Item, Standing};
use crate::certificate::{Anchor, CheckpointCert, Complaint, Qc, Tc};
use crate::message::{Blocks, Message, Piece, Proof, Status, Want};
use crate::proof::{CommitProof, Commitment, EntryProof};
use crate::record::{Mark, Record, Safety, Stopped, Why};
use crate::statement::{Attested, Kind, Statement};
use crate::sync::Question;
use crate::view::View;

synod_wire::conformance!(
    Anchor,
    Attested,
    Blocks,
    CheckpointCert,
    Commitment,
    CommitProof,
    Complaint,
    EntryProof,
    Header,
    Item,
    Kind,
    Mark,
    Message,
    Piece,
    Proof,
    Qc,
    Question,
    Record,
    Safety,
    Standing,
    Statement,
    Status,
    Stopped,
    Tc,
    View,
    Want,
    Why,
);
