//! The model `register`: two sub-registers, three or four WRITEs, a reader, either of which may stop between any two accesses
//! for any time, also for ever. U-S6: a READ gives the last completed or a concurrent WRITE, whole.

use std::cell::Cell;
use std::hash::{Hash, Hasher};

use synod_tail::register::{
    Backend, Copies, Entry, HALF_WORDS, Owner, Pace, Region, RegionSpec, Value, Verdict,
};
use synod_tail::{Fence, Words};

use crate::explorer::{Explored, Explorer, Plant, Script, Side, World};
use crate::memory::Order;

/// The cooldown, in ticks of the one clock.
const DELTA: u8 = 4;

/// The times that matter, and what an outside observer knows.
#[derive(Clone, Copy, Hash)]
struct Outside {
    since_write: u8,
    since_read: u8,
    begun: u64,
    completed: u64,
}

impl World for Outside {
    fn tick(&mut self) -> bool {
        let before = (self.since_write, self.since_read);
        self.since_write = DELTA.min(self.since_write + 1);
        self.since_read = DELTA.min(self.since_read + 1);
        before != (self.since_write, self.since_read)
    }
}

/// A value that tells by its first and last word under which timestamp it was written.
fn value(k: u64) -> Value {
    let mut value = Value { digest: [0; 32], signature: [0; 64] };
    value.digest[0] = u8::try_from(k).expect("few writes");
    value.signature[63] = value.digest[0];
    value
}

#[derive(Clone)]
struct Writing {
    owner: Owner<&'static Script>,
    writes: u64,
    cools_down: bool,
}

impl Hash for Writing {
    fn hash<H: Hasher>(&self, into: &mut H) {
        self.owner.newest(0).hash(into);
    }
}

impl Side<Outside> for Writing {
    fn ready(&self, outside: &Outside) -> bool {
        self.owner.newest(0) < self.writes && (outside.since_write >= DELTA || !self.cools_down)
    }
    fn begin(&mut self, outside: &mut Outside) {
        outside.begun = self.owner.newest(0) + 1;
    }
    fn phase(&mut self) {
        let k = self.owner.newest(0) + 1;
        assert_eq!(self.owner.write(0, k, &value(k)), Ok(()));
    }
    fn end(&mut self, outside: &mut Outside) -> Result<(), String> {
        (outside.completed, outside.since_write) = (outside.begun, 0);
        Ok(())
    }
}

/// How often each verdict was met.
#[derive(Debug, Default)]
struct Met {
    values: Cell<u32>,
    nones: Cell<u32>,
    retries: Cell<u32>,
}

fn count(cell: &Cell<u32>) {
    cell.set(cell.get() + 1);
}

/// What a READ does with one valid half alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Ours,
    /// The paper's: it is returned, however long the READ took.
    OneHalf,
}

impl Rule {
    fn judge(self, copies: &Copies, taken: u8) -> Verdict {
        let verdict = copies.judge(Pace { taken_ns: taken.into(), delta_ns: DELTA.into() });
        match copies.judge(Pace { taken_ns: 0, delta_ns: DELTA.into() }) {
            Verdict::Value(entry) if self == Self::OneHalf => Verdict::Value(entry),
            _ => verdict,
        }
    }
}

#[derive(Clone)]
struct Reading {
    region: Region,
    script: &'static Script,
    rule: Rule,
    floor: u64,
    copies: Option<Copies>,
    met: &'static Met,
}

impl Hash for Reading {
    fn hash<H: Hasher>(&self, into: &mut H) {
        self.floor.hash(into);
    }
}

