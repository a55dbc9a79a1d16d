//! `--part faults`: the leader, a server and the broker are killed under load, and a server sleeps until others no longer hold
//! what it misses.

use super::e2e::{figures, paced};
use super::plan::LoadPlan;
use super::report::{common_fields, of_batches, unavailable};
use super::rig::{Rig, SERVERS, members};
use super::told::Told;
use super::{asleep, memory};
use crate::bench::chop::report::rounded;
use crate::bench::pages::Page;
use crate::bench::window::leader;
use crate::exit::bug;
use crate::output::Report;
use crate::session::Session;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use synod_config::SynError;

/// How long a killed server stays away, and how long a killed broker is watched, at least.
const AWAY: Duration = Duration::from_secs(3);
/// How long a server may take to come back.
pub(super) const BACK: Duration = Duration::from_secs(180);
const LOOK: Duration = Duration::from_millis(50);

/// Kills one after another and gives the result.
///
/// # Errors
/// What could not be started or did not come back; SYN-6009 if the audit fails.
pub(super) fn measure(session: &Session, plan: &LoadPlan) -> Result<Report, SynError> {
    let members = members(session, plan.clients)?;
    let mut rig = Rig::start(session, plan, &members)?;
    rig.warm_up(session, plan)?;
    session.watched("measuring without faults");
    let steady = rig.stretch(|| {
        std::thread::sleep(plan.span);
        Ok(())
    })?;
    // Half of what was reached, so that what is missed can be made good.
    let rate = plan.rate.map_or(steady.per_s() / 2.0, f64::from);
    rig.driver.pace(paced(rate, plan.batch));
    let first = first_leader(&rig)?;
    let mut events = vec![
        json!({ "fault": "leader killed", "server": first, "is": server(session, plan, &mut rig, first)? }),
    ];
    // One that was not killed before: what came back must stand in for it.
    let leads = first_leader(&rig)?;
    let second = (0..usize::from(SERVERS)).find(|at| *at != leads && *at != first);
    let second = second.ok_or_else(|| bug("faults", &"all servers lead"))?;
    events.push(
        json!({ "fault": "server killed", "server": second, "is": server(session, plan, &mut rig, second)? }),
    );
    events.push(json!({ "fault": "broker killed", "is": broker(session, &rig)? }));
    let mut reasons = vec![("stage_ns", "stages are measured by --part auth and --part server")];
    let asleep = if plan.ablations {
        asleep::measure(session, &rig, (plan, rate))?
    } else {
        reasons.push(("server_asleep", "left out by --no-ablations"));
        Value::Null
    };
    let (pool, memory) = (rig.driver.pool(), memory::of_servers(&rig, plan));
    let (books, audit) = rig.close(session, plan)?;
    let mut own = of_batches(plan, "faults", pool);
    own.extend(figures(&steady, &books).into_iter().map(|(key, value)| (key.to_owned(), value)));
    own.insert("rate_under_faults".to_owned(), rounded(rate));
    own.insert("faults".to_owned(), events.into());
    own.insert("server_asleep".to_owned(), asleep);
    own.insert("memory".to_owned(), memory);
    unavailable(&reasons, &mut own);
    Ok(common_fields(plan, plan.durability(), &steady, &books, &audit).field("chop", own))
}

/// The leader that the first server names.
pub(super) fn first_leader(rig: &Rig) -> Result<usize, SynError> {
    let pages: Vec<Page> = rig.metrics().iter().flatten().filter_map(Page::fetch).collect();
    leader(pages.iter()).ok_or_else(|| bug("faults", &"no server told its leader"))
}

/// The longest time without a delivery of those that began since `from`, each followed to its end.
pub(super) fn longest_wait(rig: &Rig, from: Instant) -> Result<Duration, SynError> {
    let (to, mut longest) = (Instant::now(), None);
    rig.until(BACK, "a delivery behind a fault", || {
        longest = rig.driver.books().longest_wait(from, to);
        longest.is_some()
    })?;
    Ok(longest.unwrap_or_default())
}

pub(super) fn seconds(time: Duration) -> Value {
    rounded(time.as_secs_f64())
}

/// Kills a server and starts it again.
fn server(session: &Session, plan: &LoadPlan, rig: &mut Rig, at: usize) -> Result<Value, SynError> {
    session.watched(&format!("killing {}", rig.cluster.name(at)));
    std::thread::sleep(AWAY);
    let killed = Instant::now();
    rig.cluster.kill(at);
    std::thread::sleep(AWAY);
    // It stays away until the others deliver without it: its return is no part of their recovery.
    let gap = longest_wait(rig, killed)?;
    let again = Instant::now();
    rig.cluster.launch(at)?;
    // One that lost its promises is ready once it votes again; before that, the next one that goes would be one too many.
    rig.cluster.await_all()?;
    let ready = again.elapsed();
    caught_up(rig, at)?;
    let back = again.elapsed();
    let told = rig.telling()?.get(at).map(Told::ask).transpose()?.unwrap_or_default();
    let states: Vec<Value> = told.taken.iter().map(|state| state.to_json()).collect();
    let books = rig.driver.books();
    let before = books.longest_gap(killed.checked_sub(AWAY).unwrap_or(killed), killed);
    Ok(json!({
        "longest_gap_s": seconds(gap), "longest_gap_before_s": seconds(before),
        "longest_gap_at_return_s": seconds(longest_wait(rig, again)?),
        "away_s": seconds(again.saturating_duration_since(killed)), "ready_after_s": seconds(ready),
        "back_after_s": seconds(back), "promises_lost": plan.durability() == "volatile",
        "states": states,
    }))
}

/// Waits until a server has delivered what all have.
fn caught_up(rig: &Rig, at: usize) -> Result<(), SynError> {
    let metrics =
        rig.metrics().get(at).cloned().flatten().ok_or_else(|| bug("faults", &"a server without port"))?;
    let wanted = rig.driver.books().height;
    rig.until(BACK, "a server that comes back", || {
        let told = Page::fetch(&metrics).and_then(|page| page.sum("synod_server_delivered_height"));
        std::thread::sleep(LOOK);
        told.is_some_and(|height| height >= super::super::report::float(wanted))
    })
}

/// Kills the load broker and starts it again at once.
fn broker(session: &Session, rig: &Rig) -> Result<Value, SynError> {
    session.watched("killing the broker");
    std::thread::sleep(AWAY);
    let killed = Instant::now();
    rig.driver.kill();
    rig.driver.revive();
    std::thread::sleep(AWAY);
    let gap = longest_wait(rig, killed)?;
    let before = rig.driver.books().longest_gap(killed.checked_sub(AWAY).unwrap_or(killed), killed);
    Ok(json!({ "longest_gap_s": seconds(gap), "longest_gap_before_s": seconds(before) }))
}
