//! Every account at every node against the load's own books.

use super::books::Books;
use super::setup::{Shown, accounts};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use synod_config::{Address, SynError, code};

/// How long the nodes may take until all is settled everywhere.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(100);

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Audit {
    nodes: usize,
    accounts: usize,
    /// Places of payments that nobody was told of, and places that were told twice.
    lost: u64,
    duplicated: u64,
    /// Accounts that stand otherwise at a node than in the books of the load.
    wrong: u64,
    /// Units that were made or went at some node.
    unbalanced: u64,
    books_equal: bool,
}

impl Audit {
    pub(crate) fn ok(&self) -> bool {
        self.accounts > 0
            && (self.lost, self.duplicated, self.wrong, self.unbalanced) == (0, 0, 0, 0)
            && self.books_equal
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "ok": self.ok(), "lost": self.lost, "duplicated": self.duplicated, "nodes": self.nodes,
            "accounts": self.accounts, "wrong_accounts": self.wrong, "books_equal": self.books_equal,
            "conserved": self.unbalanced == 0,
        })
    }

    /// What it found, for people.
    pub(crate) fn sentence(&self) -> String {
        let Self { nodes, accounts, lost, duplicated, wrong, .. } = self;
        format!(
            "{lost} lost, {duplicated} duplicated, {wrong} of {accounts} accounts wrong at {nodes} nodes; books equal: {}",
            self.books_equal
        )
    }

    /// Whether it found nothing.
    ///
    /// # Errors
    /// SYN-6009 with what it found.
    pub(crate) fn passed(&self) -> Result<(), SynError> {
        if self.ok() {
            return Ok(());
        }
        let (lost, duplicated) = (self.lost.to_string(), self.duplicated.to_string());
        let values = [("lost", lost.as_str()), ("duplicated", duplicated.as_str())];
        Err(SynError::of(code::AUDIT_FAILED, &values).because(format!("{self:?}")))
    }
}

/// A row of an account: credits, debits, entries.
type Row = (u128, u128, u64);

/// Reads every account at every node until all stand as in the books, or time is up.
///
/// # Errors
/// A node that does not answer.
pub(crate) fn audit(places: &[Address], mut books: Books) -> Result<Audit, SynError> {
    let (lost, duplicated) = books.misplaced();
    let until = Instant::now() + PATIENCE;
    loop {
        let shown: Vec<Vec<Shown>> = places.iter().map(accounts).collect::<Result<_, _>>()?;
        let found = Audit { lost, duplicated, ..judge(&books, &shown) };
        // What was told wrongly stays wrong.
        if found.ok() || lost + duplicated > 0 || Instant::now() >= until {
            return Ok(found);
        }
        std::thread::sleep(LOOK);
    }
}

fn judge(books: &Books, nodes: &[Vec<Shown>]) -> Audit {
    let wanted: BTreeMap<String, Row> = books
        .accounts
        .iter()
        .enumerate()
        .map(|(customer, account)| {
            let entries = account.places.len() as u64;
            (books.id(customer).to_string(), (account.credits, account.debits, entries))
        })
        .collect();
    let mut found = Audit { nodes: nodes.len(), accounts: wanted.len(), ..Audit::default() };
    found.books_equal = nodes.iter().all(|node| Some(node) == nodes.first());
    for node in nodes {
        let (mut credits, mut debits) = (0_u128, 0_u128);
        let mut known = 0;
        for shown in node {
            let row = row(shown);
            let is_quiet = shown.pending == "0" && shown.open_entries == 0;
            let stands = row.is_some_and(|(credits, debits, _)| adds_up(shown, credits, debits));
            let is_known = wanted.get(&shown.id).is_none_or(|wanted| Some(*wanted) == row);
            known += usize::from(wanted.contains_key(&shown.id));
            found.wrong += u64::from(!(is_quiet && stands && is_known));
            credits += row.map_or(0, |row| row.0);
            debits += row.map_or(0, |row| row.1);
        }
        found.wrong += (wanted.len() - known) as u64;
        found.unbalanced += u64::try_from(credits.abs_diff(debits)).unwrap_or(u64::MAX);
    }
    found
}

/// What an account has is what came less what went, and the limit that it may use.
fn adds_up(shown: &Shown, credits: u128, debits: u128) -> bool {
    let (limit, available) = (shown.limit.parse::<u128>(), shown.available.parse::<u128>());
    matches!((limit, available), (Ok(limit), Ok(available)) if credits + limit == debits + available)
}

fn row(shown: &Shown) -> Option<Row> {
    Some((shown.credits.parse().ok()?, shown.debits.parse().ok()?, shown.entries.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::super::books::Payment;
    use super::*;

    fn shown(id: &str, (credits, debits): (u128, u128), entries: u64, limit: u128) -> Shown {
        let available = (credits + limit - debits).to_string();
        Shown {
            id: id.to_owned(),
            credits: credits.to_string(),
            debits: debits.to_string(),
            available,
            pending: "0".to_owned(),
            limit: limit.to_string(),
            entries: entries.to_string(),
            open_entries: 0,
        }
    }

    /// An issuer who gave 10 to each of two customers, the first of whom paid 5 to the other.
    fn system() -> (Books, Vec<Shown>) {
        let mut books = Books::new(1, 2);
        books.grant(10);
        books.paid(&Payment { id: 1, from: 0, to: 1, amount: 5 }, 1);
        let rows = vec![
            shown("0-0-1", (0, 20), 2, 100),
            shown("0-0-2", (10, 5), 1, 0),
            shown("0-0-3", (15, 0), 0, 0),
        ];
        (books, rows)
    }

    #[test]
    fn books_that_agree_everywhere_pass() {
        let (books, rows) = system();
        let found = judge(&books, &[rows.clone(), rows]);
        assert!(found.ok(), "{found:?}");
        assert_eq!((found.nodes, found.accounts), (2, 2));
        assert!(!judge(&Books::new(1, 0), &[Vec::new()]).ok(), "nothing was audited");
    }

    #[test]
    fn each_difference_at_one_node_is_found() {
        let (books, rows) = system();
        let changes: [fn(&mut Vec<Shown>); 6] = [
            |rows| drop(rows.pop()),
            |rows| rows[1] = shown("0-0-2", (10, 6), 1, 0),
            |rows| rows[1].entries = "2".to_owned(),
            |rows| rows[2].pending = "1".to_owned(),
            |rows| rows[0].available = "81".to_owned(),
            |rows| rows[2].open_entries = 1,
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let mut other = rows.clone();
            change(&mut other);
            assert!(!judge(&books, &[rows.clone(), other]).ok(), "change {number}");
        }
        // Where all nodes agree on books in which a unit was made, the sums do not.
        let mut made = rows.clone();
        made[0] = shown("0-0-1", (0, 19), 2, 100);
        let found = judge(&books, &[made.clone(), made]);
        assert!(!found.ok() && found.unbalanced == 2 && found.books_equal, "{found:?}");
    }
}
