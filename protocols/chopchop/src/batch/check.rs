//! What can be wrong with a batch, and checks BV2 to BV5.

use core::fmt;

use synod_machine::planted;
use synod_wire::{Draw, Drawn, Malformed, Reader, Why, Writer};

use super::Batch;
use crate::Domains;
use crate::card::CardFault;
use crate::columns::ColumnFault;
use crate::fixed::Fixed;
use crate::ids::IdFault;
use crate::tree::{entry_root, root_of_eights};

/// Highest sequence number that can be proposed; the one above would leave no free one.
const K_MAX: u64 = u64::MAX - 1;

/// The rule that a batch breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum BatchFault {
    /// I: the bytes are no batch.
    Magic,
    /// I: another version.
    Version,
    /// I: flags that do not agree with the counts, the size or the aggregate.
    Flags,
    /// I: a reserved byte is set.
    Reserved,
    /// I: no entry, too many, or more stragglers and voids than entries.
    Counts,
    /// I: the required length of the directory is 0 or beyond the id space.
    Directory,
    /// I: the codec of the ids.
    Ids(IdFault),
    /// I: another epoch.
    Epoch,
    /// I: the body cannot or does not have this length.
    BodyLength,
    /// I: too late.
    Expired,
    /// I: expires beyond the horizon.
    TooFar,
    /// BV1: lengths, filling, form of the ids.
    Columns(ColumnFault),
    /// BV2: ids do not rise strictly.
    IdOrder,
    /// BV2: an id is not below the required length of the directory.
    IdRange,
    /// BV3: straggler or void indices do not rise strictly, meet, or name no entry.
    Indices,
    /// BV4: k is 2^64 - 1, or a straggler's is above k.
    Sequence,
    /// BV5: the body has another root.
    Root,
    /// BV8: a signature without signers.
    MisplacedAggregate,
    /// A card of a sign-up batch.
    Card(CardFault),
}

impl BatchFault {
    /// What the broker is told.
    #[must_use]
    pub const fn refusal(self) -> Refusal {
        match self {
            Self::Magic
            | Self::Version
            | Self::Flags
            | Self::Reserved
            | Self::Counts
            | Self::Directory
            | Self::Ids(_)
            | Self::BodyLength
            | Self::Columns(_) => Refusal::Malformed,
            Self::Epoch => Refusal::Epoch,
            Self::Expired => Refusal::Expired,
            Self::TooFar => Refusal::TooFar,
            Self::IdOrder | Self::IdRange => Refusal::Ids,
            Self::Indices | Self::Sequence => Refusal::Straggler,
            Self::Root => Refusal::Root,
            Self::MisplacedAggregate => Refusal::Aggregate,
            Self::Card(_) => Refusal::Card,
        }
    }
}

impl fmt::Display for BatchFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ids(fault) => write!(f, "{fault}"),
            Self::Columns(fault) => write!(f, "{fault}"),
            Self::Card(fault) => write!(f, "{fault}"),
            other => write!(f, "{other:?}"),
        }
    }
}

impl core::error::Error for BatchFault {}

