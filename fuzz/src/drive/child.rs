//! One target over a range of indices, with what happens told on standard output.
//!
//! Lines: `at INDEX` before an input now and then (before every input in a careful run), `found INDEX SORT TEXT` and
//! `input HEX` for a finding, which ends the run, `done INPUTS ACCEPTED` at the end.

use std::io::Write as _;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::{FOUND, Sort, USAGE};
use crate::target::{Target, find};
use crate::{check, input};

/// How often a child says where it is.
const TOLD_EVERY: Duration = Duration::from_millis(250);

/// What the last panic said, and where.
static SAID: Mutex<String> = Mutex::new(String::new());

/// The range a child runs.
#[derive(Clone, Copy, Debug)]
struct Range {
    seed: u64,
    from: u64,
    to: u64,
    /// Ends the run; 0 is never.
    millis: u64,
    careful: bool,
}

/// Runs `TARGET SEED FROM TO MILLIS CAREFUL`.
pub(super) fn main(words: &[&str]) -> ExitCode {
    let [name, numbers @ ..] = words else { return ExitCode::from(USAGE) };
    let numbers: Option<Vec<u64>> = numbers.iter().map(|word| word.parse().ok()).collect();
    let (Some(target), Some([seed, from, to, millis, careful])) = (find(name), numbers.as_deref()) else {
        return ExitCode::from(USAGE);
    };
    panic::set_hook(Box::new(remember));
    run(target, Range { seed: *seed, from: *from, to: *to, millis: *millis, careful: *careful == 1 })
}

fn remember(info: &PanicHookInfo<'_>) {
    check::lift();
    let text = info.payload_as_str().unwrap_or("a panic without a text");
    let place = info.location().map(|at| format!(" ({}:{})", at.file(), at.line())).unwrap_or_default();
    if let Ok(mut said) = SAID.lock() {
        *said = format!("{text}{place}").replace(['\n', '\r'], " ");
    }
}

fn run(target: &Target, range: Range) -> ExitCode {
    let started = Instant::now();
    let mut told = started;
    let mut done = 0;
    tell(&format!("at {}", range.from));
    for index in range.from..range.to {
        // The clock costs as much as a small decoder, so it is read now and then.
        if range.careful {
            tell(&format!("at {index}"));
        } else if done % 16 == 0 || !target.is_decoder() {
            let now = Instant::now();
            if range.millis > 0 && now.duration_since(started).as_millis() >= u128::from(range.millis) {
                break;
            }
            if now.duration_since(told) >= TOLD_EVERY {
                told = now;
                tell(&format!("at {index}"));
            }
        }
        let mut bytes = Vec::new();
        let ran = panic::catch_unwind(AssertUnwindSafe(|| {
            bytes = input::generate(target, range.seed, index);
            (target.run)(&bytes);
        }));
        done += 1;
        if ran.is_err() {
            return found(index, &bytes);
        }
    }
    tell(&format!("done {done} {}", check::accepted()));
    ExitCode::SUCCESS
}

fn found(index: u64, bytes: &[u8]) -> ExitCode {
    let said = SAID.lock().map(|said| said.clone()).unwrap_or_default();
    let sort = if said.starts_with("roundtrip") { Sort::Roundtrip } else { Sort::Crash };
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    tell(&format!("found {index} {} {said}\ninput {hex}", sort.word()));
    ExitCode::from(FOUND)
}

/// Says a line at once. A parent that is gone is not told.
fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    let _heard = writeln!(out, "{line}").and_then(|()| out.flush());
}
