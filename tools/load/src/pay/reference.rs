//! The reference: the ledgers of all shards alone, on one thread, without replicas.

use super::bank::Bank;
use super::orders::{Drawn, Orders};
use std::time::{Duration, Instant};
use synod_ledger::{AccountId, Book, Code, Digests, Entry, EntryId};

/// Payments that are drawn in one go.
const CHUNK: u64 = 4_096;

/// Applies `count` payments to one book of each shard, and gives how many it applied and how long that took: digests, checks and books, no
/// signatures, no copies. `None` where the genesis or an entry does not fit, which a plan's do; what a customer has no money for is left out.
#[must_use]
pub fn reference(bank: &Bank, count: u64) -> Option<(u64, Duration)> {
    let mut books: Vec<Book> = (0..bank.plan.shards).map(Book::new).collect();
    for book in &mut books {
        let genesis = bank.genesis(book.shard());
        genesis.iter().try_for_each(|opening| book.open(opening)).ok()?;
    }
    let digests = Digests::default();
    for at in bank.places() {
        for draft in bank.funding(at) {
            apply(&mut books, draft, &digests).ok()?;
        }
    }
    let mut drawn = Drawn::default();
    let mut all: Vec<_> = bank.places().map(|at| (at, Orders::of(bank, at))).collect();
    let institutions = all.len().max(1);
    let (mut given, mut applied, mut spent) = (0_u64, 0, Duration::ZERO);
    while given < count {
        let mut drafts = Vec::new();
        // The load is drawn beside the clock.
        for _ in 0..CHUNK.min(count - given) {
            let (at, orders) = all.get_mut(usize::try_from(given).ok()? % institutions)?;
            let has = |id: AccountId| books.get(usize::from(id.shard)).map_or(0, |book| available(book, id));
            drafts.extend(orders.next((bank, *at), (1 << 64) + u128::from(given), &mut drawn, has));
            given += 1;
        }
        let begin = Instant::now();
        for draft in drafts {
            match apply(&mut books, draft, &digests) {
                Ok(()) => applied += 1,
                Err(Code::InsufficientFunds) => {}
                Err(_) => return None,
            }
        }
        spent += begin.elapsed();
    }
    Some((applied, spent))
}

/// What an account can pay, as a number.
pub(super) fn available(book: &Book, id: AccountId) -> u128 {
    let [_, _, _, _, _, _, _, _, low @ ..] = book.available(id).unwrap_or_default().to_be_bytes();
    u128::from_be_bytes(low)
}

fn apply(books: &mut [Book], draft: synod_astro::Draft, digests: &Digests) -> Result<(), Code> {
    let own = draft.spender.shard;
    let book = books.get_mut(usize::from(own)).ok_or(Code::WrongShard)?;
    let entry = placed(book, draft).ok_or(Code::UnknownAccount)?;
    book.apply(&entry, digests.entry(&entry))?;
    let legs = entry.legs();
    let abroad = legs.iter().map(|leg| leg.to.shard).filter(|shard| *shard != own);
    for shard in abroad.collect::<std::collections::BTreeSet<_>>() {
        books.get_mut(usize::from(shard)).ok_or(Code::WrongShard)?.import(&entry)?;
    }
    Ok(())
}

/// The next entry of its spender.
fn placed(book: &Book, draft: synod_astro::Draft) -> Option<Entry> {
    let account = book.account(draft.spender)?;
    let synod_astro::Draft { spender, kind, transfer, ledger, code, user_data, flags } = draft;
    let id = EntryId { spender, n: account.sequence() + 1 };
    Some(Entry { id, prev: account.head(), kind, transfer, ledger, code, user_data, flags })
}
