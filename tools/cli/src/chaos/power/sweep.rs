//! A process that cleans up after one that ended without doing so itself, however it ended.

use crate::cluster::unwritable;
use crate::exit::Done;
use crate::session::usage;
use rustix::mount::{UnmountFlags, unmount};
use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use synod_config::{Exit, SynError};

/// What the directories of runs begin with; nothing else is swept.
const PREFIXES: [&str; 2] = ["synod-power-", "synod-chaos-"];
/// What is said to the sweeper when there is nothing to sweep.
const DONE: &[u8] = b"done";
/// How long nodes whose supervisor ended may take to end.
const PATIENCE: Duration = Duration::from_secs(20);
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// Waits beside a run. Dropping it says that the run cleaned up itself.
pub(super) struct Sweeper {
    child: Child,
}

impl Sweeper {
    /// Starts it for a directory.
    ///
    /// # Errors
    /// SYN-1101 if the program cannot be started.
    pub(super) fn start(directory: &Path) -> Result<Self, SynError> {
        let refused = |error| unwritable(Path::new("synod"), &error);
        let mut command = Command::new(std::env::current_exe().map_err(refused)?);
        command.args(["chaos", "sweep"]).arg(directory);
        // A group of its own: Ctrl-C ends the run, and this one is needed then.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        Ok(Self { child: command.spawn().map_err(refused)? })
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        if let Some(mut input) = self.child.stdin.take() {
            // If it has gone, it sweeps nothing either.
            drop(input.write_all(DONE));
        }
        drop(self.child.wait());
    }
}

/// Waits until standard input ends, which it does with the process that holds its other end. Unless that one said that
/// it is done, takes down every mount below `directory` and removes it.
///
/// # Errors
/// SYN-1001 for a directory that no run made.
pub(crate) fn sweep(directory: &Path) -> Done {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let named = PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    if !named || directory.parent() != Some(&std::env::temp_dir()) {
        return Err(usage("the directory of no run"));
    }
    let mut said = Vec::new();
    // An unreadable input ends as well.
    drop(std::io::stdin().take(64).read_to_end(&mut said));
    let until = Instant::now() + PATIENCE;
    while said != DONE && Instant::now() < until {
        for mounted in mounts(directory) {
            let _ = unmount(&mounted, UnmountFlags::DETACH);
        }
        drop(std::fs::remove_dir_all(directory));
        if !directory.exists() {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    Ok(Exit::Success)
}

/// The disks mounted below a directory.
fn mounts(directory: &Path) -> Vec<PathBuf> {
    let table = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mounted = table.lines().filter_map(|line| {
        let path = line.strip_prefix("synod-chaos ")?.split(' ').next()?;
        Some(PathBuf::from(path)).filter(|path| path.starts_with(directory))
    });
    mounted.collect()
}
