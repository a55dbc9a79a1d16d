//! A server that sleeps until the others no longer hold what it misses, and how it comes back.

use super::audit::Eyes;
use super::e2e::paced;
use super::faults::{BACK, first_leader, longest_wait, seconds};
use super::plan::LoadPlan;
use super::rig::{Rig, SERVERS, checkpoint_every};
use super::told::{Taken, Told};
use crate::deployment::Blow;
use crate::exit::bug;
use crate::session::Session;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use synod_config::{SynError, code};
use synod_crypto::Hash;
use synod_load::chop::broker::Pace;
use synod_service::BatchStanding;

/// How long the others may take to deliver what a sleeping one misses.
const ASLEEP: Duration = Duration::from_secs(400);
/// How long a server may take to say where it stands while one comes back.
const GLANCE: Duration = Duration::from_millis(500);
/// How long its return may take (row 15 of the specification).
const BAR: Duration = Duration::from_secs(5);

/// What happened while it slept.
struct Slept {
    begun: Instant,
    awake: Instant,
    batches: u64,
    bytes: u64,
    /// Height of the others when it woke.
    goal: u64,
}

/// Checkpoints that were seen: of one server, and of the others, by position.
#[derive(Debug, Default)]
struct Roots {
    own: BTreeMap<u64, (u64, Hash)>,
    others: BTreeMap<u64, Hash>,
}

/// What two servers show of one checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sight {
    /// No checkpoint was seen at both.
    Open,
    /// The state is that of the others, at this height.
    Equal(u64),
    /// The state is another one, at this height.
    Apart(u64),
}

impl Roots {
    /// Takes in where all stand, `at` among them; whether its state is that of another at a height of `least` or above.
    fn see(&mut self, at: usize, all: &[Option<BatchStanding>], least: u64) -> Sight {
        for (server, standing) in all.iter().enumerate() {
            let Some(standing) = standing else { continue };
            let position = standing.checkpoint.0;
            if server == at {
                self.own.insert(position, (standing.checkpoint_height, standing.root));
            } else {
                self.others.insert(position, standing.root);
            }
        }
        let own = self.own.iter().filter(|(_, (height, _))| *height >= least);
        let both =
            own.filter_map(|(position, (height, root))| Some((height, root, self.others.get(position)?)));
        let sights = both.map(
            |(height, root, other)| {
                if root == other { Sight::Equal(*height) } else { Sight::Apart(*height) }
            },
        );
        sights.max_by_key(|sight| matches!(sight, Sight::Apart(_))).unwrap_or(Sight::Open)
    }
}

/// Stops a server until the others have delivered more than they keep, lets it go on at the pace of the other faults, and follows
/// it until its state is theirs.
pub(super) fn measure(
    session: &Session,
    rig: &Rig,
    (plan, rate): (&LoadPlan, f64),
) -> Result<Value, SynError> {
    let leads = first_leader(rig)?;
    let at = (0..usize::from(SERVERS)).rev().find(|at| *at != leads).unwrap_or(0);
    let metrics = rig.telling()?.into_iter().nth(at);
    let metrics = metrics.ok_or_else(|| bug("faults", &"a server without port"))?;
    let eyes = Eyes::open(&rig.cluster.genesis)?;
    let before = Told::ask(&metrics)?;
    let slept = sleep(session, rig, (plan, rate), at)?;
    let (mut delivered, mut roots, mut sight) = (None, Roots::default(), Sight::Open);
    rig.until(BACK, "a server that slept", || {
        if delivered.is_none() {
            let told = Told::ask(&metrics).ok().filter(|told| told.height >= slept.goal);
            delivered = told.map(|_| slept.awake.elapsed());
        }
        if delivered.is_some() {
            sight = roots.see(at, &eyes.glance(GLANCE), slept.goal);
        }
        sight != Sight::Open
    })?;
    let equal = slept.awake.elapsed();
    let height = match sight {
        Sight::Equal(height) => height,
        Sight::Open | Sight::Apart(_) => {
            let error = SynError::of(code::AUDIT_FAILED, &[("lost", "0"), ("duplicated", "0")]);
            return Err(
                error.because(format!("the server that slept came back with another state: {sight:?}"))
            );
        }
    };
    let after = Told::ask(&metrics)?;
    let books = rig.driver.books();
    let mut own = by(&before, &after, slept.goal);
    let gap = books.longest_gap(slept.begun, slept.awake);
    let Value::Object(times) = json!({
        "server": rig.cluster.name(at), "retain_bytes": plan.retain, "batches_missed": slept.batches,
        "bytes_missed": slept.bytes, "longest_gap_s": seconds(gap),
        "slept_s": seconds(slept.awake.saturating_duration_since(slept.begun)),
        "longest_gap_at_return_s": seconds(longest_wait(rig, slept.awake)?),
        "delivered_after_s": delivered.map(seconds), "equal_after_s": seconds(equal), "equal_at_height": height,
        "bar_s": BAR.as_secs(), "in_bar": equal < BAR && gap < BAR,
    }) else {
        unreachable!("an object was written")
    };
    own.extend(times);
    Ok(own.into())
}

