//! The driver: runs targets over generated inputs, each in a child process, and reports findings.
//!
//! *Children.* A child runs one target from one index on and says how far it is. A panic is caught and told; an abort
//! (allocation above the bound, stack overflow) or a hang is located by running the last stretch again with every
//! index told before it runs.
//!
//! *Bounds.* One child at a time, on one thread; a child that says nothing for [`SILENCE_MAX`] is ended.

mod child;
mod options;
mod parent;
mod report;

use std::process::ExitCode;
use std::time::Duration;

pub use options::{Budget, Options};
pub use report::{Finding, Report, Sort};

/// Longest time a child may say nothing: a hang.
pub const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Exit code of a run with a finding.
const FOUND: u8 = 8;
/// Exit code of wrong arguments.
const USAGE: u8 = 2;

/// The first word of a child's arguments.
const CHILD: &str = "--child";

/// Runs what the arguments of the process ask for; the exit code is 0, 2 for wrong arguments, 8 for a finding.
///
/// `run [--inputs N | --seconds S] [--target NAME] [--decoders] [--seed N] [--json]` prints a report. Other arguments
/// are those of a test runner: the short campaign runs unless a filter excludes it.
#[must_use]
pub fn main(arguments: &[String]) -> ExitCode {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [CHILD, rest @ ..] => child::main(rest),
        ["run", rest @ ..] => match Options::read(rest) {
            Ok(options) => run(&options),
            Err(why) => {
                eprintln!("fuzz: {why}");
                ExitCode::from(USAGE)
            }
        },
        _ if is_filtered(&words) => ExitCode::SUCCESS,
        _ => run(&Options::default()),
    }
}

/// Whether a test runner's arguments leave the campaign out.
fn is_filtered(words: &[&str]) -> bool {
    let filters: Vec<&&str> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let excluded = !filters.is_empty() && !filters.iter().any(|filter| "campaign".contains(**filter));
    excluded || words.iter().any(|word| matches!(*word, "--list" | "--ignored"))
}

fn run(options: &Options) -> ExitCode {
    match parent::run(options) {
        Ok(report) => {
            print!("{}", if options.json { report.to_json() } else { report.to_text() });
            if report.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FOUND) }
        }
        Err(why) => {
            eprintln!("fuzz: {why}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_filtered;

    #[test]
    fn a_test_runner_reaches_the_campaign_by_its_name() {
        assert!(!is_filtered(&[]) && !is_filtered(&["--nocapture"]) && !is_filtered(&["camp"]));
        assert!(is_filtered(&["formats"]) && is_filtered(&["--list"]));
    }
}
