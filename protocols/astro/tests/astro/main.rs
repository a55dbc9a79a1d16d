//! Payments without consensus, by what they promise.

mod alone;
mod bank;
mod batches;
mod catching_up;
mod contradictions;
mod conversation;
mod cuts;
mod forge;
mod golden;
mod keeping;
mod lies;
mod offers;
mod payments;
mod proofs;
mod reading;
mod receipts;
mod restarts;
mod waits;

use synod_astro::{
    Auth, Authorized, Balance, Batch, CertifiedCut, Crossed, Cut, CutCertificate, CutSign, CutSigned,
    CutSignedBy, Draft, EntryProof, Exception, Format, Header, LaneEnd, LedgerRoot, Line, Neighbour,
    OpenHold, PaymentReceipt, Piece, Promise, Proof, Range, Receipt, RootRecord, Served, Settled, SettledBy,
    Shown, StoodAt, Word,
};

/// Both vocabularies.
type Message = bank::Message;
/// See there.
type Record = synod_astro::Record<synod_broadcast::signed::Record>;

synod_wire::conformance!(
    Auth,
    Authorized,
    Balance,
    Batch,
    CertifiedCut,
    Crossed,
    Cut,
    CutCertificate,
    CutSign,
    CutSigned,
    CutSignedBy,
    Draft,
    EntryProof,
    Exception,
    Format,
    Header,
    LaneEnd,
    LedgerRoot,
    Line,
    Neighbour,
    PaymentReceipt,
    Promise,
    Proof,
    Receipt,
    RootRecord,
    Settled,
    SettledBy,
    OpenHold,
    Piece,
    Range,
    Served,
    StoodAt,
    Shown,
    Word,
    Message,
    Record,
);
