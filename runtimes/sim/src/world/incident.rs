//! Carrying out the incidents of a scenario.

use synod_machine::Span;
use synod_quorum::NodeId;

use super::node::Status;
use super::run::World;
use crate::draw::{PPM, Stream};
use crate::happening::Happening;
use crate::network::{SHAPES, Weather, WeatherKind};
use crate::scenario::{Family, Incident};
use crate::storage::{Harm, Loss};
use crate::trace::AsideKind;

/// Steps of an incident: its beginning, then, for those that come back, one number per return.
const BEGIN: u32 = 0;
const END: u32 = u32::MAX;

/// Between two looks of a partition that follows the busiest sender.
const FOLLOWED: Span = Span::millis(200);
/// How long replacing a program takes.
const UPGRADE: Span = Span::millis(50);

/// Parts per million, from the amount of an incident.
fn share(amount: i64) -> u32 {
    u32::try_from(amount).unwrap_or(0).min(PPM)
}

impl World {
    /// Schedules the incidents of a scenario. To be called once, before the first run.
    pub fn load(&mut self, incidents: &[Incident]) {
        self.incidents.list = incidents.to_vec();
        for (incident, index) in incidents.iter().zip(0_u32..) {
            let tie = self.draws.stream("incident tie", u64::from(incident.id)).tie();
            let (at, end) = (incident.at.0, incident.at.0.saturating_add(incident.lasts.0));
            self.plan.push(at.max(self.now), tie, 0, Happening::Incident { index, step: BEGIN });
            self.plan.push(
                end.max(self.now),
                tie.wrapping_add(1),
                0,
                Happening::Incident { index, step: END },
            );
        }
    }

    /// One step of an incident; nothing happens once the core is healed.
    pub(super) fn incident(&mut self, index: u32, step: u32) {
        if self.healed {
            return;
        }
        if self.incidents.replaced.contains(&index) {
            return;
        }
        let Some(incident) = self.incidents.list.get(index as usize).cloned() else { return };
        self.audit.word(u64::from(incident.id) << 32 | u64::from(step));
        self.told_of(&incident, step);
        if step == BEGIN {
            self.stats.incidents += 1;
            self.stats.families.insert(incident.family);
        }
        let mut stream = self.draws.stream("incident", u64::from(incident.id));
        match incident.family {
            Family::NetLoss
            | Family::NetDup
            | Family::NetReorder
            | Family::NetDelay
            | Family::NetSpike
            | Family::NetBand => self.weather(&incident, step),
            Family::NetReset | Family::NetClog => self.connection(&incident, step),
            Family::NetSplit | Family::NetOneWay | Family::NetFlap => {
                self.partition(&incident, (index, step), &mut stream);
            }
            Family::NodeCrash
            | Family::NodeStorm
            | Family::NodePause
            | Family::NodeSlow
            | Family::NodeVersion
            | Family::NodeClone => {
                self.process(&incident, step, &mut stream);
            }
            Family::ClockOffset | Family::ClockDrift | Family::ClockStep => self.clock(&incident, step),
            Family::ClientRetry | Family::ClientBurst | Family::ClientDup => self.malice(&incident, step),
            family if family.is_byzantine() => self.malice(&incident, step),
            _ => self.disk(&incident, step),
        }
    }

    /// Puts the beginning or the end of a fault beside the events.
    fn told_of(&mut self, incident: &Incident, step: u32) {
        let name = incident.family.name();
        let victims = if incident.nodes.is_empty() { Vec::new() } else { self.victims(incident) };
        match step {
            BEGIN => self.aside(AsideKind::Begin, victims, || format!("{name} begins")),
            END if incident.lasts > Span::ZERO => {
                self.aside(AsideKind::End, victims, || format!("{name} ends"))
            }
            _ => {}
        }
    }

    fn victims(&self, incident: &Incident) -> Vec<u32> {
        let all = self.all_places();
        if incident.nodes.is_empty() {
            return all.collect();
        }
        incident.nodes.iter().copied().filter(|place| all.contains(place)).collect()
    }

