//! How the process ends: the error on standard error, the exit code to the caller.

use crate::output::Format;
use std::backtrace::Backtrace;
use std::io::Write as _;
use std::panic::PanicHookInfo;
use std::path::PathBuf;
use std::process::ExitCode;
use synod_config::{Exit, SynError, code};

/// What a verb gives back: how to end, or the error to end with.
pub(crate) type Done = Result<Exit, SynError>;

/// Writes the error, if there is one, and names the exit code.
pub(crate) fn finish(done: Done, format: Format) -> ExitCode {
    let exit = match done {
        Ok(exit) => exit,
        Err(error) => {
            show(&error, format);
            error.exit_code()
        }
    };
    ExitCode::from(exit.number())
}

/// Writes an error to standard error: text, or one JSON object on one line.
pub(crate) fn show(error: &SynError, format: Format) {
    let text = match format {
        Format::Json => format!("{}\n", error.to_json()),
        Format::Table | Format::Csv => error.to_text(),
    };
    // A closed standard error leaves nobody to tell; the exit code still says it.
    drop(std::io::stderr().write_all(text.as_bytes()));
}

/// Something of this process or the system that no user can mend.
pub(crate) fn bug(what: &str, error: &dyn std::fmt::Display) -> SynError {
    SynError::of(code::BUG, &[("bundle", what)]).because(error)
}

/// Makes a panic say SYN-9001, leave its details in a file and end the process with 134.
pub(crate) fn report_bugs() {
    std::panic::set_hook(Box::new(|info| {
        let bundle = bundle_path();
        let written = std::fs::write(&bundle, details(info));
        let shown = written.map_or_else(|_| "the cause below".to_owned(), |()| bundle.display().to_string());
        show(&SynError::of(code::BUG, &[("bundle", &shown)]).because(info), Format::Table);
        std::process::abort();
    }));
}

fn bundle_path() -> PathBuf {
    std::env::temp_dir().join(format!("synod-bug-{}.txt", std::process::id()))
}

/// Version, place and back trace: no arguments and no environment, which may hold secrets.
fn details(info: &PanicHookInfo<'_>) -> String {
    let trace = Backtrace::force_capture();
    format!("synod {} {}\n{info}\n{trace}\n", env!("CARGO_PKG_VERSION"), env!("SYNOD_BUILD_COMMIT"))
}
