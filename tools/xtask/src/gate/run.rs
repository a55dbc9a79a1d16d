//! The stages of a gate one after the other, and their table.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use serde_json::{Value, json};

use super::plan::{self, Kind, Plan};
use super::stage::{self, Done, State};
use crate::plant;
use crate::score::Recorder;

/// Longest full gate, in seconds: above it fails. Builds from nothing do not count.
const FULL_MAX_S: u64 = 50 * 60;

/// Runs a gate.
pub(crate) fn run(root: &Path, words: &[&str]) -> anyhow::Result<ExitCode> {
    let (kind, keep_going) = match words {
        ["full"] => (Kind::Full, false),
        ["full", "--keep-going"] => (Kind::Full, true),
        ["release"] => (Kind::Release, false),
        ["release", "--keep-going"] => (Kind::Release, true),
        _ => anyhow::bail!("`gate` takes full or release, then --keep-going; got `{}`", words.join(" ")),
    };
    let recorder = Recorder::start(root);
    if recorder.is_stale() {
        eprintln!("xtask: tracked files differ from {}; figures are of what is here", recorder.commit());
    }
    let plan = Plan::of(kind, recorder.commit(), &plant::usual(root), &registered(root)?);
    let started = Instant::now();
    let mut done: Vec<Done> = Vec::new();
    let mut warm_from = Instant::now();
    for (number, group) in plan.groups.iter().enumerate() {
        eprintln!("xtask: {} ({} of {})", group.name, number + 1, plan.groups.len());
        // Without its programs nothing can go on.
        let ended = stage::run(root, group, keep_going && number > 0);
        let failed = ended.iter().any(|one| one.state == State::Failed || one.state == State::Ended);
        done.extend(ended);
        if number == 0 {
            warm_from = Instant::now();
        }
        if failed && (number == 0 || !keep_going) {
            break;
        }
    }
    let wall = started.elapsed().as_secs();
    let late = kind == Kind::Full && warm_from.elapsed().as_secs() > FULL_MAX_S;
    let whole = done.len() == plan.groups.iter().map(plan::Group::len).sum::<usize>();
    let passed = whole && !late && done.iter().all(|one| matches!(one.state, State::Passed | State::Missing));
    print!("{}", table(&done));
    let missing = done.iter().filter(|one| one.state == State::Missing).count();
    println!(
        "gate {}: {} in {wall} s{}{}",
        kind.as_str(),
        if passed { "passed" } else { "FAILED" },
        if late { ", over its time" } else { "" },
        if missing > 0 { format!(", {missing} commands do not exist in this build") } else { String::new() },
    );
    if recorder.is_stale() {
        println!(
            "the tree is not, or no longer, {}: the score reads figures of the present commit only",
            recorder.commit()
        );
    }
    println!("then: synod score --gate {} --append", kind.as_str());
    recorder.record("gate", figures(kind, &done, passed))?;
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::from(8) })
}

/// The registered plants: id, and whether they are starred or call themselves open.
fn registered(root: &Path) -> anyhow::Result<Vec<plan::Plant>> {
    let text = std::fs::read_to_string(root.join("tests/plants.toml"))?;
    let table: toml::Table = text.parse()?;
    let list = table.get("plant").and_then(toml::Value::as_array).into_iter().flatten();
    let plant = |one: &toml::Value| {
        let id = one.get("id")?.as_str()?.to_owned();
        Some(plan::Plant { is_open: one.get("open").is_some(), id })
    };
    Ok(list.filter_map(plant).collect())
}

fn figures(kind: Kind, done: &[Done], passed: bool) -> Value {
    let row = |one: &Done| {
        json!({
            "stage": one.stage, "lane": one.lane, "name": one.name, "command": one.command, "state": one.state.word(),
            "wall_s": one.wall_s, "limit_s": one.limit_s,
        })
    };
    json!({
        "schema": "synod-gate/1",
        "gate": kind.as_str(),
        "pass": passed,
        "stages": done.iter().map(row).collect::<Vec<Value>>(),
    })
}

fn table(done: &[Done]) -> String {
    let mut text = String::from("| stage | lane | command | s | box | result |\n|---|---|---|---|---|---|\n");
    for one in done {
        let Done { stage, lane, name, wall_s, limit_s, .. } = one;
        let state = one.state.word();
        text.push_str(&format!("| {stage} | {lane} | {name} | {wall_s} | {limit_s} | {state} |\n"));
    }
    text
}
