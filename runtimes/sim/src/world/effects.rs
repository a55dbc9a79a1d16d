//! Carrying out what a call asked for, and cutting it where a crash falls.

use core::any::Any;

use synod_machine::host::UNDECODABLE;
use synod_machine::{Fault, Queue, QueueSpec, Time, To};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::Bytes;

use super::node::Waiting;
use super::run::World;
use super::setup::{Passage, Routed};
use super::turn::Call;
use crate::checker::Violation;
use crate::deed::Deed;
use crate::happening::{Happening, Work};
use crate::harness::{Report, Told};
use crate::network::Parcel;
use crate::storage::Written;

/// Members of `set`, those behind `own` first: the order in which a set is served.
fn recipients(own: NodeId, set: NodeSet) -> impl Iterator<Item = NodeId> {
    let (behind, ahead): (Vec<NodeId>, Vec<NodeId>) = set.iter().partition(|id| *id > own);
    behind.into_iter().chain(ahead)
}

/// Keeps what comes before a crash that falls after `units` recipients and writes.
pub(super) fn cut(deeds: &mut Vec<Deed>, units: u64, own: NodeId) {
    let mut left = units;
    let mut keep = 0;
    for deed in deeds.iter_mut() {
        let needs = deed.units();
        if needs > left {
            if let Deed::Send { to: To::Set(set), .. } = deed
                && left > 0
            {
                let reached = usize::try_from(left).unwrap_or(usize::MAX);
                *set = recipients(own, *set).take(reached).collect();
                keep += 1;
            }
            break;
        }
        left -= needs;
        keep += 1;
    }
    deeds.truncate(keep);
}

/// A frame on its way out: of which machine, for whom.
pub(super) struct Outgoing {
    pub(super) machine: u8,
    pub(super) queue: Queue,
    pub(super) spec: QueueSpec,
    pub(super) body: Bytes,
    pub(super) cause: u64,
    pub(super) touched: Option<&'static str>,
}

impl World {
    /// Does what the call asks for, in program order.
    pub(super) fn carry_out(&mut self, call: &mut Call) {
        let (place, slot, cause) = (call.place, call.slot, call.event);
        let mut compact = false;
        for (at, deed) in call.deeds.iter_mut().enumerate() {
            if matches!(deed, Deed::Append { .. } | Deed::Store { .. } | Deed::Erase { .. }) {
                self.nodes[place as usize].slots[usize::from(slot)].wrote = cause;
            }
            match deed {
                Deed::Send { to, queue, body } => {
                    let touched = call.touch.of(at);
                    let (machine, spec) = self.queue_of(place, slot, *queue);
                    let Some(spec) = spec else { continue };
                    let (queue, body) = (*queue, body.clone());
                    self.send(place, *to, &Outgoing { machine, queue, spec, body, cause, touched });
                }
                Deed::Append { lsn, keep, record } => {
                    let what = Written::Record(*keep, record.clone());
                    self.nodes[place as usize].storage.write(slot, *lsn, what);
                }
                Deed::Store { lsn, name, bytes } => {
                    self.nodes[place as usize].storage.write(slot, *lsn, Written::Blob(*name, bytes.clone()));
                }
                Deed::Erase { lsn, name } => {
                    self.nodes[place as usize].storage.write(slot, *lsn, Written::Erase(*name));
                }
                Deed::Load(name) => self.fetch(place, slot, cause, *name),
                Deed::Compact => compact = true,
                Deed::Submit { peer, cost, job } => {
                    if let Some(job) = job.take() {
                        let waiting = Waiting { peer: *peer, cost: *cost, event: cause, job };
                        self.nodes[place as usize].slots[usize::from(slot)].jobs.push_back(waiting);
                    }
                }
                Deed::Output(output) => {
                    let output = core::mem::replace(output, Box::new(()));
                    self.output(place, slot, cause, output);
                }
                Deed::Blame { peer, fault } => self.blamed(place, *peer, fault),
                Deed::Applied(rule) => *self.stats.rules.entry(*rule).or_insert(0) += 1,
                Deed::Timer { name, at } => {
                    let timers = &mut self.nodes[place as usize].slots[usize::from(slot)].timers;
                    match at {
                        Some(at) => drop(timers.insert(name.clone(), (*at, cause))),
                        None => drop(timers.remove(name)),
                    }
                }
                Deed::Register { to, op, .. } => {
                    self.ask_memory(place, *to, op, (cause, call.touch.of(at)));
                }
                Deed::Note(_) => {}
            }
        }
        if compact && call.crash.is_none() {
            let node = &mut self.nodes[place as usize];
            let hosted = node.slots.iter().filter_map(|slot| slot.hosted.as_ref());
            let snapshots: Vec<_> = hosted.map(|hosted| hosted.snapshot()).collect();
            node.storage.compact(snapshots);
        }
    }

