//! How a node is told about its links.

use std::collections::BTreeSet;
use std::sync::Arc;

use synod_crypto::{Hash, Keys, check_key};
use synod_machine::Queue;
use synod_quorum::NodeId;

use super::dial::LinkPeer;
use super::links::{LINKED, LinkParts};
use super::settings::LinkSockets;
use crate::frames::{QueueTable, Route};
use crate::{Error, NodeBuilder};

/// The queues of a machine that its links carry: what comes in, and what goes out. Roles of one vocabulary that each have
/// a queue of their own name both; a queue alone is both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkQueues {
    /// Bodies that come in are of this queue.
    pub inward: Queue,
    /// What the machine says to a link must be in this queue; all else is dropped and counted.
    pub outward: Queue,
}

impl From<Queue> for LinkQueues {
    fn from(queue: Queue) -> Self {
        Self { inward: queue, outward: queue }
    }
}

/// The links of a node that is being described.
#[derive(Default)]
pub(crate) struct LinkPlan {
    routes: Vec<(u8, LinkQueues)>,
    accepting: Option<LinkSockets>,
    calling: Option<(LinkSockets, Vec<LinkPeer>)>,
}

impl NodeBuilder {
    /// Accepts datagram links for `machine`, whose `queues` they carry. A peer's id is [`LINKED`] plus the number of its
    /// link, which changes whenever it shakes hands.
    #[must_use]
    pub fn listen_links(mut self, sockets: LinkSockets, machine: u8, queues: impl Into<LinkQueues>) -> Self {
        self.links.routes.push((machine, queues.into()));
        self.links.accepting = Some(sockets);
        self
    }

    /// Calls `peers` by datagram links for `machine`, whose `queues` they carry. Each has an id of its own, from
    /// [`NodeId::GUESTS`] on and below [`LINKED`]; one address may be called more than once.
    #[must_use]
    pub fn dial_links(
        mut self,
        sockets: LinkSockets,
        machine: u8,
        queues: impl Into<LinkQueues>,
        peers: Vec<LinkPeer>,
    ) -> Self {
        self.links.routes.push((machine, queues.into()));
        self.links.calling = Some((sockets, peers));
        self
    }
}

impl LinkPlan {
    /// Checks the plan; `None` when the node has no links.
    ///
    /// # Errors
    /// [`Error::Config`] says what contradicts itself.
    pub(crate) fn parts(
        self,
        hosted: &[u8],
        table: &QueueTable,
        has_guests: bool,
        (keys, cluster): (Arc<Keys>, Hash),
    ) -> Result<Option<LinkParts>, Error> {
        let wrong = |why: &str| Err(Error::Config(why.to_owned()));
        let Some((machine, queues)) = self.routes.first().copied() else { return Ok(None) };
        if self.routes.iter().any(|other| *other != (machine, queues)) {
            return wrong("all datagram links of a node are of one machine and its queues");
        }
        let route = |queue: Queue| Route { machine, queue: queue.0 };
        let (inward, outward) = (route(queues.inward), route(queues.outward));
        let known = [inward, outward].into_iter().all(|route| table.index(route).is_some());
        if !hosted.contains(&machine) || !known {
            return wrong("datagram links are of a hosted machine and queues of it");
        }
        if let Some((sockets, peers)) = &self.calling {
            let ids: BTreeSet<NodeId> = peers.iter().map(|peer| peer.id).collect();
            if has_guests {
                return wrong("ids of called links and of guests would be the same");
            }
            if ids.len() < peers.len() || ids.iter().any(|id| id.is_member() || *id >= LINKED) {
                return wrong("ids of called links differ, and are no member's nor an accepted link's");
            }
            if peers.iter().any(|peer| check_key(&peer.key).is_err()) {
                return wrong("a key of a called link is not sound");
            }
            if peers.iter().any(|peer| peer.address.is_ipv6() && sockets.address().is_ipv4()) {
                return wrong("an IPv4 socket does not reach an IPv6 address");
            }
        }
        let Self { accepting, calling, .. } = self;
        Ok(Some(LinkParts { inward, outward, accepting, calling, keys, cluster }))
    }
}
