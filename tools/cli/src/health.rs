//! What each node of a deployment says about itself on its metrics port: health lines and a few metrics.
//!
//! Every node is asked at the same time and none can delay the others beyond the deadline. A node speaks for
//! itself only; nothing here is verified, and nothing is concluded from one node about another.

use crate::http;
use crate::layout::PORTS_FILE;
use crate::session::usage;
use std::ops::Range;
use std::time::Duration;
use synod_config::{Address, Context, Genesis, Ports, Service, SynError, code};

/// A health check of a node that did not pass: `[-]name CODE reason`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Alarm {
    /// Name of the check.
    pub(crate) check: String,
    /// The rest of the line: code and reason.
    pub(crate) reason: String,
}

/// What a node answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Vitals {
    /// Whether it takes requests.
    pub(crate) ready: bool,
    /// Its checks that do not pass.
    pub(crate) alarms: Vec<Alarm>,
    /// Its current view.
    pub(crate) view: Option<u64>,
    /// The leader of that view, by member id.
    pub(crate) leader: Option<u64>,
    /// Height of its last committed block.
    pub(crate) height: Option<u64>,
    /// Height of its last executed block.
    pub(crate) executed: Option<u64>,
    /// Digest of the application's state behind the executed slots, at a replica of uBFT.
    pub(crate) digest: Option<u64>,
    /// The newest epoch that a replica of uBFT knows of.
    pub(crate) epoch: Option<u64>,
    /// Memory nodes that such a replica is linked with.
    pub(crate) memory_nodes: Option<u64>,
    /// Payments that settled, at a node of a payment system.
    pub(crate) settled: Option<u64>,
    /// Accounts there that cannot go on, for their owners signed two entries for a place.
    pub(crate) conflicted: Option<u64>,
    /// Batches that a server of Chop Chop accepted.
    pub(crate) accepted: Option<u64>,
    /// Batches that it delivered.
    pub(crate) delivered: Option<u64>,
    /// Clients in its directory.
    pub(crate) directory: Option<u64>,
    /// Its release.
    pub(crate) version: Option<String>,
    /// 99 of 100 syncs took at most this long, in seconds, by the bounds of the histogram.
    pub(crate) fsync_p99: Option<String>,
    /// Votes since its process started.
    pub(crate) votes: u64,
    /// Whether its state differs from a certified one.
    pub(crate) diverged: bool,
}

/// A node and what became of asking it.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Name of the member.
    pub(crate) name: String,
    /// Its vitals, or why there are none.
    pub(crate) vitals: Result<Vitals, SynError>,
}

/// A broker and what became of asking it.
#[derive(Clone, Debug)]
pub(crate) struct AskedBroker {
    /// Its name.
    pub(crate) name: String,
    /// What it said, or why it said nothing.
    pub(crate) told: Result<Brokering, SynError>,
}

/// A memory node and what became of asking it.
#[derive(Clone, Debug)]
pub(crate) struct AskedMemory {
    /// Its name.
    pub(crate) name: String,
    /// What it said, or why it said nothing.
    pub(crate) told: Result<Holding, SynError>,
}

/// All nodes of a deployment.
#[derive(Clone, Debug)]
pub(crate) struct Survey {
    /// Their genesis.
    pub(crate) genesis: Genesis,
    /// One per member, in the order of the genesis.
    pub(crate) nodes: Vec<Node>,
    /// One per broker of the genesis, in its order.
    pub(crate) brokers: Vec<AskedBroker>,
    /// One per memory node of the genesis, in its order.
    pub(crate) memory: Vec<AskedMemory>,
}

impl Survey {
    /// Asks every node of the deployment behind a context.
    ///
    /// # Errors
    /// SYN-1001 if the context names no directory, the errors of its files, SYN-2005 if nobody answers.
    pub(crate) fn take(context: &Context, patience: Duration) -> Result<Self, SynError> {
        let Some(directory) = &context.directory else {
            let problem = format!(
                "context {} names no deployment directory, where the metrics ports stand",
                context.name
            );
            return Err(
                usage(&problem).because("add the context with --dir on the machine of the deployment")
            );
        };
        let genesis = Genesis::read(&context.genesis)?;
        let stale = || {
            let values = [("context", &*context.name), ("origin", &*directory.display().to_string())];
            SynError::of(code::CONTEXT_STALE, &values)
        };
        let ports = Ports::read(&directory.join(PORTS_FILE)).map_err(|error| stale().because(error))?;
        let survey = Self::ask(genesis, &ports, patience);
        if survey.nodes.iter().all(|node| node.vitals.is_err()) {
            let reasons = survey.nodes.iter().filter_map(|node| node.vitals.as_ref().err());
            return Err(reasons.take(4).fold(stale(), SynError::because));
        }
        Ok(survey)
    }

