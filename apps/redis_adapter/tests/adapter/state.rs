//! The state as chunks.

use synod_crypto::merkle::{Tree, leaf};
use synod_redis_adapter::Config;
use synod_service::App;
use synod_wire::Bytes;

use crate::floor::Floor;

fn busy() -> Floor {
    let mut floor = Floor::new(5);
    for line in [
        "SET text hello",
        "SET timed v PX 50",
        "RPUSH list c a b",
        "SADD set c a b",
        "HSET hash z 1 y 2",
        "ZADD zset 2 b 1 a",
        "XADD stream * f v",
        "XADD emptied * f v",
        "XDEL emptied 1000000-0",
    ] {
        assert!(!floor.text(line).starts_with('-'), "{line}");
    }
    floor
}

fn chunks(floor: &Floor) -> Vec<Bytes> {
    (0..floor.adapter.chunks()).map(|index| floor.adapter.chunk(index)).collect()
}

#[test]
fn every_type_comes_back_with_its_deadline_and_goes_on_as_before() {
    let mut floor = busy();
    let all = chunks(&floor);
    assert_eq!(floor.adapter.root(), Tree::new(all.iter().map(|chunk| leaf(chunk)).collect()).root());
    let mut other = Floor::new(6);
    other.ask("SET stays behind");
    for (index, chunk) in (0..).zip(&all) {
        other.adapter.restore(index, chunk).expect("its own chunk");
    }
    assert_eq!(chunks(&other), all);
    assert_eq!(other.text("KEYS *"), "[emptied hash list set stream text timed zset]");
    (floor.time, other.time) = (1_000_050, 1_000_050);
    other.position = floor.position;
    for line in [
        "GET timed",
        "LRANGE list 0 -1",
        "XADD stream * g w",
        "XADD emptied 1000000-0 a b",
        "SPOP set",
        "KEYS *",
    ] {
        other.position = floor.position;
        assert_eq!(floor.text(line), other.text(line), "{line}");
    }
    assert!(other.text("XADD emptied 1000000-0 a b").starts_with("-ERR"), "its last id is remembered");
}

#[test]
fn a_server_that_does_not_hold_what_was_sent_is_noticed_by_the_root() {
    let mut floor = busy();
    let before = floor.adapter.root();
    let mut other = busy();
    other.adapter.server().corrupt("text");
    assert_ne!(other.adapter.root(), before);
}

#[test]
fn no_chunk_with_a_flipped_bit_gives_another_state_and_nothing_is_left_of_a_refused_one() {
    let mut floor = busy();
    let (all, root) = (chunks(&floor), floor.adapter.root());
    let mut refused = 0;
    for chunk in 0..all.len() {
        for at in 0..all[chunk].len() {
            let mut changed = all.clone();
            let mut bytes = changed[chunk].to_vec();
            bytes[at] ^= 1 << (at % 8);
            changed[chunk] = Bytes::from(bytes);
            let mut other = Floor::new(9);
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
    assert!(refused > 20, "{refused}");
}

#[test]
fn chunks_of_64_kib_in_order_and_of_the_same_quota() {
    let mut floor = Floor::new(1);
    for at in 0..20 {
        floor.ask(&format!("SET key{at} {}", "v".repeat(10_000)));
    }
    let all = chunks(&floor);
    assert!(all.len() == 5 && all[1..4].iter().all(|chunk| chunk.len() == 64 << 10));
    let mut other = Floor::new(1);
    other.adapter.restore(0, &all[0]).expect("the header");
    assert!(other.adapter.restore(2, &all[2]).is_err());
    let mut smaller = Floor::within(1, Config { bytes_max: 9, ..Config::default() });
    assert!(smaller.adapter.restore(0, &all[0]).is_err());
}
