//! Payments without consensus, by what they promise.

mod alone;
mod bank;
mod batches;
mod claims;
mod contradictions;
mod conversation;
mod forge;
mod golden;
mod keeping;
mod lies;
mod offers;
mod payments;
mod purse;
mod queues;
mod reading;
mod receipts;
mod restarts;
mod shards;
mod waits;
mod wallet;

use synod_astro::wallet::{Answer, Log, Record as WalletRecord, Word as WalletWord};
use synod_astro::{
    Auth, Authorized, BackedBatch, Backing, Batch, Bundle, BundleId, Credit, Credited, Dependency, Draft,
    EntryProof, Format, Header, Imports, Line, PaymentReceipt, Place, Promise, Proven, Receipt, Settled,
    SettledBy, Sub, Vouch, Word,
};

/// Both vocabularies.
type Message = bank::Message;
/// See there.
type Record = synod_astro::Record<synod_broadcast::signed::Record>;

synod_wire::conformance!(
    Auth,
    Authorized,
    BackedBatch,
    Backing,
    Batch,
    Bundle,
    BundleId,
    Credit,
    Credited,
    Dependency,
    Draft,
    EntryProof,
    Format,
    Header,
    Imports,
    Line,
    PaymentReceipt,
    Place,
    Promise,
    Proven,
    Receipt,
    Settled,
    SettledBy,
    Sub,
    Vouch,
    Word,
    Message,
    Record,
    Answer,
    Log,
    WalletRecord,
    WalletWord,
);
