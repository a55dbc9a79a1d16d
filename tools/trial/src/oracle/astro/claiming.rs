//! Money that those whom it was paid collect (profile II), by hand: A-S5 to A-S8 of dependencies.
//!
//! A payment is credited once to each whom it pays, by the first of their entries that spends it, whether it has settled here or
//! not. An entry that is not paid for then takes its place, and moves nothing else.

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::Hash;
use synod_ledger::{AccountId, Entry};

use super::reckoning::{Owed, StateSeen, legs};
use super::{Reckoning, Texts, paid_to};
use crate::oracle::{Breach, Verdict, breach};

/// Payments on their way to whom they pay.
#[derive(Clone, Debug, Default)]
pub(super) struct Claims {
    /// Settled and not collected, with what each pays.
    owed: BTreeMap<Owed, u128>,
    /// Collected and not settled, with what was credited.
    ahead: BTreeMap<Owed, u128>,
}

impl Reckoning {
    /// Accounts whose owners collect what they are paid.
    #[must_use]
    pub fn claiming() -> Self {
        let mut accounts = Self::default();
        accounts.claims = Some(Claims::default());
        accounts
    }

    /// Payments to an account that it has not collected, and what they are worth.
    pub fn owed(&self) -> impl Iterator<Item = (Owed, u128)> {
        self.claims.iter().flat_map(|claims| claims.owed.iter().map(|(owed, amount)| (*owed, *amount)))
    }

    /// What an account can spend, with what it can collect.
    #[must_use]
    pub fn spendable(&self, id: AccountId) -> u128 {
        let comes: u128 = self.owed().filter(|((to, _), _)| *to == id).map(|(_, amount)| amount).sum();
        self.purses.get(&id).map_or(0, |purse| purse.available().saturating_add(comes))
    }

    /// What an account can spend by one entry, where its institution may have room for the two largest payments alone.
    #[must_use]
    pub fn spendable_at_once(&self, id: AccountId) -> u128 {
        let comes = self.owed().filter(|((to, _), _)| *to == id).map(|(_, amount)| amount);
        let mut comes: Vec<u128> = comes.collect();
        comes.sort_unstable_by(|one, other| other.cmp(one));
        let most: u128 = comes.into_iter().take(2).sum();
        self.purses.get(&id).map_or(0, |purse| purse.available().saturating_add(most))
    }

    /// A payment that was collected and has not settled.
    #[must_use]
    pub fn ahead(&self) -> Option<Owed> {
        self.claims.iter().flat_map(|claims| claims.ahead.keys()).next().copied()
    }

    /// An entry settles, and is paid or rejected.
    ///
    /// # Errors
    /// What it breaks: A-S6 where it is paid without money, or rejected with it; A-S8 where what it collects is no payment.
    pub fn spend(&mut self, texts: &Texts, entry: &Entry, digest: Hash, is_paid: bool) -> Verdict {
        self.check_place(entry)?;
        let (id, spender) = (entry.id, entry.id.spender);
        for with in texts.backed(&digest) {
            let Some(payment) = texts.get(&with.digest).filter(|payment| payment.id == with.id) else {
                return breach("A-S8", format!("{id:?} spends {:?}, which nobody showed", with.id));
            };
            let sum = paid_to(payment, spender);
            self.collect((spender, with.id), sum);
        }
        let taken = Self::taken(&entry.kind);
        let (Some(purse), Some(claims)) = (self.purses.get_mut(&spender), &mut self.claims) else {
            return Ok(());
        };
        if is_paid != (taken <= purse.available()) {
            let word = if is_paid { "is paid" } else { "is rejected" };
            return breach("A-S6", format!("{id:?} {word}: {taken} of {}", purse.available()));
        }
        (purse.sequence, purse.head) = (id.n, digest);
        let to: BTreeSet<AccountId> = legs(&entry.kind).iter().map(|leg| leg.to).collect();
        if !is_paid {
            return match to.into_iter().find(|to| claims.ahead.contains_key(&(*to, id))) {
                Some(to) => breach("A-S8", format!("{to} spent {id:?}, which is rejected")),
                None => Ok(()),
            };
        }
        purse.debits += taken;
        for to in to {
            let sum = paid_to(entry, to);
            match claims.ahead.remove(&(to, id)) {
                Some(credited) if credited != sum => {
                    return breach("A-S7", format!("{to} was credited {credited} by {id:?}, and paid {sum}"));
                }
                Some(_) => {}
                None => drop(claims.owed.insert((to, id), sum)),
            }
        }
        Ok(())
    }

