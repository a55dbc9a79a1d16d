//! What a settled entry does (Listings 3, 4 and 9 `settle`): all of it, or nothing and a code.

use synod_crypto::{Hash, planted};

use crate::{
    AccountId, Book, Border, Code, Entry, EntryId, Hold, Kind, Leg, Promised, Total, Units, Verdict, judge,
};

impl Book {
    /// Appends an entry to its log and moves the money: the spender is debited, then each beneficiary is credited, every account
    /// being read again. `digest` is the entry's.
    ///
    /// # Errors
    /// [`Code::SequenceConflict`] and [`Code::SequenceGap`] unless it is the next of its log, [`Code::ChainMismatch`] unless it
    /// continues it, or what [`judge`] says. Nothing has changed then.
    pub fn apply(&mut self, entry: &Entry, digest: Hash) -> Result<(), Code> {
        let account = self.account(entry.id.spender).ok_or(Code::UnknownAccount)?;
        let next = account.sn.saturating_add(1);
        let again = planted!(A5) && digest == account.head;
        if entry.id.n != next && !again {
            return Err(if entry.id.n < next { Code::SequenceConflict } else { Code::SequenceGap });
        }
        if entry.prev != account.head && !again {
            return Err(Code::ChainMismatch);
        }
        let debit = judge(self, entry, &Promised::NONE)?;
        self.settle(entry, debit);
        let account = self.account_mut(entry.id.spender).expect("the spender was read above");
        account.sn = entry.id.n;
        account.head = digest;
        Ok(())
    }

    /// Appends an entry whose beneficiaries are credited later, by what they claim ([`Self::collect`]): so its own log alone decides what
    /// becomes of it (Listing 9). False where the money does not suffice: its place is taken then, and nothing has moved (E19).
    ///
    /// # Errors
    /// Those of [`Self::apply`] but for a lack of money. Nothing has changed then.
    pub fn spend(&mut self, entry: &Entry, digest: Hash) -> Result<bool, Code> {
        let spender = entry.id.spender;
        let account = self.account(spender).ok_or(Code::UnknownAccount)?;
        let next = account.sn.saturating_add(1);
        if entry.id.n != next {
            return Err(if entry.id.n < next { Code::SequenceConflict } else { Code::SequenceGap });
        }
        if entry.prev != account.head {
            return Err(Code::ChainMismatch);
        }
        let judged = match judge(self, entry, &Promised::NONE) {
            Err(Code::InsufficientFunds | Code::LimitBelowUse) => None,
            debit => Some(debit?),
        };
        match (judged, &entry.kind) {
            (None, _) => {}
            (Some(debit), Kind::Pay(_) | Kind::MultiPay(_)) => self.pay(spender, entry.ledger, debit, &[]),
            (Some(debit), Kind::Close(_)) => {
                self.pay(spender, entry.ledger, debit, &[]);
                self.close(spender);
            }
            (Some(debit), _) => self.settle(entry, debit),
        }
        let account = self.account_mut(spender).expect("the spender was read above");
        (account.sn, account.head) = (entry.id.n, digest);
        Ok(judged.is_some())
    }

    /// Credits an account with what was paid to it by [`Self::spend`]. The caller sees to it that each payment is collected once.
    ///
    /// # Errors
    /// [`Code::UnknownAccount`], [`Code::Overflow`]; nothing has changed then.
    pub fn collect(&mut self, to: AccountId, sum: Total) -> Result<(), Code> {
        let account = self.account_mut(to).ok_or(Code::UnknownAccount)?;
        account.credits = account.credits.checked_add(sum).ok_or(Code::Overflow)?;
        Ok(())
    }

    /// What [`judge`] let pass.
    fn settle(&mut self, entry: &Entry, debit: Total) {
        let (spender, ledger) = (entry.id.spender, entry.ledger);
        match &entry.kind {
            Kind::Pay(leg) => self.pay(spender, ledger, debit, std::slice::from_ref(leg)),
            Kind::MultiPay(legs) => self.pay(spender, ledger, debit, legs),
            Kind::Hold { to, amount, resolver, expires_at } => {
                let hold = Hold { to: *to, amount: *amount, resolver: *resolver, expires_at: *expires_at };
                self.set_aside(entry.id, hold, debit);
            }
            Kind::Resolve { holds, verdict } => {
                for (at, id) in holds.iter().enumerate() {
                    let posted = match verdict {
                        Verdict::Post(amounts) => amounts.get(at).copied().unwrap_or_default(),
                        Verdict::Void => Units::default(),
                    };
                    self.decide(*id, ledger, posted);
                }
            }
            Kind::Close(leg) => {
                let legs = std::slice::from_ref(leg);
                self.pay(spender, ledger, debit, if leg.amount.0 == 0 { &[] } else { legs });
                self.close(spender);
            }
            Kind::Rekey(owner) => self.alter(spender, |terms| terms.owner = *owner),
            Kind::Move(representative) => {
                self.account_mut(spender).expect("the spender was judged").representative = *representative;
            }
            Kind::SetLimit(limit) => self.alter(spender, |terms| terms.limit = *limit),
        }
    }

    fn pay(&mut self, spender: AccountId, ledger: u32, debit: Total, legs: &[Leg]) {
        let account = self.account_mut(spender).expect("the spender was judged");
        account.debits = account.debits.checked_add(debit).expect("the judge added it up");
        for leg in legs {
            let to = if planted!(A6) { spender } else { leg.to };
            self.credit(to, ledger, leg.amount);
        }
    }

    fn credit(&mut self, to: AccountId, ledger: u32, amount: Units) {
        let amount = Total::of(amount.0);
        if to.shard == self.shard() {
            let account = self.account_mut(to).expect("the beneficiary was judged");
            account.credits = account.credits.checked_add(amount).expect("the judge added it up");
        } else {
            let border = Border { shard: to.shard, ledger };
            let crossed = self.exported_to(border).checked_add(amount).expect("the judge added it up");
            self.export(border, crossed);
        }
    }

    fn set_aside(&mut self, id: EntryId, hold: Hold, debit: Total) {
        let account = self.account_mut(id.spender).expect("the spender was judged");
        account.pending = account.pending.checked_add(debit).expect("the judge added it up");
        account.holds += 1;
        self.put_hold(id, hold);
    }

    /// Ends a hold: pays `posted` of it and frees the rest.
    fn decide(&mut self, id: EntryId, ledger: u32, posted: Units) {
        let hold = self.take_hold(id).expect("the hold was judged");
        let payer = self.account_mut(id.spender).expect("whoever set money aside has an account");
        payer.pending = payer.pending.checked_sub(Total::of(hold.amount.0)).expect("it was set aside");
        payer.debits =
            payer.debits.checked_add(Total::of(posted.0)).expect("what was set aside was added up");
        payer.holds -= 1;
        if posted.0 > 0 {
            self.credit(hold.to, ledger, posted);
        }
    }
}
