//! The ring and the register between two threads. Nothing is asserted about who is faster.

#![expect(clippy::disallowed_methods, reason = "the test is about threads")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use synod_tail::register::{Backend, Owner, Pace, Region, RegionSpec, Value, Verdict};
use synod_tail::ring::{Header, Polled, Reader, Ring, RingSpec, Writer};
use synod_tail::{Atomics, Fence, Words};

const MESSAGES: u64 = if cfg!(miri) { 300 } else { 300_000 };
const READS: u64 = if cfg!(miri) { 20 } else { 20_000 };
const WRITES: usize = if cfg!(miri) { 400 } else { 1_000_000 };

/// A payload of 1 to 112 bytes that tells its sequence by every byte.
fn payload(sequence: u64) -> Vec<u8> {
    let length = usize::try_from(1 + sequence % 112).expect("small");
    (0..length).map(|at| (sequence.to_le_bytes()[at % 8]) ^ u8::try_from(at).expect("small")).collect()
}

#[test]
fn what_arrives_from_another_thread_is_whole_in_order_and_ends_with_the_last() {
    for depth in [2, 3, 64] {
        let ring = Ring::new(RingSpec { depth, slot_bytes: 128 }).expect("a ring");
        let words = Arc::new(Atomics::zeroed(ring.words()));
        let mut writer = Writer::new(ring, Arc::clone(&words));
        let sender = thread::spawn(move || {
            for s in 1..=MESSAGES {
                assert_eq!(writer.send(Header { queue: 7, epoch: 1 }, &payload(s)), Ok(s));
            }
        });
        let mut reader = Reader::new(ring, words);
        let (mut buffer, mut got, mut last) = ([0; 112], 0, 0);
        while last < MESSAGES {
            match reader.poll(&mut buffer) {
                Polled::Message(arrived) => {
                    assert!(arrived.sequence > last);
                    assert_eq!(arrived.payload(&buffer), payload(arrived.sequence), "{arrived:?}");
                    assert_eq!(arrived.header, Header { queue: 7, epoch: 1 });
                    (got, last) = (got + 1, arrived.sequence);
                }
                Polled::Empty => thread::yield_now(),
                Polled::Lapped { .. } => {}
                Polled::Malformed => unreachable!("a correct writer"),
            }
        }
        sender.join().expect("the sender ends");
        assert_eq!(got + reader.lost(), MESSAGES);
        assert!(got >= u64::from(depth) && reader.malformed() == 0);
    }
}

/// The owner lets no time pass, so that halves tear as often as can be; a READ is judged as slow, so that only two
/// whole halves count.
#[test]
fn a_value_from_another_thread_is_whole_and_not_older_than_what_was_complete() {
    let backend = Backend { one_sided: true, atomic_read: false };
    let region = Region::new(RegionSpec { registers: 4, tail: 4, backend }).expect("a region");
    let words = Arc::new(Atomics::zeroed(region.words()));
    let (completed, read) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let value = |k: u64| Value {
        digest: std::array::from_fn(|at| k.to_le_bytes()[at % 8]),
        signature: std::array::from_fn(|at| k.to_be_bytes()[at % 8]),
    };
    let mut owner = Owner::new(region, Arc::clone(&words));
    let writer = {
        let (completed, read) = (Arc::clone(&completed), Arc::clone(&read));
        thread::spawn(move || {
            // Behind the last WRITE every READ has a value, so the reader ends.
            for k in (2..).step_by(4).take(WRITES) {
                assert_eq!(owner.write(2, k, &value(k)), Ok(()));
                completed.store(k, Ordering::SeqCst);
                if read.load(Ordering::Relaxed) >= READS {
                    return;
                }
                if k % 64 == 2 {
                    thread::yield_now();
                }
            }
        })
    };
    while read.load(Ordering::Relaxed) < READS {
        let floor = completed.load(Ordering::SeqCst);
        words.fence(Fence::SeqCst);
        match region.copy(&words, 2).judge(Pace { taken_ns: 1, delta_ns: 1 }) {
            Verdict::Value(entry) => {
                assert_eq!(entry.value, value(entry.k));
                assert!(entry.k >= floor, "{} where {floor} was complete", entry.k);
                read.fetch_add(1, Ordering::Relaxed);
            }
            Verdict::Retry => thread::yield_now(),
            other => unreachable!("of a correct owner: {other:?}"),
        }
    }
    writer.join().expect("the owner ends");
}
