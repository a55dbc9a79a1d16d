//! One turn of a reactor, phase by phase.

use std::sync::atomic::Ordering;

use synod_machine::host::{ErasedJob, Frame, Hosted};
use synod_machine::register::RegisterReply;
use synod_machine::{Link, Span};
use synod_quorum::NodeId;
use synod_wire::{Limits as WireLimits, Wire};

use super::Reactor;
use super::Wires;
use super::conn::Wrong;
use super::net::Class;
use super::run::TEND_EVERY;
use super::slot::{Desk, Office, REGISTER_VERSION};
use crate::counters::LOOPS;
use crate::mailbox::{FRAMES_UNDER_WAY, Gauge, INPUTS_HIGH, Mail, SENDS_HIGH};
use crate::pool::{Batch, INLINE_NS, price};

/// Frames of members handled in one turn.
const MEMBER_FRAMES: usize = 1_024;
/// Frames of guests handled in one turn.
const GUEST_FRAMES: usize = 256;
/// Frames of datagram links handled in one turn.
const LINK_FRAMES: usize = 1_024;
/// Frames of one peer before the next peer's.
const QUANTUM: usize = 32;
/// Inputs of one machine handled in one turn.
const INPUTS: usize = 1_024;

impl Reactor {
    /// Delivers `Start` to every machine before anything else.
    pub(super) fn begin(&mut self) {
        self.at = self.parts.clock.at();
        let at = self.at;
        for index in 0..self.parts.slots.len() {
            self.step(index, |hosted, desk| hosted.start(at, desk));
        }
    }

    /// One turn; whether there is more to do at once.
    pub(super) fn turn(&mut self) -> bool {
        self.at = self.parts.clock.at();
        self.parts.counters.turns.add(1);
        self.post();
        self.durable();
        if let Wires::Own(net) = &mut self.parts.wires {
            net.read(self.at.now);
        }
        self.links();
        let mut more = self.inputs();
        more |= self.forwarded();
        more |= self.frames(Class::Members, MEMBER_FRAMES);
        more |= self.frames(Class::Guests, GUEST_FRAMES);
        more |= self.linked();
        // After the events, so that what they put off to the end of the turn belongs to this one.
        self.timers();
        more |= self.jobs();
        self.tend();
        self.links();
        if self.parts.exchange.is_halted() {
            return false;
        }
        self.parts.slots.iter_mut().for_each(super::Slot::flush);
        if let Wires::Own(net) = &mut self.parts.wires {
            more |= net.flush();
        }
        // A write that failed may have brought a link down.
        self.links();
        self.publish();
        more
    }

