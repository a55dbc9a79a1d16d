//! Sleeping until somebody rings (docs/papers/ubft.md, section on the runtime).
//!
//! *What it gives.* A receiver sleeps until a message comes or a time is over, and misses none; a sender that finds it
//! awake pays a fence and a load.
//!
//! *Cords, not an eventfd.* Both holders of an eventfd share one open file: a faulty sender could read what another had
//! rung, and either side could make the other's next call block for ever. A cord is a pair of sockets for each sender.
//! No side reads what others sent, and every call says itself that it must not block.
//!
//! *Bounds.* Two descriptors a sender; a ring is one byte. A sender that rings without end keeps its receiver awake, as
//! it does by sending without end; it is served [`TAKEN_MAX`] bytes a wake-up.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::error::Error;
use crate::flag::{STATUS_WORDS, Sleeper, Watcher};
use crate::map::{Shown, Written};
use crate::memfd::{Agreed, offer, see};

/// Cords that wait for their receiver's next sleep.
pub const CORDS_MAX: usize = 256;
/// Bytes taken from a cord at a wake-up.
pub const TAKEN_MAX: usize = 64;

/// What a last look before sleeping found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Something to do.
    Found,
    /// Nothing, for so long at most.
    Nothing(Option<Duration>),
}

/// How a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// It did not begin: the last look found something.
    Found,
    /// Somebody rang, or a signal came.
    Rung,
    /// The time was over.
    Timeout,
}

/// The receiver's side: its status page and one end of every cord.
#[derive(Debug)]
pub struct Doorbell {
    sleeper: Sleeper<Written>,
    ropes: Ropes,
    cords: Vec<OwnedFd>,
}

/// Adds cords to a bell from other threads. A bell that sleeps meanwhile hears them from its next sleep on: whoever
/// adds one wakes it by another.
#[derive(Clone, Debug)]
pub struct Ropes(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    status: OwnedFd,
    new: Mutex<Vec<OwnedFd>>,
}

impl Ropes {
    /// The status page for reading, to be given to senders.
    #[must_use]
    pub fn status(&self) -> &OwnedFd {
        &self.0.status
    }

    /// Adds a cord and gives its other end, for one sender.
    ///
    /// # Errors
    /// What the system said.
    pub fn cord(&self) -> Result<OwnedFd, Error> {
        let flags = SocketFlags::CLOEXEC;
        let (own, other) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)
            .map_err(Error::of("socketpair"))?;
        let mut new = self.0.new.lock().unwrap_or_else(PoisonError::into_inner);
        if new.len() >= CORDS_MAX {
            // A receiver that never sleeps takes none; those whose senders have gone are not kept for it.
            new.retain(still_open);
        }
        if new.len() >= CORDS_MAX {
            return Err(Error::Plan("a bell has at most 256 cords that were not taken yet"));
        }
        new.push(own);
        Ok(other)
    }

    /// A button of this bell for another thread of the process.
    ///
    /// # Errors
    /// What the system said.
    pub fn button(&self) -> Result<Button, Error> {
        let page = self.0.status.try_clone().map_err(|source| Error::System { call: "dup", source })?;
        let uid = rustix::process::geteuid().as_raw();
        Ok(Button::new(see(page, Agreed { words: STATUS_WORDS, uid })?, self.cord()?))
    }
}

impl Doorbell {
    /// A bell without cords.
    ///
    /// # Errors
    /// What the system said.
    pub fn new() -> Result<Self, Error> {
        let (page, status) = offer("synod-status", STATUS_WORDS)?;
        let ropes = Ropes(Arc::new(Shared { status, new: Mutex::default() }));
        Ok(Self { sleeper: Sleeper::new(page), ropes, cords: Vec::new() })
    }

    /// What adds cords from other threads.
    #[must_use]
    pub const fn ropes(&self) -> &Ropes {
        &self.ropes
    }

    /// The status page for reading, to be given to senders.
    #[must_use]
    pub fn status(&self) -> &OwnedFd {
        self.ropes.status()
    }

    /// Adds a cord and gives its other end, for one sender.
    ///
    /// # Errors
    /// What the system said.
    pub fn cord(&mut self) -> Result<OwnedFd, Error> {
        let other = self.ropes.cord()?;
        self.take_new();
        Ok(other)
    }

    /// Cords whose senders have not closed them.
    #[must_use]
    pub fn cords(&self) -> usize {
        self.cords.len()
    }

    fn take_new(&mut self) {
        let mut new = self.ropes.0.new.lock().unwrap_or_else(PoisonError::into_inner);
        self.cords.append(&mut new);
    }

    /// How often it lay down to sleep.
    #[must_use]
    pub const fn sleeps(&self) -> u64 {
        self.sleeper.sleeps()
    }

    /// Sleeps unless `look`, behind the fence, finds something. A signal counts as a ring.
    ///
    /// # Errors
    /// What the system said.
    pub fn sleep(&mut self, look: impl FnOnce() -> Look) -> Result<Woken, Error> {
        self.sleeper.lie_down();
        let woken = match look() {
            Look::Found => Ok(Woken::Found),
            Look::Nothing(timeout) => {
                self.take_new();
                self.wait(timeout)
            }
        };
        self.sleeper.rise();
        if matches!(woken, Ok(Woken::Rung)) {
            self.cords.retain(still_open);
        }
        woken
    }

    fn wait(&self, timeout: Option<Duration>) -> Result<Woken, Error> {
        let mut polled: Vec<PollFd<'_>> =
            self.cords.iter().map(|cord| PollFd::new(cord, PollFlags::IN)).collect();
        // A time too long for the system is none.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut polled, timeout.as_ref()) {
            Ok(0) => Ok(Woken::Timeout),
            Ok(_) | Err(Errno::INTR) => Ok(Woken::Rung),
            Err(errno) => Err(Error::of("poll")(errno)),
        }
    }
}

/// Takes what was rung; false when the sender has closed the cord.
fn still_open(cord: &OwnedFd) -> bool {
    let mut bytes = [0; TAKEN_MAX];
    match rustix::net::recv(cord.as_fd(), &mut bytes, RecvFlags::DONTWAIT) {
        Ok((_, taken)) => taken > 0,
        Err(errno) => matches!(errno, Errno::AGAIN | Errno::INTR),
    }
}

/// The sender's side: the receiver's status page and the other end of a cord.
#[derive(Debug)]
pub struct Button {
    watcher: Watcher<Shown>,
    cord: OwnedFd,
    rings: u64,
}

impl Button {
    /// A sender of the receiver that has this page and gave this cord.
    #[must_use]
    pub const fn new(page: Shown, cord: OwnedFd) -> Self {
        Self { watcher: Watcher::new(page), cord, rings: 0 }
    }

    /// Wakes the receiver if it sleeps; called once behind all that was published. Never blocks. A cord that is full has
    /// rung already, and one that the receiver broke wakes nobody: that is its own loss.
    #[inline]
    pub fn press(&mut self) {
        if self.watcher.must_ring() {
            self.ring();
        }
    }

    #[cold]
    fn ring(&mut self) {
        self.rings = self.rings.saturating_add(1);
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let rung = rustix::net::send(&self.cord, &[1], flags);
        tracing::trace!(?rung, "rang");
    }

    /// How often it rang.
    #[must_use]
    pub const fn rings(&self) -> u64 {
        self.rings
    }
}
