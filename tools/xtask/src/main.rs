//! Tasks of this repository: `cargo xtask VERB`.
//!
//! Built: `measure`, which prints the numbers a review looks at (STYLE.md, docs/adr); `fuzz`, which runs the fuzz
//! targets; `plant` and `twins`, which look for planted bugs; `explore`, which explores the models with their controls;
//! `mutants`, which changes the code and asks whether a test notices; `supply`, which looks at what the program is made
//! of; `gate`, which runs all of it; `conformance`, which watches the formats. What they find goes to `target/score`,
//! where `synod score` reads it. Any other verb is refused with exit code 2 and a list of what exists.

mod advisories;
mod cargo;
mod conformance;
mod fuzz;
mod gate;
mod lines;
mod measure;
mod mutants;
mod outside;
mod plant;
mod row;
mod score;
mod supply;

use std::path::PathBuf;
use std::process::ExitCode;

/// What exists: (verb, what it does).
const VERBS: &[(&str, &str)] = &[
    ("measure", "print sizes, shares and counts of the tree"),
    ("fuzz", "run the targets: --seconds S | --inputs N [--target T] [--decoders] [--seed N] [--json]"),
    (
        "plant",
        "build with planted bugs and look for them: [ID..|--all|--starred] [--seeds N] [--cpu-s S] [--replays]",
    ),
    (
        "explore",
        "build with planted bugs, explore the models and their controls: [MODEL|all] [--minutes M] [--json]",
    ),
    (
        "twins",
        "build with planted bugs and look for some among scripts of twins: --plants ID,.. [--system P] [--count N]",
    ),
    (
        "mutants",
        "change the code and run its tests: [--count N] [--jobs K] [--seconds S] [--again] [--prepare] [--json]",
    ),
    (
        "supply",
        "count crates, exceptions and advisories, look for planted bugs in the release: [--db DIR] [--json]",
    ),
    ("gate", "run all that is too long for every commit: full | release, [--keep-going]"),
    ("conformance", "check the stored hashes of all formats; --accept writes them anew"),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["measure"] => finish(measure()),
        ["measure", rest @ ..] => refuse(&format!("`measure` takes no arguments, got `{}`", rest.join(" "))),
        ["fuzz", rest @ ..] => code(root().and_then(|root| fuzz::run(&root, rest))),
        ["plant", "--build"] => code(root().and_then(|root| plant::built(&root)).map(|_| ExitCode::SUCCESS)),
        ["mutants", rest @ ..] => code(root().and_then(|root| mutants::run(&root, rest))),
        ["supply", rest @ ..] => code(root().and_then(|root| supply::run(&root, rest))),
        ["gate", rest @ ..] => code(root().and_then(|root| gate::run(&root, rest))),
        ["gate-tests"] => code(root().and_then(|root| gate::counted(&root))),
        ["plant", rest @ ..] => code(root().and_then(|root| plant::run(&root, &["plant", "run"], rest))),
        ["explore"] => code(root().and_then(|root| plant::run(&root, &["explore", "all"], &[]))),
        ["explore", rest @ ..] => code(root().and_then(|root| plant::run(&root, &["explore"], rest))),
        ["twins"] => {
            let plants = ["--plants", "H1,H3,H5,O1,O2,O4", "--system", "all"];
            code(root().and_then(|root| plant::run(&root, &["twins"], &plants)))
        }
        ["twins", rest @ ..] => code(root().and_then(|root| plant::run(&root, &["twins"], rest))),
        ["conformance"] => code(root().and_then(|root| conformance::run(&root, false))),
        ["conformance", "--accept"] => code(root().and_then(|root| conformance::run(&root, true))),
        ["conformance", ..] => refuse("`conformance` takes only --accept"),
        [] => refuse("no verb"),
        [verb, ..] => refuse(&format!("`{verb}` does not exist")),
    }
}

/// The root of the checkout.
fn root() -> anyhow::Result<PathBuf> {
    // Cargo runs the task with the manifest's directory in the environment; a copied binary has none.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").map(|dir| PathBuf::from(dir).join("../.."));
    let root = here.unwrap_or_else(|| PathBuf::from("."));
    Ok(root.canonicalize()?)
}

fn measure() -> anyhow::Result<bool> {
    let root = root()?;
    let tree = synod_tidy::Tree::load(&root)?;
    anyhow::ensure!(!tree.manifests.is_empty(), "no crate below {}", root.display());
    let mut rows = measure::of(&tree);
    rows.extend(outside::of(&root, &tree));
    print!("{}", row::table(&rows));
    Ok(rows.iter().all(row::Row::is_measured))
}

fn code(result: anyhow::Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|why| {
        eprintln!("xtask: {why:#}");
        ExitCode::FAILURE
    })
}

fn finish(result: anyhow::Result<bool>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("xtask: a number could not be measured");
            ExitCode::FAILURE
        }
        Err(why) => {
            eprintln!("xtask: {why:#}");
            ExitCode::FAILURE
        }
    }
}

fn refuse(why: &str) -> ExitCode {
    eprintln!("xtask: {why}; verbs:");
    for (verb, what) in VERBS {
        eprintln!("  {verb:<10} {what}");
    }
    ExitCode::from(2)
}
