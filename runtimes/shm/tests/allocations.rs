//! What a message costs in allocations: none between the sender's machine and the receiver's.

#[expect(dead_code, reason = "only rallies are played here")]
mod echo;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use echo::{Play, Told, player};
use synod_quorum::NodeId;
use synod_shm::{Doorbell, Rest, introduce, poller};

/// Counts what is allocated.
struct Counting;

static COUNT: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator as it came. Threads write the count and the test reads it, relaxed:
// it is a number and orders nothing.
#[expect(unsafe_code, reason = "an allocator is made of unsafe functions")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_ball_costs_no_allocation_but_that_of_what_is_told_to_the_user() {
    const BALLS: u64 = 20_000;
    let bell = Doorbell::new().expect("a bell");
    let (mut one, _, heard) = player(0, bell.ropes());
    let (mut other, _, _) = player(1, bell.ropes());
    introduce(&mut one, &mut other, None).expect("alike");
    let mut poller = poller(vec![one, other], Rest::Yield, bell);
    heard.lock().expect("no panic").reserve(1 << 16);
    let mut play = |balls: u64| {
        assert!(poller.items()[0].input(0, Play::Rally { peer: NodeId(1), balls }));
        let before = COUNT.load(Ordering::Relaxed);
        while heard.lock().expect("no panic").last() != Some(&Told::Back(balls)) {
            poller.pass().expect("it polls");
        }
        COUNT.load(Ordering::Relaxed) - before
    };
    play(BALLS / 10);
    let allocated = play(BALLS);
    // Each ball that comes back is told, in a box. The rest are buffers that grow and blocks that are taken anew.
    assert!(allocated >= BALLS, "the count counts");
    assert!(allocated - BALLS < BALLS / 100, "{} beside what is told, for {BALLS} rounds", allocated - BALLS);
}