    /// Calls one machine and follows its outputs.
    fn step(&mut self, index: usize, call: impl FnOnce(&mut dyn Hosted, &mut Desk<'_>)) {
        let Some(slot) = self.parts.slots.get_mut(index) else { return };
        let mut office = Office {
            wires: &mut self.parts.wires,
            outputs: &mut self.outputs,
            observer: &*self.parts.observer,
        };
        slot.call(&mut office, call);
        if !self.outputs.is_empty() {
            self.connect(index);
        }
    }

    /// Hands outputs to the connector and its deliveries to their machines.
    fn connect(&mut self, index: usize) {
        let Some(number) = self.parts.slots.get(index).map(|slot| slot.number) else { return };
        while let Some(output) = self.outputs.pop_front() {
            let mut deliveries = crate::Deliveries { inputs: &mut self.inputs };
            self.parts.connector.connect(number, output, &mut deliveries);
        }
        for (machine, input) in self.inputs.drain(..) {
            let Some(home) = self.parts.exchange.machines.get(&machine) else {
                unreachable!("a connector names machines of the plan");
            };
            home.gauge.inputs.fetch_add(1, Ordering::Relaxed);
            if let Some(slot) = self.parts.slots.get_mut(index) {
                slot.feeds.insert(machine);
            }
            match self.parts.slots.iter_mut().find(|slot| slot.number == machine) {
                Some(slot) => slot.inputs.push_back(input),
                None => home.mailbox.push(Mail::Input { machine, input }),
            }
        }
    }

    fn slot_of(&self, machine: u8) -> Option<usize> {
        self.parts.slots.iter().position(|slot| slot.number == machine)
    }

    /// Handles what other threads sent.
    fn post(&mut self) {
        let mut mail = core::mem::take(&mut self.mail);
        self.parts.mailbox.take(&mut mail);
        let before = self.parts.mailbox.sends.load(Ordering::Relaxed);
        for item in mail.drain(..) {
            self.open(item);
        }
        self.mail = mail;
        if before > SENDS_HIGH {
            self.relieve();
        }
    }

    fn open(&mut self, item: Mail) {
        let at = self.at;
        match item {
            Mail::Input { machine, input } => {
                if let Some(slot) = self.slot_of(machine).and_then(|index| self.parts.slots.get_mut(index)) {
                    slot.inputs.push_back(input);
                }
            }
            Mail::Frame { machine, frame } => {
                if let Some(slot) = self.slot_of(machine).and_then(|index| self.parts.slots.get_mut(index)) {
                    slot.frames.push_back(frame);
                }
            }
            Mail::Done { machine, done } => {
                let Some(index) = self.slot_of(machine) else { return };
                if let Some(slot) = self.parts.slots.get_mut(index) {
                    slot.jobs.ended();
                }
                for done in done {
                    self.step(index, |hosted, desk| hosted.done(done, at, desk));
                }
            }
            Mail::Loaded { machine, name, bytes } => {
                if let Some(index) = self.slot_of(machine) {
                    self.step(index, |hosted, desk| hosted.loaded(name, bytes, at, desk));
                }
            }
            Mail::Snapshot { machine } => {
                if let Some(slot) = self.slot_of(machine).and_then(|index| self.parts.slots.get_mut(index)) {
                    slot.snapshot();
                }
            }
            Mail::Readmit { machine } => {
                if let Some(slot) = self.slot_of(machine).and_then(|index| self.parts.slots.get_mut(index)) {
                    slot.lane.readmit();
                    slot.snapshot();
                }
            }
            Mail::Link { peer, link } => self.link(peer, link),
            Mail::Send { machine, to, queue, body } => {
                self.parts.mailbox.sends.fetch_sub(1, Ordering::Relaxed);
                if let Wires::Own(net) = &mut self.parts.wires {
                    net.send(machine, to, queue, &body);
                }
            }
            Mail::Strike { peer, wrong } => {
                if let Wires::Own(net) = &mut self.parts.wires {
                    net.strike(peer, wrong);
                }
            }
            Mail::Joined(joined) => {
                if let Wires::Own(net) = &mut self.parts.wires {
                    net.join(*joined, at.now);
                }
            }
            Mail::Stop => self.stop = true,
        }
    }

    fn durable(&mut self) {
        for index in 0..self.parts.slots.len() {
            if self.parts.slots.get(index).is_some_and(super::Slot::has_news) {
                // Settling after the empty call tells the machine.
                self.step(index, |_, _| {});
            }
        }
    }

    fn timers(&mut self) {
        let at = self.at;
        for index in 0..self.parts.slots.len() {
            let due = self.parts.slots.get(index).and_then(|slot| slot.hosted.deadline());
            if due.is_some_and(|due| due <= at.now) {
                self.step(index, |hosted, desk| hosted.tick(at, desk));
            }
        }
    }

    /// Tells every machine of the node about links that changed.
    fn links(&mut self) {
        let Wires::Own(net) = &mut self.parts.wires else { return };
        let events = net.events();
        for (peer, link) in events {
            self.link(peer, link);
            let own = self.parts.number;
            let others = self.parts.exchange.mailboxes.iter().enumerate().filter(|(at, _)| *at != own);
            others.for_each(|(_, mailbox)| mailbox.push(Mail::Link { peer, link }));
        }
    }

    fn link(&mut self, peer: NodeId, link: Link) {
        let at = self.at;
        for index in 0..self.parts.slots.len() {
            self.step(index, |hosted, desk| hosted.link(peer, link, at, desk));
        }
    }

    /// Whether what a machine feeds, or the way to the wire, is so far behind that it must wait.
    fn congested(&self, index: usize) -> bool {
        if let Wires::Remote(mailbox) = &self.parts.wires
            && mailbox.sends.load(Ordering::Relaxed) > SENDS_HIGH
        {
            return true;
        }
        let feeds = self.parts.slots.get(index).map(|slot| &slot.feeds);
        feeds.is_some_and(|feeds| feeds.iter().any(|machine| self.parts.exchange.congested(*machine)))
    }

    /// Wakes the other reactors: what they waited for may have room.
    fn relieve(&self) {
        let others = self.parts.exchange.mailboxes.iter().enumerate();
        others.filter(|(at, _)| *at != self.parts.number).for_each(|(_, mailbox)| mailbox.ring());
    }

    fn inputs(&mut self) -> bool {
        let at = self.at;
        let mut more = false;
        for index in 0..self.parts.slots.len() {
            let gauge = self.parts.slots.get(index).map(|slot| slot.gauge.clone());
            let waiting = |gauge: &Gauge| gauge.inputs.load(Ordering::Relaxed);
            let before = gauge.as_deref().map_or(0, waiting);
            for _ in 0..INPUTS {
                let Some(slot) = self.parts.slots.get_mut(index).filter(|slot| slot.hosted.room() > 0) else {
                    break;
                };
                let Some(input) = slot.inputs.pop_front() else { break };
                slot.gauge.inputs.fetch_sub(1, Ordering::Relaxed);
                self.step(index, |hosted, desk| hosted.input(input, at, desk));
            }
            if before > INPUTS_HIGH && gauge.as_deref().map_or(0, waiting) <= INPUTS_HIGH {
                self.relieve();
            }
            let slot = self.parts.slots.get(index);
            more |= slot.is_some_and(|slot| !slot.inputs.is_empty() && slot.hosted.room() > 0);
        }
        more
    }

    /// Handles frames that reactor 0 read for machines here.
    fn forwarded(&mut self) -> bool {
        let at = self.at;
        let mut handled = false;
        for index in 0..self.parts.slots.len() {
            while !self.congested(index) {
                let Some(slot) = self.parts.slots.get_mut(index).filter(|slot| slot.hosted.ready()) else {
                    break;
                };
                let Some(frame) = slot.frames.pop_front() else { break };
                slot.gauge.frames.fetch_sub(1, Ordering::Relaxed);
                handled = true;
                self.step(index, |hosted, desk| hosted.frame(frame, at, desk));
            }
        }
        if handled && let Some(net) = self.parts.exchange.mailboxes.first() {
            // Frames may wait there for the room that has come.
            net.ring();
        }
        false
    }

    /// Which machines of the node take a frame now, in table order.
    fn look_who_is_ready(&mut self) {
        let Wires::Own(net) = &self.parts.wires else { return };
        self.ready.clear();
        for (machine, local) in net.table().machines().iter().zip(&self.local) {
            let ready = match local {
                Some(index) => {
                    self.parts.slots.get(*index).is_some_and(|slot| slot.hosted.ready())
                        && !self.congested(*index)
                }
                None => match self.parts.exchange.machines.get(machine) {
                    Some(home) => home.gauge.frames.load(Ordering::Relaxed) < FRAMES_UNDER_WAY,
                    // Answers of a memory node are for the machine that asks it.
                    None => self.registrar(*machine).is_some_and(|slot| slot.hosted.ready()),
                },
            };
            self.ready.push(ready);
        }
    }

    fn registrar(&self, memory: u8) -> Option<&super::Slot> {
        self.parts.slots.iter().find(|slot| slot.memory == Some(memory))
    }

    /// Handles frames of one class of peers, in turn; whether deliverable ones are left.
    fn frames(&mut self, class: Class, budget: usize) -> bool {
        let mut left = budget;
        let mut stuck = 0;
        while left > 0 {
            let Wires::Own(net) = &mut self.parts.wires else { return false };
            if stuck >= net.busy(class) {
                return false;
            }
            let Some(token) = net.next_busy(class) else { return false };
            let served = self.serve(token, left.min(QUANTUM));
            left -= served;
            stuck = if served == 0 { stuck + 1 } else { 0 };
            if let Wires::Own(net) = &mut self.parts.wires {
                net.give_back(token);
            }
        }
        true
    }

    /// Handles up to `count` frames of one connection.
    fn serve(&mut self, token: usize, count: usize) -> usize {
        for served in 0..count {
            self.look_who_is_ready();
            let Wires::Own(net) = &mut self.parts.wires else { return served };
            let Some((place, frame)) = net.next_frame(token, &self.ready) else { return served };
            self.deliver(place, frame);
        }
        count
    }

    /// Handles what came by datagram links, in the order it came; whether deliverable frames are left.
    fn linked(&mut self) -> bool {
        for _ in 0..LINK_FRAMES {
            let Wires::Own(net) = &self.parts.wires else { return false };
            let Some(place) = net.waits_for() else { return false };
            self.look_who_is_ready();
            if !self.ready.get(place).is_some_and(|ready| *ready) {
                return false;
            }
            let Wires::Own(net) = &mut self.parts.wires else { return false };
            let Some(frame) = net.next_linked() else { return false };
            self.deliver(place, frame);
        }
        true
    }

    fn deliver(&mut self, place: usize, frame: Frame) {
        let at = self.at;
        if let Some(index) = self.local.get(place).copied().flatten() {
            return self.step(index, |hosted, desk| hosted.frame(frame, at, desk));
        }
        let Wires::Own(net) = &self.parts.wires else { return };
        let Some(machine) = net.table().machines().get(place).copied() else { return };
        if let Some(home) = self.parts.exchange.machines.get(&machine) {
            home.gauge.frames.fetch_add(1, Ordering::Relaxed);
            return home.mailbox.push(Mail::Frame { machine, frame });
        }
        let index = self.parts.slots.iter().position(|slot| slot.memory == Some(machine));
        let reply = match frame.body.first() {
            Some(&REGISTER_VERSION) => {
                RegisterReply::decode(frame.body.slice(1..), &WireLimits::default()).ok()
            }
            _ => None,
        };
        match (index, reply) {
            (Some(index), Some(reply)) => {
                self.step(index, |hosted, desk| hosted.registered(frame.from, reply, at, desk));
            }
            _ => {
                if let Wires::Own(net) = &mut self.parts.wires {
                    net.strike(frame.from, Wrong::UNDECODABLE);
                }
            }
        }
    }

    /// Runs or hands out queued jobs; whether there is more to do at once.
    fn jobs(&mut self) -> bool {
        self.jobs_wait = false;
        let (at, mut more) = (self.at, false);
        for index in 0..self.parts.slots.len() {
            if self.parts.pool.is_inline() {
                let batch = self.parts.slots.get_mut(index).map(|slot| slot.jobs.batch(at.now));
                more |= self.run_here(index, batch.unwrap_or_default());
                self.jobs_wait |= self.parts.slots.get(index).is_some_and(|slot| slot.jobs.queued() > 0);
                continue;
            }
            let mut left = INLINE_NS;
            while let Some(slot) = self.parts.slots.get_mut(index).filter(|slot| slot.jobs.queued() > 0) {
                let small = slot.jobs.small(left, at.now);
                let spent: u64 = small.iter().map(|job| price(&job.cost)).sum();
                left = left.saturating_sub(spent.max(1_000));
                if !self.run_here(index, small) {
                    break;
                }
            }
            self.hand_out(index);
        }
        // Inline answers may have become inputs of a machine here.
        more | self.parts.slots.iter().any(|slot| !slot.inputs.is_empty() && slot.hosted.room() > 0)
    }

    /// Runs jobs of a machine on this thread; whether there were any.
    fn run_here(&mut self, index: usize, jobs: Vec<ErasedJob>) -> bool {
        let Some(runner) = self.parts.slots.get(index).map(|slot| slot.hosted.runner()) else { return false };
        let at = self.at;
        if jobs.is_empty() {
            return false;
        }
        for done in self.parts.pool.run(runner, jobs) {
            self.step(index, |hosted, desk| hosted.done(done, at, desk));
        }
        true
    }

    /// Hands what is left to the threads.
    fn hand_out(&mut self, index: usize) {
        let (now, batches_max) = (self.at.now, self.parts.pool.batches_max());
        while let Some(slot) = self.parts.slots.get_mut(index) {
            if slot.jobs.queued() == 0 || slot.jobs.under_way() >= batches_max {
                break;
            }
            let jobs = slot.jobs.batch(now);
            if jobs.is_empty() {
                self.jobs_wait = true;
                break;
            }
            let (machine, runner) = (slot.number, slot.hosted.runner());
            slot.jobs.started();
            self.parts.pool.submit(Batch { machine, runner, jobs, home: self.parts.mailbox.clone() });
        }
    }

    /// Looks after links, some times a second.
    fn tend(&mut self) {
        let now = self.at.now;
        if let Wires::Own(net) = &mut self.parts.wires {
            net.unthrottle(now);
        }
        if now.since(self.tended) < TEND_EVERY {
            return;
        }
        self.tended = now;
        let late = core::mem::replace(&mut self.late, Span::ZERO);
        self.parts.counters.late_ns[self.parts.number.min(LOOPS - 1)].set(late.0);
        if let Wires::Own(net) = &mut self.parts.wires {
            net.tend();
        }
        for slot in &self.parts.slots {
            slot.gauge.bytes.store(slot.hosted.bytes(), Ordering::Relaxed);
            slot.gauge.bytes_max.store(slot.hosted.bytes_max(), Ordering::Relaxed);
        }
    }

    fn publish(&self) {
        for (index, slot) in self.parts.slots.iter().enumerate() {
            // Inputs of connectors go on, or machines that feed each other could wait for ever.
            let room = if self.congested(index) { 0 } else { slot.hosted.room() };
            slot.gauge.room.store(room, Ordering::Relaxed);
        }
    }
}
