//! Errors of the world, with their codes.

use synod_config::{Genesis, SynError, code};

/// A configuration that contradicts itself.
pub(crate) fn invalid(why: &str) -> SynError {
    let between = [("first", "the genesis"), ("second", "what this process was given"), ("problem", why)];
    SynError::of(code::RELATION_BROKEN, &between)
}

/// What the network runtime says.
pub(crate) fn network(error: &synod_net::Error) -> SynError {
    match error {
        synod_net::Error::PortTaken { .. } => SynError::of(code::PORT_TAKEN, &[]).because(error.to_string()),
        _ => SynError::of(code::BUG, &[]).because(error.to_string()),
    }
}

/// What the journal says, under its own code.
pub(crate) fn storage(error: &synod_journal::Error) -> SynError {
    SynError::of(synod_config::Code::new(error.code()), &[]).because(error.to_string())
}

/// The journal's directory cannot be opened.
pub(crate) fn unreadable(path: &std::path::Path, error: &std::io::Error) -> SynError {
    SynError::of(code::CONFIG_UNREADABLE, &[("file", &path.display().to_string())]).because(error)
}

/// A peer showed a statement of this node that its log does not have.
pub(crate) fn rolled_back(genesis: &Genesis, peer: u64) -> SynError {
    let name = usize::try_from(peer).ok().and_then(|at| genesis.members().get(at));
    SynError::of(code::ROLLED_BACK, &[("peer", name.map_or("a peer", |member| &member.name))])
}
