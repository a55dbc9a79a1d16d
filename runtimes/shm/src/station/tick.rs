//! The station and its tick.

mod post;

use core::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use synod_machine::host::{At, Frame, Hosted};
use synod_machine::register::RegisterReply;
use synod_machine::{Fault, Link, Queue, Span, Time, Wall};
use synod_quorum::NodeId;
use synod_wire::Bytes;

use super::Plan;
use super::desk::{Desk, Office, Slot};
use super::lines::{Drained, Lines};
use super::memory::Memory;
use crate::connector::{Connector, Deliveries, Observer};
use crate::error::Error;
use crate::frames::Frames;
use crate::jobs::Crypto;
use crate::line::{Came, Line, Places, Shape};
use crate::mailbox::{Mail, Mailbox};
use crate::poll::{Monotonic, Polled, Progress};

/// Frames of one queue of one peer handled in a tick.
pub const DRAIN_MAX: u32 = 16;
/// Inputs of one machine handled in a tick.
const INPUTS: usize = 64;
/// Inputs of one machine that wait before the machines that feed it pause.
const INPUTS_HIGH: usize = 1_024;
/// How often it is looked whether peers are still there.
const TEND_EVERY: Span = Span::millis(250);
/// How old the time of day may be that machines are told, in whole milliseconds.
const WALL_EVERY: Span = Span::micros(100);
/// How soon it is looked again for room in a peer's pipe.
const ROOM_EVERY: Span = Span::micros(200);
/// A peer's memory holds what no correct peer leaves there: SYN-4006 is for quotas, SYN-4001 for what does not decode.
const BROKEN: Fault =
    Fault { code: synod_machine::host::UNDECODABLE, name: "unreadable_memory", evidence: Bytes::new() };

/// What a station is made from.
pub(super) struct Parts {
    pub(super) own: NodeId,
    pub(super) plan: Arc<Plan>,
    pub(super) slots: Vec<Slot>,
    pub(super) drain: Drained,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) crypto: Crypto,
    pub(super) connector: Arc<dyn Connector>,
    pub(super) observer: Arc<dyn Observer>,
}

/// One node's machines at a poller.
pub struct Station {
    parts: Parts,
    lines: Lines,
    frames: Frames,
    scratch: Vec<u8>,
    clock: Monotonic,
    at: At,
    mail: Vec<Mail>,
    outputs: VecDeque<Box<dyn Any + Send>>,
    inputs: Vec<(u8, Box<dyn Any + Send>)>,
    answers: Vec<(NodeId, RegisterReply)>,
    changes: Vec<(NodeId, Link)>,
    tended: Time,
    /// When the time of day was read.
    walled: Time,
    begun: bool,
    halted: bool,
}

impl Station {
    pub(super) fn new(parts: Parts) -> Result<Self, Error> {
        let mut longest = 0;
        for spot in &parts.plan.incoming {
            longest = longest.max(Shape::of(spot)?.scratch());
        }
        Ok(Self {
            parts,
            lines: Lines::default(),
            frames: Frames::new(),
            scratch: vec![0; usize::try_from(longest).unwrap_or(usize::MAX)],
            clock: Monotonic::start(),
            at: At { now: Time::ZERO, wall: Wall(0) },
            mail: Vec::new(),
            outputs: VecDeque::new(),
            inputs: Vec::new(),
            answers: Vec::new(),
            changes: Vec::new(),
            tended: Time::ZERO,
            walled: Time::ZERO,
            begun: false,
            halted: false,
        })
    }

    /// This node.
    #[must_use]
    pub const fn own(&self) -> NodeId {
        self.parts.own
    }

    pub(crate) const fn plan(&self) -> &Arc<Plan> {
        &self.parts.plan
    }

    pub(crate) const fn mailbox(&self) -> &Arc<Mailbox> {
        &self.parts.mailbox
    }

    pub(crate) fn observer(&self) -> &Arc<dyn Observer> {
        &self.parts.observer
    }

