//! What explorations tell.

use serde::Serialize;

/// One violated property.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Broken {
    /// The instance.
    pub instance: String,
    /// The checker, as `testing.md` names it.
    pub checker: String,
    /// What was seen.
    pub what: String,
    /// The choices that lead there.
    pub trail: Vec<String>,
}

/// One instance, explored once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InstanceReport {
    /// What was explored.
    pub name: String,
    /// States generated, repetitions included.
    pub states: u64,
    /// Different states.
    pub unique: u64,
    /// Whether every state was followed to its end.
    pub exhausted: bool,
    /// Choices of the longest run.
    pub depth: u64,
    /// Different states of single machines.
    pub machines: u64,
    /// Steps of machines that were really taken; the others were looked up.
    pub steps: u64,
    /// Whether the thing the model is about happened in some run.
    pub reached: bool,
    /// The property that ended it.
    pub broken: Option<Broken>,
    /// Wall-clock milliseconds.
    pub ms: u64,
}

/// A planted bug that a model must find.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ControlReport {
    /// The plant.
    pub id: String,
    /// What was found; none when the control did not fail.
    pub broken: Option<Broken>,
    /// Wall-clock milliseconds.
    pub ms: u64,
}

/// One model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModelReport {
    /// Its name.
    pub name: String,
    /// States generated, summed over instances, each at the deepest level begun.
    pub states: u64,
    /// Different states, summed likewise.
    pub unique: u64,
    /// Whether every instance of the first level was emptied.
    pub exhausted: bool,
    /// Levels whose instances were all emptied.
    pub levels: u64,
    /// Properties violated.
    pub violations: u64,
    /// The violations.
    pub broken: Vec<Broken>,
    /// The controls; empty in a build without planted bugs, which cannot run them.
    pub controls: Vec<ControlReport>,
    /// Controls that failed, as each must; none in a build without planted bugs.
    pub controls_failed: Option<u64>,
    /// Every instance, in the order explored.
    pub instances: Vec<InstanceReport>,
    /// Wall-clock seconds.
    pub wall_s: u64,
}

impl ModelReport {
    /// Whether nothing was violated and every control that could run failed.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.violations == 0 && self.controls.iter().all(|control| control.broken.is_some())
    }
}
