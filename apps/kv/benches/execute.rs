//! What one operation costs: `cargo bench -p synod-kv`. Budget: 1,000 ns for each simple operation.
//!
//! Prints nanoseconds per operation for blocks of 256 requests over 100,000 keys, and for the root after each
//! 65,536 operations.

use std::hint::black_box;
use std::time::Duration;

use synod_crypto::Hash;
use synod_kv::{Config, Kv, Verb, operation};
use synod_service::{App, At, Position, Replies, Request, Wall};

/// Requests per block.
const BLOCK: usize = 256;
/// Operations per measurement.
const OPERATIONS: usize = 1 << 20;
/// Keys of the keyed operations.
const KEYS: u64 = 100_000;

#[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "a benchmark measures time")]
fn timed(run: impl FnOnce()) -> Duration {
    let start = std::time::Instant::now();
    run();
    start.elapsed()
}

fn operation(verb: Verb, arguments: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    operation::write_command(verb, arguments.iter().copied(), &mut out);
    out
}

/// Executes the operations in blocks.
fn execute(kv: &mut Kv, operations: &[Vec<u8>], count: usize) {
    let mut replies = Replies::default();
    let mut position = 0;
    for start in (0..count).step_by(BLOCK) {
        position += 1;
        let at = At {
            position: Position(position),
            time: Wall(position),
            draw: Hash::of(&position.to_le_bytes()),
        };
        let mut requests = (start..start + BLOCK).map(|index| Request {
            session: 1,
            sequence: index as u64,
            body: &operations[index % operations.len()],
        });
        kv.execute(&at, &mut requests, &mut replies);
        black_box(replies.drain().count());
    }
}

fn report(name: &str, time: Duration, count: usize) {
    println!("{name:<24} {:>8} ns", time.as_nanos() / count as u128);
}

/// One operation per key, made from key and value.
fn keyed(make: fn(&[u8], &[u8]) -> Vec<u8>) -> Vec<Vec<u8>> {
    let key = |i: u64| format!("key:{:012}", i.wrapping_mul(7_919) % KEYS);
    (0..KEYS).map(|i| make(key(i).as_bytes(), format!("{i:0128}").as_bytes())).collect()
}

fn main() {
    let mut kv = Kv::new(Config { bytes_max: u64::MAX });
    let set = |key: &[u8], value: &[u8]| operation(Verb::Set, &[key, value]);
    let cases: [(&str, Vec<Vec<u8>>); 11] = [
        ("set, new keys", keyed(set)),
        ("set, same keys", keyed(set)),
        ("get", keyed(|key, _| operation(Verb::Get, &[key]))),
        ("incr", keyed(|key, _| operation(Verb::Incr, &[&[b"n", key].concat()]))),
        ("lpush", vec![operation(Verb::LPush, &[b"list", b"xxx"])]),
        ("rpop", vec![operation(Verb::RPop, &[b"list"])]),
        ("sadd", keyed(|key, _| operation(Verb::SAdd, &[b"set", key]))),
        ("spop", vec![operation(Verb::SPop, &[b"set"])]),
        ("hset", keyed(|key, _| operation(Verb::HSet, &[b"hash", key, b"xxx"]))),
        ("zadd", keyed(|key, _| operation(Verb::ZAdd, &[b"zset", b"0", key]))),
        ("zpopmin", vec![operation(Verb::ZPopMin, &[b"zset"])]),
    ];
    for (name, operations) in &cases {
        let count = if name.contains("new") || name.contains("pop") { 100_096 } else { OPERATIONS };
        report(name, timed(|| execute(&mut kv, operations, count)), count);
    }
    let sets = &cases[1].1;
    let count = 1 << 16;
    execute(&mut kv, sets, count);
    let time = timed(|| {
        black_box(kv.root());
    });
    println!("root after 65,536 sets   {:>8} us for {} chunks", time.as_micros(), kv.chunks());
}
