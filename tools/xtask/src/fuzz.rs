//! `fuzz`: a campaign over the targets of `synod-fuzz`, in release.
//!
//! The program is a test of that crate, because its allocator, which holds every target to its bound, is for tests
//! alone. Exit codes are its own: 0, 2 for wrong arguments, 8 for a finding.

use std::path::Path;
use std::process::{Command, ExitCode};

use crate::cargo;

/// Builds the campaign and runs it with `words`.
pub(crate) fn run(root: &Path, words: &[&str]) -> anyhow::Result<ExitCode> {
    let program = cargo::test_program(root, "synod-fuzz", "campaign")?;
    let status = Command::new(program).arg("run").args(words).current_dir(root).status()?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