/// Lets a server sleep until others delivered what they keep and a checkpoint more.
fn sleep(session: &Session, rig: &Rig, (plan, rate): (&LoadPlan, f64), at: usize) -> Result<Slept, SynError> {
    let running = rig.cluster.running(at).cloned().ok_or_else(|| bug("faults", &"a server does not run"))?;
    let before = rig.driver.books();
    let body = before.bytes / before.sent.0.max(1);
    // What goes beyond the cap is released at the checkpoint behind it.
    let wanted = plan.retain + 2 * u64::from(checkpoint_every(plan)) * body;
    session.watched(&format!("{} sleeps until {} MiB are delivered", running.name, wanted >> 20));
    running.strike(Blow::Pause)?;
    rig.driver.pace(Pace::Window(plan.window));
    let begun = Instant::now();
    let passed = rig.until(ASLEEP, "what a sleeping server misses", || {
        (rig.driver.delivered().0 - before.delivered.0) * body > wanted
    });
    // Its return is measured as that of killed ones is: at half of what the servers reached.
    rig.driver.pace(paced(rate, plan.batch));
    let books = rig.driver.books();
    // It goes on even if the others did not get so far.
    running.strike(Blow::Resume)?;
    let awake = Instant::now();
    passed?;
    let batches = books.delivered.0 - before.delivered.0;
    Ok(Slept { begun, awake, batches, bytes: batches * body, goal: books.height })
}

/// By what it came back: states of others that it took, with their heights, or batch after batch.
fn by(before: &Told, after: &Told, goal: u64) -> Map<String, Value> {
    let fresh = after.states().saturating_sub(before.states());
    let others: Vec<&Taken> = after.taken.iter().filter(|state| !state.own).collect();
    let fresh = others.len().saturating_sub(usize::try_from(fresh).unwrap_or(usize::MAX));
    let fresh = others.get(fresh..).unwrap_or_default();
    let reached = fresh.last().map_or(before.height, |state| state.to);
    let Value::Object(object) = json!({
        "recovered_by": if fresh.is_empty() { "replay" } else { "state transfer" },
        "height_when_it_slept": before.height, "height_of_others_at_return": goal,
        "states": fresh.iter().map(|state| state.to_json()).collect::<Vec<_>>(),
        "replayed_up_to_others": goal.saturating_sub(reached),
    }) else {
        unreachable!("an object was written")
    };
    object
}

#[cfg(test)]
mod tests {
    use super::{Roots, Sight, by};
    use crate::bench::chop::load::told::{Taken, Told};
    use synod_crypto::Hash;
    use synod_machine::broadcast::Position;
    use synod_service::BatchStanding;

    fn stands(position: u64, root: u8) -> Option<BatchStanding> {
        let (checkpoint, root) = (Position(position), Hash([root; 32]));
        Some(BatchStanding { height: 99, checkpoint, checkpoint_height: position + 1, root })
    }

    #[test]
    fn a_state_is_equal_once_one_checkpoint_behind_the_return_has_the_root_of_another_server() {
        let mut roots = Roots::default();
        assert_eq!(roots.see(1, &[stands(32, 1), stands(8, 7), None], 30), Sight::Open, "an old one");
        assert_eq!(roots.see(1, &[stands(40, 2), None, stands(40, 2)], 30), Sight::Open, "it says nothing");
        assert_eq!(roots.see(1, &[stands(64, 3), stands(32, 1), None], 34), Sight::Open, "before its return");
        assert_eq!(roots.see(1, &[stands(64, 3), stands(32, 1), None], 33), Sight::Equal(33));
        assert_eq!(roots.see(1, &[stands(64, 3), stands(40, 9), None], 33), Sight::Apart(41));
    }

    #[test]
    fn what_came_with_a_state_is_told_apart_from_what_was_replayed() {
        let told = |height, states: &[(u64, u64)], untold| {
            let taken = |(from, to): &(u64, u64)| Taken { own: false, from: *from, to: *to };
            Told { height, taken: states.iter().map(taken).collect(), untold, ..Told::default() }
        };
        let before = told(50, &[(3, 9)], 1);
        let replayed = by(&before, &told(200, &[(3, 9)], 1), 180);
        assert_eq!(
            (&replayed["recovered_by"], &replayed["replayed_up_to_others"]),
            (&"replay".into(), &130.into())
        );
        let taken = by(&before, &told(200, &[(3, 9), (50, 161)], 1), 180);
        assert_eq!(
            (&taken["recovered_by"], &taken["replayed_up_to_others"]),
            (&"state transfer".into(), &19.into())
        );
        assert_eq!(taken["states"][0]["delivered_before"], 50);
        assert_eq!(
            (taken["states"].as_array().map(Vec::len), &taken["states"][0]["height"]),
            (Some(1), &161.into())
        );
    }
}
