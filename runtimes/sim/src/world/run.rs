//! The world and its loop.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use synod_crypto::Keys;
use synod_machine::Time;
use synod_quorum::NodeId;

use super::node::{Node, Status};
use super::setup::{
    Connector, Factory, Kinds, Memory, Names, Options, Route, Script, Setup, Strategies, Twins,
};
use crate::audit::{Audit, Digest};
use crate::checker::{Checker, Violation};
use crate::deed::Deed;
use crate::draw::{Draws, Stream};
use crate::faulty::{Board, Strategy};
use crate::happening::{Happening, Plan, Work};
use crate::harness::{Desk, Harness, Report, Wish};
use crate::network::{NetEvent, Network, NetworkConfig};
use crate::scenario::{Family, Incidents};
use crate::stats::Stats;
use crate::toy::Keyring;
use crate::trace::Trace;

/// A strategy at work, with its draws.
pub(super) struct Actor {
    pub(super) strategy: Box<dyn Strategy>,
    pub(super) draws: Stream,
}

/// All nodes, links and disks of one run, and its virtual time.
pub struct World {
    pub(super) now: u64,
    pub(super) options: Options,
    pub(super) draws: Draws,
    pub(super) keyring: Keyring,
    pub(super) factory: Box<Factory>,
    pub(super) other: Option<Box<Factory>>,
    pub(super) script: Option<Box<dyn Script>>,
    pub(super) kinds: Box<Kinds>,
    pub(super) connector: Box<Connector>,
    pub(super) route: Box<Route>,
    pub(super) memory: Option<Memory>,
    pub(super) names: Option<Box<dyn Names>>,
    pub(super) twins: Vec<Twins>,
    pub(super) strategies: Box<Strategies>,
    pub(super) checkers: Vec<Box<dyn Checker>>,
    pub(super) nodes: Vec<Node>,
    pub(super) places: BTreeMap<NodeId, Vec<u32>>,
    pub(super) network: Network,
    pub(super) plan: Plan,
    pub(super) reports: VecDeque<Report>,
    pub(super) actors: Vec<Option<Actor>>,
    pub(super) corrupted: BTreeMap<NodeId, Keys>,
    pub(super) board: Board,
    pub(super) incidents: Incidents,
    pub(super) healed: bool,
    pub(super) audit: Audit,
    pub(super) stats: Stats,
    pub(super) trace: Trace,
    pub(super) violation: Option<Violation>,
    /// The only frames that are heard.
    pub(super) heard: Option<BTreeSet<u32>>,
    pub(super) deeds: Vec<Deed>,
    pub(super) wish_ties: Stream,
}

