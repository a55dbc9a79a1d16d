//! Owners who sign together: what a representative makes of their answers, and what no signature of many authorizes.

use std::collections::BTreeMap;

use synod_astro::wallet::{Job, Wallet, Word};
use synod_astro::{
    Auth, Content, EntryProof, Fault, Input, Invitation, Leaf, Line, Opened, Output, Parameters, Refusal,
    Shared, SignedTogether, Work,
};
use synod_broadcast::Lot;
use synod_crypto::bls::BlsSignature;
use synod_crypto::merkle::{self, Tree};
use synod_crypto::{Hash, Keys, Scope};
use synod_ledger::{AccountId, Code, EntryId, Kind, genesis};
use synod_machine::{Effect, Event, Job as _, Span, Time, testing};
use synod_quorum::{Epoch, NodeId};
use synod_wire::Drawn;

use crate::alone::{Alone, Timer};
use crate::bank::{
    Bank, CLUSTER, World, account, agrees, custodial, digest, distilled, equal_books, first, issuer, multi,
    opening, pay, settle, share, sharing, signed, told,
};
use crate::forge::{batch, carried, prepare};
use crate::purse::Purse;

const SCOPE: Scope = Scope { cluster: CLUSTER, epoch: Epoch(0) };

fn leaf(line: &Line) -> Leaf {
    Leaf { spender: line.entry.id.spender, entry: digest(&line.entry) }
}

/// The root over leaves, whatever they are.
fn root(leaves: &[Leaf]) -> Hash {
    let hashes: Vec<Hash> = leaves.iter().map(|leaf| Hash::of_value("synod astro leaf", leaf)).collect();
    Tree::new(merkle::leaves(&hashes)).root()
}

/// What these keys sign of a root, added up.
fn sum<'a>(root: Hash, owners: impl IntoIterator<Item = &'a Keys>) -> Shared {
    let sign = |keys: &Keys| keys.sign_bls(&SCOPE, &SignedTogether { root }).expect("it has a secret");
    let shares: Vec<BlsSignature> = owners.into_iter().map(sign).collect();
    sharing(account(0, 3)).bls().sum_signatures(shares).to_signature().to_bytes()
}

fn with(auth: Auth, line: &Line) -> Line {
    Line { auth, ..line.clone() }
}

/// The liar's second batch of such lines.
fn second(prev: Hash, lines: Vec<Line>, together: Shared) -> Opened {
    let content = Content { lines, together: Some(together), ..Content::default() };
    Opened::of(0, Lot { source: 3, sequence: 2 }, prev, content)
}

/// Member 0 of four after the liar's first batch, by which accounts 3 to 8 of every institution have 100; that batch's digest.
fn funded(mut alone: Alone) -> (Alone, Hash) {
    let legs: Vec<(AccountId, u128)> =
        (0..4).flat_map(|registrar| (3..=8).map(move |local| (account(registrar, local), 100))).collect();
    let funds =
        batch(1, Hash::ZERO, Vec::new(), vec![carried(issuer(3), 1, genesis(issuer(3)), multi(&legs), 1)]);
    alone.certify_whole(&funds);
    alone.works.clear();
    (alone, funds.digest)
}

fn liar(local: u64) -> AccountId {
    account(3, local)
}

/// First payments of so many of the liar's customers.
fn payments(count: u64) -> Vec<Line> {
    (3..3 + count).map(|local| first(liar(local), pay(custodial(1), 10), u128::from(local))).collect()
}

fn checks(alone: &Alone) -> usize {
    alone.works.iter().filter(|work| matches!(work, Work::Check { .. })).count()
}

#[test]
fn what_owners_signed_together_is_endorsed_by_one_check() {
    let (mut alone, head) = funded(Alone::distilling());
    let lines = payments(6);
    let root = root(&lines.iter().map(leaf).collect::<Vec<_>>());
    let owners: Vec<Keys> = (3..8).map(|local| sharing(liar(local))).collect();
    let mut all: Vec<Line> = lines.iter().map(|line| with(Auth::Together, line)).collect();
    // The last one did not answer.
    let Auth::Owner(signature) = lines[5].auth else { unreachable!("it signs") };
    all[5].auth = Auth::Straggler(signature);
    let opened = second(head, all, sum(root, &owners));
    assert_eq!(Opened::read(&opened.payload()), Some(opened.clone()));
    alone.hear(3, prepare(&opened));
    assert_eq!((alone.lists(&opened), checks(&alone)), (vec![vec![]], 1));
    assert!(alone.blamed.is_empty());
}