    fn ask(genesis: Genesis, ports: &Ports, patience: Duration) -> Self {
        let names: Vec<String> = genesis.members().iter().map(|member| member.name.clone()).collect();
        let brokers = crate::deployment::broker_names(&genesis);
        let holders = crate::deployment::memory_names(&genesis);
        let (asked, told, held) = std::thread::scope(|scope| {
            let of_node = |name: &String| vitals(&metrics_address(ports, name)?, patience);
            let of_broker = |name: &String| brokering(&metrics_address(ports, name)?, patience);
            let nodes: Vec<_> = names.iter().map(|name| scope.spawn(move || of_node(name))).collect();
            let of_memory = |name: &String| holding(&metrics_address(ports, name)?, patience);
            let memory: Vec<_> = holders.iter().map(|name| scope.spawn(move || of_memory(name))).collect();
            let others: Vec<_> = brokers.iter().map(|name| scope.spawn(move || of_broker(name))).collect();
            let ask = "asking a node does not panic";
            let asked: Vec<_> = nodes.into_iter().map(|thread| thread.join().expect(ask)).collect();
            let told: Vec<_> = others.into_iter().map(|thread| thread.join().expect(ask)).collect();
            let held: Vec<_> = memory.into_iter().map(|thread| thread.join().expect(ask)).collect();
            (asked, told, held)
        });
        let nodes = names.into_iter().zip(asked).map(|(name, vitals)| Node { name, vitals }).collect();
        let brokers = brokers.into_iter().zip(told).map(|(name, told)| AskedBroker { name, told }).collect();
        let memory = holders.into_iter().zip(held).map(|(name, told)| AskedMemory { name, told }).collect();
        Self { genesis, nodes, brokers, memory }
    }

    /// Nodes that answered.
    pub(crate) fn answers(&self) -> impl Iterator<Item = (&str, &Vitals)> {
        self.nodes.iter().filter_map(|node| Some((node.name.as_str(), node.vitals.as_ref().ok()?)))
    }

    /// Members whose votes a decision needs, of each shard where there are several: with equal stake more than two thirds.
    pub(crate) fn need(&self) -> u64 {
        let groups = self.genesis.groups();
        let members = groups.first().map_or(0, ExactSizeIterator::len);
        let members = u64::try_from(members).expect("at most 128 members");
        members - self.genesis.f()
    }

    /// Members that are ready; where there are several shards, those of the shard that has fewest.
    pub(crate) fn have(&self) -> u64 {
        let is_ready = |member: u32| {
            let node = usize::try_from(member).ok().and_then(|at| self.nodes.get(at));
            node.is_some_and(|node| node.vitals.as_ref().is_ok_and(|vitals| vitals.ready))
        };
        let ready = |group: Range<u32>| group.filter(|member| is_ready(*member)).count();
        let least = self.genesis.groups().into_iter().map(ready).min().unwrap_or_default();
        u64::try_from(least).expect("at most 128 members")
    }

    /// The highest value any node states.
    pub(crate) fn highest(&self, of: impl Fn(&Vitals) -> Option<u64>) -> Option<u64> {
        self.answers().filter_map(|(_, vitals)| of(vitals)).max()
    }

    /// Name of the leader of the highest view that a node states.
    pub(crate) fn leader(&self) -> Option<&str> {
        let told: Vec<_> = self.answers().map(|(_, vitals)| vitals).collect();
        let leader = usize::try_from(newest_leader(&told)?).ok()?;
        self.nodes.get(leader).map(|node| node.name.as_str())
    }
}

/// The leader of the highest view, by whoever knows it: a node that entered the view by a certificate whose block it lacks does
/// not, and another node does.
fn newest_leader(told: &[&Vitals]) -> Option<u64> {
    let newest = told.iter().map(|vitals| vitals.view).max()?;
    told.iter().filter(|vitals| vitals.view == newest).find_map(|vitals| vitals.leader)
}

