//! Tasks of this repository: `cargo xtask VERB`.
//!
//! Built: `measure`, which prints the numbers a review looks at (STYLE.md, docs/adr). Any other verb is
//! refused with exit code 2 and a list of what exists.

mod lines;
mod measure;
mod outside;
mod row;

use std::path::PathBuf;
use std::process::ExitCode;

/// What exists: (verb, what it does).
const VERBS: &[(&str, &str)] = &[("measure", "print sizes, shares and counts of the tree")];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["measure"] => finish(measure()),
        ["measure", rest @ ..] => refuse(&format!("`measure` takes no arguments, got `{}`", rest.join(" "))),
        [] => refuse("no verb"),
        [verb, ..] => refuse(&format!("`{verb}` does not exist")),
    }
}

fn measure() -> anyhow::Result<bool> {
    // Cargo runs the task with the manifest's directory in the environment; a copied binary has none.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").map(|dir| PathBuf::from(dir).join("../.."));
    let root = here.unwrap_or_else(|| PathBuf::from("."));
    let tree = synod_tidy::Tree::load(&root)?;
    anyhow::ensure!(!tree.manifests.is_empty(), "no crate below {}", root.display());
    let mut rows = measure::of(&tree);
    rows.extend(outside::of(&root, &tree));
    print!("{}", row::table(&rows));
    Ok(rows.iter().all(row::Row::is_measured))
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
