//! `synod sim explore`: small instances of the machines, in every schedule.

use crate::exit::Done;
use crate::output::Report;
use crate::session::{Session, usage};
use clap::Args;
use serde_json::{Value, json};
use synod_config::{Exit, SynError, code};
use synod_trial::models::explore::{MODELS, Plan, explore};
use synod_trial::models::report::ModelReport;

/// Searches small instances in every schedule; exit 8 when a property is violated.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod sim explore --help")]
pub(super) struct Arguments {
    /// hotstuff, astro, joins, journal, ctb, register, or all.
    model: String,
    /// Goes as deep as these minutes per model allow; else one level, 36 s.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_440))]
    minutes: Option<u64>,
}

impl Arguments {
    pub(super) fn run(self, session: &Session) -> Done {
        let models: Vec<&str> = if self.model == "all" { MODELS.to_vec() } else { vec![self.model.as_str()] };
        let plan = self.minutes.map_or(Plan::GATE, Plan::minutes);
        let mut reports = Vec::new();
        for model in models {
            reports.push(explore(model, &plan, &mut |line| session.tell(line)).map_err(|e| usage(&e))?);
        }
        let report = shown(&reports);
        session.score(&format!("sim-explore-{}", self.model), &report);
        session.output.print(&report)?;
        match reports.iter().find(|report| !report.passed()) {
            None => Ok(Exit::Success),
            Some(report) => {
                let token = format!("explore {}", report.name);
                let error = SynError::of(code::PROPERTY_VIOLATED, &[("token", token.as_str())]);
                Err(error.because(failure(report)))
            }
        }
    }
}

fn failure(report: &ModelReport) -> String {
    if let Some(broken) = report.broken.first() {
        let trail = broken.trail.join(" ");
        return format!("{}: {}\n{}\n{trail}", broken.checker, broken.what, broken.instance);
    }
    let missed = report.controls.iter().filter(|control| control.broken.is_none());
    let missed: Vec<&str> = missed.map(|control| control.id.as_str()).collect();
    format!("controls that must fail and did not: {}", missed.join(", "))
}

fn shown(reports: &[ModelReport]) -> Report {
    let columns = [
        "name",
        "states",
        "unique",
        "exhausted",
        "levels",
        "violations",
        "controls",
        "controls_failed",
        "wall_s",
    ];
    let row = |report: &ModelReport| -> Vec<Value> {
        vec![
            json!(report.name),
            json!(report.states),
            json!(report.unique),
            json!(report.exhausted),
            json!(report.levels),
            json!(report.violations),
            json!(report.controls.iter().map(|control| control.id.as_str()).collect::<Vec<_>>()),
            json!(report.controls_failed),
            json!(report.wall_s),
        ]
    };
    let unique: u64 = reports.iter().map(|report| report.unique).sum();
    let exhausted = reports.iter().filter(|report| report.exhausted).count();
    let instances: Vec<Value> = reports.iter().flat_map(|r| &r.instances).map(|one| json!(one)).collect();
    let controls: Vec<Value> = reports.iter().flat_map(|r| &r.controls).map(|one| json!(one)).collect();
    Report::new("synod-sim-explore/1")
        .field("unique_total", unique)
        .field("exhausted_models", exhausted as u64)
        .field("instances", instances)
        .field("controls", controls)
        .field("note", note(reports))
        .list("models", &columns, reports.iter().map(row).collect())
        .page(page(reports))
}

fn note(reports: &[ModelReport]) -> &'static str {
    if reports.iter().all(|report| report.controls_failed.is_none()) {
        "controls run in builds with planted bugs: cargo xtask explore"
    } else {
        ""
    }
}

/// What people read: a line per model, and why no controls were run.
fn page(reports: &[ModelReport]) -> String {
    let line = |report: &ModelReport| {
        let ModelReport { name, states, unique, exhausted, violations, controls, wall_s, .. } = report;
        let instances = report.instances.len();
        let controls = match report.controls_failed {
            Some(failed) => format!("{failed} of {} controls found", controls.len()),
            None => "no controls".to_owned(),
        };
        let emptied = if *exhausted { "exhausted" } else { "not exhausted" };
        format!(
            "{name}: {states} states, {unique} different, {instances} instances, {emptied}, \
             {violations} violations, {controls}, {wall_s} s\n"
        )
    };
    let mut text: String = reports.iter().map(line).collect();
    let note = note(reports);
    if !note.is_empty() {
        text.push_str(note);
        text.push('\n');
    }
    text
}