/// Where a node or broker tells.
///
/// # Errors
/// SYN-1103 if the file names no such port.
pub(crate) fn metrics_address(ports: &Ports, name: &str) -> Result<Address, SynError> {
    let node = ports.nodes.iter().find(|node| node.name == name);
    let port = node.and_then(|node| node.ports.get(&Service::Metrics));
    port.map(|port| Address::loopback(*port)).ok_or_else(|| {
        let problem = format!("without a metrics port for {name}");
        SynError::of(code::BAD_VALUE, &[("file", PORTS_FILE), ("key", "nodes"), ("problem", &problem)])
    })
}

/// Asks one node.
pub(crate) fn vitals(metrics: &Address, patience: Duration) -> Result<Vitals, SynError> {
    let health = http::get(metrics, "/readyz?verbose", patience)?;
    let scrape = http::get(metrics, "/metrics", patience)?;
    let gauge = |name: &str| sample(&scrape.body, name)?.parse().ok();
    Ok(Vitals {
        ready: health.status == 200,
        alarms: alarms(&health.body),
        view: gauge("synod_consensus_view"),
        leader: gauge("synod_consensus_leader"),
        height: gauge("synod_consensus_height"),
        executed: gauge("synod_ubft_executed_slots").or_else(|| gauge("synod_consensus_executed_height")),
        digest: gauge("synod_ubft_state_digest"),
        epoch: gauge("synod_ubft_epoch"),
        memory_nodes: gauge("synod_ubft_memory_nodes"),
        settled: gauge("synod_pay_settled_total"),
        conflicted: gauge("synod_pay_conflicted_accounts"),
        accepted: gauge("synod_server_height"),
        delivered: gauge("synod_server_delivered_height"),
        directory: gauge("synod_directory_clients"),
        version: label(&scrape.body, "synod_build_info", "version"),
        fsync_p99: p99(&scrape.body, "synod_wal_fsync_seconds"),
        votes: votes(&scrape.body),
        diverged: sample(&scrape.body, "synod_divergence_alarm").is_some_and(|value| value != "0"),
    })
}

/// What a broker answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Brokering {
    /// Whether it reaches enough servers.
    pub(crate) ready: bool,
    /// Servers that it reaches.
    pub(crate) servers: u64,
    /// The highest height proven.
    pub(crate) height: u64,
    /// Clients it knows.
    pub(crate) directory: u64,
    /// Submissions that wait.
    pub(crate) pool: u64,
    /// Batches sealed.
    pub(crate) batches: u64,
    /// Messages that a batch takes.
    pub(crate) batch_max: u64,
    /// Messages sealed.
    pub(crate) messages: u64,
    /// Those under their own signature.
    pub(crate) stragglers: u64,
    /// Bytes of sealed batches.
    pub(crate) bytes: u64,
    /// Bytes that servers still take, once they said so.
    pub(crate) credit: Option<u64>,
}

/// Asks one broker.
///
/// # Errors
/// SYN-2001 or SYN-2003 if it does not answer.
pub(crate) fn brokering(metrics: &Address, patience: Duration) -> Result<Brokering, SynError> {
    let health = http::get(metrics, "/readyz", patience)?;
    let scrape = http::get(metrics, "/metrics", patience)?;
    let known = |name: &str| sample(&scrape.body, name)?.parse().ok();
    let number = |name: &str| known(name).unwrap_or(0);
    Ok(Brokering {
        ready: health.status == 200,
        servers: number("synod_broker_servers"),
        height: number("synod_server_height"),
        directory: number("synod_directory_clients"),
        pool: number("synod_broker_pool_ops"),
        batches: number("synod_broker_batch_ops_count"),
        batch_max: number("synod_broker_batch_max"),
        messages: number("synod_broker_batch_ops_sum"),
        stragglers: number("synod_broker_stragglers_total"),
        bytes: number("synod_broker_batch_bytes_total"),
        credit: known("synod_broker_credit_bytes"),
    })
}

/// What a memory node answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holding {
    /// Whether it serves replicas.
    pub(crate) ready: bool,
    /// How often it was started.
    pub(crate) boot: u64,
    /// Replicas that are linked.
    pub(crate) replicas: u64,
    /// Bytes of registers.
    pub(crate) bytes: u64,
}

