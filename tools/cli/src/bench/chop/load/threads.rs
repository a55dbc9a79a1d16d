//! What each thread of a process used, as the system counts it.

use std::collections::BTreeMap;
use std::time::Duration;

/// CPU time by what threads do.
pub(super) type Threads = BTreeMap<&'static str, Duration>;

/// What a thread of this name does.
fn role(name: &str) -> &'static str {
    match name {
        "synod-reactor-0" => "network and machines",
        "synod-reactor-1" => "application",
        "journal" => "journal",
        "load-broker" => "making batches",
        _ if name.starts_with("synod-job-") => "jobs",
        _ => "others",
    }
}

/// Adds what the threads of process `pid` used so far. Threads that ended took their time with them.
pub(super) fn add(pid: u32, to: &mut Threads) {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    for task in tasks.map(|task| task.path()) {
        let read = |file: &str| std::fs::read_to_string(task.join(file)).unwrap_or_default();
        let ran = read("schedstat").split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or(0);
        *to.entry(role(read("comm").trim_end())).or_default() += Duration::from_nanos(ran);
    }
}

/// What was used between two looks.
pub(super) fn since(after: &Threads, before: &Threads) -> Threads {
    let was = |role: &&'static str| before.get(role).copied().unwrap_or_default();
    after.iter().map(|(role, used)| (*role, used.saturating_sub(was(role)))).collect()
}

#[cfg(test)]
mod tests {
    use super::{Threads, add, role, since};
    use std::time::Duration;

    #[test]
    fn threads_are_known_by_the_names_that_the_runtime_gives_them() {
        assert_eq!([role("synod-reactor-0"), role("synod-job-12")], ["network and machines", "jobs"]);
        assert_eq!([role("journal"), role("tokio-rt")], ["journal", "others"]);
    }

    #[test]
    fn this_process_used_something_and_only_the_difference_counts() {
        let mut all = Threads::new();
        add(std::process::id(), &mut all);
        assert!(!all.is_empty());
        let before = Threads::from([("jobs", Duration::from_secs(2))]);
        let after = Threads::from([("jobs", Duration::from_secs(5)), ("journal", Duration::from_secs(1))]);
        let expected = [("jobs", Duration::from_secs(3)), ("journal", Duration::from_secs(1))];
        assert_eq!(since(&after, &before), Threads::from(expected));
    }
}