    fn weather(&mut self, incident: &Incident, step: u32) {
        if step == END {
            return self.network.calm(incident.id, self.now, &mut self.plan);
        }
        let amount = incident.amount.unsigned_abs();
        let ppm = u32::try_from(amount).unwrap_or(u32::MAX);
        let kind = match incident.family {
            Family::NetLoss => WeatherKind::Loss(ppm),
            Family::NetDup => WeatherKind::Duplicate(ppm),
            Family::NetReorder => WeatherKind::Reorder(Span::micros(amount).0),
            Family::NetDelay if incident.amount < 0 => WeatherKind::LogNormal(Span::micros(amount).0),
            Family::NetDelay => WeatherKind::Delay(Span::micros(amount).0),
            Family::NetSpike => WeatherKind::Spike(10_000, Span::micros(amount).0),
            _ => WeatherKind::Band(amount),
        };
        let victims = self.victims(incident);
        if incident.family == Family::NetBand && incident.amount < 0 {
            victims.iter().for_each(|place| self.network.band(incident.id, *place, amount));
            return;
        }
        let pair = incident.family == Family::NetBand && victims.len() == 2 && victims[0] != victims[1];
        for from in self.all_places() {
            for to in self.all_places() {
                let ends = (victims.contains(&from), victims.contains(&to));
                if (ends.0 && ends.1) || (!pair && (ends.0 || ends.1)) {
                    let entity = u64::from(incident.id) << 32 | u64::from(from) << 16 | u64::from(to);
                    let stream = self.draws.stream("weather", entity);
                    self.network.disturb(from, to, Weather { incident: incident.id, kind, stream });
                }
            }
        }
    }

    fn connection(&mut self, incident: &Incident, step: u32) {
        let (&[a, b], BEGIN) = (&incident.nodes[..], step) else { return };
        if incident.family == Family::NetReset {
            self.network.reset(a, b, self.now, &mut self.plan);
        } else {
            let until = self.now.saturating_add(incident.lasts.0);
            self.network.clog(a, b, until);
            self.network.clog(b, a, until);
        }
    }

    fn partition(&mut self, incident: &Incident, (index, step): (u32, u32), stream: &mut Stream) {
        let open = self.incidents.blocks.remove(&incident.id);
        for (from, to) in open.iter().flatten() {
            self.network.unblock(*from, *to, self.now, &mut self.plan);
        }
        if step == END || (incident.family == Family::NetFlap && open.is_some()) {
            if step != END {
                self.flap(incident, (index, step), stream);
            }
            return;
        }
        if (incident.family, incident.amount) == (Family::NetSplit, 7) {
            self.later(incident, (index, step), FOLLOWED, stream);
        }
        let nodes = self.victims(incident);
        let pairs = match (incident.family, incident.amount) {
            (Family::NetFlap, _) => match nodes[..] {
                [a, b] => vec![(a, b), (b, a)],
                _ => Vec::new(),
            },
            (Family::NetOneWay, _) => {
                let victim = nodes.first().copied();
                self.all_places().filter_map(|to| victim.map(|from| (from, to))).collect()
            }
            (_, 6 | 7) => {
                let busiest = self.network.busiest().unwrap_or(0);
                self.all_places().flat_map(|peer| [(busiest, peer), (peer, busiest)]).collect()
            }
            (_, shape) => {
                let shape = usize::try_from(shape).ok().and_then(|at| SHAPES.get(at));
                shape.map_or_else(Vec::new, |shape| shape.blocks(&nodes, stream))
            }
        };
        for (from, to) in &pairs {
            self.network.block(*from, *to, self.now, &mut self.plan);
        }
        self.incidents.blocks.insert(incident.id, pairs);
        if incident.family == Family::NetFlap {
            self.flap(incident, (index, step), stream);
        }
    }

    /// Schedules the next turn of a flapping link.
    fn flap(&mut self, incident: &Incident, (index, step): (u32, u32), stream: &mut Stream) {
        let half = Span::micros(incident.amount.unsigned_abs().max(1_000)).0 / 2;
        self.later(incident, (index, step), Span(half), stream);
    }

