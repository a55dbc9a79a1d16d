//! What servers and brokers of Chop Chop tell on their metrics port.

use super::{counts, times};
use crate::processor::Times;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use synod_chopchop::batch::Refusal;
use synod_config::{Genesis, NodeConfig};
use synod_gateway::{Disk, Health, Label, Page, Quorum, Replay, Sources};
use synod_host::chop::{BrokerNode, ChopMeters, ChopSeen};
use synod_host::{Seen, Server};

/// What keeps a server from serving brokers.
pub(super) fn replay(seen: &Seen, server: &Server) -> Option<Replay> {
    let Some(batches) = &seen.batches else { return Some(Replay::Journal) };
    if batches.installing.is_some() {
        return Some(Replay::State);
    }
    if seen.listening {
        return Some(Replay::Promises);
    }
    // The first word of the server comes once it holds the state of its last mark.
    (server.chop().look().height == 0).then_some(Replay::Journal)
}

/// What a server counted.
pub(super) fn server(meters: &ChopMeters, page: &mut Page) {
    let seen = meters.look();
    page.count("synod_server_height", &[], seen.height);
    page.count("synod_server_delivered_height", &[], seen.delivered);
    page.count("synod_server_stable_height", &[], seen.stable);
    page.count("synod_server_messages_total", &[], seen.entries);
    page.count("synod_server_exceptions_total", &[], seen.exceptions);
    states(&seen, page);
    refusals(&seen, page);
    page.count("synod_server_keysum_path", &[], u64::from(seen.in_vectors));
    let (sums, near) = seen.sums;
    if sums > 0 {
        page.number("synod_server_cohort_hit_ratio", &[], ratio(near, sums));
    }
    page.count("synod_store_pinned_bytes", &[], seen.pinned);
    page.distribution("synod_server_witness_seconds", &[], times(&meters.witness));
    let (bytes, entries) = meters.witnessed();
    page.number("synod_server_bytes_per_message", &[], ratio(bytes, entries));
    page.count("synod_directory_clients", &[], seen.directory);
}

/// Heights whose batches were not delivered by this process, because a state stands for them.
fn states(seen: &ChopSeen, page: &mut Page) {
    page.count("synod_server_states_total", &[], seen.states);
    let own = seen.resumed.map(|height| ("own", (1, height)));
    let taken = ["1", "2", "3", "4", "5", "6", "7", "8"].into_iter().zip(seen.taken.iter().copied());
    for (state, (from, to)) in own.into_iter().chain(taken) {
        page.count("synod_server_state_from_height", &[Label::Word(state)], from);
        page.count("synod_server_state_height", &[Label::Word(state)], to);
    }
}

/// Batches refused, by why. Each reason has a series from the start.
fn refusals(seen: &ChopSeen, page: &mut Page) {
    for why in Refusal::ALL {
        let times = seen.refused.get(why).copied().unwrap_or(0);
        page.count("synod_server_refusals_total", &[Label::Word(word(*why))], times);
    }
}

const fn word(why: Refusal) -> &'static str {
    match why {
        Refusal::Malformed => "malformed",
        Refusal::Ids => "ids",
        Refusal::Straggler => "straggler",
        Refusal::Root => "root",
        Refusal::Aggregate => "aggregate",
        Refusal::Directory => "directory",
        Refusal::Expired => "expired",
        Refusal::TooFar => "too_far",
        Refusal::Epoch => "epoch",
        Refusal::Credit => "credit",
        Refusal::Card => "card",
    }
}

/// Three digits behind the point, for people.
fn ratio(part: u64, whole: u64) -> f64 {
    let thousandths = u128::from(part) * 1_000 / u128::from(whole.max(1));
    f64::from(u32::try_from(thousandths).unwrap_or(u32::MAX)) / 1_000.0
}

/// A broker that starts, runs and stops, as its health and metrics see it.
pub(crate) struct BrokerSources {
    members: Vec<String>,
    need: u32,
    batch_max: u64,
    folder: PathBuf,
    reserve: u64,
    times: Times,
    state: Mutex<State>,
}

struct State {
    broker: Option<BrokerNode>,
    /// Turns of the reactor when they were last seen to move, and when that was.
    turns: (u64, Instant),
}

