//! Servers that are asked the same slots end alike; a restored one goes on alike.

use proptest::prelude::*;
use synod_crypto::merkle::{Tree, leaf};
use synod_service::App;
use synod_wire::{Bytes, Drawn};

use crate::floor::{Floor, body};

fn line(draw: &mut Drawn) -> String {
    let forms = [
        "get K K",
        "gets K",
        "gat T K",
        "set K 1 0 L|W",
        "set K 2 T L|W",
        "add K 3 T L|W",
        "replace K 4 0 L|W",
        "append K 0 0 L|W",
        "prepend K 0 0 L|W",
        "cas K 5 0 L N|W",
        "delete K",
        "incr K 7",
        "decr K 90",
        "touch K T",
        "flush_all",
        "flush_all T",
    ];
    let form = forms[usize::try_from(draw.below(forms.len() as u64)).expect("few")];
    let form = if form.starts_with("flush") && draw.below(5) > 0 { "gets K" } else { form };
    let word = (10_u64.pow(u32::try_from(draw.below(4)).expect("few")) - 1 + draw.below(2)).to_string();
    let mut text = form.replace('W', &word).replace('L', &word.len().to_string());
    for (mark, most) in [("T", 20), ("N", 40)] {
        text = text.replace(mark, &draw.below(most).to_string());
    }
    while text.contains('K') {
        text = text.replacen('K', ["a", "b", "c"][usize::try_from(draw.below(3)).expect("few")], 1);
    }
    text
}

fn chunks(floor: &Floor) -> Vec<Bytes> {
    (0..floor.adapter.chunks()).map(|index| floor.adapter.chunk(index)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn equal_slots_give_equal_replies_and_roots_also_behind_a_restore(
        seed in any::<u64>(), count in 1..80_u64, cut in any::<u64>(),
    ) {
        let (mut first, mut second) = (Floor::new(), Floor::new());
        let mut third: Option<Floor> = None;
        let (mut draw, cut) = (Drawn::new(seed), cut % count);
        for at in 0..count {
            let bodies: Vec<Bytes> = (0..1 + draw.below(5)).map(|_| body(&line(&mut draw))).collect();
            let time = first.time + draw.below(5_000);
            (first.time, second.time) = (time, time);
            let replies = first.slot(&bodies);
            prop_assert!(replies.iter().all(|reply| !reply.starts_with(b"ERROR")), "{:?}", replies);
            prop_assert_eq!(&second.slot(&bodies), &replies);
            prop_assert_eq!(first.adapter.root(), second.adapter.root());
            if let Some(third) = &mut third {
                third.time = time;
                prop_assert_eq!(&third.slot(&bodies), &replies, "restored");
                prop_assert_eq!(third.adapter.root(), first.adapter.root());
            }
            if at == cut {
                let mut other = Floor::new();
                other.text("set old 0 0 1|x");
                for (index, chunk) in (0..).zip(chunks(&first)) {
                    other.adapter.restore(index, &chunk).expect("its own chunk");
                }
                other.position = first.position;
                prop_assert_eq!(other.adapter.root(), first.adapter.root());
                third = Some(other);
            }
        }
        prop_assert!(third.is_some());
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        let mut floor = Floor::new();
        let reply = floor.slot(&[Bytes::from(bytes)]).remove(0);
        prop_assert!(reply.ends_with(b"\r\n"));
    }
}

fn busy() -> Floor {
    let mut floor = Floor::new();
    for text in ["set a 1 0 1|x", "set b 2 9 3|xyz", "set c 3 0 0|", "flush_all 50"] {
        floor.text(text);
    }
    floor
}

#[test]
fn a_server_that_lost_a_value_is_noticed_by_the_root() {
    let (mut floor, mut other) = (busy(), busy());
    assert_eq!(floor.adapter.root(), other.adapter.root());
    let all = chunks(&floor);
    assert_eq!(floor.adapter.root(), Tree::new(all.iter().map(|chunk| leaf(chunk)).collect()).root());
    other = busy();
    other.adapter.server().lose("a");
    assert_ne!(other.adapter.root(), floor.adapter.root());
    // Such a state is nobody's to take over.
    let mut third = Floor::new();
    let lost = chunks(&other);
    third.adapter.restore(0, &lost[0]).expect("the header");
    assert!(third.adapter.restore(1, &lost[1]).is_err());
    assert_eq!(third.adapter.keys(), 0);
}

#[test]
fn no_chunk_with_a_flipped_bit_gives_the_same_state() {
    let mut floor = busy();
    let (all, root) = (chunks(&floor), floor.adapter.root());
    let mut refused = 0;
    for chunk in 0..all.len() {
        for at in 0..all[chunk].len() {
            let mut changed = all.clone();
            let mut bytes = changed[chunk].to_vec();
            bytes[at] ^= 1 << (at % 8);
            changed[chunk] = Bytes::from(bytes);
            let mut other = Floor::new();
            let taken =
                (0..).zip(&changed).try_for_each(|(index, chunk)| other.adapter.restore(index, chunk));
            if taken.is_ok() {
                assert_eq!(chunks(&other), changed, "what is taken is what came");
                assert_ne!(other.adapter.root(), root);
            } else {
                refused += 1;
                assert_eq!(other.adapter.keys(), 0);
            }
        }
    }
    assert!(refused > 10, "{refused}");
}
