//! Cuts that a node keeps: how accounts stood behind each, proofs and statements of them, and what is told where something is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use synod_astro::{Accounts, CutCertificate, LedgerRoot, Level, RootRecord, Shown, StoodAt, verify_proof};
use synod_crypto::{Hash, Scope};
use synod_ledger::{
    AccountId, Book, Digests, Entry, EntryId, Flags, Kind, Leg, Opened, Opening, Owner, SumTree, Terms,
    Total, Units, UserData, Verdict, genesis,
};
use synod_machine::testing::pick;
use synod_quorum::{Epoch, NodeId};
use synod_wire::{Drawn, List};

use super::{Folder, account, claim, keys, view};
use crate::pay::cuts::{Bounds, Cuts, Gap};
use crate::pay::statement::{Cursor, Period, Statement, statement};
use crate::pay::{Index, Kept};

const EURO: u32 = 1;

/// Two issuers and two customers of each.
fn accounts() -> Vec<AccountId> {
    (0..2).flat_map(|registrar| (1..=3).map(move |local| account(registrar, local))).collect()
}

fn opening(id: AccountId) -> Opening {
    let institution = u8::try_from(id.registrar).expect("few");
    let limit = Units(if id.local == 1 { 1_000_000 } else { 0 });
    let owner = Owner::Custodial(institution);
    let terms = Terms { owner, recovery: None, limit, code: 0, user_data: UserData::default() };
    Opening { id, ledger: EURO, terms, limit_max: limit, representative: institution }
}

fn book() -> Book {
    let mut book = Book::new(0);
    accounts().iter().for_each(|id| book.open(&opening(*id)).expect("in order"));
    book
}

/// The accounts of a book behind a cut, as a replica hands them over.
fn behind(book: &Book, number: u64) -> ((RootRecord, CutCertificate), Arc<Accounts>) {
    let mut pending: BTreeMap<AccountId, Total> = BTreeMap::new();
    for (id, hold) in book.holds() {
        let sum = pending.entry(id.spender).or_default();
        *sum = sum.checked_add(Total::of(hold.amount.0)).expect("little");
    }
    let stood = |(id, _): (AccountId, &synod_ledger::Account)| StoodAt {
        standing: book.standing(id).expect("it is open"),
        pending: pending.get(&id).copied().unwrap_or_default(),
    };
    let all: Vec<StoodAt> = book.accounts().map(stood).collect();
    let opened: Vec<Opened> =
        all.iter().map(|one| Opened::of(&one.standing, one.pending, one.standing.opening.salt())).collect();
    let tree = SumTree::new(&opened).expect("small sums");
    let (imported, exported) = (List::default(), List::default());
    let root = LedgerRoot { ledger: EURO, root: tree.root(), count: tree.count(), imported, exported };
    let record = RootRecord {
        cut: Hash([u8::try_from(number % 251).expect("below 251"); 32]),
        context: view().context,
        epoch: Epoch(0),
        number,
        proposer: 0,
        ledgers: List::try_from(vec![root]).expect("one"),
        holds: Hash::ZERO,
        holds_open: pending.len() as u64,
        imports: Hash::ZERO,
    };
    let accounts = Arc::new(Accounts::restore(&record, all).expect("their own root"));
    ((record.clone(), signed(&record)), accounts)
}

/// What three of four members signed.
fn signed(record: &RootRecord) -> CutCertificate {
    let (number, proposer, root) = (record.number, record.proposer, record.digest());
    let statement = synod_astro::CutSigned { context: record.context, number, proposer, root };
    let scope = Scope { cluster: view().cluster, epoch: record.epoch };
    let sign = |member: u8| {
        let made = keys(member).sign(scope, NodeId(u32::from(member)), statement);
        synod_astro::CutSignedBy { member, signature: made.signature }
    };
    let signed = List::try_from((0..3).map(sign).collect::<Vec<_>>()).expect("three");
    CutCertificate { context: record.context, epoch: record.epoch, number, proposer, root, signed }
}