    /// The number of a machine, and what it declared of one of its queues; a violation if nothing.
    fn queue_of(&mut self, place: u32, slot: u8, queue: Queue) -> (u8, Option<QueueSpec>) {
        let node = &self.nodes[place as usize];
        let slot = &node.slots[usize::from(slot)];
        let (id, machine) = (node.id, slot.number);
        let spec = slot.queues.get(usize::from(queue.0)).copied();
        if spec.is_none() {
            let what = format!("machine {machine} sends on queue {}, which it did not declare", queue.0);
            self.violate(Violation::new("queues", what), Some(id));
        }
        (machine, spec)
    }

    pub(super) fn send(&mut self, place: u32, to: To, out: &Outgoing) {
        let node = &self.nodes[place as usize];
        if node.failed && node.honest() {
            let (id, what) = (node.id, "sends after a write or a sync of its journal failed");
            self.violate(Violation::new("J-S3", what), Some(id));
        }
        match to {
            To::Node(id) => self.post(place, id, out),
            To::Set(set) => {
                for id in recipients(self.local(place, place), set) {
                    self.post(place, id, out);
                }
            }
        }
        if out.touched.is_some() {
            self.stats.tampered += 1;
        }
    }

    /// Puts a frame on the link to every instance of `to`.
    fn post(&mut self, place: u32, to: NodeId, out: &Outgoing) {
        let node = &self.nodes[place as usize];
        let leaves = self.now.max(node.busy_until);
        let Outgoing { machine, spec, .. } = *out;
        let global = match &self.names {
            Some(names) => names.global(node.id, to),
            None => Some(to),
        };
        let targets = global.and_then(|id| self.places.get(&id)).map_or(&[][..], Vec::as_slice);
        if targets.is_empty() {
            self.network.stats.unlinked += 1;
        }
        for at in 0..targets.len() {
            let target = self.places[&global.unwrap_or(to)][at];
            if self.joined(place, target) && self.passes((place, target), machine, &out.body) {
                let Outgoing { queue, cause, touched, .. } = *out;
                let body = out.body.clone();
                let parcel =
                    Parcel { from: place, to: target, machine, queue, body, cause, touched, channel: None };
                self.network.send(leaves, spec, parcel, &mut self.plan);
            }
        }
    }

    /// Whether the masks of twins let these two places speak now.
    fn joined(&self, a: u32, b: u32) -> bool {
        let (a, b) = (&self.nodes[a as usize], &self.nodes[b as usize]);
        let pair = |node: &super::node::Node| self.twins.iter().find(|twins| twins.id == node.id);
        match (pair(a), pair(b)) {
            (Some(x), Some(y)) if x.matched && y.matched && x.id != y.id => a.twin == b.twin,
            (x, y) => {
                x.is_none_or(|masks| masks.joined(a.twin, b.id, self.now))
                    && y.is_none_or(|masks| masks.joined(b.twin, a.id, self.now))
            }
        }
    }

    /// Whether the script lets this frame through, and whether there is somebody to take it.
    fn passes(&mut self, (from, to): (u32, u32), machine: u8, body: &Bytes) -> bool {
        let end = |node: &super::node::Node| (node.id, node.twin);
        if self.nodes[to as usize].dormant {
            return false;
        }
        let ends = [end(&self.nodes[from as usize]), end(&self.nodes[to as usize])];
        let Some(script) = self.script.as_mut().filter(|_| !self.healed) else { return true };
        let passes = script.passes(&Passage { from: ends[0], to: ends[1], machine, body });
        self.network.stats.lost += u64::from(!passes);
        passes
    }

