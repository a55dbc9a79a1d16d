//! What replicas and memory nodes of uBFT tell on their metrics ports.

use crate::processor::Times;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use synod_config::{Genesis, NodeConfig};
use synod_gateway::{Disk, Health, Label, Page, Quorum, Replay, Sources};
use synod_host::ubft::{MEMORY, MemoryServer};
use synod_host::{Seen, Server};

/// What keeps a replica from serving clients.
pub(super) fn replay(seen: &Seen) -> Option<Replay> {
    match seen.slots {
        None => Some(Replay::Journal),
        Some(_) => seen.listening.then_some(Replay::Promises),
    }
}

/// How far the application of a replica is, and which memory nodes it reaches; a server of Chop Chop tells of its application elsewhere.
pub(super) fn replica(server: &Server, page: &mut Page) {
    if server.genesis().ubft().is_none() {
        return;
    }
    if let Some((slots, digest)) = server.standing() {
        page.count("synod_ubft_executed_slots", &[], slots);
        page.count("synod_ubft_state_digest", &[], digest.short());
    }
    let (seen, first) = (server.look(), server.genesis().roster().size());
    page.count("synod_ubft_epoch", &[], seen.epoch);
    let reached = seen.up.iter().filter(|(id, up)| **id >= first && **up).count();
    page.count("synod_ubft_memory_nodes", &[], u64::try_from(reached).unwrap_or(u64::MAX));
}

/// A memory node that starts, runs and stops, as its health and metrics see it.
pub(crate) struct MemorySources {
    replicas: u32,
    folder: PathBuf,
    reserve: u64,
    times: Times,
    state: Mutex<State>,
}

struct State {
    server: Option<MemoryServer>,
    /// Turns of the reactor when they were last seen to move, and when that was.
    turns: (u64, Instant),
}

impl MemorySources {
    pub(crate) fn new(genesis: &Genesis, node: &NodeConfig, folder: &Path) -> Arc<Self> {
        Arc::new(Self {
            replicas: genesis.roster().size(),
            folder: folder.to_owned(),
            reserve: node.storage.disk_reserve_bytes,
            times: Times::default(),
            state: Mutex::new(State { server: None, turns: (0, Instant::now()) }),
        })
    }

    /// The memory node runs.
    pub(crate) fn is_up(&self, server: MemoryServer) {
        self.state().server = Some(server);
    }

    /// Takes the memory node back to stop it.
    pub(crate) fn take(&self) -> Option<MemoryServer> {
        self.state().server.take()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replicas that are linked.
    fn linked(&self, server: &MemoryServer) -> u32 {
        let seen = server.look();
        let linked = seen.up.iter().filter(|(id, up)| **id < self.replicas && **up).count();
        u32::try_from(linked).unwrap_or(u32::MAX)
    }
}

impl Sources for MemorySources {
    fn health(&self) -> Health {
        let mut state = self.state();
        let free =
            rustix::fs::statvfs(&self.folder).map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize));
        let disk = Disk { free, reserve: self.reserve };
        let Some(server) = &state.server else {
            return Health { replay: Some(Replay::Journal), disk, ..Health::default() };
        };
        let turns = server.handle().counters().turns.get();
        // It serves whoever comes: no number of replicas is needed.
        let quorum = Quorum { have: self.linked(server), need: 0, missing: Vec::new() };
        if turns != state.turns.0 {
            state.turns = (turns, Instant::now());
        }
        // Without replicas it has nothing to do but what its links do once a second.
        let turned_ago = match quorum.have {
            0 => Duration::ZERO,
            _ => state.turns.1.elapsed().saturating_sub(Duration::from_secs(1)),
        };
        Health { turned_ago, quorum, disk, ..Health::default() }
    }

    fn sample(&self, page: &mut Page) {
        for (role, time) in self.times.read() {
            page.seconds("synod_cpu_seconds_total", &[Label::Word(role.word())], time);
        }
        let state = self.state();
        let Some(server) = &state.server else { return };
        page.count("synod_memory_node_boot", &[], server.boot());
        page.count("synod_memory_node_replicas", &[], u64::from(self.linked(server)));
        if let Some((bytes, bound)) = server.handle().memory(MEMORY) {
            page.count("synod_memory_bytes", &[Label::Word("registers")], bytes);
            page.count("synod_memory_bound_bytes", &[Label::Word("registers")], bound);
        }
        for ((peer, fault), times) in &server.look().faults {
            page.count("synod_blames_total", &[super::member(*peer), Label::Word(fault)], *times);
        }
    }
}
