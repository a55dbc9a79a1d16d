//! Starting, syncing, ticking and ending nodes.

use synod_machine::host::LaneLog;

use super::node::Status;
use super::run::World;
use super::turn::{Call, Touch};
use crate::checker::Violation;
use crate::deed::Seen;
use crate::happening::{Happening, Work};
use crate::harness::Report;
use crate::storage::Loss;
use crate::trace::AsideKind;

impl World {
    /// Builds a node's machines from its disk and hands each its first event.
    pub(super) fn start(&mut self, place: u32) {
        let node = &mut self.nodes[place as usize];
        if node.status != Status::Down || node.frozen || node.dormant {
            return;
        }
        let base = node.lots.between(1_000_000_000, 1_000_000_000_000);
        node.clock.restart(self.now, base);
        node.incarnation += 1;
        node.status = Status::Up;
        node.busy_until = self.now;
        node.paused_until = 0;
        node.failed = false;
        self.stats.starts += 1;
        let logs = match self.nodes[place as usize].storage.open() {
            Ok(logs) => logs,
            Err(refusal) => return self.refused(place, &refusal.to_string()),
        };
        assert_eq!(logs.len(), self.nodes[place as usize].slots.len(), "one lane per machine");
        let mut opened = Vec::with_capacity(logs.len());
        for (slot, log) in (0_u8..).zip(logs) {
            let first = opened.first().copied().unwrap_or(0);
            match self.build((place, slot), first, log) {
                Some(event) => opened.push(event),
                None => return,
            }
        }
        self.network.rise(place, self.now, &mut self.plan);
        let node = &self.nodes[place as usize];
        self.reports.push_back(Report::Started(node.id, node.incarnation));
        for slot in self.slots(place) {
            let event = opened.get(usize::from(slot)).copied().unwrap_or(0);
            self.nodes[place as usize].backlog.push_back((event, slot, Work::Start));
        }
        self.pump(place);
    }

    /// Builds one machine; the number of the event if it came up.
    fn build(&mut self, (place, slot): (u32, u8), cause: u64, log: LaneLog) -> Option<u64> {
        let node = &self.nodes[place as usize];
        let (id, incarnation) = (node.id, node.incarnation);
        let number = node.slots[usize::from(slot)].number;
        let seen = Seen::Opened { condition: log.condition, records: log.records.clone() };
        let factory = self.other.as_ref().filter(|_| node.other_release).unwrap_or(&self.factory);
        match crate::panics::catch(|| factory(id, number, log, incarnation)) {
            Err(text) => {
                self.panicked(place, &text);
                None
            }
            Ok(Err(refusal)) => {
                self.refused(place, &refusal.to_string());
                None
            }
            Ok(Ok(hosted)) => {
                let state = &mut self.nodes[place as usize].slots[usize::from(slot)];
                state.queues = hosted.queues().to_vec();
                state.hosted = Some(hosted);
                self.stats.events += 1;
                let (event, deeds) = (self.stats.events, core::mem::take(&mut self.deeds));
                let (touch, crash, heard) = (Touch::default(), None, (None, None));
                self.conclude(Call { place, slot, event, cause, seen, deeds, touch, crash, heard });
                Some(event)
            }
        }
    }

    /// A node's log or directory was refused.
    fn refused(&mut self, place: u32, why: &str) {
        let node = &self.nodes[place as usize];
        if node.honest() {
            let id = node.id;
            self.violate(Violation::new("recover", format!("an intact log was refused: {why}")), Some(id));
        }
        self.halt_place(place);
    }

    /// After a call: the next tick, the next sync, the next jobs.
    pub(super) fn settle(&mut self, place: u32, slot: u8) {
        self.arm(place, slot);
        self.sync(place);
        self.work(place, slot);
    }

    /// Makes sure a tick is on the heap for the machine's next deadline.
    pub(super) fn arm(&mut self, place: u32, slot: u8) {
        let node = &mut self.nodes[place as usize];
        let state = &mut node.slots[usize::from(slot)];
        let Some(deadline) = state.hosted.as_ref().and_then(|hosted| hosted.deadline()) else { return };
        let at = node.clock.when(deadline.0).max(self.now);
        if at < state.wake && !state.ticking {
            state.wake = at;
            let (tie, life) = (node.ties.tie(), node.incarnation);
            self.plan.push(at, tie, 0, Happening::Tick { place, life, slot });
        }
    }