    /// Credits a payment, unless it was.
    fn collect(&mut self, owed: Owed, sum: u128) {
        let settled = self.purses.get(&owed.1.spender).map_or(0, |purse| purse.sequence);
        let Some(claims) = &mut self.claims else { return };
        let amount = match claims.owed.remove(&owed) {
            Some(amount) => amount,
            None if owed.1.n <= settled || claims.ahead.contains_key(&owed) => return,
            None => {
                claims.ahead.insert(owed, sum);
                sum
            }
        };
        if let Some(purse) = self.purses.get_mut(&owed.0) {
            purse.credits += amount;
        }
    }

    /// What is owed and what was collected ahead, once that is compared with what a state shows of it.
    ///
    /// # Errors
    /// A-S7: it is something else.
    pub(super) fn under_way(&self, state: &StateSeen) -> Result<(u128, u128), Breach> {
        let Some(claims) = &self.claims else { return Ok((0, 0)) };
        if let Some((owed, ahead)) = &state.under_way {
            let own: BTreeSet<Owed> = claims.ahead.keys().copied().collect();
            if *owed != claims.owed || *ahead != own {
                let what = format!(
                    "{owed:?} can be collected, ahead {ahead:?}; entries make {:?}, ahead {own:?}",
                    claims.owed
                );
                return Err(Breach { checker: "A-S7", what });
            }
        }
        Ok((claims.owed.values().sum(), claims.ahead.values().sum()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use synod_crypto::Hash;
    use synod_ledger::{
        AccountId, Entry, EntryId, Flags, Kind, Leg, Opening, Owner, Terms, Units, UserData, genesis,
    };

    use super::Reckoning;
    use crate::oracle::Verdict;
    use crate::oracle::astro::{Backed, BatchSeen, Texts};

    fn account(local: u64) -> AccountId {
        AccountId { shard: 0, registrar: 0, local }
    }

    fn accounts() -> Reckoning {
        let mut accounts = Reckoning::claiming();
        for local in 1..=3 {
            let limit = Units(if local == 1 { 100 } else { 0 });
            let (owner, user_data) = (Owner::Custodial(0), UserData::default());
            let terms = Terms { owner, recovery: None, limit, code: 0, user_data };
            let (id, limit_max) = (account(local), limit);
            accounts.open(&Opening { id, ledger: 1, terms, limit_max, representative: 0 });
        }
        accounts
    }

    fn pays(from: u64, (n, prev): (u64, Hash), to: u64, amount: u128) -> (Entry, Hash) {
        let id = EntryId { spender: account(from), n };
        let kind = Kind::Pay(Leg { to: account(to), amount: Units(amount) });
        let (user_data, flags) = (UserData::default(), Flags::default());
        let entry = Entry { id, prev, kind, transfer: 0, ledger: 1, code: 0, user_data, flags };
        (entry, Hash::of(format!("{from} {n} {amount}").as_bytes()))
    }

    /// A batch with one entry, which spends these.
    fn show(texts: &mut Texts, (entry, digest): &(Entry, Hash), with: &[&(Entry, Hash)]) {
        texts.entry(*digest, entry);
        let with = with.iter().map(|one| Backed { id: one.0.id, digest: one.1 }).collect();
        let (lines, backed) = (vec![(entry.id, *digest)], BTreeMap::from([(0, with)]));
        texts.show(Hash::of(&digest.0), BatchSeen { lines, backed, ..BatchSeen::default() });
    }

    fn fired(verdict: Verdict) -> &'static str {
        verdict.map_or_else(|breach| breach.checker, |()| "")
    }

    #[test]
    fn a_payment_is_collected_once_and_what_it_does_not_pay_for_is_rejected() {
        let (mut texts, mut accounts) = (Texts::default(), accounts());
        let money = pays(1, (1, genesis(account(1))), 2, 50);
        let first = pays(2, (1, genesis(account(2))), 3, 30);
        let again = pays(2, (2, first.1), 3, 30);
        show(&mut texts, &money, &[]);
        show(&mut texts, &first, &[&money]);
        show(&mut texts, &again, &[&money]);
        let spend = |accounts: &mut Reckoning, one: &(Entry, Hash), is_paid| {
            fired(accounts.spend(&texts, &one.0, one.1, is_paid))
        };
        assert_eq!(spend(&mut accounts, &money, true), "");
        assert_eq!((accounts.spendable(account(2)), accounts.spendable_at_once(account(2))), (50, 50));
        assert_eq!(spend(&mut accounts.clone(), &first, false), "A-S6", "there is money for it");
        assert_eq!(spend(&mut accounts, &first, true), "");
        assert_eq!(spend(&mut accounts.clone(), &again, true), "A-S6", "20 are left");
        assert_eq!(spend(&mut accounts, &again, false), "");
        assert_eq!(accounts.spendable(account(2)), 20);
        assert_eq!(spend(&mut accounts, &again, false), "A-S2", "it has its place");
    }

    #[test]
    fn what_was_collected_before_it_settled_settles_and_is_what_it_was_said_to_be() {
        let (mut texts, mut accounts) = (Texts::default(), accounts());
        let money = pays(1, (1, genesis(account(1))), 2, 50);
        let more = pays(1, (1, genesis(account(1))), 2, 70);
        let spends = pays(2, (1, genesis(account(2))), 3, 30);
        show(&mut texts, &money, &[]);
        show(&mut texts, &more, &[]);
        show(&mut texts, &spends, &[&money]);
        assert_eq!(fired(accounts.spend(&texts, &spends.0, spends.1, true)), "");
        assert_eq!(accounts.ahead(), Some((account(2), money.0.id)));
        let settles =
            |one: &(Entry, Hash), is_paid| fired(accounts.clone().spend(&texts, &one.0, one.1, is_paid));
        assert_eq!(settles(&more, true), "A-S7", "50 were credited");
        let mut poor = pays(1, (1, genesis(account(1))), 2, 500);
        poor.1 = money.1;
        assert_eq!(settles(&poor, false), "A-S8", "what is rejected was spent");
        assert_eq!(fired(accounts.spend(&texts, &money.0, money.1, true)), "");
        assert_eq!(accounts.ahead(), None);
    }

    #[test]
    fn what_a_member_shows_of_money_on_its_way_is_what_entries_make() {
        let (mut texts, mut accounts) = (Texts::default(), accounts());
        let money = pays(1, (1, genesis(account(1))), 2, 50);
        show(&mut texts, &money, &[]);
        assert_eq!(fired(accounts.spend(&texts, &money.0, money.1, true)), "");
        let owed = |amount| BTreeMap::from([((account(2), money.0.id), amount)]);
        let shown = |owed| crate::oracle::astro::StateSeen {
            under_way: Some((owed, BTreeSet::new())),
            ..Default::default()
        };
        assert_eq!(accounts.under_way(&shown(owed(50))).map_err(|breach| breach.checker), Ok((50, 0)));
        for wrong in [owed(51), BTreeMap::new()] {
            let told = accounts.under_way(&shown(wrong)).map_err(|breach| breach.checker);
            assert_eq!(told, Err("A-S7"));
        }
    }
}
