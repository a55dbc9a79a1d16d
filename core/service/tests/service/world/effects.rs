//! What machines say happens: effects of nodes and clients in the world.

use std::collections::BTreeSet;

use synod_crypto::Hash;
use synod_machine::broadcast::Submit;
use synod_machine::{Bounded, Effect, Event, Job, Machine, Recover, To, Turn, Wall};
use synod_quorum::NodeId;
use synod_service::{Client, ClientMessage, ClientOutput, Executor, ExecutorOutput};

use super::{Packet, World};
use crate::board::Board;

impl World {
    pub(crate) fn step_node(&mut self, at: usize, event: Event<Executor<Board>>) {
        let Some(mut machine) = self.nodes[at].machine.take() else { return };
        let mut effects = Vec::new();
        let wall = Wall(self.now.0 / 1_000_000);
        machine.step(event, &mut Turn::new(self.now, wall, &mut self.rng, &mut effects));
        machine.invariants();
        assert!(machine.bytes() <= machine.bytes_max(), "memory is above its formula");
        self.nodes[at].machine = Some(machine);
        for effect in effects {
            if let Some(fuse) = &mut self.nodes[at].fuse {
                if *fuse == 0 {
                    return self.crash(at);
                }
                *fuse -= 1;
            }
            self.node_effect(at, effect);
        }
    }

    fn node_effect(&mut self, at: usize, effect: Effect<Executor<Board>>) {
        let id = NodeId(u32::try_from(at).expect("few"));
        match effect {
            Effect::Send { to: To::Node(to), message } => self.send_from_node(at, to, message),
            Effect::Send { to: To::Set(set), message } => {
                set.iter().for_each(|to| self.send_from_node(at, to, message.clone()));
            }
            Effect::Arm { timer, after } => {
                self.nodes[at].timers.insert(timer, self.now + after);
            }
            Effect::Disarm(timer) => {
                self.nodes[at].timers.remove(&timer);
            }
            Effect::Persist(record) => self.nodes[at].records.push(record),
            Effect::Compact => {
                let mut records = Vec::new();
                self.executor(at).snapshot(&mut |record| records.push(record));
                self.nodes[at].records = records;
            }
            Effect::Store { name, bytes } => {
                assert_eq!(name, Hash::of(&bytes));
                self.nodes[at].blobs.insert(name, bytes);
            }
            Effect::Load(name) => self.net.push_back(Packet::Loaded { to: at, name }),
            Effect::Erase(name) => {
                self.nodes[at].blobs.remove(&name).expect("only what was stored is released");
            }
            Effect::Compute(job) => {
                let done = job.run(&self.node_keys);
                self.net.push_back(Packet::NodeDone { to: at, done });
            }
            Effect::Output(output) => self.node_output(at, output),
            Effect::Blame { peer, fault } => self.faults.push((id, peer, fault)),
            Effect::Applied(_) | Effect::Note(_) => {}
        }
    }

    fn send_from_node(&mut self, at: usize, to: NodeId, mut message: ClientMessage) {
        let from = NodeId(u32::try_from(at).expect("few"));
        if self.nodes[at].lie.is_some_and(|lie| !lie(&mut message)) {
            return;
        }
        let packet = || match to.0.checked_sub(NodeId::GUESTS.0) {
            Some(guest) => {
                let to = usize::try_from(guest).expect("few");
                Packet::ToGuest { from, to, message: message.clone() }
            }
            None => {
                Packet::ToNode { from, to: usize::try_from(to.0).expect("few"), message: message.clone() }
            }
        };
        for _ in 0..self.copies() {
            self.net.push_back(packet());
        }
    }

    fn copies(&mut self) -> usize {
        match () {
            () if self.lossy > 0 && self.from.below(self.lossy) == 0 => 0,
            () if self.doubling > 0 && self.from.below(self.doubling) == 0 => 2,
            () => 1,
        }
    }

    fn node_output(&mut self, at: usize, output: ExecutorOutput) {
        match &output {
            ExecutorOutput::Submit(Submit::Payload { ticket, payload }) => {
                self.nodes[at].tickets.insert(payload.clone(), *ticket);
                self.submitted.push(payload.clone());
            }
            ExecutorOutput::Submit(Submit::Barrier(ticket)) => {
                let behind = self.log.len() as u64;
                self.nodes[at].barriers.push((behind, *ticket));
            }
            ExecutorOutput::Submit(Submit::Applied { position, root }) => {
                self.nodes[at].applied = position.0;
                if let Some(root) = root {
                    let roots = self.roots.entry(position.0).or_default();
                    roots.insert(at, *root);
                    let differ = roots.values().collect::<BTreeSet<_>>().len();
                    assert_eq!(differ, 1, "equal roots at equal positions");
                }
            }
            _ => {}
        }
        self.nodes[at].outputs.push(output);
    }

    pub(crate) fn step_guest(&mut self, at: usize, event: Event<Client>) {
        let id = NodeId(NodeId::GUESTS.0 + u32::try_from(at).expect("few"));
        let mut effects = Vec::new();
        let wall = Wall(self.now.0 / 1_000_000);
        let machine = &mut self.guests[at].machine;
        machine.step(event, &mut Turn::new(self.now, wall, &mut self.rng, &mut effects));
        machine.invariants();
        assert!(machine.bytes() <= machine.bytes_max(), "memory is above its formula");
        for effect in effects {
            self.guest_effect(at, id, effect);
        }
    }

    fn guest_effect(&mut self, at: usize, id: NodeId, effect: Effect<Client>) {
        match effect {
            Effect::Send { to: To::Node(to), message } => {
                self.guests[at].sent.push((to, message.clone()));
                let to = usize::try_from(to.0).expect("few");
                let copies = if self.nodes[to].deaf { 0 } else { self.copies() };
                for _ in 0..copies {
                    self.net.push_back(Packet::ToNode { from: id, to, message: message.clone() });
                }
            }
            Effect::Arm { timer, after } => {
                self.guests[at].timers.insert(timer, self.now + after);
            }
            Effect::Disarm(timer) => {
                self.guests[at].timers.remove(&timer);
            }
            Effect::Compute(job) => {
                let done = job.run(&self.guests[at].keys);
                self.net.push_back(Packet::GuestDone { to: at, done });
            }
            Effect::Output(ClientOutput::Outcome { tag, outcome, .. }) => {
                let before = self.guests[at].outcomes.insert(tag, outcome);
                assert!(before.is_none(), "one outcome per request");
            }
            Effect::Blame { peer, fault } => {
                self.guests[at].blamed.insert((peer, fault.name));
            }
            _ => {}
        }
    }
}
