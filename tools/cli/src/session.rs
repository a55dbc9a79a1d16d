//! What every verb gets: how to print, which context, how long to wait.

use crate::output::{Output, Report};
use crate::score::record::{self, Recorder};
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use synod_config::{Context, Contexts, SynError, code};

/// The options in front of every verb, resolved.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    /// Where data goes.
    pub(crate) output: Output,
    /// The context named with `-c`.
    pub(crate) context: Option<String>,
    /// How long a verb that waits may wait, if the user said so; never zero.
    pub(crate) timeout: Option<Duration>,
    /// Whether progress is told on standard error.
    pub(crate) verbose: bool,
    /// Since when the verb runs.
    pub(crate) recorder: Recorder,
}

impl Session {
    /// The directory of `contexts.toml`: `$XDG_CONFIG_HOME/synod`, else `~/.config/synod`.
    ///
    /// # Errors
    /// SYN-1101 if neither variable names an absolute path.
    pub(crate) fn directory() -> Result<PathBuf, SynError> {
        home("XDG_CONFIG_HOME", ".config", "contexts.toml")
    }

    /// All contexts of this user.
    ///
    /// # Errors
    /// As [`Contexts::read`].
    pub(crate) fn contexts() -> Result<Contexts, SynError> {
        Contexts::read(&Self::directory()?)
    }

    /// The context named with `-c`, else the selected one, if there is any.
    ///
    /// # Errors
    /// SYN-1103 for a name that does not exist, and those of [`Contexts::read`].
    pub(crate) fn chosen(&self) -> Result<Option<Context>, SynError> {
        let contexts = Self::contexts()?;
        match &self.context {
            Some(name) => contexts.show(name).cloned().map(Some),
            None => Ok(contexts.current().cloned()),
        }
    }

    /// Keeps what the verb found as `NAME.json` in the checkout's folder of scores; docs/testing/score.md has the names.
    pub(crate) fn score(&self, name: &str, report: &Report) {
        self.recorder.record(record::usual(), name, report);
    }

    /// Tells progress of something long on standard error, if `-v` asked for it or somebody sits there.
    pub(crate) fn watched(&self, line: &str) {
        if self.verbose || std::io::stderr().is_terminal() {
            crate::output::progress(line);
        }
    }

    /// Tells progress on standard error, if `-v` asked for it.
    pub(crate) fn tell(&self, line: &str) {
        if self.verbose {
            crate::output::progress(line);
        }
    }
}

/// The directory `synod` in a place of the user: the one that `variable` names, else `place` below home.
pub(crate) fn home(variable: &str, place: &str, wanted: &str) -> Result<PathBuf, SynError> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute(variable).or_else(|| Some(absolute("HOME")?.join(place)));
    base.map(|base| base.join("synod")).ok_or_else(|| {
        SynError::of(code::CONFIG_UNREADABLE, &[("file", wanted)])
            .because(format!("neither {variable} nor HOME names an absolute directory"))
    })
}

/// An absolute form of a path that a later process with another working directory can use.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, SynError> {
    std::path::absolute(path).map_err(|error| {
        SynError::of(code::CONFIG_UNREADABLE, &[("file", &path.display().to_string())]).because(error)
    })
}

/// A refusal of the command line.
pub(crate) fn usage(what: &str) -> SynError {
    SynError::of(code::BAD_USAGE, &[("what", what)])
}

/// The refusal of a verb that needs a context where none is selected; it names the next step.
pub(crate) fn no_context() -> SynError {
    let steps = crate::tree::next_steps(false).join("` or `");
    usage("no context is selected").because(format!("start with `{steps}`"))
}
