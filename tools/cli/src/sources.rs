//! What a running node tells on its metrics port.

use crate::processor::Times;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use synod_config::{Code, Genesis, NodeConfig, code};
use synod_gateway::{Disk, Distribution, Health, Hooked, Label, Lag, Page, Quorum, Replay, Sources};
use synod_host::{ClusterClient, Histogram, Meters, Reading, Seen, Server, Stage};
use synod_net::{Check, Counter, QUEUE_CLASSES};
use synod_quorum::NodeId;

mod chop;
mod ubft;

pub(crate) use chop::BrokerSources;
pub(crate) use ubft::MemorySources;

/// How often a running member is asked for what it tells of itself.
const ASK_EVERY: Duration = Duration::from_millis(250);
/// Words for the queues of a link, by number; the last holds all further ones.
const CLASSES: [&str; QUEUE_CLASSES] = ["control", "proposal", "bulk", "other"];
/// Faults that clients see: replies against the accepted result, and two results of one member.
const CONTRADICTIONS: [&str; 2] = ["contradicted_result", "equivocated_result"];
/// Blocks of lag from which on its duration is measured.
const LAG_BLOCKS: u64 = 100;

/// A node that starts, runs and stops, as its health and metrics see it.
pub(crate) struct NodeSources {
    members: Vec<String>,
    is_chop: bool,
    is_pay: bool,
    is_ubft: bool,
    own: NodeId,
    /// The members among whom a quorum counts: all, or those of its shard.
    group: Range<u32>,
    need: u32,
    data: PathBuf,
    reserve: u64,
    draining: AtomicBool,
    times: Times,
    state: Mutex<State>,
}

struct State {
    server: Option<Server>,
    /// The sessions of this node's gateways.
    client: Option<Arc<ClusterClient>>,
    /// What its webhook did, if it has one.
    webhook: Option<Arc<Hooked>>,
    /// Turns of the reactors when they were last seen to move, and when that was.
    turns: (u64, Instant),
    /// Since when execution is far behind.
    behind: Option<Instant>,
}

impl NodeSources {
    pub(crate) fn new(genesis: &Genesis, node: &NodeConfig, own: NodeId, directory: &Path) -> Arc<Self> {
        let members: Vec<String> = genesis.members().iter().map(|member| member.name.clone()).collect();
        let (_, group) = genesis.group(own);
        let count = u32::try_from(group.len()).expect("a genesis holds at most 128 members");
        let faulty = u32::try_from(genesis.f()).unwrap_or(count);
        let state =
            State { server: None, client: None, webhook: None, turns: (0, Instant::now()), behind: None };
        Arc::new(Self {
            members,
            is_chop: genesis.chop().is_some(),
            is_pay: genesis.pay().is_some(),
            is_ubft: genesis.ubft().is_some(),
            own,
            group,
            need: count.saturating_sub(faulty),
            data: directory.join(&node.node.data_dir),
            reserve: node.storage.disk_reserve_bytes,
            draining: AtomicBool::new(false),
            times: Times::default(),
            state: Mutex::new(state),
        })
    }

    /// The member recovered and runs. What it tells of itself is asked for from here on, until it is taken back. Must
    /// be called within a runtime.
    pub(crate) fn is_up(self: &Arc<Self>, server: Server) {
        server.ask();
        self.state().server = Some(server);
        let node = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(ASK_EVERY).await;
                let asked = node.upgrade().and_then(|node| node.with(Server::ask));
                if asked.is_none() {
                    return;
                }
            }
        });
    }

    /// These sessions are this node's gateways'.
    pub(crate) fn has_client(&self, client: Arc<ClusterClient>) {
        self.state().client = Some(client);
    }

    /// This node has such a webhook.
    pub(crate) fn has_webhook(&self, webhook: Arc<Hooked>) {
        self.state().webhook = Some(webhook);
    }

    /// From here on the node is not ready.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Looks at the member, if it runs.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&Server) -> T) -> Option<T> {
        self.state().server.as_ref().map(look)
    }

    /// Takes the member back to stop it.
    pub(crate) fn take(&self) -> Option<Server> {
        self.state().server.take()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn disk(&self) -> Disk {
        let free =
            rustix::fs::statvfs(&self.data).map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize));
        Disk { free, reserve: self.reserve }
    }

    fn quorum(&self, seen: &Seen) -> Quorum {
        let is_up = |id: &u32| *id == self.own.0 || seen.up.get(id).copied().unwrap_or(false);
        let ids = (0_u32..).zip(&self.members).filter(|(id, _)| self.group.contains(id));
        let missing: Vec<String> = ids.filter(|(id, _)| !is_up(id)).map(|(_, name)| name.clone()).collect();
        let all = self.group.len();
        let have = u32::try_from(all.saturating_sub(missing.len())).unwrap_or(u32::MAX);
        Quorum { have, need: self.need, missing }
    }
}

impl State {
    /// How long ago the reactors last moved. Asking wakes them, so that an idle node is not a stalled one.
    fn turned_ago(&mut self, turns: u64) -> Duration {
        if turns != self.turns.0 {
            self.turns = (turns, Instant::now());
        }
        self.turns.1.elapsed()
    }