/// A node that saw drawn payments settle and cuts of some of them.
struct Node {
    index: Index,
    cuts: Cuts,
    /// All that settled here, in this order.
    entries: Vec<Entry>,
    /// What each cut counts, and how accounts stand behind it.
    behind: BTreeMap<u64, (BTreeSet<EntryId>, Arc<Accounts>)>,
    // Last, so that the files are closed before.
    folder: Folder,
}

const BOUNDS: Bounds = Bounds { cuts: 5, rows: 1 << 20 };

impl Node {
    fn new(bounds: Bounds) -> Self {
        let folder = Folder::new();
        let index = Index::open(&folder.0, &claim()).expect("an index");
        let cuts = Cuts::open_bounded(&folder.0, &claim(), bounds).expect("a file");
        Self { index, cuts, entries: Vec::new(), behind: BTreeMap::new(), folder }
    }

    /// The same after a restart.
    fn again(self, bounds: Bounds) -> Self {
        let Self { index, cuts, entries, behind, folder } = self;
        drop((index, cuts));
        let index = Index::open(&folder.0, &claim()).expect("an index");
        let cuts = Cuts::open_bounded(&folder.0, &claim(), bounds).expect("a file");
        Self { index, cuts, entries, behind, folder }
    }

    /// An entry settles: the next of its payer, if the ledger takes it.
    fn settle(&mut self, book: &mut Book, (spender, kind): (AccountId, Kind)) {
        let n = book.account(spender).expect("it is open").sequence() + 1;
        let last = self.entries.iter().rev().find(|entry| entry.id.spender == spender);
        let prev = last.map_or_else(|| genesis(spender), |last| Digests::default().entry(last));
        let (id, transfer) = (EntryId { spender, n }, self.entries.len() as u128 + 1);
        let (user_data, flags) = (UserData::default(), Flags::default());
        let entry = Entry { id, prev, kind, transfer, ledger: EURO, code: 0, user_data, flags };
        if book.apply(&entry, Digests::default().entry(&entry)).is_ok() {
            self.entries.push(entry.clone());
            self.index.keep(vec![Kept::Settled(self.entries.len() as u64, entry.into())]);
        }
    }

    /// A cut of whoever had settled all of this but what is drawn, and what cannot be without it.
    fn cut(&mut self, number: u64, drawn: &mut Drawn) {
        let (mut book, mut counted, mut ended) = (book(), BTreeSet::new(), BTreeSet::new());
        for entry in &self.entries {
            let id = entry.id;
            let is_left_out = ended.contains(&id.spender) || drawn.below(12) == 0;
            if !is_left_out && book.apply(entry, Digests::default().entry(entry)).is_ok() {
                counted.insert(id);
            } else {
                ended.insert(id.spender);
            }
        }
        let (signed, accounts) = behind(&book, number);
        self.cuts.keep(signed, Arc::clone(&accounts), (&self.index, number * 1_000));
        self.behind.insert(number, (counted, accounts));
    }

    fn statement(&self, account: AccountId, since: u64, as_of: u64) -> Result<Statement, Gap> {
        let period = Period { account, since: Some(since), as_of: Some(as_of) };
        statement((&self.cuts, &self.index), &period, (None, 1_000))
    }
}

/// Something that a payer may do.
fn drawn_kind(node: &Node, drawn: &mut Drawn, payer: AccountId) -> Kind {
    let all = accounts();
    let to = all[pick(drawn, all.len())];
    let amount = Units(u128::from(1 + drawn.below(40)));
    let held = node
        .entries
        .iter()
        .filter(|entry| matches!(entry.kind, Kind::Hold { resolver, .. } if resolver == payer));
    let held: Vec<&Entry> = held.collect();
    match drawn.below(6) {
        0 => Kind::Hold { to, amount, resolver: all[pick(drawn, all.len())], expires_at: 0 },
        1 => Kind::MultiPay(
            List::try_from(vec![Leg { to, amount }, Leg { to: all[pick(drawn, all.len())], amount }])
                .expect("two"),
        ),
        2 | 3 if !held.is_empty() => {
            let hold = held[pick(drawn, held.len())];
            let verdict = if drawn.below(2) == 0 {
                Verdict::Void
            } else {
                Verdict::Post(List::try_from(vec![Units(1)]).expect("one"))
            };
            Kind::Resolve { holds: List::try_from(vec![hold.id]).expect("one"), verdict }
        }
        _ => Kind::Pay(Leg { to, amount }),
    }
}

