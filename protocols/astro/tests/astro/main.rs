//! Payments without consensus, by what they promise.

mod alone;
mod audit;
mod bad_input;
mod bank;
mod batches;
mod catching_up;
mod claims;
mod contradictions;
mod conversation;
mod cuts;
mod forge;
mod golden;
mod keeping;
mod lies;
mod offers;
mod orders;
mod owners;
mod payments;
mod proofs;
mod purse;
mod queues;
mod reading;
mod receipts;
mod restarts;
mod roots;
mod shards;
mod together;
mod torn;
mod waits;
mod wallet;
mod witnesses;

use synod_astro::Beside as BatchBeside;
use synod_astro::audit::{Beside, Carried, CountedAt, Head, Item};
use synod_astro::wallet::{Answer, Log, Record as WalletRecord, Word as WalletWord};
use synod_astro::{
    Adjacent, Auth, Authorized, BackedBatch, Backing, Balance, Batch, Bundle, BundleId, CertifiedCut, Credit,
    Credited, Crossed, Cut, CutCertificate, CutSign, CutSigned, CutSignedBy, Dependency, Draft, EntryProof,
    Exception, FalseWitness, Format, Header, Invitation, LaneEnd, Leaf, LedgerRoot, Line, Looked, OpenHold,
    PaymentReceipt, Piece, Place, Promise, Proof, Proven, Range, Receipt, RootRecord, Served, Settled,
    SettledBy, Shown, SignedTogether, Signer, StoodAt, Sub, TwoEntries, Vouch, Witnessed, Word,
};

use synod_astro::views::{
    Agreed, Change, Endorsement, Entered, Kept, Message as ViewsMessage, Operator, Pin, PinnedEntry,
    PinnedLot, Proposal, Record as ViewsRecord, Sequence, Shown as ViewsShown, ShownEntry, ShownLot,
    SignedState, Sworn, Tip, View, ViewId,
};

/// Both vocabularies.
type Message = bank::Message;
/// See there.
type Record = synod_astro::Record<synod_broadcast::signed::Record>;

/// Those of members that come and go.
type MemberMessage = synod_astro::member::Message<synod_broadcast::signed::Message>;
/// See there.
type MemberRecord = synod_astro::member::Record<synod_broadcast::signed::Record>;

synod_wire::conformance!(
    Auth,
    Authorized,
    Balance,
    Beside,
    Batch,
    Bundle,
    BundleId,
    Carried,
    CountedAt,
    CertifiedCut,
    Crossed,
    Cut,
    CutCertificate,
    CutSign,
    CutSigned,
    CutSignedBy,
    BackedBatch,
    Backing,
    Credit,
    Credited,
    Dependency,
    Draft,
    EntryProof,
    Exception,
    Format,
    Head,
    Item,
    Header,
    Invitation,
    Leaf,
    SignedTogether,
    Signer,
    BatchBeside,
    LaneEnd,
    LedgerRoot,
    Line,
    Adjacent,
    PaymentReceipt,
    Place,
    Promise,
    Proven,
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
    Sub,
    TwoEntries,
    Vouch,
    Looked,
    Witnessed,
    FalseWitness,
    Word,
    Message,
    Record,
    Answer,
    Log,
    WalletRecord,
    WalletWord,
    Agreed,
    Change,
    Endorsement,
    Kept,
    Operator,
    Proposal,
    Sequence,
    ViewsShown,
    ShownEntry,
    ShownLot,
    SignedState,
    Sworn,
    Tip,
    View,
    ViewId,
    ViewsMessage,
    ViewsRecord,
    Entered,
    Pin,
    PinnedEntry,
    PinnedLot,
    MemberMessage,
    MemberRecord,
);
