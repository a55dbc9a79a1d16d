//! Frames on their way: sending, queueing, arriving.

use std::collections::VecDeque;

use synod_machine::{Full, Queue, QueueSpec};

use super::link::{Channel, Dir, Flight, NetEvent, Pair, Parcel, Weather};
use super::{Latency, Mode};
use crate::draw::Draws;
use crate::happening::Plan;
use crate::stats::NetStats;

/// Most datagrams flying on one directed link.
const FLYING_MAX: u32 = 65_536;
const NONE: u32 = u32::MAX;

/// What a network is built from.
pub(crate) struct NetworkConfig {
    pub(crate) draws: Draws,
    pub(crate) latency: Latency,
    /// Mean of the exponential jitter, in nanoseconds.
    pub(crate) jitter: u64,
    /// Bytes per second each node can send; 0 is unlimited.
    pub(crate) egress: u64,
    /// The region of each place.
    pub(crate) regions: Vec<u32>,
}

/// All links of a world.
pub(crate) struct Network {
    places: usize,
    index: Vec<u32>,
    pub(super) dirs: Vec<Dir>,
    pub(super) pairs: Vec<Pair>,
    pub(super) channels: Vec<Channel>,
    egress: u64,
    pub(super) egress_free: Vec<u64>,
    /// Bytes per second of a place as a whole, by incident.
    pub(super) bands: Vec<(u32, u32, u64)>,
    /// Bytes sent per place since the last look, to find the busiest.
    pub(crate) sent: Vec<u64>,
    pub(super) lives: Vec<u32>,
    pub(super) alive: Vec<bool>,
    pub(super) healed: bool,
    pub(crate) stats: NetStats,
}

impl Network {
    /// Links every two places for which `mode` gives one.
    pub(crate) fn new(config: &NetworkConfig, mode: impl Fn(usize, usize) -> Option<Mode>) -> Self {
        let places = config.regions.len();
        let mut network = Self {
            places,
            index: vec![NONE; places * places],
            dirs: Vec::new(),
            pairs: Vec::new(),
            channels: Vec::new(),
            egress: config.egress,
            egress_free: vec![0; places],
            bands: Vec::new(),
            sent: vec![0; places],
            lives: vec![0; places],
            alive: vec![false; places],
            healed: false,
            stats: NetStats::default(),
        };
        for a in 0..places {
            for b in a + 1..places {
                if let Some(mode) = mode(a, b) {
                    network.join(config, (a, b), mode);
                }
            }
        }
        network
    }

    fn join(&mut self, config: &NetworkConfig, (a, b): (usize, usize), mode: Mode) {
        for (from, to) in [(a, b), (b, a)] {
            let entity = place(from) as u64 * (1 << 32) + u64::from(place(to));
            self.index[from * self.places + to] = place(self.dirs.len());
            self.dirs.push(Dir {
                from: place(from),
                to: place(to),
                latency: config.latency.one_way(config.regions[from], config.regions[to]).0,
                jitter: config.jitter,
                stream: config.draws.stream("link", entity),
                blocked: 0,
                clogged_until: 0,
                weathers: Vec::new(),
                band_free: 0,
                flying: 0,
                channels: Vec::new(),
            });
        }
        let entity = place(a) as u64 * (1 << 32) + u64::from(place(b));
        let stream = config.draws.stream("pair", entity);
        let up = mode == Mode::Datagram;
        self.pairs.push(Pair { mode, up, generation: 0, keeps: true, noticed: 0, strikes: [0; 2], stream });
    }

    pub(crate) fn dir(&self, from: u32, to: u32) -> Option<u32> {
        let at = (from as usize).checked_mul(self.places)? + to as usize;
        self.index.get(at).copied().filter(|dir| *dir != NONE)
    }

