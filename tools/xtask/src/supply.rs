//! `supply`: what the program is made of, and the exceptions from its lints.
//!
//! Exit code 8 when a limit is broken: crates above their number, a crate that is denied or below its floor, an open
//! advisory, unsafe code outside its two crates, a planted bug in the release. Advisories need a local copy of a
//! database (`--db DIR`); without one their count is null, which the scoreboard takes for a check that did not run.
//! Licences, bans and sources are `cargo deny`'s, by `deny.toml`, where that program is installed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context as _;
use serde_json::{Value, json};
use synod_tidy::rule::{attributes, dependencies, lints, lock};
use synod_tidy::{Finding, Tree, items};

use crate::advisories;
use crate::outside;
use crate::plant;
use crate::score::Recorder;

/// Most third-party crates: core and protocols, the default build, all features.
const CRATES_MAX: [(&str, usize); 3] = [("core", 60), ("default", 200), ("all", 240)];

/// What to do when no database is given.
const NO_DATABASE: &str = "no advisory database was given; copy one to this machine and name it: --db DIR";

/// Runs the task.
pub(crate) fn run(root: &Path, words: &[&str]) -> anyhow::Result<ExitCode> {
    let (database, is_json) = options(words)?;
    let recorder = Recorder::start(root);
    let tree = Tree::load(root)?;
    let everywhere = allowed_everywhere(&std::fs::read_to_string(root.join("Cargo.toml"))?)?;
    let mut figures = counted(&tree, &everywhere);
    let mut broken = Vec::new();
    let mut put = |key: &str, value: Value| drop(figures.insert(key.to_owned(), value));
    let crates = outside::counts(root, &tree).map_err(anyhow::Error::msg)?;
    for (name, most) in CRATES_MAX {
        let count = crates.get(name).copied().unwrap_or(usize::MAX);
        if count > most {
            broken.push(format!("{count} crates of `{name}`, at most {most}"));
        }
    }
    put("crates", json!(crates));
    let floors = findings(&[dependencies::check(&tree), lock::check(&tree)]);
    broken.extend(floors.iter().cloned());
    put("dependency_findings", json!(floors));
    for (key, value) in looked_up(root, database.as_deref(), &mut broken)? {
        put(key, value);
    }
    put("policy", policy(root, &mut broken));
    put("release_has_plants", released(root, &mut broken)?);
    if figures.get("unsafe_outside_allowed").and_then(Value::as_u64) != Some(0) {
        broken.push("unsafe code outside its two crates".to_owned());
    }
    figures.insert("broken".to_owned(), json!(broken));
    let figures = Value::Object(figures);
    if is_json {
        println!("{figures}");
    } else {
        print!("{}", page(&figures));
    }
    recorder.record("supply", figures)?;
    broken.iter().for_each(|what| eprintln!("xtask: {what}"));
    Ok(if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(8) })
}

fn options(words: &[&str]) -> anyhow::Result<(Option<PathBuf>, bool)> {
    match words {
        [] => Ok((None, false)),
        ["--json"] => Ok((None, true)),
        ["--db", dir] => Ok((Some(PathBuf::from(dir)), false)),
        ["--db", dir, "--json"] | ["--json", "--db", dir] => Ok((Some(PathBuf::from(dir)), true)),
        _ => anyhow::bail!("`supply` takes --db DIR and --json, got `{}`", words.join(" ")),
    }
}

fn findings(lists: &[Vec<Finding>]) -> Vec<String> {
    lists.iter().flatten().map(|finding| format!("{}: {}", finding.path, finding.what)).collect()
}

/// The lints that the workspace allows everywhere; the comments beside them are their reasons.
fn allowed_everywhere(manifest: &str) -> anyhow::Result<Vec<String>> {
    let manifest: toml::Table = manifest.parse().context("the manifest of the workspace is not TOML")?;
    let tools = manifest.get("workspace").and_then(|workspace| workspace.get("lints")?.as_table());
    let lints = tools.into_iter().flatten().filter_map(|(_, lints)| lints.as_table()).flatten();
    let allowed = |level: &toml::Value| {
        level.as_str().or_else(|| level.get("level")?.as_str()).is_some_and(|level| level == "allow")
    };
    Ok(lints.filter(|(_, level)| allowed(level)).map(|(name, _)| name.clone()).collect())
}

/// Counts of the sources: unsafe code, exceptions from lints by lint. `everywhere` are those of the workspace.
fn counted(tree: &Tree, everywhere: &[String]) -> serde_json::Map<String, Value> {
    let outside = lints::check(tree).iter().filter(|f| f.what.contains("outside its two crates")).count();
    let allowed = attributes::check(tree).iter().filter(|f| f.what.contains("a lint is allowed")).count();
    let (mut by_lint, mut bare): (BTreeMap<String, u64>, u64) = (BTreeMap::new(), 0);
    let mut all = 0;
    for rust in tree.sources.values() {
        let found = items::attributes(&rust.source);
        let exceptions =
            found.iter().filter(|a| a.text.trim_start().starts_with("expect(") && !rust.is_test(a.start));
        for attribute in exceptions {
            all += 1;
            bare += u64::from(!attribute.text.contains("reason"));
            for lint in lints_of(&attribute.text) {
                *by_lint.entry(lint).or_default() += 1;
            }
        }
    }
    let figures = json!({
        "schema": "synod-supply/1",
        "unsafe_outside_allowed": outside,
        "allows": all + allowed + everywhere.len(),
        "allows_everywhere": everywhere,
        "allows_without_reason": bare + allowed as u64,
        "allows_by_lint": by_lint,
        "sources": tree.sources.len(),
    });
    figures.as_object().cloned().unwrap_or_default()
}

