//! The schedules, and what must hold at the end of each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use stateright::{Model, Property};
use synod_astro::Opened;
use synod_broadcast::signed::Certificate;
use synod_crypto::Hash;

use super::cast::{Cast, FUNDS, HONEST};
use super::member::{Lived, Stimulus, certificate, live};
use crate::models::bounded::{Bounded, Limit, explored};
use crate::models::report::InstanceReport;
use crate::oracle::astro::quorum;
use crate::oracle::{Breach, Verdict, breach};

/// Batches of the liar's lane: one a place.
const PLACES: usize = 3;
/// The last items that are handed to members: those of the last place come in the last batch.
const HANDED: u8 = 6;

/// One bounded exploration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Most entries that the owner hands to members.
    pub hands: u8,
}

/// Chains that are not looked at: 139 of 100.
pub const CONTROLS: [(&str, Instance); 1] = [("A17", Instance { hands: 2 })];

/// The instances of a level: two entries are handed out, and one more with each level.
#[must_use]
pub fn standard(hands: u8) -> Vec<Instance> {
    vec![Instance { hands }]
}

/// The liar's batches so far, and what was handed to whom before which of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    lane: Vec<u8>,
    /// Batch, member, item.
    hands: Vec<(u8, u8, u8)>,
    /// 0 for none, else the place among the breaches.
    breach: usize,
    /// Whether all three places are certified.
    complete: bool,
}

/// What the liars choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    /// The owner hands a member an item.
    Hand(u8, u8),
    /// The liar's next batch has this item.
    Send(u8),
}

/// A member, the lane, what happened to it, and the batches whose certificates it was shown, with who signed.
type History = (u8, Vec<u8>, Vec<Stimulus>, Vec<(u8, u8)>);

struct Overdraft {
    instance: Instance,
    cast: Cast,
    lived: Mutex<BTreeMap<History, Lived>>,
    breaches: Mutex<Vec<Breach>>,
    limit: Limit,
}

impl Overdraft {
    fn new(instance: Instance, deadline: Instant) -> Self {
        Self {
            instance,
            cast: Cast::new(),
            lived: Mutex::default(),
            breaches: Mutex::default(),
            limit: Limit::new(deadline),
        }
    }

    fn stimuli(state: &State, member: u8) -> Vec<Stimulus> {
        let mut all = Vec::new();
        for batch in (0_u8..).take(state.lane.len()) {
            let handed = state.hands.iter().filter(|(at, to, _)| (*at, *to) == (batch, member));
            all.extend(handed.map(|(.., item)| Stimulus::Hand(*item)));
            all.push(Stimulus::Batch);
        }
        all
    }

    /// What becomes of a member; played once for each history.
    fn live(&self, state: &State, member: u8, lane: &[Opened], shown: &[(u8, u8, Certificate)]) -> Lived {
        let stimuli = Self::stimuli(state, member);
        let of = shown.iter().map(|(batch, by, _)| (*batch, *by)).collect();
        let history = (member, state.lane.clone(), stimuli.clone(), of);
        let lived = || self.lived.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lived().get(&history) {
            return known.clone();
        }
        let certificates: Vec<Certificate> = shown.iter().map(|(.., one)| one.clone()).collect();
        let came = live(&self.cast, member, (lane, &stimuli), &certificates);
        lived().insert(history, came.clone());
        came
    }

    /// Judges a schedule at its end; whether all places are certified.
    fn judge(&self, state: &State) -> (Verdict, bool) {
        let lane = self.cast.lane(&state.lane);
        let lives: Vec<Lived> = (0..HONEST).map(|member| self.live(state, member, &lane, &[])).collect();
        let mut shown = Vec::new();
        for (batch, opened) in (0_u8..).zip(&lane) {
            let said = lives.iter().filter_map(|lived| lived.said.get(&opened.lot().sequence));
            let said: Vec<_> = said.filter(|said| said.except.items().is_empty()).cloned().collect();
            let by = said.iter().fold(0, |by, said| by | 1 << said.member);
            if u32::try_from(said.len()).unwrap_or(u32::MAX) + 1 >= quorum(u32::from(HONEST) + 1)
                && let Some(certificate) = certificate(&self.cast, opened, said)
            {
                shown.push((batch, by, certificate));
            }
        }
        let items: Vec<u8> =
            shown.iter().filter_map(|(batch, ..)| state.lane.get(usize::from(*batch)).copied()).collect();
        let is_complete = shown.len() == PLACES;
        let verdict = self.certified(&items).and_then(|()| {
            let ends: Vec<Lived> =
                (0..HONEST).map(|member| self.live(state, member, &lane, &shown)).collect();
            self.settled(&ends)
        });
        (verdict, is_complete)
    }

    /// A-S3 of what is certified, with all that stands before it.
    fn certified(&self, items: &[u8]) -> Verdict {
        let mut all: BTreeSet<u8> = BTreeSet::new();
        for item in items {
            let mut next = Some(*item);
            while let Some(at) = next {
                all.insert(at);
                next = self.cast.item(at).behind;
            }
        }
        let spent: u128 = all.iter().map(|at| self.cast.item(*at).amount).sum();
        if spent > FUNDS {
            return breach("A-S3", format!("{spent} of {FUNDS} are certified"));
        }
        let mut places = BTreeMap::new();
        for at in all {
            let n = self.cast.item(at).n();
            if let Some(other) = places.insert(n, at) {
                return breach("A-S3", format!("items {other} and {at} of place {n} are certified"));
            }
        }
        Ok(())
    }

