//! HotStuff under the servers of Chop Chop.

use synod_chopchop::config::Cluster;
use synod_chopchop::server::OrderConfig;
use synod_hotstuff::{Config, Identity, Invalid, Pack, Parameters, Replica};
use synod_machine::Span;
use synod_machine::broadcast::Position;
use synod_quorum::NodeId;
use synod_sim::Scenario;

use crate::params::{number, parameters};

/// The rule pack under every server.
pub const PACK: Pack = Pack::Chain2Order;

fn numbers(scenario: &Scenario, cluster: &Cluster) -> Parameters {
    Parameters {
        checkpoint_every: cluster.rules().checkpoint_every,
        batch_wait: Span::micros(number(scenario, "batch_wait_us", 1_000)),
        ..parameters(scenario, PACK)
    }
}

/// Makes the configuration of the replica under the server `own`, wherever it resumes.
///
/// # Errors
/// [`Invalid`] states the rule that is broken.
pub fn replicas(
    scenario: &Scenario,
    cluster: &Cluster,
    own: NodeId,
) -> Result<OrderConfig<Replica>, Invalid> {
    let parameters = numbers(scenario, cluster);
    let identity = Identity { own, cluster: cluster.digest(), roster: cluster.roster().clone() };
    let first = Config::new(identity.clone(), parameters.clone(), Position(0))?;
    Ok(Box::new(move |resume| {
        Config::new(identity.clone(), parameters.clone(), resume).unwrap_or_else(|_| first.clone())
    }))
}
