//! `ring_ns_per_message`: a message of 64 bytes sent and polled on one thread. The budget of a message is 135 ns,
//! with what its sender and receiver do besides.

#![expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::hint::black_box;
use std::time::Instant;

use synod_tail::Atomics;
use synod_tail::ring::{Header, Polled, Reader, Ring, RingSpec, Writer};

const MESSAGES: u32 = 5_000_000;
const ROUNDS: u32 = 5;

fn main() {
    let ring = Ring::new(RingSpec { depth: 264, slot_bytes: 128 }).expect("a ring");
    let words = Atomics::zeroed(ring.words());
    let (mut writer, mut reader) = (Writer::new(ring, &words), Reader::new(ring, &words));
    let (mut buffer, mut best) = ([0_u8; 112], u128::MAX);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for n in 0..MESSAGES {
            let mut payload = [7_u8; 64];
            payload[..4].copy_from_slice(&n.to_le_bytes());
            let sent = writer.send(Header { queue: 2, epoch: 1 }, black_box(&payload));
            let polled = reader.poll(&mut buffer);
            assert!(matches!(polled, Polled::Message(arrived) if Ok(arrived.sequence) == sent));
            black_box(&buffer);
        }
        best = best.min(start.elapsed().as_nanos());
    }
    let start = Instant::now();
    for _ in 0..MESSAGES {
        assert_eq!(black_box(&mut reader).poll(&mut buffer), Polled::Empty);
    }
    let empty = start.elapsed().as_nanos();
    let per =
        |nanos: u128| format!("{}.{}", nanos / u128::from(MESSAGES), nanos * 10 / u128::from(MESSAGES) % 10);
    println!("{{\"ring_ns_per_message\":{},\"ring_ns_per_empty_poll\":{}}}", per(best), per(empty));
}
