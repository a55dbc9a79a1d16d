//! `synod version`: what this binary is.

use crate::exit::Done;
use crate::output::Report;
use crate::session::Session;
use clap::Args;
use serde_json::{Value, json};
use synod_config::Exit;

/// Formats this release writes, by file or object. A test compares each with what the crates really write.
pub(crate) const FORMATS: &[(&str, u32)] = &[
    ("genesis.toml", 1),
    ("contexts.toml", 1),
    ("card", 1),
    ("key file", 1),
    ("ports.json", 1),
    ("data directory", 1),
    ("journal", 1),
];

/// The version; with -v the commit, the compiler, processor features and formats.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod version --verbose")]
pub(crate) struct Arguments {}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        let mut report = Report::new("synod-version/1").field("version", env!("CARGO_PKG_VERSION"));
        if session.verbose {
            report = details(report);
        } else {
            report = report.page(format!("synod {}{}\n", env!("CARGO_PKG_VERSION"), planted()));
        }
        session.output.print(&report)?;
        Ok(Exit::Success)
    }
}

/// What a build with planted bugs says of itself.
fn planted() -> String {
    synod_trial::plants::mark().map_or_else(String::new, |mark| format!(" PLANT BUILD ({mark})"))
}

fn details(report: Report) -> Report {
    let features: Vec<&str> = env!("SYNOD_BUILD_TARGET_FEATURES").split(',').collect();
    let formats = FORMATS.iter().map(|(name, version)| vec![Value::from(*name), Value::from(*version)]);
    report
        .field("commit", env!("SYNOD_BUILD_COMMIT"))
        .field("rustc", env!("SYNOD_BUILD_RUSTC"))
        .field("target", env!("SYNOD_BUILD_TARGET"))
        .field("build", env!("SYNOD_BUILD_KIND"))
        .field("profile", env!("SYNOD_BUILD_PROFILE"))
        .field("features", json!(synod_trial::plants::mark().into_iter().collect::<Vec<_>>()))
        .field("target_features", features)
        .list("formats", &["format", "version"], formats.collect())
}
