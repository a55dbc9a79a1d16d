//! What a teller promises, with a replica spoken by hand.

mod claims;
mod codes;
mod cuts;
mod formats;
mod holds;
mod logs;
mod many;
mod names;
mod receipts;
mod runs;
mod views;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use synod_astro::{Draft, Input, Level, Output, Refusal};
use synod_crypto::{Hash, Keys, Seed};
use synod_ledger::{AccountId, Code, Digests, Entry, EntryId, genesis};
use synod_machine::broadcast::{Context, View};
use synod_quorum::{Epoch, Member, Roster};

use super::words::Wanted;
use super::{Claim, Denied, Index, Kept, Order, Seat, Teller, Transfer, WAITING_MAX, What};

/// A directory that goes with its test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("synod-pay-{}-{next}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// The keys of a member of four.
fn keys(member: u8) -> Keys {
    Keys::ed25519(&Seed::new([member + 1; 32]), [9; 32])
}

fn view() -> View {
    let members = (0..4).map(|member| Member { key: keys(member).public(), power: 1 });
    let roster = Roster::new(Epoch(0), members.collect()).expect("distinct members");
    let context = Context { shard: 0, view: Hash([5; 32]) };
    View { cluster: Hash([4; 32]), roster: Arc::new(roster), context }
}

/// What node 0 knows of its index: nothing.
fn claim() -> Claim {
    Claim { cluster: Hash([4; 32]), member: 0, seat: Seat::default(), kept: 0, last: u64::MAX }
}

fn account(registrar: u32, local: u64) -> AccountId {
    AccountId { shard: 0, registrar, local }
}

fn order(id: u128, amount: u128) -> Order {
    paying(id, account(1, 2), amount)
}

fn paying(id: u128, to: AccountId, amount: u128) -> Order {
    Order { id, from: account(0, 1), what: What::Pay { to, amount }, ledger: 1, code: 0 }
}

/// The order as the replica takes it.
fn draft(order: &Order) -> Draft {
    Wanted::new(order, None).expect("it needs no hold").draft()
}

/// The entry that a replica makes of a draft.
fn entry(draft: &Draft, n: u64) -> (Entry, Hash) {
    let Draft { spender, kind, transfer, ledger, code, user_data, flags } = draft.clone();
    let id = EntryId { spender, n };
    let entry = Entry { id, prev: genesis(spender), kind, transfer, ledger, code, user_data, flags };
    let digest = Digests::default().entry(&entry);
    (entry, digest)
}

/// A teller, and what it asked.
struct Counter {
    teller: Arc<Teller>,
    asked: Arc<Mutex<Vec<Input>>>,
    // Last, so that the index is closed before.
    folder: Arc<Folder>,
}

impl Counter {
    fn new() -> Self {
        Self::at(Arc::new(Folder::new()))
    }

    fn at(folder: Arc<Folder>) -> Self {
        let teller = Teller::open(&folder.0, &claim(), Arc::new(view())).expect("an index");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&asked);
        teller.begin(Box::new(move |input| {
            heard.lock().expect("no panic").push(input);
            true
        }));
        let early = teller.pay(&order(99, 5), Level::Settled).try_recv().expect("at once");
        assert_eq!(early, Err(Denied::Busy(50)), "what settled before is not told yet");
        teller.hear(Output::Looked { ticket: 0, accounts: Vec::new() });
        assert!(teller.is_ready());
        Self { teller, asked, folder }
    }

    /// The orders that were given, with their tickets.
    fn orders(&self) -> Vec<(u64, Draft)> {
        let asked = self.asked.lock().expect("no panic");
        let orders = asked.iter().filter_map(|input| match input {
            Input::Order { ticket, draft } => Some((*ticket, draft.clone())),
            _ => None,
        });
        orders.collect()
    }

    /// The replica takes the nth order as the nth entry.
    fn accept(&self, nth: usize) -> (Entry, Hash) {
        let (ticket, draft) = self.orders()[nth].clone();
        let (entry, digest) = entry(&draft, nth as u64 + 1);
        self.teller.hear(Output::Accepted { ticket, entry: entry.clone().into(), digest });
        (entry, digest)
    }

    /// Waits until the index has all that was told.
    fn kept(&self) {
        assert_eq!(self.teller.kept().blocking_recv().expect("it is answered"), Ok(()));
    }

    /// The replica settles an entry, and its receipts come.
    fn settle(&self, position: u64, (entry, digest): (Entry, Hash), level: Level) {
        let (id, transfer) = (entry.id, entry.transfer);
        self.teller.hear(Output::Progress { level: Level::Certified, entries: vec![(id, transfer)] });
        self.teller.hear(Output::Settled { first: position, entries: vec![(entry.into(), digest)] });
        if level > Level::Certified {
            self.teller.hear(Output::Progress { level, entries: vec![(id, transfer)] });
        }
    }

    /// Stops the teller, and opens one in the same place.
    fn again(self) -> Self {
        self.teller.end();
        let Self { teller, folder, .. } = self;
        drop(teller);
        Self::at(folder)
    }
}