    /// Takes a frame that leaves at `now`.
    pub(crate) fn send(&mut self, now: u64, spec: QueueSpec, parcel: Parcel, plan: &mut Plan) {
        let Some(dir) = self.dir(parcel.from, parcel.to) else {
            self.stats.unlinked += 1;
            return;
        };
        self.stats.sent += 1;
        self.stats.bytes += parcel.body.len() as u64;
        self.sent[parcel.from as usize] += parcel.body.len() as u64;
        let leaves = self.leaves(parcel.from, now, parcel.body.len() as u64);
        if leaves > now && !self.bands.is_empty() {
            // So that what waits for the node's bandwidth goes at once when the bound ends.
            let line = &mut self.dirs[dir as usize];
            line.band_free = line.band_free.max(leaves);
        }
        match self.pairs[Dir::pair(dir) as usize].mode {
            Mode::Datagram => self.send_datagram(leaves, dir, parcel, plan),
            Mode::Connection => self.send_queued(leaves, (dir, spec), parcel, plan),
        }
    }

    fn leaves(&mut self, from: u32, now: u64, bytes: u64) -> u64 {
        let bands = self.bands.iter().filter(|(_, place, _)| *place == from).map(|(_, _, rate)| *rate);
        let Some(rate) = bands.chain((self.egress > 0).then_some(self.egress)).min() else { return now };
        let free = &mut self.egress_free[from as usize];
        let took = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
        *free = now.max(*free).saturating_add(u64::try_from(took).unwrap_or(u64::MAX >> 2));
        *free
    }

    /// Bounds what a place sends, over all its links, until [`Network::calm`].
    pub(crate) fn band(&mut self, incident: u32, place: u32, rate: u64) {
        self.bands.push((incident, place, rate));
    }

    fn send_datagram(&mut self, leaves: u64, dir_at: u32, parcel: Parcel, plan: &mut Plan) {
        let dir = &mut self.dirs[dir_at as usize];
        let copies = dir.copies();
        if copies == 0 || dir.blocked > 0 || dir.flying >= FLYING_MAX {
            self.stats.lost += 1;
            return;
        }
        self.stats.duplicated += u64::from(copies - 1);
        for _ in 0..copies {
            let arrival = dir.transit(leaves, parcel.body.len() as u64);
            dir.flying += 1;
            let tie = dir.stream.tie();
            let event = NetEvent::Datagram { dir: dir_at, parcel: Box::new(parcel.clone()) };
            plan.net(arrival, tie, parcel.cause, event);
        }
    }

    fn send_queued(&mut self, leaves: u64, way: (u32, QueueSpec), parcel: Parcel, plan: &mut Plan) {
        let (dir, spec) = way;
        let at = self.channel(dir, (parcel.machine, parcel.queue), spec);
        if self.channels[at as usize].full() {
            match spec.full {
                Full::EvictOldest => drop(self.channels[at as usize].flights.pop_front()),
                Full::DropNewest => {}
                Full::Reset => {
                    self.stats.overflows += 1;
                    self.overflow(leaves, at, plan);
                }
            }
            self.stats.lost += 1;
            if spec.full != Full::EvictOldest {
                return;
            }
        }
        let pair = &self.pairs[Dir::pair(dir) as usize];
        let (up, generation) = (pair.up, pair.generation);
        let line = &mut self.dirs[dir as usize];
        // The draws of a frame do not depend on whether the connection is up.
        let arrival = line.transit(leaves, parcel.body.len() as u64);
        let tie = line.stream.tie();
        let channel = &mut self.channels[at as usize];
        let arrival = if up { arrival.max(channel.last) } else { u64::MAX };
        let Parcel { body, cause, touched, .. } = parcel;
        channel.flights.push_back(Flight { arrival, generation, body, cause, touched });
        if up {
            channel.last = arrival;
            plan.net(arrival, tie, cause, NetEvent::Arrive { channel: at });
        }
    }

