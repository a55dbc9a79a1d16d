//! What a test, a harness or an incident can do to a world.

use core::any::Any;

use synod_machine::{Span, Time};
use synod_quorum::NodeId;

use super::node::{Crash, Status};
use super::run::{Actor, World};
use super::turn::{Call, Touch};
use crate::deed::{Deed, Seen};
use crate::faulty::Strategy;
use crate::happening::{Happening, Work};
use crate::storage::{Harm, Loss};
use crate::trace::AsideKind;

impl World {
    /// Gives a machine an input after a while. It is refused to the harness when the node is down or the machine has
    /// no room then.
    ///
    /// # Panics
    /// When there is no such node or it has no such machine: a bug of the caller.
    pub fn input(&mut self, node: NodeId, machine: u8, after: Span, value: Box<dyn Any + Send>) {
        let place = self.place(node);
        let tie = self.wish_ties.tie();
        let at = self.now.saturating_add(after.0);
        self.plan.push(at, tie, 0, Happening::Input { place, machine, value });
    }

    /// An external input's time has come.
    pub(super) fn given(&mut self, place: u32, machine: u8, value: Box<dyn Any + Send>) {
        let node = &self.nodes[place as usize];
        let Some(slot) = node.slot_of(machine) else {
            unreachable!("inputs are for machines the node hosts")
        };
        if node.status == Status::Up {
            self.offer(place, slot, 0, Work::Input { value, external: true });
        } else {
            self.refuse(place, machine, value);
        }
    }

    fn place(&self, node: NodeId) -> u32 {
        match self.places.get(&node).and_then(|places| places.first()) {
            Some(place) => *place,
            None => unreachable!("there is no node {}", node.0),
        }
    }

    fn places_of(&self, node: NodeId) -> Vec<u32> {
        self.places.get(&node).cloned().unwrap_or_default()
    }

    /// Kills a node at once; `restart` is the time until it starts again, `None` leaves it down.
    pub fn crash(&mut self, node: NodeId, loss: Loss, restart: Option<Span>) {
        for place in self.places_of(node) {
            self.crash_place(place, loss, restart.map(|span| span.0));
        }
    }

    /// Kills a node once `after` more recipients and writes have been served: a send to k nodes has k + 1
    /// boundaries. A crash that is still due after a second falls between two events.
    pub fn crash_at(&mut self, node: NodeId, after: u64, loss: Loss, restart: Option<Span>) {
        for place in self.places_of(node) {
            self.crash_later(place, after, loss, restart.map(|span| span.0));
            let tie = self.nodes[place as usize].ties.tie();
            let life = self.nodes[place as usize].incarnation;
            let at = self.now + Span::secs(1).0;
            self.plan.push(at, tie, 0, Happening::CrashDue { place, life });
        }
    }

    fn crash_later(&mut self, place: u32, after: u64, loss: Loss, restart: Option<u64>) {
        self.nodes[place as usize].crash = Some(Crash { after, loss, restart });
    }

    /// Recipients and writes a node has served since the beginning: the boundaries a crash can be put at.
    #[must_use]
    pub fn boundaries(&self, node: NodeId) -> u64 {
        self.places_of(node).iter().map(|place| self.nodes[*place as usize].boundaries).sum()
    }

    /// Starts a node that is down.
    pub fn restart(&mut self, node: NodeId) {
        for place in self.places_of(node) {
            self.start(place);
        }
    }

    /// Stops a node's processor for a while; what it missed comes at once afterwards, late timers included.
    pub fn pause(&mut self, node: NodeId, lasts: Span) {
        for place in self.places_of(node) {
            let node = &mut self.nodes[place as usize];
            node.paused_until = node.paused_until.max(self.now.saturating_add(lasts.0));
        }
    }

    /// Sets the time a node needs for a step, in percent of normal.
    pub fn slow(&mut self, node: NodeId, percent: u64) {
        for place in self.places_of(node) {
            self.nodes[place as usize].slow_percent = percent;
        }
    }

    /// Makes a node's clocks run fast (or slow) by parts per billion.
    pub fn drift(&mut self, node: NodeId, ppb: i64) {
        for place in self.places_of(node) {
            self.nodes[place as usize].clock.drift(self.now, ppb);
            for slot in self.slots(place) {
                self.nodes[place as usize].slots[usize::from(slot)].wake = u64::MAX;
                self.arm(place, slot);
            }
        }
    }

