//! From the genesis and a node's configuration to what the machines are built from.

use synod_config::{ClientAuth as Authentication, Filter, Genesis, NodeConfig, SynError};
use synod_hotstuff as hotstuff;
use synod_machine::Span;
use synod_machine::broadcast::Position;
use synod_quorum::NodeId;
use synod_service::{ClientAuth, ExecutorConfig, ExecutorLimits};

use crate::error::invalid;

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
    let rules = hotstuff::Pack::named(from.rules.as_str())
        .ok_or_else(|| invalid("protocol.rules names no pack of this build"))?;
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
    p.filter = match from.filter {
        Filter::Seen => hotstuff::Filter::Seen,
        Filter::Committed => hotstuff::Filter::Committed,
        _ => hotstuff::Filter::Branch,
    };
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
        ahead_bytes: ExecutorLimits::ahead(
            u64::from(from.executor_lag_max),
            u64::from(from.block_bytes),
            if from.block_items == 0 { 65_536 } else { u64::from(from.block_items) },
        ),
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

#[cfg(test)]
mod tests {
    use synod_config::{Address, Cluster, Effective, GENESIS_KEYS, Kind, Member, NodeKey, Protocol, Rules};
    use synod_crypto::Seed;

    use super::*;

    const NONE: [(String, String); 0] = [];

    /// Four members, every value stated.
    fn text(rules: Rules) -> String {
        let member = |at: u8| {
            let key = NodeKey::from_seed(Seed::new([at; 32])).public();
            Member::new(&format!("n{at}"), Address::loopback(7100 + 10 * u16::from(at)), key)
        };
        let cluster = Cluster {
            name: "main".to_owned(),
            protocol: Protocol::Hotstuff,
            app: "kv".to_owned(),
            drill: true,
        };
        let parameters = synod_config::Parameters::defaults(rules, 4);
        let built = Genesis::build(cluster, parameters, (0..4).map(member).collect(), Vec::new());
        built.expect("the defaults are valid").to_toml()
    }

    /// A genesis is for ever: what it accepts has to start.
    #[test]
    fn a_genesis_that_is_accepted_makes_a_replica() {
        let node =
            Effective::load(Some(("node.toml", "")), NONE, [("node.name".to_owned(), "n0".to_owned())]);
        let node = node.and_then(|node| node.config()).expect("the defaults are valid");
        let mut accepted = 0;
        for rules in Rules::WORDS.iter().filter_map(|word| Rules::parse(word)) {
            let base = text(rules);
            for key in GENESIS_KEYS.iter().filter(|key| key.name.starts_with("protocol.")) {
                let leaf = key.name.trim_start_matches("protocol.");
                let Some(line) = base.lines().find(|line| line.starts_with(&format!("{leaf} = "))) else {
                    continue;
                };
                let values: Vec<String> = match key.kind {
                    Kind::Count(low, high) | Kind::Size(low, high) => vec![low.to_string(), high.to_string()],
                    Kind::Choice(words) => words.iter().map(|word| format!("\"{word}\"")).collect(),
                    Kind::Flag => vec!["true".to_owned(), "false".to_owned()],
                    _ => Vec::new(),
                };
                for value in values {
                    let changed = base.replacen(line, &format!("{leaf} = {value}"), 1);
                    let Ok(genesis) = Genesis::parse("genesis.toml", &changed) else { continue };
                    accepted += 1;
                    let made = replica(&genesis, &node, NodeId(0), Position(0)).map(drop);
                    assert_eq!(made, Ok(()), "{rules}: {leaf} = {value}");
                }
            }
        }
        assert!(accepted > 100, "{accepted} were accepted");
    }
}
