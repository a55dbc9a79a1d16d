//! Payments without consensus, by what they promise.

mod alone;
mod bank;
mod batches;
mod contradictions;
mod conversation;
mod forge;
mod golden;
mod keeping;
mod lies;
mod offers;
mod payments;
mod reading;
mod receipts;
mod restarts;
mod waits;

use synod_astro::{
    Auth, Authorized, Batch, Draft, EntryProof, Format, Header, Line, PaymentReceipt, Promise, Receipt,
    Settled, SettledBy, Word,
};

use synod_astro::views::{
    Agreed, Change, Endorsement, Kept, Message as ViewsMessage, Operator, Proposal, Record as ViewsRecord,
    Sequence, Shown, ShownEntry, ShownLot, SignedState, Sworn, Tip, View, ViewId,
};

/// Both vocabularies.
type Message = bank::Message;
/// See there.
type Record = synod_astro::Record<synod_broadcast::signed::Record>;

synod_wire::conformance!(
    Auth,
    Authorized,
    Batch,
    Draft,
    EntryProof,
    Format,
    Header,
    Line,
    PaymentReceipt,
    Promise,
    Receipt,
    Settled,
    SettledBy,
    Word,
    Message,
    Record,
    Agreed,
    Change,
    Endorsement,
    Kept,
    Operator,
    Proposal,
    Sequence,
    Shown,
    ShownEntry,
    ShownLot,
    SignedState,
    Sworn,
    Tip,
    View,
    ViewId,
    ViewsMessage,
    ViewsRecord,
);
