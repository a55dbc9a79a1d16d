//! Each message once on every server: what the load broker sent against what servers signed, counted and hold.

use super::ask::Server;
use crate::bench::pages::Page;
use crate::exit::bug;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use synod_config::{Address, Genesis, SynError, code};
use synod_crypto::Hash;
use synod_load::chop::broker::Books;

/// How long servers may take to come to one height and one checkpoint.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// Whom the audit asks, and what must be there.
pub(super) struct Terms<'a> {
    pub(super) genesis: &'a Genesis,
    /// What every account was opened with, if the application keeps money.
    pub(super) grant: Option<u64>,
    /// The servers' metrics ports; none of a server that was started again, for it counts anew.
    pub(super) metrics: &'a [Option<Address>],
}

/// What one server holds.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    height: u64,
    checkpoint: u64,
    root: Hash,
    /// Balances of the sample.
    balances: Vec<u64>,
    /// Messages and exceptions it counted, if it did not start again.
    counted: Option<(u64, u64)>,
}

/// What was compared, and what was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Audit {
    servers: usize,
    /// Messages sent, and those that f + 1 servers signed as delivered.
    sent: u64,
    delivered: u64,
    lost: u64,
    duplicated: u64,
    /// Whether servers hold the same root at the same checkpoint, and stand at the same height.
    equal: bool,
    height: u64,
    checkpoint_height: u64,
    /// Accounts whose money was compared, and those with another sum.
    sample: usize,
    sample_wrong: usize,
}

impl Audit {
    /// Compares the books with all servers. With `planted` the books say one message more.
    ///
    /// # Errors
    /// Servers that do not answer or do not come to one height.
    pub(super) fn of(terms: &Terms<'_>, books: &Books, planted: bool) -> Result<Self, SynError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| bug("runtime", &error))?;
        let mut books = books.clone();
        books.sent.1 += u64::from(planted);
        let held = runtime.block_on(ask(terms, &books))?;
        let mut audit =
            Self::compare(&books, terms.grant, &held.iter().map(|(held, _)| held).collect::<Vec<_>>());
        audit.checkpoint_height = held.iter().map(|(_, height)| *height).min().unwrap_or(0);
        Ok(audit)
    }

    fn compare(books: &Books, grant: Option<u64>, held: &[&Held]) -> Self {
        let (sent, delivered) = (books.sent.1, books.delivered.1);
        let expected: Vec<u64> = match grant {
            Some(grant) => books.accounts().map(|(_, by)| grant.saturating_add_signed(by)).collect(),
            None => Vec::new(),
        };
        let mut audit = Self { servers: held.len(), sent, delivered, equal: true, ..Self::default() };
        audit.lost = sent.saturating_sub(delivered);
        audit.duplicated = books.repeated;
        for server in held {
            // No other broker is there: heights are those of the batches, and of genesis.
            let batches = server.height.saturating_sub(1);
            audit.lost = audit.lost.max(books.delivered.0.saturating_sub(batches));
            audit.duplicated = audit.duplicated.max(batches.saturating_sub(books.delivered.0));
            if let Some((messages, exceptions)) = server.counted {
                audit.lost = audit.lost.max(delivered.saturating_sub(messages.saturating_sub(exceptions)));
                audit.duplicated = audit.duplicated.max(messages.saturating_sub(sent));
            }
            let wrong =
                expected.iter().zip(&server.balances).filter(|(expected, found)| expected != found).count();
            let missing = expected.len().abs_diff(server.balances.len());
            audit.sample_wrong = audit.sample_wrong.max(wrong + missing);
            audit.height = audit.height.max(server.height);
        }
        audit.sample = expected.len();
        let same =
            |a: &&Held, b: &&Held| (a.height, a.checkpoint, a.root) == (b.height, b.checkpoint, b.root);
        audit.equal = held.windows(2).all(|pair| same(&pair[0], &pair[1]));
        audit
    }

    fn ok(&self) -> bool {
        (self.lost, self.duplicated, self.sample_wrong) == (0, 0, 0)
            && self.equal
            && self.delivered > 0
            && self.servers > 0
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
        let equal = if self.equal { "servers agree" } else { "servers hold different states" };
        let found = format!(
            "{equal}; {} of {} messages delivered at height {}; {} of {} accounts hold another sum",
            self.delivered, self.sent, self.height, self.sample_wrong, self.sample
        );
        Err(SynError::of(code::AUDIT_FAILED, &values).because(found))
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "servers": self.servers, "sent": self.sent, "delivered": self.delivered, "lost": self.lost,
            "duplicated": self.duplicated, "state_hash_equal": self.equal, "height": self.height,
            "checkpoint_height": self.checkpoint_height, "accounts": self.sample,
            "accounts_wrong": self.sample_wrong, "ok": self.ok(),
        })
    }
}

