//! What users ask a teller, and what they are told.

use std::sync::Arc;

use synod_astro::{Draft, Level};
use synod_crypto::Hash;
use synod_ledger::{AccountId, Code, Entry, EntryId, Flags, Kind, Leg, Owner, Units, UserData, Verdict};
use synod_wire::List;

/// A name of a payment, and whose it is: a name of one payer is none of another's.
pub(crate) type Name = (u128, AccountId);

/// A payment by the user's name for it. Several payers may use one name; the payer may be left out where one has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// The name.
    pub id: u128,
    /// Whose payment it is, where that is said.
    pub payer: Option<AccountId>,
}

/// Something that a user orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The user's name for it; two orders of one payer and name are one order.
    pub id: u128,
    /// Whose log it stands in: who pays, sets aside or decides.
    pub from: AccountId,
    /// What is to happen.
    pub what: What,
    /// The ledger of all accounts.
    pub ledger: u32,
    /// The user's reason.
    pub code: u16,
}

/// What is to happen by an order. Amounts are in the smallest unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Pays one account.
    Pay {
        /// Who is paid.
        to: AccountId,
        /// How much.
        amount: u128,
    },
    /// Pays several accounts, all or none.
    Multi(Vec<(AccountId, u128)>),
    /// Sets money aside.
    Hold {
        /// Whom it would pay.
        to: AccountId,
        /// How much at most.
        amount: u128,
        /// Whose orders decide over it.
        resolver: AccountId,
        /// When the resolver is to void it, in ms of Unix time; nothing does by itself.
        expires_at: u64,
    },
    /// Pays what a hold set aside, or less, and frees the rest.
    Post {
        /// The hold.
        hold: Named,
        /// How much; all of it if nothing is said.
        amount: Option<u128>,
    },
    /// Frees what a hold set aside.
    Void {
        /// The hold.
        hold: Named,
    },
    /// Closes the account, or empties a closed one once more.
    Close {
        /// Who has what is left.
        to: AccountId,
        /// How much that is.
        amount: u128,
    },
    /// Gives the account another owner.
    Rekey(Owner),
    /// Gives the account another representative: a member's number.
    Move(u8),
    /// Sets how much the account may owe.
    Limit(u128),
}

impl What {
    /// The hold that it decides over.
    #[must_use]
    pub const fn hold(&self) -> Option<Named> {
        match self {
            Self::Post { hold, .. } | Self::Void { hold } => Some(*hold),
            Self::Pay { .. }
            | Self::Multi(_)
            | Self::Hold { .. }
            | Self::Close { .. }
            | Self::Rekey(_)
            | Self::Move(_)
            | Self::Limit(_) => None,
        }
    }

    /// What the ledger is to do; `held` is the hold that it decides over, with its amount.
    fn kind(&self, held: Option<(EntryId, u128)>) -> Result<Kind, Denied> {
        let decide = |verdict: &dyn Fn(u128) -> Verdict| {
            let (hold, most) = held.ok_or(Denied::Ledger(Code::HoldNotFound))?;
            let holds = List::try_from(vec![hold]).expect("one hold");
            Ok(Kind::Resolve { holds, verdict: verdict(most) })
        };
        match self {
            Self::Pay { to, amount } => Ok(Kind::Pay(Leg { to: *to, amount: Units(*amount) })),
            Self::Multi(legs) => {
                let legs = legs.iter().map(|(to, amount)| Leg { to: *to, amount: Units(*amount) });
                let legs = List::try_from(legs.collect::<Vec<_>>());
                Ok(Kind::MultiPay(legs.map_err(|_| Denied::Ledger(Code::TooManyLegs))?))
            }
            Self::Hold { to, amount, resolver, expires_at } => Ok(Kind::Hold {
                to: *to,
                amount: Units(*amount),
                resolver: *resolver,
                expires_at: *expires_at,
            }),
            Self::Post { amount, .. } => decide(&|most| {
                let amounts = vec![Units(amount.unwrap_or(most))];
                Verdict::Post(List::try_from(amounts).expect("one amount"))
            }),
            Self::Void { .. } => decide(&|_| Verdict::Void),
            Self::Close { to, amount } => Ok(Kind::Close(Leg { to: *to, amount: Units(*amount) })),
            Self::Rekey(owner) => Ok(Kind::Rekey(*owner)),
            Self::Move(representative) => Ok(Kind::Move(*representative)),
            Self::Limit(limit) => Ok(Kind::SetLimit(Units(*limit))),
        }
    }
}