fn owners(lines: &[Line]) -> Vec<Keys> {
    lines.iter().map(|line| sharing(line.entry.id.spender)).collect()
}

/// What somebody made of the same payments: which lines, and what stands for the signatures of those in the tree.
type Forged = fn(&[Line]) -> (Vec<Line>, Shared);

/// Of each forgery, nothing that is signed together is endorsed. What owners signed alone is.
#[test]
fn a_signature_of_many_authorizes_nothing_that_one_of_them_did_not_see() {
    let forged: [(&str, Forged); 5] = [
        ("an owner is in the sum who signed nothing", |lines| {
            let leaves: Vec<Leaf> = lines.iter().map(leaf).collect();
            let owners = owners(&lines[1..]);
            (lines.to_vec(), sum(root(&leaves), &owners))
        }),
        ("an owner saw another entry in its leaf", |lines| {
            let mut leaves: Vec<Leaf> = lines.iter().map(leaf).collect();
            leaves[0].entry = digest(&first(liar(3), pay(custodial(2), 1), 99).entry);
            let owners = owners(lines);
            (lines.to_vec(), sum(root(&leaves), &owners))
        }),
        // T53.
        ("the tree has two leaves of one owner, who was shown the other", |lines| {
            let mut leaves: Vec<Leaf> = lines.iter().map(leaf).collect();
            let shown = Leaf { entry: digest(&first(liar(3), pay(custodial(2), 1), 99).entry), ..leaves[0] };
            leaves.insert(0, shown);
            let owners = owners(lines);
            (lines.to_vec(), sum(root(&leaves), &owners))
        }),
        ("the signature is of another tree", |lines| {
            let owners = owners(lines);
            (lines.to_vec(), sum(root(&[leaf(&lines[0])]), &owners))
        }),
        ("the signature is no point", |lines| (lines.to_vec(), [7; 96])),
    ];
    for (what, forge) in forged {
        let (mut alone, head) = funded(Alone::distilling());
        let lines = payments(4);
        let (made, together) = forge(&lines[..3]);
        let mut all: Vec<Line> = made.iter().map(|line| with(Auth::Together, line)).collect();
        all.push(lines[3].clone());
        let opened = second(head, all, together);
        alone.hear(3, prepare(&opened));
        assert_eq!(alone.lists(&opened), [vec![0, 1, 2]], "{what}");
    }
}

/// The representative puts an entry of its own before one that the owner signed.
#[test]
fn an_entry_that_the_signed_one_does_not_name_is_not_authorized_by_it() {
    let (alone, head) = funded(Alone::distilling());
    let spender = liar(3);
    let real = first(spender, pay(custodial(1), 10), 1);
    let next = signed(EntryId { spender, n: 2 }, digest(&real.entry), pay(custodial(1), 20), 2);
    let stolen = first(spender, pay(custodial(3), 50), 3);
    for (one, endorsed) in [(&real, vec![]), (&stolen, vec![0, 1])] {
        let lines = vec![with(Auth::Together, one), with(Auth::Together, &next)];
        let opened = second(head, lines, sum(root(&[leaf(&next)]), [&sharing(spender)]));
        let mut alone = alone.restarted();
        alone.hear(3, prepare(&opened));
        assert_eq!(alone.lists(&opened), [endorsed]);
    }
}

#[test]
fn accounts_with_one_key_do_not_sign_together() {
    // A genesis in which accounts 3 and 4 of the liar have one key.
    let mut alone = Alone::twins(liar(3), liar(4));
    let legs = [(liar(3), 100), (liar(4), 100)];
    let funds =
        batch(1, Hash::ZERO, Vec::new(), vec![carried(issuer(3), 1, genesis(issuer(3)), multi(&legs), 1)]);
    alone.certify_whole(&funds);
    let lines = payments(2);
    let (keys, root) = (sharing(liar(3)), root(&lines.iter().map(leaf).collect::<Vec<_>>()));
    let lines = lines.iter().map(|line| with(Auth::Together, line)).collect();
    let opened = second(funds.digest, lines, sum(root, [&keys, &keys]));
    alone.hear(3, prepare(&opened));
    assert_eq!(alone.lists(&opened), [vec![0, 1]], "the owner may have seen one leaf alone");
}

