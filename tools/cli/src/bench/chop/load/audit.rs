//! Each message once on every server: what the load broker sent against what servers signed, counted and hold.
//!
//! A server that was behind what others keep took a certified state instead of delivering. What is in that state counts as
//! delivered there as far as the state's own count of batches reaches, which its root binds, if all servers share the root of a
//! checkpoint at or above it; which messages those are the books say by height. Everything else a server must have counted itself.

use super::told::Told;
use crate::exit::bug;
use crate::servers::Servers;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use synod_config::{Address, Genesis, SynError, code};
use synod_crypto::Hash;
use synod_load::chop::broker::Books;
use synod_service::BatchStanding;
use tokio::runtime::Runtime;

/// How long servers may take to come to one height and one checkpoint.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(20);
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// Sessions with all servers.
pub(super) struct Eyes {
    runtime: Runtime,
    servers: Servers,
}

impl Eyes {
    /// Opens them.
    ///
    /// # Errors
    /// The code of whatever refused.
    pub(super) fn open(genesis: &Genesis) -> Result<Self, SynError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| bug("runtime", &error))?;
        Ok(Self { runtime, servers: Servers::connect(genesis)? })
    }

    /// Where each server stands; none of one that says nothing in time.
    pub(super) fn glance(&self, patience: Duration) -> Vec<Option<BatchStanding>> {
        self.runtime.block_on(self.servers.standing_of_each(patience))
    }

    /// The height of the newest checkpoint that every server has.
    ///
    /// # Errors
    /// SYN-2003 with a server that does not answer in time.
    pub(super) fn checkpoint_height(&self) -> Result<u64, SynError> {
        let all = self.runtime.block_on(self.servers.standings(ANSWER))?;
        Ok(all.iter().map(|standing| standing.checkpoint_height).min().unwrap_or(0))
    }
}

/// What must be there.
pub(super) struct Terms<'a> {
    /// What every account was opened with, if the application keeps money.
    pub(super) grant: Option<u64>,
    /// The servers' metrics ports.
    pub(super) metrics: &'a [Address],
    /// The height that checkpoints must have at least: that of all that was measured.
    pub(super) covered: u64,
}

/// What one server holds.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    height: u64,
    checkpoint: u64,
    checkpoint_height: u64,
    root: Hash,
    /// Balances of the sample.
    balances: Vec<u64>,
    /// What it delivered since its process started, and which heights a state stands for.
    told: Told,
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
    /// Messages that each server has in a state that it took, and did not deliver since its process started.
    taken: Vec<u64>,
    /// Whether servers hold the same root at the same checkpoint, and stand at the same height.
    equal: bool,
    height: u64,
    /// The height of the checkpoint whose roots were compared, and the one that it must have.
    checkpoint_height: u64,
    covered: u64,
    /// Small batches behind the measured ones, so that there is such a checkpoint.
    small: u64,
    /// Why batches were given up, if some were.
    why_lost: Option<String>,
    /// Accounts whose money was compared, and those with another sum.
    sample: usize,
    sample_wrong: usize,
}

impl Audit {
    /// Compares the books with all servers. With `planted` the books say one message more.
    ///
    /// # Errors
    /// Servers that do not answer or do not come to one height.
    pub(super) fn of(eyes: &Eyes, terms: &Terms<'_>, books: &Books, planted: bool) -> Result<Self, SynError> {
        let mut books = books.clone();
        books.sent.1 += u64::from(planted);
        let held = eyes.runtime.block_on(ask(&eyes.servers, terms, &books))?;
        Ok(Self::compare(&books, (terms.grant, terms.covered), &held))
    }

    fn compare(books: &Books, (grant, covered): (Option<u64>, u64), held: &[Held]) -> Self {
        let (sent, delivered) = (books.sent.1, books.delivered.1);
        let expected: Vec<u64> = match grant {
            Some(grant) => books.accounts().map(|(_, by)| grant.saturating_add_signed(by)).collect(),
            None => Vec::new(),
        };
        let mut audit = Self { servers: held.len(), sent, delivered, covered, ..Self::default() };
        (audit.small, audit.why_lost) = (books.small, books.why_lost());
        audit.lost = sent.saturating_sub(delivered);
        audit.duplicated = books.repeated;
        audit.checkpoint_height = held.iter().map(|server| server.checkpoint_height).min().unwrap_or(0);
        let same = |a: &Held, b: &Held| (a.height, a.checkpoint, a.root) == (b.height, b.checkpoint, b.root);
        audit.equal = held.windows(2).all(|pair| same(&pair[0], &pair[1]));
        // Where servers disagree no state proves anything.
        let proven = if audit.equal { audit.checkpoint_height } else { 0 };
        for server in held {
            // No other broker is there: heights are those of the batches, and of genesis.
            let batches = server.height.saturating_sub(1);
            audit.lost = audit.lost.max(books.delivered.0.saturating_sub(batches));
            audit.duplicated = audit.duplicated.max(batches.saturating_sub(books.delivered.0));
            let taken = server.told.taken_messages(books, proven);
            let counted = server.told.messages.saturating_sub(server.told.exceptions);
            audit.lost = audit.lost.max(delivered.saturating_sub(counted.saturating_add(taken)));
            let most = sent.saturating_sub(taken);
            audit.duplicated = audit.duplicated.max(server.told.messages.saturating_sub(most));
            audit.taken.push(taken);
            let wrong =
                expected.iter().zip(&server.balances).filter(|(expected, found)| expected != found).count();
            let missing = expected.len().abs_diff(server.balances.len());
            audit.sample_wrong = audit.sample_wrong.max(wrong + missing);
            audit.height = audit.height.max(server.height);
        }
        audit.sample = expected.len();
        audit
    }