/// An order as the ledger knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) id: u128,
    from: AccountId,
    kind: Kind,
    ledger: u32,
    code: u16,
    /// Its place and the digest before it, where its owner chose them by signing.
    place: Option<(EntryId, Hash)>,
}

impl Wanted {
    /// Of an order, with the hold that it decides over and its amount.
    ///
    /// # Errors
    /// SYN-3124 where it needs a hold and there is none, SYN-3128 for more legs than an entry has.
    pub(crate) fn new(order: &Order, held: Option<(EntryId, u128)>) -> Result<Self, Denied> {
        let kind = order.what.kind(held)?;
        let (id, from, ledger, code) = (order.id, order.from, order.ledger, order.code);
        Ok(Self { id, from, kind, ledger, code, place: None })
    }

    /// The order as the representative takes it.
    pub(crate) fn draft(&self) -> Draft {
        Draft {
            spender: self.from,
            kind: self.kind.clone(),
            transfer: self.id,
            ledger: self.ledger,
            code: self.code,
            user_data: UserData::default(),
            flags: Flags::default(),
        }
    }

    /// Its place in the payer's log, where its owner chose it.
    pub(crate) fn place(&self) -> Option<EntryId> {
        self.place.map(|(id, _)| id)
    }

    /// The user's name for it, and whose it is.
    pub(crate) const fn name(&self) -> Name {
        (self.id, self.from)
    }

    /// The hold that it decides over.
    pub(crate) fn held(&self) -> Option<EntryId> {
        if let Kind::Resolve { holds, .. } = &self.kind { holds.first().copied() } else { None }
    }

    /// What it pays out, if it closes its account.
    pub(crate) fn closes(&self) -> Option<u128> {
        if let Kind::Close(leg) = &self.kind { Some(leg.amount.0) } else { None }
    }

    /// The first field in which another order of the same payer and name differs.
    pub(crate) fn differs_from(&self, other: &Self) -> Option<&'static str> {
        let last = || {
            let is_placed = self.place.zip(other.place).is_none_or(|(one, other)| one == other);
            let fields = [
                ("ledger", self.ledger == other.ledger),
                ("code", self.code == other.code),
                ("n", is_placed),
            ];
            fields.into_iter().find(|(_, is_same)| !is_same).map(|(field, _)| field)
        };
        apart(&self.kind, &other.kind).or_else(last)
    }
}

impl From<&Entry> for Wanted {
    /// The order that such an entry comes of.
    fn from(entry: &Entry) -> Self {
        let Entry { id, prev, kind, transfer, ledger, code, .. } = entry;
        let (from, kind, place) = (id.spender, kind.clone(), Some((*id, *prev)));
        Self { id: *transfer, from, kind, ledger: *ledger, code: *code, place }
    }
}

/// The first field in which entries of two kinds differ.
fn apart(one: &Kind, other: &Kind) -> Option<&'static str> {
    let of =
        |pairs: &[(&'static str, bool)]| pairs.iter().find(|(_, is_same)| !is_same).map(|(field, _)| *field);
    match (one, other) {
        (one, other) if one == other => None,
        (Kind::Pay(one), Kind::Pay(other)) | (Kind::Close(one), Kind::Close(other)) => {
            of(&[("payee", one.to == other.to), ("amount", false)])
        }
        (Kind::MultiPay(_), Kind::MultiPay(_)) => Some("legs"),
        (Kind::Rekey(_), Kind::Rekey(_)) => Some("owner"),
        (Kind::Move(_), Kind::Move(_)) => Some("representative"),
        (Kind::SetLimit(_), Kind::SetLimit(_)) => Some("limit"),
        (
            Kind::Hold { to, amount, resolver, .. },
            Kind::Hold { to: payee, amount: sum, resolver: decides, .. },
        ) => of(&[
            ("payee", to == payee),
            ("amount", amount == sum),
            ("resolver", resolver == decides),
            ("expires_at", false),
        ]),
        (Kind::Resolve { holds, verdict }, Kind::Resolve { holds: others, verdict: decided }) => of(&[
            ("pending_id", holds == others),
            ("kind", matches!(verdict, Verdict::Void) == matches!(decided, Verdict::Void)),
            ("amount", false),
        ]),
        _ => Some("kind"),
    }
}

/// A payment as this node knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The entry of the payer's log.
    pub entry: Arc<Entry>,
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
    pub fn place(&self) -> EntryId {
        self.entry.id
    }

    /// The user's name for it, and whose it is.
    pub(crate) fn name(&self) -> Name {
        (self.entry.transfer, self.entry.id.spender)
    }

    /// Whether it pays what holds set aside.
    #[must_use]
    pub fn is_posting(&self) -> bool {
        matches!(self.entry.kind, Kind::Resolve { verdict: Verdict::Post(_), .. })
    }
}

