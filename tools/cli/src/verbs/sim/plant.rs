//! `synod sim plant`: the search for planted bugs, in builds that hold them.

use crate::exit::Done;
use crate::output::Report;
use crate::session::{Session, usage};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use synod_config::{Exit, SynError, code};
use synod_trial::plants::{self, Plant, PlantReport, PlantsReport, Replays, Search};

/// Searches for planted bugs from fresh seeds; needs a build with `--cfg synod_plant`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod sim plant --help")]
pub(super) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// The registered plants.
    #[command(after_help = "Example:\n  synod sim plant list --help")]
    List(Registry),
    /// Looks for plants, each from a seed nobody chose; exit 8 when one is missed that is not registered as open.
    #[command(after_help = "Example:\n  synod sim plant run --help")]
    Run(Run),
}

#[derive(Debug, Args)]
struct Registry {
    /// The registry.
    #[arg(long, default_value = "tests/plants.toml")]
    registry: PathBuf,
}

#[derive(Debug, Args)]
struct Run {
    /// Ids; none means all.
    ids: Vec<String>,
    /// All plants; the same as no id.
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    /// Those of the first gate.
    #[arg(long, conflicts_with_all = ["ids", "all"])]
    starred: bool,
    #[command(flatten)]
    registry: Registry,
    /// Most seeds per plant.
    #[arg(long, default_value_t = 500)]
    seeds: u64,
    /// Most processor seconds per plant.
    #[arg(long, default_value_t = 20)]
    cpu_s: u64,
    /// The first seed of every plant; drawn for each when not given.
    #[arg(long, value_parser = super::seed)]
    from: Option<u64>,
    /// Runs the stored replays instead of fresh seeds.
    #[arg(long, conflicts_with = "store")]
    replays: bool,
    /// Stores a replay of each plant that is found and has none.
    #[arg(long)]
    store: bool,
    /// Where replays are.
    #[arg(long, default_value = "tests/replays/plants")]
    folder: PathBuf,
}

impl Registry {
    fn plants(&self) -> Result<Vec<Plant>, SynError> {
        if !plants::is_plant_build() {
            return Err(SynError::of(code::FEATURE_MISSING, &[("feature", "--cfg synod_plant")])
                .because("only builds of `cargo xtask plant` hold planted bugs"));
        }
        let file = &self.registry;
        let text = std::fs::read_to_string(file).map_err(|e| crate::cluster::unwritable(file, &e))?;
        plants::registry(&text).map_err(|e| usage(&e))
    }
}

impl Arguments {
    pub(super) fn run(self, session: &Session) -> Done {
        match self.verb {
            Verb::List(registry) => {
                session.output.print(&listed(&registry.plants()?))?;
                Ok(Exit::Success)
            }
            Verb::Run(run) => run.run(session),
        }
    }
}

fn listed(plants: &[Plant]) -> Report {
    let row = |plant: &Plant| {
        let Plant { id, bug, system, checker, open } = plant;
        vec![json!(id), json!(plant.is_starred()), json!(system), json!(checker), json!(bug), json!(open)]
    };
    let rows = plants.iter().map(row).collect();
    let columns = ["id", "starred", "system", "checker", "bug", "open"];
    Report::new("synod-sim-plants/1").list("plants", &columns, rows)
}

impl Run {
    fn wanted(&self) -> Result<Vec<Plant>, SynError> {
        let all = self.registry.plants()?;
        if let Some(id) = self.ids.iter().find(|id| !all.iter().any(|plant| plant.id == **id)) {
            return Err(usage(&format!("no plant is called {id}")));
        }
        let named = |plant: &Plant| self.ids.is_empty() || self.ids.contains(&plant.id);
        Ok(all.into_iter().filter(|plant| named(plant) && (!self.starred || plant.is_starred())).collect())
    }

    /// The file of the score: searches for different plants keep files of their own.
    fn file(&self) -> String {
        match self.ids.first() {
            _ if self.replays => "sim-plant-replays".to_owned(),
            Some(first) => format!("sim-plant-{first}"),
            None if self.starred => "sim-plant-starred".to_owned(),
            None => "sim-plant-all".to_owned(),
        }
    }

