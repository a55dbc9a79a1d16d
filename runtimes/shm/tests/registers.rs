//! Operations on registers in place: answers, cooldown, liars and epochs, with a clock that the test moves.

use std::cell::Cell;
use std::sync::Arc;

use synod_machine::register::{Held, Place, Region, RegisterOp, RegisterReply, Said};
use synod_machine::{Span, Time};
use synod_quorum::Epoch;
use synod_shm::registers::WAITING_MAX;
use synod_shm::{Agreed, Clock, Progress, Registers, RegistersConfig, Shown, Written, offer, see};
use synod_tail::Words;

/// A clock that goes on by `step` each time it is read.
struct Steps {
    now: Cell<u64>,
    step: Cell<u64>,
}

impl Clock for Steps {
    fn now(&self) -> Time {
        self.now.set(self.now.get() + self.step.get());
        Time(self.now.get())
    }
}

const DELTA: u64 = 1_000;
type Own = Arc<Written>;

struct Pair {
    mine: Registers<Own, Shown>,
    other: Registers<Own, Shown>,
    /// The words of the other's region, as the other may write them.
    raw: Own,
    clock: Steps,
}

fn config(me: u8) -> RegistersConfig {
    RegistersConfig { me, members: 2, registers: 4, tail: 2, cooldown: Span(DELTA), boot: 9 }
}

fn region(owner: u8) -> Region {
    Region { epoch: Epoch(0), owner }
}

fn pair() -> Pair {
    let mut mine = Registers::new(config(0)).expect("a layout");
    let mut other = Registers::new(config(1)).expect("a layout");
    let words = mine.words();
    let agreed = Agreed { words, uid: rustix::process::geteuid().as_raw() };
    let (a, b) = (offer("a", words).expect("memory"), offer("b", words).expect("memory"));
    let raw = Arc::new(b.0);
    assert!(mine.own(Epoch(0), Arc::new(a.0)) && other.own(Epoch(0), Arc::clone(&raw)));
    assert!(mine.show(region(1), see(b.1, agreed).expect("as agreed")));
    assert!(other.show(region(0), see(a.1, agreed).expect("as agreed")));
    Pair { mine, other, raw, clock: Steps { now: Cell::new(0), step: Cell::new(0) } }
}

fn held(stamp: u64) -> Held {
    let mut value = [7; 96];
    value[..8].copy_from_slice(&stamp.to_le_bytes());
    value[95] = 3;
    Held { stamp, value }
}

fn write(owner: u8, index: u32, stamp: u64) -> RegisterOp {
    RegisterOp::Write { tag: stamp, place: Place { region: region(owner), index }, held: held(stamp) }
}

fn read(owner: u8, index: u32) -> RegisterOp {
    RegisterOp::Read { tag: 77, place: Place { region: region(owner), index } }
}

fn tick(at: &mut Registers<Own, Shown>, clock: &Steps) -> (Vec<RegisterReply>, Progress) {
    let mut answers = Vec::new();
    let progress = at.tick(clock, &mut |reply| answers.push(reply));
    (answers, progress)
}

fn asked(at: &mut Registers<Own, Shown>, clock: &Steps, op: RegisterOp) -> Option<Said> {
    assert!(at.begin(op));
    let (answers, _) = tick(at, clock);
    assert!(answers.len() <= 1);
    answers.first().map(|reply| {
        assert_eq!((reply.tag, reply.place, reply.boot), (op.tag(), op.place(), 9));
        reply.said
    })
}

#[test]
fn what_the_owner_wrote_everybody_reads_and_nobody_else_writes() {
    let Pair { mut mine, mut other, clock, .. } = pair();
    assert_eq!(asked(&mut mine, &clock, read(1, 0)), Some(Said::Value(None)));
    assert_eq!(asked(&mut other, &clock, write(1, 0, 2)), Some(Said::Written));
    assert_eq!(asked(&mut other, &clock, read(1, 0)), Some(Said::Value(Some(held(2)))));
    assert_eq!(asked(&mut mine, &clock, read(1, 0)), Some(Said::Value(Some(held(2)))));
    assert_eq!(asked(&mut mine, &clock, write(1, 0, 4)), Some(Said::Refused));
    for (op, why) in [(write(1, 4, 4), "index"), (read(1, 4), "index"), (read(2, 0), "owner")] {
        assert_eq!(asked(&mut other, &clock, op), Some(Said::Refused), "{why}");
    }
    assert_eq!(asked(&mut other, &clock, write(1, 1, 4)), Some(Said::Refused), "another register's stamp");
}

#[test]
fn a_write_waits_for_the_cooldown_and_what_is_not_newer_does_not() {
    let Pair { mut mine, clock, .. } = pair();
    assert_eq!(asked(&mut mine, &clock, write(0, 0, 2)), Some(Said::Written));
    assert_eq!(asked(&mut mine, &clock, write(0, 0, 2)), Some(Said::Written), "said again");
    assert_eq!(asked(&mut mine, &clock, write(0, 2, 2)), Some(Said::Written), "another register");
    assert!(mine.begin(write(0, 0, 4)));
    for at in [0, DELTA - 1] {
        clock.now.set(at);
        let waits = Progress::Idle { next_timer: Some(Time(DELTA)) };
        assert_eq!(tick(&mut mine, &clock), (vec![], waits));
    }
    clock.now.set(DELTA);
    let (answers, progress) = tick(&mut mine, &clock);
    assert_eq!((answers[0].said, progress, mine.waiting()), (Said::Written, Progress::Worked, 0));
    assert_eq!(asked(&mut mine, &clock, write(0, 0, 2)), Some(Said::Refused), "older");
}

