//! The typed configuration of one node.

use super::chopchop::{ChopBroker, ChopServer};
use super::layers::Effective;
use super::webhook::Webhook;
use crate::address::Address;
use crate::choice::choices;
use crate::errors::{SynError, code};
use crate::genesis::Genesis;
use crate::table::bad_value;
use crate::units::{format_duration, format_size};
use std::path::PathBuf;
use std::time::Duration;
use synod_quorum::{NodeId, PublicKey};

choices! {
    /// When the journal reaches the disk.
    Sync {
        /// One sync per group of turns.
        Group = "group",
        /// One sync per turn.
        Always = "always",
        /// Written, never synced: a power failure loses promises.
        NoneUnsafe = "none-UNSAFE",
        /// Nothing is written: any restart loses promises.
        VolatileUnsafe = "volatile-UNSAFE",
    }
}

choices! {
    /// What a shared-memory poller does when a pass found nothing.
    Poll {
        /// Gives its core to others and comes back.
        Yield = "yield",
        /// Sleeps after 50 us without work.
        Park = "park",
        /// Spins on a core of its own.
        Dedicated = "dedicated",
    }
}

choices! {
    /// Use of vector kernels.
    Simd {
        /// Where the processor has them.
        Auto = "auto",
        /// Never.
        Off = "off",
    }
}

choices! {
    /// Use of huge pages.
    HugePages {
        /// Where the system has them for those who ask.
        Auto = "auto",
        /// Never asked for.
        Off = "off",
    }
}

choices! {
    /// Least severe messages logged.
    Level {
        /// The node stops.
        Error = "error",
        /// A peer is blamed.
        Warn = "warn",
        /// Views and epochs.
        Info = "info",
        /// What was dropped or odd.
        Debug = "debug",
        /// Every message.
        Trace = "trace",
    }
}

choices! {
    /// Form of a log line.
    Format {
        /// For people.
        Text = "text",
        /// One object per line.
        Json = "json",
    }
}

/// `[node]`. Paths are relative to the directory of `node.toml`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The member this node is.
    pub name: String,
    /// Journal, state and snapshots.
    pub data_dir: PathBuf,
    /// The private key.
    pub key_file: PathBuf,
    /// The file all members share.
    pub genesis: PathBuf,
}

/// `[listen]`; `None` is off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The other members.
    pub peer: Address,
    /// Binary clients.
    pub client: Option<Address>,
    /// HTTP and WebSocket.
    pub http: Option<Address>,
    /// RESP.
    pub resp: Option<Address>,
    /// Metrics and health.
    pub metrics: Option<Address>,
    /// Unix socket of the operator.
    pub admin: Option<PathBuf>,
    /// gRPC.
    pub grpc: Option<Address>,
    /// Linked clusters.
    pub link: Option<Address>,
    /// Memory node.
    pub memory: Option<Address>,
    /// Client datagrams.
    pub datagram: Option<Address>,
    /// Memcached text.
    pub memcached: Option<Address>,
}

/// `[protocol]`: this node's share of the protocol's timing and batching.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Items per block; `None` takes the genesis' bound.
    pub batch_max: Option<u32>,
    /// Wait for more items, at most 50 ms.
    pub batch_wait: Duration,
    /// First time-out of a view, at least 10 ms.
    pub timeout_base: Duration,
    /// Longest time-out of a view.
    pub timeout_max: Duration,
}

/// `[storage]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// When the journal is synced.
    pub sync: Sync,
    /// Bytes kept for peers that are behind.
    pub retain_bytes: u64,
    /// Free bytes below which no request is taken.
    pub disk_reserve_bytes: u64,
}

/// `[limits]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the largest frame.
    pub frame_max: u32,
    /// Requests of one client in flight.
    pub inflight_per_client: u32,
    /// Client connections.
    pub clients_max: u32,
    /// Bytes of requests not yet in a block.
    pub mempool_bytes: u64,
    /// Outstanding jobs of one machine.
    pub jobs_max: u32,
    /// Bytes of the largest request.
    pub request_max: u32,
    /// Bytes of all gateway connections.
    pub gateway_bytes: u64,
}

