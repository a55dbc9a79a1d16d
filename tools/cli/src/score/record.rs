//! Writing what a command found to the folder of scores.

use super::stamp::{self, Stamp};
use crate::output::{Report, progress};
use crate::tree;
use serde_json::Value;
use std::any::TypeId;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A command that is under way; what it finds goes to `NAME.json`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recorder {
    started: Instant,
}

impl Recorder {
    /// The time of the command runs from here.
    pub(crate) fn start() -> Self {
        Self { started: Instant::now() }
    }

    /// Writes a report to `NAME.json` in the checkout's folder of scores, or in `out` if that is another folder than
    /// [`stamp::FOLDER`]. Outside a checkout nothing is written. A file that cannot be written is told and fails
    /// nothing: its row of the score then says that it is missing.
    pub(crate) fn record(&self, out: &Path, name: &str, report: &Report) {
        let Some(folder) = folder(out) else { return };
        let figures = serde_json::from_str(&report.to_json()).unwrap_or(Value::Null);
        let file = stamp_of(self.started.elapsed()).on(figures);
        if let Err(error) = stamp::put(&folder, name, &file) {
            progress(&format!("{}/{name}.json cannot be written: {error}", folder.display()));
        }
    }
}

/// The nearest checkout of this project at or above a folder.
pub(crate) fn checkout(from: &Path) -> Option<PathBuf> {
    let from = std::path::absolute(from).ok()?;
    let is_root =
        |dir: &&Path| dir.join("Cargo.lock").is_file() && dir.join("tools/cli/Cargo.toml").is_file();
    from.ancestors().find(is_root).map(Path::to_path_buf)
}

/// The default folder of scores, as the options `--out` name it.
pub(crate) fn usual() -> &'static Path {
    Path::new(stamp::FOLDER)
}

/// The name of a file of `command` on a system: `all` and a bare protocol are the protocol's own file.
pub(crate) fn name(command: &str, system: &str) -> String {
    let system = if system == "all" { "hotstuff" } else { system };
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '+' { c } else { '-' };
    format!("{command}-{}", system.chars().map(plain).collect::<String>())
}

fn folder(out: &Path) -> Option<PathBuf> {
    if out == usual() { checkout(Path::new(".")).map(|root| root.join(out)) } else { Some(out.to_owned()) }
}

/// The options that the command of these words declares as paths, as they are written: `--folder`, `-f`. None where the
/// words are no command.
fn path_options(words: &[String]) -> BTreeSet<String> {
    let mut command = tree::command();
    let name = command.get_name().to_owned();
    let matches = command.try_get_matches_from_mut(std::iter::once(&name).chain(words));
    let Ok(matches) = matches else { return BTreeSet::new() };
    let (mut command, mut matches) = (&command, &matches);
    while let Some((name, below)) = matches.subcommand() {
        let Some(next) = command.find_subcommand(name) else { break };
        (command, matches) = (next, below);
    }
    let is_path = |option: &&clap::Arg| option.get_value_parser().type_id() == TypeId::of::<PathBuf>();
    let mut options = BTreeSet::new();
    for option in command.get_arguments().filter(is_path) {
        options.extend(
            option.get_long_and_visible_aliases().into_iter().flatten().map(|long| format!("--{long}")),
        );
        options.extend(option.get_short().map(|short| format!("-{short}")));
    }
    options
}

fn stamp_of(wall: Duration) -> Stamp {
    let words: Vec<String> = std::env::args().skip(1).collect();
    Stamp {
        commit: env!("SYNOD_BUILD_COMMIT").to_owned(),
        changed: checkout(Path::new(".")).is_none_or(|root| stamp::is_changed(&root)),
        command: stamp::line("synod", &words, &path_options(&words)),
        wall,
        plants: synod_trial::plants::is_plant_build(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Recorder, checkout, name, path_options, stamp};
    use crate::output::Report;
    use serde_json::Value;

    #[test]
    fn systems_have_files_of_their_own() {
        assert_eq!(name("sim-soak", "all"), "sim-soak-hotstuff");
        assert_eq!(name("sim-soak", "hotstuff"), "sim-soak-hotstuff");
        assert_eq!(name("sim-soak", "hotstuff/chain2+order"), "sim-soak-hotstuff-chain2+order");
        assert_eq!(name("sim-soak", "../x"), "sim-soak----x", "a name is no path");
    }

    #[test]
    fn a_folder_that_is_named_gets_the_figures_and_the_time_they_took() {
        let folder = std::env::temp_dir().join(format!("synod-record-{}", std::process::id()));
        let report = Report::new("synod-sample/1").field("seeds", 7);
        Recorder::start().record(&folder, "sim-soak-hotstuff", &report);
        let text = std::fs::read_to_string(folder.join("sim-soak-hotstuff.json")).expect("written");
        std::fs::remove_dir_all(&folder).expect("removed");
        let file: Value = serde_json::from_str(&text).expect("one object");
        assert_eq!((file["schema"].as_str(), file["seeds"].as_u64()), (Some("synod-sample/1"), Some(7)));
        assert!(
            file["wall_s"].as_f64().is_some() && file["commit"].is_string() && file["command"].is_string()
        );
    }

    #[test]
    fn a_command_names_no_folder_that_its_options_declare() {
        for (given, shown) in [
            ("sim plant run H4 --replays --folder x/rp", "synod sim plant run H4 --replays --folder DIR"),
            ("sim soak --seeds 7 --from 3 --out=target/x", "synod sim soak --seeds 7 --from 3 --out=DIR"),
            ("score --from x --gate full", "synod score --from DIR --gate full"),
            ("--context sim score --plot x.svg", "synod --context sim score --plot DIR"),
            ("chaos flood --seconds 60", "synod chaos flood --seconds 60"),
        ] {
            let words: Vec<String> = given.split(' ').map(str::to_owned).collect();
            assert_eq!(stamp::line("synod", &words, &path_options(&words)), shown);
        }
    }

    #[test]
    fn a_folder_outside_any_checkout_has_none() {
        let folder = std::env::temp_dir().join(format!("synod-checkout-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("tools/cli/src")).expect("the folders are made");
        let before = checkout(&folder.join("tools/cli/src"));
        std::fs::write(folder.join("Cargo.lock"), "").expect("written");
        std::fs::write(folder.join("tools/cli/Cargo.toml"), "").expect("written");
        let after = checkout(&folder.join("tools/cli/src"));
        std::fs::remove_dir_all(&folder).expect("removed");
        assert_eq!((before, after), (None, Some(folder)));
    }
}
