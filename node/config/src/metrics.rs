//! Names of the metrics, by area. Units are base units; labels are member names or closed sets of words, never
//! text a peer chose.

use crate::choice::choices;

choices! {
    /// What a metric tells about.
    Area {
        /// The process itself.
        Process = "process",
        /// Ordering.
        Consensus = "consensus",
        /// What must never happen, and who tried.
        Safety = "safety",
        /// The disk.
        Journal = "journal",
        /// Peers.
        Network = "network",
        /// Requests.
        Clients = "clients",
        /// Servers and brokers of Chop Chop.
        Chop = "chop chop",
        /// Payments without an order.
        Pay = "payments",
        /// Replicas of uBFT and their memory nodes.
        Ubft = "ubft",
    }
}

choices! {
    /// How a metric behaves.
    MetricKind {
        /// Only rises.
        Counter = "counter",
        /// Rises and falls.
        Gauge = "gauge",
        /// A distribution.
        Histogram = "histogram",
    }
}

/// One metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Full name, with the prefix `synod_`.
    pub name: &'static str,
    /// What it tells about.
    pub area: Area,
    /// How it behaves.
    pub kind: MetricKind,
    /// Base unit of the value; empty for plain counts and states.
    pub unit: &'static str,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// The HELP line.
    pub help: &'static str,
}

macro_rules! metrics {
    ($($area:ident: $($name:literal $kind:ident $unit:literal [$($label:literal),*] $help:literal;)+)+) => {
        /// Every metric of the first release, by area.
        pub const METRICS: &[Metric] = &[$($(
            Metric {
                name: concat!("synod_", $name),
                area: Area::$area,
                kind: MetricKind::$kind,
                unit: $unit,
                labels: &[$($label),*],
                help: $help,
            },
        )+)+];
    };
}