    /// What the node at `viewer` calls the node at `peer`.
    pub(super) fn local(&self, viewer: u32, peer: u32) -> NodeId {
        let (viewer, peer) = (self.nodes[viewer as usize].id, self.nodes[peer as usize].id);
        self.names.as_ref().map_or(peer, |names| names.local(viewer, peer))
    }

    fn fetch(&mut self, place: u32, slot: u8, cause: u64, name: synod_crypto::Hash) {
        let node = &mut self.nodes[place as usize];
        let bytes = node.storage.read(slot, name);
        let bytes = if node.rot > 0 && node.disk.chance(node.rot) { None } else { bytes };
        let at = self.now + node.disk.between(50_000, 500_000) + node.sync_extra;
        let (tie, life) = (node.ties.tie(), node.incarnation);
        let work = Work::Loaded { name, bytes };
        self.plan.push(at, tie, cause, Happening::Work { place, life, slot, work });
    }

    fn output(&mut self, place: u32, slot: u8, cause: u64, output: Box<dyn Any + Send>) {
        let node = &mut self.nodes[place as usize];
        let machine = node.slots[usize::from(slot)].number;
        for routed in (self.connector)(node.id, machine, output) {
            match routed {
                Routed::Machine(number, value) => match node.slot_of(number) {
                    Some(slot) => {
                        node.backlog.push_back((cause, slot, Work::Input { value, external: false }));
                    }
                    None => unreachable!("a connector names a machine of its own node"),
                },
                Routed::Harness(output) => {
                    let told = Told { time: Time(self.now), node: node.id, machine, output };
                    self.reports.push_back(Report::Told(told));
                }
            }
        }
    }

    /// A frame that did not decode is a strike against its link. X6: an honest node blames no honest one.
    pub(super) fn blamed(&mut self, place: u32, peer: NodeId, fault: &Fault) {
        let id = self.nodes[place as usize].id;
        let global = match &self.names {
            Some(names) => names.global(id, peer),
            None => Some(peer),
        };
        let accused = global.and_then(|id| self.places.get(&id)).cloned().unwrap_or_default();
        if fault.code == UNDECODABLE {
            for from in &accused {
                self.network.strike(*from, place, self.now, &mut self.plan);
            }
        }
        if !self.nodes[place as usize].honest() {
            return;
        }
        self.stats.blames += 1;
        let honest = !accused.is_empty() && accused.iter().all(|at| self.nodes[*at as usize].honest());
        let name = fault.name;
        if honest && !name.starts_with("suspected") && !self.options.excused.contains(&name) {
            let what = format!("blames honest node {} for {name}", peer.0);
            self.violate(Violation::new("X6", what), Some(id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(count: u32) -> Deed {
        let body = Bytes::new();
        Deed::Send { to: To::Set(NodeSet::first(count).without(NodeId(1))), queue: Queue::CONTROL, body }
    }

    fn reached(deeds: &[Deed]) -> Vec<u32> {
        match deeds.last() {
            Some(Deed::Send { to: To::Set(set), .. }) => set.iter().map(|id| id.0).collect(),
            _ => Vec::new(),
        }
    }

    #[test]
    fn a_crash_can_fall_between_any_two_recipients() {
        let expected: [&[u32]; 4] = [&[], &[2], &[2, 3], &[0, 2, 3]];
        for (units, expected) in (0_u64..).zip(expected) {
            let mut deeds = vec![Deed::Output(Box::new(())), send(4), Deed::Output(Box::new(()))];
            cut(&mut deeds, 1 + units, NodeId(1));
            assert_eq!(reached(&deeds), expected, "after {units} recipients");
        }
    }

    #[test]
    fn a_crash_after_nothing_leaves_nothing_but_what_has_no_consequence() {
        let rule = synod_machine::Rule { protocol: "p", name: "r" };
        let mut deeds = vec![Deed::Applied(rule), send(3)];
        cut(&mut deeds, 0, NodeId(1));
        assert_eq!(deeds.len(), 1);
        let mut all = vec![send(3), send(3)];
        cut(&mut all, 4, NodeId(1));
        assert_eq!(all.len(), 2, "the last boundary is behind everything");
    }
}