/// A node after drawn payments, with this many cuts.
fn drawn(seed: u64, cuts: u64) -> Node {
    let (mut node, mut book, mut drawn) = (Node::new(BOUNDS), book(), Drawn::new(seed));
    let all = accounts();
    for number in 1..=cuts {
        for _ in 0..drawn.below(25) {
            let payer = all[pick(&mut drawn, all.len())];
            let kind = drawn_kind(&node, &mut drawn, payer);
            node.settle(&mut book, (payer, kind));
        }
        node.cut(number * 2, &mut drawn);
    }
    node
}

#[test]
fn an_account_is_told_as_it_stood_behind_each_cut_that_is_kept_also_after_a_restart() {
    for seed in 0..6 {
        let node = drawn(seed, 9).again(BOUNDS);
        let kept: Vec<u64> = node.cuts.cuts_from(0, 100).iter().map(|cut| cut.record.number).collect();
        assert_eq!(kept, [10, 12, 14, 16, 18]);
        for number in kept {
            let (_, accounts) = &node.behind[&number];
            for (standing, pending) in accounts.iter() {
                let id = standing.opening.id;
                let stood = node.cuts.stood(id, number).expect("it was open");
                assert_eq!(
                    (&stood.standing, stood.pending),
                    (standing, *pending),
                    "seed {seed}, cut {number}"
                );
                let proof = node.cuts.prove((EURO, id), Some(number)).expect("it is kept");
                let shows = verify_proof(&proof, &view(), &keys(9)).expect("it is signed");
                assert_eq!(
                    (shows.number, shows.account.map(|opened| opened.sequence)),
                    (number, Some(standing.sequence))
                );
            }
            let absent = node.cuts.prove((EURO, account(0, 9)), Some(number)).expect("it is kept");
            assert!(matches!(absent.shown, Shown::Absence { .. }));
            assert_eq!(verify_proof(&absent, &view(), &keys(9)).expect("it is signed").account, None);
            let owed = node.cuts.prove_liabilities(EURO, Some(number)).expect("it is kept");
            let sums = verify_proof(&owed, &view(), &keys(9)).expect("it is signed").sums;
            assert_eq!((sums.liabilities, sums.credits), (sums.issued, sums.debits));
        }
    }
}

#[test]
fn a_statement_between_any_two_cuts_has_each_payment_that_lies_between_once() {
    let (mut lines, mut left_out) = (0, 0);
    for seed in 0..6 {
        let node = drawn(100 + seed, 7);
        let kept: Vec<u64> = node.cuts.cuts_from(0, 100).iter().map(|cut| cut.record.number).collect();
        for (at, as_of) in kept.iter().enumerate() {
            for since in [0].iter().chain(&kept[..=at]) {
                // A proposer that is behind counts less than the one before it.
                let before = node.behind.get(since).map(|(counted, _)| counted.clone()).unwrap_or_default();
                let then = &node.behind[as_of].0;
                if !before.is_subset(then) {
                    left_out += 1;
                    continue;
                }
                for id in accounts() {
                    let stated = node.statement(id, *since, *as_of);
                    let stated =
                        stated.unwrap_or_else(|gap| unreachable!("seed {seed}, {since} to {as_of}: {gap:?}"));
                    let own = stated.lines.iter().map(|line| line.transfer.place());
                    let own: Vec<EntryId> = own.filter(|entry| entry.spender == id).collect();
                    let wanted = then.difference(&before).filter(|entry| entry.spender == id);
                    assert_eq!(own, wanted.copied().collect::<Vec<_>>(), "each of its own, in order");
                    let (standing, pending) = node.behind[as_of].1.get(id).expect("it was open");
                    assert_eq!(
                        (stated.closing.credits, stated.closing.debits),
                        (standing.credits, standing.debits)
                    );
                    assert_eq!((stated.closing.n, stated.closing.pending), (standing.sequence, *pending));
                    assert_eq!(stated.lines.last().map_or(stated.opening, |line| line.after), stated.closing);
                    assert_eq!(
                        paged(&node, (id, *since, *as_of), 2),
                        stated.lines,
                        "page by page it is the same"
                    );
                    lines += stated.lines.len();
                }
            }
        }
    }
    assert!(lines > 1_000 && left_out > 0, "{lines} lines, {left_out} pairs left out");
}

