//! Commands in documents are run as they stand, in order, in an empty directory.

use crate::rig::{Rig, read};
use std::path::Path;
use std::time::{Duration, Instant};

/// A page by its path from the root.
fn page(path: &str) -> String {
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path))
}

/// The lines of the `sh` blocks.
fn commands(page: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        match line {
            "```sh" => inside = true,
            _ if line.starts_with("```") => inside = false,
            _ if inside => lines.push(line.to_owned()),
            _ => {}
        }
    }
    lines
}

/// A command without the remark behind it.
fn plain(line: &str) -> &str {
    line.split_once(" #").map_or(line, |(line, _)| line).trim_end()
}

/// Starts a cluster as a page does, but on ports that the system chooses.
fn anywhere(line: &str) -> String {
    let (rest, port) = line.split_once("--base-port ").unwrap_or((line, ""));
    let behind = port.split_once(' ').map_or("", |(_, behind)| behind);
    format!("{} {behind} --base-port 0", rest.trim_end())
}

/// Runs the commands of a page in a shell whose `synod` is the binary under test.
fn run(name: &str, at_least: usize) {
    run_with(&format!("docs/operating/{name}"), at_least, &[]);
}

/// Runs the commands of a page; one that is refused with a code of `again` is sent again, as the page says.
fn run_with(path: &str, at_least: usize, again: &[&str]) {
    let rig = Deployed(Rig::new());
    let mut lines = commands(&page(path));
    // Pages name ports; here the system chooses them. Whoever starts a cluster again has its ports already.
    if let Some(up) = lines.iter_mut().find(|line| line.starts_with("synod up")) {
        *up = anywhere(plain(up));
    }
    assert!(lines.len() >= at_least, "{path} holds only {} commands", lines.len());
    let deadline = Instant::now() + Duration::from_secs(60);
    for line in lines {
        let mut ran = rig.0.shell(&line);
        while again.iter().any(|code| ran.err.contains(code)) && Instant::now() < deadline {
            ran = rig.0.shell(&line);
        }
        assert_eq!(ran.code, 0, "{path}: {line}: {}", ran.err);
    }
}

/// Ends the deployments that a page started, even when one of its commands fails.
struct Deployed(Rig);

impl Drop for Deployed {
    fn drop(&mut self) {
        let listed = self.0.run("ctx ls --json").out;
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap_or_default();
        let names =
            listed["contexts"].as_array().into_iter().flatten().filter_map(|row| row["name"].as_str());
        for name in names {
            drop(self.0.command(&format!("-c {name} down")).output());
        }
    }
}

#[test]
fn the_commands_of_the_first_cluster_run() {
    run("first-cluster.md", 10);
}

#[test]
fn the_commands_of_keys_run() {
    run("keys.md", 8);
}

#[test]
fn the_commands_of_apps_run() {
    run("apps.md", 8);
}

#[test]
fn the_commands_of_install_run() {
    run("install.md", 9);
}

#[test]
fn the_commands_of_chaos_run() {
    run("chaos.md", 9);
}

#[test]
fn the_commands_of_payments_run() {
    // Accounts and holds are heard of elsewhere a moment later, and so is the first cut.
    run_with("docs/pay.md", 15, &["SYN-3106", "SYN-3124", "SYN-3134"]);
}

#[test]
fn the_clusters_of_the_readme_stand_beside_each_other() {
    let lines = commands(&page("README.md"));
    let ups: Vec<&str> =
        lines.iter().map(|line| plain(line)).filter(|line| line.starts_with("synod up")).collect();
    assert_eq!(ups.len(), 2, "{ups:?}");
    let port = |line: &str| {
        let stated = line.split_once("--base-port ").map(|(_, port)| port.parse().expect("a port"));
        stated.unwrap_or(synod_config::BASE_PORT)
    };
    assert!(port(ups[0]).abs_diff(port(ups[1])) >= 100, "they take the same ports: {ups:?}");
    let one = Deployed(Rig::new());
    for line in ups {
        let ran = one.0.shell(&format!("{} --detach", anywhere(line)));
        assert_eq!(ran.code, 0, "{line}: {}", ran.err);
    }
    let kinds = ["main", "bank"].map(|name| one.0.json(&format!("-c {name} status"))["kind"].clone());
    assert_eq!(kinds, ["hotstuff", "astro"]);
}
