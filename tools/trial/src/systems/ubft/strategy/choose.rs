//! Which strategy an incident asks for.

use synod_machine::Span;
use synod_sim::{Again, Family, Incident, PPM, Strategy, generic};
use synod_ubft::Config;
use synod_ubft::message::Message;

use crate::systems::ubft::plan::Roles;

/// What whoever is corrupted knows.
pub(crate) struct Corrupted {
    /// The cluster in its first epoch.
    pub(crate) genesis: Config,
    /// Who is there.
    pub(crate) roles: Roles,
}

/// The strategy of an incident. Places are replicas first, then clients, then memory nodes, which tell no lies.
pub(crate) fn of(incident: &Incident, known: &Corrupted) -> Option<Box<dyn Strategy>> {
    let place = incident.nodes.first().copied().unwrap_or(0);
    if place >= known.roles.first_memory_place() {
        return None;
    }
    let is_replica = place < known.roles.replicas;
    match incident.family {
        Family::ByzEquivocate
        | Family::ByzAcks
        | Family::ByzForge
        | Family::ByzRegisters
        | Family::ByzBatches
        | Family::ByzSync
            if is_replica =>
        {
            Some(Box::new(super::liar::Liar::new(known.genesis.clone(), incident)))
        }
        // Where its session is, a client signs for each replica alone.
        Family::ClientRetry | Family::ClientDup => Some(Box::new(Again {
            others: incident.family == Family::ClientDup,
            share_ppm: PPM / 2,
            longest: Span::micros(incident.amount.unsigned_abs()),
            is_request: |body| {
                matches!(
                    crate::systems::ubft::sight::opened(body),
                    Some(Message::Ask { .. } | Message::Register { .. })
                )
            },
        })),
        _ => generic(incident),
    }
}