    fn run(self, session: &Session) -> Done {
        let wanted = self.wanted()?;
        let report = if self.replays { self.replayed(&wanted)? } else { self.searched(session, &wanted)? };
        let shown = shown(&report);
        session.score(&self.file(), &shown);
        session.output.print(&shown)?;
        if report.missed.is_empty() {
            return Ok(Exit::Success);
        }
        let why = format!("not found: {}", report.missed.join(", "));
        Err(SynError::of(code::PROPERTY_VIOLATED, &[("token", "plants")]).because(why))
    }

    fn searched(&self, session: &Session, wanted: &[Plant]) -> Result<PlantsReport, SynError> {
        let cpu_max = Duration::from_secs(self.cpu_s);
        let search = Search { from: self.from, seeds: self.seeds, cpu_max };
        let mut per = Vec::new();
        for plant in wanted {
            let outside = plant.is_outside();
            let report = if outside {
                crate::chaos::identities::hunt(plant)?
            } else {
                plants::find(plant, &search).map_err(|e| usage(&e))?
            };
            session.tell(&format!("{} {}", report.id, if report.found { &report.token } else { "missed" }));
            if self.store && report.found && !outside {
                self.keep(plant, &report)?;
            }
            per.push(report);
        }
        Ok(plants::summed(per, Replays::default()))
    }

    fn keep(&self, plant: &Plant, report: &PlantReport) -> Result<(), SynError> {
        let file = plants::replay_file(&self.folder, &plant.id);
        if file.exists() {
            return Ok(());
        }
        let text = plants::stored(plant, &report.token).map_err(|e| usage(&e))?;
        std::fs::write(&file, text).map_err(|e| crate::cluster::unwritable(&file, &e))
    }

    /// Each stored replay; a plant that is not open and has none is missed.
    fn replayed(&self, wanted: &[Plant]) -> Result<PlantsReport, SynError> {
        let (mut per, mut replays) = (Vec::new(), Replays::default());
        // What real processes meet is not replayed.
        for plant in wanted.iter().filter(|plant| !plant.is_outside()) {
            let file = plants::replay_file(&self.folder, &plant.id);
            let report = match read(&file)? {
                Some(text) => {
                    let report = plants::replayed(plant, &text).map_err(|e| usage(&e))?;
                    replays.run += 1;
                    replays.found += u64::from(report.found);
                    report
                }
                None => PlantReport {
                    id: plant.id.clone(),
                    open: plant.open.clone().unwrap_or_default(),
                    ..PlantReport::default()
                },
            };
            per.push(report);
        }
        Ok(plants::summed(per, replays))
    }
}

fn read(file: &Path) -> Result<Option<String>, SynError> {
    if !file.exists() {
        return Ok(None);
    }
    std::fs::read_to_string(file).map(Some).map_err(|e| crate::cluster::unwritable(file, &e))
}

fn shown(report: &PlantsReport) -> Report {
    let row = |one: &PlantReport| -> Vec<Value> {
        vec![
            json!(one.id),
            json!(one.system),
            json!(one.starred),
            json!(one.found),
            json!(one.seeds),
            json!(one.fired),
            json!(one.cpu_ms),
            json!(one.token),
            json!(one.false_alarms),
            json!(one.open),
        ]
    };
    let columns =
        ["id", "system", "starred", "found", "seeds", "fired", "cpu_ms", "token", "false_alarms", "open"];
    let PlantsReport { planted, found, starred, replays, seeds, false_alarms, missed, per, .. } = report;
    Report::new(report.schema)
        .field("planted", *planted)
        .field("found", *found)
        .field("starred", json!(starred))
        .field("replays", json!(replays))
        .field("seeds", json!(seeds))
        .field("false_alarms", *false_alarms)
        .field("missed", json!(missed))
        .list("per", &columns, per.iter().map(row).collect())
}