    /// Moves a node's wall clock.
    pub fn step_wall(&mut self, node: NodeId, ms: i64) {
        for place in self.places_of(node) {
            self.nodes[place as usize].clock.step(ms);
        }
    }

    /// Damages this share of what a node reads from its disk, in parts per million.
    pub fn rot(&mut self, node: NodeId, ppm: u32) {
        for place in self.places_of(node) {
            self.nodes[place as usize].rot = ppm;
        }
    }

    /// Adds to the length of every sync and read of a node's disk.
    pub fn slow_disk(&mut self, node: NodeId, extra: Span) {
        for place in self.places_of(node) {
            self.nodes[place as usize].sync_extra = extra.0;
        }
    }

    /// Spreads the answers of a node's jobs by an exponential delay of this mean.
    pub fn delay_jobs(&mut self, node: NodeId, mean: Span) {
        for place in self.places_of(node) {
            self.nodes[place as usize].job_delay = mean.0;
        }
    }

    /// Does something to a node's disk. False when its storage cannot. Wiping, forgetting, rolling back and lying
    /// make the node count as faulty.
    pub fn harm(&mut self, node: NodeId, harm: Harm) -> bool {
        let mut done = true;
        for place in self.places_of(node) {
            let node = &mut self.nodes[place as usize];
            let could = node.storage.harm(harm);
            node.tainted |= could
                && !matches!(
                    harm,
                    Harm::Image | Harm::Rot(_) | Harm::Lie(false) | Harm::Full(_) | Harm::SyncFail(_)
                );
            done &= could;
        }
        done
    }

    /// States that a machine whose lane was damaged has rejoined; its next compaction makes the lane clean.
    pub fn readmit(&mut self, node: NodeId, machine: u8) {
        for place in self.places_of(node) {
            let node = &mut self.nodes[place as usize];
            if let Some(lane) = node.slot_of(machine) {
                node.storage.readmit(lane);
            }
        }
    }

    /// Stops frames from `from` to `to` until as many unblocks as blocks.
    pub fn block(&mut self, from: NodeId, to: NodeId) {
        for (from, to) in self.ways(from, to) {
            self.network.block(from, to, self.now, &mut self.plan);
        }
    }

    /// Takes one block away.
    pub fn unblock(&mut self, from: NodeId, to: NodeId) {
        for (from, to) in self.ways(from, to) {
            self.network.unblock(from, to, self.now, &mut self.plan);
        }
    }

    /// Breaks the connection between two nodes.
    pub fn reset(&mut self, a: NodeId, b: NodeId) {
        for (a, b) in self.ways(a, b) {
            self.network.reset(a, b, self.now, &mut self.plan);
        }
    }

    /// Nothing from `from` reaches `to` for a while; order is kept and nothing is lost.
    pub fn clog(&mut self, from: NodeId, to: NodeId, lasts: Span) {
        for (from, to) in self.ways(from, to) {
            self.network.clog(from, to, self.now.saturating_add(lasts.0));
        }
    }

    fn ways(&self, from: NodeId, to: NodeId) -> Vec<(u32, u32)> {
        let tos = self.places_of(to);
        self.places_of(from).into_iter().flat_map(|a| tos.iter().map(move |b| (a, *b))).collect()
    }

    /// Whether the connection between two nodes is up.
    #[must_use]
    pub fn linked(&self, a: NodeId, b: NodeId) -> bool {
        self.ways(a, b).iter().any(|(a, b)| self.network.is_up(*a, *b))
    }

    /// Puts a strategy in charge of a node's effects from now on. Unless it keeps faith the node is faulty, and its
    /// keys are shown to all strategies.
    pub fn corrupt_node(&mut self, node: NodeId, strategy: Box<dyn Strategy>) {
        let faith = strategy.keeps_faith();
        let draws = self.draws.stream("strategy", u64::from(node.0));
        let index = crate::network::place(self.actors.len());
        self.actors.push(Some(Actor { strategy, draws }));
        for place in self.places_of(node) {
            let state = &mut self.nodes[place as usize];
            state.strategy = Some(index);
            state.byzantine |= !faith;
        }
        if !faith {
            self.corrupted.insert(node, self.keyring.keys(u64::from(node.0)));
        }
    }

