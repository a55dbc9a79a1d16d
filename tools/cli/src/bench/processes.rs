//! A cluster of separate processes for one run, in a directory that goes with it.

use crate::cluster::{self, Purpose};
use crate::deployment::{Claim, Running, await_ready, start, stop};
use crate::exit::bug;
use crate::layout::NODE_FILE;
use crate::signals::Signals;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use synod_config::{Effective, Genesis, Parameters, SynError};

/// How long the processes may take to become ready.
const READY: Duration = Duration::from_secs(20);

/// What a signal ends: the processes that run, and their directory.
struct Mortal {
    directory: PathBuf,
    /// Held while anything is being made or started: a signal waits for that.
    running: Mutex<Vec<Running>>,
    /// A signal came: this process ends in a moment.
    ending: AtomicBool,
}

impl Mortal {
    fn running(&self) -> MutexGuard<'_, Vec<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hears signals on a thread of its own: whoever waits for a cluster does not look at them.
    fn listen(self: &Arc<Self>) -> Result<(), SynError> {
        let mortal = self.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| bug("signals", &error))?;
        let mut signals = {
            let _guard = runtime.enter();
            Signals::listen()?
        };
        let work = move || {
            let exit = runtime.block_on(signals.next());
            // The lock is kept: nothing is started any more.
            let running = mortal.running();
            mortal.ending.store(true, Ordering::Relaxed);
            // Nobody is left to hear what could not be ended or removed.
            let _ = stop(&running, Duration::ZERO);
            let _ = std::fs::remove_dir_all(&mortal.directory);
            std::process::exit(i32::from(exit.number()));
        };
        let thread = std::thread::Builder::new().name("signals".to_owned()).spawn(work);
        thread.map(drop).map_err(|error| bug("signals", &error))
    }
}

/// The running members. Dropping it kills them and removes the directory; so does a signal that asks this process to
/// end.
pub(crate) struct Processes {
    program: PathBuf,
    own: Running,
    directory: PathBuf,
    pub(crate) genesis: Genesis,
    names: Vec<String>,
    members: Vec<Option<(Child, Running)>>,
    kept: bool,
    mortal: Arc<Mortal>,
    _ports: Claim,
}

impl Processes {
    /// Makes and starts a cluster of `nodes` members with these parameters; `flags` are keys of node.toml.
    ///
    /// # Errors
    /// The error of the file, port or node that refused.
    pub(crate) fn start(
        name: &str,
        nodes: u16,
        parameters: &dyn Fn(&mut Parameters),
        flags: &[(String, String)],
    ) -> Result<Self, SynError> {
        let directory = std::env::temp_dir().join(format!("synod-{name}-{}", std::process::id()));
        let mortal = Arc::new(Mortal {
            directory: directory.clone(),
            running: Mutex::default(),
            ending: AtomicBool::new(false),
        });
        mortal.listen()?;
        let making = mortal.running();
        let ports = Claim::free(nodes)?;
        let genesis = cluster::found_with(name, Purpose::Drill, &ports.seats, &directory, parameters)?;
        let program = std::env::current_exe().map_err(|e| cluster::unwritable(Path::new("synod"), &e))?;
        let names: Vec<String> = ports.seats.iter().map(|seat| seat.name.clone()).collect();
        for member in &names {
            set(&directory.join(member).join(NODE_FILE), flags)?;
        }
        drop(making);
        let members = names.iter().map(|_| None).collect();
        let own = Running::own(name)?;
        let mut cluster =
            Self { program, own, directory, genesis, names, members, kept: false, mortal, _ports: ports };
        for index in 0..usize::from(nodes) {
            cluster.launch(index)?;
        }
        cluster.await_all()?;
        Ok(cluster)
    }

    /// Starts one member.
    ///
    /// # Errors
    /// What the system refuses.
    pub(crate) fn launch(&mut self, index: usize) -> Result<(), SynError> {
        let mut running = self.mortal.running();
        let started = start(&self.program, &self.directory, &self.names[index], Some(&self.own))?;
        running.retain(|known| known.name != started.1.name);
        running.push(started.1.clone());
        drop(running);
        self.members[index] = Some(started);
        Ok(())
    }

    /// Waits until every member that runs says it is ready.
    ///
    /// # Errors
    /// The error a member left, or that it is not ready in time.
    pub(crate) fn await_all(&self) -> Result<(), SynError> {
        let running: Vec<Running> =
            self.members.iter().flatten().map(|(_, running)| running.clone()).collect();
        await_ready(&self.directory, &running, READY)
    }

    /// Kills one member with SIGKILL.
    pub(crate) fn kill(&mut self, index: usize) {
        if let Some((mut child, _)) = self.members[index].take() {
            // A process that has gone already is as dead as one that was killed.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// The process of a member, if it runs.
    pub(crate) fn running(&self, index: usize) -> Option<&Running> {
        self.members.get(index)?.as_ref().map(|(_, running)| running)
    }

    /// Name of a member.
    pub(crate) fn name(&self, index: usize) -> &str {
        self.names.get(index).map_or("?", String::as_str)
    }

    /// Leaves the directory behind when the processes end.
    pub(crate) fn keep(&mut self) {
        self.kept = true;
    }

    /// Process numbers of the members that run.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.members.iter().flatten().map(|(child, _)| child.id()).collect()
    }

    /// Which members run.
    pub(crate) fn alive(&self) -> Vec<usize> {
        (0..self.members.len()).filter(|at| self.members[*at].is_some()).collect()
    }

    /// The directory of the deployment.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        while self.mortal.ending.load(Ordering::Relaxed) {
            // Whatever went wrong, went wrong because of the signal.
            std::thread::park();
        }
        let running: Vec<Running> =
            self.members.iter().flatten().map(|(_, running)| running.clone()).collect();
        // What is left after this is reported by nobody who could act on it.
        let _ = stop(&running, Duration::from_secs(3));
        for (child, _) in self.members.iter_mut().flatten() {
            let _ = child.wait();
        }
        if !self.kept {
            let _ = std::fs::remove_dir_all(&self.directory);
        }
    }
}

/// Rewrites a node.toml with other values of some keys.
fn set(file: &Path, flags: &[(String, String)]) -> Result<(), SynError> {
    let text = std::fs::read_to_string(file).map_err(|e| cluster::unwritable(file, &e))?;
    let shown = file.display().to_string();
    let effective = Effective::load(Some((shown.as_str(), text.as_str())), [], flags.iter().cloned())?;
    std::fs::write(file, effective.to_toml()).map_err(|e| cluster::unwritable(file, &e))
}