/// `[runtime]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runtime {
    /// Threads of the job pool; 0 runs jobs between events.
    pub jobs: u32,
    /// Idle shared-memory pollers.
    pub poll: Poll,
    /// Whether threads stay on one core.
    pub pin: bool,
    /// Vector kernels.
    pub simd: Simd,
    /// Huge pages.
    pub huge_pages: HugePages,
}

/// `[metrics]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metrics {
    /// File with the bearer token.
    pub token_file: Option<PathBuf>,
}

/// `[access]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// File with the bearer token of HTTP.
    pub http_token_file: Option<PathBuf>,
    /// File with the password of RESP.
    pub resp_password_file: Option<PathBuf>,
    /// Certificate chain in PEM.
    pub https_cert: Option<PathBuf>,
    /// Its private key in PEM.
    pub https_key: Option<PathBuf>,
}

/// `[log]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Least severe messages.
    pub level: Level,
    /// Form of a line.
    pub format: Format,
}

/// All of `node.toml`; the relations between its keys hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeConfig {
    /// Who the node is and where its files are.
    pub node: Identity,
    /// Its listeners.
    pub listen: Listen,
    /// Its share of the protocol.
    pub protocol: Timing,
    /// Its disk.
    pub storage: Storage,
    /// Its bounds.
    pub limits: Limits,
    /// Its threads.
    pub runtime: Runtime,
    /// Who may scrape it.
    pub metrics: Metrics,
    /// Who may use its gateway.
    pub access: Access,
    /// What it writes.
    pub log: Log,
    /// As a server of Chop Chop.
    pub chop: ChopServer,
    /// As a broker of Chop Chop.
    pub broker: ChopBroker,
    /// Who is told what settles.
    pub webhook: Webhook,
}

/// The refusal of two keys that do not fit together.
pub(crate) fn broken(first: &str, second: &str, problem: &str) -> SynError {
    SynError::of(code::RELATION_BROKEN, &[("first", first), ("second", second), ("problem", problem)])
}

impl NodeConfig {
    pub(super) fn build(from: &Effective) -> Result<Self, SynError> {
        let name = from.text("node.name");
        if name.is_empty() {
            return Err(bad_value("node.toml", "node.name", "missing"));
        }
        let file = |key| PathBuf::from(from.text(key));
        let config = Self {
            node: Identity {
                name,
                data_dir: file("node.data_dir"),
                key_file: file("node.key_file"),
                genesis: file("node.genesis"),
            },
            listen: listen(from),
            protocol: Timing {
                batch_max: from.is_set("protocol.batch_max").then(|| from.number_u32("protocol.batch_max")),
                batch_wait: from.span("protocol.batch_wait"),
                timeout_base: from.span("protocol.timeout_base"),
                timeout_max: from.span("protocol.timeout_max"),
            },
            storage: Storage {
                sync: from.choice("storage.sync"),
                retain_bytes: from.number("storage.retain_bytes"),
                disk_reserve_bytes: from.number("storage.disk_reserve_bytes"),
            },
            limits: limits(from),
            runtime: Runtime {
                jobs: from.number_u32("runtime.jobs"),
                poll: from.choice("runtime.poll"),
                pin: from.flag("runtime.pin"),
                simd: from.choice("runtime.simd"),
                huge_pages: from.choice("runtime.huge_pages"),
            },
            metrics: Metrics { token_file: from.path("metrics.token_file") },
            access: Access {
                http_token_file: from.path("access.http_token_file"),
                resp_password_file: from.path("access.resp_password_file"),
                https_cert: from.path("access.https_cert"),
                https_key: from.path("access.https_key"),
            },
            log: Log { level: from.choice("log.level"), format: from.choice("log.format") },
            chop: ChopServer::of(from),
            broker: ChopBroker::of(from),
            webhook: Webhook::of(from),
        };
        config.broker.check()?;
        config.webhook.check()?;
        config.check_relations()?;
        config.check_listeners()?;
        config.check_built()?;
        Ok(config)
    }