    /// Takes a node's strategy away. It stays faulty: what it said remains said.
    pub fn release_node(&mut self, node: NodeId) {
        for place in self.places_of(node) {
            self.nodes[place as usize].strategy = None;
        }
    }

    /// A strategy does what it put off.
    pub(super) fn strategic(
        &mut self,
        (place, slot): (u32, u8),
        by: Option<&'static str>,
        cause: u64,
        deed: Deed,
    ) {
        let send = matches!(deed, Deed::Send { .. });
        if self.nodes[place as usize].status != Status::Up || !send {
            return;
        }
        self.stats.events += 1;
        let (event, seen, deeds) = (self.stats.events, Seen::Strategy, vec![deed]);
        self.conclude(Call {
            place,
            slot,
            event,
            cause,
            seen,
            deeds,
            touch: Touch::all(by),
            crash: None,
            heard: (None, None),
        });
        self.pump(place);
    }

    /// Ends the safety phase: the nodes of `core` run, their links are whole, and nothing new goes wrong ever.
    /// Everything outside the core stays as it is: what is down stays down, what is blocked stays blocked, what is
    /// Byzantine stays Byzantine.
    pub fn heal(&mut self, core: &[NodeId]) {
        self.healed = true;
        self.aside(AsideKind::Heal, Vec::new(), || "the core is made whole".to_owned());
        let inside: Vec<bool> = self.nodes.iter().map(|node| core.contains(&node.id)).collect();
        self.network.heal(&inside, self.now, &mut self.plan);
        for place in self.all_places() {
            let node = &mut self.nodes[place as usize];
            node.crash = None;
            node.storage.harm(Harm::Full(false));
            node.storage.harm(Harm::SyncFail(false));
            if inside[place as usize] {
                self.mend(place);
            } else {
                node.frozen = true;
                if node.paused_until > self.now {
                    node.paused_until = u64::MAX;
                }
            }
        }
        for checker in &mut self.checkers {
            checker.heal(core, Time(self.now));
        }
    }

    /// A node of the core gets a running, unhurried process on an honest disk.
    fn mend(&mut self, place: u32) {
        let node = &mut self.nodes[place as usize];
        node.paused_until = node.paused_until.min(self.now);
        node.slow_percent = 100;
        node.sync_extra = 0;
        node.job_delay = 0;
        if !node.byzantine {
            // A strategy that keeps faith only crashes its node, and no crash comes any more.
            node.strategy = None;
        }
        node.storage.harm(Harm::Lie(false));
        node.storage.harm(Harm::Rot(false));
        node.rot = 0;
        let id = node.id;
        self.drift(id, 0);
        self.start(place);
        self.pump(place);
    }

    /// What a node is doing.
    #[must_use]
    pub fn status(&self, node: NodeId) -> Status {
        let all = self.places_of(node);
        all.first().map_or(Status::Halted, |place| self.nodes[*place as usize].status)
    }

    /// Whether a node follows its protocol on an intact disk.
    #[must_use]
    pub fn honest(&self, node: NodeId) -> bool {
        self.places_of(node).iter().all(|place| self.nodes[*place as usize].honest())
    }

    /// Records equivalent to the whole log of a machine; `None` while its node is down.
    #[must_use]
    pub fn snapshot(&self, node: NodeId, machine: u8) -> Option<Vec<synod_wire::Bytes>> {
        let place = self.places_of(node).first().copied()?;
        let node = &self.nodes[place as usize];
        let hosted = node.slots[usize::from(node.slot_of(machine)?)].hosted.as_ref()?;
        Some(hosted.snapshot().into_iter().map(|(_, record)| record).collect())
    }

    /// How often a node was started.
    #[must_use]
    pub fn incarnation(&self, node: NodeId) -> u32 {
        self.places_of(node).first().map_or(0, |place| self.nodes[*place as usize].incarnation)
    }

    /// The ids of all nodes, in the order of their seats.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeId> {
        self.nodes.iter().map(|node| node.id).collect()
    }
}
