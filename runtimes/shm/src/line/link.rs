//! The link itself: its generation, its queues, and whether the peer is still there.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use rustix::net::RecvFlags;
use synod_machine::Link;
use synod_quorum::NodeId;
use synod_tail::{Fence, Words};

use super::inlet::{Came, Inlet, publish};
use super::news::{ByCount, Heard, News, Places, Said};
use super::outlet::{Outlet, Sent};
use super::shape::{GENERATION, Made, PAGE_WORDS, Seen, Shape, Spot};
use crate::doorbell::Button;
use crate::error::Error;
use crate::frames::Frames;
use crate::map::{Shown, Written};

/// Frames of one link that may be wrong before it is broken.
const STRIKES_MAX: u32 = 3;

/// What a link is made from.
pub(crate) struct Parts<'a> {
    pub(crate) peer: NodeId,
    pub(crate) made: Made,
    /// The peer's page and rings.
    pub(crate) theirs: Shown,
    pub(crate) rings: Vec<Seen>,
    /// The queues that this side hears, in its own order.
    pub(crate) spots: &'a [Spot],
    /// Wakes the peer; none where it is polled by the same thread.
    pub(crate) button: Option<Button>,
    /// A socket that the peer's process holds for as long as it lives; none where both are one process.
    pub(crate) life: Option<OwnedFd>,
}

/// A link to one peer.
pub(crate) struct Line {
    pub(crate) peer: NodeId,
    page: Written,
    theirs: Shown,
    outlets: Vec<Option<Outlet>>,
    said: Said,
    /// Frames wait for room in one of these.
    waits: bool,
    inlets: Vec<Option<Inlet>>,
    heard: Heard,
    /// Incoming queues by the count of the peer's page that counts them.
    by_count: Box<ByCount>,
    /// Incoming queues to look at.
    news: Places,
    button: Option<Button>,
    life: Option<OwnedFd>,
    generation: u32,
    up: bool,
    strikes: u32,
    /// Something was published that the peer was not woken for.
    dirty: bool,
    /// Not dead; others may know.
    alive: Arc<AtomicBool>,
    dead: bool,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.alive.store(false, Ordering::Release);
    }
}

impl Line {
    /// Puts both sides' memory together.
    ///
    /// # Errors
    /// [`Error::Queue`] when the peer shows a ring that nobody here hears, or one twice, or another size.
    pub(crate) fn new(parts: Parts<'_>) -> Result<Self, Error> {
        let Parts { peer, made, theirs, rings, spots, button, life } = parts;
        assert!(theirs.count() == PAGE_WORDS as usize, "a page was agreed on");
        let mut inlets: Vec<Option<Inlet>> = spots.iter().map(|_| None).collect();
        let mut by_count = Box::new(ByCount::NONE);
        for seen in rings {
            let Seen { machine, queue, order, words } = seen;
            let at = spots.iter().position(|spot| spot.machine == machine && spot.queue == queue);
            let found = at.and_then(|at| Some((at, spots.get(at)?, inlets.get_mut(at)?)));
            let Some((at, spot, inlet)) = found.filter(|(_, _, inlet)| inlet.is_none()) else {
                return Err(Error::Queue { machine, queue });
            };
            let shape = Shape::of(spot)?;
            if words.count() != shape.words() as usize {
                return Err(Error::Queue { machine, queue });
            }
            *inlet = Some(Inlet::new(shape, words, spot, order));
            by_count.add(order, at);
        }
        let Made { page, outlets, .. } = made;
        Ok(Self {
            peer,
            page,
            theirs,
            outlets,
            said: Said::default(),
            waits: false,
            inlets,
            heard: Heard::default(),
            by_count,
            news: Places::NONE,
            button,
            life,
            generation: 1,
            up: false,
            strikes: 0,
            dirty: true,
            alive: Arc::new(AtomicBool::new(true)),
            dead: false,
        })
    }

    /// Sends a frame by the outgoing queue at this place. A link that is down drops it.
    #[inline]
    pub(crate) fn send(&mut self, place: usize, body: &[u8]) -> Sent {
        if !self.up {
            return Sent::Dropped;
        }
        let Some(outlet) = self.outlets.get_mut(place).and_then(Option::as_mut) else { return Sent::Dropped };
        self.dirty = true;
        let sent = outlet.send(self.generation, body, &self.theirs);
        self.waits |= outlet.waits();
        self.said.say(&self.page, outlet.order());
        sent
    }

    /// Looks into the incoming queue at this place.
    #[inline]
    pub(crate) fn next(&mut self, place: usize, frames: &mut Frames, scratch: &mut [u8]) -> Came {
        if !self.up || !self.news.has(place) {
            return Came::Nothing;
        }
        let inlet = self.inlets.get_mut(place).and_then(Option::as_mut);
        let came =
            inlet.map_or(Came::Nothing, |inlet| inlet.next(self.generation, &self.page, frames, scratch));
        if matches!(came, Came::Nothing) {
            self.news.remove(place);
        }
        came
    }

