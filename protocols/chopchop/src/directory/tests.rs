//! The directory: who gets which id, and what a view keeps.

use proptest::prelude::*;
use std::sync::Arc;
use synod_crypto::{Hash, PublicKey};
use synod_wire::{Draw, Drawn};

use super::{Assigned, CHUNK_MEMBERS, Directory, Member, MemberChunk, NO_ID};
use crate::Domains;
use crate::card::Card;
use crate::statement::BlsKeyBytes;

/// The member with keys of these names; names above 255 share their first bytes, as ground keys would.
fn member(bls: u16, ed: u16) -> Member {
    let (mut a, mut b) = ([1; 48], [1; 32]);
    a[40..42].copy_from_slice(&bls.to_le_bytes());
    b[24..26].copy_from_slice(&ed.to_le_bytes());
    if bls < 256 {
        a[..2].copy_from_slice(&bls.to_le_bytes());
    }
    Member { bls: BlsKeyBytes(a), ed: PublicKey(b) }
}

#[test]
fn a_replayed_card_gets_no_second_id() {
    let mut directory = Directory::default();
    assert_eq!(directory.admit(&member(1, 1)), (Some(0), true));
    assert_eq!(directory.admit(&member(2, 2)), (Some(1), true));
    assert_eq!(directory.admit(&member(1, 1)), (Some(0), false), "the same card");
    assert_eq!(directory.admit(&member(1, 3)), (None, false), "the first key in another card");
    assert_eq!(directory.admit(&member(3, 2)), (None, false), "the second key in another card");
    assert_eq!(directory.admit(&member(1, 2)), (None, false), "two known keys of two members");
    assert_eq!(directory.admit(&member(3, 3)), (Some(2), true), "nothing was kept of what was refused");
    assert_eq!(directory.len(), 3);
    assert_eq!((directory.id_of(&member(2, 2)), directory.id_of(&member(2, 3))), (Some(1), None));
}

#[test]
fn a_view_stays_as_it_was_while_the_directory_grows() {
    let domains = Domains::of(&Hash::of(b"cluster"));
    let mut directory = Directory::default();
    let mut roots = Vec::new();
    for name in 0..1_100 {
        directory.admit(&member(name, name));
        if [0, 510, 511, 512, 1_023, 1_024].contains(&name) {
            roots.push((directory.view(), directory.view().root(&domains)));
        }
    }
    for (view, root) in &roots {
        assert_eq!(view.root(&domains), *root, "at {}", view.len());
        assert!(view.member(view.len()).is_none());
        let last = u16::try_from(view.len() - 1).expect("few");
        assert_eq!(view.member(view.len() - 1), Some(&member(last, last)));
    }
    let shared = Arc::ptr_eq(&roots[3].0.chunks()[0], &roots[5].0.chunks()[0]);
    assert!(shared, "full chunks are shared");
    let mut distinct: Vec<Hash> = roots.iter().map(|(_, root)| *root).collect();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), roots.len());
}

#[test]
fn chunks_come_back_and_what_is_none_is_refused() {
    let domains = Domains::of(&Hash::of(b"cluster"));
    let mut directory = Directory::default();
    (0..700).for_each(|name| assert!(directory.admit(&member(name, name)).1));
    let bytes: Vec<Vec<u8>> = directory.view().chunks().iter().map(|chunk| chunk.encode()).collect();
    let sizes: Vec<usize> = bytes.iter().map(Vec::len).collect();
    assert_eq!(sizes, [512 * 80, 188 * 80]);
    let decoded: Vec<Arc<MemberChunk>> =
        bytes.iter().map(|bytes| Arc::new(MemberChunk::decode(bytes).expect("what was encoded"))).collect();
    let restored = Directory::restore(decoded.clone()).expect("the same chunks");
    assert_eq!(restored.view().root(&domains), directory.view().root(&domains));
    assert_eq!(restored.id_of(&member(650, 650)), Some(650));
    assert!(Directory::restore(decoded.iter().rev().cloned().collect()).is_none(), "the first is not full");
    assert!(Directory::restore(vec![decoded[0].clone(), decoded[0].clone()]).is_none(), "keys stand twice");
    let twice = [&bytes[1][..160], &bytes[1][80..160]].concat();
    let twice = MemberChunk::decode(&twice).expect("three members");
    assert!(Directory::restore(vec![Arc::new(twice)]).is_none(), "keys stand twice in one chunk");
    assert!(MemberChunk::decode(&[]).is_none() && MemberChunk::decode(&bytes[1][1..]).is_none());
    assert!(MemberChunk::decode(&vec![7; (CHUNK_MEMBERS + 1) * 80]).is_none());
}