type Answer = super::Answer<Transfer>;

fn told(answer: &mut Answer) -> Result<Transfer, Denied> {
    answer.try_recv().expect("it is answered")
}

#[test]
fn an_order_is_given_once_however_often_it_is_asked() {
    let counter = Counter::new();
    let mut answers: Vec<Answer> =
        (0..3).map(|_| counter.teller.pay(&order(7, 5), Level::Certified)).collect();
    assert_eq!(counter.orders().len(), 1);
    let other = counter.teller.pay(&order(7, 6), Level::Certified).try_recv().expect("at once");
    assert_eq!(other, Err(Denied::Different("amount")));
    let accepted = counter.accept(0);
    assert!(answers.iter_mut().all(|answer| answer.try_recv().is_err()), "one member's word is no outcome");
    counter.settle(1, accepted.clone(), Level::Certified);
    for answer in &mut answers {
        let transfer = told(answer).expect("paid");
        assert_eq!((transfer.digest, transfer.level), (accepted.1, Level::Certified));
    }
}

#[test]
fn who_waits_is_told_when_a_payment_is_as_sure_as_wanted() {
    let counter = Counter::new();
    let mut stable = counter.teller.pay(&order(7, 5), Level::Stable);
    let mut settled = counter.teller.pay(&order(7, 5), Level::Settled);
    let accepted = counter.accept(0);
    counter.settle(1, accepted.clone(), Level::Settled);
    assert_eq!(told(&mut settled).expect("paid").level, Level::Settled);
    assert!(stable.try_recv().is_err());
    let (id, transfer) = (accepted.0.id, accepted.0.transfer);
    counter.teller.hear(Output::Progress { level: Level::Stable, entries: vec![(id, transfer)] });
    assert_eq!(told(&mut stable).expect("paid").level, Level::Stable);
}

#[test]
fn a_refusal_is_told_and_the_name_can_be_used_again() {
    let counter = Counter::new();
    let mut answer = counter.teller.pay(&order(7, 5), Level::Settled);
    let (ticket, _) = counter.orders()[0].clone();
    let why = Refusal::Ledger(Code::InsufficientFunds);
    counter.teller.hear(Output::Refused { ticket, why });
    assert_eq!(told(&mut answer), Err(Denied::Ledger(Code::InsufficientFunds)));
    let _second = counter.teller.pay(&order(7, 5), Level::Settled);
    assert_eq!(counter.orders().len(), 2);
}

#[test]
fn a_payment_that_settled_is_known_after_a_restart_and_happens_no_second_time() {
    let counter = Counter::new();
    let _answer = counter.teller.pay(&order(7, 5), Level::Settled);
    let accepted = counter.accept(0);
    counter.settle(1, accepted.clone(), Level::Stable);
    let counter = counter.again();
    let mut answer = counter.teller.pay(&order(7, 5), Level::Stable);
    let transfer = told(&mut answer).expect("it was paid");
    assert_eq!((transfer.digest, transfer.position), (accepted.1, 1));
    let other = counter.teller.pay(&paying(7, account(2, 2), 5), Level::Settled).try_recv();
    assert_eq!(other.expect("at once"), Err(Denied::Different("payee")));
    assert_eq!(counter.orders().len(), 0);
}

/// What settled before a crash is told again at the start, and orders may come before the index has it.
#[test]
fn a_payment_that_is_told_again_at_a_start_is_known_before_the_index_has_it() {
    let counter = Counter::new();
    let (paid, digest) = entry(&draft(&order(7, 5)), 1);
    let held = counter.teller.index().hold();
    counter.teller.hear(Output::Settled { first: 1, entries: vec![(paid.into(), digest)] });
    let mut answer = counter.teller.pay(&order(7, 5), Level::Certified);
    assert_eq!(told(&mut answer).expect("it was paid").digest, digest);
    assert!(counter.orders().is_empty(), "it is not paid again");
    drop(held);
    counter.teller.end();
    assert_eq!(counter.teller.index().position(), 1);
}

