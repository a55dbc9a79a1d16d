//! A book as records: what an account is, apart from its log.

use synod_crypto::Hash;
use synod_wire::wire;

use crate::account::{CLOSED, FROZEN};
use crate::{AccountId, Book, Border, Code, EntryId, Hold, Opening, Run, Terms, Total, Units};

wire! {
    /// An account as it stands.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Standing {
        /// Its name, its terms and the member that carries it, as they are now.
        pub opening: Opening,
        /// The n of its last settled entry.
        pub sequence: u64,
        /// That entry's digest.
        pub head: Hash,
        /// All that was ever paid to it.
        pub credits: Total,
        /// All that it ever paid.
        pub debits: Total,
        /// Whether it is closed.
        pub is_closed: bool,
        /// Whether operators froze it.
        pub is_frozen: bool,
    }

    /// A part of a book. Accounts come in the order of their names, each hold behind its payer.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Part {
        /// An account without its holds.
        0 = Account(Standing),
        /// An open hold.
        1 = Hold {
            /// Its name.
            id: EntryId,
            /// What it sets aside.
            hold: Hold,
        },
        /// What left for another shard.
        2 = Exported {
            /// Where to.
            border: Border,
            /// How much in all.
            total: Total,
        },
        /// What came from another shard.
        3 = Imported {
            /// Where from.
            border: Border,
            /// How much in all.
            total: Total,
        },
        /// Entries of another shard that were credited.
        4 = Used {
            /// Of whose log.
            spender: AccountId,
            /// Their places.
            run: Run,
        },
    }
}

impl Book {
    /// An account as it stands; `None` before it is opened.
    #[must_use]
    pub fn standing(&self, id: AccountId) -> Option<Standing> {
        let (account, (terms, limit_max)) = (self.account(id)?, self.terms(id)?);
        let terms: Terms = terms.clone();
        let (ledger, representative) = (account.ledger, account.representative);
        Some(Standing {
            opening: Opening { id, ledger, terms, limit_max, representative },
            sequence: account.sn,
            head: account.head,
            credits: account.credits,
            debits: account.debits,
            is_closed: account.is_closed(),
            is_frozen: account.is_frozen(),
        })
    }

    /// Gives the parts from which [`Self::restore`] makes an equal book.
    pub fn parts(&self, put: &mut dyn FnMut(Part)) {
        for (id, _) in self.accounts() {
            put(Part::Account(self.standing(id).expect("it is an account of this book")));
        }
        for (id, hold) in self.holds() {
            put(Part::Hold { id: *id, hold: *hold });
        }
        for (border, total) in self.exported() {
            put(Part::Exported { border: *border, total: *total });
        }
        for (border, total) in self.imported() {
            put(Part::Imported { border: *border, total: *total });
        }
        for (spender, run) in self.used_runs() {
            put(Part::Used { spender, run });
        }
    }

    /// Takes a part in.
    ///
    /// # Errors
    /// Those of [`Self::open`]; [`Code::UnknownAccount`] for a hold of nobody, [`Code::Overflow`] for one beyond all sums,
    /// [`Code::HoldResolved`] for one that was there before; [`Code::SequenceConflict`] for used places that were. Nothing has changed then.
    pub fn restore(&mut self, part: Part) -> Result<(), Code> {
        match part {
            Part::Account(standing) => self.restore_account(&standing),
            Part::Hold { id, hold } => self.restore_hold(id, hold),
            Part::Exported { border, total } => {
                self.export(border, total);
                Ok(())
            }
            Part::Imported { border, total } => {
                self.imported_to(border, total);
                Ok(())
            }
            Part::Used { spender, run } if self.use_again(spender, run) => Ok(()),
            Part::Used { .. } => Err(Code::SequenceConflict),
        }
    }

    fn restore_account(&mut self, standing: &Standing) -> Result<(), Code> {
        self.open(&standing.opening)?;
        let account = self.account_mut(standing.opening.id).expect("it was opened above");
        account.sn = standing.sequence;
        account.head = standing.head;
        account.credits = standing.credits;
        account.debits = standing.debits;
        let closed = if standing.is_closed { CLOSED } else { 0 };
        account.marks = closed | if standing.is_frozen { FROZEN } else { 0 };
        Ok(())
    }

    fn restore_hold(&mut self, id: EntryId, hold: Hold) -> Result<(), Code> {
        if self.hold(id).is_some() {
            return Err(Code::HoldResolved);
        }
        let payer: AccountId = id.spender;
        let Units(amount) = hold.amount;
        let account = self.account_mut(payer).ok_or(Code::UnknownAccount)?;
        account.pending = account.pending.checked_add(Total::of(amount)).ok_or(Code::Overflow)?;
        account.holds = account.holds.checked_add(1).ok_or(Code::Overflow)?;
        self.put_hold(id, hold);
        Ok(())
    }
}