#[test]
fn keys_that_begin_alike_are_told_apart_when_a_directory_comes_back() {
    // Equal in the eight bytes that the index keeps.
    let alike = |at: u8| {
        let mut one = member(7, 7);
        (one.bls.0[47], one.ed.0[31]) = (at, at);
        one
    };
    let chunk = |members: Vec<Member>| vec![Arc::new(MemberChunk { members })];
    let all: Vec<Member> = (0..40).map(alike).collect();
    let restored = Directory::restore(chunk(all.clone())).expect("forty clients");
    for (id, one) in (0..).zip(&all) {
        assert_eq!(restored.id_of(one), Some(id));
    }
    assert_eq!(restored.id_of(&alike(40)), None);
    let mixed = |bls: u8, ed: u8| Member { bls: alike(bls).bls, ed: alike(ed).ed };
    for twice in [mixed(3, 50), mixed(50, 3), alike(39)] {
        let some = all.iter().cloned().chain([twice]).collect();
        assert!(Directory::restore(chunk(some)).is_none(), "one key stands twice");
    }
}

#[test]
fn a_sign_up_batch_proves_each_id_and_no_other() {
    let domains = Domains::of(&Hash::of(b"cluster"));
    let mut from = Drawn::new(9);
    // A drawn card has one of two Ed25519 keys, so at most two of them are appended.
    let cards: Vec<Card> = (0..7).map(|_| Card::draw(&mut from)).collect();
    let mut directory = Directory::default();
    let assigned = directory.deliver(&cards);
    assert_eq!(assigned.ids()[0], 0);
    assert_eq!(directory.len(), 7 - assigned.exc_count());
    assert!(assigned.ids().contains(&NO_ID) && directory.len() == 2);
    let root = assigned.root(&domains);
    for (index, card) in (0_u32..).zip(&cards) {
        let path = assigned.prove(&domains, index).expect("below the count");
        let id = assigned.ids()[index as usize];
        let proves = |at, id| Assigned::proves(&domains, &root, at, (card, id), &path);
        assert!(proves((index, 7), id));
        assert!(!proves((index, 7), id ^ 1) && !proves((index ^ 1, 7), id) && !proves((index, 900), id));
    }
    let again = directory.deliver(&cards);
    assert_eq!((again.ids(), again.exc_count()), (assigned.ids(), 7), "a second delivery changes nothing");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ids_follow_the_listed_order_whatever_keys_are_listed(
        names in proptest::collection::vec((250_u16..262, 250_u16..262), 0..60),
    ) {
        let mut directory = Directory::default();
        let mut model: Vec<(u16, u16)> = Vec::new();
        for (bls, ed) in names {
            let (a, b) = (model.iter().position(|m| m.0 == bls), model.iter().position(|m| m.1 == ed));
            let expected = match (a, b) {
                (None, None) => {
                    model.push((bls, ed));
                    (Some(model.len() - 1), true)
                }
                (Some(a), Some(b)) if a == b => (Some(a), false),
                _ => (None, false),
            };
            let (id, new) = directory.admit(&member(bls, ed));
            prop_assert_eq!((id.map(|id| id as usize), new), expected);
        }
        prop_assert_eq!(directory.len() as usize, model.len());
    }
}

#[test]
fn a_repeating_view_names_the_same_keys_again_and_cuts_no_chunk() {
    let members: Vec<Member> = (0..1_024).map(|at| member(at, at)).collect();
    let view = super::View::repeating(&members, 1_536).expect("whole chunks");
    assert_eq!((view.len(), view.chunks().len()), (1_536, 3));
    assert!(Arc::ptr_eq(&view.chunks()[0], &view.chunks()[2]), "a chunk stands in memory once");
    assert_eq!((view.member(1_030), view.member(1_536)), (Some(&members[6]), None));
    let cut = super::View::repeating(&members, 700).expect("less than there are");
    assert_eq!((cut.len(), cut.member(699), cut.member(700)), (700, Some(&members[699]), None));
    for (members, length) in
        [(&members[..1_000], 1_024), (&members[..1_000], 1_001), (&members[..], 1_500), (&[], 512)]
    {
        assert!(super::View::repeating(members, length).is_none(), "{} for {length}", members.len());
    }
    assert!(super::View::repeating(&[], 0).is_some_and(|view| view.is_empty()));
}
