//! Connections: made, broken, blocked and healed.

use synod_machine::Link;

use super::Mode;
use super::link::{Dir, Flight, NetEvent, WeatherKind};
use super::transport::Network;
use crate::happening::Plan;

const MS: u64 = 1_000_000;

/// What arrives later than this has not left its sender when a connection breaks.
const FLYING_MAX: u64 = 1_000 * MS;
/// Undecodable frames of one connection until the receiver closes it.
const STRIKES: u32 = 3;

impl Network {
    /// A place started: connections to everything alive are made soon.
    pub(crate) fn rise(&mut self, place: u32, now: u64, plan: &mut Plan) {
        self.lives[place as usize] += 1;
        self.alive[place as usize] = true;
        for pair in self.pairs_of(place) {
            let wait = self.pairs[pair as usize].stream.between(MS / 10, 5 * MS);
            self.plan_connect(pair, now + wait, plan);
        }
    }

    /// A place died: what it had sent may still arrive, what was sent to it is lost.
    pub(crate) fn fall(&mut self, place: u32, now: u64, plan: &mut Plan) {
        self.alive[place as usize] = false;
        for pair in self.pairs_of(place) {
            if self.pairs[pair as usize].mode == Mode::Connection {
                self.sever(pair, now, plan);
            }
        }
        for dir in self.dirs_into(place) {
            for at in self.dirs[dir as usize].channels.clone() {
                let channel = &mut self.channels[at as usize];
                self.stats.lost += channel.flights.len() as u64;
                channel.flights.clear();
                channel.waiting = 0;
            }
        }
    }

    /// Breaks the connection of two places, if there is one.
    pub(crate) fn reset(&mut self, a: u32, b: u32, now: u64, plan: &mut Plan) {
        let Some(dir) = self.dir(a, b) else { return };
        let pair = Dir::pair(dir);
        if self.pairs[pair as usize].up && self.pairs[pair as usize].mode == Mode::Connection {
            self.stats.resets += 1;
            self.sever(pair, now, plan);
            self.again(pair, now, plan);
        }
    }

    /// A frame of `from` did not decode at `to`; the third of a connection closes it.
    pub(crate) fn strike(&mut self, from: u32, to: u32, now: u64, plan: &mut Plan) {
        let Some(dir) = self.dir(from, to) else { return };
        let strikes = &mut self.pairs[Dir::pair(dir) as usize].strikes[usize::from(dir % 2 == 1)];
        *strikes += 1;
        if *strikes == STRIKES {
            self.reset(from, to, now, plan);
        }
    }

    /// Both ends see the connection go; in each direction a drawn prefix of what was flying still arrives.
    fn sever(&mut self, pair_at: u32, now: u64, plan: &mut Plan) {
        let pair = &mut self.pairs[pair_at as usize];
        let was_up = core::mem::replace(&mut pair.up, false);
        pair.generation += 1;
        pair.keeps = pair.stream.chance(500_000);
        let mut seen = now + pair.stream.log_uniform(MS / 10, 300 * MS);
        for dir in [2 * pair_at, 2 * pair_at + 1] {
            let stream = &mut self.pairs[pair_at as usize].stream;
            let (all, share) = (stream.chance(500_000), stream.draw());
            let open = self.dirs[dir as usize].blocked == 0;
            for at in self.dirs[dir as usize].channels.clone() {
                let flights = &mut self.channels[at as usize].flights;
                // What still waited for bandwidth dies with the connection, or both ends would mourn it that long.
                let leaves = |flight: &&Flight| flight.arrival <= now + FLYING_MAX;
                let flying = flights.iter().take_while(leaves).count();
                let drawn = (u128::from(share) * (flying as u128 + 1)) >> 64;
                let keep = if all { flying } else { usize::try_from(drawn).unwrap_or(0) };
                let keep = if open && was_up { keep } else { 0 };
                self.stats.lost += (flights.len() - keep) as u64;
                flights.truncate(keep);
                seen = seen.max(flights.back().map_or(0, |last| last.arrival + 1));
            }
        }
        let pair = &mut self.pairs[pair_at as usize];
        pair.noticed = pair.noticed.max(seen);
        if was_up {
            self.notice(pair_at, seen, Link::Down, plan);
        }
    }

    /// Schedules the next attempt to connect.
    fn again(&mut self, pair_at: u32, now: u64, plan: &mut Plan) {
        let pair = &mut self.pairs[pair_at as usize];
        let wait = pair.stream.log_uniform(10 * MS, 10_000 * MS);
        let wait = if self.healed { wait.min(100 * MS) } else { wait };
        self.plan_connect(pair_at, now + wait, plan);
    }

    fn plan_connect(&mut self, pair_at: u32, at: u64, plan: &mut Plan) {
        let pair = &mut self.pairs[pair_at as usize];
        let event = NetEvent::Connect { pair: pair_at, generation: pair.generation };
        plan.net(at.max(pair.noticed + 1), pair.stream.tie(), 0, event);
    }

