//! What users ask a teller, and what they are told.

use synod_astro::{Draft, Level};
use synod_crypto::Hash;
use synod_ledger::{AccountId, Code, Entry, EntryId, Flags, Kind, Leg, Units, UserData};

/// A payment that a user orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The user's name for it; two orders of one name are one order.
    pub id: u128,
    /// Who pays.
    pub from: AccountId,
    /// Who is paid.
    pub to: AccountId,
    /// How much, in the smallest unit.
    pub amount: u128,
    /// The ledger of both.
    pub ledger: u32,
    /// The user's reason.
    pub code: u16,
}

impl Order {
    /// The order as the representative takes it.
    pub(crate) fn draft(&self) -> Draft {
        Draft {
            spender: self.from,
            kind: Kind::Pay(Leg { to: self.to, amount: Units(self.amount) }),
            transfer: self.id,
            ledger: self.ledger,
            code: self.code,
            user_data: UserData::default(),
            flags: Flags::default(),
        }
    }

    /// The first field in which an entry is another payment than this order.
    pub(crate) fn differs(&self, entry: &Entry) -> Option<&'static str> {
        let Kind::Pay(leg) = &entry.kind else { return Some("kind") };
        let fields = [
            ("payer", entry.id.spender == self.from),
            ("payee", leg.to == self.to),
            ("amount", leg.amount.0 == self.amount),
            ("ledger", entry.ledger == self.ledger),
            ("code", entry.code == self.code),
        ];
        fields.into_iter().find(|(_, is_same)| !is_same).map(|(field, _)| field)
    }

    /// The first field in which another order of the same name differs.
    pub(crate) fn differs_from(&self, other: &Self) -> Option<&'static str> {
        let fields = [
            ("payer", other.from == self.from),
            ("payee", other.to == self.to),
            ("amount", other.amount == self.amount),
            ("ledger", other.ledger == self.ledger),
            ("code", other.code == self.code),
        ];
        fields.into_iter().find(|(_, is_same)| !is_same).map(|(field, _)| field)
    }
}

/// A payment as this node knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The entry of the payer's log.
    pub entry: Entry,
    /// Its digest.
    pub digest: Hash,
    /// How sure it is, as far as this node was told.
    pub level: Level,
    /// How many entries had settled here with it; 0 before it settled here.
    pub position: u64,
}

impl Transfer {
    /// Its place in the payer's log.
    #[must_use]
    pub const fn place(&self) -> EntryId {
        self.entry.id
    }
}

/// Why something was not done; nothing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The ledger's reason.
    Ledger(Code),
    /// A payment of this name exists, with another field of this name.
    Different(&'static str),
    /// Over a bound: try again after so many milliseconds.
    Busy(u32),
}

/// What became of a request.
pub type Asked<T> = Result<T, Denied>;

/// What users see of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// The caller's name for it.
    pub id: u128,
    /// What it does.
    pub kind: &'static str,
    /// Whose log it stands in.
    pub from: AccountId,
    /// Where in that log.
    pub n: u64,
    /// Whom it pays, if that is one account.
    pub to: Option<AccountId>,
    /// How much, if it is one sum.
    pub amount: Option<u128>,
    /// The ledger.
    pub ledger: u32,
    /// The caller's reason.
    pub code: u16,
}

/// What users see of a payment's entry.
#[must_use]
pub fn entry(transfer: &Transfer) -> Known {
    let entry = &transfer.entry;
    let (kind, to, amount) = match &entry.kind {
        Kind::Pay(leg) => ("pay", Some(leg.to), Some(leg.amount.0)),
        Kind::MultiPay(_) => ("multi", None, None),
        Kind::Hold { to, amount, .. } => ("hold", Some(*to), Some(amount.0)),
        Kind::Resolve { .. } => ("resolve", None, None),
        Kind::Close(leg) => ("close", Some(leg.to), Some(leg.amount.0)),
        Kind::Rekey(_) => ("rekey", None, None),
        Kind::Move(_) => ("move", None, None),
        Kind::SetLimit(_) => ("limit", None, None),
    };
    let EntryId { spender, n } = entry.id;
    Known { id: entry.transfer, kind, from: spender, n, to, amount, ledger: entry.ledger, code: entry.code }
}
