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
mod purse;
mod reading;
mod receipts;
mod restarts;
mod waits;
mod wallet;

use synod_astro::wallet::{Answer, Log, Record as WalletRecord, Word as WalletWord};
use synod_astro::{
    Auth, Authorized, Batch, Draft, EntryProof, Format, Header, Line, PaymentReceipt, Promise, Receipt,
    Settled, SettledBy, Word,
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
    Answer,
    Log,
    WalletRecord,
    WalletWord,
);
