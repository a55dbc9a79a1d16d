//! T12 and T13 at the driver: a peer that was let in and then writes anything, at any time, into all memory that it
//! showed. It costs its own link; who else is linked notices nothing.

#[expect(dead_code, reason = "only rallies are played here")]
mod echo;

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use echo::{Heard, Play, QUEUES, Told, player};
use synod_machine::{Full, Link};
use synod_quorum::NodeId;
use synod_shm::line::PIPE_BYTES_MAX;
use synod_shm::{
    Door, Doorbell, Hand, Kind, Label, Neighbour, Neighbourhood, Porter, Rest, Written, introduce, offer,
    poller,
};
use synod_tail::Words;
use synod_tail::ring::{Ring, RingSpec};

const GUARD: Duration = Duration::from_secs(20);
/// Words of a link's page.
const PAGE: u32 = 512;
const LIAR: u32 = 2;

fn me() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Words of the memory of each queue, reckoned once more from what a ring and a pipe are.
fn words(queue: usize) -> u32 {
    match QUEUES[queue].full {
        Full::EvictOldest => {
            let slot_bytes = (QUEUES[queue].frame_max + 16).next_multiple_of(64);
            Ring::new(RingSpec { depth: QUEUES[queue].depth, slot_bytes }).expect("a ring").words()
        }
        Full::DropNewest | Full::Reset => PIPE_BYTES_MAX / 8,
    }
}

/// What a liar holds: its memory, and what keeps its link.
struct Liar {
    memory: Vec<Written>,
    hand: Hand,
    _bell: Doorbell,
    _theirs: Vec<OwnedFd>,
}

/// Calls a node, shows it memory and takes what it shows.
fn call(door: &Path) -> Liar {
    let label = |kind, queue, words| Label { kind, node: LIAR, queue, epoch: 0, words, boot: 1 };
    let hand = Hand::connect(door, me()).expect("a door");
    hand.say(&label(Kind::Hello, 0, 0)).expect("said");
    assert_eq!(hand.take().expect("an answer").0.kind, Kind::Hello);
    let mut bell = Doorbell::new().expect("a bell");
    hand.give(&label(Kind::Status, 0, 0), bell.status().as_fd()).expect("given");
    hand.give(&label(Kind::Cord, 0, 0), bell.cord().expect("a cord").as_fd()).expect("given");
    let mut memory = Vec::new();
    let mut show = |kind, queue: u16, words| {
        let (written, descriptor) = offer("liar", words).expect("memory");
        hand.give(&label(kind, queue, words), descriptor.as_fd()).expect("given");
        memory.push(written);
    };
    show(Kind::Page, 0, PAGE);
    for queue in 0..QUEUES.len() {
        show(Kind::Ring, u16::try_from(queue).expect("few"), words(queue));
    }
    hand.say(&label(Kind::Done, 0, 0)).expect("said");
    let mut theirs = Vec::new();
    loop {
        match hand.take().expect("its memory") {
            (label, None) if label.kind == Kind::Done => break,
            (_, descriptor) => theirs.extend(descriptor),
        }
    }
    Liar { memory, hand, _bell: bell, _theirs: theirs }
}

struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // The door is this test's own.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn scratch(name: &str) -> Scratch {
    Scratch(std::env::temp_dir().join(format!("synod-hostile-{name}-{}", std::process::id())))
}

fn changes(heard: &Heard, peer: u32) -> Vec<Link> {
    let change = |told: &Told| match told {
        Told::Linked(node, link) if node.0 == peer => Some(*link),
        _ => None,
    };
    heard.lock().expect("no panic").iter().filter_map(change).collect()
}

