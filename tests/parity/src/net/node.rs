//! One node of the rig: its process as far as it can be had within this one.

use core::fmt::Debug;
use std::sync::Arc;

use synod_crypto::{Hash, Seed};
use synod_journal::Journal;
use synod_machine::host::LaneLog;
use synod_machine::{Condition, Span};
use synod_net::{Address, Config, Guest, Hosting, Keeper, Lane, Limits, Listener, Node, Role, Transport};
use synod_quorum::{Epoch, NodeId, Roster};
use synod_sim::{Crypto, Keyring};

use super::disk::{Gate, Gated, Scratch};
use super::ears::{Board, Ears, Listening};
use super::switch::Switch;
use crate::{Disk, JobGate, Opening, Plan, Seat};

const CLUSTER: &[u8] = b"parity";

/// Where a node stands.
pub(super) struct Ground<T> {
    pub(super) plan: Arc<Plan<T>>,
    pub(super) board: Arc<Board<T>>,
    pub(super) place: usize,
}

impl<T: Clone + Debug + Send + 'static> Ground<T> {
    fn seat(&self) -> &Seat {
        &self.plan.seats[self.place]
    }

    /// The secret behind a place's connections; jobs sign with the run's keys instead, as in the simulator.
    fn secret(place: usize) -> Seed {
        let mut bytes = [0x61; 32];
        bytes[..8].copy_from_slice(&(place as u64).to_le_bytes());
        Seed::new(bytes)
    }

    fn roster(&self) -> Roster {
        let member = |place| synod_quorum::Member { key: Self::secret(place).public(), power: 1 };
        let members = (0..self.plan.members()).map(member).collect();
        Roster::new(Epoch(1), members).expect("distinct keys")
    }

    fn keys(&self) -> synod_crypto::Keys {
        Keyring::new(Crypto::Real, self.plan.seed).keys(u64::from(self.seat().id.0))
    }

    fn open(&self, machine: u8, log: LaneLog, gate: &Arc<JobGate>) -> Box<dyn synod_machine::host::Hosted> {
        let (own, seed, gate) = (self.seat().id, self.plan.seed, gate.clone());
        (self.plan.open)(Opening { own, machine, log, seed, gate })
    }
}

/// What lives and dies with the process.
struct Process<T> {
    node: Node,
    keeper: Keeper,
    ears: Arc<Ears<T>>,
}

/// A member, whether it runs or not.
pub(super) struct Member<T> {
    ground: Ground<T>,
    process: Option<Process<T>>,
    gate: Arc<Gate>,
    jobs: Arc<JobGate>,
    scratch: Scratch,
    door: Address,
}

