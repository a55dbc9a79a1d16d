//! A model in its time: level after level, then its controls.
//!
//! A level is a set of instances. The first is what the model promises to exhaust; each further one allows one more
//! deviation, or one more write. Instances of a level share what is left of the time.

use std::time::{Duration, Instant};

use super::report::{ControlReport, InstanceReport, ModelReport};
use super::{astro, ctb, hotstuff, joins, journal, register, rejoin, slot};
use crate::plants;

/// The models, by name.
pub const MODELS: [&str; 9] =
    ["hotstuff", "astro", "joins", "journal", "ctb", "ctb-merged", "register", "slot", "rejoin"];

/// How long a model is explored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Time of one model without its controls.
    pub time: Duration,
    /// Whether levels beyond the first are begun.
    pub deeper: bool,
    /// Time of one control.
    pub control_time: Duration,
}

impl Plan {
    /// The first level, in the 36 seconds that the full gate gives a model.
    pub const GATE: Self =
        Self { time: Duration::from_secs(36), deeper: false, control_time: Duration::from_secs(60) };

    /// As deep as these minutes go.
    #[must_use]
    pub const fn minutes(minutes: u64) -> Self {
        Self { time: Duration::from_secs(minutes.saturating_mul(60)), deeper: true, ..Self::GATE }
    }
}

#[derive(Clone, Copy)]
enum Instance {
    Astro(astro::Instance),
    Ctb(ctb::Instance),
    Hotstuff(hotstuff::Instance),
    Joins(joins::Instance),
    Journal(journal::Instance),
    Register(register::Instance),
    Rejoin(rejoin::Instance),
    Slot(slot::Instance),
}

impl Instance {
    fn explore(self, deadline: Instant) -> InstanceReport {
        match self {
            Self::Astro(instance) => astro::explore(instance, deadline),
            Self::Ctb(instance) => ctb::explore(instance, deadline),
            Self::Hotstuff(instance) => hotstuff::explore(instance, deadline),
            Self::Joins(instance) => joins::explore(instance, deadline),
            Self::Journal(instance) => journal::explore(instance, deadline),
            Self::Register(instance) => register::explore(instance, deadline),
            Self::Rejoin(instance) => rejoin::explore(instance, deadline),
            Self::Slot(instance) => slot::explore(instance, deadline),
        }
    }
}

/// The instances of a level, from 0.
fn level(model: &str, level: u8) -> Result<Vec<Instance>, String> {
    match model {
        "astro" => Ok(astro::standard(2 + level).into_iter().map(Instance::Astro).collect()),
        "ctb" => Ok(ctb::standard(level).into_iter().map(Instance::Ctb).collect()),
        "ctb-merged" => Ok(ctb::merged(level).into_iter().map(Instance::Ctb).collect()),
        "hotstuff" => Ok(hotstuff::standard(1 + level).into_iter().map(Instance::Hotstuff).collect()),
        "joins" => Ok(joins::standard(2 + level).into_iter().map(Instance::Joins).collect()),
        "journal" => Ok(journal::standard(4 + level).into_iter().map(Instance::Journal).collect()),
        "register" => Ok(register::standard(level).into_iter().map(Instance::Register).collect()),
        "rejoin" => Ok(rejoin::standard(level).into_iter().map(Instance::Rejoin).collect()),
        "slot" => Ok(slot::standard(1 + level).into_iter().map(Instance::Slot).collect()),
        _ => Err(format!("no model is called {model}: there are {}", MODELS.join(", "))),
    }
}

fn controls(model: &str) -> Vec<(&'static str, Instance)> {
    match model {
        "astro" => astro::CONTROLS.map(|(id, instance)| (id, Instance::Astro(instance))).to_vec(),
        "ctb" => ctb::CONTROLS.map(|(id, instance)| (id, Instance::Ctb(instance))).to_vec(),
        "ctb-merged" => ctb::MERGED_CONTROLS.map(|(id, instance)| (id, Instance::Ctb(instance))).to_vec(),
        "hotstuff" => hotstuff::CONTROLS.map(|(id, instance)| (id, Instance::Hotstuff(instance))).to_vec(),
        "joins" => joins::CONTROLS.map(|(id, instance)| (id, Instance::Joins(instance))).to_vec(),
        "register" => register::CONTROLS.map(|(id, instance)| (id, Instance::Register(instance))).to_vec(),
        "rejoin" => rejoin::CONTROLS.map(|(id, instance)| (id, Instance::Rejoin(instance))).to_vec(),
        "slot" => slot::CONTROLS.map(|(id, instance)| (id, Instance::Slot(instance))).to_vec(),
        _ => journal::CONTROLS.map(|(id, instance)| (id, Instance::Journal(instance))).to_vec(),
    }
}

