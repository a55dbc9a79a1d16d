//! `synod explain`: what a code means and what to do about it.

use crate::exit::Done;
use crate::output::Report;
use crate::session::{Session, usage};
use clap::Args;
use serde_json::Value;
use synod_config::{Code, ERRORS, Entry, Exit, explain};

/// Meaning, causes, fix, retry, exit code and HTTP status of a SYN code.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod explain SYN-1109")]
pub(crate) struct Arguments {
    /// The code, as SYN-1109 or 1109; without it, all codes are listed.
    code: Option<String>,
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        let report = match &self.code {
            Some(text) => page(entry(text)?),
            None => catalogue(),
        };
        session.output.print(&report)?;
        Ok(Exit::Success)
    }
}

fn entry(text: &str) -> Result<&'static Entry, synod_config::SynError> {
    let code = Code::parse(text).ok_or_else(|| usage(&format!("{text:?} is not a code such as SYN-1109")))?;
    explain(code).ok_or_else(|| {
        let range = code.number() / 100;
        let near = ERRORS.iter().filter(|entry| entry.code.number() / 100 == range);
        let known: Vec<String> = near.map(|entry| entry.code.to_string()).collect();
        let error = usage(&format!("{code} is not in the catalogue of this release"));
        if known.is_empty() { error } else { error.because(format!("its range holds {}", known.join(", "))) }
    })
}

fn page(entry: &Entry) -> Report {
    let mut report = Report::new("synod-explain/1").page(entry.to_text());
    if let Value::Object(fields) = entry.to_json() {
        for name in ["code", "name", "message", "causes", "fix", "retry", "exit", "http"] {
            report = report.field(name, fields.get(name).cloned());
        }
    }
    report
}

fn catalogue() -> Report {
    let rows = ERRORS.iter().map(|entry| {
        vec![
            Value::from(entry.code.to_string()),
            Value::from(entry.name),
            Value::from(entry.exit.number()),
            Value::from(entry.retry.letter()),
            Value::from(entry.http),
        ]
    });
    Report::new("synod-explain/1").list("codes", &["code", "name", "exit", "retry", "http"], rows.collect())
}
