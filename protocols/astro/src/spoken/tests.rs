//! A word is checked once, and nothing passes for one that was.

use std::sync::Arc;

use synod_crypto::{Scope, Seed};
use synod_ledger::{AccountId, Entry, EntryId, Flags, Kind, Leg, Units, UserData, genesis};
use synod_machine::broadcast::{Context, Except, Lot};
use synod_quorum::{Epoch, Member, NodeId, Roster};
use synod_wire::List;

use super::*;
use crate::batch::{Auth, Line, digest_of, proofs, root};
use crate::dependency::{Dependency, With, Withs};

fn seed(member: u8) -> Seed {
    Seed::new([member + 1; 32])
}

fn keys(member: u8) -> Keys {
    Keys::ed25519(&seed(member), [9; 32])
}

fn view() -> View {
    let members = (0..4).map(|id| Member { key: seed(id).public(), power: 1 }).collect();
    let roster = Arc::new(Roster::new(Epoch(7), members).expect("distinct members"));
    View { cluster: Hash([3; 32]), roster, context: Context { shard: 0, view: Hash([5; 32]) } }
}

fn account(local: u64) -> AccountId {
    AccountId { shard: 0, registrar: 1, local }
}

/// The first payment of an account, to another.
fn payment(from: u64, to: u64) -> Entry {
    let spender = account(from);
    Entry {
        id: EntryId { spender, n: 1 },
        prev: genesis(spender),
        kind: Kind::Pay(Leg { to: account(to), amount: Units(5) }),
        transfer: u128::from(from),
        ledger: 978,
        code: 0,
        user_data: UserData::default(),
        flags: Flags::default(),
    }
}

fn vouch(member: u8, root: Hash, open: Vec<u32>) -> Vouch {
    let (view, open) = (view(), Except::new(open).expect("rising"));
    let scope = Scope { cluster: view.cluster, epoch: view.roster.epoch() };
    let statement = Credited { context: view.context, root, open: open.digest() };
    let signature = keys(member).sign(scope, NodeId(u32::from(member)), statement).signature;
    Vouch { member, open, signature }
}

/// Eight payments under one root, to accounts 11 to 18, as members 1 and 2 vouch for them.
fn dependencies() -> Vec<Dependency> {
    let paid: Vec<Entry> = (1..=8).map(|at| payment(at, at + 10)).collect();
    let digests: Vec<Hash> = paid.iter().map(digest_of).collect();
    let root = root(&digests);
    let said = List::try_from(vec![vouch(1, root, Vec::new()), vouch(2, root, Vec::new())]).expect("few");
    let all: Vec<u32> = (0..8).collect();
    let each = paid.into_iter().zip(proofs(&digests, &all)).map(|(entry, (_, proof))| {
        let (entry, said) = (Arc::new(entry), said.clone());
        Dependency { entry, with: Hash::ZERO, proof, root, said }
    });
    each.collect()
}

/// A batch in which those who were paid spend what these are.
fn spending(all: &[Dependency]) -> Opened {
    let spenders = all.iter().map(|one| match &one.entry.kind {
        Kind::Pay(leg) => leg.to,
        _ => unreachable!("payments"),
    });
    let line = |from: AccountId| Line { entry: payment(from.local, 99).into(), auth: Auth::Institution };
    let lines = spenders.map(line).collect();
    let withs = all.iter().map(|one| Some(With::new(Withs::new(vec![one.clone()])))).collect();
    Opened::new_backed(0, Lot { source: 1, sequence: 1 }, Hash::ZERO, Vec::new(), (lines, withs))
}

/// What is left out of a batch, how many signatures were checked for it, and how many words are new.
fn judged(words: &mut Words, all: &[Dependency]) -> (Vec<u32>, u32, usize) {
    let opened = spending(all);
    let recalled = words.recall(&opened);
    let (bad, good) = forged(&opened, &view(), &recalled, &keys(0));
    let new = good.len();
    words.keep(good);
    (bad.into_iter().collect(), recalled.fresh, new)
}

