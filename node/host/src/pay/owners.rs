//! What wallets of owners who sign for themselves ask a node: whether it would endorse an entry, that it carries one, how far a log is.

use std::sync::Arc;

use synod_astro::wallet::Log;
use synod_astro::{Input, Level, Line, Refusal};
use synod_crypto::PublicKey;
use synod_ledger::{AccountId, Entry};
use tokio::sync::oneshot;

use super::Teller;
use super::orders::Open;
use super::teller::{Answer, RETRY_MS};
use super::words::{Denied, Transfer, Wanted};

impl Teller {
    /// Whether this node would endorse an entry, if the holder of this key signed it. A payment that has its name is another one.
    pub fn check(&self, entry: Arc<Entry>, key: PublicKey) -> Answer<()> {
        let (reply, answer) = oneshot::channel();
        if !self.is_ready() {
            self.knock();
            let _ = reply.send(Err(self.unready()));
            return answer;
        }
        let wanted = Wanted::from(&*entry);
        if let Some(known) = self.ordered(wanted.name()) {
            // A name that is taken for the same content is taken by an entry of another place, or by this one.
            let _ = reply.send(Err(Denied::Different(wanted.differs_from(&known).unwrap_or("n"))));
            return answer;
        }
        let ticket = self.state().next(Open::Check(reply));
        if !self.give(Input::Check { ticket, entry, key }) {
            self.refuse(ticket, Denied::Busy(RETRY_MS));
        }
        answer
    }

    /// The replica looked at an entry.
    pub(super) fn on_looked_at(&self, ticket: u64, why: Option<Refusal>) {
        let Some(Open::Check(reply)) = self.state().answered(ticket) else { return };
        let answer = match why {
            None => Ok(()),
            Some(Refusal::Ledger(code)) => Err(Denied::Ledger(code)),
            Some(Refusal::Busy(ms)) => Err(Denied::Busy(ms)),
            Some(Refusal::Exists(_)) => Err(Denied::Different("n")),
        };
        // Who asked may have gone.
        let _ = reply.send(answer);
    }

    /// Carries an entry that its owner signed, whoever opened the account; the answer comes once it is as sure as `until`.
    pub fn submit(&self, line: Line, until: Level) -> Answer<Transfer> {
        let (reply, answer) = oneshot::channel();
        if self.is_ready() {
            let order = Wanted::from(&*line.entry);
            self.take(order, |ticket| Input::Signed { ticket, line }, (until, reply));
        } else {
            self.knock();
            let _ = reply.send(Err(self.unready()));
        }
        answer
    }

    /// How far the log of an account is at this node; none of an account that is not open here.
    pub fn log(&self, account: AccountId) -> Answer<Option<Log>> {
        let (reply, answer) = oneshot::channel();
        if self.has_nobody() {
            // Who asked may have gone.
            let _ = reply.send(Err(Denied::NotMember));
            return answer;
        }
        let ticket = self.state().next(Open::Log(reply));
        if !self.give(Input::ReadLog { ticket, account }) {
            self.refuse(ticket, Denied::Busy(RETRY_MS));
        }
        answer
    }
}
