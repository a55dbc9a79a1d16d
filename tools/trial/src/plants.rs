//! Planted bugs: the registry, the search from fresh seeds and the stored replays, in builds with `--cfg synod_plant`.
//!
//! A plant is found when a checker fires on a fresh seed while the plant is on, and stays silent on that very seed
//! while it is off. A search ends after its seeds or its processor time, whichever comes first. The plant that is on is
//! on in the whole process, so one process looks for one plant at a time.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use synod_crypto::Hash;
use synod_sim::Scenario;

use crate::params::pack_of;
use crate::replay::{scenario_of, shrunk};
use crate::report::{Outcome, RunReport};
use crate::run::{Manner, SYSTEMS, run, run_scenario};
use crate::systems::{astro, chopchop, journal, ubft};
use crate::token::{Disk, RunOptions};

/// One planted bug, as `tests/plants.toml` registers it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Plant {
    /// The name in code.
    pub id: String,
    /// What is wrong when it is on.
    pub bug: String,
    /// Where it is looked for, as [`Ground::of`] reads it.
    pub system: String,
    /// The checkers that must find it.
    pub checker: String,
    /// Why no run of the simulator finds it; absent when one does.
    #[serde(default)]
    pub open: Option<String>,
}

/// The plants of the first gate among those of HotStuff, its journal, Chop Chop, Astro and uBFT.
pub const STARRED: [&str; 18] = [
    "H1", "H2", "H3", "H5", "H8", "H10", "H15", "C1", "C2", "C3", "C4", "C8", "A1", "A2", "A6", "U1", "U3",
    "U9",
];

/// The system of plants that bad identities find, shown to real processes.
pub const IDENTITIES: &str = "identities";

impl Plant {
    /// Whether real processes are what it is looked for in, by a harness of its own, and not the simulator.
    #[must_use]
    pub fn is_outside(&self) -> bool {
        self.system == IDENTITIES
    }

    /// Whether it is part of the first gate.
    #[must_use]
    pub fn is_starred(&self) -> bool {
        STARRED.contains(&self.id.as_str())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Registry {
    #[serde(default)]
    plant: Vec<Plant>,
}

/// The plants of a registry.
///
/// # Errors
/// The text is no registry, or a plant names a system that does not exist.
pub fn registry(text: &str) -> Result<Vec<Plant>, String> {
    let registry: Registry = toml::from_str(text).map_err(|e| e.to_string())?;
    for plant in registry.plant.iter().filter(|plant| !plant.is_outside()) {
        Ground::of(plant)?;
    }
    Ok(registry.plant)
}

/// Where a plant is looked for: systems, one after the other, with the options of every run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ground {
    /// Values of `--system`.
    pub systems: Vec<String>,
    /// Options of every run.
    pub options: RunOptions,
}

impl Ground {
    /// Reads `system` of the registry: `-` is every production pack, `blocks` the same with the real journal on a
    /// simulated disk, `journal` the journal alone, `chopchop` Chop Chop over every ordering, `astro` Astro, `ubft` uBFT; anything else is a list of production packs, after the word `over`
    /// with one faulty member more than is allowed.
    ///
    /// # Errors
    /// There is no such system.
    pub fn of(plant: &Plant) -> Result<Self, String> {
        let all = || SYSTEMS.iter().map(|system| (*system).to_owned()).collect();
        let (over_budget, systems) = match plant.system.strip_prefix("over ") {
            Some(packs) => (true, packs),
            None => (false, plant.system.as_str()),
        };
        let options = RunOptions { over_budget, ..RunOptions::default() };
        let systems: Vec<String> = match systems {
            "-" => all(),
            "blocks" => return Ok(Self { systems: all(), options: on_blocks() }),
            journal::SYSTEM => vec![journal::SYSTEM.to_owned()],
            "chopchop" => chopchop::SYSTEMS.iter().map(|system| (*system).to_owned()).collect(),
            "astro" => astro::SYSTEMS.iter().map(|system| (*system).to_owned()).collect(),
            "ubft" => ubft::SYSTEMS.iter().map(|system| (*system).to_owned()).collect(),
            one if astro::is(one) || chopchop::is(one) || ubft::is(one) => vec![one.to_owned()],
            packs => packs.split(',').map(|pack| format!("hotstuff/{}", pack.trim())).collect(),
        };
        let exists = |system: &&String| {
            *system == journal::SYSTEM
                || astro::is(system)
                || chopchop::is(system)
                || ubft::is(system)
                || pack_of(system).is_some() && SYSTEMS.contains(&system.as_str())
        };
        match systems.iter().find(|system| !exists(system)) {
            Some(system) => Err(format!("plant {}: no system is called {system}", plant.id)),
            None => Ok(Self { systems, options }),
        }
    }