/// All lines, page by page.
fn paged(
    node: &Node,
    (account, since, as_of): (AccountId, u64, u64),
    max: usize,
) -> Vec<crate::pay::StatementLine> {
    let period = Period { account, since: Some(since), as_of: Some(as_of) };
    let (mut lines, mut next): (Vec<_>, Option<Cursor>) = (Vec::new(), None);
    loop {
        let page = statement((&node.cuts, &node.index), &period, (next, max)).expect("it is there");
        assert!(page.lines.len() <= max);
        lines.extend(page.lines);
        next = page.next;
        if next.is_none() {
            return lines;
        }
    }
}

#[test]
fn what_is_missing_is_told_apart() {
    let node = drawn(7, 8);
    let cuts = &node.cuts;
    assert_eq!(cuts.cut(Some(17)).map_err(Some), Err(Some(Gap::NotYet(Some(17), 16))));
    assert_eq!(cuts.cut(Some(2)), Err(Gap::NotKept(2, (8, 16))));
    assert_eq!(cuts.cut(Some(11)), Err(Gap::NotKept(11, (8, 16))), "a number that was passed over");
    assert_eq!(cuts.cut(None).map(|cut| cut.record.number), Ok(16));
    assert_eq!(cuts.prove((EURO + 1, account(0, 1)), None), Err(Gap::Nothing(16)));
    assert_eq!(cuts.prove_liabilities(EURO + 1, None), Err(Gap::Nothing(16)));
    assert_eq!(node.statement(account(0, 9), 0, 16).err(), Some(Gap::Nothing(16)));
    assert_eq!(node.statement(account(0, 1), 16, 14).err(), Some(Gap::Backwards));
    let none = Node::new(BOUNDS);
    assert_eq!(none.cuts.cut(None), Err(Gap::NotYet(None, 0)));
    assert_eq!(none.cuts.prove((EURO, account(0, 1)), None), Err(Gap::NotYet(None, 0)));
    assert_eq!(none.cuts.cuts_from(0, 9), []);
}

#[test]
fn an_index_without_a_payment_that_a_cut_counts_gives_no_statement_of_it() {
    let mut node = Node::new(BOUNDS);
    let mut book = book();
    let pay = |to, amount| Kind::Pay(Leg { to, amount: Units(amount) });
    node.settle(&mut book, (account(0, 1), pay(account(0, 2), 50)));
    node.settle(&mut book, (account(0, 2), pay(account(1, 2), 20)));
    // The replica has another one, which the index was not told of.
    let (signed, accounts) = {
        let mut other = Node::new(BOUNDS);
        other.entries.clone_from(&node.entries);
        let mut further = book.clone();
        other.settle_unkept(&mut further, (account(0, 1), pay(account(0, 2), 7)));
        behind(&further, 1)
    };
    node.cuts.keep(signed, accounts, (&node.index, 0));
    for lacking in [account(0, 1), account(0, 2)] {
        assert_eq!(node.statement(lacking, 0, 1).err(), Some(Gap::Lacks(1)));
    }
    let whole = node.statement(account(1, 2), 0, 1).expect("nothing of it is missing");
    assert_eq!((whole.lines.len(), whole.closing.credits), (1, Total::of(20)));
}