    /// Both ends try to connect; what waited for the connection leaves.
    pub(crate) fn connect(&mut self, pair_at: u32, generation: u32, now: u64, plan: &mut Plan) {
        let (forth, back) = (2 * pair_at, 2 * pair_at + 1);
        let (a, b) = (self.dirs[forth as usize].from, self.dirs[forth as usize].to);
        let pair = &self.pairs[pair_at as usize];
        let stale = pair.up || pair.generation != generation || pair.mode == Mode::Datagram;
        if stale || !self.alive[a as usize] || !self.alive[b as usize] {
            return;
        }
        if self.dirs[forth as usize].blocked + self.dirs[back as usize].blocked > 0 {
            let wait = self.pairs[pair_at as usize].stream.log_uniform(50 * MS, 1_000 * MS);
            return self.plan_connect(pair_at, now + wait, plan);
        }
        let pair = &mut self.pairs[pair_at as usize];
        pair.up = true;
        pair.strikes = [0; 2];
        let keeps = pair.keeps;
        self.notice(pair_at, now, Link::Up, plan);
        for dir in [forth, back] {
            self.depart(dir, keeps, now, plan);
        }
    }

    /// Frames that waited for a connection leave, or are dropped.
    fn depart(&mut self, dir_at: u32, keeps: bool, now: u64, plan: &mut Plan) {
        let generation = self.pairs[Dir::pair(dir_at) as usize].generation;
        let dir = &mut self.dirs[dir_at as usize];
        for at in dir.channels.clone() {
            let channel = &mut self.channels[at as usize];
            if !keeps {
                let before = channel.flights.len();
                channel.flights.retain(|flight| flight.arrival != u64::MAX);
                self.stats.lost += (before - channel.flights.len()) as u64;
            }
            for flight in channel.flights.iter_mut().filter(|flight| flight.arrival == u64::MAX) {
                flight.arrival = dir.transit(now, flight.body.len() as u64).max(channel.last);
                flight.generation = generation;
                channel.last = flight.arrival;
                plan.net(flight.arrival, dir.stream.tie(), flight.cause, NetEvent::Arrive { channel: at });
            }
        }
    }

    /// Tells both ends, if alive, what became of their connection.
    fn notice(&mut self, pair_at: u32, at: u64, link: Link, plan: &mut Plan) {
        let dir = &self.dirs[2 * pair_at as usize];
        let ends = [(dir.from, dir.to), (dir.to, dir.from)];
        for (place, peer) in ends.into_iter().filter(|(place, _)| self.alive[*place as usize]) {
            let tie = self.pairs[pair_at as usize].stream.tie();
            let life = self.lives[place as usize];
            plan.net(at, tie, 0, NetEvent::Notice { place, peer, life, link });
        }
    }

    /// Whether a notice is for the life the place is living.
    pub(crate) fn current(&self, place: u32, life: u32) -> bool {
        self.alive[place as usize] && self.lives[place as usize] == life
    }

    /// A queue is full and its rule is to reset the link.
    pub(super) fn overflow(&mut self, now: u64, channel: u32, plan: &mut Plan) {
        let dir = &self.dirs[self.channels[channel as usize].dir as usize];
        let (from, to) = (dir.from, dir.to);
        if self.pairs[Dir::pair(self.channels[channel as usize].dir) as usize].up {
            self.reset(from, to, now, plan);
        } else {
            self.channels[channel as usize].flights.clear();
        }
    }

    /// Nothing passes from `from` to `to` until as many unblocks as blocks.
    pub(crate) fn block(&mut self, from: u32, to: u32, now: u64, plan: &mut Plan) {
        let Some(dir) = self.dir(from, to) else { return };
        self.dirs[dir as usize].blocked += 1;
        let pair_at = Dir::pair(dir);
        let pair = &mut self.pairs[pair_at as usize];
        if pair.mode == Mode::Connection && pair.up {
            let wait = pair.stream.log_uniform(1_000 * MS, 20_000 * MS);
            let event = NetEvent::Expire { pair: pair_at, generation: pair.generation };
            plan.net(now + wait, pair.stream.tie(), 0, event);
        }
    }

    /// Takes one block away; what stalled leaves again.
    pub(crate) fn unblock(&mut self, from: u32, to: u32, now: u64, plan: &mut Plan) {
        let Some(dir) = self.dir(from, to) else { return };
        let line = &mut self.dirs[dir as usize];
        line.blocked = line.blocked.saturating_sub(1);
        if line.blocked == 0 {
            self.resume(dir, now, plan);
        }
    }