    /// Refuses keys that belong to parts this release does not have, rather than take them and do nothing.
    fn check_built(&self) -> Result<(), SynError> {
        let (listen, runtime) = (&self.listen, &self.runtime);
        let asked = [
            ("listen.grpc", listen.grpc.is_some()),
            ("listen.link", listen.link.is_some()),
            ("runtime.pin", runtime.pin),
            ("runtime.poll", runtime.poll != Poll::Yield),
        ];
        let Some((key, _)) = asked.iter().find(|(_, asked)| *asked) else { return Ok(()) };
        let error = SynError::of(code::FEATURE_MISSING, &[("feature", key)]);
        Err(error.because("no build of this release has it; leave the key out"))
    }

    fn check_relations(&self) -> Result<(), SynError> {
        let (timing, limits) = (&self.protocol, &self.limits);
        if timing.timeout_base > timing.timeout_max {
            let found = format!(
                "{} is above {}",
                format_duration(timing.timeout_base),
                format_duration(timing.timeout_max)
            );
            return Err(broken("protocol.timeout_base", "protocol.timeout_max", &found));
        }
        let request = u64::from(limits.request_max);
        let holders = [
            ("limits.frame_max", u64::from(limits.frame_max)),
            ("limits.mempool_bytes", limits.mempool_bytes),
            ("limits.gateway_bytes", limits.gateway_bytes),
        ];
        for (holder, bytes) in holders {
            if request > bytes {
                let found =
                    format!("a request of {} does not fit into {}", format_size(request), format_size(bytes));
                return Err(broken("limits.request_max", holder, &found));
            }
        }
        if self.access.https_cert.is_some() != self.access.https_key.is_some() {
            return Err(broken("access.https_cert", "access.https_key", "one is given without the other"));
        }
        Ok(())
    }

    fn check_listeners(&self) -> Result<(), SynError> {
        let tls = ("access.https_cert and access.https_key", self.access.https_cert.is_some());
        let token = ("access.http_token_file", self.access.http_token_file.is_some());
        let password = ("access.resp_password_file", self.access.resp_password_file.is_some());
        let scrape = ("metrics.token_file", self.metrics.token_file.is_some());
        let guarded = [
            ("listen.http", &self.listen.http, [token, tls]),
            ("listen.grpc", &self.listen.grpc, [token, tls]),
            ("listen.resp", &self.listen.resp, [password, tls]),
            ("listen.metrics", &self.listen.metrics, [scrape, scrape]),
        ];
        for (key, address, needs) in guarded {
            let Some(address) = address.as_ref().filter(|address| !address.is_loopback()) else { continue };
            if let Some((missing, _)) = needs.iter().find(|(_, given)| !given) {
                let address = address.to_string();
                let values = [("key", key), ("address", address.as_str()), ("missing", *missing)];
                return Err(SynError::of(code::INSECURE_LISTENER, &values));
            }
        }
        Ok(())
    }

    /// Compares a broker's node with its genesis and its key, and returns the broker's number.
    ///
    /// # Errors
    /// SYN-1107 if no broker has this name and key, SYN-1106 if it listens for no datagrams.
    pub fn check_broker(&self, genesis: &Genesis, key: &PublicKey) -> Result<u32, SynError> {
        let broker = genesis.broker(&self.node.name).filter(|(_, broker)| broker.ed25519 == *key);
        let Some((number, _)) = broker else {
            let values = [("key", &*crate::hex(&key.0)), ("name", &self.node.name)];
            return Err(
                SynError::of(code::KEY_NOT_IN_GENESIS, &values).because("it is looked for among the brokers")
            );
        };
        match &self.listen.datagram {
            Some(_) => Ok(number),
            None => {
                Err(broken("listen.datagram", "broker.name", "a broker listens for datagrams of clients"))
            }
        }
    }

