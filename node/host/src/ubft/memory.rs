//! A memory node as a process: one machine, a journal that holds its boot number, and a listener for replicas.
//!
//! It knows members, owners and bytes, and no protocol. Who stops it loses its registers: started again it says another boot number, and
//! replicas that list the first one count it as crashed until it is readmitted.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use synod_config::{Effective, Genesis, NodeConfig, NodeKey, SynError};
use synod_journal::{self as journal, Journal, OsDisk, SyncMode};
use synod_machine::host::{Host, HostConfig};
use synod_net::{Address, Handle, Hosting, Keeper, Listener, Node, Role, Transport};
use synod_quorum::NodeId;
use synod_service::memory::MemoryNode;

use super::settings::{MEMORY, limits, memory_config, plan as shared};
use crate::error::{invalid, listen, network, storage, unreadable};
use crate::server::{journal_config, machine_log};
use crate::watch::{Seen, Watch};
use crate::{plan, random};

/// Log behind the last snapshot above which the journal is compacted.
const LOG_BYTES_MAX: u64 = 16 << 20;

/// What a memory node is started from, read and checked.
pub struct MemorySetup {
    /// The cluster.
    pub genesis: Genesis,
    /// This process' own choices.
    pub node: NodeConfig,
    /// The memory node's key.
    pub key: NodeKey,
    /// Its id towards replicas.
    pub own: NodeId,
    /// Where the journal lies.
    pub data: PathBuf,
}

impl MemorySetup {
    /// Reads `node.toml` in `folder` with its layers, and what it names.
    ///
    /// # Errors
    /// The code of the file, key or relation that is wrong; SYN-1107 if the key is no memory node's.
    pub fn read(
        folder: &Path,
        env: impl IntoIterator<Item = (String, String)>,
        flags: &[(String, String)],
    ) -> Result<Self, SynError> {
        let effective = Effective::read(&folder.join("node.toml"), env, flags.iter().cloned())?;
        let node = effective.config()?;
        let genesis = Genesis::read(&folder.join(&node.node.genesis))?;
        let key = NodeKey::read(&folder.join(&node.node.key_file))?;
        let own = node.check_memory(&genesis, &key.public())?;
        let data = folder.join(&node.node.data_dir);
        Ok(Self { genesis, node, key, own, data })
    }
}

/// A running memory node.
pub struct MemoryServer {
    node: Option<Node>,
    handle: Handle,
    journal: Option<Keeper>,
    watch: Arc<Watch>,
    genesis: Genesis,
    boot: u64,
    own: NodeId,
    address: Address,
}

impl MemoryServer {
    /// Opens the journal, notes one more boot, binds the listener and starts the threads. Nobody is answered before the boot number
    /// is on the disk.
    ///
    /// # Errors
    /// The code of whatever refused: journal, port, configuration.
    pub fn start(setup: MemorySetup) -> Result<Self, SynError> {
        let wal = setup.data.join("wal");
        let disk = OsDisk::open(&wal).map_err(|e| unreadable(&wal, &e))?;
        // A boot number that a crash of the machine could take back would let an empty node pass for the one before.
        let layout = journal_config(&setup.genesis, setup.own, SyncMode::Always);
        let opened = Journal::open(Box::new(disk), layout).map_err(|e| storage(&e))?;
        let lanes: Vec<_> = opened.lanes.into_iter().map(machine_log).collect();
        let Ok::<[_; 1], _>([log]) = lanes.try_into() else {
            return Err(invalid("the journal has another number of lanes than a memory node"));
        };
        let host = HostConfig {
            own: setup.own,
            machine: MEMORY,
            seed: random::number(),
            jobs_max: 1,
            checked: cfg!(debug_assertions),
        };
        let machine = Host::<MemoryNode>::open(host, memory_config(&setup.genesis)?, log);
        let machine = machine.map_err(plan::damaged)?;
        let boot = machine.machine().boot();
        let heard = |_: &journal::thread::Durable| {};
        let (keeper, lanes) =
            synod_net::keep(opened.journal, LOG_BYTES_MAX, Box::new(heard)).map_err(|e| network(&e))?;
        let Some(lane) = lanes.into_iter().next() else {
            return Err(invalid("the journal has no lane"));
        };
        let Some(place) = &setup.node.listen.memory else {
            return Err(invalid("a memory node listens for replicas"));
        };
        let listener = Listener::tcp(&place.to_string()).map_err(listen("listen.memory"))?;
        let address = listener.address().map_err(|e| network(&e))?;
        let watch = Arc::new(Watch::default());
        let net = synod_net::Config {
            own: setup.own,
            role: Role::Member,
            seed: setup.key.seed().clone(),
            cluster_name: setup.genesis.cluster().name.clone(),
            cluster: setup.genesis.id(),
            roster: setup.genesis.linked(),
            transport: Transport::Tls,
            limits: limits(),
        };
        let node = Node::builder(net)
            .plan(shared(&setup.genesis))
            .listen(listener)
            .machine(Hosting::new(MEMORY, Box::new(machine)).lane(lane))
            .observer(watch.clone())
            .start()
            .map_err(|e| network(&e))?;
        let handle = node.handle().clone();
        let (genesis, own) = (setup.genesis, setup.own);
        Ok(Self { node: Some(node), handle, journal: Some(keeper), watch, genesis, boot, own, address })
    }

    /// Where replicas reach it.
    #[must_use]
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// Its id towards replicas.
    #[must_use]
    pub const fn own(&self) -> NodeId {
        self.own
    }

    /// How often it was started, this time included.
    #[must_use]
    pub const fn boot(&self) -> u64 {
        self.boot
    }

    /// The cluster.
    #[must_use]
    pub const fn genesis(&self) -> &Genesis {
        &self.genesis
    }

    /// The runtime's handle: counters, memory.
    #[must_use]
    pub const fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Links and faults so far.
    #[must_use]
    pub fn look(&self) -> Seen {
        self.watch.look()
    }

    /// Stops the threads and closes the journal.
    ///
    /// # Errors
    /// What ended a thread or the journal.
    pub fn stop(mut self) -> Result<(), SynError> {
        if let Some(node) = self.node.take() {
            node.stop().map_err(|e| network(&e))?;
        }
        match self.journal.take() {
            Some(journal) => journal.close().map_err(|e| network(&e)),
            None => Ok(()),
        }
    }
}
