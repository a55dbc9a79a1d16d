//! Ring and register under loom: two threads, relaxed words, explicit fences, every order within a bound of
//! preemptions. The exploration beside it has another memory model and no such bound; two models check each other.
//!
//! Run by `RUSTFLAGS="--cfg loom" cargo test -p synod-tail --release --test loom --target-dir target/loom`: loom
//! switches on features of crates that the product has without them, so it is no part of other builds.

#![cfg(loom)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering as Count};

use loom::model::Builder;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;
use synod_tail::register::{Backend, HALF_WORDS, Owner, Pace, Region, RegionSpec, Value, Verdict};
use synod_tail::ring::{Header, Polled, Reader, Ring, RingSpec, Writer};
use synod_tail::{Fence, Words};

/// The fences that are there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fences {
    All,
    /// All but those of the ring and of the register around their data.
    SeqCstAlone,
}

/// Words of which some are dull: always zero, whatever is stored.
struct Watched {
    cells: Vec<Option<AtomicU64>>,
    fences: Fences,
}

impl Watched {
    fn new(count: u32, fences: Fences, dull: fn(u32) -> bool) -> Arc<Self> {
        let cells = (0..count).map(|at| (!dull(at)).then(|| AtomicU64::new(0))).collect();
        Arc::new(Self { cells, fences })
    }
}

impl Words for Watched {
    fn load(&self, at: u32) -> u64 {
        self.cells[at as usize].as_ref().map_or(0, |cell| cell.load(Ordering::Relaxed))
    }
    fn store(&self, at: u32, value: u64) {
        if let Some(cell) = &self.cells[at as usize] {
            cell.store(value, Ordering::Relaxed);
        }
    }
    fn fence(&self, order: Fence) {
        if self.fences == Fences::SeqCstAlone && order != Fence::SeqCst {
            return;
        }
        fence(match order {
            Fence::Acquire => Ordering::Acquire,
            Fence::Release => Ordering::Release,
            Fence::SeqCst => Ordering::SeqCst,
        });
    }
}

/// Runs `model` in every order and says how many there were.
fn orders(preemptions: usize, model: impl Fn() + Sync + Send + 'static) -> usize {
    let ran = Arc::new(AtomicUsize::new(0));
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    let count = Arc::clone(&ran);
    builder.check(move || {
        count.fetch_add(1, Count::Relaxed);
        model();
    });
    ran.load(Count::Relaxed)
}

fn ring_orders(fences: Fences) -> usize {
    orders(3, move || {
        let ring = Ring::new(RingSpec { depth: 2, slot_bytes: 64 }).expect("a ring");
        // Slots of eight words, four of which are used.
        let words = Watched::new(ring.words(), fences, |at| at % 8 > 3);
        let mut writer = Writer::new(ring, Arc::clone(&words));
        let sender = thread::spawn(move || {
            for s in 1..=3_u8 {
                assert_eq!(writer.send(Header { queue: s, epoch: 0 }, &[s; 16]), Ok(s.into()));
            }
        });
        let mut reader = Reader::new(ring, words);
        let mut got = Vec::new();
        let mut take = |reader: &mut Reader<_>| {
            let mut buffer = [0; 48];
            let polled = reader.poll(&mut buffer);
            if let Polled::Message(arrived) = polled {
                let s = u8::try_from(arrived.sequence).expect("few messages");
                let whole = arrived.payload(&buffer) == [s; 16] && arrived.header.queue == s;
                assert!(whole, "torn: {arrived:?}");
                assert!(got.last().is_none_or(|last| *last < s), "{got:?}, {s}");
                got.push(s);
            }
            assert_ne!(polled, Polled::Malformed);
            polled
        };
        for _ in 0..3 {
            take(&mut reader);
        }
        sender.join().expect("the sender ends");
        while take(&mut reader) != Polled::Empty {}
        assert!(got.ends_with(&[2, 3]), "{got:?}");
    })
}

#[test]
fn a_message_under_loom_is_whole_in_order_and_the_last_two_arrive() {
    let ran = ring_orders(Fences::All);
    println!("ring: {ran} orders");
    assert!(ran >= 8_000);
}

#[test]
#[should_panic(expected = "torn")]
fn without_fences_loom_finds_a_torn_message() {
    ring_orders(Fences::SeqCstAlone);
}

fn value(k: u64) -> Value {
    let mut value = Value { digest: [0; 32], signature: [0; 64] };
    value.digest[0] = u8::try_from(k).expect("few writes");
    value.signature[63] = value.digest[0];
    value
}

fn register_orders(fences: Fences) -> usize {
    orders(2, move || {
        let backend = Backend { one_sided: true, atomic_read: false };
        let region = Region::new(RegionSpec { registers: 1, tail: 1, backend }).expect("a region");
        let words = Watched::new(region.words(), fences, |at| !matches!(at % HALF_WORDS, 0 | 1 | 12));
        let completed = Arc::new(AtomicU64::new(0));
        let mut owner = Owner::new(region, Arc::clone(&words));
        let writer = {
            let completed = Arc::clone(&completed);
            thread::spawn(move || {
                for k in 1..=4 {
                    assert_eq!(owner.write(0, k, &value(k)), Ok(()));
                    completed.store(k, Ordering::Relaxed);
                }
            })
        };
        let floor = completed.load(Ordering::Relaxed);
        words.fence(Fence::SeqCst);
        // The owner lets no time pass, so that a READ counts as slow: two whole halves or nothing.
        match region.copy(&words, 0).judge(Pace { taken_ns: 1, delta_ns: 1 }) {
            Verdict::Value(entry) => {
                assert!(entry.value == value(entry.k), "torn: {entry:?}");
                assert!(entry.k >= floor, "{} where {floor} was complete", entry.k);
            }
            Verdict::Retry => {}
            other => unreachable!("of a correct owner: {other:?}"),
        }
        writer.join().expect("the owner ends");
        let Verdict::Value(last) = region.copy(&words, 0).judge(Pace { taken_ns: 0, delta_ns: 9 }) else {
            unreachable!("at rest the newest is there")
        };
        assert_eq!(last.k, 4);
    })
}

#[test]
fn a_value_under_loom_is_whole_and_not_older_than_what_was_complete() {
    let ran = register_orders(Fences::All);
    println!("register: {ran} orders");
    assert!(ran >= 19_000);
}

#[test]
#[should_panic(expected = "torn")]
fn without_fences_loom_finds_a_torn_value() {
    register_orders(Fences::SeqCstAlone);
}
