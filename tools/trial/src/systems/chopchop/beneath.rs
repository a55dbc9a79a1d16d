//! uBFT under the servers of Chop Chop.

use std::sync::Arc;

use synod_chopchop::config::Cluster;
use synod_chopchop::server::OrderConfig;
use synod_machine::broadcast::Position;
use synod_machine::{Span, Unrecoverable};
use synod_quorum::{Epoch, NodeId};
use synod_sim::Scenario;
use synod_ubft::batch::View;
use synod_ubft::ordering::OrderingConfig;
use synod_ubft::replica::ReplicaConfig;
use synod_ubft::sessions::SessionLimits;
use synod_ubft::{Config, Memory, Ordering, Parameters};

use crate::params::number;

/// t: messages of a broadcaster that are delivered.
pub const TAIL: u32 = 16;
/// The boot number that the first epoch lists.
const FIRST_BOOT: u64 = 1;
/// W: slots that are worked on.
const WINDOW: u32 = 32;
/// Entries that are given to a server and not applied.
const AHEAD: u64 = 64;

fn parameters(scenario: &Scenario, every: u64) -> Parameters {
    let of = |key: &str, default: u64| number(scenario, key, default);
    // A snapshot is covered by a state before the next one is taken.
    let apart = every.saturating_add(AHEAD).saturating_add(u64::from(WINDOW));
    let apart = apart.next_multiple_of(u64::from(WINDOW / 2)).max(of("snapshot_slots", 0));
    Parameters {
        tail: TAIL,
        window: WINDOW,
        batch_max: 8,
        batch_bytes_max: 4 << 10,
        request_inline_max: 2 << 10,
        request_max: 2 << 10,
        echo_raw_max: 128,
        snapshot_slots: u32::try_from(apart).unwrap_or(u32::MAX),
        fast: Span::micros(of("fast_us", 2_000)),
        echo: Span::micros(of("echo_us", 1_000)),
        suspect: Span::millis(of("suspect_ms", 50)),
        merge_promises: false,
    }
}

/// Makes the configuration of the ordering under the server `own`, wherever it resumes.
///
/// # Errors
/// The numbers of the scenario make no ordering.
pub fn orderings(
    scenario: &Scenario,
    cluster: &Cluster,
    (own, memory): (NodeId, impl Iterator<Item = NodeId>),
) -> Result<OrderConfig<Ordering>, Unrecoverable> {
    let every = cluster.rules().checkpoint_every;
    let config = Config {
        cluster: cluster.digest(),
        epoch: Epoch(0),
        me: own,
        roster: Arc::new(cluster.roster().clone()),
        first_view: View(0),
        memory: memory.map(|node| Memory { node, boot: FIRST_BOOT }).collect(),
        parameters: parameters(scenario, every),
    };
    config.quorums().map_err(|why| Unrecoverable(format!("the parameters make no replica: {why:?}")))?;
    let sessions = SessionLimits { sessions_max: 1, session_window: 16, reply_max: 64 };
    let archive_bytes_max = number(scenario, "archive_bytes", 4 << 20);
    let fast_path = number(scenario, "slow_only", 0) == 0;
    let replica = ReplicaConfig { config, sessions, archive_bytes_max, fast_path };
    let first = OrderingConfig {
        checkpoint_every: every,
        ahead_max: AHEAD,
        retry: Span::millis(number(scenario, "retry_ms", 10)),
        ..OrderingConfig::new(replica, Position(0))
    };
    first.check()?;
    Ok(Box::new(move |resume| OrderingConfig { resume, ..first.clone() }))
}

#[cfg(test)]
mod tests {
    use crate::report::Outcome;
    use crate::run::{Manner, run};
    use crate::systems::chopchop::OVER_UBFT;
    use crate::token::RunOptions;

    /// Seeds on from `SYNOD_UBFT_FROM`, as many as `SYNOD_UBFT_MANY` says; a dozen where nobody does.
    fn seeds() -> core::ops::Range<u64> {
        let of = |name: &str, default: u64| {
            std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
        };
        let from = of("SYNOD_UBFT_FROM", 1);
        from..from + of("SYNOD_UBFT_MANY", 12)
    }

    #[test]
    fn servers_over_ubft_deliver_what_honest_clients_broadcast_and_agree() {
        let (mut delivered, mut crashes, mut runs) = (0, 0, 0);
        for seed in seeds() {
            let report = run(OVER_UBFT, seed, &RunOptions::default(), Manner::default()).expect("a system");
            assert_eq!(report.verdict, Outcome::Pass, "seed {seed}: {}", report.what);
            delivered += report.delivered;
            crashes += report.counts.get("crashes").copied().unwrap_or(0);
            runs += 1;
        }
        assert!(delivered > 2 * runs, "{delivered} batches in {runs} runs");
        assert!(crashes > 0 || runs < 12, "some are started again");
    }
}