    /// The clock that its time is read from, for its poller.
    #[must_use]
    pub const fn clock(&self) -> Monotonic {
        self.clock
    }

    /// Has its time read from this clock, which all stations of a poller share.
    pub const fn set_clock(&mut self, clock: Monotonic) {
        self.clock = clock;
    }

    /// Takes a link at once: before it is polled, or by the thread that polls it.
    pub(crate) fn join(&mut self, line: Line) {
        let peer = line.peer;
        if self.lines.join(line) {
            self.changes.push((peer, Link::Down));
        }
    }

    /// Gives a machine an input at once, for whoever owns the poller; false when there is no such machine or it has no
    /// room. It is handled in the next tick.
    pub fn input<I: Any + Send>(&mut self, machine: u8, input: I) -> bool {
        let slot = self.parts.slots.iter_mut().find(|slot| slot.number == machine);
        let Some(slot) = slot.filter(|slot| slot.hosted.room() > 0) else { return false };
        slot.inputs.push_back(Box::new(input));
        true
    }

    /// Tells what became of a memory node, as a machine reaches it; false when it does not fit what is there.
    pub fn memory(&mut self, machine: u8, node: NodeId, memory: Memory) -> bool {
        let slot = self.parts.slots.iter_mut().find(|slot| slot.number == machine);
        slot.is_some_and(|slot| slot.memories.change(node, memory))
    }

    /// Peers whose links are up.
    pub fn up(&self) -> impl Iterator<Item = NodeId> {
        self.lines.all.iter().filter(|line| line.is_up()).map(|line| line.peer)
    }

