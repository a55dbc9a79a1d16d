//! One exploration of one instance: until its frontier is empty, a property is violated, or its bounds are met.

use core::fmt::Debug;
use core::hash::Hash;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use stateright::{Checker as _, HasDiscoveries, Model};

use super::report::{Broken, InstanceReport};

/// What ends an exploration whose frontier is not empty.
pub(super) struct Limit {
    deadline: Instant,
    cut: AtomicBool,
    over: AtomicBool,
}

impl Limit {
    pub(super) const fn new(deadline: Instant) -> Self {
        Self { deadline, cut: AtomicBool::new(false), over: AtomicBool::new(false) }
    }

    /// Whether a state has no successors because the deadline came, or the model holds all it may. Not once the exploration is over: what
    /// is asked then retraces a run that was found.
    pub(super) fn cuts(&self, is_full: bool) -> bool {
        let cuts = !self.over.load(Ordering::Relaxed) && (is_full || Instant::now() >= self.deadline);
        if cuts {
            self.cut.store(true, Ordering::Relaxed);
        }
        cuts
    }
}

/// A model whose property `safe` ends a run, and whose property [`REACHED`](Self::REACHED) shows that something happened in one.
pub(super) trait Bounded:
    Model<State: Hash + Send + Sync + Clone + PartialEq + Debug, Action: Clone + Debug + PartialEq> + Send + Sync
{
    /// The thing that the model is about.
    const REACHED: &'static str;

    /// The instance.
    fn name(&self) -> String;

    fn limit(&self) -> &Limit;

    /// The checker that ended a run, and what it saw.
    fn breach(&self, state: &Self::State) -> Option<(&'static str, String)>;

    /// The choices of a run, in words.
    fn told(&self, choices: Vec<Self::Action>) -> Vec<String> {
        choices.iter().map(|choice| format!("{choice:?}")).collect()
    }

    /// Different states of single machines, and steps that were really taken.
    fn size(&self) -> (usize, usize) {
        (0, 0)
    }

    /// Whether the thing happened, which a run was found to show or not.
    fn has_reached(&self, is_found: bool) -> bool {
        is_found
    }
}

/// Explores depth first.
pub(super) fn explored<M: Bounded + 'static>(model: M) -> InstanceReport {
    let began = Instant::now();
    let checker = model.checker().finish_when(HasDiscoveries::AnyFailures).spawn_dfs().join();
    let model = checker.model();
    model.limit().over.store(true, Ordering::Relaxed);
    let broken = checker.discovery("safe").map(|path| {
        let (checker, what) = model.breach(path.last_state()).unwrap_or_default();
        let trail = model.told(path.into_actions());
        Broken { instance: model.name(), checker: checker.to_owned(), what, trail }
    });
    let (machines, steps) = model.size();
    InstanceReport {
        name: model.name(),
        states: checker.state_count() as u64,
        unique: checker.unique_state_count() as u64,
        exhausted: broken.is_none() && !model.limit().cut.load(Ordering::Relaxed),
        depth: checker.max_depth() as u64,
        machines: machines as u64,
        steps: steps as u64,
        reached: model.has_reached(checker.discovery(M::REACHED).is_some()),
        broken,
        ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
    }
}
