//! One member of a conversation, woken on a log that somebody changed, and tempted: what it does then.

use std::panic::{AssertUnwindSafe, catch_unwind};

use synod_machine::host::LaneLog;
use synod_quorum::NodeId;
use synod_sim::Keyring;

use super::outcomes::Disk;
use super::rig::Rig;
use super::tape::{CALLS, LANES, Step, talk};
use super::tempter::Tempter;
use crate::oracle::Seen;
use crate::params::{pack_of, parameters};
use crate::systems::hotstuff::Plan;

/// What a member did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// It did not come up.
    Refused(String),
    /// It signed nothing, however it was tempted.
    Silent {
        /// How long it was tempted.
        steps: u32,
    },
    /// It signed something.
    Promised(String),
}

/// Who is woken.
const MEMBER: u32 = 1;

/// Plays the conversation of a system, changes one member's log, wakes it and tempts it.
///
/// # Errors
/// The conversation did not come about, or the member panicked.
pub(crate) fn wake(system: &str, edit: impl Fn(&mut [LaneLog])) -> Result<Woken, String> {
    let talk = talk(system)?;
    if let Some((checker, what)) = &talk.broken {
        return Err(format!("{checker}: {what}"));
    }
    let scenario = &talk.scenario;
    let pack = pack_of(system).ok_or_else(|| format!("no system is called {system}"))?;
    let tape = talk.tapes.get(MEMBER as usize).ok_or("no such member")?;
    let mut disk = Disk::new(NodeId(MEMBER), LANES, false)?;
    let mut promised = std::collections::BTreeSet::new();
    for step in &tape.steps {
        disk.take(step);
        if let Step::Effect(_, sightings) = step {
            promised.extend(sightings.iter().filter_map(|sighting| match sighting.seen {
                Seen::Voted(mark, _) => Some(mark.view),
                _ => None,
            }));
        }
    }
    let mut storage = disk.outcomes().pop().ok_or("no outcome")?;
    let mut logs = storage.open().map_err(|refusal| refusal.0)?;
    edit(&mut logs);
    let ring = Keyring::new(scenario.crypto, scenario.seed);
    let plan = Plan::new(scenario)?;
    let own = (NodeId(MEMBER), ring.keys(u64::from(MEMBER)));
    let woken = catch_unwind(AssertUnwindSafe(|| {
        let mut rig = match Rig::on(&plan, own, (storage, logs), talk.lore.latest + 1_000) {
            Ok(rig) => rig,
            Err(refusal) => return Woken::Refused(refusal.0),
        };
        rig.sightings.clear();
        let keys: Vec<_> = (0..scenario.nodes).map(|id| ring.keys(u64::from(id))).collect();
        let term_views = parameters(scenario, pack).term_views;
        let mut tempter = Tempter::new(NodeId(MEMBER), (pack, term_views), &keys, &talk.lore);
        tempter.tempt(&mut rig, &promised);
        let signed =
            |seen: &Seen| matches!(seen, Seen::Voted(..) | Seen::Proposed(_) | Seen::Complained { .. });
        match rig.sightings.iter().find(|sighting| signed(&sighting.seen)) {
            Some(sighting) => Woken::Promised(format!("{:?}", sighting.seen)),
            None => Woken::Silent { steps: CALLS },
        }
    }));
    woken.map_err(|_| "the member panicked".to_owned())
}
