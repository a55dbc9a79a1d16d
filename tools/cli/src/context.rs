//! Reaching the cluster of a context.

use synod_config::Genesis;
use synod_quorum::NodeId;

/// Client addresses of every member that states one.
pub(crate) fn client_addresses(genesis: &Genesis) -> Vec<(NodeId, String)> {
    let stated = genesis.members().iter().map(|member| member.client.as_ref().map(ToString::to_string));
    (0_u32..).map(NodeId).zip(stated).filter_map(|(id, address)| Some((id, address?))).collect()
}
