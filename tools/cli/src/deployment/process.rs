//! One process of a deployment, named so that it cannot be mistaken for another.

use crate::exit::bug;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use synod_config::{SynError, code};
use tokio::sync::oneshot;

/// Pause between two looks at a process that is ending.
const LOOK: Duration = Duration::from_millis(10);
/// How long a killed process may take to disappear; longer means the system is stuck.
const AFTER_KILL: Duration = Duration::from_secs(10);

/// A node's process: number and start time together are unique until the machine restarts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Running {
    /// Name of the node.
    pub(crate) name: String,
    /// Its process id.
    pub(crate) pid: u32,
    /// When it started, in clock ticks since the machine did.
    pub(crate) start: u64,
}

impl Running {
    /// The process of this number that runs now, if there is one.
    pub(crate) fn of(name: &str, pid: u32) -> Option<Self> {
        Some(Self { name: name.to_owned(), pid, start: start_time(pid)? })
    }

    /// Whether exactly this process still runs.
    pub(crate) fn is_alive(&self) -> bool {
        start_time(self.pid) == Some(self.start)
    }

    /// This process.
    ///
    /// # Errors
    /// SYN-9001 if the system does not show it.
    pub(crate) fn own(name: &str) -> Result<Self, SynError> {
        Self::of(name, std::process::id()).ok_or_else(|| bug("process", &"/proc does not show this process"))
    }

    /// Number and start time, as [`Self::parse`] reads them.
    pub(crate) fn to_word(&self) -> String {
        format!("{}:{}", self.pid, self.start)
    }

    /// Reads what [`Self::to_word`] wrote.
    pub(crate) fn parse(name: &str, word: &str) -> Option<Self> {
        let (pid, start) = word.split_once(':')?;
        Some(Self { name: name.to_owned(), pid: pid.parse().ok()?, start: start.parse().ok()? })
    }

    /// Reads the supervisor that a hidden option names.
    ///
    /// # Errors
    /// What the word should look like.
    pub(crate) fn supervisor(word: &str) -> Result<Self, String> {
        Self::parse("supervisor", word).ok_or_else(|| "not of the form PID:START".to_owned())
    }

    /// Waits for the end of a supervisor; for ever without one.
    ///
    /// # Errors
    /// Those of [`Self::gone`].
    pub(crate) async fn left_alone(supervisor: Option<&Self>) -> Result<(), SynError> {
        match supervisor {
            None => std::future::pending().await,
            Some(supervisor) => {
                supervisor.gone().await?;
                tracing::warn!("the process that started this one has ended");
                Ok(())
            }
        }
    }

    /// Waits until exactly this process has ended, whoever its parent is; at once if it has.
    ///
    /// # Errors
    /// SYN-3013 if the system does not allow it.
    pub(crate) async fn gone(&self) -> Result<(), SynError> {
        let Some(handle) = self.handle()? else { return Ok(()) };
        let (say, hear) = oneshot::channel();
        // A thread of its own: it waits for as long as that process runs, and nobody waits for it.
        let watch = move || {
            // The handle of a process becomes readable when it ends.
            while poll(&mut [PollFd::new(&handle, PollFlags::IN)], None) == Err(rustix::io::Errno::INTR) {}
            let _ = say.send(());
        };
        std::thread::Builder::new()
            .name("supervisor".to_owned())
            .spawn(watch)
            .map_err(|error| bug("supervisor", &error))?;
        hear.await.map_err(|error| bug("supervisor", &error))
    }

    /// A handle that stays with this process even if its number is given away.
    fn handle(&self) -> Result<Option<OwnedFd>, SynError> {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
        match pidfd_open(pid, PidfdFlags::empty()) {
            // The check comes after the handle: what passes it is what the handle holds.
            Ok(handle) => Ok(self.is_alive().then_some(handle)),
            Err(rustix::io::Errno::SRCH) => Ok(None),
            Err(error) => Err(self.refused(error)),
        }
    }