    /// The run of number `at` from `from` on.
    fn run(&self, from: u64, at: u64) -> Result<RunReport, String> {
        let which = usize::try_from(at % self.systems.len().max(1) as u64).unwrap_or(0);
        let system = self.systems.get(which).ok_or("a plant without a system")?;
        run(system, from.wrapping_add(at), &self.options, Manner::default())
    }
}

fn on_blocks() -> RunOptions {
    RunOptions { disk: Some(Disk::Blocks), ..RunOptions::default() }
}

/// How far a search goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    /// The first seed; a drawn one when not given, another for each plant.
    pub from: Option<u64>,
    /// Most seeds.
    pub seeds: u64,
    /// Most processor time, not counting the run that shows that correct code is silent.
    pub cpu_max: Duration,
}

impl Default for Search {
    fn default() -> Self {
        Self { from: None, seeds: 500, cpu_max: Duration::from_secs(20) }
    }
}

/// How the search for one plant went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PlantReport {
    /// The plant.
    pub id: String,
    /// Where it was looked for.
    pub system: String,
    /// Whether it belongs to the first gate.
    pub starred: bool,
    /// Whether a checker fired that is silent without the plant.
    pub found: bool,
    /// Seeds until then, or all that were run.
    pub seeds: u64,
    /// The first seed.
    pub from: String,
    /// The checker that fired.
    pub fired: String,
    /// The run.
    pub token: String,
    /// Processor milliseconds.
    pub cpu_ms: u64,
    /// Runs that fail without the plant too: the plant is not found by them.
    pub false_alarms: Vec<String>,
    /// Why no run finds it, as the registry says.
    pub open: String,
}

/// Planted bugs of the first gate, and those of them that were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Starred {
    /// Looked for.
    pub planted: u64,
    /// Found.
    pub found: u64,
}

/// Stored replays, and those of them that still do what they must.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Replays {
    /// Run.
    pub run: u64,
    /// Fired with the plant and silent without it.
    pub found: u64,
}

/// Seeds until plants were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SeedsReport {
    /// Median.
    pub p50: u64,
    /// Most.
    pub max: u64,
}

/// How the search for several plants went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PlantsReport {
    /// Format of this object.
    pub schema: &'static str,
    /// Plants looked for.
    pub planted: u64,
    /// Plants found.
    pub found: u64,
    /// Those of the first gate.
    pub starred: Starred,
    /// Stored replays.
    pub replays: Replays,
    /// Seeds of those found.
    pub seeds: SeedsReport,
    /// Runs that failed without their plant too.
    pub false_alarms: u64,
    /// Plants that were missed and that the registry does not call open.
    pub missed: Vec<String>,
    /// Each plant.
    pub per: Vec<PlantReport>,
}

/// Whether this build holds planted bugs.
#[must_use]
pub const fn is_plant_build() -> bool {
    cfg!(synod_plant)
}

/// What builds with planted bugs contain and release binaries must not.
#[cfg(synod_plant)]
#[must_use]
pub const fn mark() -> Option<&'static str> {
    Some(synod_machine::planted::MARK)
}

/// What builds with planted bugs contain and release binaries must not.
#[cfg(not(synod_plant))]
#[must_use]
pub const fn mark() -> Option<&'static str> {
    None
}

/// Makes one plant the active one of this process, for good.
///
/// # Errors
/// This build holds no plants.
#[cfg(synod_plant)]
pub fn activate(id: &str) -> Result<(), String> {
    synod_machine::planted::activate(id);
    Ok(())
}

/// Makes one plant the active one of this process, for good.
///
/// # Errors
/// This build holds no plants.
#[cfg(not(synod_plant))]
pub fn activate(_: &str) -> Result<(), String> {
    Err("this build holds no planted bugs: build with --cfg synod_plant".to_owned())
}

/// Does `work` with one plant on.
pub(crate) fn with<T>(id: &str, work: impl FnOnce() -> T) -> Result<T, String> {
    activate(id)?;
    let done = work();
    activate("")?;
    Ok(done)
}

/// A seed nobody chose: of the time, the process and the plant.
fn drawn(id: &str) -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let nanos = now.map_or(0, |since| since.as_nanos());
    let name = Hash::of(format!("{id} {nanos} {}", std::process::id()).as_bytes());
    name.0.iter().take(6).fold(0, |seed, byte| seed << 8 | u64::from(*byte))
}

/// Processor time of this thread.
pub(crate) fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|field| field.parse().ok()).unwrap_or(0))
}

