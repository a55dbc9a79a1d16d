//! The polling loop with a clock that the test moves, and who may spin (T40).

use std::cell::Cell;
use std::rc::Rc;

use synod_machine::Time;
use synod_shm::poll::{Pass, rest_here};
use synod_shm::{Clock, Doorbell, Placement, Polled, Poller, Progress, Rest, TooFewCores, Woken, cores};

#[derive(Clone)]
struct Hand(Rc<Cell<u64>>);

impl Clock for Hand {
    fn now(&self) -> Time {
        Time(self.0.get())
    }
}

/// Works so many times, then waits for its timer.
struct Item {
    work: u32,
    ticks: u32,
    timer: Option<Time>,
}

impl Polled for Item {
    fn tick(&mut self, _: Time) -> Progress {
        self.ticks += 1;
        if self.work == 0 {
            return Progress::Idle { next_timer: self.timer };
        }
        self.work -= 1;
        Progress::Worked
    }
}

fn poller(items: Vec<Item>) -> (Poller<Item, Hand>, Rc<Cell<u64>>) {
    let now = Rc::new(Cell::new(0));
    let bell = Doorbell::new().expect("a bell");
    (Poller::new(items, Hand(Rc::clone(&now)), Rest::Yield, bell), now)
}

const fn item(work: u32, timer: Option<u64>) -> Item {
    Item {
        work,
        ticks: 0,
        timer: match timer {
            Some(due) => Some(Time(due)),
            None => None,
        },
    }
}

#[test]
fn every_item_has_its_turn_and_work_of_one_keeps_all_awake() {
    let (mut poller, now) = poller(vec![item(2, None), item(0, None)]);
    assert_eq!(poller.pass().expect("a pass"), Pass::Worked);
    now.set(1_000_000);
    assert_eq!(poller.pass().expect("a pass"), Pass::Worked);
    assert_eq!(poller.pass().expect("a pass"), Pass::Rested, "nothing begins now");
    assert!(poller.items().iter().all(|item| item.ticks == 3));
}

#[test]
fn after_fifty_microseconds_of_nothing_it_sleeps_until_its_timer() {
    let (mut poller, now) = poller(vec![item(0, Some(200_000)), item(0, None)]);
    for at in [0, 49_999] {
        now.set(at);
        assert_eq!(poller.pass().expect("a pass"), Pass::Rested);
    }
    now.set(50_000);
    assert_eq!(poller.pass().expect("a pass"), Pass::Slept(Woken::Timeout));
    assert_eq!(poller.bell().sleeps(), 1);
    now.set(150_000);
    assert_eq!(poller.pass().expect("a pass"), Pass::Rested);
    now.set(199_999);
    assert_eq!(poller.pass().expect("a pass"), Pass::Rested, "the timer is near");
    now.set(200_000);
    assert_eq!(poller.pass().expect("a pass"), Pass::Due);
}

#[test]
fn what_the_last_look_finds_keeps_it_from_sleeping() {
    let (mut poller, now) = poller(vec![item(0, None)]);
    assert_eq!(poller.pass().expect("a pass"), Pass::Rested);
    now.set(50_000);
    // It finds nothing in the pass and something behind the fence.
    struct Late(u32);
    impl Polled for Late {
        fn tick(&mut self, _: Time) -> Progress {
            self.0 += 1;
            if self.0 == 3 { Progress::Worked } else { Progress::Idle { next_timer: None } }
        }
    }
    let mut late =
        Poller::new(vec![Late(0)], Hand(Rc::clone(&now)), Rest::Spin, Doorbell::new().expect("a bell"));
    assert_eq!(late.pass().expect("a pass"), Pass::Rested);
    now.set(100_000);
    assert_eq!(late.pass().expect("a pass"), Pass::Slept(Woken::Found));
}

#[test]
fn a_bell_ends_a_sleep_without_a_timer() {
    let (mut poller, now) = poller(vec![item(0, None)]);
    let cord = poller.bell().cord().expect("a cord");
    assert_eq!(poller.pass().expect("a pass"), Pass::Rested);
    now.set(50_000);
    rustix::net::send(&cord, &[1], rustix::net::SendFlags::DONTWAIT).expect("rung");
    assert_eq!(poller.pass().expect("a pass"), Pass::Slept(Woken::Rung));
    now.set(100_000);
    assert_eq!(poller.pass().expect("a pass"), Pass::Rested);
}

#[test]
fn four_spinners_on_two_cores_yield_and_are_told_why() {
    let why = TooFewCores { cores: 2, processes: 4 };
    assert_eq!(Placement::Dedicated.rest(4, 2), (Rest::Yield, Some(why)));
    assert!(why.to_string().contains("4 processes share 2 cores"));
    assert_eq!(Placement::Dedicated.rest(2, 2), (Rest::Spin, None));
    for placement in [Placement::Cooperative, Placement::Isolated] {
        assert_eq!(placement.rest(1, 64), (Rest::Yield, None));
    }
    let here = cores().expect("cores");
    let (rest, why) = rest_here(Placement::Dedicated, here + 1).expect("cores");
    assert_eq!((rest, why.map(|why| why.cores)), (Rest::Yield, Some(here)));
}
