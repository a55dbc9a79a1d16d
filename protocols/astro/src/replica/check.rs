//! What wallets ask: whether an entry would be endorsed, and how far a log is (specification, sections 4.1 and 4.2).

use std::sync::Arc;

use synod_crypto::PublicKey;
use synod_ledger::{AccountId, Code, Digests, Entry};
use synod_machine::Turn;
use synod_wire::List;

use super::desk::{RETRY_MS, is_self_payment};
use super::{Carrier, Replica};
use crate::wallet::{Log, OPEN_MAX};
use crate::words::{Output, Refusal};

impl<B: Carrier> Replica<B> {
    /// Whether this replica would endorse an entry, if the holder of this key signed it. It promises nothing by that.
    pub(super) fn on_check(
        &self,
        ticket: u64,
        entry: &Arc<Entry>,
        key: PublicKey,
        turn: &mut Turn<'_, Self>,
    ) {
        turn.output(Output::Checked { ticket, why: self.check(entry, key).err() });
    }

    /// # Errors
    /// The first rule that is broken, in the order in which a representative looks.
    fn check(&self, entry: &Entry, key: PublicKey) -> Result<(), Refusal> {
        if entry.id.spender.shard != self.config.view.context.shard {
            return Err(Refusal::Ledger(Code::WrongShard));
        }
        self.ledger.signs(entry, key).map_err(Refusal::Ledger)?;
        if let Some(known) = self.desk.known(entry) {
            return Err(Refusal::Exists(known));
        }
        if is_self_payment(entry) {
            return Err(Refusal::Ledger(Code::SelfPayment));
        }
        if self.leaves_money(entry) {
            return Err(Refusal::Ledger(Code::CloseNotEmpty));
        }
        match self.ledger.may_sign(entry, Digests::default().entry(entry), key) {
            Ok(Some(_)) if self.feed.is_full() || self.desk.room(&self.config.parameters) == 0 => {
                Err(Refusal::Busy(RETRY_MS))
            }
            // Who funds an entry later than this promises nothing here: in other profiles, it waits or is rejected.
            Ok(Some(_)) if !self.funds(entry) => Err(Refusal::Ledger(Code::InsufficientFunds)),
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(Refusal::Exists(entry.id)),
            Err(code) => Err(Refusal::Ledger(code)),
        }
    }

    fn funds(&self, entry: &Entry) -> bool {
        let more = self.ledger.uncollected(entry.id.spender);
        self.config.parameters.profile.funds_first() || self.ledger.could_pay(entry, more)
    }

    /// The log of an account as it is known here: as many of its open entries as one answer takes.
    pub(super) fn on_read_log(&self, ticket: u64, account: AccountId, turn: &mut Turn<'_, Self>) {
        let log = self.book().account(account).map(|standing| {
            let open = self.ledger.log(account).into_iter().flat_map(crate::xlog::Xlog::slots);
            let open = open.take(OPEN_MAX).map(|slot| slot.line.clone()).collect::<Vec<_>>();
            let open = List::try_from(open).expect("as many as it takes");
            Log { account, sequence: standing.sequence(), head: standing.head(), open }
        });
        turn.output(Output::Log { ticket, log });
    }
}
