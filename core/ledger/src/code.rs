//! Why an entry is refused: the stable codes of the ledger, by the numbers of the error catalogue.

use synod_wire::wire;

/// Whether the same bytes may succeed later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Never.
    Permanent,
    /// Once something else has happened.
    Transient,
}

wire! {
    /// Why an entry was not taken, settled or excluded.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Code {
        /// Bad signature, or a mode or lane that this account does not have.
        4 = Unauthorized,
        /// The spender is not open.
        5 = UnknownAccount,
        /// A beneficiary of this shard is not open.
        6 = UnknownBeneficiary,
        /// An amount of 0.
        7 = AmountZero,
        /// A total would pass 2^192.
        8 = Overflow,
        /// The accounts are of different ledgers, or the entry names another.
        9 = LedgerMismatch,
        /// Somebody pays himself without [`crate::Flags::ALLOW_SELF`].
        10 = SelfPayment,
        /// n was used by another entry.
        12 = SequenceConflict,
        /// n is not the next.
        13 = SequenceGap,
        /// The entry does not continue the chain.
        14 = ChainMismatch,
        /// Less is available than the entry takes.
        15 = InsufficientFunds,
        /// The account is closed.
        18 = AccountClosed,
        /// Operators froze the account.
        19 = Frozen,
        /// Two entries were signed for a place of the log, and no certificate of one of them is known.
        20 = Conflicted,
        /// An amount of 2^96 or more.
        23 = AmountTooLarge,
        /// No open hold has this name.
        24 = HoldNotFound,
        /// The hold was posted or voided before.
        25 = HoldResolved,
        /// Somebody else was named to resolve the hold.
        26 = HoldWrongResolver,
        /// More is posted than was held, or the amounts are not one for each hold.
        27 = HoldAmountExceeded,
        /// No legs, no holds, or too many.
        28 = TooManyLegs,
        /// A limit that the registrar did not sign, or above the largest that was agreed at opening.
        29 = LimitNotCosigned,
        /// The new limit is below what is used.
        30 = LimitBelowUse,
        /// Holds are open.
        31 = CloseNotEmpty,
        /// Accounts or holds of another shard where they must be of this one.
        32 = WrongShard,
        /// The spender has as many open holds as it may.
        33 = Busy,
        /// The payment system that runs has no entries of this kind.
        42 = Unsupported,
    }
}

impl Code {
    /// Its number in the catalogue of errors, SYN-3104 and so on.
    #[must_use]
    pub const fn number(self) -> u16 {
        match self {
            Self::Unauthorized => 3104,
            Self::UnknownAccount => 3105,
            Self::UnknownBeneficiary => 3106,
            Self::AmountZero => 3107,
            Self::Overflow => 3108,
            Self::LedgerMismatch => 3109,
            Self::SelfPayment => 3110,
            Self::SequenceConflict => 3112,
            Self::SequenceGap => 3113,
            Self::ChainMismatch => 3114,
            Self::InsufficientFunds => 3115,
            Self::AccountClosed => 3118,
            Self::Frozen => 3119,
            Self::Conflicted => 3120,
            Self::AmountTooLarge => 3123,
            Self::HoldNotFound => 3124,
            Self::HoldResolved => 3125,
            Self::HoldWrongResolver => 3126,
            Self::HoldAmountExceeded => 3127,
            Self::TooManyLegs => 3128,
            Self::LimitNotCosigned => 3129,
            Self::LimitBelowUse => 3130,
            Self::CloseNotEmpty => 3131,
            Self::WrongShard => 3102,
            Self::Busy => 3402,
            Self::Unsupported => 3003,
        }
    }

    /// Whether the same bytes may succeed later.
    #[must_use]
    pub const fn class(self) -> Class {
        match self {
            Self::UnknownAccount
            | Self::UnknownBeneficiary
            | Self::SequenceGap
            | Self::InsufficientFunds
            | Self::Frozen
            | Self::Conflicted
            | Self::HoldNotFound
            | Self::LimitBelowUse
            | Self::CloseNotEmpty
            | Self::Busy => Class::Transient,
            Self::Unauthorized
            | Self::AmountZero
            | Self::Overflow
            | Self::LedgerMismatch
            | Self::SelfPayment
            | Self::SequenceConflict
            | Self::ChainMismatch
            | Self::AccountClosed
            | Self::AmountTooLarge
            | Self::HoldResolved
            | Self::HoldWrongResolver
            | Self::HoldAmountExceeded
            | Self::TooManyLegs
            | Self::LimitNotCosigned
            | Self::WrongShard
            | Self::Unsupported => Class::Permanent,
        }
    }
}
