//! One run of broadcasts: safety phase, healing, and what the last messages of each broadcaster become (U-S4).

use synod_machine::{Span, Time};
use synod_quorum::NodeId;
use synod_sim::{Draws, Family, Scenario, Status, Violation};
use synod_ubft::ctb::Input;

use super::machine::Of;
use super::world::{Trial, build};
use crate::oracle::ubft::one_correct;
use crate::params::number;
use crate::run::Manner;
use crate::systems::ubft::plan::REPLICA;
use crate::systems::ubft::run::is_late;

/// Between two looks at a world behind its healing.
const SLICE: Span = Span::millis(50);
/// How often everybody says its last messages again.
const GREET: Span = Span::secs(1);
/// Messages that each replica of the core is asked for after healing.
const MORE: u64 = 2;

/// Plays a scenario to its end, or to the first violation.
///
/// # Errors
/// The scenario is not one the system can run.
pub fn play(scenario: &Scenario, token: &str, manner: Manner) -> Result<(Trial, Option<Violation>), String> {
    let mut trial = build(scenario, token, manner.trace)?;
    if let Some(until) = manner.until {
        trial.world.stop_behind(until);
    }
    if let Some(redraw) = manner.redraw {
        trial.world.redraw_behind(redraw);
    }
    let verdict = phases(&mut trial, scenario).and_then(|()| trial.world.finish());
    let owed = scenario.heard.is_none() || manner.redraw.is_some();
    let counts =
        |violation: &Violation| violation.checker != "until" && (owed || !is_late(&violation.checker));
    Ok((trial, verdict.err().filter(counts)))
}

fn phases(trial: &mut Trial, scenario: &Scenario) -> Result<(), Violation> {
    trial.world.run(Time(scenario.horizon.0), &mut trial.workload)?;
    if number(scenario, "safety_only", 0) == 1 {
        return Ok(());
    }
    let Some((replicas, core)) = core(trial, scenario) else { return Ok(()) };
    trial.world.heal(&core);
    last_messages(trial, scenario, &replicas)
}

/// Draws the legal core: f + 1 replicas that never lied or all of them, f_m + 1 memory nodes that never stopped or all. A memory node that
/// came back may be there, and is never among those that are needed.
fn core(trial: &Trial, scenario: &Scenario) -> Option<(Vec<NodeId>, Vec<NodeId>)> {
    let (roles, book) = (trial.roles, trial.book.borrow());
    let mut stream = Draws::new(scenario.seed).stream("core", 0);
    let is_up = |id: &NodeId| trial.world.status(*id) == Status::Up;
    let honest = |id: &NodeId| trial.world.honest(*id) && !book.liars.contains(&id.0) && is_up(id);
    let mut replicas: Vec<NodeId> = roles.replicas().filter(honest).collect();
    stream.shuffle(&mut replicas);
    let wanted = one_correct(roles.replicas);
    if replicas.len() < wanted {
        return None;
    }
    if stream.chance(400_000) {
        replicas.truncate(wanted);
    }
    let (mut kept, emptied): (Vec<NodeId>, Vec<NodeId>) =
        roles.memory().partition(|id| !book.reborn.contains(&id.0) && is_up(id));
    stream.shuffle(&mut kept);
    if stream.chance(500_000) {
        kept.truncate((roles.memory / 2 + 1) as usize);
    } else {
        kept.extend(emptied);
    }
    replicas.sort_unstable();
    let mut core = replicas.clone();
    core.extend(kept);
    core.sort_unstable();
    Some((replicas, core))
}

/// U-S4: how long the last messages may take once the core is whole. What was under way keeps its length, and waits have doubled.
fn bound(scenario: &Scenario) -> Span {
    let delay = scenario.latency.largest().0 + 8 * scenario.jitter.0;
    let fast = Span::micros(number(scenario, "fast_us", 2_000)).0;
    let longest = |family: Family| {
        let amounts =
            scenario.incidents.iter().filter(|i| i.family == family).map(|i| i.amount.unsigned_abs());
        Span::micros(amounts.max().unwrap_or(0)).0
    };
    let under_way =
        20 * longest(Family::JobDelay) + 20 * longest(Family::NetDelay) + 20 * longest(Family::NetSpike);
    let rounds = u64::from(scenario.requests) / 8 + 4;
    Span(3 * 64 * fast + rounds * (4 * fast + 40 * delay) + under_way + Span::secs(10).0)
}

