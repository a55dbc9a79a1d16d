//! What wallets and replicas say to each other, what a wallet keeps, and what its user is told.

use std::sync::Arc;

use synod_crypto::{Hash, PublicKey};
use synod_ledger::{AccountId, Entry, EntryId};
use synod_machine::{Message, Queue, Record as Kept, Span};
use synod_wire::{List, wire};

use crate::batch::Line;
use crate::together::Invitation;
use crate::words::{Draft, Level};

/// Most open entries that one [`Log`] shows, and most that a wallet has.
pub const OPEN_MAX: usize = 64;

wire! {
    /// What a replica answers to an entry.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Answer {
        /// It would endorse the entry, or has taken it.
        0 = Yes,
        /// It does not: the number of the reason in the catalogue of errors.
        1 = No(u16),
        /// Over one of its bounds; ask again after so many milliseconds.
        2 = Busy(u32),
    }

    /// The log of an account as one replica knows it.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Log {
        /// Whose.
        pub account: AccountId,
        /// The n of its last settled entry.
        pub sequence: u64,
        /// That entry's digest.
        pub head: Hash,
        /// Entries above it that were accepted or certified there, lowest first; as many as fit.
        pub open: List<Line, OPEN_MAX>,
    }

    /// Spoken between a wallet and a replica; a node's gateway carries it as requests and answers.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Word {
        /// To a replica: would you endorse this entry, if the holder of this key signed it?
        0 = Check {
            /// The entry.
            entry: Arc<Entry>,
            /// The key.
            key: PublicKey,
        },
        /// To a wallet.
        1 = Checked {
            /// Of which entry.
            digest: Hash,
            /// Whether.
            answer: Answer,
        },
        /// To a replica: carry this.
        2 = Submit(Line),
        /// To a wallet.
        3 = Submitted {
            /// Which entry.
            digest: Hash,
            /// Whether it was taken.
            answer: Answer,
        },
        /// To a replica: how far is this account's log?
        4 = Read(AccountId),
        /// To a wallet.
        5 = Here(Box<Log>),
        /// To a wallet: sign with others what you signed alone.
        6 = Distil(Box<Invitation>),
        /// To a replica.
        7 = Share {
            /// See [`Invitation::number`].
            number: u64,
            /// Whose.
            account: AccountId,
            /// Over [`crate::SignedTogether`], uncompressed.
            share: [u8; 192],
        },
    }

    /// What a wallet keeps.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Record {
        /// Everything up to this place is settled, and what stands there has this digest.
        0 = Based {
            /// The place; 0 before the first entry.
            n: u64,
            /// The digest, or [`synod_ledger::genesis`].
            head: Hash,
            /// The member to whom entries go first.
            representative: u8,
        },
        /// Before an entry is submitted: nothing else is ever signed for its place.
        1 = Signed(Line),
    }
}

impl Message for Word {
    fn queue(&self) -> Queue {
        match self {
            // Open entries can be long.
            Self::Here(_) | Self::Distil(_) => Queue::PROPOSAL,
            Self::Check { .. }
            | Self::Checked { .. }
            | Self::Submit(_)
            | Self::Submitted { .. }
            | Self::Share { .. }
            | Self::Read(_) => Queue::CONTROL,
        }
    }
}

impl Kept for Record {}

/// A timer's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Ask again whether the next entry may be signed.
    Check,
    /// Give open entries to the next replica.
    Resend,
    /// Ask how far the log is.
    Read,
    /// The caller of this ticket waits no longer.
    Deadline(u64),
}

/// What the owner asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Pays, or whatever the draft says.
    Pay {
        /// Returned in the answers; no two orders have one.
        ticket: u64,
        /// What is ordered.
        draft: Draft,
        /// How sure it has to be: [`Level::Settled`] or [`Level::Stable`].
        until: Level,
        /// How long the caller waits for that.
        within: Span,
    },
}

/// Why nothing was signed for an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// So few replicas would endorse it that none of them need be correct; the reason that most of the others give.
    Denied(u16),
    /// Too few replicas answered in time.
    Unanswered,
    /// As many orders wait, or are open, as may.
    Busy,
    /// The last entry names another key: a wallet with that one goes on.
    Rekeyed,
    /// The wallet signs nothing any more.
    Stopped(Stop),
}

/// Why a wallet signs nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Its file is gone, and nobody accepted the risk that an entry which it signed is still on its way.
    NoFile,
    /// An entry that it did not sign stands at this place or behind it: another wallet has this key.
    Foreign(u64),
    /// Two entries that were signed for this place are on their way: the account may be locked.
    Conflicted(u64),
}

/// What the owner is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// From here on it may sign; its last entry has this n.
    Ready(u64),
    /// Nothing was signed, so nothing happens.
    Refused {
        /// Which order.
        ticket: u64,
        /// Why.
        why: Refusal,
    },
    /// The order has its place for good.
    Signed {
        /// Which order.
        ticket: u64,
        /// The entry.
        line: Line,
    },
    /// An entry is surer than before.
    Progress {
        /// Which.
        id: EntryId,
        /// The caller's name for it.
        transfer: u128,
        /// How sure.
        level: Level,
    },
    /// The caller's deadline passed. The entry is given to replicas on, unchanged, and what becomes of it is told as
    /// [`Output::Progress`].
    Unknown {
        /// Which order.
        ticket: u64,
        /// The entry.
        line: Line,
        /// The last reason that a replica gave for not taking it.
        why: Option<u16>,
    },
    /// It signs nothing any more.
    Stopped(Stop),
}