impl World {
    /// Builds the world; nothing happens before [`World::run`].
    ///
    /// # Panics
    /// When two seats have the same id and twin number, or a seat hosts two machines of one number.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        let Setup { seats, factory, connector, links, route, memory, names, .. } = setup;
        let (other, script, kinds, words) = (setup.other, setup.script, setup.kinds, setup.words);
        let (disks, checkers, twins, strategies) =
            (setup.disks, setup.checkers, setup.twins, setup.strategies);
        let options = setup.options;
        crate::panics::name_run(&options.token);
        let draws = Draws::new(options.seed);
        let keyring = Keyring::new(options.crypto, options.seed);
        let mut places: BTreeMap<NodeId, Vec<u32>> = BTreeMap::new();
        let mut nodes = Vec::with_capacity(seats.len());
        for (seat, place) in seats.iter().zip(0_u32..) {
            let mut numbers = seat.machines.clone();
            numbers.sort_unstable();
            assert!(numbers.windows(2).all(|pair| pair[0] != pair[1]), "machine numbers of a node differ");
            let twins = places.entry(seat.id).or_default();
            assert!(twins.iter().all(|at| nodes_twin(&nodes, *at) != seat.twin), "two seats are one node");
            twins.push(place);
            let storage = disks(seat.id, seat.machines.len());
            let keys = keyring.keys(u64::from(seat.id.0));
            nodes.push(Node::new((seat.id, seat.twin, place), &seat.machines, storage, keys, draws));
        }
        let config = NetworkConfig {
            draws,
            latency: options.latency,
            jitter: options.jitter.0,
            egress: options.egress,
            regions: seats.iter().map(|seat| seat.region).collect(),
        };
        let network = Network::new(&config, |a, b| {
            let (a, b) = (seats[a].id, seats[b].id);
            if a == b { None } else { links(a, b) }
        });
        let mut world = Self {
            now: 0,
            trace: Trace::new(options.trace).in_words(words),
            heard: options.heard.as_ref().map(|heard| heard.iter().copied().collect()),
            options,
            draws,
            keyring,
            factory,
            other,
            script,
            kinds,
            connector,
            route,
            memory,
            names,
            twins,
            strategies,
            checkers,
            nodes,
            places,
            network,
            plan: Plan::new(),
            reports: VecDeque::new(),
            actors: Vec::new(),
            corrupted: BTreeMap::new(),
            board: Board::default(),
            incidents: Incidents::default(),
            healed: false,
            audit: Audit::default(),
            stats: Stats::default(),
            violation: None,
            deeds: Vec::new(),
            wish_ties: draws.stream("harness", 0),
        };
        world.begin();
        world
    }

    /// Plans the first start of every node and marks twins as the faulty pair they are. A second instance without a
    /// script of its own waits until a fault starts it.
    fn begin(&mut self) {
        for place in self.all_places() {
            let node = &mut self.nodes[place as usize];
            node.byzantine = self.twins.iter().any(|twins| twins.id == node.id);
            node.mark = node.byzantine.then_some(Family::ByzTwins.name());
            node.dormant = node.twin > 0 && !node.byzantine;
            let at = node.lots.below(self.options.start_within.0.max(1));
            let tie = node.ties.tie();
            if !node.dormant {
                self.plan.push(at, tie, 0, Happening::Start { place });
            }
        }
    }

    /// Runs until virtual time `until`, the harness's stop, or the first violation.
    ///
    /// # Errors
    /// The first violation; the world does not run on after it.
    pub fn run(&mut self, until: Time, harness: &mut dyn Harness) -> Result<(), Violation> {
        crate::panics::name_run(&self.options.token);
        loop {
            if self.report(harness) {
                return self.verdict();
            }
            match self.plan.next() {
                Some(at) if at <= until.0 && self.violation.is_none() => self.step(),
                _ => break,
            }
        }
        self.now = self.now.max(until.0);
        self.verdict()
    }

    /// Gives the harness what waits for it; whether it wants to stop.
    fn report(&mut self, harness: &mut dyn Harness) -> bool {
        let mut stop = false;
        while let Some(report) = self.reports.pop_front() {
            let mut desk = Desk { now: Time(self.now), wishes: Vec::new(), stopped: false };
            match report {
                Report::Told(told) => harness.told(told, &mut desk),
                Report::Refused(refused) => harness.refused(refused, &mut desk),
                Report::Wake(token) => harness.wake(token, &mut desk),
                Report::Started(node, incarnation) => harness.started(node, incarnation, &mut desk),
            }
            stop |= desk.stopped;
            self.grant(desk.wishes);
        }
        stop
    }

    fn grant(&mut self, wishes: Vec<Wish>) {
        for wish in wishes {
            match wish {
                Wish::Input { after, node, machine, value } => {
                    self.input(node, machine, after, value);
                }
                Wish::Wake { after, token } => {
                    let tie = self.wish_ties.tie();
                    self.plan.push(self.now.saturating_add(after.0), tie, 0, Happening::Wake(token));
                }
            }
        }
    }

    fn verdict(&self) -> Result<(), Violation> {
        self.violation.clone().map_or(Ok(()), Err)
    }

    /// Ends the run: the checkers' last words.
    ///
    /// # Errors
    /// The first violation of the run.
    pub fn finish(&mut self) -> Result<(), Violation> {
        let mut checkers = core::mem::take(&mut self.checkers);
        for checker in &mut checkers {
            if let Err(violation) = checker.finish(Time(self.now)) {
                self.violate(violation, None);
            }
        }
        self.checkers = checkers;
        self.verdict()
    }

    /// Handles the next thing on the heap.
    fn step(&mut self) {
        if self.options.redraw.is_some_and(|redraw| self.stats.events >= redraw.after) {
            self.redraw();
        }
        let Some((at, cause, what)) = self.plan.pop() else { return };
        assert!(at >= self.now, "time never falls");
        self.now = at;
        match what {
            Happening::Net(event) => self.net(event),
            Happening::Work { place, life, slot, work } => {
                if self.living(place, life) {
                    self.offer(place, slot, cause, work);
                }
            }
            Happening::Tick { place, life, slot } => self.tick(place, life, slot),
            Happening::Synced { place, life } => self.synced(place, life),
            Happening::Jobs { place, life, slot, dones } => self.answered(place, life, slot, dones),
            Happening::Resume { place } => self.pump(place),
            Happening::Start { place } => self.start(place),
            Happening::CrashDue { place, life } => self.crash_due(place, life),
            Happening::Strategy { place, slot, by, deed } => self.strategic((place, slot), by, cause, deed),
            Happening::Incident { index, step } => self.incident(index, step),
            Happening::Input { place, machine, value } => self.given(place, machine, value),
            Happening::Wake(token) => self.reports.push_back(Report::Wake(token)),
        }
        if self.stats.events > self.options.events_max {
            self.violate(Violation::new("runaway", "more events than the run may have"), None);
        }
    }

    fn net(&mut self, event: NetEvent) {
        let now = self.now;
        match event {
            NetEvent::Arrive { channel } => {
                if let Some(parcel) = self.network.arrive(channel, now) {
                    self.deliver(parcel);
                }
            }
            NetEvent::Datagram { dir, parcel } => {
                if self.network.land(dir, &parcel) {
                    self.deliver(*parcel);
                }
            }
            NetEvent::Connect { pair, generation } => {
                self.network.connect(pair, generation, now, &mut self.plan);
            }
            NetEvent::Expire { pair, generation } => {
                self.network.expire(pair, generation, now, &mut self.plan);
            }
            NetEvent::Notice { place, peer, life, link } => {
                if self.network.current(place, life) {
                    let peer = self.local(place, peer);
                    for slot in self.slots(place) {
                        self.offer(place, slot, 0, Work::Link { peer, link });
                    }
                }
            }
        }
    }

    pub(super) fn violate(&mut self, mut violation: Violation, node: Option<NodeId>) {
        if self.violation.is_none() {
            violation.time = Time(self.now);
            violation.node = violation.node.or(node);
            violation.event = self.stats.events;
            violation.evidence.retain(|event| *event < self.stats.events && *event > 0);
            violation.evidence.push(self.stats.events);
            self.violation = Some(violation);
        }
    }

    pub(super) fn living(&self, place: u32, life: u32) -> bool {
        let node = &self.nodes[place as usize];
        node.status == Status::Up && node.incarnation == life
    }

    pub(super) fn all_places(&self) -> core::ops::Range<u32> {
        0..crate::network::place(self.nodes.len())
    }

    pub(super) fn slots(&self, place: u32) -> core::ops::Range<u8> {
        0..u8::try_from(self.nodes[place as usize].slots.len()).unwrap_or(u8::MAX)
    }

    /// Virtual time.
    #[must_use]
    pub const fn now(&self) -> Time {
        Time(self.now)
    }

    /// The rolling digest of everything so far.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.audit.digest()
    }

    /// Counts so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats { net: self.network.stats, ..self.stats.clone() }
    }

    /// The last 200 events, or all of them if the options ask for it.
    #[must_use]
    pub const fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The run's keys.
    #[must_use]
    pub const fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    /// The first violation.
    #[must_use]
    pub const fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// What still waits: entries of the heap and frames in flight. For the simulator's own bounds.
    #[must_use]
    pub fn waiting(&self) -> (usize, u64) {
        (self.plan.len(), self.network.waiting())
    }
}

fn nodes_twin(nodes: &[Node], place: u32) -> u8 {
    nodes[place as usize].twin
}
