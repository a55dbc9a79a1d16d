//! Threads of attackers: at the lowest priority, until their owner goes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// The lowest priority of a thread.
const NICE: i32 = 19;

/// Threads that end when this is dropped.
pub(super) struct Crew {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Crew {
    pub(super) fn new() -> Self {
        Self { stop: Arc::default(), threads: Vec::new() }
    }

    /// Starts a thread; it looks at the flag often.
    pub(super) fn start(
        &mut self,
        name: &str,
        work: impl FnOnce(&AtomicBool) + Send + 'static,
    ) -> io::Result<()> {
        let stop = self.stop.clone();
        let calm = move || {
            // Where the system refuses, the flood takes more than its share, which makes the test harder.
            let _ = rustix::process::nice(NICE);
            work(&stop);
        };
        self.threads.push(std::thread::Builder::new().name(name.to_owned()).spawn(calm)?);
        Ok(())
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that panicked has ended, which is all that is wanted of it.
            let _ = thread.join();
        }
    }
}