/// What each server holds, and the height of its checkpoint, once all stand at one.
async fn ask(terms: &Terms<'_>, books: &Books) -> Result<Vec<(Held, u64)>, SynError> {
    let count = u32::try_from(terms.metrics.len()).unwrap_or(0);
    let servers = (0..count).map(|id| Server::call(terms.genesis, id)).collect::<Result<Vec<_>, _>>()?;
    let until = Instant::now() + PATIENCE;
    let standings = loop {
        let mut all = Vec::new();
        for server in &servers {
            all.push(server.standing().await?);
        }
        let equal = all
            .windows(2)
            .all(|pair| pair[0].height == pair[1].height && pair[0].checkpoint == pair[1].checkpoint);
        if (equal && all.iter().all(|one| one.height >= books.height)) || Instant::now() >= until {
            // Those that do not meet fail the comparison, which says so.
            break all;
        }
        tokio::time::sleep(LOOK).await;
    };
    let ids: Vec<u32> = books.accounts().map(|(id, _)| id).filter(|_| terms.grant.is_some()).collect();
    let mut all = Vec::new();
    for ((server, standing), metrics) in servers.iter().zip(standings).zip(terms.metrics) {
        let balances = if ids.is_empty() { Vec::new() } else { server.balances(&ids).await? };
        let held = Held {
            height: standing.height,
            checkpoint: standing.checkpoint.0,
            root: standing.root,
            balances,
            counted: metrics.as_ref().and_then(counted),
        };
        all.push((held, standing.checkpoint_height));
    }
    Ok(all)
}

/// Messages and exceptions that a server counted.
fn counted(metrics: &Address) -> Option<(u64, u64)> {
    let page = Page::fetch(metrics)?;
    let whole = |name: &str| format!("{:.0}", page.sum(name)?).parse().ok();
    Some((whole("synod_server_messages_total")?, whole("synod_server_exceptions_total")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_load::chop::broker::Books;

    fn books() -> Books {
        let mut books = Books::new(10);
        (books.sent, books.delivered, books.height) = ((3, 300), (3, 300), 4);
        books.sample[2] = -5;
        books
    }

    fn held() -> Held {
        let balances = (0..10).map(|id| if id == 2 { 95 } else { 100 }).collect();
        Held { height: 4, checkpoint: 8, root: Hash([1; 32]), balances, counted: Some((300, 0)) }
    }

    fn found(change: impl Fn(&mut Held)) -> Audit {
        let mut other = held();
        change(&mut other);
        Audit::compare(&books(), Some(100), &[&held(), &other])
    }

    #[test]
    fn equal_servers_that_counted_what_was_sent_pass() {
        let audit = found(|_| {});
        assert!(audit.ok() && audit.passed().is_ok(), "{audit:?}");
        assert_eq!((audit.servers, audit.sample, audit.height), (2, 10, 4));
        assert!(found(|held| held.counted = None).ok(), "a server that was started again counts anew");
    }

    #[test]
    fn what_one_server_misses_has_twice_or_holds_otherwise_fails() {
        type Change<'a> = &'a dyn Fn(&mut Held);
        let wrong: [(&str, Change<'_>); 6] = [
            ("height", &|held| held.height = 3),
            ("batch too many", &|held| held.height = 5),
            ("message too many", &|held| held.counted = Some((301, 0))),
            ("exception", &|held| held.counted = Some((300, 1))),
            ("root", &|held| held.root = Hash([2; 32])),
            ("money", &|held| held.balances[7] = 99),
        ];
        for (name, change) in wrong {
            let audit = found(change);
            assert!(!audit.ok(), "{name}: {audit:?}");
            assert_eq!(audit.passed().expect_err(name).code(), code::AUDIT_FAILED);
        }
        let mut books = books();
        books.sent.1 += 1;
        let audit = Audit::compare(&books, None, &[&held()]);
        assert_eq!((audit.lost, audit.ok()), (1, false));
        assert!(!Audit::compare(&books, None, &[]).ok(), "nobody was asked");
    }
}
