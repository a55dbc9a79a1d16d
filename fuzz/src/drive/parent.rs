//! Starts a child per target, listens to it, and locates what ended it.

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::{CHILD, Finding, Options, Report, SILENCE_MAX, Sort};
use crate::input;
use crate::target::Target;

/// Longest part of a child's standard error that is read, in bytes.
const ERROR_BYTES_MAX: u64 = 64 << 10;

/// Runs every target of the options.
///
/// # Errors
/// What the system says when it starts no child.
pub(super) fn run(options: &Options) -> io::Result<Report> {
    let started = Instant::now();
    let mut report = Report { seed: options.seed, ..Report::default() };
    for target in options.targets() {
        let (inputs, millis) = options.share(target);
        let heard = listen(target, [options.seed, 0, inputs, millis, 0])?;
        report.targets += 1;
        report.inputs += heard.inputs;
        report.accepted += heard.accepted;
        if !heard.finished {
            let finding = match heard.finding {
                Some(finding) => finding,
                None => locate(target, options.seed, heard.at, inputs, &heard.error)?,
            };
            report.inputs += finding.index + 1;
            report.findings.push(finding);
        } else if heard.accepted == 0 && heard.inputs >= 200 {
            report.findings.push(vacuous(target));
        }
    }
    report.millis = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(report)
}

/// A campaign in which nothing was accepted has shown nothing.
fn vacuous(target: &Target) -> Finding {
    let text = "none of the inputs was accepted".to_owned();
    Finding { target: target.name, sort: Sort::Crash, index: 0, text, input: Vec::new() }
}

/// What a child said before it ended.
#[derive(Debug, Default)]
struct Heard {
    at: u64,
    inputs: u64,
    accepted: u64,
    finished: bool,
    finding: Option<Finding>,
    error: String,
}

impl Heard {
    fn line(&mut self, target: &'static str, line: &str) {
        let mut words = line.splitn(4, ' ');
        let word = words.next().unwrap_or_default();
        let number = |word: Option<&str>| word.and_then(|word| word.parse().ok()).unwrap_or(0);
        match word {
            "at" => self.at = number(words.next()),
            "done" => {
                (self.inputs, self.accepted) = (number(words.next()), number(words.next()));
                self.finished = true;
            }
            "found" => {
                let index = number(words.next());
                let sort = words.next().and_then(Sort::of).unwrap_or(Sort::Crash);
                let text = words.next().unwrap_or_default().to_owned();
                self.finding = Some(Finding { target, sort, index, text, input: Vec::new() });
            }
            "input" => {
                if let Some(finding) = &mut self.finding {
                    finding.input = unhex(line.get(6..).unwrap_or_default());
                }
            }
            _ => {}
        }
    }
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pair = |pair: &[u8; 2]| Some(digit(&pair[0])? << 4 | digit(&pair[1])?);
    text.as_bytes().as_chunks::<2>().0.iter().filter_map(pair).collect()
}

/// Runs a child to its end: seed, first index, end, milliseconds, careful.
fn listen(target: &Target, numbers: [u64; 5]) -> io::Result<Heard> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(CHILD).arg(target.name).args(numbers.map(|number| number.to_string()));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let (told, lines) = channel();
    let reader = child.stdout.take().map(|stdout| {
        thread::spawn(move || {
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            lines.for_each(|line| drop(told.send(line)));
        })
    });
    let errors = child.stderr.take().map(|stderr| {
        thread::spawn(move || {
            let mut text = Vec::new();
            let _partly = stderr.take(ERROR_BYTES_MAX).read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        })
    });
    let mut heard = Heard::default();
    if !hear(target, &lines, &mut heard) {
        child.kill()?;
        heard.error = format!("nothing was heard for {} s", SILENCE_MAX.as_secs());
    }
    let status = child.wait()?;
    drop(reader.map(thread::JoinHandle::join));
    let error = errors.and_then(|errors| errors.join().ok()).unwrap_or_default();
    if !heard.finished && heard.error.is_empty() {
        heard.error = format!("{status}: {}", error.trim().replace('\n', " "));
    }
    Ok(heard)
}

/// Takes a child's lines until it ends; false when it went silent.
fn hear(target: &Target, lines: &Receiver<String>, heard: &mut Heard) -> bool {
    loop {
        match lines.recv_timeout(SILENCE_MAX) {
            Ok(line) => heard.line(target.name, &line),
            Err(RecvTimeoutError::Disconnected) => return true,
            Err(RecvTimeoutError::Timeout) => return false,
        }
    }
}

/// Finds the input that ended a child which could not say so itself.
fn locate(target: &Target, seed: u64, from: u64, to: u64, error: &str) -> io::Result<Finding> {
    let again = listen(target, [seed, from, to.min(from.saturating_add(1 << 20)), 0, 1])?;
    if let Some(finding) = again.finding {
        return Ok(finding);
    }
    let sort = if error.contains("memory allocation of") { Sort::Overalloc } else { Sort::Crash };
    let text = if again.finished { format!("{error} (it did not happen again)") } else { error.to_owned() };
    let input = input::generate(target, seed, again.at);
    Ok(Finding { target: target.name, sort, index: again.at, text, input })
}

const _: () = assert!(SILENCE_MAX.as_millis() > Duration::from_secs(1).as_millis());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_childs_lines_become_counts_and_findings() {
        let mut heard = Heard::default();
        for line in ["at 7", "found 9 roundtrip it is broken (a.rs:1)", "input 00ff"] {
            heard.line("kv-reply", line);
        }
        let finding = heard.finding.clone().expect("one was told");
        assert_eq!((heard.at, finding.index, finding.sort), (7, 9, Sort::Roundtrip));
        assert_eq!(
            (finding.text.as_str(), finding.input.as_slice()),
            ("it is broken (a.rs:1)", &[0, 0xff][..])
        );
        heard.line("kv-reply", "done 12 5");
        assert!(heard.finished && (heard.inputs, heard.accepted) == (12, 5));
    }
}