/// Explores one model, and in a build with planted bugs its controls; `tell` hears of each instance.
///
/// # Errors
/// There is no such model.
pub fn explore(model: &str, plan: &Plan, tell: &mut dyn FnMut(&str)) -> Result<ModelReport, String> {
    let began = Instant::now();
    let deadline = began + plan.time;
    let mut report = ModelReport {
        name: model.to_owned(),
        states: 0,
        unique: 0,
        exhausted: false,
        levels: 0,
        violations: 0,
        broken: Vec::new(),
        controls: Vec::new(),
        controls_failed: None,
        instances: Vec::new(),
        wall_s: 0,
    };
    let mut deepest: Vec<(u64, u64)> = Vec::new();
    for depth in 0..=u8::MAX {
        let reports = explored(&level(model, depth)?, deadline, tell);
        deepest.resize(reports.len(), (0, 0));
        for (most, one) in deepest.iter_mut().zip(&reports) {
            *most = (most.0.max(one.states), most.1.max(one.unique));
        }
        let emptied = reports.iter().all(|one| one.exhausted);
        report.broken.extend(reports.iter().filter_map(|one| one.broken.clone()));
        report.instances.extend(reports);
        report.exhausted |= emptied && depth == 0;
        report.levels += u64::from(emptied);
        if !emptied || !plan.deeper || Instant::now() >= deadline {
            break;
        }
    }
    report.states = deepest.iter().map(|most| most.0).sum();
    report.unique = deepest.iter().map(|most| most.1).sum();
    report.violations = report.broken.len() as u64;
    if plants::is_plant_build() {
        report.controls = controlled(model, plan, tell)?;
        let failed = report.controls.iter().filter(|control| control.broken.is_some()).count();
        report.controls_failed = Some(failed as u64);
    }
    report.wall_s = began.elapsed().as_secs();
    Ok(report)
}

fn explored(instances: &[Instance], deadline: Instant, tell: &mut dyn FnMut(&str)) -> Vec<InstanceReport> {
    let mut reports = Vec::new();
    for (instance, left) in instances.iter().zip((1..=instances.len()).rev()) {
        let now = Instant::now();
        let share = deadline.saturating_duration_since(now) / u32::try_from(left).unwrap_or(u32::MAX);
        let report = instance.explore(now + share);
        let InstanceReport { name, unique, exhausted, ms, .. } = &report;
        tell(&format!("{name}: {unique} states, exhausted {exhausted}, {ms} ms"));
        reports.push(report);
    }
    reports
}

fn controlled(model: &str, plan: &Plan, tell: &mut dyn FnMut(&str)) -> Result<Vec<ControlReport>, String> {
    let mut reports = Vec::new();
    for (id, instance) in controls(model) {
        let explored = plants::with(id, || instance.explore(Instant::now() + plan.control_time))?;
        let told = explored.broken.as_ref().map_or("not found".to_owned(), |broken| {
            format!("{} {} after {} choices", broken.checker, broken.what, broken.trail.len())
        });
        tell(&format!("control {id}: {told}, {} states, {} ms", explored.unique, explored.ms));
        reports.push(ControlReport { id: id.to_owned(), broken: explored.broken, ms: explored.ms });
    }
    Ok(reports)
}

// A plant that is on is on in the whole process: tests/controls.rs has one of its own.
#[cfg(all(test, not(synod_plant)))]
mod tests {
    use std::time::Duration;

    use super::{MODELS, Plan, explore};

    #[test]
    fn what_had_no_time_does_not_count_as_exhausted() {
        for model in MODELS {
            let plan = Plan { time: Duration::ZERO, ..Plan::GATE };
            let report = explore(model, &plan, &mut |_| {}).expect("the model exists");
            assert!(!report.exhausted && report.levels == 0 && report.violations == 0, "{report:?}");
            assert!(report.instances.iter().all(|one| !one.exhausted && !one.reached));
        }
        assert!(explore("picsou", &Plan::GATE, &mut |_| {}).is_err());
    }

    #[test]
    fn controls_are_not_run_where_there_are_no_plants() {
        let plan = Plan { time: Duration::ZERO, ..Plan::GATE };
        let report = explore("journal", &plan, &mut |_| {}).expect("the model exists");
        assert!(report.controls_failed.is_none() && report.controls.is_empty());
    }
}