    /// Messages of peers' rings that were overwritten before they were read.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lines.all.iter().map(Line::lost).sum()
    }

    /// Bytes that wait for room in peers' pipes.
    #[must_use]
    pub fn backlog(&self) -> u64 {
        self.lines.all.iter().map(Line::bytes).sum()
    }

    /// Calls one machine and follows its outputs.
    #[inline]
    fn step(&mut self, index: usize, call: impl FnOnce(&mut dyn Hosted, &mut Desk<'_>)) {
        let Some(slot) = self.parts.slots.get_mut(index) else { return };
        let mut office =
            Office { lines: &mut self.lines, outputs: &mut self.outputs, observer: &*self.parts.observer };
        slot.call(&mut office, call);
        if !self.lines.trouble.is_empty() {
            self.lines.settle(&mut self.changes);
        }
        if !self.outputs.is_empty() {
            self.connect(index);
        }
    }

    /// Hands outputs to the connector and its deliveries to their machines.
    fn connect(&mut self, index: usize) {
        let Some(number) = self.parts.slots.get(index).map(|slot| slot.number) else { return };
        while let Some(output) = self.outputs.pop_front() {
            let mut deliveries = Deliveries { inputs: &mut self.inputs };
            self.parts.connector.connect(number, output, &mut deliveries);
        }
        for (machine, input) in self.inputs.drain(..) {
            let Some(to) = self.parts.slots.iter().position(|slot| slot.number == machine) else {
                unreachable!("a connector names machines of the plan");
            };
            if let Some(slot) = self.parts.slots.get_mut(to) {
                slot.inputs.push_back(input);
            }
            if let Some(slot) = self.parts.slots.get_mut(index).filter(|slot| !slot.feeds.contains(&to)) {
                slot.feeds.push(to);
            }
        }
    }

    /// Whether a machine takes a frame now: it is ready, and so is what it feeds.
    #[inline]
    fn takes(&self, index: usize) -> bool {
        let Some(slot) = self.parts.slots.get(index).filter(|slot| slot.hosted.ready()) else { return false };
        let waiting = |at: &usize| self.parts.slots.get(*at).map_or(0, |slot| slot.inputs.len());
        slot.feeds.iter().all(|at| waiting(at) <= INPUTS_HIGH)
    }

    /// Delivers `Start` to every machine before anything else.
    fn begin(&mut self) {
        self.begun = true;
        let at = self.at;
        for index in 0..self.parts.slots.len() {
            self.step(index, |hosted, desk| hosted.start(at, desk));
        }
    }

    /// Tells every machine of links that changed.
    fn links(&mut self) -> bool {
        for line in &mut self.lines.all {
            if let Some(link) = line.look() {
                self.changes.push((line.peer, link));
            }
        }
        if self.changes.is_empty() {
            return false;
        }
        let at = self.at;
        for (peer, link) in core::mem::take(&mut self.changes) {
            self.parts.observer.link(peer, link);
            for index in 0..self.parts.slots.len() {
                self.step(index, |hosted, desk| hosted.link(peer, link, at, desk));
            }
        }
        true
    }

    /// Handles frames, in the order of the plan.
    #[inline]
    fn drain(&mut self) -> bool {
        let news = self.lines.listen();
        if news == Places::NONE {
            return false;
        }
        let (mut worked, mut turns) = (false, self.parts.drain.turns(news));
        while let Some((slot, place)) = turns.take_lowest().and_then(|turn| self.parts.drain.get(turn)) {
            for line in 0..self.lines.all.len() {
                if self.lines.all.get(line).is_some_and(|line| line.has_news(place)) {
                    worked |= self.drain_one(slot, place, line);
                }
            }
        }
        worked
    }

    #[inline]
    fn drain_one(&mut self, slot: usize, place: usize, line: usize) -> bool {
        let at = self.at;
        for count in 0..DRAIN_MAX {
            if !self.takes(slot) {
                return count > 0;
            }
            let Some(from) = self.lines.all.get_mut(line) else { return count > 0 };
            let peer = from.peer;
            match from.next(place, &mut self.frames, &mut self.scratch) {
                Came::Nothing => return count > 0,
                Came::Passed => {}
                Came::Frame(body) => {
                    let queue =
                        self.parts.plan.incoming.get(place).map_or(Queue(0), |spot| Queue(spot.queue));
                    let frame = Frame { from: peer, queue, body };
                    self.step(slot, |hosted, desk| hosted.frame(frame, at, desk));
                }
                Came::Broken => {
                    self.leave(line, true);
                    return true;
                }
            }
        }
        true
    }

    /// Ends a link: its peer is gone, or its memory cannot be read.
    fn leave(&mut self, line: usize, broken: bool) {
        let Some(line) = self.lines.all.get_mut(line) else { return };
        if broken {
            let machine = self.parts.slots.first().map_or(0, |slot| slot.number);
            self.parts.observer.blame(machine, line.peer, &BROKEN);
        }
        if line.is_up() {
            self.changes.push((line.peer, Link::Down));
        }
        line.end();
    }

    /// Does operations on registers in place.
    fn registers(&mut self) -> Progress {
        let mut progress = Progress::Idle { next_timer: None };
        for index in 0..self.parts.slots.len() {
            let Some(slot) = self.parts.slots.get_mut(index) else { break };
            let mut answers = core::mem::take(&mut self.answers);
            let found = slot.memories.tick(&self.clock, &mut |node, reply| answers.push((node, reply)));
            progress = progress.and(found);
            let at = self.at;
            for (node, reply) in answers.drain(..) {
                self.step(index, |hosted, desk| hosted.registered(node, reply, at, desk));
            }
            self.answers = answers;
        }
        progress
    }

    /// Runs jobs, or hands them out, and answers loads of lanes without a journal.
    fn jobs(&mut self) -> bool {
        let (at, mut worked) = (self.at, false);
        for index in 0..self.parts.slots.len() {
            while let Some((name, bytes)) = slot_loaded(&mut self.parts.slots, index) {
                worked = true;
                self.step(index, |hosted, desk| hosted.loaded(name, bytes, at, desk));
            }
            let Some(slot) = self.parts.slots.get_mut(index) else { break };
            if slot.jobs.is_empty() {
                continue;
            }
            let runner = slot.hosted.runner();
            let done = self.parts.crypto.serve(&mut slot.jobs, runner, index, &self.parts.mailbox);
            worked |= !done.is_empty();
            for done in done {
                self.step(index, |hosted, desk| hosted.done(done, at, desk));
            }
        }
        worked
    }

    /// Fires due timers; when the next is due.
    fn timers(&mut self) -> Progress {
        let at = self.at;
        let mut progress = Progress::Idle { next_timer: None };
        for index in 0..self.parts.slots.len() {
            let due = self.parts.slots.get(index).and_then(|slot| slot.hosted.deadline());
            if due.is_some_and(|due| due <= at.now) {
                self.step(index, |hosted, desk| hosted.tick(at, desk));
                progress = Progress::Worked;
            }
            let next_timer = self.parts.slots.get(index).and_then(|slot| slot.hosted.deadline());
            progress = progress.and(Progress::Idle { next_timer });
        }
        progress
    }

    fn take_inputs(&mut self) -> bool {
        let (at, mut worked) = (self.at, false);
        for index in 0..self.parts.slots.len() {
            for _ in 0..INPUTS {
                let Some(slot) = self.parts.slots.get_mut(index) else { break };
                if slot.inputs.is_empty() || slot.hosted.room() == 0 {
                    break;
                }
                let Some(input) = slot.inputs.pop_front() else { break };
                worked = true;
                self.step(index, |hosted, desk| hosted.input(input, at, desk));
            }
        }
        worked
    }

    /// Looks whether peers are there, and says what others may know of the machines.
    fn tend(&mut self) {
        if self.at.now.since(self.tended) < TEND_EVERY && self.tended > Time::ZERO {
            return;
        }
        self.tended = self.at.now;
        for line in 0..self.lines.all.len() {
            if self.lines.all.get(line).is_some_and(Line::is_left) {
                self.leave(line, false);
            }
        }
        self.lines.sweep();
    }

    /// Ends a tick: what waits for room, the journal, room for inputs, and whoever sleeps.
    fn close(&mut self) -> Progress {
        for (slot, (_, gauge)) in self.parts.slots.iter_mut().zip(&self.parts.mailbox.gauges) {
            slot.lane.flush();
            let waiting = u32::try_from(slot.inputs.len()).unwrap_or(u32::MAX);
            gauge.room.store(slot.hosted.room().saturating_sub(waiting), Ordering::Relaxed);
        }
        let mut progress = Progress::Idle { next_timer: Some(self.tended + TEND_EVERY) };
        for line in &mut self.lines.all {
            if line.waits() {
                let found = if line.flush() {
                    Progress::Worked
                } else {
                    Progress::Idle { next_timer: Some(self.at.now + ROOM_EVERY) }
                };
                progress = progress.and(found);
            }
            line.press();
        }
        progress
    }
}