    /// Schedules the next step of an incident, unless it ends before.
    fn later(&mut self, incident: &Incident, (index, step): (u32, u32), after: Span, stream: &mut Stream) {
        let next = Happening::Incident { index, step: step.saturating_add(1).min(END - 1) };
        let end = incident.at.0.saturating_add(incident.lasts.0);
        if self.now + after.0 < end {
            self.plan.push(self.now + after.0, stream.tie(), 0, next);
        }
    }

    fn process(&mut self, incident: &Incident, step: u32, stream: &mut Stream) {
        let loss = match (self.incidents.unsynced, self.incidents.prefixes) {
            (0, _) => Loss::Nothing,
            (_, 0) => Loss::Drawn,
            _ => Loss::Prefix,
        };
        for place in self.victims(incident) {
            let id = self.nodes[place as usize].id;
            match (incident.family, step) {
                (Family::NodeCrash, BEGIN) => {
                    let restart = Span(incident.lasts.0.max(1_000_000));
                    self.crash_at(id, incident.amount.unsigned_abs(), loss, Some(restart));
                }
                (Family::NodeStorm, BEGIN) => {
                    let wait = stream.below(Span::secs(1).0);
                    let restart = Some(incident.lasts.0.max(1_000_000));
                    self.storm(place, wait, loss, restart);
                }
                (Family::NodePause, BEGIN) => self.pause(id, incident.lasts),
                (Family::NodeSlow, BEGIN) => self.slow(id, incident.amount.unsigned_abs().max(1)),
                (Family::NodeSlow, END) => self.slow(id, 100),
                (Family::NodeVersion, BEGIN | END) => self.replace(place, step == BEGIN, loss),
                (Family::NodeClone, BEGIN) => self.clone_node(place),
                (Family::NodeClone, END) => self.end_clone(place),
                _ => {}
            }
        }
    }

    /// The process ends, and one of the other release, or of its own again, starts on its disk.
    fn replace(&mut self, place: u32, other: bool, loss: Loss) {
        self.nodes[place as usize].other_release = other;
        self.crash_place(place, loss, Some(UPGRADE.0));
    }

    /// Starts the second instance of a node on a copy of its disk. Both are faulty from then on: they share a key.
    fn clone_node(&mut self, place: u32) {
        let id = self.nodes[place as usize].id;
        let dormant = |at: &u32| self.nodes[*at as usize].dormant;
        let Some(second) = self.places.get(&id).and_then(|all| all.iter().copied().find(dormant)) else {
            return;
        };
        let Some(disk) = self.nodes[place as usize].storage.copy() else { return };
        self.nodes[second as usize].storage = disk;
        self.nodes[second as usize].dormant = false;
        for at in [place, second] {
            let node = &mut self.nodes[at as usize];
            node.tainted = true;
            node.mark = Some(Family::ByzTwins.name());
        }
        self.start(second);
    }

    /// Ends the second instance for good.
    fn end_clone(&mut self, place: u32) {
        let id = self.nodes[place as usize].id;
        for second in self.places.get(&id).cloned().unwrap_or_default() {
            if self.nodes[second as usize].twin > 0 {
                self.crash_place(second, Loss::Drawn, None);
                self.nodes[second as usize].dormant = true;
            }
        }
    }

    fn storm(&mut self, place: u32, wait: u64, loss: Loss, restart: Option<u64>) {
        let node = &mut self.nodes[place as usize];
        if node.status == Status::Up {
            node.crash = Some(super::node::Crash { after: u64::MAX, loss, restart });
            let (tie, life) = (node.ties.tie(), node.incarnation);
            self.plan.push(self.now + wait, tie, 0, Happening::CrashDue { place, life });
        }
    }

