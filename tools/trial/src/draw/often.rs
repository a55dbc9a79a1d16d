//! Situations that come oftener than chance alone would have them: each wants several things at once.

use synod_machine::Span;
use synod_sim::{Family, Incident, Scenario, Stream};

use crate::oracle::{faults, weak};
use crate::strategy::{UNFINISHED, undercuts};
use crate::twins;

/// Often the pairs of two halves let no view finish, in either half: all keep their locks, and meet with them.
pub(super) fn unfinished(scenario: &mut Scenario, stream: &mut Stream) {
    let chosen = stream.chance(600_000);
    let is_matched = scenario.options.get("twin_matched") == Some(&1);
    let id = scenario.incidents.iter().map(|incident| incident.id).max().unwrap_or(0);
    let silent = |(id, (_, node)): (u32, (&str, u32))| Incident {
        id,
        family: Family::ByzSilent,
        at: Span::ZERO,
        lasts: Span::ZERO,
        nodes: vec![node],
        amount: i64::try_from(UNFINISHED).unwrap_or(i64::MAX),
    };
    if chosen && is_matched {
        let pairs: Vec<Incident> = (id + 1..).zip(twins::pairs(scenario)).map(silent).collect();
        scenario.incidents.extend(pairs);
        scenario.incidents.sort_by_key(|incident| incident.at);
    }
}

/// In one run of five the first liar withholds votes and builds below what complaints show, and lies in no other way.
pub(super) fn undercuts_more(scenario: &mut Scenario, stream: &mut Stream) {
    let (chosen, amount) = (stream.chance(200_000), 3 * stream.between(0, 300) + 1);
    let lies = |incident: &Incident| incident.family.is_byzantine() && incident.family.costs_budget();
    if chosen && let Some(liar) = scenario.incidents.iter().position(lies) {
        lies_only(scenario, liar, Family::ByzBatches, amount);
    }
}

/// Lets a liar lie in this way and no other.
fn lies_only(scenario: &mut Scenario, liar: usize, family: Family, amount: u64) {
    let Some(incident) = scenario.incidents.get_mut(liar) else { return };
    (incident.family, incident.amount) = (family, i64::try_from(amount).unwrap_or(1));
    let node = incident.nodes.clone();
    let mut at = 0..;
    scenario.incidents.retain(|incident| {
        let is_other = incident.family.is_byzantine() && incident.family.costs_budget();
        at.next() == Some(liar) || !is_other || incident.nodes != node
    });
}

/// Where a liar withholds votes, most often as many correct members are away for a while as make its vote needed.
pub(super) fn absences(scenario: &mut Scenario, stream: &mut Stream) {
    let horizon = scenario.horizon.0;
    let (wanted, count) =
        (stream.chance(800_000), stream.between(1, u64::from(faults(scenario.nodes)).max(1)));
    let (at, lasts) = (stream.below(horizon / 4), stream.between(horizon / 4, horizon / 2));
    let withholds = |incident: &Incident| undercuts(incident.family, incident.amount.unsigned_abs());
    if wanted && scenario.incidents.iter().any(withholds) {
        away(scenario, (Span(at), Span(lasts)), count, stream);
    }
}

/// Sometimes where somebody lies, little is kept and a correct member is away for long: it needs a state, which the liar serves
/// too. Most often the liar lies to those who catch up alone, so that there is something to catch up with.
pub(super) fn left_behind(scenario: &mut Scenario, stream: &mut Stream) {
    let (chosen, retained) = (stream.chance(200_000), stream.between(4, 6));
    let horizon = scenario.horizon.0;
    let (at, lasts) = (stream.below(horizon / 4), stream.between(horizon / 3, horizon / 2));
    // It answers all and not readers alone.
    let (serves, amount) = (stream.chance(700_000), 8 * stream.below(100));
    let lies = |incident: &Incident| incident.family.is_byzantine() && incident.family.costs_budget();
    let Some(liar) = scenario.incidents.iter().position(lies).filter(|_| chosen) else { return };
    if serves {
        lies_only(scenario, liar, Family::ByzSync, amount);
    }
    for (name, value) in [("checkpoint_every", 4), ("retain_blocks", retained)] {
        scenario.options.insert(name.to_owned(), i64::try_from(value).unwrap_or(4));
    }
    scenario.requests = scenario.requests.max(60);
    away(scenario, (Span(at), Span(lasts)), 1, stream);
}

/// Correct members, so many at most, are away for a while.
fn away(scenario: &mut Scenario, (at, lasts): (Span, Span), count: u64, stream: &mut Stream) {
    let faulty = scenario.incidents.iter().filter(|incident| incident.family.costs_budget());
    let faulty: Vec<u32> = faulty.flat_map(|incident| incident.nodes.clone()).collect();
    let mut correct: Vec<u32> = (0..scenario.nodes).filter(|id| !faulty.contains(id)).collect();
    stream.shuffle(&mut correct);
    let id = scenario.incidents.iter().map(|incident| incident.id).max().unwrap_or(0);
    let away = correct.into_iter().take(usize::try_from(count).unwrap_or(1)).zip(id + 1..);
    let pause =
        |(node, id)| Incident { id, family: Family::NodePause, at, lasts, nodes: vec![node], amount: 1 };
    scenario.incidents.extend(away.map(pause));
    scenario.incidents.sort_by_key(|incident| incident.at);
}

/// Sometimes the first liar shows two bodies of one root, of blocks that have several items, and lies in no other way.
pub(super) fn two_bodies(scenario: &mut Scenario, stream: &mut Stream) {
    let (chosen, amount, burst) = (stream.chance(120_000), 5 * stream.below(50) + 3, stream.between(8, 32));
    let lies = |incident: &Incident| incident.family.is_byzantine() && incident.family.costs_budget();
    let Some(liar) = scenario.incidents.iter().position(lies).filter(|_| chosen) else { return };
    lies_only(scenario, liar, Family::ByzEquivocate, amount);
    scenario.options.insert("burst".to_owned(), i64::try_from(burst).unwrap_or(8));
    scenario.requests = scenario.requests.max(40);
}

/// Sometimes most of what clients do is to read at the heels of outcomes, while some members are slow.
pub(super) fn stale_reads(scenario: &mut Scenario, stream: &mut Stream) {
    let (chosen, share, slow) =
        (stream.chance(150_000), stream.between(300, 800), stream.between(500, 3_000));
    let mut members: Vec<u32> = (0..scenario.nodes).collect();
    stream.shuffle(&mut members);
    if !chosen {
        return;
    }
    for (name, share) in [("reads", share), ("heels", 1_000)] {
        scenario.options.insert(name.to_owned(), i64::try_from(share).unwrap_or(0));
    }
    scenario.requests = scenario.requests.max(60);
    let id = scenario.incidents.iter().map(|incident| incident.id).max().unwrap_or(0);
    let slowed = members.into_iter().take(weak(scenario.nodes) as usize).zip(id + 1..);
    let amount = i64::try_from(slow).unwrap_or(500);
    let slowed = slowed.map(|(node, id)| Incident {
        id,
        family: Family::NodeSlow,
        at: Span::ZERO,
        lasts: scenario.horizon,
        nodes: vec![node],
        amount,
    });
    let slowed: Vec<Incident> = slowed.collect();
    scenario.incidents.extend(slowed);
    scenario.incidents.sort_by_key(|incident| incident.at);
}