#[test]
fn an_order_under_way_at_a_crash_is_answered_by_what_became_of_it() {
    let counter = Counter::new();
    let draft = draft(&order(7, 5));
    let mut answer = counter.teller.pay(&order(7, 5), Level::Certified);
    let (ticket, _) = counter.orders()[0].clone();
    // The replica recovered it from its log and knows the name.
    let (entry, digest) = entry(&draft, 1);
    counter.teller.hear(Output::Refused { ticket, why: Refusal::Exists(entry.id) });
    assert!(answer.try_recv().is_err());
    counter.settle(1, (entry, digest), Level::Certified);
    assert_eq!(told(&mut answer).expect("paid").digest, digest);
    // Another payment of that name was under way: that is what is told.
    let mut answer = counter.teller.pay(&order(8, 5), Level::Certified);
    let (ticket, _) = counter.orders()[1].clone();
    let (other, digest) = self::entry(&self::draft(&order(8, 9)), 2);
    counter.teller.hear(Output::Refused { ticket, why: Refusal::Exists(other.id) });
    counter.settle(2, (other, digest), Level::Certified);
    assert_eq!(told(&mut answer), Err(Denied::Different("amount")));
}

#[test]
fn the_replica_hears_how_much_is_kept() {
    let counter = Counter::new();
    for nth in 0..3_u64 {
        let _answer = counter.teller.pay(&order(u128::from(nth) + 1, 5), Level::Settled);
        let accepted = counter.accept(usize::try_from(nth).expect("few"));
        counter.settle(nth + 1, accepted, Level::Certified);
    }
    counter.teller.end();
    let asked = counter.asked.lock().expect("no panic");
    let kept = asked
        .iter()
        .filter_map(|input| if let Input::Kept(position) = input { Some(*position) } else { None });
    assert_eq!(kept.max(), Some(3));
}

#[test]
fn the_index_keeps_accounts_in_the_order_in_which_they_settled_and_levels_never_fall() {
    let folder = Folder::new();
    let entries: Vec<Entry> = (1..=5_u64).map(|n| entry(&draft(&order(u128::from(n), 5)), n).0).collect();
    let settled = |from: u64| {
        let all = (1_u64..).zip(entries.clone()).filter(move |(position, _)| *position >= from);
        all.map(|(position, entry)| Kept::Settled(position, entry.into())).collect::<Vec<_>>()
    };
    let index = Index::open(&folder.0, &claim()).expect("an index");
    assert_eq!(index.keep(settled(1)), 5);
    assert_eq!(index.keep(settled(3)), 5, "what is kept is passed over");
    index.keep(vec![
        Kept::Level(entries[1].id, 2, Level::Stable),
        Kept::Level(entries[1].id, 2, Level::Settled),
    ]);
    drop(index);
    let index = Index::open(&folder.0, &claim()).expect("an index");
    assert_eq!(
        (index.position(), index.entry(entries[1].id).map(|known| known.level)),
        (5, Some(Level::Stable))
    );
    let names = |account: AccountId, after: u64, max: usize| {
        let found = index.history(account, after, max);
        found.entries.iter().map(|known| known.entry.transfer).collect::<Vec<_>>()
    };
    for account in [account(0, 1), account(1, 2)] {
        assert_eq!(names(account, 0, 9), [1, 2, 3, 4, 5]);
        assert_eq!(names(account, 2, 2), [3, 4]);
    }
    assert!(names(account(0, 2), 0, 9).is_empty());
    assert_eq!(index.payers(4), [account(0, 1)]);
    assert!(index.payers(6).is_empty());
}

/// A level that the replica told before the index has it reaches whoever asked in between.
#[test]
fn a_level_is_told_to_who_asks_while_the_index_is_behind() {
    let counter = Counter::new();
    let _first = counter.teller.pay(&order(7, 5), Level::Certified);
    let accepted = counter.accept(0);
    let held = counter.teller.index().hold();
    counter.settle(1, accepted, Level::Stable);
    let mut answer = counter.teller.pay(&order(7, 5), Level::Stable);
    assert_eq!(told(&mut answer).expect("it is stable").level, Level::Stable);
    drop(held);
    counter.teller.end();
}

/// A commit on its way to the disk holds up neither orders nor questions: they come on the thread of the listeners.
#[test]
fn nobody_waits_for_a_commit_of_the_index() {
    let counter = Counter::new();
    let _first = counter.teller.pay(&order(7, 5), Level::Certified);
    let accepted = counter.accept(0);
    counter.settle(1, accepted.clone(), Level::Settled);
    counter.kept();
    let held = counter.teller.index().hold();
    let index = counter.teller.index();
    assert_eq!(index.position(), 1);
    assert_eq!(index.entry(accepted.0.id).map(|known| known.level), Some(Level::Settled));
    assert_eq!(index.history(account(0, 1), 0, 9).entries.len(), 1);
    let mut again = counter.teller.pay(&order(7, 5), Level::Settled);
    assert_eq!(told(&mut again).expect("it was paid").digest, accepted.1);
    let _other = counter.teller.pay(&order(8, 5), Level::Settled);
    assert_eq!(counter.orders().len(), 2, "a new order is given");
    drop(held);
}

