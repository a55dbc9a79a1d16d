//! The parked flag under loom: a receiver that sleeps is never missed, in every order within a bound of preemptions.
//!
//! Run by `RUSTFLAGS="--cfg loom" cargo test -p synod-shm --release --test loom --target-dir target/loom`
//! (docs/adr/0027-loom.md).

#![cfg(loom)]

use std::sync::Arc;

use loom::model::Builder;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::sync::{Condvar, Mutex};
use loom::thread;
use synod_shm::flag::{Sleeper, Watcher};
use synod_tail::{Fence, Words};

/// A status page, and a message behind it, with or without the fences of the protocol.
struct Page {
    words: [AtomicU64; 2],
    fences: bool,
}

const MESSAGE: u32 = 1;

impl Words for Page {
    fn load(&self, at: u32) -> u64 {
        self.words[at as usize].load(Ordering::Relaxed)
    }
    fn store(&self, at: u32, value: u64) {
        self.words[at as usize].store(value, Ordering::Relaxed);
    }
    fn fence(&self, order: Fence) {
        if self.fences {
            assert_eq!(order, Fence::SeqCst);
            fence(Ordering::SeqCst);
        }
    }
}

/// A cord: a ring stays in it until it is taken.
struct Cord {
    rung: Mutex<u32>,
    ringing: Condvar,
}

/// Two messages; the receiver sleeps whenever it finds none. Loom calls a sleep that nobody ends a deadlock.
fn orders(fences: bool) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let page = Arc::new(Page { words: [AtomicU64::new(0), AtomicU64::new(0)], fences });
        let cord = Arc::new(Cord { rung: Mutex::new(0), ringing: Condvar::new() });
        let (to, bell) = (Arc::clone(&page), Arc::clone(&cord));
        let sender = thread::spawn(move || {
            let mut watcher = Watcher::new(Arc::clone(&to));
            for message in 1..=2 {
                to.store(MESSAGE, message);
                if watcher.must_ring() {
                    *bell.rung.lock().expect("no panic") += 1;
                    bell.ringing.notify_one();
                }
            }
        });
        let mut sleeper = Sleeper::new(Arc::clone(&page));
        for wanted in 1..=2 {
            while page.load(MESSAGE) < wanted {
                sleeper.lie_down();
                let slept = page.load(MESSAGE) < wanted;
                if slept {
                    let mut rung = cord.rung.lock().expect("no panic");
                    while *rung == 0 {
                        rung = cord.ringing.wait(rung).expect("no panic");
                    }
                }
                sleeper.rise();
                if slept {
                    *cord.rung.lock().expect("no panic") = 0;
                }
            }
        }
        sender.join().expect("it ends");
    });
}

#[test]
fn no_sleep_outlasts_a_message() {
    orders(true);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_fences_loom_finds_a_sleep_that_nobody_ends() {
    orders(false);
}