    /// Compares a memory node with its genesis and its key, and returns its id.
    ///
    /// # Errors
    /// SYN-1107 if no memory node has this name and key, SYN-1106 if it listens for no replicas.
    pub fn check_memory(&self, genesis: &Genesis, key: &PublicKey) -> Result<NodeId, SynError> {
        let found = genesis.memory_node(&self.node.name).filter(|(_, node)| node.ed25519 == *key);
        let Some((id, _)) = found else {
            let values = [("key", &*crate::hex(&key.0)), ("name", &self.node.name)];
            return Err(SynError::of(code::KEY_NOT_IN_GENESIS, &values)
                .because("it is looked for among the memory nodes"));
        };
        if self.listen.memory.is_none() {
            return Err(broken("listen.memory", "memory.name", "a memory node listens for replicas"));
        }
        Ok(id)
    }

    /// Compares the node with its genesis and its key, and returns the member it is.
    ///
    /// # Errors
    /// SYN-1107 if no member has this name and key, SYN-1106 if a key exceeds what the genesis allows.
    pub fn check(&self, genesis: &Genesis, key: &PublicKey) -> Result<NodeId, SynError> {
        let member = genesis.member(&self.node.name).filter(|(_, member)| member.ed25519 == *key);
        let Some((id, _)) = member else {
            let values = [("key", &*crate::hex(&key.0)), ("name", &self.node.name)];
            let holder = genesis.members().iter().find(|member| member.ed25519 == *key);
            let error = SynError::of(code::KEY_NOT_IN_GENESIS, &values);
            return Err(match holder {
                Some(holder) => error.because(format!("the genesis gives this key to {}", holder.name)),
                None => error,
            });
        };
        if self.listen.memory.is_some() {
            let found = "a member listens for no registers; `synod memnode run` does";
            return Err(broken("listen.memory", "member.name", found));
        }
        let parameters = genesis.parameters();
        let items = parameters.block_items;
        if let Some(batch) = self.protocol.batch_max.filter(|batch| items > 0 && *batch > items) {
            let found = format!("{batch} items exceed the {items} of a block");
            return Err(broken("protocol.batch_max", "protocol.block_items", &found));
        }
        let (block, frame) = (u64::from(parameters.block_bytes), u64::from(self.limits.frame_max));
        if block.saturating_mul(2) > frame {
            let found = format!(
                "a frame of {} must hold twice a block of {}",
                format_size(frame),
                format_size(block)
            );
            return Err(broken("limits.frame_max", "protocol.block_bytes", &found));
        }
        if self.limits.request_max > parameters.block_bytes {
            let request = format_size(u64::from(self.limits.request_max));
            let found = format!("a request of {request} does not fit into a block of {}", format_size(block));
            return Err(broken("limits.request_max", "protocol.block_bytes", &found));
        }
        Ok(id)
    }
}

fn listen(from: &Effective) -> Listen {
    Listen {
        peer: from.address("listen.peer").expect("the table refuses an empty peer address"),
        client: from.address("listen.client"),
        http: from.address("listen.http"),
        resp: from.address("listen.resp"),
        metrics: from.address("listen.metrics"),
        admin: from.path("listen.admin"),
        grpc: from.address("listen.grpc"),
        link: from.address("listen.link"),
        memory: from.address("listen.memory"),
        datagram: from.address("listen.datagram"),
        memcached: from.address("listen.memcached"),
    }
}

fn limits(from: &Effective) -> Limits {
    Limits {
        frame_max: from.number_u32("limits.frame_max"),
        inflight_per_client: from.number_u32("limits.inflight_per_client"),
        clients_max: from.number_u32("limits.clients_max"),
        mempool_bytes: from.number("limits.mempool_bytes"),
        jobs_max: from.number_u32("limits.jobs_max"),
        request_max: from.number_u32("limits.request_max"),
        gateway_bytes: from.number("limits.gateway_bytes"),
    }
}
