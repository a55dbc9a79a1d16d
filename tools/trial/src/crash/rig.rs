//! One member, rebuilt from what a crash left and driven by hand: every frame, input and tick is somebody's choice.
//!
//! Jobs are answered and syncs end at once; what it says, writes and delivers is shown as sightings.

use std::any::Any;
use std::collections::VecDeque;

use synod_crypto::{Hash, Keys};
use synod_hotstuff::Message;
use synod_machine::broadcast::{Submit, Ticket};
use synod_machine::host::{At, ErasedDone, ErasedJob, Frame, Hosted, LaneLog, Lsn, Platform};
use synod_machine::{Condition, Message as _, Span, Time, Unrecoverable, Wall};
use synod_quorum::NodeId;
use synod_sim::{Capture, Deed, Moment, Routed, Seen as Event, Storage, Written};
use synod_wire::Bytes;

use super::tape::{lane_of, seen};
use crate::oracle::{Seen, Sighting};
use crate::sight::{REPLICA, Sight, opened};
use crate::strategy::sealed;
use crate::systems::hotstuff::{EXECUTOR, Plan, connect};

/// The monotonic clock when the member comes back; any will do.
const BEGIN: u64 = 5_000_000_000;
/// Most ticks of one pause.
const TICKS_MAX: u32 = 256;

/// What waits for a machine.
enum Work {
    Done(ErasedDone),
    Loaded(Hash, Option<Bytes>),
    Input(Box<dyn Any + Send>),
    Durable(Lsn),
}

/// A member that runs alone.
pub(super) struct Rig {
    own: NodeId,
    keys: Keys,
    /// By lane.
    hosts: [Box<dyn Hosted>; 2],
    storage: Box<dyn Storage>,
    now: u64,
    wall: u64,
    work: VecDeque<(u8, Work)>,
    tickets: u64,
    /// What it showed since somebody looked last.
    pub(super) sightings: Vec<Sighting>,
    /// What its replica said since somebody looked last.
    pub(super) said: Vec<Message>,
    /// What the journal found.
    pub(super) condition: Condition,
}

const fn machine_of(lane: u8) -> u8 {
    if lane == 0 { EXECUTOR } else { REPLICA }
}

impl Rig {
    /// Opens the disk and builds both machines. `wall` is the wall clock, in Unix milliseconds.
    pub(super) fn open(
        plan: &Plan,
        own: (NodeId, Keys),
        mut storage: Box<dyn Storage>,
        wall: u64,
    ) -> Result<Self, Unrecoverable> {
        let logs = storage.open()?;
        Self::on(plan, own, (storage, logs), wall)
    }

    /// Builds both machines on these logs; the disk they came from takes what follows.
    pub(super) fn on(
        plan: &Plan,
        (own, keys): (NodeId, Keys),
        (storage, logs): (Box<dyn Storage>, Vec<LaneLog>),
        wall: u64,
    ) -> Result<Self, Unrecoverable> {
        let logs: [_; 2] = logs.try_into().map_err(|_| Unrecoverable("a member has two lanes".to_owned()))?;
        let [executor, replica] = logs;
        let opened = Event::Opened { condition: replica.condition, records: replica.records.clone() };
        let condition = replica.condition;
        let hosts = [plan.machine(own, EXECUTOR, executor, 2)?, plan.machine(own, REPLICA, replica, 2)?];
        let mut rig = Self {
            own,
            keys,
            hosts,
            storage,
            now: BEGIN,
            wall,
            work: VecDeque::new(),
            tickets: 1 << 40,
            sightings: Vec::new(),
            said: Vec::new(),
            condition,
        };
        for event in [opened, Event::Start] {
            let mut sightings = Vec::new();
            Sight::of(&rig.moment(&event), &mut sightings);
            rig.sightings.append(&mut sightings);
        }
        Ok(rig)
    }

    /// The block it is locked on, as far as it wrote so.
    pub(super) fn locked(&self) -> Option<Hash> {
        self.sightings.iter().rev().find_map(|sighting| match sighting.seen {
            Seen::Safety(safety) => Some(safety.lock.digest),
            _ => None,
        })
    }

