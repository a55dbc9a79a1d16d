//! What comes from another shard: an entry's legs into this one are credited together and once (specification, sections 4.7, 4.9).

use synod_crypto::planted;

use crate::{Amount, Book, Border, Code, Entry, EntryId, Leg, Run, Total};

impl Book {
    /// What an entry of another shard pays into this one, if all of its legs here can be credited; `None` if they were before.
    ///
    /// # Errors
    /// [`Code::WrongShard`] for an entry of this shard, or that pays nothing into it; [`Code::UnknownBeneficiary`],
    /// [`Code::LedgerMismatch`], [`Code::Overflow`], and those of [`Amount::new`].
    pub fn may_import(&self, entry: &Entry) -> Result<Option<Total>, Code> {
        let shard = self.shard();
        if entry.id.spender.shard == shard {
            return Err(Code::WrongShard);
        }
        if self.is_used(entry.id) && !planted!(A6) {
            return Ok(None);
        }
        let mut sum = Total::ZERO;
        for leg in entry.legs_into(shard) {
            let amount = Total::from(Amount::new(leg.amount)?);
            sum = sum.checked_add(amount).ok_or(Code::Overflow)?;
        }
        if sum == Total::ZERO {
            return Err(Code::WrongShard);
        }
        for leg in entry.legs_into(shard) {
            let account = self.account(leg.to).ok_or(Code::UnknownBeneficiary)?;
            if account.ledger() != entry.ledger {
                return Err(Code::LedgerMismatch);
            }
            // Several legs may be of one account: all of them together fit.
            account.credits_posted().checked_add(sum).ok_or(Code::Overflow)?;
        }
        let crossed = self.imported_from(border(entry));
        crossed.checked_add(sum).map(|_| Some(sum)).ok_or(Code::Overflow)
    }

    /// Credits what an entry of another shard pays into this one, and says whether that is new. The caller has seen that the
    /// entry is certified there.
    ///
    /// # Errors
    /// Those of [`Self::may_import`]. Nothing has changed then.
    pub fn import(&mut self, entry: &Entry) -> Result<bool, Code> {
        let Some(sum) = self.may_import(entry)? else { return Ok(false) };
        let legs: Vec<Leg> = entry.legs_into(self.shard()).copied().collect();
        for leg in legs {
            let account = self.account_mut(leg.to).expect("the beneficiary was looked at above");
            let credits = account.credits.checked_add(Total::of(leg.amount.0));
            account.credits = credits.expect("it was added up above");
        }
        let crossed = self.imported_from(border(entry)).checked_add(sum).expect("it was added up above");
        self.imported_to(border(entry), crossed);
        if !self.is_used(entry.id) {
            self.use_up(entry.id);
        }
        Ok(true)
    }

    /// Whether an entry of another shard was credited.
    #[must_use]
    pub fn is_used(&self, id: EntryId) -> bool {
        self.used().contains(id)
    }

    /// The places of other shards' logs whose entries were credited, by spender.
    pub fn used_runs(&self) -> impl Iterator<Item = (crate::AccountId, Run)> {
        self.used().runs()
    }
}

fn border(entry: &Entry) -> Border {
    Border { shard: entry.id.spender.shard, ledger: entry.ledger }
}
