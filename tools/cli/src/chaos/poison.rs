//! `synod chaos poison`: bad input by the thousand to every node of a real cluster that is under load.

use super::attacked::Attacked;
use super::load::{Done as Told, Load};
use super::timeline::Timeline;
use crate::bench::{are_settled, settled};
use crate::context::client_addresses;
use crate::exit::{Done, bug};
use crate::output::Report;
use crate::session::Session;
use serde_json::{Value, json};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use synod_chaos::poison::{Dose, Tally, Victim, Way, pour};
use synod_config::{Exit, Service, SynError, code};

/// Members; the key of the last one is the attacker's, and it never runs.
const NODES: u16 = 4;
/// The attacker's member.
const ABSENT: usize = 3;
/// How long members may take to come to the same state once the load has ended.
const SETTLE: Duration = Duration::from_secs(60);
/// How long a faulty member that is locked out is waited for, at each node.
const WAIT: Duration = Duration::from_secs(8);
/// How long the load runs before the first input and after the last.
const CALM: Duration = Duration::from_secs(1);

/// A run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Inputs by each of the four ways, to each node.
    pub(crate) each: u64,
    /// What inputs are drawn from.
    pub(crate) seed: u64,
}

/// What a run found.
struct Findings {
    tally: Tally,
    lane: super::Lane,
    survivors: usize,
    of: usize,
    fallen: Vec<String>,
    /// Faults of the attacker's member that nodes counted.
    blamed: f64,
    hash_equal: bool,
    longest: Duration,
    took: Duration,
}

impl Findings {
    fn wrong(&self) -> Vec<String> {
        let mut wrong: Vec<String> = self.fallen.iter().map(|name| format!("{name} ended")).collect();
        if self.tally.sent.contains(&0) {
            wrong.push(format!("inputs by {:?}: {:?}", Way::ALL, self.tally.sent));
        }
        if self.blamed <= 0.0 {
            wrong.push("no node blamed the faulty member, so nothing of it was looked into".to_owned());
        }
        if self.lane.acked == 0 {
            wrong.push("nothing was acknowledged".to_owned());
        }
        if self.lane.lost + self.lane.duplicated > 0 {
            wrong.push(format!("{} writes lost, {} duplicated", self.lane.lost, self.lane.duplicated));
        }
        if !self.hash_equal {
            wrong.push("the states of the members differ".to_owned());
        }
        wrong
    }
}

/// Runs `plan` and prints its result.
///
/// # Errors
/// The error of the cluster; SYN-7001 with what went wrong.
pub(crate) fn run(session: &Session, plan: Plan) -> Done {
    session.watched("starting three of four members");
    let mut attacked = Attacked::start("poison", NODES, 1)?;
    let found = attack(session, &attacked, plan)?;
    let report = report(plan, &found);
    session.score("chaos-poison", &report);
    session.output.print(&report)?;
    let wrong = found.wrong();
    if wrong.is_empty() {
        return Ok(Exit::Success);
    }
    attacked.processes.keep();
    let kept = format!("data and logs are kept in {}", attacked.processes.directory().display());
    let token = format!("synod chaos poison --inputs {} --seed {}", plan.each, plan.seed);
    let error = SynError::of(code::PROPERTY_VIOLATED, &[("property", "N14"), ("token", &token)]);
    Err(wrong.into_iter().chain([kept]).fold(error, SynError::because))
}

