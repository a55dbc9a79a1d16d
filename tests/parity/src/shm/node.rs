//! One node of the rig: its process as far as it can be had within this one.

use core::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use synod_crypto::Hash;
use synod_journal::Journal;
use synod_machine::Condition;
use synod_machine::host::LaneLog;
use synod_shm::{
    Builder, Crypto, Door, Doorbell, Handle, Hosting, Keeper, Lanes, Neighbour, Neighbourhood, Porter, Rest,
    Running, poller,
};
use synod_sim::{Crypto as Scheme, Keyring};

use crate::net::{Board, Ears, Gate, Gated, Listening, Scratch, lane_log};
use crate::{Disk, JobGate, Opening, Plan, Seat};

const CLUSTER: &[u8] = b"parity";

/// Where a node stands.
pub(super) struct Ground<T> {
    pub(super) plan: Arc<Plan<T>>,
    pub(super) board: Arc<Board<T>>,
    pub(super) place: usize,
    pub(super) doors: Arc<PathBuf>,
}

impl<T: Clone + Debug + Send + 'static> Ground<T> {
    fn seat(&self) -> &Seat {
        &self.plan.seats[self.place]
    }

    fn door(&self, place: usize) -> PathBuf {
        self.doors.join(format!("node-{place}"))
    }

    fn open(&self, machine: u8, log: LaneLog, gate: &Arc<JobGate>) -> Box<dyn synod_machine::host::Hosted> {
        let (own, seed, gate) = (self.seat().id, self.plan.seed, gate.clone());
        (self.plan.open)(Opening { own, machine, log, seed, gate })
    }

    /// The members: the lower calls the higher, and a guest calls all.
    fn neighbours(&self) -> Vec<Neighbour> {
        let uid = synod_shm::hand::own_user();
        let others = (0..self.plan.members()).filter(|other| *other != self.place);
        let calls = |other: usize| !self.seat().id.is_member() || self.place < other;
        others
            .map(|other| Neighbour {
                node: self.plan.seats[other].id,
                uid,
                door: calls(other).then(|| self.door(other)),
            })
            .collect()
    }
}

/// What lives and dies with the process; in the order in which it ends.
struct Process<T> {
    porter: Porter,
    running: Running,
    crypto: JoinHandle<()>,
    keeper: Option<Keeper>,
    handle: Handle,
    ears: Arc<Ears<T>>,
}

/// A node, whether it runs or not. Members keep a journal, guests nothing.
pub(super) struct Member<T> {
    ground: Ground<T>,
    process: Option<Process<T>>,
    lives: u64,
    gate: Arc<Gate>,
    jobs: Arc<JobGate>,
    scratch: Scratch,
}