    fn ok(&self) -> bool {
        (self.lost, self.duplicated, self.sample_wrong) == (0, 0, 0)
            && self.equal
            // Before the first checkpoint all roots are the same one, of nothing.
            && self.checkpoint_height >= self.covered.max(1)
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
            "{equal}; {} of {} messages delivered at height {}, and the checkpoint that all have at height {}, where it must \
             be {} at least; {} of {} accounts hold another sum; servers took {:?} messages with states",
            self.delivered,
            self.sent,
            self.height,
            self.checkpoint_height,
            self.covered,
            self.sample_wrong,
            self.sample,
            self.taken
        );
        let error = SynError::of(code::AUDIT_FAILED, &values).because(found);
        Err(match &self.why_lost {
            Some(why) => error.because(why),
            None => error,
        })
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "servers": self.servers, "sent": self.sent, "delivered": self.delivered, "lost": self.lost,
            "duplicated": self.duplicated, "taken_with_states": self.taken, "state_hash_equal": self.equal, "height": self.height,
            "checkpoint_height": self.checkpoint_height, "small_batches": self.small, "accounts": self.sample,
            "accounts_wrong": self.sample_wrong, "ok": self.ok(),
        })
    }
}

/// What each server holds, once all stand at one height and one checkpoint.
async fn ask(servers: &Servers, terms: &Terms<'_>, books: &Books) -> Result<Vec<Held>, SynError> {
    let until = Instant::now() + PATIENCE;
    let standings = loop {
        let all = servers.standings(ANSWER).await?;
        // Those that do not meet fail the comparison, which says so.
        if meet(&all, books.height, terms.covered) || Instant::now() >= until {
            break all;
        }
        tokio::time::sleep(LOOK).await;
    };
    let ids: Vec<u32> = books.accounts().map(|(id, _)| id).filter(|_| terms.grant.is_some()).collect();
    let balances = servers.balances(&ids, ANSWER).await?;
    let mut all = Vec::new();
    for ((standing, balances), metrics) in standings.iter().zip(balances).zip(terms.metrics) {
        all.push(Held {
            height: standing.height,
            checkpoint: standing.checkpoint.0,
            checkpoint_height: standing.checkpoint_height,
            root: standing.root,
            balances,
            told: Told::ask(metrics)?,
        });
    }
    Ok(all)
}

