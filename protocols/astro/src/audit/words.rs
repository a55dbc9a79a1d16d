//! Records of a node's log.

use synod_crypto::Hash;
use synod_ledger::{AccountId, Entry, Opening};
use synod_machine::broadcast::ITEMS_MAX;
use synod_wire::{Blob, List, wire};

use crate::batch::{Auth, Header, OPENINGS_MAX};
use crate::cut::{CutCertificate, RootRecord};
use crate::receipt::CERTIFICATE_MAX;
use crate::words::Receipt;

/// Most accounts of one record.
pub const COUNTED_MAX: usize = 1 << 16;

wire! {
    /// How a log is written.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Format {
        /// As here.
        1 = First,
    }

    /// Whose log it is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Head {
        /// See there.
        pub format: Format,
        /// The cluster's id.
        pub cluster: Hash,
        /// Its shard.
        pub shard: u16,
        /// The member that wrote it.
        pub member: u8,
    }

    /// What a batch carries beside its entries.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Beside {
        /// Accounts that it opens.
        pub openings: List<Opening, OPENINGS_MAX>,
        /// Who vouches for each entry; empty where the institution does for all.
        pub auths: List<Auth, ITEMS_MAX>,
        /// See there.
        pub rest: crate::Beside,
    }

    /// A batch without its entries.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Carried {
        /// What it commits to.
        pub header: Header,
        /// The digest of each entry.
        pub digests: List<Hash, ITEMS_MAX>,
        /// See there.
        pub beside: Beside,
    }

    /// How many entries of an account a cut counts; none where the account was not there.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CountedAt {
        /// Which.
        pub account: AccountId,
        /// The n of the last one.
        pub n: Option<u64>,
    }

    /// A record of a log.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Item {
        /// The next entry that settled.
        1 = Settled(Entry),
        /// A batch that is certified.
        2 = Batch(Carried),
        /// A certificate, as the broadcast encodes it.
        3 = Certificate(Blob<CERTIFICATE_MAX>),
        /// A member's word that a batch has settled there.
        4 = Word(Receipt),
        /// Behind the last.
        5 = End {
            /// Records between head and end.
            records: u64,
            /// Of all that comes before.
            digest: Hash,
        },
        /// What the next cut counts, where the cut before counts something else.
        6 = Counted(List<CountedAt, COUNTED_MAX>),
        /// A certified cut, with what was told to be counted since the one before.
        7 = Cut {
            /// The state behind it.
            root: Box<RootRecord>,
            /// That a quorum has it.
            certificate: Box<CutCertificate>,
        },
    }
}

impl Beside {
    /// What a batch carries beside its entries.
    #[must_use]
    pub fn of(batch: &crate::Batch) -> Self {
        let is_signed = batch.lines.iter().any(|line| line.auth != Auth::Institution);
        let auths = batch.lines.iter().filter(|_| is_signed).map(|line| line.auth);
        let auths = List::try_from(auths.collect::<Vec<_>>()).expect("one for each line");
        Self { openings: batch.openings.clone(), auths, rest: batch.beside.clone() }
    }
}
