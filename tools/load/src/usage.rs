//! What processes used, as the system counts it.

use std::time::Duration;

/// CPU time and memory of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// User and system time.
    pub cpu: Duration,
    /// The largest resident memory so far, in bytes.
    pub rss_peak_bytes: u64,
}

/// The unit of the times in `/proc/PID/stat`: fixed by Linux for user space on every architecture it runs on.
const TICKS_PER_SECOND: u64 = 100;

/// The usage of process `pid`; `None` when it is gone.
#[must_use]
pub fn usage(pid: u32) -> Option<Usage> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    parse(&stat, &status, TICKS_PER_SECOND)
}

/// The processor time so far of this process's threads of these names, in their order.
#[must_use]
pub(crate) fn cpu_of_threads<N: AsRef<str>>(names: &[N]) -> Vec<Duration> {
    let mut out = vec![Duration::ZERO; names.len()];
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    for task in tasks.map(|task| task.path()) {
        let read = |file: &str| std::fs::read_to_string(task.join(file)).unwrap_or_default();
        let name = read("comm");
        let Some(at) = names.iter().position(|thread| thread.as_ref() == name.trim_end()) else { continue };
        let ran = read("schedstat");
        let ns = ran.split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or(0);
        if let Some(time) = out.get_mut(at) {
            *time += Duration::from_nanos(ns);
        }
    }
    out
}

fn parse(stat: &str, status: &str, ticks_per_second: u64) -> Option<Usage> {
    // The name in parentheses may hold spaces; fields are counted behind it.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    let micros = (user + system).saturating_mul(1_000_000) / ticks_per_second.max(1);
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = peak.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(Usage { cpu: Duration::from_micros(micros), rss_peak_bytes: kib << 10 })
}

#[cfg(test)]
mod tests {
    use super::{parse, usage};
    use std::time::Duration;

    #[test]
    fn fields_are_found_behind_a_name_with_spaces() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 4 0 100 1 1";
        let found = parse(stat, "Name:\tx\nVmHWM:\t  2048 kB\n", 100).expect("both are well formed");
        assert_eq!((found.cpu, found.rss_peak_bytes), (Duration::from_secs(3), 2 << 20));
        assert_eq!(parse("7 (x", "", 100), None);
    }

    #[test]
    fn this_process_uses_something_and_no_process_uses_nothing() {
        assert!(usage(std::process::id()).is_some_and(|u| u.rss_peak_bytes > 0));
        assert_eq!(usage(u32::MAX), None);
    }
}