impl Side<Outside> for Reading {
    fn ready(&self, _: &Outside) -> bool {
        true
    }
    fn begin(&mut self, outside: &mut Outside) {
        outside.since_read = 0;
        self.floor = outside.completed;
    }
    fn phase(&mut self) {
        // The end of the reader's own WRITE, elsewhere.
        self.script.fence(Fence::SeqCst);
        self.copies = Some(self.region.copy(&self.script, 0));
    }
    fn end(&mut self, outside: &mut Outside) -> Result<(), String> {
        let (taken, floor) = (outside.since_read, std::mem::take(&mut self.floor));
        outside.since_read = DELTA;
        match self.rule.judge(&self.copies.take().expect("a copy"), taken) {
            Verdict::Value(Entry { k, value: got }) => {
                count(&self.met.values);
                if got != value(k) {
                    return Err(format!("a torn value under {k}"));
                }
                if k < floor || k > outside.begun {
                    return Err(format!("a stale value: {k} where {floor} was complete"));
                }
            }
            Verdict::None => {
                count(&self.met.nones);
                if floor != 0 {
                    return Err(format!("a stale value: none where {floor} was complete"));
                }
            }
            Verdict::Retry => {
                count(&self.met.retries);
                assert!(taken >= DELTA / 2, "a quick READ has a verdict");
            }
            Verdict::Abuse(abuse) => return Err(format!("a correct owner is blamed: {abuse:?}")),
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Case {
    plants: (Plant, Plant),
    writes: u64,
    cools_down: bool,
    rule: Rule,
}

const SOUND: Case =
    Case { plants: (Plant::Nothing, Plant::Nothing), writes: 3, cools_down: true, rule: Rule::Ours };

fn explore(order: Order, case: &Case) -> (Explored, &'static Met) {
    let backend = Backend { one_sided: true, atomic_read: false };
    let region = Region::new(RegionSpec { registers: 1, tail: 1, backend }).expect("a region");
    // Words between the first and the last of a value are the same in all values, so they are no steps.
    let dull = |at: u32| !matches!(at % HALF_WORDS, 0 | 1 | 12);
    let scripts = (Script::leak(dull, case.plants.0), Script::leak(dull, case.plants.1));
    let met: &'static Met = Box::leak(Box::default());
    let writing =
        Writing { owner: Owner::new(region, scripts.0), writes: case.writes, cools_down: case.cools_down };
    let reading = Reading { region, script: scripts.1, rule: case.rule, floor: 0, copies: None, met };
    let outside = Outside { since_write: DELTA, since_read: DELTA, begun: 0, completed: 0 };
    let explorer = Explorer { order, cells: region.words() as usize, scripts };
    let explored = explorer.run((writing, reading, outside), |_, _, _| Ok(()));
    println!("register {order:?} {case:?}: {explored:?}, {met:?}");
    (explored, met)
}

#[test]
fn a_read_gives_the_last_completed_or_a_concurrent_write() {
    for (order, writes, states) in [
        (Order::Sequential, 3, 13_451),
        (Order::Sequential, 4, 34_730),
        (Order::Weak, 3, 64_163),
        (Order::Weak, 4, 180_175),
    ] {
        let (explored, met) = explore(order, &Case { writes, ..SOUND });
        assert_eq!(explored.broken, None, "{order:?}");
        assert!(explored.states >= states && explored.steps > explored.states, "{explored:?}");
        assert!(met.values.get() > 0 && met.nones.get() > 0 && met.retries.get() > 0, "{met:?}");
    }
}

/// The control of the model, and the paper's rule (E36): one valid half is returned however long the READ took. It
/// needs four WRITEs: the value that is old, the one that was complete, and one over each.
#[test]
fn without_the_retry_of_a_slow_read_a_stale_value_is_found() {
    for order in [Order::Sequential, Order::Weak] {
        let (explored, _) = explore(order, &Case { rule: Rule::OneHalf, writes: 4, ..SOUND });
        assert!(explored.broken.is_some_and(|broken| broken.contains("stale")), "{order:?}");
    }
}

#[test]
fn without_the_cooldown_a_broken_promise_is_found() {
    for order in [Order::Sequential, Order::Weak] {
        let (explored, _) = explore(order, &Case { cools_down: false, ..SOUND });
        assert!(explored.broken.is_some(), "{order:?}");
    }
}

/// The fences of a WRITE (before its data, behind it, at its end) and of a READ (before it, behind the timestamp of
/// each half, behind the data of the second) are needed in weak order. The fence behind the data of the first half is
/// not: a torn first half is the older one. The control needs a fourth WRITE, as a torn half is the older one till then.
#[test]
fn without_any_one_fence_a_broken_promise_is_found() {
    let writer = (1..=3).map(|fence| (Plant::NoFence(fence), Plant::Nothing));
    let reader = [1, 2, 4, 5].map(|fence| (Plant::Nothing, Plant::NoFence(fence)));
    for plants in writer.chain(reader) {
        let (explored, _) = explore(Order::Weak, &Case { plants, writes: 4, ..SOUND });
        assert!(explored.broken.is_some(), "{plants:?}");
    }
}
