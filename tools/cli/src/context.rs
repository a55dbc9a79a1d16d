//! Reaching the cluster of a context.

use crate::session::Session;
use synod_config::{Genesis, SynError};
use synod_quorum::NodeId;

/// Client addresses of every member that states one.
pub(crate) fn client_addresses(genesis: &Genesis) -> Vec<(NodeId, String)> {
    let stated = genesis.members().iter().map(|member| member.client.as_ref().map(ToString::to_string));
    (0_u32..).map(NodeId).zip(stated).filter_map(|(id, address)| Some((id, address?))).collect()
}

/// The genesis of the context a verb means, if there is one.
///
/// # Errors
/// Those of the contexts file and of the genesis.
pub(crate) fn genesis(session: &Session) -> Result<Option<Genesis>, SynError> {
    let Some(context) = session.chosen()? else { return Ok(None) };
    Genesis::read(&context.genesis).map(Some)
}
