//! Running a program of somebody else: for a time, and hearing so much of it at most.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What it said is heard up to so many bytes; one that says more has nobody to say it to.
const SAID_MAX: u64 = 4 << 20;
/// How often it is looked whether it ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What a program did.
#[derive(Debug)]
pub(super) enum Ran {
    /// It ended, and said this on its outputs.
    Ended(ExitStatus, Vec<u8>, Vec<u8>),
    /// It did not, and was stopped.
    Stopped,
}

fn hear(said: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut heard = Vec::new();
        // What came before an error is what there is.
        drop(said.map(|said| said.take(SAID_MAX).read_to_end(&mut heard)));
        heard
    })
}

fn end(child: &mut Child) -> std::io::Result<()> {
    child.kill()?;
    child.wait().map(drop)
}

/// Runs it without input, and stops it behind `most`.
///
/// # Errors
/// It cannot be started, or not be stopped.
pub(super) fn run(command: &mut Command, most: Duration) -> std::io::Result<Ran> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (out, err) = (hear(child.stdout.take()), hear(child.stderr.take()));
    let until = Instant::now() + most;
    let ended = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() >= until {
            end(&mut child)?;
            return Ok(Ran::Stopped);
        }
        std::thread::sleep(LOOK_EVERY);
    };
    Ok(Ran::Ended(ended, out.join().unwrap_or_default(), err.join().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(line: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", line]);
        shell
    }

    #[test]
    fn what_a_program_says_is_heard_with_how_it_ended() {
        let ran = run(&mut shell("echo yes; echo no >&2; exit 3"), Duration::from_secs(60));
        let Ok(Ran::Ended(status, out, err)) = ran else { unreachable!("{ran:?}") };
        assert_eq!((status.code(), &out[..], &err[..]), (Some(3), &b"yes\n"[..], &b"no\n"[..]));
    }

    #[test]
    fn a_program_that_does_not_end_is_stopped() {
        let ran = run(&mut shell("exec sleep 600"), Duration::from_millis(50));
        assert!(matches!(ran, Ok(Ran::Stopped)), "{ran:?}");
    }

    #[test]
    fn a_program_that_says_too_much_is_heard_no_further() {
        let ran = run(&mut shell("exec yes"), Duration::from_secs(60));
        let Ok(Ran::Ended(status, out, _)) = ran else { unreachable!("{ran:?}") };
        assert!(!status.success());
        assert_eq!(out.len() as u64, SAID_MAX);
    }
}