    fn resume(&mut self, dir_at: u32, now: u64, plan: &mut Plan) {
        let dir = &mut self.dirs[dir_at as usize];
        for at in dir.channels.clone() {
            let channel = &mut self.channels[at as usize];
            let mut last = 0;
            for flight in channel.flights.iter_mut().take_while(|flight| flight.arrival != u64::MAX) {
                if flight.arrival <= now {
                    flight.arrival = dir.transit(now, flight.body.len() as u64);
                }
                flight.arrival = flight.arrival.max(last);
                last = flight.arrival;
                plan.net(last, dir.stream.tie(), flight.cause, NetEvent::Arrive { channel: at });
            }
            channel.last = channel.last.max(last);
        }
    }

    /// Ends the disturbances of one incident.
    pub(crate) fn calm(&mut self, incident: u32, now: u64, plan: &mut Plan) {
        let unbound = |band: &(u32, u32, u64)| band.0 == incident;
        for (_, place, _) in self.bands.extract_if(.., |band| unbound(band)).collect::<Vec<_>>() {
            self.unbind(place, now, plan);
        }
        for at in 0..self.dirs.len() {
            let weathers = &mut self.dirs[at].weathers;
            let before = weathers.len();
            weathers.retain(|weather| weather.incident != incident);
            let banded = weathers.iter().any(|weather| matches!(weather.kind, WeatherKind::Band(_)));
            if weathers.len() < before && !banded {
                self.drain(super::place(at), now, plan);
            }
        }
    }

    /// What waits for the bandwidth of a place goes at once, unless another bound holds it.
    fn unbind(&mut self, place: u32, now: u64, plan: &mut Plan) {
        if self.bands.iter().any(|(_, other, _)| *other == place) {
            return;
        }
        self.egress_free[place as usize] = 0;
        for at in 0..self.dirs.len() {
            let dir = &self.dirs[at];
            let banded = dir.weathers.iter().any(|weather| matches!(weather.kind, WeatherKind::Band(_)));
            if dir.from == place && !banded {
                self.drain(super::place(at), now, plan);
            }
        }
    }

    /// What waited for bandwidth that is bounded no longer goes at once, in order.
    fn drain(&mut self, dir_at: u32, now: u64, plan: &mut Plan) {
        let dir = &mut self.dirs[dir_at as usize];
        if core::mem::take(&mut dir.band_free) <= now {
            return;
        }
        let soonest = now.max(dir.clogged_until) + dir.latency;
        for at in dir.channels.clone() {
            let channel = &mut self.channels[at as usize];
            for flight in channel.flights.iter_mut().filter(|flight| flight.arrival != u64::MAX) {
                if flight.arrival > soonest {
                    flight.arrival = soonest;
                    plan.net(soonest, dir.stream.tie(), flight.cause, NetEvent::Arrive { channel: at });
                }
            }
            channel.last = channel.last.min(soonest);
        }
    }

    /// Gives up a connection that is blocked since it was doubted.
    pub(crate) fn expire(&mut self, pair_at: u32, generation: u32, now: u64, plan: &mut Plan) {
        let pair = &self.pairs[pair_at as usize];
        let blocked: u32 =
            [2 * pair_at, 2 * pair_at + 1].iter().map(|d| self.dirs[*d as usize].blocked).sum();
        if pair.up && pair.generation == generation && blocked > 0 {
            self.stats.resets += 1;
            self.sever(pair_at, now, plan);
            self.again(pair_at, now, plan);
        }
    }

    /// Links between the places of a core become whole and stay so; all others stay as they are.
    pub(crate) fn heal(&mut self, core: &[bool], now: u64, plan: &mut Plan) {
        self.healed = true;
        for (_, place, _) in self.bands.extract_if(.., |band| core[band.1 as usize]).collect::<Vec<_>>() {
            self.unbind(place, now, plan);
        }
        for at in 0..self.dirs.len() {
            let dir = &mut self.dirs[at];
            if !core[dir.from as usize] || !core[dir.to as usize] {
                continue;
            }
            dir.weathers.clear();
            dir.clogged_until = 0;
            let dir_at = super::place(at);
            self.drain(dir_at, now, plan);
            let dir = &mut self.dirs[at];
            if core::mem::replace(&mut dir.blocked, 0) > 0 {
                self.resume(dir_at, now, plan);
            }
            if at % 2 == 1 && !self.pairs[at / 2].up {
                self.again(Dir::pair(dir_at), now, plan);
            }
        }
    }

    fn pairs_of(&self, place: u32) -> Vec<u32> {
        let mut pairs: Vec<u32> = self.dirs_into(place).into_iter().map(Dir::pair).collect();
        pairs.dedup();
        pairs
    }

    fn dirs_into(&self, place: u32) -> Vec<u32> {
        (0..super::place(self.dirs.len())).filter(|d| self.dirs[*d as usize].to == place).collect()
    }

    /// Whether a connection (or a datagram link) is usable; for tests and status.
    pub(crate) fn is_up(&self, a: u32, b: u32) -> bool {
        self.dir(a, b).is_some_and(|dir| self.pairs[Dir::pair(dir) as usize].up)
    }
}
