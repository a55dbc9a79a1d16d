//! Cuts: which entries a member counts at a moment, in words that all members can follow, and the root over the state behind them
//! (specification, section 4.10).
//!
//! *What a cut names.* The state of a ledger is a function of the set of settled entries: debits follow the chain of their log, and
//! credits commute. Lane positions do not name such a set, for members hold different certificates of one batch. So a [`Cut`] names a
//! batch of every lane, and the accounts whose counted places are not the ones that these batches carry: exceptions. Its proposer
//! takes exactly what has settled there, which is causally closed: whatever an entry needed had settled before it.
//!
//! *Why roots are equal.* The number of counted entries of every account follows from the cut and from the content of batches up to
//! it in the account's own registrar's lane, which certificates make the same everywhere ([`Carried`]). At most one chain of an
//! account is ever certified, so a number names a set. A member signs once it has settled all of the set; what it settled beyond it
//! takes back ([`synod_ledger::Past`]), from entries that it keeps for this with what they overwrote ([`Beyond`]). By the rule above,
//! what is left is the state of whoever settled exactly the set.
//!
//! *Bounds.* 8 bytes per account for the places that lanes carried, 131,072 settled entries, steps of [`STEPS_MAX`] batches per
//! lane, [`EXCEPTIONS_MAX`] exceptions, [`LEDGERS_MAX`] ledgers, and two states of all accounts: about 700 bytes per account. A member
//! that settled more than that beyond a cut, or is asked for one that old, does not sign it.

mod accounts;
mod carried;
mod counted;
mod proof;
mod range;
mod root;
mod words;

pub use accounts::Accounts;
pub(crate) use carried::Carried;
pub(crate) use counted::{Beyond, Counted, Lack, NoCut, Viewed, count, cut_of};
pub use proof::{Adjacent, Balance, NoProof, Proof, Shown, Shows, verify_proof};
pub(crate) use range::pieces;
pub use range::{Piece, Range, Served, StoodAt};
pub use root::OpenHold;
pub(crate) use root::{CutState, HOLDS_PER_RANGE, hold_range};
pub use words::{
    CertifiedCut, Crossed, Cut, CutCertificate, CutSign, CutSigned, CutSignedBy, EXCEPTIONS_MAX, Exception,
    LEDGERS_MAX, LaneEnd, LedgerRoot, RootRecord,
};

/// Batches of a lane that a cut may be behind the last one.
pub(crate) const STEPS_MAX: usize = 256;