/// The lints that an exception names.
fn lints_of(attribute: &str) -> Vec<String> {
    let inner = attribute.trim_start().trim_start_matches("expect(");
    let names = inner.split(',').map(str::trim).take_while(|part| !part.starts_with("reason"));
    names.map(|name| name.trim_end_matches(')').trim_start_matches("clippy::").to_owned()).collect()
}

fn looked_up(
    root: &Path,
    database: Option<&Path>,
    broken: &mut Vec<String>,
) -> anyhow::Result<Vec<(&'static str, Value)>> {
    let Some(database) = database else {
        eprintln!("xtask: {NO_DATABASE}");
        return Ok(vec![("advisories", Value::Null), ("advisories_missing", json!(NO_DATABASE))]);
    };
    let lock = std::fs::read_to_string(root.join("Cargo.lock"))?;
    let found = advisories::of(database, &lock)?;
    broken.extend(found.open.iter().map(|(id, name, version)| format!("{id} is open for {name} {version}")));
    Ok(vec![
        ("advisories", json!(found.open.len())),
        ("advisories_open", json!(found.open)),
        ("advisories_notices", json!(found.notices)),
        ("advisories_over", json!(found.crates)),
        ("advisories_known", json!(found.known)),
    ])
}

/// What `cargo deny` says of licences, bans and sources; null where it is not installed.
fn policy(root: &Path, broken: &mut Vec<String>) -> Value {
    let Some(program) = crate::cargo::tool(root, "cargo-deny") else {
        eprintln!(
            "xtask: cargo-deny is not installed, so deny.toml is not applied: {}",
            crate::cargo::install("cargo-deny")
        );
        return Value::Null;
    };
    let mut command = Command::new(program);
    command
        .args(["--offline", "check", "licenses", "bans", "sources"])
        .current_dir(root)
        .stdin(Stdio::null());
    match command.output() {
        Ok(done) if done.status.success() => json!("licenses, bans and sources hold"),
        Ok(done) => {
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            broken.push("deny.toml is violated".to_owned());
            json!({ "violated": said.lines().take(40).collect::<Vec<_>>() })
        }
        Err(why) => {
            broken.push(format!("cargo-deny: {why}"));
            Value::Null
        }
    }
}

/// Whether the release binary holds planted bugs; null where there is none.
fn released(root: &Path, broken: &mut Vec<String>) -> anyhow::Result<Value> {
    let release = plant::usual(root).join("release/synod");
    if !release.exists() {
        eprintln!(
            "xtask: no release binary to look for planted bugs in: cargo build --release --package synod-cli"
        );
        return Ok(Value::Null);
    }
    let marked = plant::is_marked(&release).context("the release binary cannot be searched")?;
    if marked {
        broken.push(format!("{} holds planted bugs", release.display()));
    }
    Ok(json!(marked))
}

fn page(figures: &Value) -> String {
    let mut text = String::new();
    for (key, value) in figures.as_object().into_iter().flatten().filter(|(key, _)| *key != "schema") {
        text.push_str(&format!("{key} {value}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{allowed_everywhere, counted, lints_of, options};
    use serde_json::json;
    use std::path::PathBuf;
    use synod_tidy::Tree;

    #[test]
    fn exceptions_are_counted_by_lint_and_those_of_tests_are_not() {
        let code = "//! A.\n#[expect(clippy::panic, clippy::todo, reason = \"r, s\")]\nfn a() {}\n#[expect(dead_code)]\nfn b() {}\n\
            #[cfg(test)]\nmod t {\n    #[expect(clippy::panic, reason = \"r\")]\n    fn c() {}\n}\n";
        let figures = counted(&Tree::of(&[("core/a/src/a.rs", code)]), &["large_enum_variant".to_owned()]);
        assert_eq!(figures["allows"], json!(3), "what is allowed everywhere is an exception too");
        assert_eq!(figures["allows_without_reason"], json!(1));
        assert_eq!(figures["allows_by_lint"], json!({ "dead_code": 1, "panic": 1, "todo": 1 }));
        assert_eq!((&figures["unsafe_outside_allowed"], &figures["sources"]), (&json!(0), &json!(1)));
    }

    #[test]
    fn lints_that_the_workspace_allows_are_found_in_both_forms() {
        let manifest = "[workspace.lints.rust]\na = { level = \"allow\", priority = 1 }\nb = \"warn\"\n\
            [workspace.lints.clippy]\nc = \"allow\"\n";
        let mut found = allowed_everywhere(manifest).expect("TOML");
        found.sort();
        assert_eq!(found, ["a", "c"]);
    }

    #[test]
    fn the_lints_of_an_exception_end_at_its_reason() {
        assert_eq!(lints_of("expect(clippy::a, b, reason = \"c, d\")"), ["a", "b"]);
        assert_eq!(lints_of("expect(clippy::a)"), ["a"]);
    }

    #[test]
    fn a_database_is_named_and_nothing_else_is_taken() {
        assert_eq!(options(&["--db", "x"]).expect("known"), (Some(PathBuf::from("x")), false));
        assert_eq!(options(&["--json"]).expect("known"), (None, true));
        assert!(options(&["--db"]).is_err() && options(&["now"]).is_err());
    }
}
