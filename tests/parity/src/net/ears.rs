//! What a node's threads do, written where the test waits for it.

use core::any::Any;
use core::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use synod_machine::{Fault, Link, Note};
use synod_quorum::NodeId;

use crate::{Entry, Log, PAUSE, Passed, Route, Went};

/// How long a predicate may take to hold; a guard against hanging.
const GUARD: Duration = Duration::from_secs(30);

/// The logs of all nodes.
pub(crate) struct Board<T> {
    logs: Mutex<Vec<Log<T>>>,
    changed: Condvar,
}

impl<T: Clone + Debug> Board<T> {
    pub(crate) fn new(nodes: usize) -> Self {
        Self { logs: Mutex::new(vec![Log::default(); nodes]), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Log<T>>> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn log(&self, place: usize) -> Log<T> {
        self.lock()[place].clone()
    }

    /// Changes a log and wakes who waits.
    pub(crate) fn write<R>(&self, place: usize, change: impl FnOnce(&mut Log<T>) -> R) -> R {
        let changed = change(&mut self.lock()[place]);
        self.changed.notify_all();
        changed
    }

    pub(crate) fn until(&self, what: &str, done: impl Fn(&[Log<T>]) -> bool) {
        let limit = Instant::now() + GUARD;
        let mut logs = self.lock();
        while !done(&logs) {
            let left = limit.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "in {GUARD:?}: {what}: {logs:?}");
            logs = self.changed.wait_timeout(logs, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Hears one life of one node.
pub(crate) struct Ears<T> {
    board: Arc<Board<T>>,
    place: usize,
    own: NodeId,
    life: u32,
    route: Arc<Route<T>>,
    deaf: AtomicBool,
}

impl<T: Clone + Debug> Ears<T> {
    /// Begins a life.
    pub(crate) fn open(board: &Arc<Board<T>>, place: usize, own: NodeId, route: &Arc<Route<T>>) -> Arc<Self> {
        let life = board.write(place, |log| {
            log.lives += 1;
            log.up.clear();
            log.lives
        });
        let (board, route) = (board.clone(), route.clone());
        Arc::new(Self { board, place, own, life, route, deaf: AtomicBool::new(false) })
    }

    /// Hears nothing from now on.
    pub(crate) fn close(&self) {
        self.board.write(self.place, |_| self.deaf.store(true, Ordering::Release));
    }

    pub(crate) fn write(&self, change: impl FnOnce(&mut Log<T>)) {
        self.board.write(self.place, |log| {
            if !self.deaf.load(Ordering::Acquire) {
                change(log);
            }
        });
    }

    fn entry<W>(&self, machine: u8, what: W) -> Entry<W> {
        Entry { life: self.life, machine, what }
    }
}

/// The same ears, as the runtime takes them.
pub(crate) struct Listening<T>(pub(crate) Arc<Ears<T>>);

impl<T: Clone + Debug + Send> Listening<T> {
    fn heard_blame(&self, machine: u8, peer: NodeId, fault: &Fault) {
        self.0.write(|log| log.blamed.push(self.0.entry(machine, (peer, fault.code))));
    }

    fn heard_note(&self, machine: u8, note: &Note) {
        self.0.write(|log| log.noted.push(self.0.entry(machine, *note)));
        if note.name == PAUSE {
            // Observers are called on the machine's thread: it stands still until nobody has said anything for that long.
            let (never, said) = channel::<()>();
            let waited = said.recv_timeout(Duration::from_nanos(note.values[0]));
            assert_eq!(waited, Err(RecvTimeoutError::Timeout));
            drop(never);
        }
    }

    fn heard_link(&self, peer: NodeId, link: Link) {
        self.0.write(|log| match link {
            Link::Up => drop(log.up.insert(peer)),
            Link::Down => drop(log.up.remove(&peer)),
        });
    }

    /// Writes down what an output tells, and gives what is to be passed on.
    fn heard_output(&self, machine: u8, output: Box<dyn Any + Send>) -> Option<Passed> {
        let (told, passed) = match (self.0.route)(self.0.own, machine, output) {
            Went::Told(told) => (Some(told), None),
            Went::Passed(passed) => (None, Some(passed)),
            Went::Both(told, passed) => (Some(told), Some(passed)),
            Went::Dropped => (None, None),
        };
        if let Some(told) = told {
            self.0.write(|log| log.told.push(self.0.entry(machine, told)));
        }
        passed
    }
}

/// The two runtimes with threads ask for the same ears under names of their own.
macro_rules! listens {
    ($runtime:ident, $deliver:ident) => {
        impl<T: Clone + Debug + Send> $runtime::Observer for Listening<T> {
            fn blame(&self, machine: u8, peer: NodeId, fault: &Fault) {
                self.heard_blame(machine, peer, fault);
            }
            fn note(&self, machine: u8, note: &Note) {
                self.heard_note(machine, note);
            }
            fn link(&self, peer: NodeId, link: Link) {
                self.heard_link(peer, link);
            }
        }

        impl<T: Clone + Debug + Send> $runtime::Connector for Listening<T> {
            fn connect(&self, machine: u8, output: Box<dyn Any + Send>, to: &mut $runtime::Deliveries<'_>) {
                if let Some(passed) = self.heard_output(machine, output) {
                    passed.$deliver(to);
                }
            }
        }
    };
}

listens!(synod_net, deliver);
listens!(synod_shm, deliver_shm);
