//! Drawing scenarios: every family on or off by a coin, its intensity log-uniform.

use synod_machine::Span;

use super::{Family, Incident, Scenario};
use crate::draw::{Draws, Stream};
use crate::network::{Latency, Mode};
use crate::toy::Crypto;

/// What scenarios are drawn for. It knows nothing of any planted bug.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swarm {
    /// The system.
    pub system: String,
    /// Number of members.
    pub nodes: u32,
    /// Number of guests.
    pub guests: u32,
    /// Number of requests of the workload.
    pub requests: u32,
    /// Most members that may be faulty.
    pub faulty_max: u32,
    /// Length of the safety phase.
    pub horizon: Span,
    /// How nodes are linked.
    pub mode: Mode,
    /// The families that may be drawn.
    pub families: Vec<Family>,
    /// Most incidents of one family.
    pub incidents_max: u32,
}

impl Swarm {
    /// The scenario of `seed`. Equal swarms and seeds give equal scenarios.
    #[must_use]
    pub fn scenario(&self, seed: u64) -> Scenario {
        let draws = Draws::new(seed);
        let mut stream = draws.stream("swarm", 0);
        let crypto = if stream.chance(50_000) { Crypto::Real } else { Crypto::Toy };
        let far = Latency::Two(Span::millis(*stream.pick(&[60, 133]).unwrap_or(&60)));
        let presets = [Latency::Lan, Latency::Lan, Latency::Europe, Latency::World, far];
        let latency = stream.pick(&presets).copied().unwrap_or(Latency::Lan);
        let jitter = Span(stream.log_uniform(1_000, latency.largest().0.max(2_000)));
        let mut victims: Vec<u32> = (0..self.nodes).collect();
        stream.shuffle(&mut victims);
        victims.truncate(self.faulty_max as usize);
        let mut scenario = Scenario {
            crypto,
            latency,
            jitter,
            nodes: self.nodes,
            guests: self.guests,
            requests: self.requests,
            mode: self.mode,
            horizon: self.horizon,
            ..Scenario::quiet(&self.system, seed)
        };
        let mut costly = Vec::new();
        for (family, number) in self.families.iter().zip(1_u64..) {
            let mut stream = draws.stream("family", number);
            // What was not synced may always be lost.
            if !stream.chance(500_000) && *family != Family::DiskUnsynced {
                continue;
            }
            if family.costs_budget() {
                costly.push(*family);
                continue;
            }
            let count = if *family == Family::DiskUnsynced { 1 } else { self.count(&mut stream) };
            scenario.incidents.extend((0..count).map(|_| self.incident(*family, &mut stream)));
        }
        for victim in victims {
            let mut stream = draws.stream("victim", u64::from(victim));
            // Whoever is faulty is so in one way, often in two or three.
            let ways =
                [1, 1, 2, 3][usize::try_from(draws.stream("ways", u64::from(victim)).below(4)).unwrap_or(0)];
            for _ in 0..ways {
                if let Some(family) = stream.pick(&costly) {
                    let mut incident = self.incident(*family, &mut stream);
                    incident.nodes = vec![victim];
                    scenario.incidents.push(incident);
                }
            }
        }
        scenario.incidents.sort_by_key(|incident| incident.at);
        for (incident, id) in scenario.incidents.iter_mut().zip(1..) {
            incident.id = id;
        }
        scenario
    }

    fn count(&self, stream: &mut Stream) -> u64 {
        stream.log_uniform(1, u64::from(self.incidents_max.max(1)))
    }

    /// One incident of a family, always with the same number of draws.
    fn incident(&self, family: Family, stream: &mut Stream) -> Incident {
        let horizon = self.horizon.0;
        let range = intensity(family);
        let (at, lasts) =
            (stream.below(horizon), stream.log_uniform(10_000_000, horizon.max(20_000_000) / 2));
        let mut amount = i64::try_from(stream.log_uniform(range.low, range.high)).unwrap_or(i64::MAX);
        if stream.chance(500_000) && range.signed {
            amount = -amount;
        }
        let (first, second) = (stream.below(u64::from(self.nodes)), stream.below(u64::from(self.nodes)));
        let pair = |a: u64, b: u64| [a, b].iter().filter_map(|n| u32::try_from(*n).ok()).collect();
        let shape = i64::try_from(stream.below(8)).unwrap_or(0);
        let everywhere = stream.chance(500_000);
        let nodes: Vec<u32> = match family {
            Family::NetReset | Family::NetClog | Family::NetFlap => pair(first, second),
            Family::NetBand if everywhere && amount > 0 => pair(first, second),
            Family::ClientRetry | Family::ClientBurst | Family::ClientDup if self.guests > 0 => {
                let guest = u64::from(self.nodes) + first % u64::from(self.guests);
                pair(guest, guest).into_iter().take(1).collect()
            }
            Family::NetSplit | Family::NodeStorm | Family::DiskUnsynced => Vec::new(),
            Family::NetLoss | Family::NetDup | Family::NetReorder | Family::NetDelay | Family::NetSpike
                if everywhere =>
            {
                Vec::new()
            }
            _ => pair(first, first).into_iter().take(1).collect(),
        };
        let whole = family == Family::DiskUnsynced;
        Incident {
            id: 0,
            family,
            at: Span(if whole { 0 } else { at }),
            lasts: if whole { self.horizon } else { Span(lasts.min(longest(family).0)) },
            nodes,
            amount: if family == Family::NetSplit { shape } else { amount },
        }
    }
}

