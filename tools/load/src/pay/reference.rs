//! The reference: the ledger alone, on one thread, without replicas.

use super::bank::{Bank, Draw, payment};
use std::time::{Duration, Instant};
use synod_ledger::{Book, Digests, Entry, EntryId};

/// Applies `count` payments to one book, and gives how many it applied and how long that took: digests, checks and books, no
/// signatures, no copies. `None` where the genesis or an entry does not fit, which a plan's do.
#[must_use]
pub fn reference(bank: &Bank, count: u64) -> Option<(u64, Duration)> {
    let mut book = Book::new(0);
    bank.genesis().iter().try_for_each(|opening| book.open(opening)).ok()?;
    let digests = Digests::default();
    for registrar in 0..bank.plan.nodes {
        for draft in bank.funding(registrar) {
            let entry = placed(&book, draft)?;
            book.apply(&entry, digests.entry(&entry)).ok()?;
        }
    }
    let mut draw = Draw::new(7);
    let drafts: Vec<_> = (0..count)
        .map(|at| {
            let registrar = u8::try_from(at % u64::from(bank.plan.nodes)).unwrap_or(0);
            payment(bank, registrar, &mut draw, (1 << 64) + u128::from(at))
        })
        .collect();
    let begin = Instant::now();
    let mut applied = 0;
    for draft in drafts {
        let entry = placed(&book, draft)?;
        book.apply(&entry, digests.entry(&entry)).ok()?;
        applied += 1;
    }
    Some((applied, begin.elapsed()))
}

/// The next entry of its spender.
fn placed(book: &Book, draft: synod_astro::Draft) -> Option<Entry> {
    let account = book.account(draft.spender)?;
    let synod_astro::Draft { spender, kind, transfer, ledger, code, user_data, flags } = draft;
    let id = EntryId { spender, n: account.sequence() + 1 };
    Some(Entry { id, prev: account.head(), kind, transfer, ledger, code, user_data, flags })
}
