//! Placement `cooperative`: the replicas or the server at one poller, the client at another, registers in this process.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use synod_config::SynError;
use synod_shm::{Doorbell, Observer, Regions, Rest, Ropes, Running, Station, introduce, poller};

use super::breakdown::{Marks, SAMPLES_MAX, phases};
use super::caller::Taken;
use super::plan::{App, System, UbftBench};
use super::rig::{
    Folder, MEMORY, Measured, PATIENCE, REPLICAS, caller, cores, regions, seat, server_of, unanswered,
};
use super::run::refused;
use super::tally::{Tally, Used};

/// Everybody, before anybody is polled.
struct Assembled {
    serving: Vec<Station>,
    calling: Station,
    nodes: Vec<Regions>,
    taken: Receiver<Taken>,
    /// Where the doors of memory nodes are.
    _folder: Folder,
}

/// Puts together who takes part, each answering station with an observer of its own.
fn assemble(
    plan: &UbftBench,
    (system, app): (System, App),
    watch: impl Fn(u32) -> (Arc<dyn Observer>, Option<Arc<Tally>>),
    (near, far): (&Ropes, &Ropes),
) -> Result<Assembled, SynError> {
    let folder = Folder::make()?;
    let own = Arc::new(Tally::default());
    let (mut nodes, mut serving, mut tallies) = (Vec::new(), Vec::new(), vec![own.clone()]);
    let served = match system {
        System::Synod => REPLICAS,
        System::Unreplicated => 1,
    };
    for at in 0..if system == System::Synod { MEMORY } else { 0 } {
        nodes.push(regions(&folder.0, at, plan.tail)?);
    }
    for me in 0..served {
        let (observer, tally) = watch(me);
        tallies.extend(tally);
        serving.push(match system {
            System::Synod => seat(plan, (app, me), far, observer, &folder.0)?,
            System::Unreplicated => server_of(plan, app, far, observer)?,
        });
    }
    let probe = Box::new(move || Used::here(tallies.iter()));
    let (mut calling, taken) = caller(plan, (system, app), (own, probe), near)?;
    for at in 0..serving.len() {
        let (one, rest) = serving.split_at_mut(at + 1);
        let Some(one) = one.last_mut() else { continue };
        rest.iter_mut().try_for_each(|other| introduce(one, other, None)).map_err(|error| refused(&error))?;
        introduce(&mut calling, one, Some((near, far))).map_err(|error| refused(&error))?;
    }
    Ok(Assembled { serving, calling, nodes, taken, _folder: folder })
}

/// Polls until the client has what it wants.
fn drive(
    plan: &UbftBench,
    what: (System, App),
    watch: impl Fn(u32) -> (Arc<dyn Observer>, Option<Arc<Tally>>),
) -> Result<Measured, SynError> {
    let bell = || Doorbell::new().map_err(|error| refused(&error));
    let (near, far) = (bell()?, bell()?);
    let assembled = assemble(plan, what, watch, (near.ropes(), far.ropes()))?;
    let Assembled { serving, calling, nodes, taken, _folder } = assembled;
    let last = cores()?;
    let core = |at: u32| (last > at).then_some(usize::try_from(at).unwrap_or(0));
    let serving =
        Running::start(poller(serving, Rest::Yield, far), core(1)).map_err(|error| refused(&error))?;
    let calling = Running::start(poller(vec![calling], Rest::Yield, near), core(0));
    let calling = calling.map_err(|error| refused(&error))?;
    let taken = taken.recv_timeout(PATIENCE).map_err(|_| unanswered());
    calling.stop().map_err(|error| refused(&error))?;
    serving.stop().map_err(|error| refused(&error))?;
    let disaggregated = nodes.first().map(|node| node.status().bytes);
    Ok(Measured { taken: taken?, resident: None, disaggregated })
}

/// Runs one system with one application in this process.
pub(super) fn measure(plan: &UbftBench, system: System, app: App) -> Result<Measured, SynError> {
    drive(plan, (system, app), |_| {
        let tally = Arc::new(Tally::default());
        (tally.clone(), Some(tally))
    })
}

/// Where the time of a request of the fast path goes: its phases, and how many of so many requests they are of.
pub(super) struct Breakdown {
    pub(super) phases: Vec<serde_json::Value>,
    pub(super) requests: u64,
    pub(super) of: u64,
}

/// Runs the replicas once more, with notes of rules; no row is made of it.
pub(super) fn breakdown(plan: &UbftBench, app: App) -> Result<(Breakdown, Taken), SynError> {
    let plan = UbftBench { samples: plan.samples.min(SAMPLES_MAX), ..plan.clone() };
    let all: Vec<Arc<Marks>> = (0..REPLICAS).map(|_| Arc::new(Marks::default())).collect();
    let watch = |me: u32| {
        let marks = usize::try_from(me).ok().and_then(|me| all.get(me)).cloned().unwrap_or_default();
        (marks as Arc<dyn Observer>, None)
    };
    let Measured { taken, .. } = drive(&plan, (System::Synod, app), watch)?;
    let marks: Vec<&Marks> = all.iter().map(|marks| &**marks).collect();
    let (phases, requests) = phases(&taken, &marks);
    Ok((Breakdown { phases, requests, of: u64::from(plan.samples) }, taken))
}

#[cfg(test)]
mod tests;
