//! The register as a model: whose access is next, and when the clock ticks.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

use stateright::{Model, Property};
use synod_tail::register::{Backend, Copies, Entry, Pace, Region, RegionSpec, Verdict};

use super::run::Instance;
use super::words::{Reading, read, value, writes};
use crate::models::bounded::{Bounded, Limit};
use crate::oracle::{Verdict as Judged, breach};

/// The cooldown, in ticks.
const DELTA: u8 = 4;
/// A READ gave a value, nothing, no verdict: all of these.
const ALL_MET: u8 = 0b111;

/// The words, how far both are, and what somebody outside knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    cells: Vec<u64>,
    /// WRITEs that are complete, and stores of the next one.
    written: (u8, u8),
    /// What the READ that is under way has loaded.
    loaded: Vec<u64>,
    /// The last WRITE that was complete when it began.
    floor: u8,
    /// Ticks since the last WRITE was complete and since the READ began, to the cooldown at most.
    since: (u8, u8),
    /// What was broken, and how.
    pub(super) breach: Option<(&'static str, String)>,
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// The owner's next store.
    Store,
    /// The reader's next load.
    Load,
    /// The clock goes on.
    Tick,
}

/// One instance, explored once.
pub(super) struct Writing {
    instance: Instance,
    region: Region,
    writes: Vec<Vec<(u32, u64)>>,
    met: AtomicU8,
    limit: Limit,
}

impl Writing {
    pub(super) fn new(instance: Instance, deadline: Instant) -> Self {
        let backend = Backend { one_sided: true, atomic_read: false };
        let Some(region) = Region::new(RegionSpec { registers: 1, tail: 1, backend }) else {
            unreachable!("one register is a region");
        };
        let writes = writes(region, instance.writes, u32::from(instance.words));
        Self { instance, region, writes, met: AtomicU8::new(0), limit: Limit::new(deadline) }
    }

    fn stores(&self, state: &State) -> Option<&Vec<(u32, u64)>> {
        self.writes.get(usize::from(state.written.0))
    }

    fn store(&self, state: &mut State) {
        let Some(stores) = self.stores(state) else { return };
        let (done, at) = state.written;
        if let Some((word, value)) = stores.get(usize::from(at))
            && let Some(cell) = usize::try_from(*word).ok().and_then(|word| state.cells.get_mut(word))
        {
            *cell = *value;
        }
        state.written.1 += 1;
        if usize::from(state.written.1) == stores.len() {
            state.written = (done + 1, 0);
            state.since.0 = 0;
        }
    }

    fn load(&self, state: &mut State) {
        if state.loaded.is_empty() {
            (state.floor, state.since.1) = (state.written.0, 0);
        }
        let words = u32::from(self.instance.words);
        let Reading::Loads(word) = read(self.region, &state.loaded, words) else { return };
        let cell = usize::try_from(word).ok().and_then(|word| state.cells.get(word));
        state.loaded.push(cell.copied().unwrap_or(0));
        if let Reading::Copied(copies) = read(self.region, &state.loaded, words) {
            state.breach = self.judge(state, &copies).err().map(|breach| (breach.checker, breach.what));
            (state.loaded, state.floor, state.since.1) = (Vec::new(), 0, DELTA);
        }
    }

    fn verdict(&self, copies: &Copies, taken: u8) -> Verdict {
        let paced = |taken: u8| copies.judge(Pace { taken_ns: taken.into(), delta_ns: DELTA.into() });
        match paced(0) {
            Verdict::Value(entry) if self.instance.takes_half => Verdict::Value(entry),
            _ => paced(taken),
        }
    }

    fn judge(&self, state: &State, copies: &Copies) -> Judged {
        let (floor, taken) = (u64::from(state.floor), state.since.1);
        let begun = u64::from(state.written.0 + u8::from(state.written.1 > 0));
        let met = match self.verdict(copies, taken) {
            Verdict::Value(Entry { k, value: got }) => {
                if got != value(k, u32::from(self.instance.words)) {
                    return breach("U-S6", format!("a value under {k} that nobody wrote"));
                }
                if k < floor || k > begun {
                    return breach("U-S6", format!("{k} is read where {floor} was complete"));
                }
                0b1
            }
            Verdict::None if floor != 0 => {
                return breach("U-S6", format!("nothing is read where {floor} was complete"));
            }
            Verdict::None => 0b10,
            Verdict::Retry if taken < DELTA / 2 => {
                return breach("U-S6", "a quick READ has no verdict".to_owned());
            }
            Verdict::Retry => 0b100,
            Verdict::Abuse(abuse) => {
                return breach("X6", format!("an owner who keeps the rules is to blame: {abuse:?}"));
            }
        };
        self.met.fetch_or(met, Ordering::Relaxed);
        Ok(())
    }
}

impl Bounded for Writing {
    const REACHED: &'static str = "a read is over";

    fn name(&self) -> String {
        self.instance.name()
    }

    fn limit(&self) -> &Limit {
        &self.limit
    }

    fn breach(&self, state: &State) -> Option<(&'static str, String)> {
        state.breach.clone()
    }

    /// Every kind of verdict was met.
    fn has_reached(&self, _is_found: bool) -> bool {
        self.met.load(Ordering::Relaxed) == ALL_MET
    }
}

impl Model for Writing {
    type State = State;
    type Action = Choice;

    fn init_states(&self) -> Vec<State> {
        let words = usize::try_from(self.region.words()).unwrap_or(0);
        vec![State {
            cells: vec![0; words],
            written: (0, 0),
            loaded: Vec::new(),
            floor: 0,
            since: (DELTA, DELTA),
            breach: None,
        }]
    }

    fn actions(&self, state: &State, choices: &mut Vec<Choice>) {
        if self.limit.cuts(false) {
            return;
        }
        if state.breach.is_some() {
            return;
        }
        let is_ready = state.written.1 > 0 || state.since.0 >= DELTA || !self.instance.cools_down;
        if self.stores(state).is_some() && is_ready {
            choices.push(Choice::Store);
        }
        choices.push(Choice::Load);
        if state.since != (DELTA, DELTA) {
            choices.push(Choice::Tick);
        }
    }

    fn next_state(&self, state: &State, choice: Choice) -> Option<State> {
        let mut next = state.clone();
        match choice {
            Choice::Store => self.store(&mut next),
            Choice::Load => self.load(&mut next),
            Choice::Tick => {
                next.since = (DELTA.min(next.since.0 + 1), DELTA.min(next.since.1 + 1));
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("safe", |_: &Self, state: &State| state.breach.is_none())]
    }
}
