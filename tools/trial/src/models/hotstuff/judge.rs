//! The oracles of one honest machine, and those that compare machines.
//!
//! H-S5, H-S6 and X3 of a machine follow from what that machine did and from headers, which their digests fix; so they
//! are judged along its own history, once for every run that the history is part of. H-S1, H-S2 and H-S7 compare
//! machines; they are judged where a machine commits or delivers.

use synod_crypto::{Hash, Hasher};
use synod_machine::{Queue, Time, To};
use synod_quorum::NodeId;
use synod_sim::{Deed, Moment, Seen as Event};
use synod_wire::Bytes;

use super::instance::{Instance, MEMBERS};
use crate::oracle::{Agreement, Blocks, Breach, Commits, Oracle, Promises, Seen, Sighting, Verdict, Votes};
use crate::sight::{REPLICA, Sight};
use crate::systems::hotstuff::judged;

/// What the oracles know of one honest machine.
#[derive(Clone)]
pub(super) struct Judge {
    own: NodeId,
    votes: Votes,
    promises: Promises,
    history: Hash,
    /// Votes, complaints and safety records: what others' commits are justified by.
    cast: Vec<Sighting>,
    committed: Vec<Sighting>,
    delivered: Vec<Sighting>,
}

impl Judge {
    pub(super) fn new(instance: &Instance, own: NodeId) -> Self {
        Self {
            own,
            votes: Votes::new(u32::from(MEMBERS)),
            promises: Promises::new(judged(instance.pack)),
            history: Hash::ZERO,
            cast: Vec::new(),
            committed: Vec::new(),
            delivered: Vec::new(),
        }
    }

    /// Takes what the machine did in one step; whether it committed or delivered. `blocks` holds every header of the
    /// model and no votes.
    pub(super) fn see(&mut self, deeds: &[Deed], blocks: &mut Blocks) -> Result<bool, Breach> {
        let sightings = sighted(self.own, deeds);
        let mut moved = false;
        for sighting in &sightings {
            match sighting.seen {
                Seen::Header(_) => {
                    blocks.learn(sighting);
                    continue;
                }
                Seen::Voted(..) | Seen::Complained { .. } | Seen::Safety(_) => self.cast.push(*sighting),
                Seen::Committed { .. } => self.committed.push(*sighting),
                Seen::Delivered { .. } => self.delivered.push(*sighting),
                _ => {}
            }
            moved |= matches!(sighting.seen, Seen::Committed { .. } | Seen::Delivered { .. });
            let mut history = Hasher::new("synod model history");
            history.add(&self.history.0).add(format!("{:?}", sighting.seen).as_bytes());
            self.history = history.finish();
            self.votes.see(sighting, blocks)?;
            self.promises.see(sighting, blocks)?;
        }
        Ok(moved)
    }

    /// A digest of everything it saw, in order.
    pub(super) const fn history(&self) -> Hash {
        self.history
    }

    /// Whether anything was delivered.
    pub(super) fn has_delivered(&self) -> bool {
        !self.delivered.is_empty()
    }
}

/// Every header of a model, for judging machines one by one: who may have signed what is judged elsewhere.
pub(super) fn headers() -> Blocks {
    let mut blocks = Blocks::default();
    (0..u32::from(MEMBERS)).for_each(|member| blocks.fault(member));
    blocks
}

/// H-S1, H-S2 and H-S7 over all honest machines together. The twin counts as having signed everything.
pub(super) fn together(instance: &Instance, judges: &[&Judge], headers: &[Sighting]) -> Verdict {
    let mut agreement = Agreement::default();
    let mut commits = Commits::new(judged(instance.pack), u32::from(MEMBERS));
    let mut blocks = Blocks::default();
    blocks.fault(u32::from(instance.twin));
    headers.iter().for_each(|sighting| blocks.learn(sighting));
    for judge in judges {
        judge.delivered.iter().try_for_each(|sighting| agreement.see(sighting, &blocks))?;
        judge.cast.iter().for_each(|sighting| blocks.learn(sighting));
    }
    let mut all = judges.iter().flat_map(|judge| &judge.committed);
    all.try_for_each(|sighting| commits.see(sighting, &blocks))
}

/// The headers inside a frame body, as the oracles see them.
pub(super) fn headers_in(body: Bytes) -> Vec<Sighting> {
    let deeds = [Deed::Send { to: To::Node(NodeId(0)), queue: Queue::CONTROL, body }];
    let mut sightings = sighted(NodeId(0), &deeds);
    sightings.retain(|sighting| matches!(sighting.seen, Seen::Header(_)));
    sightings
}

/// What the oracles see of one step of an honest machine.
fn sighted(node: NodeId, deeds: &[Deed]) -> Vec<Sighting> {
    let moment = Moment {
        event: 0,
        cause: 0,
        time: Time::ZERO,
        node,
        twin: 0,
        incarnation: 1,
        honest: true,
        machine: REPLICA,
        seen: &Event::Input,
        deeds,
        crashed: false,
    };
    let mut sightings = Vec::new();
    Sight::of(&moment, &mut sightings);
    sightings
}
