//! Commands in `docs/operating` are run as they stand, in order, in an empty directory.

use crate::rig::{Rig, read};
use std::path::Path;

fn page(name: &str) -> String {
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating").join(name))
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

/// Runs the commands of a page in a shell whose `synod` is the binary under test.
fn run(name: &str, at_least: usize) {
    let rig = Rig::new();
    let rig = Deployed(rig);
    let mut lines = commands(&page(name));
    // Pages use the usual ports; here the system chooses them.
    if let Some(up) = lines.iter_mut().find(|line| line.starts_with("synod up")) {
        up.push_str(" --base-port 0");
    }
    assert!(lines.len() >= at_least, "{name} holds only {} commands", lines.len());
    for line in lines {
        let ran = rig.0.shell(&line);
        assert_eq!(ran.code, 0, "{name}: {line}: {}", ran.err);
    }
}

/// Ends the deployment that a page started, even when one of its commands fails.
struct Deployed(Rig);

impl Drop for Deployed {
    fn drop(&mut self) {
        drop(self.0.command("down").output());
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
