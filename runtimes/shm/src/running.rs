//! A poller on a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::doorbell::{Button, Doorbell};
use crate::error::Error;
use crate::placement::Rest;
use crate::poll::{Monotonic, Poller};
use crate::station::Station;

/// A poller of these stations, whose clock all of them share.
///
/// # Panics
/// Without a station there is nothing to poll.
#[must_use]
pub fn poller(mut stations: Vec<Station>, rest: Rest, bell: Doorbell) -> Poller<Station, Monotonic> {
    assert!(!stations.is_empty(), "a poller has something to poll");
    let clock = Monotonic::start();
    stations.iter_mut().for_each(|station| station.set_clock(clock));
    Poller::new(stations, clock, rest, bell)
}

/// The thread of a poller. Dropping it stops the poller and waits.
pub struct Running {
    stop: Arc<AtomicBool>,
    button: Button,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Running {
    /// Starts polling, on this core if one is given.
    ///
    /// # Errors
    /// [`Error::Thread`] when the system grants no thread.
    pub fn start(mut poller: Poller<Station, Monotonic>, core: Option<usize>) -> Result<Self, Error> {
        let button = poller.bell().ropes().button()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let run = move || {
            if let Some(core) = core {
                let mut set = CpuSet::new();
                set.set(core);
                sched_setaffinity(None, &set).map_err(Error::of("sched_setaffinity"))?;
            }
            poller.run(&stopped)
        };
        let thread = std::thread::Builder::new()
            .name("synod-poller".to_owned())
            .spawn(run)
            .map_err(|error| Error::Thread(error.to_string()))?;
        Ok(Self { stop, button, thread: Some(thread) })
    }

    /// Stops polling: frames that were not heard are lost, records that were appended are with the journal.
    ///
    /// # Errors
    /// What ended the poller before, or that it panicked.
    pub fn stop(mut self) -> Result<(), Error> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        self.stop.store(true, Ordering::Release);
        self.button.press();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            Some(Err(_)) => Err(Error::Thread("the poller panicked".to_owned())),
            None => Ok(()),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A panic of the thread was printed by the thread; `stop` is for those who want to know.
        let _ = self.end();
    }
}
