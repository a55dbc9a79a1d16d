//! One member falls at one boundary, comes back, and is tempted.

use synod_machine::{Span, Time};
use synod_quorum::NodeId;
use synod_sim::{Disks, Family, Incident, Loss, Scenario, Violation};

use super::super::enumerate::Edit;
use super::super::outcomes::Forgetful;
use crate::systems::astro::plan::REPLICA;
use crate::systems::astro::run::settle;
use crate::systems::astro::world::{Trial, build, build_on, disk_of};

/// Members of the conversation.
pub(super) const MEMBERS: u32 = 4;
/// Of the conversation: another one is as good.
const SEED: u64 = 13;
/// Between two looks at how far a member is.
const LOOK: Span = Span::millis(10);
/// How long it is down: others give up waiting for it, and say again what it missed.
const DOWN: Span = Span::millis(60);
/// When it is tempted, behind its start.
const TEMPTED: [Span; 2] = [Span::millis(2), Span::millis(40)];
/// What a disk of blocks keeps of what was not synced.
const TORN: [Loss; 4] = [Loss::Durable, Loss::Prefix, Loss::Torn, Loss::Nothing];

/// The conversation in which a member is to fall: the next one lies.
pub(super) fn scenario(system: &str, own: u32, blocks: bool) -> Scenario {
    let mut scenario = Scenario::quiet(system, SEED);
    scenario.nodes = MEMBERS;
    scenario.requests = 44;
    scenario.horizon = Span::millis(1_200);
    let cuts = if system == "astro/ii-f" { 300 } else { 0 };
    let numbers = [
        ("customers", 2),
        ("owners", 2),
        ("lying", (1 << MEMBERS) - 1),
        ("checkpoint_ms", cuts),
        ("blocks", i64::from(blocks)),
        // Faster than the network: a promise is on its way while what follows from it is not written yet.
        ("sync_floor_us", 60),
        ("sync_mean_us", 40),
    ];
    scenario.options.extend(numbers.map(|(key, value)| (key.to_owned(), value)));
    let (nodes, lasts) = (vec![(own + 1) % MEMBERS], scenario.horizon);
    let family = Family::ByzEquivocate;
    scenario.incidents.push(Incident { id: 1, family, at: Span::ZERO, lasts, nodes, amount: 0 });
    scenario
}

/// Boundaries that a member has reached at each look, if it does not fall.
pub(super) fn reached(scenario: &Scenario, own: NodeId) -> Result<Vec<u64>, String> {
    let mut trial = build(scenario, "", false)?;
    let mut reached = vec![0];
    for look in 1..=scenario.horizon.0 / LOOK.0 {
        trial.world.run(Time(look * LOOK.0), &mut trial.workload).map_err(|violation| violation.what)?;
        reached.push(trial.world.boundaries(own));
    }
    settle(&mut trial, scenario).map_err(|violation| format!("without a crash: {}", violation.what))?;
    Ok(reached)
}

/// What a crash came to.
pub(super) struct Fallen {
    /// Whether the disk lost anything: else no outcome keeps more.
    pub(super) lost: bool,
    /// Entries that were certified in the end.
    pub(super) certified: u64,
    /// Orders and entries by which it was tempted.
    pub(super) tempted: u64,
    /// What broke.
    pub(super) broken: Option<Violation>,
}

/// The conversation, in which a member falls at a boundary with an outcome of its disk.
pub(super) fn fall(
    scenario: &Scenario,
    own: NodeId,
    (boundary, outcome): (u64, u32),
    reached: &[u64],
    edit: Option<Edit>,
) -> Result<Option<Fallen>, String> {
    let blocks = scenario.options.get("blocks") == Some(&1);
    let loss = match (blocks, usize::try_from(outcome).ok().and_then(|at| TORN.get(at))) {
        (false, _) => Loss::Keep(outcome),
        (true, Some(loss)) => *loss,
        (true, None) => return Ok(None),
    };
    let mut trial = match edit {
        None => build(scenario, "", false)?,
        Some(edit) => build_on(scenario, "", false, forgetful(scenario, own, edit))?,
    };
    let mut tempted = 0;
    let played = play(&mut trial, scenario, own, (boundary, loss), (reached, &mut tempted));
    let stats = trial.world.stats();
    let lost = stats.lost_suffixes > 0;
    let broken = match played {
        Ok(()) if stats.crashes == 1 => None,
        Ok(()) => return Err(format!("member {} crashed {} times", own.0, stats.crashes)),
        Err(violation) => Some(violation),
    };
    let certified = trial.watch.borrow().certificates();
    Ok(Some(Fallen { lost, certified, tempted, broken }))
}

fn play(
    trial: &mut Trial,
    scenario: &Scenario,
    own: NodeId,
    (boundary, loss): (u64, Loss),
    (reached, tempted): (&[u64], &mut u64),
) -> Result<(), Violation> {
    let look = reached.partition_point(|before| *before <= boundary).saturating_sub(1);
    let before = reached.get(look).copied().unwrap_or(0);
    let mut now = look as u64 * LOOK.0;
    trial.world.run(Time(now), &mut trial.workload)?;
    trial.world.crash_at(own, boundary - before, loss, Some(DOWN));
    let is_back = |trial: &Trial| trial.book.borrow().lives.get(&own.0).is_some_and(|life| *life > 1);
    while !is_back(trial) && now < scenario.horizon.0 + Span::secs(2).0 {
        now += Span::millis(1).0;
        trial.world.run(Time(now), &mut trial.workload)?;
    }
    for after in TEMPTED {
        trial.world.run(Time(now + after.0), &mut trial.workload)?;
        for input in trial.workload.tempt(own) {
            *tempted += 1;
            trial.world.input(own, REPLICA, Span::ZERO, Box::new(input));
        }
    }
    let until = scenario.horizon.0.max(now + Span::millis(100).0);
    trial.world.run(Time(until), &mut trial.workload)?;
    settle(trial, scenario)?;
    trial.world.finish()
}

/// The disks of a scenario; that of one member does not give back all that it took.
fn forgetful(scenario: &Scenario, own: NodeId, edit: Edit) -> Box<Disks> {
    let disks = disk_of(scenario);
    Box::new(move |node, lanes| {
        let inner = disks(node, lanes);
        if node == own { Box::new(Forgetful { inner, edit }) } else { inner }
    })
}