impl<T: Clone + Debug + Send + 'static> Member<T> {
    /// Makes the journal and starts the first life.
    pub(super) fn start(ground: Ground<T>, switch: &Switch) -> Self {
        let mut member = Self {
            ground,
            process: None,
            gate: Gate::new(),
            jobs: Arc::default(),
            scratch: Scratch::new(),
            door: Address::Tcp(String::new()),
        };
        let disk = Gated::open(member.scratch.path(), &member.gate);
        Journal::create(disk, &member.layout()).expect("an empty directory takes a journal");
        member.boot(switch);
        member
    }

    fn layout(&self) -> synod_journal::Config {
        let lanes = u8::try_from(self.ground.seat().machines.len()).expect("few machines");
        let layout = synod_journal::Config::new(Hash::of(CLUSTER).0, self.ground.seat().id.0, lanes);
        synod_journal::Config { segment_bytes: 1 << 20, ..layout }
    }

    fn config(&self) -> Config {
        let limits = Limits { penalty: Span::millis(20), ..Limits::default() };
        Config {
            own: self.ground.seat().id,
            role: Role::Member,
            seed: Ground::<T>::secret(self.ground.place),
            cluster_name: "parity".to_owned(),
            cluster: Hash::of(CLUSTER),
            roster: self.ground.roster(),
            transport: Transport::Tls,
            limits,
        }
    }

    /// Starts a life: recovers the journal and the machines, listens, dials.
    pub(super) fn boot(&mut self, switch: &Switch) {
        self.gate.set(Disk::Works);
        self.jobs.set(false);
        let Ground { plan, board, place } = &self.ground;
        let ears = Ears::open(board, *place, self.ground.seat().id, &plan.route);
        let disk = Gated::open(self.scratch.path(), &self.gate);
        let opened = Journal::open(disk, self.layout()).expect("the journal is there and whole");
        assert_eq!(opened.damage, None, "no record that was durable is missing");
        let (keeper, lanes) = synod_net::keep(opened.journal, 1 << 30, Box::new(|_| ())).expect("a thread");
        let hostings = self.hostings(opened.lanes.into_iter().map(lane_log).collect(), lanes);
        let fatal = {
            let ears = ears.clone();
            Arc::new(move |_: &synod_net::Error| ears.write(|log| log.ended += 1))
        };
        let listeners = [listener(), listener()];
        let [at, door] =
            [0, 1].map(|n: usize| listeners[n].address().expect("a bound socket has an address"));
        let [peers, guests] = listeners;
        let for_guests = plan.for_guests();
        let mut builder = Node::builder(self.config())
            .keys(self.ground.keys())
            .pool(plan.pool)
            .observer(Arc::new(Listening(ears.clone())))
            .connector(Listening(ears.clone()))
            .fatal(fatal)
            .listen(peers)
            .listen_guests(guests, &for_guests);
        for hosting in hostings {
            builder = builder.machine(hosting);
        }
        for other in 0..plan.members() {
            if let Some(address) = switch.address(*place, other) {
                builder = builder.address(plan.seats[other].id, address);
            }
        }
        switch.listens(*place, &at);
        let node = builder.start().expect("the plan is sound");
        self.door = door;
        self.process = Some(Process { node, keeper, ears });
    }

    fn hostings(&self, logs: Vec<LaneLog>, lanes: Vec<Lane>) -> Vec<Hosting> {
        let machines = self.ground.seat().machines.iter();
        let parts = machines.zip(logs.into_iter().zip(lanes));
        parts
            .map(|(machine, (log, lane))| {
                Hosting::new(*machine, self.ground.open(*machine, log, &self.jobs)).lane(lane)
            })
            .collect()
    }

    /// Ends the life at once, if there is one: first the disk stops, then nobody listens, then the threads end.
    pub(super) fn crash(&mut self, switch: &Switch) {
        let Some(Process { node, keeper, ears }) = self.process.take() else { return };
        ears.close();
        self.gate.die();
        switch.unplug(self.ground.place);
        self.jobs.set(false);
        node.stop().expect("no thread of the node panicked");
        // The disk is gone, which the journal may or may not have met.
        let _ = keeper.close();
    }

    pub(super) fn stop(mut self) {
        let Some(Process { node, keeper, .. }) = self.process.take() else { return };
        self.jobs.set(false);
        node.stop().expect("no thread of the node panicked");
        keeper.close().expect("the disk works");
    }

    pub(super) fn node(&self) -> Option<&Node> {
        self.process.as_ref().map(|process| &process.node)
    }

    pub(super) const fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    pub(super) const fn jobs(&self) -> &Arc<JobGate> {
        &self.jobs
    }

    /// Where guests come in.
    pub(super) fn door(&self) -> Address {
        self.door.clone()
    }
}

impl<T> Drop for Member<T> {
    /// A test that fails must not wait for a disk that is held or a job that nobody lets go.
    fn drop(&mut self) {
        self.gate.die();
        self.jobs.set(false);
    }
}

fn listener() -> Listener {
    Listener::tcp("127.0.0.1:0").expect("loopback has a free port")
}

pub(crate) fn lane_log(lane: synod_journal::LaneLog) -> LaneLog {
    let condition = match lane.condition {
        synod_journal::Condition::Fresh => Condition::Fresh,
        synod_journal::Condition::Clean => Condition::Clean,
        synod_journal::Condition::Damaged => Condition::Damaged,
    };
    LaneLog { condition, records: lane.records }
}

/// A guest of all members; it keeps nothing.
pub(super) fn guest<T: Clone + Debug + Send + 'static>(ground: &Ground<T>, doors: &[Address]) -> Node {
    let [machine] = ground.seat().machines[..] else { unreachable!("a guest has one machine") };
    let log = LaneLog { condition: Condition::Fresh, records: Vec::new() };
    let ears = Ears::open(&ground.board, ground.place, ground.seat().id, &ground.plan.route);
    let guest = Guest {
        seed: Ground::<T>::secret(ground.place),
        cluster_name: "parity".to_owned(),
        cluster: Hash::of(CLUSTER),
        roster: ground.roster(),
        addresses: (0..).map(NodeId).zip(doors.iter().cloned()).collect(),
        transport: Transport::Tls,
    };
    guest
        .node(Hosting::new(machine, ground.open(machine, log, &Arc::default())))
        .keys(ground.keys())
        .pool(ground.plan.pool)
        .observer(Arc::new(Listening(ears.clone())))
        .connector(Listening(ears))
        .start()
        .expect("the plan is sound")
}
