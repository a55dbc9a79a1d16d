//! Which strategy an incident asks for, and how strategies speak.

use synod_chopchop::config::Cluster;
use synod_chopchop::vocabulary::Message;
use synod_machine::{Message as _, Never};
use synod_quorum::NodeId;
use synod_sim::{Act, Family, Incident, Strategy, generic};
use synod_wire::{Bytes, Wire, Writer};

use super::super::plan::Roles;
use super::{cheat, liar, rogue};

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

/// The strategy of an incident. Places are servers first, then brokers, then clients.
pub(crate) fn of(incident: &Incident, cluster: &Cluster, roles: &Roles) -> Option<Box<dyn Strategy>> {
    let place = incident.nodes.first().copied().unwrap_or(0);
    let is_server = place < roles.servers;
    let is_broker = !is_server && place < roles.servers + roles.brokers;
    match incident.family {
        Family::ByzForge | Family::ByzSync | Family::ByzBatches if is_server => {
            Some(Box::new(liar::Liar::new(cluster.clone(), incident.family)))
        }
        Family::ByzForge | Family::ByzBatches | Family::ByzSync if is_broker => {
            Some(Box::new(rogue::Rogue::new(cluster.clone(), incident.family)))
        }
        Family::ByzBatches | Family::ByzForge => Some(Box::new(cheat::Cheat::new(cluster.clone()))),
        _ => generic(incident),
    }
}