#[test]
fn nothing_is_signed_together_where_nobody_is_waited_for_or_possession_was_not_proven() {
    let sure = |opens: bool| {
        let mut parameters = crate::bank::distilling(4, NodeId(0)).config.parameters;
        parameters.distil = if opens { Span::millis(100) } else { Span::ZERO };
        Alone::with(parameters, Vec::new(), BTreeMap::new())
    };
    // The first is no part of the genesis: the liar opens it.
    for (opens, local) in [(true, 9), (false, 4)] {
        let mut alone = sure(opens);
        let id = account(3, local);
        let funds = carried(issuer(3), 1, genesis(issuer(3)), pay(id, 100), 1);
        let opened = batch(1, Hash::ZERO, vec![opening(id, distilled(id), 0)], vec![funds]);
        alone.certify_whole(&opened);
        let line = first(id, pay(custodial(1), 10), 7);
        let together = sum(root(&[leaf(&line)]), [&sharing(id)]);
        let two = second(opened.digest, vec![with(Auth::Together, &line)], together);
        alone.hear(3, prepare(&two));
        assert_eq!(alone.lists(&two), [vec![0]], "{local}");
        // Alone it may sign.
        let three = Opened::new(0, Lot { source: 3, sequence: 3 }, two.digest, Vec::new(), vec![line]);
        alone.hear(3, prepare(&three));
        assert_eq!(alone.lists(&three), [Vec::<u32>::new()], "{local}");
    }
}

#[test]
fn no_log_is_handed_to_an_owner_who_proved_no_possession() {
    let (mut alone, head) = funded(Alone::distilling());
    let freed = carried(custodial(3), 1, genesis(custodial(3)), Kind::Rekey(distilled(liar(3))), 3);
    let opened = Opened::new(0, Lot { source: 3, sequence: 2 }, head, Vec::new(), vec![freed]);
    alone.hear(3, prepare(&opened));
    assert_eq!(alone.lists(&opened), [vec![0]]);
    let mut draft = crate::bank::draft(custodial(0), Kind::Rekey(distilled(liar(3))), 5);
    draft.code = 1;
    alone.ask(Input::Order { ticket: 5, draft });
    let why = Output::Refused { ticket: 5, why: Refusal::Ledger(Code::Unsupported) };
    assert!(alone.told.contains(&why));
}

/// What owners of the representative's trees were asked, tree by tree.
fn invited(alone: &Alone) -> Vec<Vec<Invitation>> {
    let told = alone.told.iter().filter_map(|output| match output {
        Output::Invited(invited) => Some(invited.clone()),
        _ => None,
    });
    told.collect()
}

fn own(local: u64, n: u64, prev: Hash) -> Line {
    let id = EntryId { spender: account(0, local), n };
    signed(id, prev, pay(custodial(1), 10), u128::from(100 * n + local))
}

/// Orders of six customers: two trees of one, which nobody answers yet, and the others wait.
fn ordered() -> (Alone, Vec<Line>) {
    ordered_of(Alone::distilling())
}

fn ordered_of(alone: Alone) -> (Alone, Vec<Line>) {
    let (mut alone, _) = funded(alone);
    let lines: Vec<Line> = (3..=6).map(|local| own(local, 1, genesis(account(0, local)))).collect();
    for (ticket, line) in (1..).zip(&lines) {
        alone.ask(Input::Signed { ticket, line: line.clone() });
    }
    assert_eq!(invited(&alone).iter().map(Vec::len).collect::<Vec<_>>(), [1, 1]);
    assert!(alone.all_mine().is_empty(), "nothing leaves while owners are waited for");
    (alone, lines)
}

#[test]
fn a_representative_adds_up_what_came_and_leaves_the_others_as_they_are() {
    let (mut alone, lines) = ordered();
    let asked = invited(&alone);
    alone.ask(share(&asked[0][0]));
    // One batch left, so that what waited is asked for: both in one tree.
    assert_eq!(alone.mine().batch.lines.to_vec(), [with(Auth::Together, &lines[0])]);
    let third = invited(&alone).pop().expect("a third tree");
    assert_eq!(third.len(), 2);
    assert!(third.iter().all(Invitation::holds));
    let Input::Share { number, owner, mut share } = share(&third[0]) else { unreachable!("a share") };
    alone.ask(Input::Share { number, owner, share });
    // The second tree's owner is still waited for, and trees leave in their order.
    alone.run(Event::Timer(Timer::Distil(number)));
    assert_eq!(alone.all_mine().len(), 1);
    // A signature of something else is nobody's, and what comes late is too late.
    share[100] ^= 1;
    let bad = Input::Share { number: asked[1][0].number, owner: asked[1][0].leaf.spender, share };
    alone.ask(bad);
    let mine = alone.all_mine();
    assert_eq!(mine.len(), 3, "whoever gave no good one signs alone");
    assert_eq!(
        (mine[&2].batch.lines.to_vec(), mine[&2].batch.beside.together),
        (vec![lines[1].clone()], None)
    );
    let Auth::Owner(signature) = lines[3].auth else { unreachable!("it signs") };
    let straggled = with(Auth::Straggler(signature), &lines[3]);
    assert_eq!(mine[&3].batch.lines.to_vec(), [with(Auth::Together, &lines[2]), straggled]);
    assert!(mine[&3].batch.beside.together.is_some() && alone.blamed.is_empty());
}