    fn moment<'a>(&self, seen: &'a Event) -> Moment<'a> {
        Moment {
            event: 0,
            cause: 0,
            time: Time(self.now),
            node: self.own,
            twin: 0,
            incarnation: 2,
            honest: true,
            machine: REPLICA,
            seen,
            deeds: &[],
            crashed: false,
        }
    }

    /// Gives both machines their first event.
    pub(super) fn start(&mut self) {
        for lane in 0..2 {
            self.call(lane, |host, at, platform| host.start(at, platform));
        }
        self.drain();
    }

    /// The replica hears a message.
    pub(super) fn hear(&mut self, from: NodeId, message: &Message) {
        let frame = Frame { from, queue: message.queue(), body: sealed(message) };
        self.call(lane_of(REPLICA), |host, at, platform| host.frame(frame, at, platform));
        self.drain();
    }

    /// Its user asks for this payload to be ordered.
    pub(super) fn submit(&mut self, payload: Bytes) {
        self.tickets += 1;
        let submit = Submit::Payload { ticket: Ticket(self.tickets), payload };
        if self.hosts[usize::from(lane_of(REPLICA))].room() > 0 {
            self.work.push_back((lane_of(REPLICA), Work::Input(Box::new(submit))));
            self.drain();
        }
    }

    /// So much time passes; timers fire when they are due.
    pub(super) fn pass(&mut self, lasts: Span) {
        let until = self.now + lasts.0;
        for _ in 0..TICKS_MAX {
            let due = |lane: u8| self.hosts[usize::from(lane)].deadline().map(|at| (at.0, lane));
            let Some((at, lane)) = [0, 1].into_iter().filter_map(due).min().filter(|(at, _)| *at <= until)
            else {
                break;
            };
            self.go_to(at);
            self.call(lane, |host, at, platform| host.tick(at, platform));
            self.drain();
        }
        self.go_to(until);
    }

    fn go_to(&mut self, at: u64) {
        let ahead = at.saturating_sub(self.now);
        self.now += ahead;
        self.wall += ahead / 1_000_000;
    }

    /// One call of one machine, and what it asks for.
    fn call(&mut self, lane: u8, call: impl FnOnce(&mut dyn Hosted, At, &mut dyn Platform)) {
        let at = At { now: Time(self.now), wall: Wall(self.wall) };
        let mut deeds = Vec::new();
        let mut capture = Capture { deeds: &mut deeds, storage: &mut *self.storage, lane };
        call(&mut *self.hosts[usize::from(lane)], at, &mut capture);
        let mut compact = false;
        for deed in deeds {
            if machine_of(lane) == REPLICA {
                let mut shown = seen(&self.moment(&Event::Done), &deed);
                self.sightings.append(&mut shown);
            }
            compact |= matches!(deed, Deed::Compact);
            self.carry(lane, deed);
        }
        if compact {
            let snapshots = self.hosts.iter().map(|host| host.snapshot()).collect();
            self.storage.compact(snapshots);
        }
        while self.storage.begin() {
            match self.storage.commit() {
                Ok(moved) => {
                    self.work.extend(moved.into_iter().map(|(lane, lsn)| (lane, Work::Durable(lsn))));
                }
                Err(failed) => unreachable!("a disk in order takes what is written: {}", failed.0),
            }
        }
    }

    fn carry(&mut self, lane: u8, deed: Deed) {
        match deed {
            Deed::Send { body, .. } => {
                self.said.extend(opened(&body).filter(|_| machine_of(lane) == REPLICA));
            }
            Deed::Append { lsn, keep, record } => {
                self.storage.write(lane, lsn, Written::Record(keep, record));
            }
            Deed::Store { lsn, name, bytes } => self.storage.write(lane, lsn, Written::Blob(name, bytes)),
            Deed::Erase { lsn, name } => self.storage.write(lane, lsn, Written::Erase(name)),
            Deed::Load(name) => {
                let bytes = self.storage.read(lane, name);
                self.work.push_back((lane, Work::Loaded(name, bytes)));
            }
            Deed::Submit { peer, cost, job: Some(job) } => {
                let runner = self.hosts[usize::from(lane)].runner();
                let dones = runner(vec![ErasedJob { job, peer, cost }], &self.keys);
                self.work.extend(dones.into_iter().map(|done| (lane, Work::Done(done))));
            }
            Deed::Output(output) => {
                for routed in connect(self.own, machine_of(lane), output) {
                    if let Routed::Machine(machine, value) = routed {
                        self.work.push_back((lane_of(machine), Work::Input(value)));
                    }
                }
            }
            _ => {}
        }
    }

    /// Works until nothing waits.
    fn drain(&mut self) {
        while let Some((lane, work)) = self.work.pop_front() {
            self.call(lane, |host, at, platform| match work {
                Work::Done(done) => host.done(done, at, platform),
                Work::Loaded(name, bytes) => host.loaded(name, bytes, at, platform),
                Work::Input(value) => host.input(value, at, platform),
                Work::Durable(lsn) => host.durable(lsn, platform),
            });
        }
    }
}
