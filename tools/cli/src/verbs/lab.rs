//! `synod lab`: the papers' experiments, drawn with the papers' numbers beside.

use crate::cluster::unwritable;
use crate::exit::{Done, bug};
use crate::output::Report;
use crate::score::record;
use crate::session::{Session, usage};
use clap::{Args, Subcommand};
use serde_json::json;
use std::path::{Path, PathBuf};
use synod_config::{Exit, SynError, code};
use synod_lab::{Circumstances, Figure, PriceList, RECIPES, Recipe, Scale, find, svg};

/// Seed of runs that name none.
const SEED: u64 = 2_020;

/// Experiments of the papers in the simulator, with charged costs; a failed expectation is exit 8.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod lab list")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// The recipes.
    #[command(after_help = "Example:\n  synod lab list")]
    List,
    /// Runs one recipe, those of a paper, or all; writes JSON, CSV and SVG of each.
    #[command(after_help = "Example:\n  synod lab run astro/8 --help")]
    Run(Run),
}

#[derive(Debug, Args)]
struct Run {
    /// A recipe such as astro/5, a paper, or all.
    what: String,
    /// Few members and short times.
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// All sizes of the paper: hours on a small machine.
    #[arg(long)]
    full: bool,
    /// Charges signatures as the paper had them: P-256, 70 us each.
    #[arg(long)]
    prices_2020: bool,
    /// Determines every draw.
    #[arg(long, default_value_t = SEED)]
    seed: u64,
    /// Where figures go.
    #[arg(long, value_name = "DIR", default_value = "target/lab")]
    out: PathBuf,
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        match self.verb {
            Verb::List => {
                session.output.print(&listed())?;
                Ok(Exit::Success)
            }
            Verb::Run(run) => run.run(session),
        }
    }
}

fn listed() -> Report {
    let row = |recipe: &Recipe| vec![json!(recipe.id), json!(recipe.paper), json!(recipe.question)];
    let columns = ["id", "paper", "question"];
    Report::new("synod-lab-list/1").list("recipes", &columns, RECIPES.iter().map(row).collect())
}

impl Run {
    fn circumstances(&self) -> Circumstances {
        let scale = match (self.quick, self.full) {
            (true, _) => Scale::Quick,
            (_, true) => Scale::Full,
            _ => Scale::Usual,
        };
        let prices = if self.prices_2020 { PriceList::Of2020 } else { PriceList::Today };
        Circumstances { seed: self.seed, prices, scale }
    }

    fn run(&self, session: &Session) -> Done {
        let recipes = find(&self.what);
        if recipes.is_empty() {
            let ids: Vec<&str> = RECIPES.iter().map(|recipe| recipe.id).collect();
            let what = format!("there is no recipe {}", self.what);
            return Err(usage(&what).because(format!("recipes are {}", ids.join(", "))));
        }
        let out = match record::checkout(Path::new(".")) {
            Some(root) => root.join(&self.out),
            None => self.out.clone(),
        };
        std::fs::create_dir_all(&out).map_err(|e| unwritable(&out, &e))?;
        let circumstances = self.circumstances();
        let mut figures = Vec::new();
        for recipe in recipes {
            let figure = recipe.run(&circumstances, &mut |line| session.watched(line));
            let figure = figure.map_err(|e| bug("lab", &e))?;
            self.keep(session, &out, &figure)?;
            figures.push(figure);
        }
        session.output.print(&shown(&figures, &out))?;
        let failed = figures.iter().flat_map(|figure| &figure.expectations);
        let failed: Vec<String> =
            failed.filter(|one| !one.held).map(|one| format!("{}: {}", one.what, one.seen)).collect();
        if failed.is_empty() {
            return Ok(Exit::Success);
        }
        let problem = format!("{} expectations failed", failed.len());
        let values = [("check", self.what.as_str()), ("problem", problem.as_str())];
        Err(SynError::of(code::EXPECTATION_FAILED, &values).because(failed.join("\n")))
    }

    /// Writes the files of a figure.
    fn keep(&self, session: &Session, out: &Path, figure: &Figure) -> Result<(), SynError> {
        let name = figure.id.replace('/', "-");
        let value = serde_json::to_value(figure).map_err(|e| bug("lab", &e))?;
        let mut report = Report::new("synod-lab/1").field("scale", self.circumstances().scale.as_str());
        for (key, value) in value.as_object().into_iter().flatten() {
            report = report.field(key.clone(), value.clone());
        }
        session.recorder.record(out, &name, &report);
        let picture = svg::draw(figure).map_err(|e| bug("lab", &e))?;
        let file = out.join(format!("{name}.svg"));
        std::fs::write(&file, picture).map_err(|e| unwritable(&file, &e))?;
        let mut rows = "series,x,y\n".to_owned();
        for (series, x, y) in figure.rows() {
            rows += &format!("\"{series}\",{x},{y}\n");
        }
        let file = out.join(format!("{name}.csv"));
        std::fs::write(&file, rows).map_err(|e| unwritable(&file, &e))
    }
}

fn shown(figures: &[Figure], out: &Path) -> Report {
    let row = |figure: &Figure| {
        figure
            .expectations
            .iter()
            .map(|one| vec![json!(figure.id), json!(one.what), json!(one.held), json!(one.seen)])
            .collect::<Vec<_>>()
    };
    let rows = figures.iter().flat_map(row).collect();
    Report::new("synod-lab-run/1")
        .field("label", figures.first().map_or("", |figure| figure.label))
        .field("folder", out.display().to_string())
        .field("figures", figures.len() as u64)
        .field("held", figures.iter().all(Figure::held))
        .list("expectations", &["figure", "what", "held", "seen"], rows)
}
