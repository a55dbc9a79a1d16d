//! The tree as users meet it: help, examples, pipes, completions, manual, speed.

use crate::book::OF_BOOK;
use crate::chop::{OF_AUCTION, OF_CHOP, OF_PIXELS};
use crate::live::{ATTACKED, ON_A_CLUSTER, RUNS};
use crate::members::OF_MEMBERS;
use crate::pay::OF_PAY;
use crate::rig::{Rig, verbs};
use crate::ubft::OF_UBFT;
use serde_json::Value;
use std::collections::BTreeSet;

/// The example at the end of a help text, without `synod`.
pub(crate) fn example(help: &str) -> String {
    let (_, tail) = help.split_once("\nExample:\n").unwrap_or_else(|| panic!("no example in: {help}"));
    let words: Vec<&str> = tail.split_whitespace().collect();
    assert_eq!(words.first(), Some(&"synod"), "{tail}");
    words[1..].join(" ")
}

/// Examples of verbs that are refused on purpose.
fn outcome(verb: &str) -> i32 {
    match verb {
        "keys rotate" => 5,
        _ => 0,
    }
}

/// Whether the example of a verb needs a cluster, with which another test runs it.
fn is_live(verb: &str) -> bool {
    [ON_A_CLUSTER, RUNS, ATTACKED, OF_CHOP, OF_AUCTION, OF_PIXELS, OF_BOOK, OF_PAY, OF_MEMBERS, OF_UBFT]
        .iter()
        .any(|verbs| verbs.contains(&verb))
}

/// Verbs whose output has a form of its own.
const RAW: [&str; 2] = ["completions", "man"];

/// Asserts that `text` is one JSON object that names its schema.
pub(crate) fn assert_one_object(line: &str, text: &str) {
    let object: Value =
        serde_json::from_str(text).unwrap_or_else(|error| panic!("synod {line}: {error}: {text}"));
    let schema = object["schema"].as_str().unwrap_or_default();
    assert!(schema.starts_with("synod") && schema.ends_with("/1"), "synod {line}: {object}");
}

#[test]
fn the_example_of_every_help_runs_and_prints_no_escapes() {
    let rig = Rig::furnished();
    let mut run = BTreeSet::new();
    for (verb, help) in verbs() {
        assert!(!help.contains('\u{1b}'), "the help of {verb} has escapes");
        let line = example(help);
        if !is_live(verb) && run.insert(line.clone()) {
            let ran = rig.shell(&format!("synod {line}"));
            assert_eq!(ran.code, outcome(verb), "{verb}: synod {line}: {}{}", ran.out, ran.err);
            if line.contains("--json") {
                assert_one_object(&line, &ran.out);
            }
            assert!(
                !ran.out.contains('\u{1b}') && !ran.err.contains('\u{1b}'),
                "synod {line} prints escapes"
            );
        }
    }
    assert!(run.len() >= 18, "only {} examples ran", run.len());
}

#[test]
fn the_json_of_every_verb_is_one_object_with_a_schema() {
    let rig = Rig::furnished();
    let mut parsed = BTreeSet::new();
    for (verb, help) in verbs() {
        let line = example(help);
        let first = verb.split(' ').next().unwrap_or_default();
        let skipped = outcome(verb) != 0 || RAW.contains(&first) || is_live(verb);
        // An example that asks for JSON itself was checked where the examples run.
        if !skipped && !line.contains("--json") && !line.contains("--help") && parsed.insert(line.clone()) {
            assert_one_object(&line, &rig.ok(&format!("{line} --json")));
        }
    }
    assert!(parsed.len() >= 14, "only {} verbs printed an object", parsed.len());
}

#[test]
fn bare_synod_names_a_next_step_that_works() {
    let rig = Rig::new();
    let out = rig.ok("");
    let step = out.lines().find_map(|line| line.strip_prefix("next: synod ")).expect("a next step is named");
    assert_eq!(rig.json("")["next"][0], format!("synod {step}"));
    let help = format!("{} --help", step.split(' ').next().unwrap_or_default());
    rig.ok(&help);
}

#[test]
fn every_verb_is_in_the_manual_and_in_the_completions() {
    let rig = Rig::new();
    let page = rig.ok("man").replace("\\-", "-");
    let shells: Vec<String> =
        ["bash", "zsh", "fish"].iter().map(|shell| rig.ok(&format!("completions {shell}"))).collect();
    let mut seen = 0;
    for (verb, _) in verbs().iter().filter(|(verb, _)| !verb.is_empty()) {
        assert!(page.contains(&format!("synod {verb}\\fR")), "{verb} is not in the manual");
        let last = verb.rsplit(' ').next().unwrap_or_default();
        for script in &shells {
            assert!(script.contains(last), "{verb} is not completed");
        }
        seen += 1;
    }
    assert!(seen >= 20, "only {seen} verbs");
}

#[test]
fn the_manual_is_written_as_one_page_per_verb() {
    let rig = Rig::new();
    rig.ok("man --out pages");
    for page in ["synod.1", "synod-init.1", "synod-keys-new.1"] {
        assert!(crate::rig::read(&rig.path("pages").join(page)).contains(".TH"), "{page}");
    }
}