/// A sum of keys is checked for a batch: under load it is for as many as there can be, and nobody waits long for that.
#[test]
fn behind_a_tree_of_many_the_next_one_is_made_of_all_that_come_in_a_while() {
    let parameters = crate::bank::distilling(4, NodeId(0)).config.parameters;
    let parameters = Parameters { batch_max: 4_096, batch_bytes: 256 << 10, window: 1_024, ..parameters };
    let (mut alone, lines) = ordered_of(Alone::with(parameters, Vec::new(), BTreeMap::new()));
    let mut heads: BTreeMap<u64, Hash> = (3..=6).zip(lines.iter().map(|line| digest(&line.entry))).collect();
    let mut order = |alone: &mut Alone, local: u64, n: u64| {
        let id = EntryId { spender: account(0, local), n };
        let line = signed(id, heads[&local], pay(custodial(1), 1), u128::from(1_000 * n + local));
        heads.insert(local, digest(&line.entry));
        alone.ask(Input::Signed { ticket: 1_000 * n + local, line });
    };
    (2..=33).for_each(|n| (3..=6).for_each(|local| order(&mut alone, local, n)));
    let asked = invited(&alone);
    assert_eq!(asked.len(), 2, "two trees are under way");
    alone.ask(share(&asked[0][0]));
    let (third, build) = (invited(&alone), |work: &Work| matches!(work, Work::Invite { .. }));
    assert_eq!(
        (third.len(), third[2].len()),
        (3, 4),
        "all that waited, in one tree with a leaf for each owner"
    );
    alone.ask(share(&asked[1][0]));
    // One tree is under way. Behind two trees of one, what comes would be asked for at once.
    for local in 3..=5 {
        order(&mut alone, local, 34);
    }
    assert_eq!(invited(&alone).len(), 3, "they wait for others");
    assert_eq!(alone.armed.get(&Timer::Plant), Some(&Span::millis(50)));
    alone.run(Event::Timer(Timer::Plant));
    assert_eq!(invited(&alone).last().map(Vec::len), Some(3));
    // Behind a tree of few nobody is waited for.
    third[2].iter().for_each(|one| alone.ask(share(one)));
    order(&mut alone, 6, 34);
    assert_eq!(invited(&alone).last().map(Vec::len), Some(1));
    assert_eq!(alone.works.iter().filter(|work| build(work)).count(), 5);
}

#[test]
fn an_entry_that_is_left_over_goes_out_again_by_the_signature_that_its_owner_gave_alone() {
    let (mut alone, lines) = ordered();
    let asked = invited(&alone);
    alone.ask(share(&asked[0][0]));
    let opened = alone.mine();
    assert_eq!(opened.batch.lines[0].auth, Auth::Together);
    // Three members certify the batch without it.
    alone.hear(1, crate::forge::ack(1, opened.lot(), opened.digest, &[0]));
    alone.certify(&opened, [(1, &[0]), (2, &[0]), (3, &[0])]);
    (0..6).for_each(|_| alone.wait(1_000));
    let again = alone.works.iter().any(|work| match work {
        Work::Build { content, .. } => content.lines.contains(&lines[0]),
        _ => false,
    });
    assert!(again, "alone it is good in every batch");
}

/// Gives an entry to member 1, again where that has no room.
fn hand_in(world: &mut World, ticket: u64, line: &Line) {
    for again in 0.. {
        let ticket = ticket + 1_000_000 * again;
        world.ask(NodeId(1), Input::Signed { ticket, line: line.clone() });
        let is_answered = world.until(|world| {
            let told = &world.users.told[1];
            told.accepted.contains_key(&ticket) || told.refused.contains_key(&ticket)
        });
        assert!(is_answered, "an order is answered");
        if world.users.told[1].accepted.contains_key(&ticket) {
            return;
        }
    }
}