metrics! {
    Process:
        "build_info" Gauge "" ["commit", "version", "features"] "Always 1; the labels name the build.";
        "uptime_seconds" Gauge "seconds" [] "Time since the process started.";
        "memory_bytes" Gauge "bytes" ["pool"] "Memory held, by bounded pool.";
        "memory_bound_bytes" Gauge "bytes" ["pool"] "What the formula of that pool allows, as things are.";
        "tasks_lag_seconds" Gauge "seconds" [] "How late the newest turns of the host loops began, at most.";
        "cpu_seconds_total" Counter "seconds" ["role"] "Processor time, by thread role.";
    Consensus:
        "consensus_view" Gauge "" [] "Current view.";
        "consensus_leader" Gauge "" [] "Member index of the current leader.";
        "consensus_height" Gauge "blocks" [] "Height of the last committed block.";
        "consensus_executed_height" Gauge "blocks" [] "Height of the last executed block.";
        "consensus_view_changes_total" Counter "" ["reason"] "Views entered by other than a certificate, by reason.";
        "consensus_commit_latency_seconds" Histogram "seconds" [] "From the arrival or proposal of a block to its commit here.";
        "consensus_stage_seconds" Histogram "seconds" ["stage"] "Time a block spends in each stage: certify, commit, deliver, execute.";
        "consensus_batch_ops" Histogram "operations" [] "Commands per executed block that has any.";
        "consensus_batch_bytes" Histogram "bytes" [] "Body of each delivered block that has one.";
        "rule_applied_total" Counter "" ["rule"] "How often each rule of the protocol was applied.";
    Safety:
        "equivocations_total" Counter "" ["peer"] "Conflicting statements one member signed.";
        "blames_total" Counter "" ["peer", "fault"] "Faults of peers, by kind.";
        "divergence_alarm" Gauge "" [] "1 while this node's state differs from a certified one.";
    Journal:
        "wal_fsync_seconds" Histogram "seconds" [] "Duration of one fdatasync.";
        "wal_records_per_sync" Histogram "records" [] "Records that shared one sync.";
        "wal_bytes_total" Counter "bytes" [] "Bytes written to the journal.";
        "wal_segments" Gauge "files" [] "Segments on disk.";
        "snapshot_seconds" Histogram "seconds" [] "Duration of one snapshot.";
        "disk_free_bytes" Gauge "bytes" [] "Free space of the data directory's file system.";
    Network:
        "net_sent_bytes_total" Counter "bytes" ["peer", "class"] "Bytes sent, by queue class; overhead is TLS and link.";
        "net_received_bytes_total" Counter "bytes" ["peer", "class"] "Bytes received, by queue class; overhead is TLS and link.";
        "net_rtt_seconds" Gauge "seconds" ["peer"] "Smoothed round-trip time.";
        "net_queue_bytes" Gauge "bytes" ["peer"] "Bytes waiting to be sent.";
        "net_reconnects_total" Counter "" ["peer", "reason"] "Connections made again, by reason.";
        "handshake_failures_total" Counter "" ["code"] "Refused handshakes, by SYN code.";
        "verify_seconds" Histogram "seconds" ["kind"] "Duration of one verification job.";
    Clients:
        "requests_total" Counter "" ["api", "code"] "Requests answered; code is ok or a SYN code.";
        "request_seconds" Histogram "seconds" ["api"] "From receipt to answer.";
        "inflight_requests" Gauge "requests" ["api"] "Requests without an answer yet.";
        "mempool_bytes" Gauge "bytes" [] "Requests accepted and not yet in a block.";
        "sessions" Gauge "sessions" [] "Open sessions.";
        "gateway_bytes" Gauge "bytes" [] "Memory of all gateway connections.";
        "connections" Gauge "connections" ["api"] "Open client connections.";
        "proxy_mismatch_total" Counter "" ["peer"] "Replies to this gateway that contradict the accepted result.";
    Chop:
        "broker_servers" Gauge "" [] "Servers that a broker has a link to.";
        "broker_batch_max" Gauge "operations" [] "Messages that a batch takes at most.";
        "broker_batch_ops" Histogram "operations" [] "Messages per sealed batch.";
        "broker_batch_bytes_total" Counter "bytes" [] "Bytes of sealed batches.";
        "broker_pool_ops" Gauge "operations" [] "Submissions that wait for a batch.";
        "broker_distilled_ratio" Gauge "" [] "Share of sealed messages whose clients signed together.";
        "broker_stragglers_total" Counter "" [] "Sealed messages under their own signature.";
        "broker_search_checks_total" Counter "" [] "Aggregates checked in searches for bad shares.";
        "broker_credit_bytes" Gauge "bytes" [] "Bytes of bodies that servers still take from this broker.";
        "server_height" Gauge "" [] "Batches accepted, genesis included; at a broker the highest height proven.";
        "server_delivered_height" Gauge "" [] "Batches delivered, genesis included.";
        "server_stable_height" Gauge "" [] "Height of the last certified checkpoint.";
        "server_messages_total" Counter "" [] "Messages of delivered batches since the process started, exceptions included.";
        "server_exceptions_total" Counter "" [] "Messages of them that were repeated, stale or void.";
        "server_states_total" Counter "" [] "States taken from others since the process started, in place of what was to be delivered.";
        "server_state_from_height" Gauge "" ["state"] "Batches delivered here when a state took their place: own of the checkpoint the process began with, 1 to 8 of the last ones of others.";
        "server_state_height" Gauge "" ["state"] "Height of that state; what lies between was not delivered here.";
        "server_refusals_total" Counter "" ["code"] "Batches refused by this server, or at a broker answers of servers that refuse, by why.";
        "server_keysum_path" Gauge "" [] "1 while keys of batches are added in vectors, 0 while one by one.";
        "server_cohort_hit_ratio" Gauge "" [] "Share of the sums of keys that were begun from the sum of another batch.";
        "store_pinned_bytes" Gauge "bytes" [] "Bytes of bodies that are witnessed and neither ordered nor expired.";
        "server_witness_seconds" Histogram "seconds" [] "From being asked for a shard to giving it.";
        "server_bytes_per_message" Gauge "" [] "Bytes of witnessed bodies for each of their messages.";
        "directory_clients" Gauge "" [] "Clients in the directory.";
    Pay:
        "pay_settled_total" Counter "" [] "Entries that settled at this node and are in its index, since the beginning.";
        "pay_conflicted_accounts" Gauge "" [] "Accounts whose owners signed two entries for a place that nothing decides yet, as this node knows.";
        "pay_webhook_position" Gauge "" [] "Position up to which the receiver of the webhook took what settled.";
        "pay_webhook_failures_total" Counter "" [] "POSTs to that receiver since the process started that it did not take.";
    Ubft:
        "ubft_executed_slots" Gauge "" [] "Slots below this one were executed by this replica.";
        "ubft_state_digest" Gauge "" [] "First eight bytes of the digest of the application's state there: replicas that executed equally many slots show the same.";
        "ubft_epoch" Gauge "" [] "Epoch that this replica is in: one more each time that replicas or memory nodes come back.";
        "ubft_memory_nodes" Gauge "" [] "Memory nodes that this replica is linked with.";
        "memory_node_boot" Gauge "" [] "How often this memory node was started; replicas believe the first start.";
        "memory_node_replicas" Gauge "" [] "Replicas that are linked with this memory node.";
}

/// A metric by its full name.
#[must_use]
pub fn metric(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_prefixed_and_end_in_their_unit() {
        let mut names = BTreeSet::new();
        for metric in METRICS {
            assert!(names.insert(metric.name), "{} stands twice", metric.name);
            assert!(metric.name.starts_with("synod_"));
            assert!(
                metric.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'),
                "{}",
                metric.name
            );
            let base = metric.name.strip_suffix("_total").unwrap_or(metric.name);
            if matches!(metric.unit, "seconds" | "bytes") {
                assert!(base.ends_with(metric.unit), "{} lacks its unit", metric.name);
            }
            let total = metric.name.ends_with("_total");
            assert_eq!(total, metric.kind == MetricKind::Counter, "{}", metric.name);
            assert!(metric.help.ends_with('.'), "{}", metric.name);
        }
        assert_eq!(METRICS.len(), 40 + 24 + 4 + 6);
    }

    #[test]
    fn labels_come_from_a_closed_set() {
        let closed = [
            "api", "class", "code", "commit", "fault", "features", "kind", "peer", "pool", "reason", "role",
            "rule", "stage", "state", "version",
        ];
        for label in METRICS.iter().flat_map(|metric| metric.labels) {
            assert!(closed.contains(label), "{label}");
        }
    }

    #[test]
    fn a_metric_is_found_by_its_full_name_only() {
        assert_eq!(metric("synod_wal_fsync_seconds").map(|metric| metric.area), Some(Area::Journal));
        assert!(metric("wal_fsync_seconds").is_none());
    }
}