fn slot_loaded(slots: &mut [Slot], index: usize) -> Option<(synod_crypto::Hash, Option<Bytes>)> {
    slots.get_mut(index).and_then(|slot| slot.lane.loaded())
}

impl Polled for Station {
    fn tick(&mut self, now: Time) -> Progress {
        if self.halted {
            return Progress::Idle { next_timer: Some(now + TEND_EVERY) };
        }
        if now != self.at.now || !self.begun {
            self.at.now = now;
            if !self.begun || now.since(self.walled) >= WALL_EVERY {
                self.walled = now;
                let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
                self.at.wall = Wall(u64::try_from(wall).unwrap_or(u64::MAX));
            }
        }
        if !self.begun {
            self.begin();
        }
        let mut worked = self.post();
        if self.parts.mailbox.is_halted() {
            // What was held for a write that failed never leaves: the machines are not called again.
            self.halted = true;
            self.lines.all.iter_mut().for_each(Line::end);
            return Progress::Idle { next_timer: Some(now + TEND_EVERY) };
        }
        worked |= self.links();
        worked |= self.drain();
        let mut progress = self.registers();
        worked |= self.jobs();
        progress = progress.and(self.timers());
        worked |= self.take_inputs();
        self.tend();
        progress = progress.and(self.close());
        if worked || !self.changes.is_empty() { Progress::Worked } else { progress }
    }
}
