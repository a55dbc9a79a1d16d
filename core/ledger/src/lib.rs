//! The ledger that payments run on: amounts, accounts, entries of exclusive logs, their effect, and the Merkle-sum tree.
//!
//! *What it gives.* A [`Book`] holds the accounts of one shard. Each account has an exclusive log of outgoing [`Entry`]s, each
//! naming the digest of the one before. [`judge`] says whether an entry may be endorsed behind what was endorsed before, and
//! [`Book::apply`] settles it: all of it, or nothing and a [`Code`]. [`SumTree`] commits to every account and to the sums over
//! all, so that one path shows a balance and the root shows what is owed in total. [`Past`] is a book as it was before some of its
//! entries, so that replicas that settled different sets compute one root over what all of them have.
//!
//! *Rules.* Nothing is created: balances and what was set aside change by transfers alone, and an account below 0 is one whose
//! limit allows it. Available money is never below 0. No effect depends on which credits came first, so the state after a set
//! of entries is the same in whatever order those of different spenders were applied, as long as each could be.
//!
//! *Shards.* What an entry pays into another shard is debited here and counted as exported; [`Book::import`] credits it there, each
//! entry once. In each ledger of a shard, credits less debits are what was imported less what was exported.
//!
//! *Bounds.* 128 bytes per account, about 260 for each different set of terms, about 130 per open hold, of which a payer has
//! [`HOLDS_OPEN_MAX`]; 32 bytes at most per stretch of a log of another shard whose entries were credited here.
//!
//! Paper: Astro, section III (system model), Listings 3, 4 and 9.

mod account;
mod apply;
mod book;
mod code;
mod entry;
mod id;
mod import;
mod judge;
mod past;
mod state;
mod sums;
mod total;
mod used;

pub use account::{Account, Opening, Terms};
pub use book::{Book, Border, Hold, REGISTRARS_MAX};
pub use code::{Class, Code};
pub use entry::{
    Digests, Entry, EntryId, Flags, HOLDS_MAX, Kind, LEGS_MAX, Leg, Owner, UserData, Verdict, genesis,
};
pub use id::{AccountId, BadAccountId};
pub use judge::{HOLDS_OPEN_MAX, Promised, judge};
pub use past::{Applied, Overwrote, Past};
pub use state::{Part, Standing};
pub use sums::{LEVELS_MAX, Node, Opened, RANGE_LEAVES, SumLeaf, SumPath, SumRange, SumTree, Sums};
pub use total::{Amount, NoTotal, Total, Units};
pub use used::Run;