/// Asks one memory node.
///
/// # Errors
/// SYN-2001 or SYN-2003 if it does not answer.
pub(crate) fn holding(metrics: &Address, patience: Duration) -> Result<Holding, SynError> {
    let health = http::get(metrics, "/readyz", patience)?;
    let scrape = http::get(metrics, "/metrics", patience)?;
    let number = |name: &str| sample(&scrape.body, name).and_then(|value| value.parse().ok()).unwrap_or(0);
    Ok(Holding {
        ready: health.status == 200,
        boot: number("synod_memory_node_boot"),
        replicas: number("synod_memory_node_replicas"),
        bytes: number("synod_memory_bytes{pool=\"registers\"}"),
    })
}

/// Messages that a server of Chop Chop delivered since its process started.
///
/// # Errors
/// SYN-2001 or SYN-2003 if it does not answer.
pub(crate) fn delivered(metrics: &Address, patience: Duration) -> Result<u64, SynError> {
    let scrape = http::get(metrics, "/metrics", patience)?;
    let number = |name: &str| -> u64 { sample(&scrape.body, name).and_then(|n| n.parse().ok()).unwrap_or(0) };
    Ok(number("synod_server_messages_total").saturating_sub(number("synod_server_exceptions_total")))
}

/// How often a node blamed which peer for which fault, by names.
///
/// # Errors
/// SYN-2001 or SYN-2003 if the node does not answer.
pub(crate) fn blames(metrics: &Address, patience: Duration) -> Result<Vec<(String, String, u64)>, SynError> {
    let scrape = http::get(metrics, "/metrics", patience)?;
    Ok(scrape.body.lines().filter_map(blame).collect())
}

fn blame(line: &str) -> Option<(String, String, u64)> {
    let (labels, times) = line.strip_prefix("synod_blames_total{")?.rsplit_once("} ")?;
    let named = |label: &str| {
        let (_, value) = labels.split_once(&format!("{label}=\""))?;
        value.split_once('"').map(|(value, _)| value.to_owned())
    };
    Some((named("peer")?, named("fault")?, times.parse().ok()?))
}

/// How often the voting rules of the packs were applied (R3, BR3).
fn votes(scrape: &str) -> u64 {
    let applied = scrape.lines().filter_map(|line| {
        let (labels, count) = line.strip_prefix("synod_rule_applied_total{")?.rsplit_once("} ")?;
        let is_vote = labels.contains("\"R3_vote\"") || labels.contains("\"BR3_vote_precommit\"");
        is_vote.then(|| count.parse::<u64>().ok()).flatten()
    });
    applied.sum()
}

fn alarms(body: &str) -> Vec<Alarm> {
    let failed = body.lines().filter_map(|line| line.strip_prefix("[-]"));
    let split = failed.map(|line| line.split_once(' ').unwrap_or((line, "")));
    split
        .map(|(check, reason)| Alarm { check: check.to_owned(), reason: reason.to_owned() })
        .take(64)
        .collect()
}

/// The value of a metric without labels. Whole numbers may be written as `7.0`.
fn sample<'a>(scrape: &'a str, name: &str) -> Option<&'a str> {
    let value = scrape.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    Some(value.strip_suffix(".0").unwrap_or(value))
}

/// The value of a label of the first sample of a metric.
fn label(scrape: &str, name: &str, label: &str) -> Option<String> {
    let labels = scrape.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('{'))?;
    let (_, value) = labels.split_once(&format!("{label}=\""))?;
    value.split_once('"').map(|(value, _)| value.to_owned())
}

