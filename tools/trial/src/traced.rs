//! A run with its whole trace, and the views of it.

use synod_quorum::NodeId;
use synod_sim::{Aside, AsideKind, Past, Scenario, Step, StepKind, Violation, Words, columns};

use crate::report::RunReport;
use crate::run::{Manner, play, report};
use crate::systems::chopchop::words::ChopChopWords;
use crate::systems::ubft::words::UbftWords;
use crate::systems::{astro, chopchop, journal, ubft};
use crate::words::HotStuffWords;

/// How a run is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// One line per step, one column per node.
    Columns,
    /// One JSON object per event.
    Jsonl,
    /// A space-time diagram in one HTML file.
    Page,
}

/// A run with its whole trace.
pub struct Traced {
    /// What it reports.
    pub report: RunReport,
    /// What was run.
    pub scenario: Scenario,
    /// What it broke.
    pub violation: Option<Violation>,
    /// Its events; of runs above 400,000 events the last ones.
    pub steps: Vec<Step>,
    /// What happened beside them.
    pub asides: Vec<Aside>,
}

/// Runs a scenario and keeps its trace.
///
/// # Errors
/// The scenario is not one the system can run, or its system keeps no trace.
pub fn traced(scenario: &Scenario, token: &str, manner: Manner) -> Result<Traced, String> {
    if scenario.system == journal::SYSTEM {
        return Err("runs of the journal alone keep no trace of events".to_owned());
    }
    let started = std::time::Instant::now();
    if astro::is(&scenario.system) {
        let manner = Manner { trace: true, ..manner };
        let (world, report, violation) = astro::playing::play(scenario, token, manner)?;
        let trace = world.trace();
        let (steps, asides) = (trace.steps().cloned().collect(), trace.asides().cloned().collect());
        return Ok(Traced { report, scenario: scenario.clone(), violation, steps, asides });
    }
    if chopchop::is(&scenario.system) {
        let (trial, violation) = chopchop::run::play(scenario, token, Manner { trace: true, ..manner })?;
        let trace = trial.world.trace();
        let (steps, asides) = (trace.steps().cloned().collect(), trace.asides().cloned().collect());
        let report = chopchop::run::report(&trial, scenario, token, (violation.clone(), started));
        return Ok(Traced { report, scenario: scenario.clone(), violation, steps, asides });
    }
    if ubft::is(&scenario.system) {
        let manner = Manner { trace: true, ..manner };
        let (world, report, violation) = ubft::playing::play(scenario, token, manner)?;
        let trace = world.trace();
        let (steps, asides) = (trace.steps().cloned().collect(), trace.asides().cloned().collect());
        return Ok(Traced { report, scenario: scenario.clone(), violation, steps, asides });
    }
    let (trial, violation) = play(scenario, token, Manner { trace: true, ..manner })?;
    let trace = trial.world.trace();
    let (steps, asides) = (trace.steps().cloned().collect(), trace.asides().cloned().collect());
    let report = report(&trial, scenario, token, (violation.clone(), started));
    Ok(Traced { report, scenario: scenario.clone(), violation, steps, asides })
}

/// A node's name.
pub(crate) fn name(id: NodeId) -> String {
    HotStuffWords.node(id)
}

impl Traced {
    /// The events the violation rests on; the last event of a run that broke nothing.
    #[must_use]
    pub fn evidence(&self) -> Vec<u64> {
        match &self.violation {
            Some(violation) => violation.evidence.clone(),
            None => self.steps.last().map(|step| step.event).into_iter().collect(),
        }
    }