/// Every third owner of a tree does not answer.
#[test]
fn owners_sign_together_and_alone_and_everything_settles_once() {
    let (mut together, mut alone) = (0, 0);
    for seed in 0..12 {
        let mut world = Bank::distilling(4, seed);
        let mut drawn = Drawn::new(seed);
        let locals: Vec<u64> = (3..=8).collect();
        for (ticket, local) in (1..).zip(&locals) {
            crate::bank::order(&mut world, ticket, issuer(1), account(1, *local), 100);
        }
        assert!(settle(&mut world, locals.len()), "seed {seed}");
        let mut heads: BTreeMap<u64, Hash> =
            locals.iter().map(|local| (*local, genesis(account(1, *local)))).collect();
        for n in 1..=4_u64 {
            for local in &locals {
                let id = EntryId { spender: account(1, *local), n };
                let to = custodial(u32::try_from(drawn.below(4)).expect("few"));
                let ticket = 1_000 * n + local;
                let line = signed(id, heads[local], pay(to, 1), u128::from(ticket));
                heads.insert(*local, digest(&line.entry));
                hand_in(&mut world, ticket, &line);
                world.go_on(drawn.below(30));
            }
        }
        assert!(settle(&mut world, 5 * locals.len()), "seed {seed}");
        assert!(agrees(&world));
        equal_books(&world);
        let opened: BTreeMap<Lot, _> = told(&world).flat_map(|told| told.certified.clone()).collect();
        let auths =
            || opened.values().flat_map(|(opened, _)| opened.batch.lines.iter()).map(|line| line.auth);
        together += auths().filter(|auth| *auth == Auth::Together).count();
        alone += auths().filter(|auth| matches!(auth, Auth::Straggler(_))).count();
    }
    assert!(together > 100 && alone > 10, "{together} together, {alone} stragglers");
}

/// The effects of a word on a wallet that has signed one payment.
fn said(purse: &mut Purse, word: Word) -> (Vec<Job>, Vec<&'static str>) {
    let event: Event<Wallet> = Event::Message { from: NodeId(1), message: word };
    let (mut jobs, mut blamed) = (Vec::new(), Vec::new());
    for effect in testing::effects(&mut purse.wallet, event, Time::ZERO) {
        match effect {
            Effect::Compute(job) => jobs.push(job),
            Effect::Blame { fault, .. } => blamed.push(fault.name),
            _ => {}
        }
    }
    (jobs, blamed)
}

#[test]
fn a_wallet_signs_a_tree_that_shows_its_own_entry_and_no_other() {
    let mut world = Bank::world(4, 1);
    let spender = account(1, 3);
    crate::bank::order(&mut world, 1, issuer(1), spender, 100);
    assert!(settle(&mut world, 1));
    let mut purse = Purse::fresh(4, spender, world.now());
    let mut drawn = Drawn::new(1);
    purse.pay(7, crate::bank::draft(spender, pay(custodial(2), 10), 70), Span::secs(60), world.now());
    for _ in 0..10_000 {
        if purse.left.contains_key(&1) {
            break;
        }
        purse.happen(&mut world, &mut drawn);
        world.go_on(1);
    }
    let entry = Hash(*purse.left[&1].first().expect("it signed one"));
    let mine = Leaf { spender, entry };
    let other = Leaf { spender: account(1, 4), entry: Hash::of(b"another's") };
    let of = |leaf: Leaf, leaves: &[Leaf], index: u32| {
        let hashes: Vec<Hash> = leaves.iter().map(|leaf| Hash::of_value("synod astro leaf", leaf)).collect();
        let tree = Tree::new(merkle::leaves(&hashes));
        let path = tree.path(index).expect("a leaf").try_into().expect("short");
        let proof = EntryProof { index, count: tree.count(), path };
        Word::Distil(Box::new(Invitation { number: 9, root: tree.root(), leaf, proof }))
    };
    let (jobs, blamed) = said(&mut purse, of(mine, &[mine, other], 0));
    let [job] = <[Job; 1]>::try_from(jobs).expect("it signs");
    assert!(blamed.is_empty());
    let synod_astro::wallet::Done::Shared { to, number, share: given } = job.run(&sharing(spender)) else {
        unreachable!("a share")
    };
    assert_eq!((to, number), (NodeId(1), 9));
    let root = root(&[mine, other]);
    let expected = sharing(spender).sign_bls(&SCOPE, &SignedTogether { root }).map(|share| share.to_share());
    assert_eq!(given, expected);
    let unseen = Leaf { entry: Hash::of(b"not signed"), ..mine };
    let wrong = [of(unseen, &[unseen, other], 0), of(other, &[mine, other], 1), of(mine, &[other, other], 0)];
    for word in wrong {
        let (jobs, blamed) = said(&mut purse, word);
        assert!(jobs.is_empty());
        assert_eq!(blamed, [synod_machine::Fault::from(Fault::BadTree).name]);
    }
}
