//! From the genesis and a node's configuration to what the machines are built from.

use synod_config::{ClientAuth as Authentication, Genesis, NodeConfig, Rules, SynError};
use synod_hotstuff as hotstuff;
use synod_machine::Span;
use synod_machine::broadcast::Position;
use synod_quorum::NodeId;
use synod_service::{ClientAuth, ExecutorConfig, ExecutorLimits};

use crate::error::invalid;

/// The rule pack of a genesis.
fn pack(rules: Rules) -> Option<hotstuff::Pack> {
    hotstuff::Pack::ALL.into_iter().find(|pack| pack.name() == rules.as_str())
}

fn span(duration: std::time::Duration) -> Span {
    Span(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// The replica's configuration. `resume` is the last position the executor holds durably.
pub(crate) fn replica(
    genesis: &Genesis,
    node: &NodeConfig,
    own: NodeId,
    resume: Position,
) -> Result<hotstuff::Config, SynError> {
    let from = genesis.parameters();
    let rules = pack(from.rules).ok_or_else(|| invalid("protocol.rules names no pack of this build"))?;
    let mut p = hotstuff::Parameters::of(rules, genesis.roster().size());
    p.term_views = u64::from(from.term_views);
    p.votes = match from.votes {
        synod_config::Votes::Leader => hotstuff::Votes::Leader,
        _ => hotstuff::Votes::Broadcast,
    };
    p.complaints = match from.complaints {
        synod_config::Complaints::LeaderFirst => hotstuff::Complaints::LeaderFirst,
        _ => hotstuff::Complaints::Broadcast,
    };
    p.reputation = from.reputation;
    p.timeout_base = span(node.protocol.timeout_base);
    p.timeout_max = span(node.protocol.timeout_max);
    p.block_bytes = from.block_bytes;
    p.block_items = from.block_items;
    p.batch_max = node.protocol.batch_max.unwrap_or(p.batch_max).min(from.block_items.max(1));
    p.batch_wait = span(node.protocol.batch_wait);
    p.mempool_bytes = node.limits.mempool_bytes;
    p.pool_items = from.pool_items;
    p.view_window = u64::from(from.view_window);
    p.checkpoint_every = u64::from(from.checkpoint_every);
    p.retain_blocks = u64::from(from.retain_blocks);
    p.executor_lag_max = u64::from(from.executor_lag_max);
    let identity = hotstuff::Identity { own, cluster: genesis.id(), roster: genesis.roster().clone() };
    hotstuff::Config::new(identity, p, resume).map_err(|rule| invalid(rule.0))
}

/// The executor's configuration around `app`.
pub(crate) fn executor<P>(genesis: &Genesis, node: &NodeConfig, own: NodeId, app: P) -> ExecutorConfig<P> {
    let from = genesis.parameters();
    let mut limits = ExecutorLimits {
        checkpoint_every: u64::from(from.checkpoint_every),
        pool_bytes: node.limits.mempool_bytes,
        pool_items: from.pool_items,
        ..ExecutorLimits::default()
    };
    limits.sessions.window = from.session_window;
    ExecutorConfig {
        app,
        own,
        roster: genesis.roster().clone(),
        cluster: genesis.id(),
        auth: authentication(genesis),
        limits,
    }
}

/// How the cluster knows the origin of client frames.
pub(crate) fn authentication(genesis: &Genesis) -> ClientAuth {
    match genesis.parameters().client_auth {
        Authentication::Channel => ClientAuth::Channel,
        _ => ClientAuth::Signed,
    }
}