    fn clock(&mut self, incident: &Incident, step: u32) {
        for place in self.victims(incident) {
            let id = self.nodes[place as usize].id;
            match (incident.family, step) {
                (Family::ClockDrift, BEGIN) => self.drift(id, incident.amount),
                (Family::ClockDrift, END) => self.drift(id, 0),
                (Family::ClockOffset, END) => self.step_wall(id, -incident.amount),
                (_, BEGIN) => self.step_wall(id, incident.amount),
                _ => {}
            }
        }
    }

    fn disk(&mut self, incident: &Incident, step: u32) {
        if incident.family == Family::DiskUnsynced {
            let count = |active: u32| if step == BEGIN { active + 1 } else { active.saturating_sub(1) };
            self.incidents.unsynced = count(self.incidents.unsynced);
            if incident.amount < 0 {
                self.incidents.prefixes = count(self.incidents.prefixes);
            }
            return;
        }
        let amount = Span::micros(incident.amount.unsigned_abs());
        let restart = Some(Span(incident.lasts.0.max(1_000_000)));
        for place in self.victims(incident) {
            let id = self.nodes[place as usize].id;
            match (incident.family, step) {
                (Family::DiskSlow, BEGIN) => self.slow_disk(id, amount),
                (Family::DiskSlow, END) => self.slow_disk(id, Span::ZERO),
                (Family::JobDelay, BEGIN) => self.delay_jobs(id, amount),
                (Family::JobDelay, END) => self.delay_jobs(id, Span::ZERO),
                (Family::DiskSyncFail, BEGIN) => {
                    self.nodes[place as usize].write_restart = incident.lasts.0.max(1_000_000);
                    self.harm(id, Harm::SyncFail(true));
                }
                (Family::DiskFull, BEGIN) => {
                    self.nodes[place as usize].write_restart = incident.lasts.0.max(1_000_000);
                    self.harm(id, Harm::Full(true));
                }
                (Family::DiskLie, BEGIN) => drop(self.harm(id, Harm::Lie(true))),
                (Family::DiskLie, END) => {
                    self.crash(id, Loss::Durable, Some(Span::millis(100)));
                    self.harm(id, Harm::Lie(false));
                }
                (Family::DiskRot, BEGIN) => self.rot(id, share(incident.amount)),
                (Family::DiskRot, END) => self.rot(id, 0),
                (Family::DiskTorn, BEGIN) => self.crash(id, Loss::Torn, restart),
                (Family::DiskMisdirect, BEGIN) => drop(self.harm(id, Harm::Misdirect(amount.0))),
                (Family::DiskMisdirect, END) => self.crash(id, Loss::Drawn, Some(Span::millis(100))),
                (Family::DiskRollback, BEGIN) => drop(self.harm(id, Harm::Image)),
                (Family::DiskRollback, END) => self.replace_disk(id, Harm::Rollback, Some(Span::millis(100))),
                (Family::DiskWipe, BEGIN) => self.replace_disk(id, Harm::Wipe, restart),
                _ => {}
            }
        }
    }

    fn replace_disk(&mut self, id: NodeId, harm: Harm, restart: Option<Span>) {
        self.crash(id, Loss::Drawn, restart);
        if self.harm(id, harm) && harm != Harm::Wipe {
            self.forgetful(id);
        }
    }

    /// What a node says that forgot something, and does not know it, is under B8.
    fn forgetful(&mut self, id: NodeId) {
        for place in self.places.get(&id).cloned().unwrap_or_default() {
            self.nodes[place as usize].mark.get_or_insert(Family::ByzAmnesia.name());
        }
    }

    fn malice(&mut self, incident: &Incident, step: u32) {
        for place in self.victims(incident) {
            let id = self.nodes[place as usize].id;
            match (incident.family, step) {
                (Family::ByzAmnesia, BEGIN) => {
                    self.replace_disk(id, Harm::Forget, Some(Span::millis(50)));
                }
                (_, BEGIN) => {
                    if let Some(strategy) = (self.strategies)(incident) {
                        self.corrupt_node(id, strategy);
                    }
                }
                (_, END) if incident.lasts > Span::ZERO => self.release_node(id),
                _ => {}
            }
        }
    }
}
