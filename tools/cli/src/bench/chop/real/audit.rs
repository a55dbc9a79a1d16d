//! Each message once on every server: what clients know against what every server's accounts hold.
//!
//! Every message pays 1 from its author to one payee, so the balance of an account says how many messages of its client
//! were delivered, counted by the application itself. Equal consecutive messages are two payments.

use crate::context::client_addresses;
use crate::exit::bug;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use synod_config::{Genesis, SynError, code};
use synod_crypto::Hash;
use synod_host::{ClientSetup, ClusterClient, Mode, Operation, Outcome};
use synod_load::chop::client::Account;
use synod_quorum::NodeId;
use synod_service::{BatchQuestion, BatchStanding};
use synod_wire::{Blob, Bytes, Limits, Wire as _};

/// Questions that are open at one server.
const TOGETHER: usize = 512;
/// How long servers may take to have executed what was delivered.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(20);

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
    /// Servers that run.
    pub(super) servers: &'a [u32],
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
        let clients = terms.servers.iter().map(|server| client(terms.genesis, NodeId(*server)));
        let clients = clients.collect::<Result<Vec<_>, _>>()?;
        let height = settled(&clients).await?;
        let mut audit = Self { height, equal: true, ..Self::default() };
        audit.servers = u32::try_from(clients.len()).unwrap_or(0);
        let mut digests = Vec::new();
        for client in &clients {
            let balances = balances(client, accounts).await?;
            let bytes: Vec<u8> = balances.values().flat_map(|balance| balance.to_le_bytes()).collect();
            digests.push(Hash::of(&bytes));
            audit.compare((terms.grant, terms.payee), accounts, &balances);
        }
        audit.equal = digests.windows(2).all(|pair| pair[0] == pair[1]);
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

/// A session that believes one server, to look at it alone.
fn client(genesis: &Genesis, server: NodeId) -> Result<ClusterClient, SynError> {
    ClusterClient::connect(&ClientSetup {
        genesis: genesis.clone(),
        addresses: client_addresses(genesis),
        send_all: false,
        trust: "verified",
        nearest: server,
        sessions: 1,
        believe: Some(server),
    })
}

async fn ask(client: &ClusterClient, questions: Vec<BatchQuestion>) -> Result<Vec<Bytes>, SynError> {
    let body = |question: BatchQuestion| Operation { body: question.encode(), mode: Mode::Local };
    let outcomes = client.ask(questions.into_iter().map(body).collect(), ANSWER).await;
    let answer = |outcome| match outcome {
        Outcome::Accepted { value, .. } => Ok(value),
        _ => Err(SynError::of(code::NO_ANSWER, &[("address", "a server"), ("stage", "audit")])),
    };
    outcomes.into_iter().map(answer).collect()
}

/// Waits until all servers have executed the same height, twice in a row.
async fn settled(clients: &[ClusterClient]) -> Result<u64, SynError> {
    let until = Instant::now() + PATIENCE;
    let mut last = None;
    loop {
        let mut heights = Vec::new();
        for client in clients {
            let answer = ask(client, vec![BatchQuestion::Standing]).await?.pop().unwrap_or_default();
            let standing = BatchStanding::decode(answer, &Limits::default());
            heights.push(standing.map_err(|error| bug("standing", &error))?.height);
        }
        let first = heights.first().copied().unwrap_or(0);
        if heights.iter().all(|height| *height == first) && last == Some(first) {
            return Ok(first);
        }
        last = heights.iter().all(|height| *height == first).then_some(first);
        if Instant::now() >= until {
            let found = format!("heights {heights:?}");
            return Err(SynError::of(code::STATE_DIVERGENCE, &[("height", "the end"), ("nodes", &found)])
                .because("servers did not come to one height"));
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

async fn balances(client: &ClusterClient, accounts: &[Account]) -> Result<BTreeMap<u32, u64>, SynError> {
    let mut all = BTreeMap::new();
    for part in accounts.chunks(TOGETHER) {
        let question = |account: &Account| {
            let question = Blob::try_from(Bytes::copy_from_slice(&account.id.to_le_bytes()));
            let question = question.unwrap_or_else(|_| unreachable!("four bytes are a question"));
            BatchQuestion::Ask { since: 0, question }
        };
        let answers = ask(client, part.iter().map(question).collect()).await?;
        for (account, answer) in part.iter().zip(answers) {
            let balance = answer.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
            let unknown = || bug("audit", &format!("client {} has no account", account.id));
            all.insert(account.id, balance.ok_or_else(unknown)?);
        }
    }
    Ok(all)
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
