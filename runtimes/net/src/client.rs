//! The guest's side: a client, proxy or load generator that dials the members' client listeners.
//!
//! A guest is known by its own Ed25519 key, which nobody has to know in advance; the members' keys are pinned, so
//! that a guest never speaks to an impostor. Its machine and the members' machine that answers it share a number.

use std::collections::BTreeMap;

use synod_crypto::{Hash, Seed};
use synod_quorum::{NodeId, Roster};

use crate::config::{Address, Config, Limits, Role, Transport};
use crate::{Hosting, NodeBuilder};

/// Who a guest is and whom it calls.
pub struct Guest {
    /// The guest's own secret; any will do.
    pub seed: Seed,
    /// The cluster's name, as in its genesis.
    pub cluster_name: String,
    /// Digest of the genesis.
    pub cluster: Hash,
    /// The members, whose keys are pinned.
    pub roster: Roster,
    /// The members' client listeners.
    pub addresses: BTreeMap<NodeId, Address>,
    /// How bytes travel.
    pub transport: Transport,
}

impl Guest {
    /// The id under which a guest's machine knows itself.
    pub const OWN: NodeId = NodeId::GUESTS;

    /// A node that hosts `machine` and keeps a link to every member whose address is given.
    #[must_use]
    pub fn node(self, machine: Hosting) -> NodeBuilder {
        let config = Config {
            own: Self::OWN,
            role: Role::Guest,
            seed: self.seed,
            cluster_name: self.cluster_name,
            cluster: self.cluster,
            roster: self.roster,
            transport: self.transport,
            limits: Limits::default(),
        };
        let builder = NodeBuilder::new(config).machine(machine);
        self.addresses
            .into_iter()
            .fold(builder, |builder, (member, address)| builder.address(member, address))
    }
}