/// What is owed: a broadcaster of the core that has not sent everything, or whose last messages somebody of the core lacks.
fn owed(trial: &Trial, core: &[NodeId], tail: u64) -> Option<String> {
    let book = trial.book.borrow();
    for broadcaster in core {
        let (asked, sent) =
            (book.asked_of(broadcaster.0), book.sent.get(&broadcaster.0).copied().unwrap_or(0));
        if sent < asked {
            return Some(format!("replica {} sent {sent} of {asked} messages", broadcaster.0));
        }
        for k in sent.saturating_sub(tail) + 1..=sent {
            if let Some(id) = core.iter().find(|id| !book.has(id.0, broadcaster.0, k)) {
                return Some(format!("replica {} lacks message {k} of {sent} of {}", id.0, broadcaster.0));
            }
        }
    }
    None
}

/// U-S4: the last t messages of every broadcaster of the core are delivered by the core, which says them again now and then.
fn last_messages(trial: &mut Trial, scenario: &Scenario, core: &[NodeId]) -> Result<(), Violation> {
    let (healed, tail) = (trial.world.now(), number(scenario, "tail", 16));
    trial.world.run(healed, &mut trial.workload)?;
    for number in 0..MORE {
        for id in core {
            let input = trial.workload.more(*id, number % 2 == 1);
            trial.world.input(*id, REPLICA, Span::millis(20 * number), Box::new(input));
        }
    }
    let (deadline, mut greeted) = (healed + bound(scenario), None::<Time>);
    loop {
        let Some(what) = owed(trial, core, tail) else { return Ok(()) };
        let now = trial.world.now();
        if now >= deadline {
            return Err(Violation::new("U-S4", what));
        }
        if greeted.is_none_or(|at| now >= at + GREET) {
            greeted = Some(now);
            for (id, peer) in core.iter().flat_map(|id| core.iter().map(move |peer| (id, peer))) {
                let greet = Of { broadcaster: *id, what: Input::Greet(*peer) };
                trial.world.input(*id, REPLICA, Span::ZERO, Box::new(greet));
            }
        }
        trial.world.run(now + SLICE, &mut trial.workload)?;
    }
}

#[cfg(test)]
mod tests {
    use synod_sim::{Incident, Scenario};

    use super::*;
    use crate::systems::ubft::CTB;
    use crate::token::RunOptions;

    /// A run without faults but these, and its trial behind the safety phase.
    fn unhealed(incidents: Vec<Incident>) -> (Trial, Scenario) {
        let mut scenario = Scenario::quiet(CTB, 7);
        (scenario.nodes, scenario.guests) = (3, 0);
        (scenario.requests, scenario.horizon) = (12, Span::secs(1));
        scenario.incidents = incidents;
        let mut trial = build(&scenario, "test", false).expect("the system exists");
        trial.world.run(Time(scenario.horizon.0), &mut trial.workload).expect("no property is broken");
        (trial, scenario)
    }

    #[test]
    fn broadcasts_keep_their_promises_on_both_paths_and_with_liars() {
        let mut sums = std::collections::BTreeMap::new();
        for seed in 0..24 {
            let scenario = crate::systems::ubft::ctb::draw::scenario(seed, &RunOptions::default());
            let scenario = scenario.expect("a system");
            let (trial, violation) = play(&scenario, "test", Manner::default()).expect("a scenario");
            assert!(violation.is_none(), "seed {seed}: {violation:?}");
            let book = trial.book.borrow();
            book.counts.iter().for_each(|(name, count)| *sums.entry(*name).or_insert(0) += count);
        }
        for name in ["delivered", "registers_read", "registers_written", "proofs", "missing"] {
            assert!(sums.get(name).is_some_and(|count| *count > 10), "{name}: {sums:?}");
        }
    }

    #[test]
    fn whoever_lacks_one_of_the_last_messages_is_named() {
        let replicas = [NodeId(0), NodeId(1), NodeId(2)];
        let (trial, _) = unhealed(Vec::new());
        assert_eq!(owed(&trial, &replicas, 16), None);
        let lasts = Span::secs(900);
        let cut = Incident {
            id: 1,
            family: Family::NodePause,
            at: Span::millis(5),
            lasts,
            nodes: vec![2],
            amount: 1,
        };
        let (mut trial, scenario) = unhealed(vec![cut]);
        let what = owed(&trial, &replicas, 16).expect("it delivered nothing");
        assert!(what.starts_with("replica 2 "), "{what}");
        assert_eq!(owed(&trial, &replicas[..2], 16), None, "the others wait for nobody");
        let late = last_messages(&mut trial, &scenario, &replicas).expect_err("it is still away");
        assert_eq!(late.checker, "U-S4");
    }
}