/// Polls a node, its honest neighbour and whoever calls at its door, until `done`.
fn run(name: &str, lie: impl FnOnce(Liar, Arc<AtomicBool>) + Send + 'static, balls: u64) -> Heard {
    let path = scratch(name);
    let bell = Doorbell::new().expect("a bell");
    let ropes = bell.ropes().clone();
    let (mut one, _, heard) = player(0, &ropes);
    let (mut other, _, _) = player(1, &ropes);
    introduce(&mut one, &mut other, None).expect("alike");
    let door = Some(Door::bind(&path.0).expect("a door"));
    let neighbours = vec![Neighbour { node: NodeId(LIAR), uid: me(), door: None }];
    let porter =
        Porter::start(&one, &ropes, Neighbourhood { incarnation: 1, door, neighbours }).expect("a thread");
    let stop = Arc::new(AtomicBool::new(false));
    let (called, stopped) = (path.0.clone(), Arc::clone(&stop));
    let liar = thread::spawn(move || lie(call(&called), stopped));
    let mut poller = poller(vec![one, other], Rest::Yield, bell);
    let begun = Instant::now();
    while changes(&heard, LIAR).is_empty() || changes(&heard, 1).is_empty() {
        assert!(begun.elapsed() < GUARD, "links");
        poller.pass().expect("it polls");
    }
    assert!(poller.items()[0].input(0, Play::Rally { peer: NodeId(1), balls }));
    while !heard.lock().expect("no panic").contains(&Told::Back(balls)) {
        assert!(begun.elapsed() < GUARD, "the rally of the honest");
        poller.pass().expect("it polls");
    }
    stop.store(true, Ordering::Release);
    liar.join().expect("it ends");
    while changes(&heard, LIAR).last() == Some(&Link::Up) {
        assert!(begun.elapsed() < GUARD, "the end of the liar's link");
        poller.pass().expect("it polls");
    }
    drop(porter);
    heard
}

#[test]
fn t13_a_peer_that_writes_anything_anywhere_loses_its_link_and_nobody_elses() {
    let heard = run(
        "anything",
        |liar, stop| {
            liar.memory[0].store(0, 1);
            let mut state = 1_u64;
            while !stop.load(Ordering::Acquire) {
                for memory in &liar.memory[1..] {
                    state =
                        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let count = u64::try_from(memory.count()).expect("few");
                    // The first words are counts and headers, and are hit as often as all others together.
                    let at = if state >> 63 == 0 { state >> 33 & 15 } else { (state >> 33) % count };
                    let value = [state >> 60, state, u64::MAX, 1 << 32 | state >> 50]
                        [usize::try_from(state >> 29 & 3).expect("small")];
                    memory.store(u32::try_from(at).expect("in the memory"), value);
                }
            }
        },
        5_000,
    );
    assert_eq!(changes(&heard, 1), [Link::Up], "the honest link stands");
}

#[test]
fn a_peer_that_breaks_its_link_without_end_is_served_a_change_a_tick_and_others_go_on() {
    let heard = run(
        "breaks",
        |liar, stop| {
            let mut generation = 1_u64;
            while !stop.load(Ordering::Acquire) {
                liar.memory[0].store(0, generation);
                generation += 1;
            }
            // The largest that is left, one that goes back, and none at all.
            for last in [u64::from(u32::MAX), 3, u64::MAX] {
                liar.memory[0].store(0, last);
            }
        },
        5_000,
    );
    assert_eq!(changes(&heard, 1), [Link::Up], "the honest link stands");
    let liars = changes(&heard, LIAR);
    assert!(liars.windows(2).all(|two| two[0] != two[1]), "up and down in turn");
}

#[test]
fn a_peer_that_sends_what_does_not_decode_is_struck_and_one_that_is_silent_is_let_be() {
    let heard = run(
        "undecodable",
        |liar, stop| {
            liar.memory[0].store(0, 1);
            // A frame of one byte that is no version, three times, in the ring: header word, payload, sequence.
            let slot = words(0) / QUEUES[0].depth;
            for sequence in 1..=3_u32 {
                let at = (sequence - 1) * slot;
                liar.memory[1].store(at + 1, 1 | 1 << 32);
                liar.memory[1].store(at + 2, 0xff);
                liar.memory[1].fence(synod_tail::Fence::Release);
                liar.memory[1].store(at, u64::from(sequence));
            }
            while !stop.load(Ordering::Acquire) {
                thread::yield_now();
            }
            drop(liar.hand);
        },
        20_000,
    );
    assert_eq!(changes(&heard, LIAR), [Link::Up, Link::Down], "and it does not follow to a new link");
    assert_eq!(changes(&heard, 1), [Link::Up], "the honest link stands");
}
