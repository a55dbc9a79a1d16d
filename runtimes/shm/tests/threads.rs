//! Rings, registers and doorbells over mapped memory, between threads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use synod_shm::registers::layout;
use synod_shm::{Agreed, Button, Doorbell, Look, Shown, Written, offer, see};
use synod_tail::Words;
use synod_tail::register::{Owner, Pace, Value, Verdict};
use synod_tail::ring::{Header, Polled, Reader, Ring, RingSpec, Writer};

const HEADER: Header = Header { queue: 1, epoch: 0 };

fn shared(words: u32) -> (Written, Shown) {
    let (written, descriptor) = offer("test", words).expect("memory");
    let uid = rustix::process::geteuid().as_raw();
    (written, see(descriptor, Agreed { words, uid }).expect("as agreed"))
}

fn ring(depth: u32) -> Ring {
    Ring::new(RingSpec { depth, slot_bytes: 64 }).expect("a ring")
}

#[test]
fn a_receiver_paused_for_ten_rounds_gets_the_last_messages_in_order_and_goes_on() {
    let ring = ring(16);
    let (written, shown) = shared(ring.words());
    let (sent, read) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let (sender_sent, sender_read) = (Arc::clone(&sent), Arc::clone(&read));
    let sender = thread::spawn(move || {
        let mut writer = Writer::new(ring, written);
        for upto in [160_u64, 170] {
            while writer.sent() < upto {
                let next = writer.sent() + 1;
                writer.send(HEADER, &next.to_le_bytes()).expect("short");
            }
            sender_sent.wait();
            sender_read.wait();
        }
    });
    let (mut reader, mut buffer) = (Reader::new(ring, shown), [0; 48]);
    for (first, last) in [(145_u64, 160_u64), (161, 170)] {
        sent.wait();
        let mut got = Vec::new();
        loop {
            match reader.poll(&mut buffer) {
                Polled::Message(arrived) => {
                    assert_eq!(arrived.payload(&buffer), arrived.sequence.to_le_bytes());
                    got.push(arrived.sequence);
                }
                Polled::Empty => break,
                Polled::Lapped { .. } | Polled::Malformed => {}
            }
        }
        assert_eq!(got, (first..=last).collect::<Vec<_>>());
        read.wait();
    }
    sender.join().expect("it ends");
    assert_eq!(reader.lost(), 144);
}

#[test]
fn a_writer_of_anything_costs_its_reader_bounded_steps() {
    let ring = ring(4);
    let (written, shown) = shared(ring.words());
    let liar = thread::spawn(move || {
        let mut state = 1_u64;
        for _ in 0..400_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = u32::try_from(state >> 40).expect("24 bits") % ring.words();
            // Small sequences, whole words of anything, and the largest numbers.
            let value = [state >> 60, state, u64::MAX, (1 << 62) - 1]
                [usize::try_from(state >> 33 & 3).expect("small")];
            written.store(at, value);
        }
    });
    let (mut reader, mut buffer, mut polls) = (Reader::new(ring, shown), [0; 48], 0_u64);
    while !liar.is_finished() {
        if let Polled::Message(arrived) = reader.poll(&mut buffer) {
            assert!(arrived.length <= ring.payload_max());
        }
        polls += 1;
    }
    liar.join().expect("it ends");
    assert!(polls > 0);
}

#[test]
fn no_ring_of_a_bell_is_lost_in_a_hundred_thousand_rounds() {
    const ROUNDS: u64 = 100_000;
    let (written, shown) = shared(1);
    let mut bell = Doorbell::new().expect("a bell");
    let uid = rustix::process::geteuid().as_raw();
    let status = bell.status().try_clone().expect("a copy");
    let page = see(status, Agreed { words: 1, uid }).expect("as agreed");
    let mut button = Button::new(page, bell.cord().expect("a cord"));
    let seen = Arc::new(AtomicU64::new(0));
    let told = Arc::clone(&seen);
    let sender = thread::spawn(move || {
        for round in 1..=ROUNDS {
            written.store(0, round);
            button.press();
            // Only a receiver that saw this one lets it go on: a ring that is lost stops both for ever.
            while told.load(Ordering::Acquire) < round {
                thread::yield_now();
            }
        }
        button.rings()
    });
    for round in 1..=ROUNDS {
        while shown.load(0) < round {
            let look = || if shown.load(0) < round { Look::Nothing(None) } else { Look::Found };
            bell.sleep(look).expect("it sleeps");
        }
        seen.store(round, Ordering::Release);
    }
    let rings = sender.join().expect("it ends");
    assert!(rings > 0 && rings <= bell.sleeps(), "{rings} of {}", bell.sleeps());
}