#[test]
fn who_waits_no_more_makes_room_and_more_than_64_callers_wait_for_no_order() {
    let counter = Counter::new();
    for _ in 0..1_000 {
        drop(counter.teller.pay(&order(7, 5), Level::Stable));
    }
    let ask = || counter.teller.pay(&order(7, 5), Level::Stable);
    let mut waiting: Vec<Answer> = (0..WAITING_MAX).map(|_| ask()).collect();
    assert_eq!(told(&mut ask()), Err(Denied::Busy(50)));
    assert!(waiting.iter_mut().all(|answer| answer.try_recv().is_err()), "those before it wait");
    waiting.pop();
    waiting.push(ask());
    assert!(waiting[WAITING_MAX - 1].try_recv().is_err(), "there is room again");
    let accepted = counter.accept(0);
    counter.settle(1, accepted, Level::Stable);
    assert!(waiting.iter_mut().all(|answer| told(answer).is_ok()));
}

/// 64 legs of an entry are 2 KiB or more: a page of them ends before it has as many as were asked for.
#[test]
fn a_page_of_long_entries_is_short_and_says_that_there_is_more() {
    let folder = Folder::new();
    let index = Index::open(&folder.0, &claim()).expect("an index");
    let legs = |_| (account(1, 2), 1 << 90);
    let many = What::Multi((0..64).map(legs).collect());
    let entries = (1..=300_u64).map(|n| {
        let draft = draft(&Order { what: many.clone(), ..order(u128::from(n), 1) });
        Kept::Settled(n, entry(&draft, n).0.into())
    });
    index.keep(entries.collect());
    let (mut after, mut pages) = (0, Vec::new());
    loop {
        let page = index.history(account(0, 1), after, 1_000);
        after = page.entries.last().expect("a page has one at least").position;
        pages.push(page.entries.len());
        if !page.has_more {
            break;
        }
    }
    assert_eq!(pages.iter().sum::<usize>(), 300, "nothing is left out: {pages:?}");
    assert!(pages.len() > 1 && pages[0] < 300, "{pages:?}");
    let page = index.history(account(0, 1), 0, 2);
    assert_eq!((page.entries.len(), page.has_more), (2, true));
    let page = index.history(account(0, 1), 298, 2);
    assert_eq!((page.entries.len(), page.has_more), (2, false));
}

/// Whoever asks behind the last position gets all that came since, once each, and the end says that it is one.
#[test]
fn what_settled_is_told_from_any_position_on_in_its_order() {
    let folder = Folder::new();
    let index = Index::open(&folder.0, &claim()).expect("an index");
    let entries = (1..=7_u64).map(|n| Kept::Settled(n, entry(&draft(&order(n.into(), 1)), n).0.into()));
    index.keep(entries.collect());
    let page = |after, max| {
        let page = index.changes(after, max);
        (page.entries.iter().map(|known| known.position).collect::<Vec<_>>(), page.has_more)
    };
    assert_eq!(page(0, 3), (vec![1, 2, 3], true));
    assert_eq!(page(3, 4), (vec![4, 5, 6, 7], false));
    assert_eq!((page(7, 9), page(u64::MAX, 9)), ((vec![], false), (vec![], false)));
}

/// Levels come before their entries where others settled them first: those wait, and are written with their entries.
#[test]
fn a_level_of_an_entry_that_has_not_settled_here_comes_back_and_one_that_is_lower_changes_nothing() {
    let folder = Folder::new();
    let index = Index::open(&folder.0, &claim()).expect("an index");
    let (first, _) = entry(&draft(&order(1, 1)), 1);
    let id = first.id;
    let keeping = index.keep_known(vec![Kept::Level(id, 1, Level::Settled)]);
    assert_eq!((keeping.position, keeping.early), (0, vec![(id, 1, Level::Settled)]));
    let level = |sure| Kept::Level(id, 1, sure);
    let news = vec![level(Level::Stable), Kept::Settled(1, first.into()), level(Level::Settled)];
    assert_eq!(index.keep_known(news).early, []);
    assert_eq!(index.entry(id).map(|known| known.level), Some(Level::Stable));
    assert_eq!(index.keep_known(vec![level(Level::Settled)]).early, []);
    assert_eq!(index.entry(id).map(|known| known.level), Some(Level::Stable));
}
