//! The numbers of a scenario that the HotStuff system knows, and what it makes of them.

use synod_hotstuff::{Complaints, Pack, Parameters, Votes};
use synod_machine::Span;
use synod_sim::Scenario;

/// A number of the scenario, or its default.
#[must_use]
pub fn number(scenario: &Scenario, key: &str, default: u64) -> u64 {
    scenario.options.get(key).and_then(|value| u64::try_from(*value).ok()).unwrap_or(default)
}

/// The rule pack of a system such as `hotstuff/chain3`.
#[must_use]
pub fn pack_of(system: &str) -> Option<Pack> {
    Pack::parse(system.strip_prefix("hotstuff/")?)
}

/// Bytes of a block in trials: small enough that blocks fill.
const BLOCK_BYTES: u64 = 256 << 10;

/// The protocol's parameters in this scenario.
#[must_use]
pub fn parameters(scenario: &Scenario, pack: Pack) -> Parameters {
    let defaults = Parameters::of(pack, scenario.nodes);
    let of = |key: &str, default: u64| number(scenario, key, default);
    let small = |key: &str, default: u64| u32::try_from(of(key, default)).unwrap_or(u32::MAX);
    let leader = of("votes_leader", u64::from(defaults.votes == Votes::Leader)) == 1;
    let first = of("complaints_first", 0) == 1;
    Parameters {
        term_views: of("term_views", defaults.term_views),
        votes: if leader { Votes::Leader } else { Votes::Broadcast },
        complaints: if first { Complaints::LeaderFirst } else { defaults.complaints },
        reputation: of("reputation", u64::from(defaults.reputation)) == 1,
        timeout_base: Span::millis(of("timeout_base_ms", defaults.timeout_base.0 / 1_000_000)),
        timeout_max: timeout_max(scenario),
        block_bytes: small("block_bytes", BLOCK_BYTES),
        block_items: small("block_items", 256),
        batch_max: small("block_items", 256),
        batch_wait: Span::micros(of("batch_wait_us", 1_000)),
        mempool_bytes: of("mempool_bytes", 4 << 20),
        pool_items: small("pool_items", 4_096),
        view_window: of("view_window", 64),
        checkpoint_every: of("checkpoint_every", 256),
        retain_blocks: of("retain_blocks", 64),
        executor_lag_max: of("executor_lag_max", 64),
        ..defaults
    }
}

/// The longest view timeout.
#[must_use]
pub fn timeout_max(scenario: &Scenario) -> Span {
    Span::millis(number(scenario, "timeout_max_ms", 4_000))
}