    /// The causal past of the violation; of a run in which something did not happen in time what came of it; everything of a
    /// run that broke nothing.
    #[must_use]
    pub fn past(&self) -> Past<'_> {
        match &self.violation {
            Some(violation) if is_seen(violation) => Past::of(self.steps.iter(), &violation.evidence),
            Some(_) => Past::stalled(self.steps.iter()),
            None => Past::whole(self.steps.iter()),
        }
    }

    /// What happened beside the events of the past: what hit its nodes, up to its end.
    #[must_use]
    pub fn beside(&self, past: &Past<'_>) -> Vec<&Aside> {
        let last = past.events().last().copied().unwrap_or(0);
        let nodes: Vec<_> = past.rows().iter().map(|row| row.head().place()).collect();
        let concerns = |aside: &&Aside| {
            let hit = aside.nodes.is_empty() || aside.nodes.iter().any(|node| nodes.contains(node));
            hit && aside.after < last
        };
        self.asides.iter().filter(concerns).collect()
    }

    /// The text view of the past.
    #[must_use]
    pub fn columns(&self) -> String {
        let past = self.past();
        let name: &dyn Fn(NodeId) -> String = match self.scenario.system.as_str() {
            system if chopchop::is(system) => &|id| ChopChopWords.node(id),
            system if ubft::is(system) => &|id| UbftWords.node(id),
            _ => &name,
        };
        columns(past.rows(), &self.beside(&past), &self.marked(), name)
    }

    /// The events that are marked: those the violation rests on.
    #[must_use]
    pub fn marked(&self) -> Vec<u64> {
        self.violation.as_ref().map_or_else(Vec::new, |violation| violation.evidence.clone())
    }

    /// Every event as a JSON object, one per line.
    #[must_use]
    pub fn jsonl(&self) -> String {
        self.steps.iter().map(|step| step.json() + "\n").collect()
    }

    /// Where every node stands at the end: life, journal, last record of each kind, last timer armed.
    #[must_use]
    pub fn state(&self) -> String {
        let mut places: Vec<_> = self.steps.iter().map(Step::place).collect();
        places.sort_unstable();
        places.dedup();
        let mut out = String::new();
        for place in places {
            let own = |step: &&Step| step.place() == place;
            let last = self.steps.iter().rev().find(own);
            let life = last.map_or(0, |step| step.incarnation);
            let twin = if place.1 > 0 { "'" } else { "" };
            out.push_str(&format!("{}{twin}  life {life}", name(place.0)));
            if self.is_down(place) {
                out.push_str(", down");
            }
            for machine in 0..=1 {
                let mut of = self.steps.iter().rev().filter(own).filter(|step| step.machine == machine);
                if let Some(step) = of.next() {
                    out.push_str(&format!(", machine {machine} durable to #{}", step.durable));
                }
            }
            let effects = |step: &'_ Step| step.effects.clone();
            let mut recent =
                self.steps.iter().rev().filter(own).filter(|step| step.machine == 0).map(effects);
            let promise = recent.find_map(|effects| {
                let written = |effect: &&synod_sim::Effect| effect.said.text.starts_with("Safety(");
                effects.iter().rev().find(written).map(|effect| effect.said.text.clone())
            });
            let mut recent =
                self.steps.iter().rev().filter(own).filter(|step| step.machine == 0).map(effects);
            let timer = recent.find_map(|effects| {
                let armed = |effect: &&synod_sim::Effect| {
                    effect.kind == synod_sim::EffectKind::Arm && effect.said.text.starts_with("view ")
                };
                effects.iter().rev().find(armed).map(|effect| effect.said.text.clone())
            });
            for text in [timer, promise].into_iter().flatten() {
                out.push_str(&format!(", {text}"));
            }
            out.push('\n');
        }
        out
    }

    fn is_down(&self, place: (NodeId, u8)) -> bool {
        let gone = |aside: &&Aside| {
            matches!(aside.kind, AsideKind::Crash | AsideKind::Halt) && aside.nodes.contains(&place)
        };
        let opened = |step: &&Step| step.kind == StepKind::Opened && step.place() == place;
        let born = self.steps.iter().rev().find(opened).map_or(0, |step| step.event);
        self.asides.iter().rev().find(gone).is_some_and(|aside| aside.after >= born)
    }
}

/// Whether the violation is something that was seen, and not something that did not happen in time.
pub(crate) fn is_seen(violation: &Violation) -> bool {
    let late = |checker: &str| {
        chopchop::run::is_late(checker) || astro::run::is_late(checker) || ubft::run::is_late(checker)
    };
    !violation.checker.starts_with("H-L") && !late(&violation.checker)
}
