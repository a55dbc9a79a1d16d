//! Processor time of this process by what its threads do, read from `/proc`.
//!
//! Threads are told apart by their names, which the runtimes give; what no named thread used is `other`: gateways and
//! the main thread. Several nodes in one process share the numbers.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Sockets and ordering; the sessions of gateways too.
    Reactor,
    /// Execution.
    Executor,
    /// Writing and syncing.
    Journal,
    /// Signatures.
    Jobs,
    /// Gateways and the rest.
    Other,
}

impl Role {
    /// Every role.
    pub(crate) const ALL: [Self; 5] = [Self::Reactor, Self::Executor, Self::Journal, Self::Jobs, Self::Other];

    /// The word in metrics.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Reactor => "reactor",
            Self::Executor => "executor",
            Self::Journal => "journal",
            Self::Jobs => "jobs",
            Self::Other => "other",
        }
    }

    /// Whose thread has this name; the system keeps 15 bytes of it.
    fn of(name: &str) -> Self {
        match name.trim_end() {
            "journal" => Self::Journal,
            "synod-reactor-0" => Self::Reactor,
            "synod-reactor-1" => Self::Executor,
            name if name.starts_with("synod-job-") => Self::Jobs,
            _ => Self::Other,
        }
    }
}

/// The times read so far. Threads end and take their numbers with them; what is shown never falls.
#[derive(Debug, Default)]
pub(crate) struct Times([AtomicU64; Role::ALL.len()]);

impl Times {
    /// Reads the times by role; a role of which nothing can be read keeps its last.
    pub(crate) fn read(&self) -> [(Role, Duration); Role::ALL.len()] {
        let mut now = [0_u64; Role::ALL.len()];
        let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        for task in tasks.map(|task| task.path()) {
            let (Ok(name), Ok(times)) =
                (fs::read_to_string(task.join("comm")), fs::read_to_string(task.join("schedstat")))
            else {
                continue;
            };
            let role = Role::of(&name);
            if role != Role::Other {
                now[role as usize] = now[role as usize].saturating_add(on_processor(&times));
            }
        }
        let named: u64 = now.iter().sum();
        now[Role::Other as usize] = whole().saturating_sub(named);
        Role::ALL.map(|role| {
            let ns = now[role as usize];
            (role, Duration::from_nanos(self.0[role as usize].fetch_max(ns, Ordering::Relaxed).max(ns)))
        })
    }
}

/// Nanoseconds that the calling thread ran.
pub(crate) fn own_ns() -> u64 {
    fs::read_to_string("/proc/thread-self/schedstat").map_or(0, |times| on_processor(&times))
}

/// Nanoseconds that the threads of this process ran that have not ended.
pub(crate) fn threads_ns() -> u64 {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let times = tasks.filter_map(|task| fs::read_to_string(task.path().join("schedstat")).ok());
    times.map(|times| on_processor(&times)).sum()
}

/// Nanoseconds that a thread ran: the first number of its `schedstat`.
fn on_processor(schedstat: &str) -> u64 {
    schedstat.split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

/// Nanoseconds of the whole process, ended threads included.
fn whole() -> u64 {
    let ticks = fs::read_to_string("/proc/self/stat").map_or(0, |stat| ticks(&stat));
    ticks.saturating_mul(1_000_000_000) / rustix::param::clock_ticks_per_second().max(1)
}

/// User and system time of a `stat` line, in ticks. The name before them may hold anything.
fn ticks(stat: &str) -> u64 {
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    after_name.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_told_apart_by_the_names_that_runtimes_give() {
        let role = |name| Role::of(name).word();
        assert_eq!(role("synod-reactor-0\n"), "reactor");
        assert_eq!(role("synod-reactor-1\n"), "executor");
        assert_eq!(role("synod-job-12\n"), "jobs");
        assert_eq!(role("journal\n"), "journal");
        assert_eq!(role("tokio-runtime-w\n"), "other");
        for (at, role) in Role::ALL.into_iter().enumerate() {
            assert_eq!(role as usize, at);
        }
    }

    #[test]
    fn a_stat_line_is_read_behind_its_name() {
        assert_eq!(ticks("7 (a ) b) S 1 2 3 4 5 6 7 8 9 10 40 2 0 0"), 42);
        assert_eq!(ticks("7 S"), 0);
        assert_eq!(on_processor("1234 5 6\n"), 1_234);
    }

    #[test]
    fn times_are_there_and_never_fall() {
        let times = Times::default();
        let work = std::thread::Builder::new().name("synod-job-0".to_owned()).spawn(|| {
            let mut sum = 0_u64;
            while on_processor(&fs::read_to_string("/proc/thread-self/schedstat").expect("proc is mounted"))
                < 20_000_000
            {
                sum = std::hint::black_box(sum + 1);
            }
            Times::default().read()
        });
        let before = work.expect("a thread").join().expect("no panic");
        let jobs = |read: &[(Role, Duration)]| read[Role::Jobs as usize].1;
        assert!(jobs(&before) >= Duration::from_millis(20), "{before:?}");
        times.0[Role::Jobs as usize].store(99_000_000_000, Ordering::Relaxed);
        assert_eq!(jobs(&times.read()), Duration::from_secs(99), "an ended thread takes nothing back");
    }
}