    /// The queue of `machine` on `dir`, made on first use.
    fn channel(&mut self, dir: u32, (machine, queue): (u8, Queue), spec: QueueSpec) -> u32 {
        let known = self.dirs[dir as usize].channels.iter().copied().find(|&at| {
            let channel = &self.channels[at as usize];
            channel.machine == machine && channel.queue == queue
        });
        if let Some(at) = known {
            return at;
        }
        let at = place(self.channels.len());
        let flights = VecDeque::new();
        self.channels.push(Channel { dir, machine, queue, spec, flights, last: 0, waiting: 0 });
        self.dirs[dir as usize].channels.push(at);
        at
    }

    /// The front of a queue, if it has arrived and nothing blocks it.
    pub(crate) fn arrive(&mut self, at: u32, now: u64) -> Option<Parcel> {
        let channel = &mut self.channels[at as usize];
        let dir = &self.dirs[channel.dir as usize];
        let front = channel.flights.front().filter(|front| front.arrival <= now)?;
        if dir.blocked > 0 {
            if front.generation != self.pairs[Dir::pair(channel.dir) as usize].generation {
                // Left over from a connection that is gone: nobody sends it again.
                channel.flights.pop_front();
                self.stats.lost += 1;
            }
            return None;
        }
        let Flight { body, cause, touched, .. } = channel.flights.pop_front()?;
        channel.waiting += 1;
        self.stats.delivered += 1;
        let (from, to, machine, queue) = (dir.from, dir.to, channel.machine, channel.queue);
        Some(Parcel { from, to, machine, queue, body, cause, touched, channel: Some(at) })
    }

    /// A datagram's time has come; whether it gets through.
    pub(crate) fn land(&mut self, dir: u32, parcel: &Parcel) -> bool {
        let line = &mut self.dirs[dir as usize];
        line.flying -= 1;
        let through = line.blocked == 0 && self.alive[parcel.to as usize];
        if through {
            self.stats.delivered += 1;
        } else {
            self.stats.lost += 1;
        }
        through
    }

    /// The receiver handled a frame of this queue.
    pub(crate) fn taken(&mut self, channel: u32) {
        let channel = &mut self.channels[channel as usize];
        channel.waiting = channel.waiting.saturating_sub(1);
    }

    /// Adds a disturbance to one directed link.
    pub(crate) fn disturb(&mut self, from: u32, to: u32, weather: Weather) {
        if let Some(dir) = self.dir(from, to) {
            self.dirs[dir as usize].weathers.push(weather);
        }
    }

    /// Nothing arrives on this link before `until`.
    pub(crate) fn clog(&mut self, from: u32, to: u32, until: u64) {
        if let Some(dir) = self.dir(from, to) {
            let dir = &mut self.dirs[dir as usize];
            dir.clogged_until = dir.clogged_until.max(until);
        }
    }

    /// The place that sent the most bytes since the last call.
    pub(crate) fn busiest(&mut self) -> Option<u32> {
        let busiest = (0..self.places).max_by_key(|at| (self.sent[*at], usize::MAX - at)).map(place);
        self.sent.iter_mut().for_each(|bytes| *bytes = 0);
        busiest
    }

    /// Bytes in flight, for the simulator's own bound.
    pub(crate) fn waiting(&self) -> u64 {
        self.channels.iter().map(|channel| channel.flights.len() as u64).sum()
    }
}

pub(crate) fn place(at: usize) -> u32 {
    u32::try_from(at).expect("a world has fewer than 2^32 places and links")
}

impl Network {
    /// Draws delays, losses and connections anew from here on.
    pub(crate) fn redraw(&mut self, draws: Draws) {
        for dir in &mut self.dirs {
            let entity = u64::from(dir.from) << 32 | u64::from(dir.to);
            dir.stream = draws.stream("link", entity);
            for weather in &mut dir.weathers {
                weather.stream = draws.stream("weather", u64::from(weather.incident) << 48 ^ entity);
            }
        }
        for (pair, entity) in self.pairs.iter_mut().zip(0_u64..) {
            pair.stream = draws.stream("pair", entity);
        }
    }
}
