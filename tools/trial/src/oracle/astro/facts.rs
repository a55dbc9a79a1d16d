//! What customers ordered and owners signed, and which members may do anything: the truth that settled entries are held against.

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::Hash;
use synod_ledger::{AccountId, Entry, Kind, Opening, Owner};

use super::Texts;
use crate::oracle::{Verdict, breach};

/// What was asked for.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    openings: BTreeMap<AccountId, Opening>,
    liars: BTreeSet<u32>,
    /// Entries that owners signed.
    signed: BTreeSet<Hash>,
    /// Owners that sign two entries for one place.
    equivocators: BTreeSet<AccountId>,
    /// How often customers ordered something, by account and name.
    ordered: BTreeMap<(AccountId, u128), (Kind, u64)>,
    /// Entries that settled for an order, by account and name.
    served: BTreeMap<(AccountId, u128), BTreeSet<Hash>>,
    /// Accounts that institutions were asked to open.
    wanted: BTreeSet<AccountId>,
    /// Whether what an owner signs is carried by its representative alone.
    registers: bool,
}

impl Facts {
    /// Of a system in which nobody but its representative carries what an owner signs.
    #[must_use]
    pub fn registering() -> Self {
        Self { registers: true, ..Self::default() }
    }

    /// An account that there is from the beginning, or that opened.
    pub fn open(&mut self, opening: Opening) {
        self.openings.insert(opening.id, opening);
    }

    /// The opening of an account.
    #[must_use]
    pub fn opening(&self, id: AccountId) -> Option<&Opening> {
        self.openings.get(&id)
    }

    /// All accounts that were ever open anywhere.
    pub fn openings(&self) -> impl Iterator<Item = &Opening> {
        self.openings.values()
    }

    /// A member need not follow the protocol, from now on.
    pub fn fault(&mut self, node: u32) {
        self.liars.insert(node);
    }

    /// Whether a member always followed the protocol.
    #[must_use]
    pub fn honest(&self, node: u32) -> bool {
        !self.liars.contains(&node)
    }

    /// An owner signs an entry.
    pub fn sign(&mut self, digest: Hash) {
        self.signed.insert(digest);
    }

    /// An owner lies.
    pub fn lie(&mut self, account: AccountId) {
        self.equivocators.insert(account);
    }

    /// Whether an account's entries are its owner's, who never signs two for one place, or those of an institution that never
    /// lied.
    #[must_use]
    pub fn is_sound(&self, account: AccountId) -> bool {
        let institution = match self.openings.get(&account).map(|opening| opening.terms.owner) {
            Some(Owner::Custodial(member)) => u32::from(member),
            Some(_) => return !self.equivocators.contains(&account),
            None => return false,
        };
        self.honest(institution)
    }

    /// Whether an account is a customer's of this institution, which never lied.
    #[must_use]
    pub fn is_customer(&self, account: AccountId, institution: u8) -> bool {
        let owner = self.openings.get(&account).map(|opening| opening.terms.owner);
        owner == Some(Owner::Custodial(institution)) && self.honest(u32::from(institution))
    }

    /// A customer orders something of its institution.
    pub fn order(&mut self, spender: AccountId, transfer: u128, kind: &Kind) {
        let ordered = self.ordered.entry((spender, transfer)).or_insert_with(|| (kind.clone(), 0));
        ordered.1 += 1;
    }

    /// An order did not reach its institution.
    pub fn not_ordered(&mut self, spender: AccountId, transfer: u128) {
        if let Some((_, times)) = self.ordered.get_mut(&(spender, transfer)) {
            *times = times.saturating_sub(1);
        }
    }

    /// An institution is asked to open an account.
    pub fn want(&mut self, id: AccountId) {
        self.wanted.insert(id);
    }

    /// Whether an account may open: its registrar was asked, or lies.
    ///
    /// # Errors
    /// A-S2.
    pub fn may_open(&self, id: AccountId) -> Verdict {
        if self.honest(id.registrar) && !self.wanted.contains(&id) {
            return breach("A-S2", format!("account {id} opens, and nobody asked for it"));
        }
        Ok(())
    }

    /// An entry settles somewhere, under a digest; its owner would have signed another.
    ///
    /// # Errors
    /// A-S2: nobody who may authorized it, it came in the wrong lane, or it settles more often than it was ordered.
    pub fn settled(&mut self, texts: &Texts, entry: &Entry, (digest, signed): (Hash, Hash)) -> Verdict {
        let spender = entry.id.spender;
        let Some(opening) = self.openings.get(&spender) else {
            return breach("A-S2", format!("an entry of {spender} settles, which is not open"));
        };
        let Owner::Custodial(institution) = opening.terms.owner else {
            if self.registers && !texts.carries(opening.representative, &digest) {
                return breach("A-S2", format!("{:?} settles, carried by another", entry.id));
            }
            return match self.signed.contains(&signed) {
                true => Ok(()),
                false => breach("A-S2", format!("{:?} settles, and its owner never signed it", entry.id)),
            };
        };
        if !texts.carries(institution, &digest) {
            return breach("A-S2", format!("{:?} settles, and its institution never broadcast it", entry.id));
        }
        if !self.honest(u32::from(institution)) {
            return Ok(());
        }
        let name = (spender, entry.transfer);
        let served = self.served.entry(name).or_default();
        served.insert(digest);
        match self.ordered.get(&name) {
            Some((kind, times)) if *kind == entry.kind && served.len() as u64 <= *times => Ok(()),
            Some((kind, times)) if *kind == entry.kind => breach(
                "A-S10",
                format!("order {} of {spender} was given {times} times and settles again", entry.transfer),
            ),
            _ => breach("A-S2", format!("{:?} settles, and nobody ordered it", entry.id)),
        }
    }
}
