//! Planted bugs: the registry, and the search from fresh seeds in builds with `--cfg synod_plant`.

use serde::{Deserialize, Serialize};

use crate::report::Outcome;
use crate::run::{Manner, SYSTEMS, run};
use crate::token::RunOptions;

/// One planted bug, as `tests/plants.toml` registers it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Plant {
    /// The name in code.
    pub id: String,
    /// What is wrong when it is on.
    pub bug: String,
    /// Value of `--system`; `-` is every production system.
    pub system: String,
    /// The checkers that must find it.
    pub checker: String,
}

/// The plants of the first gate among those of HotStuff and its journal.
pub const STARRED: [&str; 7] = ["H1", "H2", "H3", "H5", "H8", "H10", "H15"];

impl Plant {
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

/// How the search for one plant went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlantReport {
    /// The plant.
    pub id: String,
    /// Whether a checker fired.
    pub found: bool,
    /// Seeds until then, or all that were run.
    pub seeds: u64,
    /// The checker that fired.
    pub fired: String,
    /// The run.
    pub token: String,
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
    /// Median and most seeds of those found.
    pub seeds_p50: u64,
    /// Most seeds of those found.
    pub seeds_max: u64,
    /// Each plant.
    pub per: Vec<PlantReport>,
}

/// The plants of a registry.
///
/// # Errors
/// The text is no registry.
pub fn registry(text: &str) -> Result<Vec<Plant>, String> {
    let registry: Registry = toml::from_str(text).map_err(|e| e.to_string())?;
    Ok(registry.plant)
}

/// Whether this build holds planted bugs.
#[must_use]
pub const fn is_plant_build() -> bool {
    cfg!(synod_plant)
}

#[cfg(synod_plant)]
fn activate(id: &str) -> Result<(), String> {
    synod_machine::planted::activate(id);
    Ok(())
}

#[cfg(not(synod_plant))]
fn activate(_: &str) -> Result<(), String> {
    Err("this build holds no planted bugs: build with --cfg synod_plant".to_owned())
}

/// The systems a plant is looked for in.
fn systems(plant: &Plant) -> Vec<String> {
    if plant.system == "-" {
        return SYSTEMS.iter().map(|system| (*system).to_owned()).collect();
    }
    plant.system.split(',').map(|pack| format!("hotstuff/{}", pack.trim())).collect()
}

/// Looks for one plant in at most `seeds` fresh seeds from `from` on. The plant is active in the whole process
/// meanwhile.
///
/// # Errors
/// This build holds no plants.
pub fn find(plant: &Plant, from: u64, seeds: u64) -> Result<PlantReport, String> {
    activate(&plant.id)?;
    let systems = systems(plant);
    let mut report =
        PlantReport { id: plant.id.clone(), found: false, seeds, fired: String::new(), token: String::new() };
    for number in 0..seeds {
        let at = usize::try_from(number % systems.len().max(1) as u64).unwrap_or(0);
        let Some(system) = systems.get(at) else { break };
        let run = run(system, from.wrapping_add(number), &RunOptions::default(), Manner::default())?;
        // A crash of the tester finds nothing; a panic of a machine is a checker's finding.
        if run.verdict != Outcome::Pass {
            report = PlantReport {
                found: true,
                seeds: number + 1,
                fired: run.checker,
                token: run.token,
                ..report
            };
            break;
        }
    }
    activate("")?;
    Ok(report)
}

/// Looks for several plants, one after the other.
///
/// # Errors
/// This build holds no plants.
pub fn find_all(plants: &[Plant], from: u64, seeds: u64) -> Result<PlantsReport, String> {
    let per = plants.iter().map(|plant| find(plant, from, seeds)).collect::<Result<Vec<_>, _>>()?;
    let mut found: Vec<u64> = per.iter().filter(|report| report.found).map(|report| report.seeds).collect();
    found.sort_unstable();
    Ok(PlantsReport {
        schema: "synod-sim-plant/1",
        planted: per.len() as u64,
        found: found.len() as u64,
        seeds_p50: found.get(found.len() / 2).copied().unwrap_or(0),
        seeds_max: found.last().copied().unwrap_or(0),
        per,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registry_is_read_and_unknown_fields_are_refused() {
        let text = "[[plant]]\nid = \"H1\"\nbug = \"b\"\nsystem = \"-\"\nchecker = \"H-S9\"\n";
        let plants = registry(text).expect("this is a registry");
        assert!(plants.len() == 1 && plants[0].is_starred() && systems(&plants[0]).len() == 4);
        assert!(registry("[[plant]]\nid = \"H1\"\nbag = \"b\"\n").is_err());
    }

    #[test]
    #[cfg(not(synod_plant))]
    fn a_build_without_plants_refuses_to_look() {
        let plant = Plant {
            id: "H1".to_owned(),
            bug: "b".to_owned(),
            system: "-".to_owned(),
            checker: "H-S9".to_owned(),
        };
        assert!(find(&plant, 1, 1).is_err() && !is_plant_build());
    }
}
