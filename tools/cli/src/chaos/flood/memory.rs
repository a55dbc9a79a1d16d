//! Memory of the members, sampled, and the size of their logs.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Pause between two samples.
const SAMPLE: Duration = Duration::from_millis(200);

/// Looks at the memory of processes until it is dropped.
pub(super) struct Memory {
    most: Arc<Vec<AtomicU64>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    pids: Vec<u32>,
}

impl Memory {
    /// Starts looking.
    pub(super) fn watch(pids: Vec<u32>) -> Self {
        let most: Arc<Vec<AtomicU64>> =
            Arc::new(pids.iter().map(|pid| AtomicU64::new(resident(*pid))).collect());
        let stop = Arc::new(AtomicBool::new(false));
        let (seen, stopped, looked) = (most.clone(), stop.clone(), pids.clone());
        let work = move || {
            while !stopped.load(Ordering::Relaxed) {
                for (pid, most) in looked.iter().zip(seen.iter()) {
                    most.fetch_max(resident(*pid), Ordering::Relaxed);
                }
                std::thread::sleep(SAMPLE);
            }
        };
        let thread = std::thread::Builder::new().name("memory".to_owned()).spawn(work).ok();
        Self { most, stop, thread, pids }
    }

    /// Memory of each process now; from here on, what is most is counted anew.
    pub(super) fn begin(&self) -> Vec<u64> {
        let now: Vec<u64> = self.pids.iter().map(|pid| resident(*pid)).collect();
        for (most, now) in self.most.iter().zip(&now) {
            most.store(*now, Ordering::Relaxed);
        }
        now
    }

    /// How much the process that grew most grew over `before`.
    pub(super) fn growth(&self, before: &[u64]) -> u64 {
        let grown = self.most.iter().zip(before);
        grown.map(|(most, before)| most.load(Ordering::Relaxed).saturating_sub(*before)).max().unwrap_or(0)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // It ends within a sample, whatever became of it.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Resident bytes of a process; 0 for one that is gone.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes: u64 = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0);
    kilobytes * 1_024
}

/// Bytes of all files in a directory.
pub(super) fn weight(directory: &Path) -> u64 {
    let files = std::fs::read_dir(directory).into_iter().flatten().flatten();
    files.filter_map(|file| Some(file.metadata().ok()?.len())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_this_process_is_seen_and_growth_counts_from_the_last_beginning() {
        let own = std::process::id();
        assert!(resident(own) > 1 << 20 && resident(u32::MAX) == 0);
        let memory = Memory::watch(vec![own]);
        let before = memory.begin();
        assert_eq!(before.len(), 1);
        assert!(memory.growth(&[0]) >= before[0]);
        assert_eq!(memory.growth(&[u64::MAX]), 0);
    }
}