macro_rules! refusals {
    ($( $(#[$doc:meta])* $name:ident = $code:literal; )*) => {
        /// Why a server does not take or not witness a batch, as it tells the broker.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Refusal { $( $(#[$doc])* $name, )* }

        impl Refusal {
            /// Every refusal there is.
            pub const ALL: &'static [Self] = &[ $( Self::$name, )* ];

            /// The code on the wire.
            #[must_use]
            pub const fn code(self) -> u8 {
                match self { $( Self::$name => $code, )* }
            }
        }
    };
}

refusals! {
    /// Header or columns are not well formed.
    Malformed = 1;
    /// Ids do not rise strictly, or reach beyond the directory.
    Ids = 2;
    /// Stragglers or voids.
    Straggler = 3;
    /// Another root.
    Root = 4;
    /// The aggregate does not hold.
    Aggregate = 5;
    /// The server's directory stayed shorter.
    Directory = 6;
    /// Too late.
    Expired = 7;
    /// Expires beyond the horizon.
    TooFar = 8;
    /// Another epoch.
    Epoch = 9;
    /// The broker has no credit left.
    Credit = 10;
    /// A card is not sound.
    Card = 11;
}

impl Fixed for Refusal {
    fn put(&self, out: &mut Writer) {
        out.byte(self.code());
    }
    fn take(input: &mut Reader) -> Result<Self, Malformed> {
        let refusal = input.refuse(Why::OutOfRange);
        let code = u8::take(input)?;
        let known = Self::ALL.iter().copied().find(|known| known.code() == code);
        known.ok_or(Malformed { why: Why::UnknownTag(code), ..refusal })
    }
}

impl Draw for Refusal {
    fn draw(from: &mut Drawn) -> Self {
        let at = usize::try_from(from.below(Self::ALL.len() as u64)).unwrap_or(0);
        Self::ALL.get(at).copied().unwrap_or(Self::Malformed)
    }
}

impl Batch {
    /// BV2 to BV4: ids, indices, sequence numbers.
    ///
    /// # Errors
    /// [`BatchFault`] names the first rule that is broken.
    pub fn check(&self) -> Result<(), BatchFault> {
        self.check_ids()?;
        self.check_indices()?;
        self.check_sequence()
    }

    /// BV2: ids rise strictly and lie below the required length of the directory.
    ///
    /// # Errors
    /// [`BatchFault::IdOrder`], [`BatchFault::IdRange`].
    pub fn check_ids(&self) -> Result<(), BatchFault> {
        let ids = self.columns().shared_ids();
        // Without a way out in the middle, which lets several pairs be compared at once.
        let pairs = ids.iter().zip(ids.get(1..).unwrap_or_default());
        let falls = pairs.fold(false, |falls, (one, next)| falls | (one >= next));
        if falls && !planted!(C1) {
            return Err(BatchFault::IdOrder);
        }
        match ids.last() {
            Some(last) if *last < self.header().directory => Ok(()),
            _ => Err(BatchFault::IdRange),
        }
    }

    /// BV3: straggler and void indices rise strictly, are disjoint and name entries.
    ///
    /// # Errors
    /// [`BatchFault::Indices`].
    pub fn check_indices(&self) -> Result<(), BatchFault> {
        let mut stragglers = self.columns().stragglers().map(|straggler| straggler.index).peekable();
        let mut voids = self.columns().voids().peekable();
        let mut last = None;
        // Both rise strictly and never meet exactly when their merge rises strictly.
        loop {
            let next = match (stragglers.peek(), voids.peek()) {
                (Some(straggler), Some(void)) if straggler < void => stragglers.next(),
                (Some(_), None) => stragglers.next(),
                (_, Some(_)) => voids.next(),
                (None, None) => return Ok(()),
            };
            if next >= Some(self.header().count) || (last.is_some() && next <= last) {
                return Err(BatchFault::Indices);
            }
            last = next;
        }
    }

    /// BV4: k leaves a free number above it, and no straggler's number is above k.
    ///
    /// # Errors
    /// [`BatchFault::Sequence`].
    pub fn check_sequence(&self) -> Result<(), BatchFault> {
        let k = self.header().k;
        let above = self.columns().stragglers().any(|straggler| straggler.k > k);
        if k > K_MAX || above { Err(BatchFault::Sequence) } else { Ok(()) }
    }

    /// BV5: the body has the header's root.
    ///
    /// # Errors
    /// [`BatchFault::Root`].
    pub fn check_root(&self, domains: &Domains) -> Result<(), BatchFault> {
        let columns = self.columns();
        let root = match self.header().msg_size {
            8 => root_of_eights(domains, columns.shared_ids(), columns.messages(), columns.parity_bytes()),
            _ => entry_root(domains, &self.header().tree_shape(), columns.entries()),
        };
        if root == self.header().root { Ok(()) } else { Err(BatchFault::Root) }
    }
}