/// The bound of the first bucket that holds 99 of 100 observations.
fn p99(scrape: &str, name: &str) -> Option<String> {
    let prefix = format!("{name}_bucket{{");
    let buckets: Vec<(&str, u64)> = scrape
        .lines()
        .filter_map(|line| {
            let (labels, count) = line.strip_prefix(&prefix)?.rsplit_once(' ')?;
            let (_, bound) = labels.split_once("le=\"")?;
            Some((bound.split_once('"')?.0, count.parse().ok()?))
        })
        .collect();
    let total = buckets.iter().map(|(_, count)| *count).max().filter(|total| *total > 0)?;
    let wanted = u128::from(total) * 99;
    let reached = buckets.iter().find(|(_, count)| u128::from(*count) * 100 >= wanted);
    reached.map(|(bound, _)| (*bound).to_owned())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::http::fake;

    const SCRAPE: &str = "# HELP synod_consensus_view Current view.\n# TYPE synod_consensus_view gauge\n\
        synod_consensus_view 7\nsynod_consensus_view_changes_total{reason=\"x\"} 99\nsynod_consensus_leader 1\n\
        synod_consensus_height 120.0\nsynod_consensus_executed_height 118\nsynod_divergence_alarm 0\n\
        synod_rule_applied_total{rule=\"R3_vote\"} 12\nsynod_rule_applied_total{rule=\"R3_vote_again\"} 3\n\
        synod_build_info{commit=\"abc\",version=\"0.1.0\",features=\"\"} 1\n\
        synod_wal_fsync_seconds_bucket{le=\"0.002\"} 98\nsynod_wal_fsync_seconds_bucket{le=\"0.004\"} 99\n\
        synod_wal_fsync_seconds_bucket{le=\"+Inf\"} 100\n";

    #[test]
    fn the_leader_is_known_when_any_node_of_the_newest_view_knows_it() {
        let of = |view: u64, leader| Vitals { view: Some(view), leader, ..Vitals::default() };
        let (old, unsure, sure) = (of(2, Some(0)), of(3, None), of(3, Some(2)));
        assert_eq!(newest_leader(&[&old, &unsure, &sure]), Some(2));
        assert_eq!(newest_leader(&[&old, &sure, &unsure]), Some(2));
        assert_eq!(newest_leader(&[&old, &unsure]), None);
        assert_eq!(newest_leader(&[]), None);
    }

    #[test]
    fn a_node_is_read_from_its_health_lines_and_metrics() {
        let lines = "[+]journal\n[-]quorum SYN-3401 2 of 3\n".to_owned();
        let pages = vec![("/readyz?verbose", 503, lines), ("/metrics", 200, SCRAPE.to_owned())];
        let vitals = vitals(&fake::serve(pages), Duration::from_secs(20)).expect("the node answers");
        let alarm = Alarm { check: "quorum".to_owned(), reason: "SYN-3401 2 of 3".to_owned() };
        let expected = Vitals {
            ready: false,
            alarms: vec![alarm],
            view: Some(7),
            leader: Some(1),
            height: Some(120),
            executed: Some(118),
            digest: None,
            epoch: None,
            memory_nodes: None,
            settled: None,
            conflicted: None,
            accepted: None,
            delivered: None,
            directory: None,
            version: Some("0.1.0".to_owned()),
            fsync_p99: Some("0.004".to_owned()),
            votes: 12,
            diverged: false,
        };
        assert_eq!(vitals, expected);
    }

    #[test]
    fn blames_are_read_with_both_names() {
        let line = "synod_blames_total{peer=\"n1\",fault=\"equivocated_vote\"} 3";
        assert_eq!(blame(line), Some(("n1".to_owned(), "equivocated_vote".to_owned(), 3)));
        assert_eq!(blame("synod_blames_total{peer=\"n1\"} 3"), None);
        assert_eq!(blame("synod_blames_total_x{peer=\"n1\",fault=\"y\"} 3"), None);
    }

    #[test]
    fn a_metric_is_not_taken_for_another_with_the_same_beginning() {
        assert_eq!(
            sample("synod_consensus_view_x 3\nsynod_consensus_view 4\n", "synod_consensus_view"),
            Some("4")
        );
        assert_eq!(sample("synod_consensus_view{a=\"b\"} 3\n", "synod_consensus_view"), None);
    }

    #[test]
    fn no_observation_has_no_percentile() {
        assert_eq!(p99("", "synod_wal_fsync_seconds"), None);
        assert_eq!(p99("synod_wal_fsync_seconds_bucket{le=\"+Inf\"} 0\n", "synod_wal_fsync_seconds"), None);
    }

    #[test]
    fn every_metric_read_here_is_in_the_table() {
        for name in [
            "synod_consensus_view",
            "synod_consensus_leader",
            "synod_consensus_height",
            "synod_consensus_executed_height",
            "synod_build_info",
            "synod_wal_fsync_seconds",
            "synod_divergence_alarm",
            "synod_blames_total",
        ] {
            assert!(synod_config::metric(name).is_some(), "{name}");
        }
    }
}