fn attack(session: &Session, attacked: &Attacked, plan: Plan) -> Result<Findings, SynError> {
    let begun = Instant::now();
    let members = attacked.processes.alive();
    let mut victims = Vec::new();
    for member in &members {
        victims.push(Victim {
            peers: attacked.at(Service::Peer, *member)?,
            guests: attacked.at(Service::Client, *member)?,
            resp: attacked.at(Service::Resp, *member)?,
            http: attacked.at(Service::Http, *member)?,
        });
    }
    let dose = Dose { seed: plan.seed, each: plan.each, member: attacked.secret(ABSENT)?, wait: WAIT };
    let timeline = Arc::new(Timeline::new(begun));
    let load = Load::start(&attacked.processes.genesis, timeline.clone())?;
    std::thread::sleep(CALM);
    let poured = pour_all(session, attacked, &victims, &dose);
    std::thread::sleep(CALM);
    session.watched("auditing");
    let blamed = members.iter().filter_map(|member| {
        let page = attacked.page(*member).ok()?;
        page.sum("synod_blames_total", &format!("peer=\"{}\"", attacked.processes.name(ABSENT)))
    });
    let blamed = blamed.fold(0.0, f64::max);
    let told = load.finish();
    let tally = poured?;
    let Told { lane, .. } = told?;
    let gaps = timeline.finish(Instant::now());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| bug("runtime", &error))?;
    let genesis = &attacked.processes.genesis;
    let addresses: Vec<_> = client_addresses(genesis).into_iter().take(members.len()).collect();
    let states = runtime.block_on(settled(genesis, &addresses, SETTLE))?;
    let fallen = attacked.fallen();
    Ok(Findings {
        tally,
        lane,
        survivors: members.len() - fallen.len(),
        of: members.len(),
        fallen,
        blamed,
        hash_equal: are_settled(&states, members.len()),
        longest: gaps.into_values().flatten().max().unwrap_or_default(),
        took: begun.elapsed(),
    })
}

/// Gives every node every input, all nodes at the same time and one way after the other.
fn pour_all(
    session: &Session,
    attacked: &Attacked,
    victims: &[Victim],
    dose: &Dose,
) -> Result<Tally, SynError> {
    let mut all = Tally::default();
    for way in Way::ALL {
        let poured: Vec<io::Result<Tally>> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                victims.iter().map(|victim| scope.spawn(move || pour(victim, way, dose))).collect();
            let ended = || Err(io::Error::other("a thread panicked"));
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| ended())).collect()
        });
        for (member, tally) in poured.into_iter().enumerate() {
            let name = attacked.processes.name(member);
            let tally = tally.map_err(|why| {
                let values = [("address", &*format!("node {name}"))];
                SynError::of(code::REFUSED, &values).because(why).because(format!("{way:?}"))
            })?;
            session.watched(&format!(
                "{way:?} to {name}: {} inputs over {} connections, {} of them cut",
                tally.total(),
                tally.connections,
                tally.cut
            ));
            all.add(&tally);
        }
    }
    Ok(all)
}

fn report(plan: Plan, found: &Findings) -> Report {
    let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let by: Value = Way::ALL
        .iter()
        .zip(found.tally.sent)
        .map(|(way, sent)| (format!("{way:?}").to_lowercase(), json!(sent)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    Report::new("synod-poison/1")
        .field("commit", env!("SYNOD_BUILD_COMMIT"))
        .field("seed", plan.seed)
        .field("seconds", found.took.as_secs())
        .field("sent", found.tally.total())
        .field("by", by)
        .field("connections", found.tally.connections)
        .field("cut", found.tally.cut)
        .field("skipped", found.tally.skipped)
        .field("blamed", found.blamed)
        .field("survivors", found.survivors)
        .field("of", found.of)
        .field("acked", found.lane.acked)
        .field("unknown", found.lane.unknown)
        .field("rejected", found.lane.rejected)
        .field("lost", found.lane.lost)
        .field("duplicated", found.lane.duplicated)
        .field("gap_ms", millis(found.longest))
        .field("hash_equal", found.hash_equal)
        .field("wrong", found.wrong())
        .field("ok", found.wrong().is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::Lane;
    use super::*;

    fn findings() -> Findings {
        Findings {
            tally: Tally { sent: [1; 4], ..Tally::default() },
            lane: Lane { acked: 1, ..Lane::default() },
            survivors: 3,
            of: 3,
            fallen: Vec::new(),
            blamed: 1.0,
            hash_equal: true,
            longest: Duration::ZERO,
            took: Duration::ZERO,
        }
    }

    #[test]
    fn a_run_passes_only_if_everything_was_given_and_survived() {
        assert!(findings().wrong().is_empty());
        for spoil in [
            |f: &mut Findings| f.tally.sent[2] = 0,
            |f: &mut Findings| f.blamed = 0.0,
            |f: &mut Findings| f.lane.acked = 0,
            |f: &mut Findings| f.lane.lost = 1,
            |f: &mut Findings| f.lane.duplicated = 1,
            |f: &mut Findings| f.hash_equal = false,
            |f: &mut Findings| f.fallen.push("n1".to_owned()),
        ] {
            let mut spoilt = findings();
            spoil(&mut spoilt);
            assert_eq!(spoilt.wrong().len(), 1);
        }
    }
}
