//! An application on a thread of its own, for one whose calls wait for a server process.
//!
//! *Order.* What a replica tells is done in its order, so a copy of the state is that of the moment it was asked for, and a chunk is
//! installed before the slot behind it is executed. Links and timers of the replica go on meanwhile.
//!
//! *Bounds.* A replica tells one slot at a time and waits for its results. What peers and clients ask beyond [`ASKED_MAX`] is answered at
//! once: with nothing.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use synod_config::SynError;
use synod_crypto::Hash;
use synod_net::{Busy, Handle};
use synod_service::App;
use synod_ubft::replica::{Input, Output};
use synod_wire::Bytes;

use super::applied::{Applied, Standing};
use super::replica::refused;
use super::settings::REPLICA;
use crate::error::network;
use crate::watch::Watch;

/// Questions and chunks that wait at most.
const ASKED_MAX: usize = 4_096;
/// Pause before an input is offered again that the machine had no room for.
const PAUSE: Duration = Duration::from_millis(1);

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Output>,
    handle: Option<Handle>,
    is_over: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next output, and whom to give what comes of it; `None` at the end.
    fn next(&self) -> Option<(Output, Handle)> {
        let mut queue = self.queue();
        loop {
            if queue.is_over {
                return None;
            }
            if let Some(handle) = queue.handle.clone()
                && let Some(output) = queue.waiting.pop_front()
            {
                return Some((output, handle));
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Gives an input to the replica as soon as that has room, unless everything ends first.
    fn give(&self, handle: &Handle, mut input: Input) {
        while let Err(Busy(back)) = handle.input(REPLICA, input) {
            input = back;
            let queue = self.queue();
            if queue.is_over {
                return;
            }
            drop(self.changed.wait_timeout(queue, PAUSE).unwrap_or_else(PoisonError::into_inner));
        }
    }
}

/// See the module.
pub(super) struct Beside<P> {
    applied: Arc<Applied<P>>,
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    watch: Arc<Watch>,
}

impl<P: App + 'static> Beside<P> {
    /// Starts the thread, which makes the application: a server process ends with the thread that started it.
    ///
    /// # Errors
    /// That of `make`.
    pub(super) fn start(
        make: impl FnOnce() -> Result<P, SynError> + Send + 'static,
        too_long: Bytes,
        watch: &Arc<Watch>,
    ) -> Result<Self, SynError> {
        let shared = Arc::new(Shared::default());
        let (made, first) = std::sync::mpsc::sync_channel(1);
        let (of_thread, watched) = (shared.clone(), watch.clone());
        let run = move || {
            let applied = match make() {
                Ok(app) => Arc::new(Applied::new(app, too_long)),
                Err(why) => return drop(made.send(Err(why))),
            };
            if made.send(Ok(applied.clone())).is_ok() {
                work(&of_thread, &applied, &watched);
            }
        };
        let thread = std::thread::Builder::new().name("synod-application".to_owned()).spawn(run);
        let failed = |why: String| network(&synod_net::Error::Thread(why));
        let thread = thread.map_err(|error| failed(error.to_string()))?;
        let applied = first.recv().map_err(|_| failed("the application's thread ended".to_owned()))??;
        Ok(Self { applied, shared, thread: Mutex::new(Some(thread)), watch: watch.clone() })
    }

    /// Takes what the replica told; what it is to hear at once, if there is no place for it.
    pub(super) fn take(&self, output: Output) -> Option<Input> {
        let mut queue = self.shared.queue();
        if queue.waiting.len() >= ASKED_MAX {
            match output {
                Output::Query { guest, id, .. } => return Some(Input::Answered { guest, id, value: None }),
                Output::NeedChunk { peer, low, index } => {
                    return Some(Input::Chunk { peer, low, index, bytes: None });
                }
                other => queue.waiting.push_back(other),
            }
        } else {
            queue.waiting.push_back(output);
        }
        drop(queue);
        self.shared.changed.notify_one();
        None
    }
}

/// Does what is told, in its order, until the end or the application's own.
fn work<P: App>(shared: &Shared, applied: &Applied<P>, watch: &Watch) {
    while let Some((output, handle)) = shared.next() {
        let answered = applied.answer(output);
        if watch.ended().borrow().is_some() {
            // What came of it may come of a server that failed.
            return;
        }
        match answered {
            Ok(Some(input)) => shared.give(&handle, input),
            Ok(None) => {}
            Err(why) => refused(watch, &why),
        }
    }
}

impl<P: App> Standing for Beside<P> {
    fn standing(&self) -> Option<(u64, Hash)> {
        // A digest that was asked of a server which failed meanwhile is nobody's.
        let standing = self.applied.standing();
        standing.filter(|_| self.watch.ended().borrow().is_none())
    }

    fn begin(&self, handle: &Handle) {
        self.shared.queue().handle = Some(handle.clone());
        self.shared.changed.notify_all();
    }

    fn end(&self) {
        let mut queue = self.shared.queue();
        (queue.is_over, queue.handle) = (true, None);
        drop(queue);
        self.shared.changed.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // It holds nothing that could be lost.
            let _ = thread.join();
        }
    }
}
