//! What an audit finds, with what proves it.

use core::fmt;

use synod_ledger::{Code, EntryId};
use synod_machine::broadcast::Lot;
use synod_wire::Bytes;

/// What is not as it has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// A batch carries something other than its header commits to.
    Root,
    /// A batch does not name the one before it in its lane.
    Lane,
    /// A lane has no such batch in the log, though it has later ones.
    Missing,
    /// Two batches are certified for one place of a lane.
    TwoBatches,
    /// A certificate does not hold, and why.
    Certificate(String),
    /// A member's word does not hold.
    Word,
    /// A member said of two batches that they settled in one place of a lane.
    TwoWords,
    /// Accounts are opened that this lane may not open, or in another order.
    Opening(Code),
    /// Accounts of a registrar may owe more in all than its cap: money could be made beyond it.
    Cap,
    /// No quorum endorsed the entry, nor one behind it.
    Uncertified,
    /// The entry stands twice in the log.
    Twice,
    /// Neither did the account's owner sign the entry nor its institution carry it.
    Unauthorized,
    /// The ledger does not take the entry where it stands: the money was not there, or it does not continue its payer's log.
    Refused(Code),
    /// An account's sums are not those of the entries that touch it.
    Sums,
    /// What was paid and what was received differ in this ledger.
    Money(u32),
    /// Two logs have different entries in one place, or different batches.
    Disagree,
    /// The certificate of a cut does not hold, and why.
    CutCertificate(String),
    /// The entries of the log that a cut of this number counts do not give the state that a quorum signed.
    CutState(u64),
    /// An entry was credited from another shard that its log does not have.
    Invented,
}

impl What {
    /// A short name for it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Lane => "lane",
            Self::Missing => "missing",
            Self::TwoBatches => "two_batches",
            Self::Certificate(_) => "certificate",
            Self::Word => "word",
            Self::TwoWords => "two_words",
            Self::Opening(_) => "opening",
            Self::Cap => "cap",
            Self::Uncertified => "uncertified",
            Self::Twice => "twice",
            Self::Unauthorized => "unauthorized",
            Self::Refused(_) => "refused",
            Self::Sums => "sums",
            Self::Money(_) => "money",
            Self::Disagree => "disagree",
            Self::CutCertificate(_) => "cut_certificate",
            Self::CutState(_) => "cut_state",
            Self::Invented => "invented",
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("what the batch carries is not what its header commits to"),
            Self::Lane => f.write_str("the batch does not name the one before it"),
            Self::Missing => {
                f.write_str("the log does not have the batch, though it has later ones of the lane")
            }
            Self::TwoBatches => f.write_str("two batches are certified for one place of a lane"),
            Self::Certificate(why) => write!(f, "the certificate does not hold: {why}"),
            Self::Word => {
                f.write_str("the member's signature on its word that the batch settled is not good")
            }
            Self::TwoWords => f.write_str("the member said of two batches that they settled in one place"),
            Self::Opening(code) => write!(f, "an account could not be opened there: SYN-{}", code.number()),
            Self::Cap => f.write_str("accounts of the registrar may owe more in all than its cap"),
            Self::Uncertified => f.write_str("no quorum endorsed the entry, nor one behind it in its log"),
            Self::Twice => f.write_str("the entry stands twice in the log"),
            Self::Unauthorized => {
                f.write_str("its owner did not sign it, and its institution did not carry it")
            }
            Self::Refused(code) => {
                write!(f, "the ledger does not take it where it stands: SYN-{}", code.number())
            }
            Self::Sums => f.write_str("the sums of the account are not those of the entries that touch it"),
            Self::Money(ledger) => write!(f, "what was paid and what was received differ in ledger {ledger}"),
            Self::Disagree => f.write_str("two logs have different things in one place"),
            Self::CutCertificate(why) => write!(f, "the certificate of the cut does not hold: {why}"),
            Self::CutState(number) => {
                write!(f, "the entries that cut {number} counts do not give the state that a quorum signed")
            }
            Self::Invented => f.write_str("the log of its shard does not have the entry that was credited"),
        }
    }
}

/// A signed or hashed thing that shows a violation, by what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// What it is, such as `certificate`.
    pub what: &'static str,
    /// As members write it.
    pub bytes: Bytes,
}

/// One thing that is not as it has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// See there.
    pub what: What,
    /// The record of the log that shows it; the head is 0.
    pub record: Option<u64>,
    /// The place in a lane.
    pub lot: Option<Lot>,
    /// The entry.
    pub entry: Option<EntryId>,
    /// What proves it to others.
    pub shown: Vec<Shown>,
}

impl Violation {
    pub(super) const fn of(what: What) -> Self {
        Self { what, record: None, lot: None, entry: None, shown: Vec::new() }
    }

    pub(super) const fn at(mut self, record: u64) -> Self {
        self.record = Some(record);
        self
    }

    pub(super) const fn in_lot(mut self, lot: Lot) -> Self {
        self.lot = Some(lot);
        self
    }

    pub(super) const fn of_entry(mut self, id: EntryId) -> Self {
        self.entry = Some(id);
        self
    }

    pub(super) fn showing(mut self, what: &'static str, bytes: Bytes) -> Self {
        self.shown.push(Shown { what, bytes });
        self
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(EntryId { spender, n }) = self.entry {
            write!(f, "entry {n} of {spender}: ")?;
        }
        if let Some(lot) = self.lot {
            write!(f, "batch {} of lane {}: ", lot.sequence, lot.source)?;
        }
        if let Some(record) = self.record {
            write!(f, "record {record}: ")?;
        }
        self.what.fmt(f)
    }
}