/// Why something was not done; nothing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The ledger's reason.
    Ledger(Code),
    /// A payment of this name exists, with another field of this name.
    Different(&'static str),
    /// Several accounts have one of this name, and which is meant is not said.
    Ambiguous(u128),
    /// Over a bound: try again after so many milliseconds.
    Busy(u32),
    /// This node is no member of the current view, or nobody of that number ever can be one.
    NotMember,
    /// Too few operators signed the change.
    Unendorsed,
}

/// What became of a request.
pub type Asked<T> = Result<T, Denied>;

/// What a node knows under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing that has settled here, and no order that came since this node started.
    Nothing,
    /// An order that has no place yet, or had its place before this node started.
    UnderWay,
    /// This payment.
    Payment(Transfer),
}

/// The digest of an entry, which its owner signs and the next one names.
#[must_use]
pub fn digest(entry: &Entry) -> Hash {
    synod_ledger::Digests::default().entry(entry)
}

/// The word of a level, as users write and read it.
#[must_use]
pub const fn word(level: Level) -> &'static str {
    match level {
        Level::Accepted => "accepted",
        Level::Certified => "certified",
        Level::Settled => "settled",
        Level::Stable => "stable",
    }
}

/// The level of a word that users may wait for: `certified`, `settled` or `stable`.
#[must_use]
pub fn level(text: &str) -> Option<Level> {
    [Level::Certified, Level::Settled, Level::Stable].into_iter().find(|level| word(*level) == text)
}

/// What users see of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// How much it pays or sets aside, all together.
    pub amount: Option<u128>,
    /// Whom it pays, and how much each, if they are several.
    pub legs: Vec<(AccountId, u128)>,
    /// Whose orders decide over the hold that it is, and when it is to be voided.
    pub resolver: Option<(AccountId, u64)>,
    /// The holds that it decides over.
    pub holds: Vec<EntryId>,
    /// The owner that it names.
    pub owner: Option<Owner>,
    /// The representative that it names.
    pub representative: Option<u8>,
    /// The limit that it sets.
    pub limit: Option<u128>,
    /// The ledger.
    pub ledger: u32,
    /// The caller's reason.
    pub code: u16,
}

/// What users see of an entry.
#[must_use]
pub fn known(entry: &Entry) -> Known {
    let EntryId { spender, n } = entry.id;
    let mut known = Known {
        id: entry.transfer,
        kind: "pay",
        from: spender,
        n,
        to: None,
        amount: None,
        legs: Vec::new(),
        resolver: None,
        holds: Vec::new(),
        owner: None,
        representative: None,
        limit: None,
        ledger: entry.ledger,
        code: entry.code,
    };
    let sum = |amounts: &mut dyn Iterator<Item = u128>| amounts.fold(0, u128::saturating_add);
    match &entry.kind {
        Kind::Pay(leg) => (known.to, known.amount) = (Some(leg.to), Some(leg.amount.0)),
        Kind::MultiPay(legs) => {
            known.kind = "multi";
            known.amount = Some(sum(&mut legs.iter().map(|leg| leg.amount.0)));
            known.legs = legs.iter().map(|leg| (leg.to, leg.amount.0)).collect();
        }
        Kind::Hold { to, amount, resolver, expires_at } => {
            known.kind = "hold";
            (known.to, known.amount) = (Some(*to), Some(amount.0));
            known.resolver = Some((*resolver, *expires_at));
        }
        Kind::Resolve { holds, verdict } => {
            known.holds = holds.to_vec();
            match verdict {
                Verdict::Post(amounts) => {
                    known.kind = "post";
                    known.amount = Some(sum(&mut amounts.iter().map(|amount| amount.0)));
                }
                Verdict::Void => known.kind = "void",
            }
        }
        Kind::Close(leg) => {
            known.kind = "close";
            (known.to, known.amount) = (Some(leg.to), Some(leg.amount.0));
        }
        Kind::Rekey(owner) => (known.kind, known.owner) = ("rekey", Some(*owner)),
        Kind::Move(to) => (known.kind, known.representative) = ("move", Some(*to)),
        Kind::SetLimit(limit) => (known.kind, known.limit) = ("limit", Some(limit.0)),
    }
    known
}