#[test]
fn a_sender_that_rings_without_end_or_hangs_up_blocks_nobody() {
    let mut bell = Doorbell::new().expect("a bell");
    let cord = bell.cord().expect("a cord");
    let flags = rustix::net::SendFlags::DONTWAIT;
    while rustix::net::send(&cord, &[0; 4096], flags).is_ok() {}
    let mut woken = || bell.sleep(|| Look::Nothing(None)).expect("it wakes");
    assert_eq!((woken(), woken()), (synod_shm::Woken::Rung, synod_shm::Woken::Rung));
    drop(cord);
    while bell.cords() > 0 {
        bell.sleep(|| Look::Nothing(None)).expect("it wakes");
    }
}

fn value(k: u64) -> Value {
    let mut value = Value { digest: [0; 32], signature: [0; 64] };
    value.digest[..8].copy_from_slice(&k.to_le_bytes());
    value
}

/// Words whose `SeqCst` fences may be missing.
struct Fenced<W>(W, bool);

impl<W: Words> Words for Fenced<W> {
    fn load(&self, at: u32) -> u64 {
        self.0.load(at)
    }
    fn store(&self, at: u32, value: u64) {
        self.0.store(at, value);
    }
    fn fence(&self, fence: synod_tail::Fence) {
        if self.1 || fence != synod_tail::Fence::SeqCst {
            self.0.fence(fence);
        }
    }
}

/// Two threads write their own register and then read the other's, `rounds` times; gives how often both missed.
fn both_missed(rounds: u64, fences: bool) -> u64 {
    let layout = layout(1, 1).expect("a region");
    let (a, b) = (shared(layout.words()), shared(layout.words()));
    let at = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let run = |me: usize, own: Written, other: Shown, at: Arc<[AtomicU64; 2]>| {
        thread::spawn(move || {
            let (mut owner, other) = (Owner::new(layout, Fenced(own, fences)), Fenced(other, fences));
            let mut missed = Vec::new();
            for k in 1..=rounds {
                at[me].store(k, Ordering::Release);
                let mut turns = 0_u32;
                while at[1 - me].load(Ordering::Acquire) < k {
                    turns += 1;
                    if turns.is_multiple_of(256) { thread::yield_now() } else { std::hint::spin_loop() }
                }
                owner.write(0, k, &value(k)).expect("it is newer");
                let pace = Pace { taken_ns: 0, delta_ns: u64::MAX };
                let got = layout.copy(&other, 0).judge(pace);
                if !matches!(got, Verdict::Value(entry) if entry.k >= k) {
                    missed.push(k);
                }
            }
            missed
        })
    };
    let first = run(0, a.0, b.1, Arc::clone(&at));
    let second = run(1, b.0, a.1, at);
    let (first, second) = (first.join().expect("it ends"), second.join().expect("it ends"));
    first.iter().filter(|k| second.binary_search(k).is_ok()).count() as u64
}

/// `SYNOD_LITMUS_ROUNDS=10000000 cargo test --release -p synod-shm --test threads of_two -- --nocapture` shows what the
/// fence is for; how often both miss without it depends on the processor, so that nothing is asserted of it.
#[test]
fn of_two_that_write_and_then_read_one_at_least_sees_the_other() {
    let rounds =
        std::env::var("SYNOD_LITMUS_ROUNDS").map_or(100_000, |rounds| rounds.parse().expect("a number"));
    println!("both missed without SeqCst fences: {} of {rounds}", both_missed(rounds, false));
    assert_eq!(both_missed(rounds, true), 0);
    println!("both missed with them: 0 of {rounds}");
}
