//! Each message once on every server: what clients know against what every server's accounts hold.
//!
//! Every message pays 1 from its author to one payee, so the balance of an account says how many messages of its client
//! were delivered, counted by the application itself. Equal consecutive messages are two payments.

use crate::exit::bug;
use crate::servers::Servers;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use synod_config::{Genesis, SynError, code};
use synod_load::chop::client::Account;

/// How long servers may take to have executed what was delivered.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a server may take to tell the balances of all accounts.
const TELLING: Duration = Duration::from_secs(300);

/// What was compared, and what was found.
#[derive(Clone, Debug, Default)]
pub(super) struct Audit {
    /// Servers that were asked.
    servers: u32,
    /// Clients whose messages were counted.
    clients: u64,
    /// Messages of those that keep the rules, as they know them.
    confirmed: u64,
    /// Messages that a client has a confirmation of and a server has not.
    pub(super) lost: u64,
    /// Messages that a server has and their client never sent, or sent once.
    pub(super) duplicated: u64,
    /// Messages of clients that break rules and were delivered all the same.
    of_invalid: u64,
    /// Whether every server holds the same balances at the same height.
    pub(super) equal: bool,
    /// Messages that were begun and not confirmed when the run ended.
    open: u64,
    height: u64,
}

/// What an account was opened with, and whom every message pays.
pub(super) struct Terms<'a> {
    pub(super) genesis: &'a Genesis,
    pub(super) grant: u64,
    pub(super) payee: u32,
}

impl Audit {
    /// Asks every server for every account.
    ///
    /// # Errors
    /// Servers that do not answer.
    pub(super) fn of(terms: &Terms<'_>, accounts: &[Account]) -> Result<Self, SynError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| bug("runtime", &error))?;
        runtime.block_on(Self::ask(terms, accounts))
    }

    async fn ask(terms: &Terms<'_>, accounts: &[Account]) -> Result<Self, SynError> {
        let servers = Servers::connect(terms.genesis)?;
        let height = servers.settled(PATIENCE).await?;
        let mut audit = Self { height, equal: true, ..Self::default() };
        let ids: Vec<u32> = accounts.iter().map(|account| account.id).collect();
        let held = servers.balances(&ids, TELLING).await?;
        audit.servers = u32::try_from(held.len()).unwrap_or(0);
        audit.equal = held.windows(2).all(|pair| pair[0] == pair[1]);
        for balances in held {
            let balances = ids.iter().copied().zip(balances).collect();
            audit.compare((terms.grant, terms.payee), accounts, &balances);
        }
        audit.clients = accounts.len() as u64;
        let keeps = accounts.iter().filter(|account| account.keeps_rules);
        audit.confirmed = keeps.map(|account| u64::from(account.confirmed)).sum();
        let open = accounts.iter().filter(|account| account.keeps_rules);
        audit.open = open.map(|account| u64::from(account.begun - account.confirmed)).sum();
        Ok(audit)
    }

    /// The worst of all servers counts.
    fn compare(&mut self, (grant, payee): (u64, u32), accounts: &[Account], balances: &BTreeMap<u32, u64>) {
        let (mut lost, mut duplicated, mut of_invalid) = (0, 0, 0);
        for account in accounts.iter().filter(|account| account.id != payee) {
            let paid = balances.get(&account.id).map_or(0, |balance| grant.saturating_sub(*balance));
            let (begun, confirmed) = (u64::from(account.begun), u64::from(account.confirmed));
            if account.keeps_rules {
                lost += confirmed.saturating_sub(paid);
                // What is in flight may be delivered without its client having heard of it.
                duplicated += paid.saturating_sub(begun);
            } else {
                of_invalid += paid;
                duplicated += paid.saturating_sub(begun);
            }
        }
        self.lost = self.lost.max(lost);
        self.duplicated = self.duplicated.max(duplicated);
        self.of_invalid = self.of_invalid.max(of_invalid);
    }

    fn ok(&self) -> bool {
        self.lost == 0 && self.duplicated == 0 && self.equal && self.confirmed > 0
    }

    /// Nothing, if nothing is wrong.
    ///
    /// # Errors
    /// SYN-6009 with what is wrong.
    pub(super) fn passed(&self) -> Result<(), SynError> {
        if self.ok() {
            return Ok(());
        }
        let values = [("lost", &*self.lost.to_string()), ("duplicated", &*self.duplicated.to_string())];
        let equal = if self.equal { "servers agree" } else { "servers hold different balances" };
        let found = format!("{equal}; {} messages confirmed at height {}", self.confirmed, self.height);
        Err(SynError::of(code::AUDIT_FAILED, &values).because(found))
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "servers": self.servers, "clients": self.clients, "confirmed": self.confirmed, "open": self.open,
            "lost": self.lost, "duplicated": self.duplicated, "of_invalid_clients": self.of_invalid,
            "state_hash_equal": self.equal, "height": self.height, "ok": self.ok(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(id: u32, keeps_rules: bool, begun: u32, confirmed: u32) -> Account {
        Account { id, keeps_rules, begun, confirmed }
    }

    fn compared(accounts: &[Account], paid: &[(u32, u64)]) -> Audit {
        let balances = paid.iter().map(|(id, paid)| (*id, 100 - paid)).collect();
        let mut audit = Audit { equal: true, confirmed: 1, ..Audit::default() };
        audit.compare((100, 9), accounts, &balances);
        audit
    }

    #[test]
    fn a_message_that_is_missing_or_twice_fails_and_one_in_flight_does_not() {
        let accounts = [account(1, true, 3, 2), account(2, true, 2, 2)];
        for open in [2, 3] {
            let audit = compared(&accounts, &[(1, open), (2, 2)]);
            assert!(audit.ok(), "{audit:?}");
        }
        let audit = compared(&accounts, &[(1, 1), (2, 2)]);
        assert_eq!((audit.lost, audit.duplicated, audit.ok()), (1, 0, false));
        let audit = compared(&accounts, &[(1, 2), (2, 4)]);
        assert_eq!((audit.lost, audit.duplicated, audit.ok()), (0, 2, false));
        assert_eq!(audit.passed().expect_err("it failed").code(), code::AUDIT_FAILED);
    }

    #[test]
    fn clients_that_break_rules_may_lose_their_own_messages_but_gain_none() {
        let accounts = [account(1, false, 3, 2)];
        let audit = compared(&accounts, &[(1, 0)]);
        assert!(audit.ok() && audit.of_invalid == 0);
        assert!(!compared(&accounts, &[(1, 4)]).ok());
    }
}
