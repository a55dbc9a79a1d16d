//! Writes what a task found to `target/score/NAME.json`, in the form that `synod score` reads.
//!
//! The form is written once: the file of the command line is compiled in here too, so that tasks need no build of it.

#[path = "../../cli/src/score/stamp.rs"]
mod stamp;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context as _;
use serde_json::Value;

/// Options of tasks whose value is a folder.
const FOLDERS: [&str; 1] = ["--db"];

/// A task under way.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    root: PathBuf,
    commit: String,
    started: Instant,
}

impl Recorder {
    /// The task's time and commit are those of now.
    pub(crate) fn start(root: &Path) -> Self {
        let commit = stamp::head(root).unwrap_or_else(|| "unknown".to_owned());
        Self { root: root.to_owned(), commit, started: Instant::now() }
    }

    /// The commit that the task began at, 12 digits.
    pub(crate) fn commit(&self) -> &str {
        &self.commit
    }

    /// Whether what is there is no longer the commit that the task began at: figures would be of something else.
    pub(crate) fn is_stale(&self) -> bool {
        stamp::is_changed(&self.root) || stamp::head(&self.root).is_none_or(|now| now != self.commit)
    }

    /// Writes the figures.
    ///
    /// # Errors
    /// The file cannot be replaced.
    pub(crate) fn record(&self, name: &str, figures: Value) -> anyhow::Result<()> {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let stamp = stamp::Stamp {
            commit: self.commit.clone(),
            changed: stamp::is_changed(&self.root),
            command: stamp::line("cargo xtask", &words, &BTreeSet::from(FOLDERS.map(str::to_owned))),
            wall: self.started.elapsed(),
            plants: false,
        };
        let folder = self.root.join(stamp::FOLDER);
        stamp::put(&folder, name, &stamp.on(figures))
            .with_context(|| format!("{}/{name}.json cannot be written", folder.display()))
    }
}
