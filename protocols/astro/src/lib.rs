//! Astro: payments by broadcast, without consensus (paper: "Online Payments by Merely Broadcasting Messages"), in profiles I, II and II-F.
//!
//! *What it gives.* Every account has an exclusive log of what it pays. A [`Replica`] takes orders of its own customers, puts them
//! into [`Batch`]es and broadcasts those in its lane; replicas endorse an entry if they can see that it is funded, and a
//! certificate of a quorum settles it at every correct replica. With at most f of 3f + 1 liars among replicas, and any number
//! among customers: **no double spend** and one chain per account (A-S1, A-S4), **solvency** (A-S6) and **conservation** (A-S5) at
//! each step, **totality** (A-L2: what settles at one correct replica settles at all), and whoever lies delays its own accounts
//! alone (A-L4). There is no leader, no order across accounts, and no timeout decides anything.
//!
//! *Profiles.* What follows is II-F, over the signed broadcast. In profile I, over Bracha's, a batch is endorsed as a whole and whether
//! it is funded or not, from the registered representative of its accounts alone; what is not funded waits in its log until money
//! comes. In profile II, over the signed broadcast with [`BackedBatches`], an entry is endorsed whether it is funded or not, with what it
//! spends: payments that f + 1 members vouch for ([`Dependency`]). When it settles these are credited, each once, and if they do not
//! suffice it is rejected: its place is taken and nothing else moves. See [`Profile`].
//!
//! *How.* `ledger` holds the book and the open end of each log. An entry is accepted at its place once, behind an
//! accepted predecessor that it names by digest, if what has settled here less what was accepted before pays for it (the
//! acknowledge rule, specification 4.4). A member endorses a batch but for the entries that it does not accept, with a list that
//! only shrinks: one bad entry holds no other up. An entry is certified that a quorum does not except; with it every earlier one
//! of its chain is, since the quorum's correct members accepted exactly that chain (the ancestor rule). What was accepted and
//! contradicts a certificate gives way to it.
//!
//! *Levels.* `Certified`, `Settled` (f + 1 receipts), `Stable` (a quorum of receipts): see [`Level`]. A [`PaymentReceipt`] shows the
//! level of one payment to whoever has the members' keys; [`verify_receipt`] checks it and needs nothing else.
//!
//! *Cuts.* In turn a member names the set of entries that has settled there, a [`Cut`], and members sign the root of the state behind
//! it. What a quorum signed proves how an account stands, and what all of them are owed: [`verify_proof`].
//!
//! *Audits.* Who has the members' keys reads the log of a node and believes none of it: [`audit`].
//!
//! *Deviations* from the paper: E1 to E30, E32 and E33 of the specification; docs/papers/astro.md says where.
//! From the specification: the representative is a part of the replica's machine, since it judges by the same book.
//!
//! *Hosted* by nodes of kind astro; docs/adr/open.md lists what is known to be missing.
//!
//! *Views* change without consensus by a machine of its own ([`views`]). A [`member::Member`] hosts it beside a replica whose members come and go
//! (II-F of one shard, without cuts).
//!
//! *Wallets.* An owner who signs has a [`wallet::Wallet`]: one entry per place, checked by f + 1 replicas before it is signed, given to one
//! replica after another until it settles.
//!
//! *Shards.* In profile II-F a payment to an account of another shard is debited here; its entry goes there with its proof ([`Bundle`]), is put
//! into a batch by one member, and is credited once that batch is certified, once per entry. See [`Shards`].
//!
//! *Ownership.* Institutions vouch, owners sign alone, or owners of one batch sign together ([`Parameters::distil`]); all members check what
//! owners sign, or witnesses do for the others ([`Parameters::verify`]).
//!
//! *Not built*: cuts and shards but in II-F and neither together nor where members come and go.
//! There is no way to ask for them. Duplicates of orders are known here while they are unsettled; what settled is told in one order until
//! the user keeps it, who knows the names of all that did.
//!
//! *Bounds.* The book; per account `window` open entries; per lane `lane_window + retain` batches of which something is open, and of
//! each one place per account for what waits; four batches of orders that wait, and one of entries that are offered again. See
//! [`synod_machine::Bounded`].

pub mod audit;
mod batch;
mod borders;
mod bundle;
mod config;
mod credits;
mod cut;
mod dependency;
mod fault;
mod few;
mod job;
mod ledger;
mod logs;
pub mod member;
mod owing;
mod receipt;
mod replica;
mod shards;
mod spoken;
mod together;
mod torn;
mod trace;
pub mod views;
mod waits;
pub mod wallet;
mod witness;
mod words;
mod xlog;

pub use batch::{
    Auth, BackedBatches, Batch, Batches, Beside, Content, EntryProof, Header, IMPORTS_MAX, Line,
    OPENINGS_MAX, Opened,
};
pub use bundle::{Bundle, BundleId, BundleSeen, BundlesSeen, Place, Proven, Unproven};
pub use config::{Channel, Config, LINE_BYTES_MAX, Parameters, Profile, Setup, WINDOW_MAX};
pub use cut::{
    Accounts, Adjacent, Balance, CertifiedCut, Crossed, Cut, CutCertificate, CutSign, CutSigned, CutSignedBy,
    EXCEPTIONS_MAX, Exception, LEDGERS_MAX, LaneEnd, LedgerRoot, NoProof, OpenHold, Piece, Proof, Range,
    RootRecord, Served, Shown, Shows, StoodAt, verify_proof,
};
pub use dependency::{
    BackedBatch, Backing, Credit, Credited, DEPENDENCIES_MAX, Dependency, Sub, Vouch, With, Withs,
};
pub use fault::Fault;
pub use job::{Done, Job, Made, Purpose, Work};
pub use receipt::{
    CERTIFICATE_MAX, CHAIN_MAX, Format, Material, NoReceipt, PaymentReceipt, Proved, SettledBy,
    verify_receipt,
};
pub use replica::{Carrier, Replica};
pub use shards::{Neighbour, Shards};
pub use spoken::{Good, Recalled, Spoken};
pub use together::{Invitation, Leaf, Shared, SignedTogether, Signer};
pub use torn::TwoEntries;
pub use trace::Rule;
pub use witness::{FalseWitness, Looked, Verify, Witnessed};
pub use words::{
    Authorized, Draft, Input, LOOKED_MAX, LaneSeen, Level, Message, Output, Promise, Receipt, Record,
    Refusal, Seen, Settled, Timer, Word,
};
