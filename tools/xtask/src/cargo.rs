//! Starting cargo, and what it says.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;

/// A cargo command at `root` that asks nothing and changes no lock file.
pub(crate) fn command(root: &Path, verb: &str) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.arg(verb).arg("--locked").current_dir(root).stdin(Stdio::null());
    command
}

/// A program of cargo's that is installed for this checkout (`target/tools/bin`) or for all.
pub(crate) fn tool(root: &Path, name: &str) -> Option<PathBuf> {
    let here = root.join("target/tools/bin").join(name);
    if here.is_file() {
        return Some(here);
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// The command that installs such a program for this checkout.
pub(crate) fn install(name: &str) -> String {
    format!("cargo install --locked {name} --root target/tools")
}

/// Builds a test target without running it; the path of its program.
pub(crate) fn test_program(root: &Path, package: &str, test: &str) -> anyhow::Result<String> {
    let mut command = command(root, "test");
    command.args(["--release", "--package", package, "--test", test, "--no-run", "--message-format", "json"]);
    let built = command.stderr(Stdio::inherit()).output().context("cargo does not start")?;
    anyhow::ensure!(built.status.success(), "{package} does not build");
    let said = String::from_utf8_lossy(&built.stdout);
    let program = said.lines().filter_map(|line| executable(line, test)).next_back();
    program.with_context(|| format!("cargo names no program for the test {test}"))
}

/// The program that a line of cargo's messages names for a target.
fn executable(line: &str, target: &str) -> Option<String> {
    if !line.contains(&format!("\"name\":\"{target}\"")) {
        return None;
    }
    let (_, rest) = line.split_once("\"executable\":\"")?;
    let (path, _) = rest.split_once('"')?;
    Some(path.replace("\\\\", "\\"))
}

#[cfg(test)]
mod tests {
    use super::executable;

    #[test]
    fn the_program_of_a_target_is_found_in_cargos_messages() {
        let line = r#"{"reason":"compiler-artifact","target":{"kind":["test"],"name":"campaign"},"executable":"/a/campaign-1"}"#;
        assert_eq!(executable(line, "campaign").as_deref(), Some("/a/campaign-1"));
        assert_eq!(executable(line, "corpus"), None);
        assert_eq!(executable(r#"{"name":"campaign","executable":null}"#, "campaign"), None);
    }
}