#[test]
fn rows_are_bounded_and_the_newest_cut_always_stays() {
    let mut node = Node::new(Bounds { cuts: 100, rows: 4 });
    let mut book = book();
    for number in 1..=30_u64 {
        let to = account(1, 1 + number % 3);
        node.settle(&mut book, (account(0, 1), Kind::Pay(Leg { to, amount: Units(5) })));
        let (signed, accounts) = behind(&book, number);
        node.cuts.keep(signed, Arc::clone(&accounts), (&node.index, 0));
        // Two accounts change at each: two cuts beside the last one find room.
        let kept = node.cuts.cuts_from(0, 100);
        assert!(kept.len() <= 4 && kept.last().is_some_and(|cut| cut.record.number == number));
        for cut in kept {
            node.cuts.prove((EURO, account(0, 1)), Some(cut.record.number)).expect("it is kept");
        }
    }
    let another = crate::pay::Claim { member: 1, ..claim() };
    let Node { index, cuts, folder, .. } = node;
    drop((index, cuts));
    assert!(Cuts::open(&folder.0, &another).is_err(), "the file of another node");
}

impl Node {
    /// As [`Self::settle`], unknown to the index.
    fn settle_unkept(&mut self, book: &mut Book, (spender, kind): (AccountId, Kind)) {
        let n = book.account(spender).expect("it is open").sequence() + 1;
        let last = self.entries.iter().rev().find(|entry| entry.id.spender == spender);
        let prev = last.map_or_else(|| genesis(spender), |last| Digests::default().entry(last));
        let (user_data, flags) = (UserData::default(), Flags::default());
        let id = EntryId { spender, n };
        let entry = Entry { id, prev, kind, transfer: 999, ledger: EURO, code: 0, user_data, flags };
        book.apply(&entry, Digests::default().entry(&entry)).expect("the ledger takes it");
    }
}

#[test]
fn cuts_that_a_replica_tells_of_are_kept_once_the_index_has_what_they_count() {
    let counter = super::Counter::new();
    let teller = &counter.teller;
    assert_eq!(teller.cuts().map(|_| ()), Err(Gap::Off));
    teller.keep_cuts(&counter.folder.0, &claim()).expect("a file");
    let (mut node, mut book) = (Node::new(BOUNDS), book());
    for position in 1..=3_u64 {
        node.settle(&mut book, (account(0, 1), Kind::Pay(Leg { to: account(1, 2), amount: Units(5) })));
        let entry = node.entries.last().expect("it settled").clone();
        let digest = Digests::default().entry(&entry);
        teller.hear(synod_astro::Output::Settled { first: position, entries: vec![(entry.into(), digest)] });
    }
    let ((record, certificate), accounts) = behind(&book, 4);
    let told = |accounts| {
        let (record, certificate) = (Box::new(record.clone()), Box::new(certificate.clone()));
        teller.hear(synod_astro::Output::CutCertified { record, certificate, accounts });
    };
    told(None);
    told(Some(accounts));
    // Ending waits until what was told is kept.
    counter.teller.end();
    let cuts = teller.cuts().expect("they are kept");
    let cut = cuts.cut(None).expect("one was told");
    assert_eq!((cut.record.number, cut.position, cut.below), (4, 3, 3));
    let period = Period { account: account(1, 2), since: None, as_of: None };
    let stated = teller.statement(&period, (None, 10)).expect("it is there");
    assert_eq!(
        stated.lines.iter().map(|line| line.after.credits).collect::<Vec<_>>(),
        [5, 10, 15].map(Total::of)
    );
    assert!(stated.lines.iter().all(|line| line.transfer.level == Level::Certified));
}