/// Whether all stand at one height and one checkpoint, and neither is below these.
fn meet(all: &[BatchStanding], height: u64, covered: u64) -> bool {
    let same = |a: &BatchStanding, b: &BatchStanding| (a.height, a.checkpoint) == (b.height, b.checkpoint);
    all.windows(2).all(|pair| same(&pair[0], &pair[1]))
        && all.iter().all(|one| one.height >= height && one.checkpoint_height >= covered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::chop::load::told::Taken;
    use synod_chopchop::batch::Refusal;
    use synod_load::chop::broker::{Books, Lost};

    type Change<'a> = &'a dyn Fn(&mut Held);

    /// Three batches of 100, 150 and 50 messages.
    fn books() -> Books {
        let mut books = Books::new(10).with(2, 100).with(3, 150).with(4, 50);
        books.sample[2] = -5;
        books
    }

    fn held() -> Held {
        let balances = (0..10).map(|id| if id == 2 { 95 } else { 100 }).collect();
        let (checkpoint, checkpoint_height, root) = (8, 4, Hash([1; 32]));
        let told = Told { height: 4, messages: 300, ..Told::default() };
        Held { height: 4, checkpoint, checkpoint_height, root, balances, told }
    }

    /// It counted so many messages, and states stand for these heights.
    fn took(held: &mut Held, messages: u64, states: &[(bool, u64, u64)]) {
        held.told.messages = messages;
        held.told.taken =
            states.iter().map(|(own, from, to)| Taken { own: *own, from: *from, to: *to }).collect();
    }

    fn found(change: impl Fn(&mut Held)) -> Audit {
        let mut other = held();
        change(&mut other);
        Audit::compare(&books(), (Some(100), 4), &[held(), other])
    }

    #[test]
    fn equal_servers_that_counted_what_was_sent_pass() {
        let audit = found(|_| {});
        assert!(audit.ok() && audit.passed().is_ok(), "{audit:?}");
        assert_eq!((audit.servers, audit.sample, audit.height), (2, 10, 4));
    }

    #[test]
    fn what_a_certified_state_stands_for_counts_as_delivered_and_nothing_else() {
        let audit = found(|held| took(held, 50, &[(false, 1, 3)]));
        assert!(audit.ok(), "it slept through two batches and took their state: {audit:?}");
        assert_eq!(audit.taken, [0, 250]);
        assert!(found(|held| took(held, 50, &[(true, 1, 2), (false, 2, 3)])).ok(), "killed, and then behind");
        assert!(found(|held| took(held, 150, &[(false, 2, 3)])).ok(), "only the second one");
        let lost: [(&str, u64, Change<'_>); 7] = [
            ("a message is lost behind the state", 1, &|held| took(held, 49, &[(false, 1, 3)])),
            ("a batch is lost behind the state", 50, &|held| took(held, 0, &[(false, 1, 3)])),
            ("a batch is lost before the state", 100, &|held| took(held, 50, &[(false, 2, 3)])),
            ("nothing was taken", 250, &|held| took(held, 50, &[])),
            ("above the checkpoint that all have", 150, &|held| {
                took(held, 50, &[(false, 1, 2), (false, 2, 5)]);
            }),
            ("two states for one height", 50, &|held| took(held, 0, &[(false, 1, 3), (false, 2, 4)])),
            ("not all states are told", 250, &|held| {
                took(held, 50, &[(false, 1, 3)]);
                held.told.untold = 1;
            }),
        ];
        for (name, lost, change) in lost {
            let audit = found(change);
            assert_eq!((audit.lost, audit.duplicated, audit.ok()), (lost, 0, false), "{name}: {audit:?}");
        }
        let twice = found(|held| took(held, 51, &[(false, 1, 3)]));
        assert_eq!((twice.lost, twice.duplicated, twice.ok()), (0, 1, false), "in the state and delivered");
        let apart = found(|held| {
            took(held, 50, &[(false, 1, 3)]);
            held.root = Hash([2; 32]);
        });
        assert_eq!((apart.taken.as_slice(), apart.ok()), (&[0, 0][..], false), "a state that nobody shares");
    }

    #[test]
    fn what_one_server_misses_has_twice_or_holds_otherwise_fails() {
        let wrong: [(&str, Change<'_>); 8] = [
            ("a checkpoint before the end", &|held| held.checkpoint_height = 3),
            ("height", &|held| held.height = 3),
            ("batch too many", &|held| held.height = 5),
            ("message too many", &|held| held.told.messages = 301),
            ("message too few", &|held| held.told.messages = 299),
            ("exception", &|held| held.told.exceptions = 1),
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
        let audit = Audit::compare(&books, (None, 4), &[held()]);
        assert_eq!((audit.lost, audit.ok()), (1, false));
        assert!(!Audit::compare(&books, (None, 4), &[]).ok(), "nobody was asked");
    }

    #[test]
    fn roots_before_the_first_checkpoint_are_no_equal_states() {
        let none = || Held { checkpoint: 0, checkpoint_height: 0, root: Hash::ZERO, ..held() };
        let audit = Audit::compare(&books(), (Some(100), 0), &[none(), none()]);
        assert!(audit.equal && !audit.ok(), "{audit:?}");
        let at = |height, checkpoint_height| BatchStanding {
            height,
            checkpoint: synod_machine::broadcast::Position(8),
            checkpoint_height,
            root: Hash::ZERO,
        };
        assert!(meet(&[at(4, 4), at(4, 4)], 4, 4) && meet(&[at(9, 5), at(9, 5)], 4, 4));
        assert!(!meet(&[at(4, 3), at(4, 3)], 4, 4) && !meet(&[at(4, 4), at(5, 4)], 4, 4));
    }

    #[test]
    fn what_was_given_up_is_told_with_its_reason() {
        let mut books = books();
        (books.sent, books.lost_for) = ((4, 400), [(Lost::Refused(Refusal::Expired), 1)].into());
        let error = Audit::compare(&books, (None, 4), &[held()]).passed().expect_err("100 are lost");
        assert!(error.to_text().contains("1 refused for Expired"), "{error:?}");
    }
}