    fn lag(&mut self, blocks: u64) -> Lag {
        self.behind = (blocks > LAG_BLOCKS).then(|| self.behind.unwrap_or_else(Instant::now));
        Lag { blocks, time: self.behind.map_or(Duration::ZERO, |since| since.elapsed()) }
    }
}

impl Sources for NodeSources {
    fn health(&self) -> Health {
        let mut state = self.state();
        let disk = self.disk();
        let draining = self.draining.load(Ordering::Relaxed);
        let Some(server) = &state.server else {
            return Health { replay: Some(Replay::Journal), disk, draining, ..Health::default() };
        };
        let turns = server.handle().counters().turns.get();
        let seen = server.look();
        let replay = match (self.is_chop, self.is_pay) {
            (true, _) => chop::replay(&seen, server),
            // A replica of payments has read its log before it runs, and tells its teller what it may lack.
            (false, true) => {
                let is_ready = server.teller().is_some_and(|teller| teller.is_ready());
                (!is_ready).then_some(Replay::Journal)
            }
            (false, false) if self.is_ubft => ubft::replay(&seen),
            (false, false) => replay(&seen),
        };
        let behind = lag(&seen, server);
        Health {
            turned_ago: state.turned_ago(turns),
            journal_failed: None,
            replay,
            quorum: self.quorum(&seen),
            lag: state.lag(behind),
            disk,
            draining,
            alarm: seen.alarms.first().map(|name| alarm(name)),
        }
    }

    fn sample(&self, page: &mut Page) {
        page.count("synod_disk_free_bytes", &[], self.disk().free);
        for (role, time) in self.times.read() {
            page.seconds("synod_cpu_seconds_total", &[Label::Word(role.word())], time);
        }
        let state = self.state();
        let Some(server) = &state.server else { return };
        let seen = server.look();
        if let Some(teller) = server.teller() {
            page.count("synod_pay_settled_total", &[], teller.index().position());
            let conflicted = u64::try_from(teller.conflicted()).unwrap_or(u64::MAX);
            page.count("synod_pay_conflicted_accounts", &[], conflicted);
            if let Some(webhook) = &state.webhook {
                page.count("synod_pay_webhook_position", &[], webhook.position());
                page.count("synod_pay_webhook_failures_total", &[], webhook.failures());
            }
        }
        page.count("synod_consensus_view", &[], seen.view);
        if let Some(leader) = seen.leader {
            page.count("synod_consensus_leader", &[], u64::from(leader));
        }
        page.count("synod_consensus_height", &[], seen.height);
        if let Some(executed) = seen.executed {
            page.count("synod_consensus_executed_height", &[], executed);
        }
        measured(server.meters(), page);
        let counters = server.handle().counters();
        page.seconds("synod_tasks_lag_seconds", &[], Duration::from_nanos(counters.late_ns()));
        for kind in Check::ALL {
            let label = [Label::Word(kind.word())];
            page.distribution("synod_verify_seconds", &label, times(counters.check(kind)));
        }
        page.count("synod_divergence_alarm", &[], u64::from(seen.alarms.contains(&"state_divergence")));
        for (rule, times) in &seen.rules {
            page.count("synod_rule_applied_total", &[Label::Word(rule)], *times);
        }
        for ((peer, fault), times) in &seen.faults {
            page.count("synod_blames_total", &[member(*peer), Label::Word(fault)], *times);
        }
        page.count("synod_consensus_view_changes_total", &[Label::Word("timeout")], seen.view_changes);
        for peer in self.others() {
            let equivocated = seen.faults_of(peer, |fault| fault.starts_with("equivocated_"));
            page.count("synod_equivocations_total", &[member(peer)], equivocated);
        }
        for refusal in synod_net::Refusal::ALL {
            let times = server.handle().counters().refused(refusal);
            page.count("synod_handshake_failures_total", &[Label::Code(Code::new(refusal.code()))], times);
        }
        if let Some(executor) = &seen.executor {
            page.count("synod_sessions", &[], executor.sessions);
            page.count("synod_mempool_bytes", &[], executor.pool_bytes);
        }
        if self.is_chop {
            chop::server(server.chop(), page);
        }
        ubft::replica(server, page);
        self.network(server, page);
        let believed = state.client.as_ref().map(|client| client.watch().look()).unwrap_or_default();
        for (peer, _) in (0_u32..).zip(&self.members) {
            let denied = believed.faults_of(peer, |fault| CONTRADICTIONS.contains(&fault));
            page.count("synod_proxy_mismatch_total", &[member(peer)], denied);
        }
    }
}

impl NodeSources {
    /// The other members.
    fn others(&self) -> impl Iterator<Item = u32> + use<> {
        let own = self.own.0;
        (0_u32..).take(self.members.len()).filter(move |id| *id != own)
    }