impl BrokerSources {
    pub(crate) fn new(genesis: &Genesis, node: &NodeConfig, folder: &Path) -> Arc<Self> {
        let members: Vec<String> = genesis.members().iter().map(|member| member.name.clone()).collect();
        let count = u32::try_from(members.len()).expect("a genesis holds at most 128 members");
        let faulty = u32::try_from(genesis.f()).unwrap_or(count);
        Arc::new(Self {
            members,
            need: count.saturating_sub(faulty),
            batch_max: genesis.chop().map_or(0, |chop| u64::from(chop.batch_max)),
            folder: folder.to_owned(),
            reserve: node.storage.disk_reserve_bytes,
            times: Times::default(),
            state: Mutex::new(State { broker: None, turns: (0, Instant::now()) }),
        })
    }

    /// The broker runs.
    pub(crate) fn is_up(&self, broker: BrokerNode) {
        self.state().broker = Some(broker);
    }

    /// Takes the broker back to stop it.
    pub(crate) fn take(&self) -> Option<BrokerNode> {
        self.state().broker.take()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn quorum(&self, broker: &BrokerNode) -> Quorum {
        let seen = broker.look();
        let is_up = |id: &u32| seen.up.get(id).copied().unwrap_or(false);
        let ids = (0_u32..).zip(&self.members);
        let missing: Vec<String> = ids.filter(|(id, _)| !is_up(id)).map(|(_, name)| name.clone()).collect();
        let have = self.members.len().saturating_sub(missing.len());
        Quorum { have: u32::try_from(have).unwrap_or(u32::MAX), need: self.need, missing }
    }
}

impl Sources for BrokerSources {
    fn health(&self) -> Health {
        let mut state = self.state();
        let free =
            rustix::fs::statvfs(&self.folder).map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize));
        let disk = Disk { free, reserve: self.reserve };
        let Some(broker) = &state.broker else {
            return Health { replay: Some(Replay::Journal), disk, ..Health::default() };
        };
        let (turns, quorum) = (broker.handle().counters().turns.get(), self.quorum(broker));
        if turns != state.turns.0 {
            state.turns = (turns, Instant::now());
        }
        // It has work once a second, so longer rests are none.
        let turned_ago = state.turns.1.elapsed().saturating_sub(Duration::from_secs(1));
        Health { turned_ago, quorum, disk, ..Health::default() }
    }

    fn sample(&self, page: &mut Page) {
        for (role, time) in self.times.read() {
            page.seconds("synod_cpu_seconds_total", &[Label::Word(role.word())], time);
        }
        let state = self.state();
        let Some(broker) = &state.broker else { return };
        let meters = broker.meters();
        let seen = meters.look();
        page.count("synod_broker_servers", &[], u64::try_from(broker.servers_up()).unwrap_or(u64::MAX));
        page.count("synod_broker_batch_max", &[], self.batch_max);
        page.distribution("synod_broker_batch_ops", &[], counts(&meters.batch_ops));
        page.count("synod_broker_batch_bytes_total", &[], seen.sealed_bytes);
        page.count("synod_broker_stragglers_total", &[], seen.stragglers);
        page.count("synod_broker_search_checks_total", &[], seen.searched);
        refusals(&seen, page);
        if seen.sealed_entries > 0 {
            let signed = seen.sealed_entries.saturating_sub(seen.stragglers);
            page.number("synod_broker_distilled_ratio", &[], ratio(signed, seen.sealed_entries));
        }
        page.count("synod_server_height", &[], seen.height);
        page.count("synod_directory_clients", &[], seen.directory);
        if let Some(own) = seen.broker {
            page.count("synod_broker_pool_ops", &[], u64::try_from(own.pool).unwrap_or(u64::MAX));
            if let Some(credit) = own.credit {
                page.count("synod_broker_credit_bytes", &[], credit);
            }
        }
        if let Some((bytes, bound)) = broker.handle().memory(synod_host::chop::BROKER) {
            page.count("synod_memory_bytes", &[Label::Word("broker")], bytes);
            page.count("synod_memory_bound_bytes", &[Label::Word("broker")], bound);
        }
        for ((peer, fault), times) in &broker.look().faults {
            page.count("synod_blames_total", &[super::member(*peer), Label::Word(fault)], *times);
        }
    }
}