/// Looks for one plant.
///
/// # Errors
/// This build holds no plants, or the plant's system does not exist.
pub fn find(plant: &Plant, search: &Search) -> Result<PlantReport, String> {
    let ground = Ground::of(plant)?;
    let from = search.from.unwrap_or_else(|| drawn(&plant.id));
    let mut report = PlantReport {
        id: plant.id.clone(),
        system: plant.system.clone(),
        starred: plant.is_starred(),
        from: format!("{from:x}"),
        open: plant.open.clone().unwrap_or_default(),
        ..PlantReport::default()
    };
    let mut spent = Duration::ZERO;
    for number in 0..search.seeds {
        if spent >= search.cpu_max {
            break;
        }
        let before = cpu();
        let run = with(&plant.id, || ground.run(from, number))??;
        spent += cpu().saturating_sub(before);
        report.seeds = number + 1;
        if run.verdict == Outcome::Pass {
            continue;
        }
        // A crash of the tester ends the process and finds nothing; a panic of a machine is a checker's finding.
        if ground.run(from, number)?.verdict == Outcome::Pass {
            (report.found, report.fired, report.token) = (true, run.checker, run.token);
            break;
        }
        report.false_alarms.push(run.token);
    }
    report.cpu_ms = u64::try_from(spent.as_millis()).unwrap_or(u64::MAX);
    Ok(report)
}

/// The sum of several searches.
#[must_use]
pub fn summed(per: Vec<PlantReport>, replays: Replays) -> PlantsReport {
    let mut found: Vec<u64> = per.iter().filter(|report| report.found).map(|report| report.seeds).collect();
    found.sort_unstable();
    let starred =
        |of: &dyn Fn(&PlantReport) -> bool| per.iter().filter(|r| r.starred && of(r)).count() as u64;
    let missed = per.iter().filter(|report| !report.found && report.open.is_empty());
    PlantsReport {
        schema: "synod-sim-plant/1",
        planted: per.len() as u64,
        found: found.len() as u64,
        starred: Starred { planted: starred(&|_| true), found: starred(&|report| report.found) },
        replays,
        seeds: SeedsReport {
            p50: found.get(found.len() / 2).copied().unwrap_or(0),
            max: found.last().copied().unwrap_or(0),
        },
        false_alarms: per.iter().map(|report| report.false_alarms.len() as u64).sum(),
        missed: missed.map(|report| report.id.clone()).collect(),
        per,
    }
}

/// The file below `folder` that keeps the replay of a plant: a scenario, or a token for systems without one.
#[must_use]
pub fn replay_file(folder: &Path, id: &str) -> std::path::PathBuf {
    folder.join(format!("{id}.toml"))
}

/// Runs a stored replay with its plant and without. Found when only the first fails.
///
/// # Errors
/// This build holds no plants, or the text is neither a scenario nor a token.
pub fn replayed(plant: &Plant, text: &str) -> Result<PlantReport, String> {
    let (scenario, token) = scenario_of(text)?;
    let one = || run_scenario(&scenario, &token, Manner::default());
    let before = cpu();
    let with = with(&plant.id, one)??;
    let spent = cpu().saturating_sub(before);
    let silent = one()?.passed();
    let fired = !with.passed();
    Ok(PlantReport {
        id: plant.id.clone(),
        system: scenario.system.clone(),
        starred: plant.is_starred(),
        found: fired && silent,
        seeds: 1,
        from: format!("{:x}", scenario.seed),
        fired: with.checker,
        cpu_ms: u64::try_from(spent.as_millis()).unwrap_or(u64::MAX),
        false_alarms: if silent { Vec::new() } else { vec![token.clone()] },
        token,
        open: plant.open.clone().unwrap_or_default(),
    })
}

/// The text of a replay of the run that found a plant: made small, as long as correct code stays silent on it.
///
/// # Errors
/// This build holds no plants, or the run does not fail with the plant.
pub fn stored(plant: &Plant, token: &str) -> Result<String, String> {
    let small = with(&plant.id, || shrunk(token))??;
    let (whole, name) = scenario_of(token)?;
    let scenario = Scenario::from_toml(&small.scenario).map_err(|e| e.to_string())?;
    let silent = run_scenario(&scenario, &name, Manner::default())?.passed();
    let (kept, checker) =
        if silent { (scenario, small.checker) } else { (whole, "the same checker".to_owned()) };
    Ok(format!("# Plant {}: {}. Found by {checker}.\n{}", plant.id, plant.bug, kept.to_toml()))
}

#[cfg(test)]
#[path = "plants_tests.rs"]
mod tests;