    fn signal(&self, handle: &OwnedFd, signal: Signal) -> Result<(), SynError> {
        match pidfd_send_signal(handle, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(self.refused(error)),
        }
    }

    /// Strikes exactly this process; says whether it ran.
    ///
    /// # Errors
    /// SYN-3013 if the system does not allow it.
    pub(crate) fn strike(&self, blow: Blow) -> Result<bool, SynError> {
        let Some(handle) = self.handle()? else { return Ok(false) };
        let signal = match blow {
            Blow::Kill => Signal::KILL,
            Blow::Pause => Signal::STOP,
            Blow::Resume => Signal::CONT,
        };
        self.signal(&handle, signal)?;
        Ok(true)
    }

    fn refused(&self, error: rustix::io::Errno) -> SynError {
        let what = format!("signalling process {} of node {}", self.pid, self.name);
        SynError::of(code::NOT_PERMITTED, &[("what", &what)]).because(error)
    }
}

/// When a process started; `None` if there is none or it has ended and only waits to be noticed.
fn start_time(pid: u32) -> Option<u64> {
    started(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The same, of its line. A process whose first thread has ended has its ports and locks until the last has, which may be syncing.
fn started(line: &str) -> Option<u64> {
    // The name stands in brackets and may itself hold brackets and spaces.
    let (_, fields) = line.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    // The state is field 3, the number of threads field 20, the start time field 22.
    let threads: u64 = fields.nth(16)?.parse().ok()?;
    let is_over = matches!(state, "Z" | "X") && threads <= 1;
    if is_over { None } else { fields.nth(1)?.parse().ok() }
}

/// What a drill does to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blow {
    /// SIGKILL.
    Kill,
    /// SIGSTOP.
    Pause,
    /// SIGCONT.
    Resume,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It was gone already.
    Before,
    /// After SIGTERM.
    Asked,
    /// After SIGKILL.
    Killed,
}

impl Ended {
    /// The word for reports.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Before => "had ended",
            Self::Asked => "stopped",
            Self::Killed => "killed",
        }
    }
}

/// Ends exactly these processes: SIGTERM to all, SIGKILL to those that remain after `grace`.
///
/// # Errors
/// SYN-3013 if the system does not allow it.
pub(crate) fn stop(processes: &[Running], grace: Duration) -> Result<Vec<Ended>, SynError> {
    let handles = processes.iter().map(Running::handle).collect::<Result<Vec<_>, _>>()?;
    let held =
        || processes.iter().zip(&handles).filter_map(|(process, handle)| Some((process, handle.as_ref()?)));
    for (process, handle) in held() {
        process.signal(handle, Signal::TERM)?;
    }
    wait(processes, grace);
    let outlived: Vec<bool> = processes.iter().map(Running::is_alive).collect();
    for (process, handle) in held().filter(|(process, _)| process.is_alive()) {
        process.signal(handle, Signal::KILL)?;
    }
    wait(processes, AFTER_KILL);
    let ended = handles.iter().zip(outlived).map(|(handle, outlived)| match (handle, outlived) {
        (None, _) => Ended::Before,
        (Some(_), false) => Ended::Asked,
        (Some(_), true) => Ended::Killed,
    });
    Ok(ended.collect())
}