    pub(super) fn tick(&mut self, place: u32, life: u32, slot: u8) {
        if !self.living(place, life) {
            return;
        }
        let node = &mut self.nodes[place as usize];
        let local = node.clock.local(self.now);
        let state = &mut node.slots[usize::from(slot)];
        if state.wake <= self.now {
            state.wake = u64::MAX;
        }
        let due = state.hosted.as_ref().and_then(|h| h.deadline()).is_some_and(|at| at.0 <= local);
        if due && !state.ticking {
            state.ticking = true;
            self.offer(place, slot, 0, Work::Tick);
        } else {
            self.arm(place, slot);
        }
    }

    /// Starts a sync unless one is under way.
    pub(super) fn sync(&mut self, place: u32) {
        let node = &mut self.nodes[place as usize];
        if node.syncing || !node.storage.begin() {
            return;
        }
        node.syncing = true;
        node.slots.iter_mut().for_each(|slot| slot.syncing = slot.wrote);
        let took =
            self.options.sync_floor.0 + node.disk.exponential(self.options.sync_mean.0) + node.sync_extra;
        let (tie, life) = (node.ties.tie(), node.incarnation);
        self.plan.push(self.now + took, tie, 0, Happening::Synced { place, life });
    }

    /// A sync ended: lanes that moved are told.
    pub(super) fn synced(&mut self, place: u32, life: u32) {
        if !self.living(place, life) {
            return;
        }
        let node = &mut self.nodes[place as usize];
        node.syncing = false;
        let (outcome, restart) = (node.storage.commit(), node.write_restart);
        let Ok(moved) = outcome else {
            // Nobody knows which of the pages reached the disk, so the process ends and sends nothing.
            return self.crash_place(place, Loss::Drawn, Some(restart));
        };
        let node = &mut self.nodes[place as usize];
        node.failed = node.storage.failed();
        for (lane, lsn) in moved {
            let cause = node.slots[usize::from(lane)].syncing;
            node.backlog.push_back((cause, lane, Work::Durable(lsn)));
        }
        self.sync(place);
        self.pump(place);
    }

    /// The node's process dies.
    pub(super) fn crash_place(&mut self, place: u32, loss: Loss, restart: Option<u64>) {
        let node = &mut self.nodes[place as usize];
        if node.status != Status::Up {
            return;
        }
        let lost = node.storage.crash(loss, &mut node.disk);
        self.stats.crashes += 1;
        self.stats.torn += u64::from(lost.torn);
        self.stats.lost_suffixes += u64::from(lost.lost > 0 && restart.is_some());
        self.audit.word(lost.lost << 1 | 1);
        node.status = Status::Down;
        self.aside(AsideKind::Crash, vec![place], || {
            if lost.lost > 0 { format!("crash, {} writes are lost:", lost.lost) } else { "crash:".to_owned() }
        });
        self.clear(place);
        if let Some(after) = restart {
            let tie = self.nodes[place as usize].ties.tie();
            self.plan.push(self.now.saturating_add(after), tie, 0, Happening::Start { place });
        }
    }

    /// The node stops for good.
    pub(super) fn halt_place(&mut self, place: u32) {
        self.stats.halts += 1;
        self.nodes[place as usize].status = Status::Halted;
        self.aside(AsideKind::Halt, vec![place], || "stops for good:".to_owned());
        self.clear(place);
    }

    fn clear(&mut self, place: u32) {
        let node = &mut self.nodes[place as usize];
        node.slots.iter_mut().for_each(super::node::Slot::clear);
        node.backlog.clear();
        node.syncing = false;
        node.working = 0;
        node.crash = None;
        node.resuming = 0;
        self.network.fall(place, self.now, &mut self.plan);
    }

    /// A crash that found no boundary falls between two events.
    pub(super) fn crash_due(&mut self, place: u32, life: u32) {
        if self.living(place, life)
            && let Some(crash) = self.nodes[place as usize].crash.take()
        {
            self.crash_place(place, crash.loss, crash.restart);
        }
    }
}