    /// A-S1 and A-S6 of what settled.
    fn settled(&self, ends: &[Lived]) -> Verdict {
        let mut agreed: BTreeMap<u64, Hash> = BTreeMap::new();
        for lived in ends {
            let amounts = lived.settled.values().filter_map(|digest| self.cast.find(digest));
            let spent: u128 = amounts.map(|item| item.amount).sum();
            if spent > FUNDS {
                return breach("A-S6", format!("{spent} of {FUNDS} settle"));
            }
            for (n, digest) in &lived.settled {
                if *agreed.entry(*n).or_insert(*digest) != *digest {
                    return breach("A-S1", format!("two entries of place {n} settle"));
                }
            }
        }
        Ok(())
    }

    fn breaches(&self) -> std::sync::MutexGuard<'_, Vec<Breach>> {
        self.breaches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bounded for Overdraft {
    const REACHED: &'static str = "all places are certified";

    fn name(&self) -> String {
        format!("II-F hands={}", self.instance.hands)
    }

    fn limit(&self) -> &Limit {
        &self.limit
    }

    fn breach(&self, state: &State) -> Option<(&'static str, String)> {
        let at = state.breach.checked_sub(1)?;
        self.breaches().get(at).map(|breach| (breach.checker, breach.what.clone()))
    }

    fn size(&self) -> (usize, usize) {
        let lived = self.lived.lock().unwrap_or_else(PoisonError::into_inner);
        let steps: u64 = lived.values().map(|one| one.steps).sum();
        (lived.len(), usize::try_from(steps).unwrap_or(usize::MAX))
    }
}

impl Model for Overdraft {
    type State = State;
    type Action = Choice;

    fn init_states(&self) -> Vec<State> {
        vec![State { lane: Vec::new(), hands: Vec::new(), breach: 0, complete: false }]
    }

    fn actions(&self, state: &State, choices: &mut Vec<Choice>) {
        if self.limit.cuts(false) {
            return;
        }
        if state.lane.len() == PLACES {
            return;
        }
        let place = state.lane.len() as u64 + 1;
        choices.extend(self.cast.of_place(place).map(Choice::Send));
        if state.hands.len() >= usize::from(self.instance.hands) {
            return;
        }
        // Members do not hear each other, so who is handed something first is all the same.
        let last = state.hands.last().filter(|(batch, ..)| u64::from(*batch) + 1 == place);
        let first = last.map_or(0, |(_, member, _)| *member);
        for member in first..HONEST {
            choices.extend((0..HANDED).map(|item| Choice::Hand(member, item)));
        }
    }

    fn next_state(&self, state: &State, choice: Choice) -> Option<State> {
        let mut next = state.clone();
        match choice {
            Choice::Hand(member, item) => {
                let batch = u8::try_from(state.lane.len()).ok()?;
                next.hands.push((batch, member, item));
            }
            Choice::Send(item) => {
                next.lane.push(item);
                if next.lane.len() == PLACES {
                    let (verdict, is_complete) = self.judge(&next);
                    next.complete = is_complete;
                    if let Err(breach) = verdict {
                        let mut breaches = self.breaches();
                        breaches.push(breach);
                        next.breach = breaches.len();
                    }
                }
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("safe", |_: &Self, state: &State| state.breach == 0),
            Property::sometimes("all places are certified", |_: &Self, state: &State| state.complete),
        ]
    }
}

/// Explores one instance, depth first, until its frontier is empty, a property is violated or the deadline comes.
#[must_use]
pub fn explore(instance: Instance, deadline: Instant) -> InstanceReport {
    explored(Overdraft::new(instance, deadline))
}

#[cfg(all(test, not(synod_plant)))]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Instance, Overdraft, State, explore};

    /// A-S1, A-S3, A-S6 in every schedule in which the owner hands out one entry.
    #[test]
    fn chains_let_nobody_spend_more_than_there_is() {
        let report = explore(Instance { hands: 1 }, Instant::now() + Duration::from_secs(300));
        assert_eq!(report.broken, None);
        assert!(report.exhausted && report.reached && report.unique > 1_000, "{report:?}");
    }

    /// The schedule of section 4.4, which certifies 139 of 100 where nobody looks at chains: with them only its first entry is.
    #[test]
    fn in_the_schedule_of_the_specification_two_members_leave_out_what_is_not_their_chain() {
        let model = Overdraft::new(Instance { hands: 2 }, Instant::now());
        // A has (1: 60), (2: 1); B has (1: 20); C has (1: 60), (2: 40).
        let state =
            State { lane: vec![0, 3, 7], hands: vec![(0, 1, 1), (1, 0, 2)], breach: 0, complete: false };
        let (verdict, is_complete) = model.judge(&state);
        assert!(verdict.is_ok() && !is_complete);
        let said = |member| {
            let lived = model.live(&state, member, &model.cast.lane(&state.lane), &[]);
            lived.said.values().map(|said| said.except.items().is_empty()).collect::<Vec<_>>()
        };
        assert_eq!([0, 1, 2].map(said), [[true, false, false], [false; 3], [true, true, false]]);
    }
}