impl<T: Clone + Debug + Send + 'static> Member<T> {
    /// Makes the journal and starts the first life.
    pub(super) fn start(ground: Ground<T>) -> Self {
        let (gate, jobs, scratch) = (Gate::new(), Arc::default(), Scratch::new());
        let mut member = Self { ground, process: None, lives: 0, gate, jobs, scratch };
        if member.ground.seat().id.is_member() {
            let disk = Gated::open(member.scratch.path(), &member.gate);
            Journal::create(disk, &member.layout()).expect("an empty directory takes a journal");
        }
        member.boot();
        member
    }

    fn layout(&self) -> synod_journal::Config {
        let lanes = u8::try_from(self.ground.seat().machines.len()).expect("few machines");
        let layout = synod_journal::Config::new(Hash::of(CLUSTER).0, self.ground.seat().id.0, lanes);
        synod_journal::Config { segment_bytes: 1 << 20, ..layout }
    }

    /// The lanes as they were recovered, and their way to the disk.
    fn journal(&self) -> (Vec<LaneLog>, Option<(Keeper, Lanes)>) {
        if !self.ground.seat().id.is_member() {
            let fresh = || LaneLog { condition: Condition::Fresh, records: Vec::new() };
            return (self.ground.seat().machines.iter().map(|_| fresh()).collect(), None);
        }
        let disk = Gated::open(self.scratch.path(), &self.gate);
        let opened = Journal::open(disk, self.layout()).expect("the journal is there and whole");
        assert_eq!(opened.damage, None, "no record that was durable is missing");
        let kept = synod_shm::keep(opened.journal, 1 << 30).expect("a thread");
        (opened.lanes.into_iter().map(lane_log).collect(), Some(kept))
    }

    /// Starts a life: recovers the journal and the machines, opens the door, calls the others.
    pub(super) fn boot(&mut self) {
        self.gate.set(Disk::Works);
        self.jobs.set(false);
        self.lives += 1;
        let ground = &self.ground;
        let (plan, id) = (&ground.plan, ground.seat().id);
        let ears = Ears::open(&ground.board, ground.place, id, &plan.route);
        let (logs, kept) = self.journal();
        let keys = Keyring::new(Scheme::Real, plan.seed).keys(u64::from(id.0));
        let (runs, crypto) = Crypto::thread(keys).expect("a thread");
        let fatal = {
            let ears = ears.clone();
            Arc::new(move |_: &synod_shm::Error| ears.write(|log| log.ended += 1))
        };
        let mut builder = Builder::new(id)
            .crypto(runs)
            .observer(Arc::new(Listening(ears.clone())))
            .connector(Listening(ears.clone()))
            .fatal(fatal)
            .for_guests(&if id.is_member() { plan.for_guests() } else { Vec::new() });
        for (machine, log) in ground.seat().machines.iter().zip(logs) {
            builder = builder.machine(Hosting::new(*machine, ground.open(*machine, log, &self.jobs)));
        }
        let (keeper, lanes) = kept.unzip();
        if let Some(lanes) = lanes {
            builder = builder.lanes(lanes);
        }
        let bell = Doorbell::new().expect("a bell");
        let ropes = bell.ropes().clone();
        let (station, handle) = builder.build(&ropes).expect("the plan is sound");
        let door = id.is_member().then(|| {
            let path = ground.door(ground.place);
            // The door of an earlier life stays behind; nobody is there.
            let _ = std::fs::remove_file(&path);
            Door::bind(&path).expect("a door")
        });
        let known = Neighbourhood { incarnation: self.lives, door, neighbours: ground.neighbours() };
        let porter = Porter::start(&station, &ropes, known).expect("a thread");
        let running = Running::start(poller(vec![station], Rest::Yield, bell), None).expect("a thread");
        self.process = Some(Process { porter, running, crypto, keeper, handle, ears });
    }

    /// Ends the life at once, if there is one: first the disk stops, then nobody is let in, then the threads end.
    pub(super) fn crash(&mut self) {
        let Some(Process { porter, running, crypto, keeper, ears, .. }) = self.process.take() else { return };
        ears.close();
        self.gate.die();
        drop(porter);
        self.jobs.set(false);
        running.stop().expect("the poller did not panic");
        crypto.join().expect("no job panicked");
        // The disk is gone, which the journal may or may not have met.
        drop(keeper.map(Keeper::close));
    }

    pub(super) fn stop(mut self) {
        let Some(Process { porter, running, crypto, keeper, .. }) = self.process.take() else { return };
        self.jobs.set(false);
        drop(porter);
        running.stop().expect("the poller did not panic");
        crypto.join().expect("no job panicked");
        if let Some(keeper) = keeper {
            keeper.close().expect("the disk works");
        }
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.process.as_ref().expect("the node runs").handle
    }

    pub(super) const fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    pub(super) const fn jobs(&self) -> &Arc<JobGate> {
        &self.jobs
    }
}

impl<T> Drop for Member<T> {
    /// A test that fails must not wait for a disk that is held or a job that nobody lets go.
    fn drop(&mut self) {
        self.gate.die();
        self.jobs.set(false);
    }
}