fn wait(processes: &[Running], patience: Duration) {
    let deadline = Instant::now() + patience;
    while processes.iter().any(Running::is_alive) && Instant::now() < deadline {
        std::thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader};
    use std::process::{Child, Command, Stdio};

    #[test]
    fn a_process_is_over_when_its_last_thread_is() {
        let line = |state: &str, threads: u32| {
            let between = ["1"; 16].join(" ");
            format!("7 (a) b) {state} {between} {threads} 0 4711 9 9")
        };
        assert_eq!(started(&line("S", 4)), Some(4_711));
        assert_eq!(started(&line("Z", 2)), Some(4_711), "its ports are taken yet");
        assert_eq!(started(&line("Z", 1)), None);
        assert_eq!(started(&line("X", 0)), None);
        assert_eq!(started("7 (a) S 1"), None);
    }

    /// A shell that says when it is ready, then waits for its input to end.
    fn child(prelude: &str) -> (Child, Running) {
        let script = format!("{prelude}; echo ready; while :; do read line || sleep 0.01; done");
        let mut command = Command::new("sh");
        let mut child = command
            .args(["-c", &script])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell starts");
        let mut line = String::new();
        let output = child.stdout.take().expect("its output is a pipe");
        BufReader::new(output).read_line(&mut line).expect("it is ready");
        let running = Running::of("n0", child.id()).expect("it runs");
        (child, running)
    }

    #[test]
    fn a_process_is_asked_first() {
        let (mut polite, running) = child("trap 'exit 0' TERM");
        // The call returns as soon as the process has ended, however long it might have taken.
        let grace = Duration::from_secs(60);
        assert_eq!(stop(std::slice::from_ref(&running), grace), Ok(vec![Ended::Asked]));
        assert!(!running.is_alive());
        assert!(polite.wait().expect("it ended").success());
        assert_eq!(stop(&[running], grace), Ok(vec![Ended::Before]));
    }

    #[test]
    fn the_end_of_a_process_is_heard_and_one_that_has_ended_is_not_waited_for() {
        let (mut child, running) = child(":");
        let same = Running::parse("n0", &running.to_word()).expect("it was written so");
        assert_eq!((&same, Running::parse("n0", "7"), Running::parse("n0", ":")), (&running, None, None));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime starts").block_on(async {
            let mistaken = Running { start: running.start + 1, ..running.clone() };
            assert_eq!(mistaken.gone().await, Ok(()), "its number belongs to another process now");
            let waits = tokio::time::timeout(Duration::from_millis(20), running.gone()).await;
            assert!(waits.is_err(), "it still runs");
            child.kill().expect("it still runs");
            assert_eq!(running.gone().await, Ok(()));
            child.wait().expect("it was killed");
            assert_eq!(running.gone().await, Ok(()));
        });
    }

    #[test]
    fn a_process_that_does_not_listen_is_killed() {
        let (mut deaf, running) = child("trap '' TERM");
        assert_eq!(stop(std::slice::from_ref(&running), Duration::from_millis(20)), Ok(vec![Ended::Killed]));
        assert!(!running.is_alive());
        assert!(!deaf.wait().expect("it ended").success());
    }

    #[test]
    fn a_process_of_the_same_number_but_another_start_is_left_alone() {
        let (mut bystander, running) = child(":");
        let mistaken = Running { start: running.start + 1, ..running.clone() };
        assert!(!mistaken.is_alive());
        assert_eq!(stop(&[mistaken], Duration::from_secs(1)), Ok(vec![Ended::Before]));
        assert!(running.is_alive());
        bystander.kill().expect("it still runs");
        assert!(!running.is_alive() || bystander.wait().is_ok());
        assert!(!running.is_alive());
    }

    #[test]
    fn a_paused_process_still_runs_and_a_killed_one_does_not() {
        let (mut child, running) = child(":");
        for blow in [Blow::Pause, Blow::Resume, Blow::Kill] {
            assert!(running.is_alive());
            assert_eq!(running.strike(blow), Ok(true), "{blow:?}");
        }
        assert!(!child.wait().expect("it was killed").success());
        assert_eq!(running.strike(Blow::Kill), Ok(false));
    }

    #[test]
    fn what_has_ended_and_was_not_noticed_does_not_run() {
        let mut child = Command::new("sh").args(["-c", "exit 0"]).spawn().expect("a shell starts");
        let deadline = Instant::now() + Duration::from_secs(20);
        while Running::of("n0", child.id()).is_some() && Instant::now() < deadline {
            std::thread::sleep(LOOK);
        }
        assert_eq!(Running::of("n0", child.id()), None);
        assert!(child.wait().expect("it ended").success());
    }
}