#[test]
fn a_wrong_command_line_is_a_usage_error_that_suggests() {
    let rig = Rig::new();
    assert!(rig.refused("verison", "SYN-1001", 2).contains("cause: the nearest is version"));
    assert!(rig.refused("keys", "SYN-1001", 2).contains("new, show, card"));
    assert!(rig.refused("version --verbos", "SYN-1001", 2).contains("--verbose"));
    rig.refused("version --timeout 0", "SYN-1001", 2);
    rig.refused("explain 1", "SYN-1001", 2);
    rig.refused("keys new", "SYN-1001", 2);
}

#[test]
fn every_code_is_explained() {
    let rig = Rig::new();
    let catalogue = rig.json("explain");
    let codes = catalogue["codes"].as_array().expect("a list");
    assert_eq!(codes.len(), synod_config::ERRORS.len());
    for row in codes {
        let code = row["code"].as_str().expect("a code");
        let page = rig.ok(&format!("explain {code}"));
        assert!(page.starts_with(&format!("{code} ")), "{page}");
        assert!(
            page.contains("\nmeaning: ") && page.contains("\ncause: ") && page.contains("\nfix: "),
            "{page}"
        );
    }
    let one = rig.json("explain syn-2103");
    assert_eq!((&one["code"], &one["exit"]), (&"SYN-2103".into(), &3.into()));
}

#[test]
fn version_tells_what_was_built() {
    let rig = Rig::new();
    assert_eq!(rig.ok("version"), format!("synod {}\n", env!("CARGO_PKG_VERSION")));
    let facts = rig.json("version --verbose");
    for key in ["commit", "rustc", "target", "build", "target_features"] {
        assert!(facts[key].as_str().is_some_and(|text| !text.is_empty()) || facts[key].is_array(), "{key}");
    }
}

#[test]
fn the_formats_that_version_names_are_those_that_are_written() {
    let rig = Rig::furnished();
    let facts = rig.json("version --verbose");
    let stated = |name: &str| {
        let rows = facts["formats"].as_array().expect("a list");
        let row = rows.iter().find(|row| row["format"] == name).expect("the format is named");
        row["version"].as_u64().expect("a number")
    };
    for (file, path) in [
        ("genesis.toml", "cluster/genesis.toml"),
        ("card", "node.card"),
        ("contexts.toml", "xdg/synod/contexts.toml"),
    ] {
        assert!(
            crate::rig::read(&rig.path(path)).contains(&format!("format = {}\n", stated(file))),
            "{file}"
        );
    }
    assert!(
        crate::rig::read(&rig.path("node.key")).starts_with(&format!("synod-key-{} ", stated("key file")))
    );
    let version = crate::rig::read(&rig.path("cluster/n0/data/VERSION"));
    assert_eq!(version, format!("{}\n", stated("data directory")));
    let segment = std::fs::read(rig.path("cluster/n0/data/wal/0000000000000001.seg")).expect("a segment");
    let format = u32::from_le_bytes([segment[8], segment[9], segment[10], segment[11]]);
    assert_eq!(u64::from(format), stated("journal"));
    let ports = synod_config::Ports::new(Vec::new()).to_json();
    assert!(ports.contains(&format!("\"synod-ports/{}\"", stated("ports.json"))));
}

#[test]
fn csv_has_a_header_and_the_rows_of_the_table() {
    let rig = Rig::furnished();
    let csv = rig.ok("ctx ls -o csv");
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines[0], "selected,name,genesis,addresses");
    assert_eq!(lines.len(), 3);
    assert!(lines[2].starts_with("*,shop,"), "{csv}");
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let rig = Rig::new();
    let mut command = rig.command("man");
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().expect("the binary starts");
    drop(child.stdout.take());
    assert!(child.wait().expect("it ends").success());
}

/// `docs/reference/commands.md`: the help of every verb, in the order of the tree.
fn commands_page() -> String {
    let mut page =
        "# Commands\n\nGenerated from the help of the binary; do not edit by hand. Every example is run by \
                    a test.\n"
            .to_owned();
    for (verb, help) in verbs() {
        let shared = help.find("\nOptions of every verb:\n").filter(|_| !verb.is_empty());
        let example = help.find("\nExample:\n").unwrap_or(help.len());
        let own = &help[..shared.unwrap_or(example)];
        let text = format!("{}\n{}", own.trim_end(), &help[example..]);
        page.push_str(&format!("\n## synod {verb}\n\n```text\n{}\n```\n", text.trim_end()));
    }
    page.replace("## synod \n", "## synod\n")
}

#[test]
fn the_committed_commands_equal_the_help() {
    let made = commands_page();
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/commands.md");
    if std::env::var_os("SYNOD_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(&path, &made).expect("the page is writable");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == made,
        "commands.md is out of date: SYNOD_BLESS=1 cargo test -p synod-cli --test cli commands"
    );
}