#[test]
fn a_slow_read_of_one_value_is_repeated_until_it_was_quick() {
    let Pair { mut mine, mut other, clock, .. } = pair();
    assert_eq!(asked(&mut other, &clock, write(1, 0, 2)), Some(Said::Written));
    clock.step.set(DELTA / 2);
    assert_eq!(asked(&mut mine, &clock, read(1, 0)), None);
    assert_eq!(tick(&mut mine, &clock), (vec![], Progress::Worked), "it does not sleep over it");
    clock.step.set(DELTA / 2 - 1);
    assert_eq!(tick(&mut mine, &clock).0[0].said, Said::Value(Some(held(2))));
}

#[test]
fn an_owner_with_one_stamp_twice_is_found_out_and_read_again_later() {
    let Pair { mut mine, raw, clock, .. } = pair();
    for half in [0, 13] {
        raw.store(half, 2);
    }
    assert_eq!(asked(&mut mine, &clock, read(1, 0)), Some(Said::Abused));
    raw.store(13, 4);
    assert!(matches!(asked(&mut mine, &clock, read(1, 0)), Some(Said::Value(Some(Held { stamp: 4, .. })))));
    for stamp in [u64::MAX, 1 << 62, 3] {
        raw.store(0, stamp);
        raw.store(13, 0);
        assert_eq!(asked(&mut mine, &clock, read(1, 0)), Some(Said::Value(None)), "{stamp}");
    }
}

#[test]
fn epochs_that_are_over_are_retired_and_those_to_come_are_silent() {
    let Pair { mut mine, clock, raw, .. } = pair();
    let later =
        RegisterOp::Read { tag: 1, place: Place { region: Region { epoch: Epoch(1), owner: 1 }, index: 0 } };
    assert_eq!(asked(&mut mine, &clock, later), None);
    assert_eq!(mine.waiting(), 0);
    mine.retire(Epoch(1));
    for op in [read(1, 0), read(0, 0), write(0, 0, 2)] {
        assert_eq!(asked(&mut mine, &clock, op), Some(Said::Retired { oldest: Epoch(1) }));
    }
    assert!(!mine.own(Epoch(0), Arc::clone(&raw)), "what is over does not come back");
    assert!(mine.own(Epoch(1), raw));
}

#[test]
fn what_waits_is_bounded() {
    let Pair { mut mine, clock, .. } = pair();
    for _ in 0..WAITING_MAX {
        assert!(mine.begin(read(1, 0)));
    }
    assert!(!mine.begin(read(1, 0)));
    assert_eq!(tick(&mut mine, &clock).0.len(), WAITING_MAX);
    assert!(mine.begin(read(1, 0)));
}

/// Words whose reader is held at its first look at the second half, while somebody else does `meanwhile`.
struct Stalled<F> {
    words: Shown,
    meanwhile: std::cell::RefCell<Option<F>>,
}

impl<F: FnOnce()> Words for Stalled<F> {
    fn load(&self, at: u32) -> u64 {
        if at == 13
            && let Some(meanwhile) = self.meanwhile.borrow_mut().take()
        {
            meanwhile();
        }
        self.words.load(at)
    }
    fn store(&self, at: u32, value: u64) {
        self.words.store(at, value);
    }
    fn fence(&self, fence: synod_tail::Fence) {
        self.words.fence(fence);
    }
}

#[test]
fn t43_a_read_that_was_held_between_the_halves_during_two_writes_is_made_again() {
    let clock = std::rc::Rc::new(Steps { now: Cell::new(0), step: Cell::new(0) });
    let mut owner: Registers<Own, Shown> = Registers::new(config(1)).expect("a layout");
    let words = owner.words();
    let (raw, descriptor) = offer("b", words).expect("memory");
    assert!(owner.own(Epoch(0), Arc::new(raw)));
    for stamp in [2, 4] {
        clock.now.set(clock.now.get() + DELTA);
        assert_eq!(asked(&mut owner, &clock, write(1, 0, stamp)), Some(Said::Written));
    }
    // The reader has the older half; both halves are written anew before it looks at the other.
    let writes = {
        let clock = std::rc::Rc::clone(&clock);
        move || {
            for stamp in [6, 8] {
                clock.now.set(clock.now.get() + DELTA);
                assert_eq!(asked(&mut owner, &clock, write(1, 0, stamp)), Some(Said::Written));
            }
        }
    };
    let agreed = Agreed { words, uid: rustix::process::geteuid().as_raw() };
    let shown = see(descriptor, agreed).expect("as agreed");
    let stalled = Stalled { words: shown, meanwhile: std::cell::RefCell::new(Some(writes)) };
    let mut reader: Registers<Own, _> = Registers::new(config(0)).expect("a layout");
    assert!(reader.show(region(1), stalled) && reader.begin(read(1, 0)));
    let mut said = Vec::new();
    let progress = reader.tick(&*clock, &mut |reply| said.push(reply.said));
    assert_eq!((said, progress), (vec![Said::Value(Some(held(8)))], Progress::Worked));
}