struct Range {
    low: u64,
    high: u64,
    signed: bool,
}

/// The range of amounts of a family.
fn intensity(family: Family) -> Range {
    let (low, high, signed) = match family {
        Family::NetLoss => (1_000, 300_000, false),
        Family::NetDup => (1_000, 500_000, false),
        Family::NetReorder => (100, 1_000_000, false),
        Family::NetDelay => (100, 500_000, true),
        Family::NetSpike => (1_000, 5_000_000, false),
        Family::NetBand => (10_000, 100_000_000, true),
        Family::DiskUnsynced => (1, 1_000, true),
        Family::DiskRot => (100, 1_000_000, false),
        Family::ClientRetry | Family::ClientDup => (100, 2_000_000, false),
        Family::ClientBurst => (10_000, 1_000_000, false),
        Family::NetFlap => (10_000, 2_000_000, false),
        Family::NodeCrash => (1, 2_000, false),
        Family::NodeSlow => (200, 2_000, false),
        Family::ClockOffset | Family::ClockStep => (1, 10_000, true),
        Family::ClockDrift => (1_000, 500_000, true),
        Family::DiskSlow => (1_000, 10_000_000, false),
        Family::JobDelay => (10, 1_000_000, false),
        Family::ByzDelay => (1_000, 5_000_000, false),
        Family::ByzFlood => (1, 20, false),
        _ => (1, 1_000, false),
    };
    Range { low, high, signed }
}

/// The longest an incident of a family lasts.
const fn longest(family: Family) -> Span {
    match family {
        Family::NetClog => Span::secs(5),
        Family::NodePause => Span::secs(30),
        Family::NodeStorm => Span::secs(2),
        Family::NodeCrash | Family::DiskSyncFail | Family::DiskFull | Family::DiskTorn => Span::secs(10),
        _ => Span::secs(60),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::scenario::FAMILIES;

    fn swarm() -> Swarm {
        Swarm {
            system: "toy".to_owned(),
            nodes: 7,
            guests: 2,
            requests: 50,
            faulty_max: 2,
            horizon: Span::secs(20),
            mode: Mode::Connection,
            families: FAMILIES.to_vec(),
            incidents_max: 20,
        }
    }

    #[test]
    fn equal_seeds_give_equal_scenarios_and_others_differ() {
        assert_eq!(swarm().scenario(5), swarm().scenario(5));
        assert_ne!(swarm().scenario(5).incidents, swarm().scenario(6).incidents);
    }

    #[test]
    fn the_budget_is_kept_over_a_thousand_seeds() {
        for seed in 0..1_000 {
            let scenario = swarm().scenario(seed);
            let faulty: BTreeSet<u32> = scenario
                .incidents
                .iter()
                .filter(|incident| incident.family.costs_budget())
                .flat_map(|incident| incident.nodes.clone())
                .collect();
            assert!(faulty.len() <= 2, "seed {seed} has {faulty:?}");
        }
    }

    #[test]
    fn every_family_comes_up_and_about_half_of_them_at_a_time() {
        let mut seen = BTreeSet::new();
        let (mut families, mut incidents) = (0, 0);
        for seed in 0..200 {
            let scenario = swarm().scenario(seed);
            let now: BTreeSet<Family> = scenario.incidents.iter().map(|i| i.family).collect();
            families += now.len();
            incidents += scenario.incidents.len();
            seen.extend(now);
        }
        assert_eq!(seen.len(), FAMILIES.len());
        assert!((200 * 12..200 * 24).contains(&families), "{families} families in 200 seeds");
        assert!(incidents > 200 * 40, "{incidents} incidents in 200 seeds");
    }

    #[test]
    fn only_clients_suffer_what_clients_do_and_what_is_not_synced_may_always_be_lost() {
        for seed in 0..50 {
            let incidents = swarm().scenario(seed).incidents;
            for incident in &incidents {
                let of_clients = incident.family.name().starts_with("client.");
                assert!(incident.nodes.iter().all(|node| (*node >= 7) == of_clients), "{incident:?}");
            }
            assert!(incidents.iter().any(|incident| incident.family == Family::DiskUnsynced));
        }
    }

    #[test]
    fn ids_are_distinct_and_times_lie_within_the_safety_phase() {
        let scenario = swarm().scenario(3);
        let ids: BTreeSet<u32> = scenario.incidents.iter().map(|i| i.id).collect();
        assert_eq!(ids.len(), scenario.incidents.len());
        assert!(scenario.incidents.iter().all(|i| i.at < scenario.horizon && i.nodes.iter().all(|n| *n < 9)));
    }
}
