//! Determinism, the root, chunks and restoring (TV2).

mod workbench;

use bytes::Bytes;
use synod_crypto::merkle;
use synod_kv::{CHUNK_BYTES, Config, Kv};
use synod_service::App;
use workbench::{Bench, Numbers, chunks, command, line, transaction};

/// One scattered operation over a small space of keys, so that types collide and keys come and go.
fn operation(numbers: &mut Numbers) -> Vec<u8> {
    let key = numbers.below(60);
    let member = numbers.below(40);
    let size = 1 << numbers.below(12);
    let value = "v".repeat(usize::try_from(size).expect("small"));
    let text = match numbers.below(20) {
        0..3 => format!("SET k{key} {value}"),
        3 => format!("SET k{key} {value} PX {}", 1 + numbers.below(3_000)),
        4 => format!("DEL k{key} k{member}"),
        5 => format!("APPEND k{key} {value}"),
        6 => format!("INCRBY n{key} {member}"),
        7 => format!("RPUSH l{key} {value} {member}"),
        8 => format!("LPOP l{key} 2"),
        9 => format!("SADD s{key} {member} {value}"),
        10 => format!("SPOP s{key} 2"),
        11 => format!("SPOP s{key}"),
        12 => format!("HSET h{key} {member} {value}"),
        13 => format!("HDEL h{key} {member}"),
        14 => format!("ZADD z{key} {member}.5 {value} 1 {member}"),
        15 => format!("ZPOPMIN z{key}"),
        16 => format!("PEXPIRE l{key} {}", 1 + numbers.below(2_000)),
        17 => format!("SADD k{key} {member}"),
        18 => return transaction(&[], &[&format!("INCR n{key}"), &format!("SET k{key} t")]),
        _ => format!("GET k{key}"),
    };
    command(&text)
}

/// Runs the same blocks; `settle_often` asks for roots and reads in between.
fn history(seed: u64, settle_often: bool) -> (Bench, Vec<Bytes>) {
    let mut numbers = Numbers(seed);
    let mut bench = Bench::new();
    let mut replies = Vec::new();
    for _ in 0..150 {
        bench.time_ms += numbers.below(400);
        let block: Vec<_> = (0..numbers.below(25)).map(|_| operation(&mut numbers)).collect();
        replies.extend(bench.execute(&block));
        if settle_often {
            let root = bench.kv.root();
            assert_eq!(bench.kv.root(), root);
            assert!(bench.kv.query(&command("DBSIZE")).is_some());
            assert!(bench.kv.query(&command("DEL k1")).is_none(), "a query cannot write");
        }
    }
    (bench, replies)
}

/// A store restored from the chunks of another.
fn restored(from: &Kv) -> Kv {
    let mut kv = Kv::new(Config::default());
    for (index, chunk) in chunks(from).iter().enumerate() {
        kv.restore(u32::try_from(index).expect("few chunks"), chunk).expect("a chunk of a snapshot");
        kv.invariants();
    }
    kv
}

#[test]
fn two_executions_give_equal_replies_and_equal_roots() {
    for seed in 0..5 {
        let (mut one, one_replies) = history(seed, false);
        let (mut two, two_replies) = history(seed, true);
        assert_eq!(one_replies, two_replies);
        assert_eq!(one.kv.root(), two.kv.root());
        assert!(
            one_replies.iter().filter(|reply| reply.starts_with(b"~")).count() > 5,
            "members were popped"
        );
        let (mut other, _) = history(seed + 100, false);
        assert_ne!(one.kv.root(), other.kv.root());
    }
}

#[test]
fn the_root_of_a_fixed_history_is_the_same_in_every_build() {
    let (mut bench, _) = history(1, false);
    assert_eq!(
        bench.kv.root().to_string(),
        "0abb31630c222a99a32ec732cdf259607ee6255250a6f8987f64b597c8d64cdf"
    );
}

#[test]
fn the_root_is_the_merkle_root_over_the_chunks() {
    let (mut bench, _) = history(7, false);
    let chunks = chunks(&bench.kv);
    assert!(chunks.len() > 20);
    assert!(chunks.iter().all(|chunk| !chunk.is_empty() && chunk.len() <= CHUNK_BYTES));
    assert!(bench.kv.chunk(bench.kv.chunks()).is_empty());
    let tree = merkle::Tree::new(chunks.iter().map(|chunk| merkle::leaf(chunk)).collect());
    assert_eq!(bench.kv.root(), tree.root());
}