    /// Looks whether the peer said anything; which of its queues have to be looked into.
    #[inline]
    pub(crate) fn listen(&mut self) -> Places {
        if let News::Of(changed) = self.heard.listen(&self.theirs) {
            self.news = self.news.or(self.by_count.of(changed));
        }
        if self.up { self.news } else { Places::NONE }
    }

    /// Whether the incoming queue at this place has to be looked into.
    #[inline]
    pub(crate) fn has_news(&self, place: usize) -> bool {
        self.up && self.news.has(place)
    }

    /// Looks at the peer's page; what changed, one thing at a time.
    #[inline]
    pub(crate) fn look(&mut self) -> Option<Link> {
        if self.dead {
            return None;
        }
        let theirs = self.theirs.load(GENERATION);
        if theirs == u64::from(self.generation) {
            if self.up {
                return None;
            }
            self.theirs.fence(Fence::Acquire);
            (self.up, self.strikes) = (true, 0);
            // What came of a generation that was not known yet waited.
            self.news = self.news.or(self.by_count.all());
            return Some(Link::Up);
        }
        let larger = u32::try_from(theirs).ok().filter(|theirs| *theirs > self.generation);
        self.theirs.fence(Fence::Acquire);
        let generation = larger?;
        let was = self.up;
        self.enter(generation);
        was.then_some(Link::Down)
    }

    /// Counts a frame that does not decode; whether it was the one too many, and the link was broken.
    pub(crate) fn strike(&mut self, count: u32) -> bool {
        self.strikes = self.strikes.saturating_add(count);
        self.strikes >= STRIKES_MAX && self.reset()
    }

    /// Breaks the link, which comes up again once the peer knows; whether it was up.
    pub(crate) fn reset(&mut self) -> bool {
        let was = self.up;
        match self.generation.checked_add(1) {
            Some(generation) => self.enter(generation),
            None => self.end(),
        }
        was
    }

    fn enter(&mut self, generation: u32) {
        self.clear();
        self.generation = generation;
        publish(&self.page, GENERATION, u64::from(generation));
        self.dirty = true;
    }

    fn clear(&mut self) {
        (self.up, self.waits) = (false, false);
        self.outlets.iter_mut().flatten().for_each(Outlet::clear);
        self.inlets.iter_mut().flatten().for_each(Inlet::clear);
    }

    /// Ends the link: the peer is told by the end of its socket, and may come again with new memory.
    pub(crate) fn end(&mut self) {
        self.clear();
        self.dead = true;
        self.alive.store(false, Ordering::Release);
        self.life = None;
        self.press();
        self.button = None;
    }

    /// Says for as long as there is somebody who asks whether the link stands.
    pub(crate) fn alive(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.alive)
    }

    pub(crate) const fn is_up(&self) -> bool {
        self.up
    }

    pub(crate) const fn is_dead(&self) -> bool {
        self.dead
    }

    /// Whether the peer's process has ended or closed the link.
    pub(crate) fn is_left(&self) -> bool {
        let Some(life) = &self.life else { return false };
        let mut byte = [0; 1];
        match rustix::net::recv(life.as_fd(), &mut byte, RecvFlags::DONTWAIT) {
            Ok((_, taken)) => taken == 0,
            Err(errno) => !matches!(errno, Errno::AGAIN | Errno::INTR),
        }
    }

    /// Writes what waits for room; whether any was written.
    pub(crate) fn flush(&mut self) -> bool {
        let mut wrote = false;
        for outlet in self.outlets.iter_mut().flatten() {
            if outlet.flush(self.generation, &self.theirs) {
                self.said.say(&self.page, outlet.order());
                wrote = true;
            }
        }
        self.waits = self.outlets.iter().flatten().any(Outlet::waits);
        self.dirty |= wrote;
        wrote
    }

    /// Whether frames wait for room in the peer's pipes.
    pub(crate) const fn waits(&self) -> bool {
        self.waits
    }

    /// Wakes the peer if there is something new for it and it sleeps.
    #[inline]
    pub(crate) fn press(&mut self) {
        if self.dirty {
            self.dirty = false;
            if let Some(button) = &mut self.button {
                button.press();
            }
        }
    }

    /// Bytes that wait for room.
    pub(crate) fn bytes(&self) -> u64 {
        self.outlets.iter().flatten().map(Outlet::bytes).sum()
    }

    /// Messages of the peer's rings that were overwritten before they were read.
    pub(crate) fn lost(&self) -> u64 {
        self.inlets.iter().flatten().map(Inlet::lost).sum()
    }
}
