//! What people want: payments to one and to several, to themselves, to nobody, of nothing, of all, of too much; money set aside and
//! decided over; accounts.

use synod_astro::Profile;
use synod_ledger::{AccountId, EntryId, Kind, Leg, Owner, Units, Verdict};
use synod_sim::Stream;

use super::book::Book;
use super::plan::{People, account};

/// What somebody wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Want {
    /// A customer orders something of its institution.
    Order(AccountId, Kind),
    /// An owner signs something.
    Sign(AccountId, Kind),
    /// An owner who lies signs two entries for one place.
    Double(AccountId, [Kind; 2]),
    /// An institution opens an account, whose owner signs or not.
    Open(u32, bool),
    /// Somebody orders of a member what is not its customer's.
    Stray(u32, AccountId, Kind),
}

/// Draws what people want.
pub struct Crowd<'a> {
    /// What is known.
    pub book: &'a Book,
    /// Who has accounts.
    pub people: &'a People,
}

impl Crowd<'_> {
    fn registrar(&self, stream: &mut Stream) -> u32 {
        u32::try_from(stream.below(u64::from(self.people.members))).unwrap_or(0)
    }

    /// An account that is open somewhere.
    fn anybody(&self, stream: &mut Stream) -> AccountId {
        let all: Vec<AccountId> = self.book.facts.openings().map(|opening| opening.id).collect();
        stream.pick(&all).copied().unwrap_or(account(0, 1))
    }

    /// Whom somebody pays: seldom nobody, or an account of another shard.
    fn beneficiary(&self, stream: &mut Stream) -> AccountId {
        let somebody = self.anybody(stream);
        match stream.below(40) {
            0 => AccountId { local: 99, ..somebody },
            1 => AccountId { shard: 4, ..somebody },
            _ => somebody,
        }
    }

    fn amount(&self, spender: AccountId, stream: &mut Stream) -> u128 {
        let has = self.book.available(spender, 1);
        let most = u64::try_from(has.min(1_000)).unwrap_or(1).max(1);
        let small = u128::from(stream.log_uniform(1, most));
        match stream.below(100) {
            0..70 => small,
            70..80 if spender.local > 1 => has,
            80..88 => has.saturating_add(1),
            88..90 => 0,
            // What no money ever comes for would keep its log up for good where it waits.
            90 if self.people.profile != Profile::I => (1 << 96) - 1,
            91 => 1 << 96,
            92 => 1 << 127,
            93 => u128::MAX,
            _ => u128::from(most),
        }
    }

    fn pay(&self, spender: AccountId, stream: &mut Stream) -> Kind {
        let (to, amount) = (self.beneficiary(stream), Units(self.amount(spender, stream)));
        Kind::Pay(Leg { to, amount })
    }

    fn several(&self, spender: AccountId, stream: &mut Stream) -> Kind {
        let count = stream.between(2, 4);
        let whole = self.amount(spender, stream);
        // What is beyond one payment may be beyond all of them together only.
        let share = if whole < (1 << 96) - 1 { whole / u128::from(count) } else { 1 << 95 };
        let leg = |stream: &mut Stream| Leg { to: self.beneficiary(stream), amount: Units(share) };
        let legs: Vec<Leg> = (0..count).map(|_| leg(stream)).collect();
        legs.try_into().map_or_else(|_| self.pay(spender, stream), Kind::MultiPay)
    }

    fn hold(&self, spender: AccountId, stream: &mut Stream) -> Kind {
        let (to, amount) = (self.anybody(stream), Units(self.amount(spender, stream)));
        Kind::Hold { to, amount, resolver: self.anybody(stream), expires_at: stream.below(1 << 40) }
    }

    /// Somebody decides over money that was set aside.
    fn resolve(&self, stream: &mut Stream) -> Option<(AccountId, Kind)> {
        let all: Vec<(EntryId, AccountId, u128)> = self
            .book
            .reckonings
            .values()
            .flat_map(|reckoning| reckoning.holds().map(|(id, held)| (id, held.resolver, held.amount)))
            .collect();
        let (hold, resolver, amount) = *stream.pick(&all)?;
        let mut holds = vec![hold];
        let mut amounts = vec![amount];
        let other = all.iter().find(|(id, by, _)| *by == resolver && *id != hold);
        if let Some((id, _, amount)) = other.filter(|_| stream.chance(400_000)) {
            holds.push(*id);
            amounts.push(*amount);
        }
        let verdict = match stream.below(8) {
            0..3 => Verdict::Void,
            3 => Verdict::Post(
                amounts.iter().map(|amount| Units(amount + 1)).collect::<Vec<_>>().try_into().ok()?,
            ),
            4..6 => Verdict::Post(
                amounts.iter().map(|amount| Units(amount.div_ceil(2))).collect::<Vec<_>>().try_into().ok()?,
            ),
            _ => Verdict::Post(amounts.into_iter().map(Units).collect::<Vec<_>>().try_into().ok()?),
        };
        Some((resolver, Kind::Resolve { holds: holds.try_into().ok()?, verdict }))
    }

    /// Who acts on an account.
    fn by(&self, spender: AccountId, kind: Kind) -> Want {
        let signs = self.book.facts.opening(spender).map(|opening| opening.terms.owner);
        match signs {
            Some(Owner::SelfSigned(_)) => Want::Sign(spender, kind),
            _ => Want::Order(spender, kind),
        }
    }

    /// What somebody wants next.
    #[must_use]
    pub fn want(&self, stream: &mut Stream) -> Want {
        let registrar = self.registrar(stream);
        let one = match stream.below(10) {
            0..4 => People::issuer(registrar),
            _ => self.anybody(stream),
        };
        let poor = self.book.available(one, 1) == 0 && stream.chance(800_000);
        let spender = if poor { People::issuer(one.registrar) } else { one };
        if let Some(liar) = self.people.liar(registrar).filter(|_| stream.chance(250_000)) {
            return Want::Double(liar, [self.pay(liar, stream), self.pay(liar, stream)]);
        }
        match stream.below(100) {
            0..56 => self.by(spender, self.pay(spender, stream)),
            56..68 => self.by(spender, self.several(spender, stream)),
            68..80 if self.people.profile != Profile::II || stream.chance(100_000) => {
                self.by(spender, self.hold(spender, stream))
            }
            68..91 => match self.resolve(stream) {
                Some((resolver, kind)) => self.by(resolver, kind),
                None => self.by(spender, self.pay(spender, stream)),
            },
            91..96 => Want::Open(registrar, stream.chance(500_000)),
            _ => Want::Stray(registrar, spender, self.pay(spender, stream)),
        }
    }

    /// What puts money where there is none: an issuer pays an account.
    #[must_use]
    pub fn fund(&self, to: AccountId, stream: &mut Stream) -> Want {
        let amount = Units(u128::from(stream.log_uniform(20, 500)));
        let issuer = People::issuer(self.registrar(stream));
        Want::Order(issuer, Kind::Pay(Leg { to, amount }))
    }
}