#[test]
fn a_restored_store_goes_on_like_the_original() {
    let (mut bench, _) = history(11, false);
    let mut other = Bench::new();
    other.kv = restored(&bench.kv);
    // The copy has executed as many entries, so that its positions and draws are the same.
    let (shadow, _) = history(11, false);
    let kv = core::mem::replace(&mut other.kv, Kv::new(Config::default()));
    other = shadow;
    other.kv = kv;
    assert_eq!(other.kv.root(), bench.kv.root());
    assert_eq!(other.kv.bytes(), bench.kv.bytes());
    let mut numbers = Numbers(99);
    for _ in 0..40 {
        bench.time_ms += 100;
        other.time_ms += 100;
        let block: Vec<_> = (0..20).map(|_| operation(&mut numbers)).collect();
        assert_eq!(bench.execute(&block), other.execute(&block));
    }
    assert_eq!(other.kv.root(), bench.kv.root());
}

#[test]
fn the_shape_of_the_state_does_not_remember_its_history() {
    // One key per value of 1 KiB, enough to halve leaves; then most go again.
    let value = "x".repeat(1_000);
    let mut grown = Bench::new();
    for block in 0..40 {
        let sets: Vec<_> = (0..1_000).map(|i| command(&format!("SET key:{block}:{i} {value}"))).collect();
        grown.execute(&sets);
    }
    let large = grown.kv.chunks();
    assert!((640..2_000).contains(&large), "{large} chunks for 40 MB");
    let mut numbers = Numbers(1);
    for block in 0..40 {
        let dels: Vec<_> = (0..1_000)
            .filter(|i| i % 100 != 0 || numbers.below(2) > 1)
            .map(|i| command(&format!("DEL key:{block}:{i}")))
            .collect();
        grown.execute(&dels);
        let _root = grown.kv.root();
    }
    assert_eq!(grown.kv.keys(), 400);
    let mut copy = restored(&grown.kv);
    assert_eq!(copy.root(), grown.kv.root());
    assert!(grown.kv.chunks() <= 257, "{} chunks for 400 KB", grown.kv.chunks());
}

#[test]
fn values_larger_than_a_chunk_are_cut_and_joined() {
    let mut bench = Bench::new();
    let value = "y".repeat(300 << 10);
    bench.run(&format!("SET big {value}"));
    for _ in 0..4 {
        bench.run(&format!("RPUSH list {value} {value} a"));
    }
    bench.run("SET small 1");
    assert!(bench.kv.chunks() > 40);
    let mut copy = restored(&bench.kv);
    assert_eq!(copy.root(), bench.kv.root());
    let length = copy.query(&command("LLEN list")).expect("a read");
    assert_eq!(line(&length), ":12");
}

#[test]
fn a_damaged_snapshot_is_refused_and_leaves_an_empty_store() {
    let (bench, _) = history(3, false);
    let good = chunks(&bench.kv);
    let mut empty = Kv::new(Config::default());
    let refuses = |chunks: &[Bytes]| {
        let mut kv = Kv::new(Config::default());
        let result = (0..).zip(chunks).try_for_each(|(index, chunk)| kv.restore(index, chunk));
        if result.is_err() {
            assert_eq!(kv.root(), Kv::new(Config::default()).root());
        }
        result.is_err()
    };
    assert!(!refuses(&good));
    let mut swapped = good.clone();
    swapped.swap(1, 2);
    let mut doubled = good.clone();
    doubled[2] = doubled[1].clone();
    let mut cut = good.clone();
    let last = cut.len() - 1;
    cut[last] = cut[last].slice(..cut[last].len() - 1);
    let mut long = good.clone();
    long.push(good[1].clone());
    for broken in [doubled, cut, long, vec![Bytes::from_static(b"nonsense")], vec![Bytes::new()]] {
        assert!(refuses(&broken));
    }
    assert!(empty.restore(1, &good[1]).is_err(), "chunk 0 comes first");
    // A flipped byte is for the Merkle proof to find; here it must only never be taken for something else.
    for at in (0..good[1].len()).step_by(7) {
        let mut flipped = good[1].to_vec();
        flipped[at] ^= 0x80;
        let mut chunks = good.clone();
        chunks[1] = Bytes::from(flipped);
        let mut kv = Kv::new(Config::default());
        let taken = (0..).zip(&chunks).all(|(index, chunk)| kv.restore(index, chunk).is_ok());
        kv.invariants();
        assert!(!taken || kv.root() != root_of(&good));
    }
}

fn root_of(chunks: &[Bytes]) -> synod_crypto::Hash {
    merkle::Tree::new(chunks.iter().map(|chunk| merkle::leaf(chunk)).collect()).root()
}

#[test]
fn an_empty_store_has_one_chunk() {
    let mut kv = Kv::new(Config::default());
    assert_eq!(kv.chunks(), 1);
    let mut copy = restored(&kv);
    assert_eq!(copy.root(), kv.root());
    assert_eq!(kv.bytes(), 0);
}
