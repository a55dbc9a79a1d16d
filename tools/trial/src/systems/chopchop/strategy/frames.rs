//! Which strategy an incident asks for, and how strategies speak.

use std::rc::Rc;

use synod_chopchop::config::Cluster;
use synod_chopchop::vocabulary::Message;
use synod_crypto::Keys;
use synod_machine::{Message as _, Never};
use synod_quorum::NodeId;
use synod_sim::{Act, Family, Incident, Strategy, generic};
use synod_wire::{Bytes, Wire, Writer};

use super::super::over::PACK;
use super::super::plan::{Ordering, Roles};
use super::{cheat, liar, rogue, within};
use crate::strategy::{self as replicas, Secrets};

/// Frames as they travel: the version, then the message.
pub(super) fn sealed(message: &Message<Never>) -> Bytes {
    let mut out = Writer::with_capacity(1 + message.size_hint());
    out.byte(Message::<Never>::VERSION);
    message.write(&mut out);
    out.freeze()
}

/// Says something to a peer.
pub(super) fn say(act: &mut Act<'_>, to: NodeId, message: impl Into<Message<Never>>) {
    let message = message.into();
    act.inject(to, message.queue(), sealed(&message));
}

/// What whoever is corrupted knows.
pub(crate) struct Corrupted {
    /// The cluster.
    pub(crate) cluster: Cluster,
    /// Who is there.
    pub(crate) roles: Roles,
    /// What orders.
    pub(crate) ordering: Ordering,
    /// Keys that are no node's.
    pub(crate) spares: Rc<[Keys]>,
}

/// The strategy of an incident. Places are servers first, then brokers, then clients.
pub(crate) fn of(incident: &Incident, known: &Corrupted) -> Option<Box<dyn Strategy>> {
    let Corrupted { cluster, roles, spares, .. } = known;
    let place = incident.nodes.first().copied().unwrap_or(0);
    let is_server = place < roles.servers;
    let is_broker = !is_server && place < roles.servers + roles.brokers;
    if let Some(within) = within(incident, known).filter(|_| is_server) {
        return Some(within);
    }
    match incident.family {
        Family::ByzForge | Family::ByzSync | Family::ByzBatches if is_server => {
            Some(Box::new(liar::Liar::new(cluster.clone(), incident.family)))
        }
        Family::ByzForge | Family::ByzBatches | Family::ByzSync if is_broker => {
            Some(Box::new(rogue::Rogue::new(cluster.clone(), incident, spares.clone())))
        }
        Family::ByzFlood if is_broker && incident.amount.unsigned_abs().is_multiple_of(2) => {
            Some(Box::new(rogue::Rogue::new(cluster.clone(), incident, spares.clone())))
        }
        Family::ByzBatches | Family::ByzForge => Some(Box::new(cheat::Cheat::new(cluster.clone(), incident))),
        _ => generic(incident),
    }
}

/// A liar of HotStuff inside a server: for what only replicas do always, else for every third incident.
fn within(incident: &Incident, known: &Corrupted) -> Option<Box<dyn Strategy>> {
    let third = incident.amount.unsigned_abs().is_multiple_of(3);
    let inside = match incident.family {
        Family::ByzEquivocate | Family::ByzAcks | Family::ByzShave | Family::ByzCollude => true,
        Family::ByzMutate | Family::ByzForge | Family::ByzSync | Family::ByzFlood | Family::ByzSilent => {
            third
        }
        _ => false,
    };
    if known.ordering != Ordering::HotStuff || !inside {
        return None;
    }
    let (cluster, members) = (known.cluster.digest(), known.roles.servers);
    let secrets = Secrets { cluster, pack: PACK, members, over_budget: false, turns: None };
    let liar = replicas::of(incident, secrets)?;
    Some(Box::new(within::Within(liar)))
}