#[test]
fn a_word_that_many_spend_is_checked_once_and_never_again() {
    let (mut words, all) = (Words::default(), dependencies());
    assert_eq!(judged(&mut words, &all[..5]), (vec![], 2, 2), "two members' words for five payments");
    assert_eq!(judged(&mut words, &all), (vec![], 0, 0), "and for three more under the same root");
    assert_eq!(judged(&mut Words::default(), &all), (vec![], 2, 2), "who never saw them checks them");
}

#[test]
fn what_differs_from_a_good_word_in_anything_is_checked_and_left_out() {
    let (mut words, all) = (Words::default(), dependencies());
    assert_eq!(judged(&mut words, &all), (vec![], 2, 2));
    let with = |change: &dyn Fn(&mut Dependency)| {
        let mut changed = all.clone();
        change(&mut changed[3]);
        changed
    };
    let said = |change: &dyn Fn(&mut Vouch)| {
        with(&|one| {
            let mut said = one.said.to_vec();
            change(&mut said[1]);
            one.said = List::try_from(said).expect("few");
        })
    };
    let is_checked = [
        said(&|vouch| vouch.signature.0[7] ^= 1),
        said(&|vouch| vouch.member = 3),
        said(&|vouch| vouch.member = 9),
        said(&|vouch| vouch.open = Except::new(vec![6]).expect("rising")),
    ];
    for changed in is_checked {
        let (bad, _, new) = judged(&mut words, &changed);
        assert_eq!((bad, new), (vec![3], 0), "its neighbours' words are known, its own is none");
        // Nor does a bad one stay: it is bad again, and the good ones are good.
        assert_eq!(judged(&mut words, &changed).0, vec![3]);
        assert_eq!(judged(&mut words, &all), (vec![], 0, 0));
    }
    let is_wrong_at_sight = [
        said(&|vouch| vouch.member = 1),
        with(&|one| one.proof.index = 4),
        with(&|one| one.with = Hash([1; 32])),
        with(&|one| one.root = Hash([1; 32])),
        with(&|one| one.said = List::try_from(one.said[..1].to_vec()).expect("few")),
        with(&|one| one.entry = Arc::new(Entry { transfer: 77, ..(*one.entry).clone() })),
    ];
    for changed in is_wrong_at_sight {
        assert_eq!(judged(&mut words, &changed).0, vec![3], "good words, of something else");
    }
}

#[test]
fn one_forged_signature_beside_a_good_one_on_the_same_word_takes_only_its_own_entry_along() {
    let mut all = dependencies();
    let mut said = all[0].said.to_vec();
    said[0].signature.0[1] ^= 1;
    all[0].said = List::try_from(said).expect("few");
    // The forged one comes first, and both are checked: three signatures of two words.
    let mut words = Words::default();
    assert_eq!(judged(&mut words, &all), (vec![0], 3, 2));
    assert_eq!(judged(&mut words, &all), (vec![0], 1, 0), "only the forged one is checked again");
}

#[test]
fn a_list_that_leaves_something_open_is_a_word_of_its_own() {
    let (mut words, mut all) = (Words::default(), dependencies());
    assert_eq!(judged(&mut words, &all), (vec![], 2, 2));
    let root = all[0].root;
    all[0].said = List::try_from(vec![vouch(1, root, vec![5]), vouch(2, root, Vec::new())]).expect("few");
    all[5].said = all[0].said.clone();
    assert_eq!(judged(&mut words, &all), (vec![5], 1, 1), "good for the first and not for the sixth");
}

#[test]
fn no_more_words_are_kept_than_there_is_room_for() {
    let mut words = Words::default();
    let word = |at: usize| {
        let mut root = [0; 32];
        root[..8].copy_from_slice(&at.to_le_bytes());
        (Spoken { root: Hash(root), open: Hash::ZERO, member: 1 }, Signature([2; 64]))
    };
    for at in 0..3 * WORDS_MAX {
        words.keep(vec![word(at)]);
        assert!(words.recent.len() + words.before.len() <= WORDS_MAX);
    }
    let knows = |at: usize| words.knows(&word(at).0, word(at).1);
    assert!(!knows(0) && (3 * WORDS_MAX - WORDS_MAX / 2..3 * WORDS_MAX).all(knows));
    assert!(words.bytes() > 0);
}
