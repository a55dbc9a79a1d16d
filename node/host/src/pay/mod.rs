//! A node of the payment system: the replica with its representative, the teller before it, the index behind it.
//!
//! *Flow.* The [`Teller`] gives orders to the replica under tickets and hears what became of them; what settles goes to the
//! [`Index`] in its order. The replica tells a settled entry again after a crash until the index has it on disk, so the index
//! holds all that ever settled here, and an order of a payer and name that it holds happens no second time.
//!
//! *Trust.* What a node tells is the word of that node, which is the institution of its custodial accounts. A receipt is no node's
//! word: [`check`] needs the genesis alone.
//!
//! *Many at once.* Orders of one request take one look into the index and one lock, and wait behind one another until the replica
//! has room ([`Teller::pay_all`]).
//!
//! *Bounds.* [`ORDERS_MAX`] orders are under way at a node, and [`WAITING_MAX`] callers wait for each. The index is a file; its page
//! cache is 64 MiB.

mod audit;
mod balance;
mod blocks;
mod bundles;
mod claim;
mod cuts;
mod cutting;
mod filter;
mod group;
mod index;
mod keeper;
mod known;
mod lanes;
mod log;
mod many;
mod node;
mod older;
mod orders;
mod owners;
mod proofs;
mod receipt;
mod rows;
mod sealed;
mod seat;
mod sorted;
mod statement;
mod teller;
mod terms;
#[cfg(test)]
mod tests;
mod torn;
mod views;
mod words;

pub use audit::audit;
pub use balance::{CUT_KIND, check_proof};
pub use claim::Claim;
pub use cuts::{CUTS_MAX, Cuts, Gap, KeptCut};
pub use group::{GROUP_MAX, Gathering, Paid};
pub use index::{History, Index, Kept, PAGE_MAX};
pub use log::{Frames, Unreadable, Write};
pub use many::NewAccount;
pub(crate) use node::{begin, recover};
pub use node::{view, view_of};
pub use orders::{ORDERS_MAX, WAITING_MAX};
pub use proofs::LogPage;
pub use receipt::{KIND, check};
pub use seat::Seat;
pub use statement::{Cursor, Effect, Line as StatementLine, Period, Statement, Stood};
pub use synod_astro::audit::{CountedAt, Findings, Format, Head, Item, Violation, compare};
pub use synod_astro::views::{Change, Founding};
pub use synod_astro::wallet;
pub use synod_astro::{Accounts, Proof, Shown as ShownBehind, Shows, StoodAt};
pub use synod_astro::{
    Auth, BundleSeen, BundlesSeen, Draft, LINE_BYTES_MAX, LOOKED_MAX, LaneSeen, Level, Line, PaymentReceipt,
    Proved, Seen, TwoEntries,
};
pub use synod_crypto::{PublicKey, Signature};
pub use synod_ledger::{
    AccountId, Entry, EntryId, Flags, Kind, Leg, Owner, Total, Units, UserData, Verdict, genesis,
};
pub use teller::{Answer, Teller};
pub use torn::{TWO_ENTRIES, check_two};
pub use views::{Members, Standing, change, endorse, founding};
pub use words::{Asked, Denied, Found, Known, Named, Order, Transfer, What, digest, known, level, word};

/// Lanes of the journal.
pub(crate) const LANES: u8 = 1;