    fn network(&self, server: &Server, page: &mut Page) {
        let counters = server.handle().counters();
        for id in self.others() {
            let peer = counters.peer(NodeId(id));
            let sent = (&peer.sent_bytes, &peer.sent_frame_bytes);
            classes(page, "synod_net_sent_bytes_total", id, sent);
            let received = (&peer.received_bytes, &peer.received_frame_bytes);
            classes(page, "synod_net_received_bytes_total", id, received);
            page.count("synod_net_queue_bytes", &[member(id)], peer.queue_bytes.get());
            page.seconds("synod_net_rtt_seconds", &[member(id)], Duration::from_nanos(peer.rtt_ns.get()));
            page.count(
                "synod_net_reconnects_total",
                &[member(id), Label::Word("lost")],
                peer.reconnects.get(),
            );
        }
        let store = self.is_chop.then_some((synod_host::chop::STORE, "store"));
        let pools = [(0, "replica"), (synod_host::EXECUTOR, "executor")].into_iter().chain(store);
        for (machine, pool) in pools {
            if let Some((bytes, bound)) = server.handle().memory(machine) {
                page.count("synod_memory_bytes", &[Label::Word(pool)], bytes);
                page.count("synod_memory_bound_bytes", &[Label::Word(pool)], bound);
            }
        }
    }
}

/// Blocks or batches that wait for execution.
fn lag(seen: &Seen, server: &Server) -> u64 {
    match &seen.executor {
        Some(executor) => executor.lag,
        None => {
            let chop = server.chop().look();
            chop.height.saturating_sub(chop.delivered) + seen.batches.map_or(0, |batches| batches.waiting)
        }
    }
}

/// The code of an alarm of the replica.
fn alarm(name: &str) -> Code {
    match name {
        "state_divergence" | "ordering_diverged" => code::STATE_DIVERGENCE,
        "conflicting_commit" | "ordering_broken" => code::CONFLICTING_COMMITS,
        _ => code::ROLLED_BACK,
    }
}

/// What keeps a node from serving its clients that is not the network's or the disk's.
fn replay(seen: &Seen) -> Option<Replay> {
    let Some(executor) = &seen.executor else { return Some(Replay::Journal) };
    if executor.installing.is_some() {
        return Some(Replay::State);
    }
    if seen.listening {
        return Some(Replay::Promises);
    }
    match (seen.executed, seen.replay) {
        (Some(done), Some(all)) if done >= all => None,
        (Some(done), Some(all)) => Some(Replay::Blocks { done, all }),
        _ => Some(Replay::Journal),
    }
}

/// Bytes of one peer by class. What no frame holds is TLS, heartbeats and handshakes.
fn classes(page: &mut Page, name: &str, peer: u32, (all, frames): (&Counter, &[Counter; QUEUE_CLASSES])) {
    let mut rest = all.get();
    for (class, bytes) in CLASSES.iter().zip(frames) {
        rest = rest.saturating_sub(bytes.get());
        page.count(name, &[member(peer), Label::Word(class)], bytes.get());
    }
    page.count(name, &[member(peer), Label::Word("overhead")], rest);
}

/// What the node measured of its blocks and its journal.
fn measured(meters: &Meters, page: &mut Page) {
    page.distribution("synod_consensus_commit_latency_seconds", &[], times(&meters.commit_latency));
    for stage in Stage::ALL {
        let label = [Label::Word(stage.word())];
        page.distribution("synod_consensus_stage_seconds", &label, times(meters.stage(stage)));
    }
    page.distribution("synod_consensus_batch_ops", &[], counts(&meters.batch_ops));
    page.distribution("synod_consensus_batch_bytes", &[], counts(&meters.batch_bytes));
    page.distribution("synod_wal_fsync_seconds", &[], times(&meters.fsync));
    page.distribution("synod_wal_records_per_sync", &[], counts(&meters.records_per_sync));
    page.distribution("synod_snapshot_seconds", &[], times(&meters.snapshot));
    page.count("synod_wal_bytes_total", &[], meters.wal_bytes());
    page.count("synod_wal_segments", &[], meters.wal_segments());
}

/// A histogram of nanoseconds, in seconds.
fn times(histogram: &Histogram) -> Distribution {
    distribution(histogram, |ns| Duration::from_nanos(ns).as_secs_f64())
}

fn counts(histogram: &Histogram) -> Distribution {
    // A sum beyond 2^32 is split, for the page's numbers are floating-point ones.
    let whole = |count: u64| {
        let (high, low) = (u32::try_from(count >> 32), u32::try_from(count & u64::from(u32::MAX)));
        f64::from(high.unwrap_or(u32::MAX)).mul_add(4_294_967_296.0, f64::from(low.unwrap_or(u32::MAX)))
    };
    distribution(histogram, whole)
}

fn distribution(histogram: &Histogram, unit: impl Fn(u64) -> f64) -> Distribution {
    let Reading { buckets, count, sum } = histogram.read();
    let buckets = buckets.into_iter().map(|(bound, events)| (unit(bound), events)).collect();
    Distribution { buckets, count, sum: unit(sum) }
}

fn member(id: u32) -> Label {
    Label::Member(usize::try_from(id).unwrap_or(usize::MAX))
}
