//! `plant` and `explore`: the build with planted bugs, the search for them, and the models whose controls they are.
//!
//! The build has a target directory of its own, `plant` below the usual one, so that nothing of it is ever taken for a
//! release. Its profile is `soak`, which unwinds: a machine that panics is a finding and not the end of the search. `synod sim plant run`
//! or `synod sim explore` then does the work, with the words given here; exit codes are its own: 0, 2 for wrong
//! arguments, 8 when a plant is missed that `tests/plants.toml` does not call open, or a control was not found.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Context as _;

use crate::cargo;

/// What only builds with planted bugs contain. In two parts, so that this program does not contain it either.
const MARK: [&str; 2] = ["synod-plant", "-build"];

/// Builds with planted bugs and runs `synod sim` with `verb` and `words`.
pub(crate) fn run(root: &Path, verb: &[&str], words: &[&str]) -> anyhow::Result<ExitCode> {
    let planted = built(root)?;
    let release = usual(root).join("release/synod");
    if release.exists() {
        anyhow::ensure!(!is_marked(&release)?, "{} holds planted bugs", release.display());
        eprintln!("xtask: {} holds no plant", release.display());
    }
    let status = Command::new(&planted).arg("sim").args(verb).args(words).current_dir(root).status();
    let status = status.with_context(|| format!("{} does not start", planted.display()))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Where cargo builds.
pub(crate) fn usual(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// Builds with planted bugs; the program.
pub(crate) fn built(root: &Path) -> anyhow::Result<PathBuf> {
    let planted = build(root, &usual(root).join("plant"))?;
    anyhow::ensure!(is_marked(&planted)?, "{} does not say that it holds plants", planted.display());
    Ok(planted)
}

/// Builds into `target`; the program.
fn build(root: &Path, target: &Path) -> anyhow::Result<PathBuf> {
    let mut command = cargo::command(root, "build");
    command.args(["--profile", "soak", "--package", "synod-cli"]);
    command.env("RUSTFLAGS", flags(std::env::var_os("RUSTFLAGS"))).env_remove("CARGO_ENCODED_RUSTFLAGS");
    command.env("CARGO_TARGET_DIR", target);
    let status = command.status().context("cargo does not start")?;
    anyhow::ensure!(status.success(), "the build with planted bugs fails");
    Ok(target.join("soak/synod"))
}

fn flags(usual: Option<OsString>) -> OsString {
    let mut flags = usual.filter(|usual| !usual.is_empty()).map_or_else(OsString::new, |mut usual| {
        usual.push(" ");
        usual
    });
    flags.push("--cfg synod_plant");
    flags
}

/// Whether a program contains the mark.
pub(crate) fn is_marked(program: &Path) -> anyhow::Result<bool> {
    let bytes = std::fs::read(program).with_context(|| format!("{} cannot be read", program.display()))?;
    let mark = MARK.concat();
    Ok(bytes.windows(mark.len()).any(|window| window == mark.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::{MARK, flags, is_marked};

    #[test]
    fn the_flags_of_the_caller_are_kept() {
        assert_eq!(flags(None), "--cfg synod_plant");
        assert_eq!(flags(Some("-C target-cpu=native".into())), "-C target-cpu=native --cfg synod_plant");
    }

    #[test]
    fn a_mark_is_found_wherever_it_stands() {
        let file = std::env::temp_dir().join(format!("synod-xtask-mark-{}", std::process::id()));
        std::fs::write(&file, b"\0\0synod-plant\0-build").expect("the file is written");
        let without = is_marked(&file).expect("the file is read");
        std::fs::write(&file, format!("\0{}\0", MARK.concat())).expect("the file is written");
        let with = is_marked(&file).expect("the file is read");
        std::fs::remove_file(&file).expect("the file is removed");
        assert!(with && !without);
    }
}
