//! The server processes behind the adapters: how each is started, and how it is asked.
//!
//! *Never a wrong answer.* A server that fails has no state to go on with: the node ends by SYN-1206 before anything that was made of the
//! failure leaves it, and takes its state over from its peers when it is started again.
//!
//! *Bounds.* Replies of a server are as long as its adapter says; there is one server in a node.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::sync::Arc;

use synod_config::SynError;
use synod_memcached_adapter as memcached;
use synod_net::{Program, ServerProcess};
use synod_redis_adapter as redis;
use synod_wire::Bytes;

use crate::error::network;
use crate::watch::{End, Watch};

/// Bytes of values that a server of a replica may hold: its state is copied as a whole, in memory.
pub(super) const STATE_BYTES_MAX: u64 = 64 << 20;

/// The program of an application that is a server, and the package that has it.
const REDIS: (&str, &str) = ("redis-server", "redis-server");
const MEMCACHED: (&str, &str) = ("memcached", "memcached");

/// Refuses an application whose server is not installed on this host.
///
/// # Errors
/// SYN-1205 with the package that has it.
pub fn installed(app: &str) -> Result<(), SynError> {
    let (name, package) = match app {
        "redis" => REDIS,
        "memcached" => MEMCACHED,
        _ => return Ok(()),
    };
    ServerProcess::is_installed(name, package).map_err(|error| network(&error))
}

/// A server that has not failed yet.
struct Served {
    process: RefCell<ServerProcess>,
    has_failed: Cell<bool>,
    name: &'static str,
    watch: Arc<Watch>,
}

impl Served {
    fn start(program: &Program, folder: &Path, watch: &Arc<Watch>) -> Result<Self, SynError> {
        let process = ServerProcess::start(program, folder).map_err(|error| network(&error))?;
        tracing::info!(program = program.name, pid = process.pid(), "the server process runs");
        let watch = watch.clone();
        Ok(Self { process: RefCell::new(process), has_failed: Cell::new(false), name: program.name, watch })
    }

    /// What the server answers; `failed` for each once it has failed, which ends the node.
    fn ask<R: Clone, E>(
        &self,
        bytes: &[u8],
        (count, failed): (usize, R),
        next: impl FnMut(usize, &[u8]) -> Result<Option<(R, usize)>, E>,
    ) -> Vec<R> {
        if !self.has_failed.get() {
            match self.process.borrow_mut().exchange(bytes, count, next) {
                Ok(replies) => return replies,
                Err(error) => {
                    self.has_failed.set(true);
                    tracing::error!(code = "SYN-1206", %error, "the node stops");
                    self.watch.end(End::ServerFailed(self.name));
                }
            }
        }
        vec![failed; count]
    }
}

/// A Redis server of this node.
pub(super) struct RedisServer(Served);

impl RedisServer {
    /// Starts one in `folder`.
    pub(super) fn start(folder: &Path, watch: &Arc<Watch>) -> Result<Self, SynError> {
        let words = "--port 0 --unixsocket {socket} --unixsocketperm 700 --daemonize no --databases 1 --appendonly no \
                     --maxmemory 0 --maxmemory-policy noeviction --activedefrag no --timeout 0 --loglevel warning";
        let mut arguments: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        arguments.extend(["--save", "", "--logfile", ""].map(str::to_owned));
        let program = Program { name: REDIS.0, package: REDIS.1, arguments, when_root: Vec::new() };
        Served::start(&program, folder, watch).map(Self)
    }
}

impl redis::Server for RedisServer {
    fn ask(&self, commands: &[Vec<Bytes>]) -> Vec<redis::resp::Reply> {
        let bytes: Vec<u8> = commands.iter().flat_map(|command| redis::resp::command(command)).collect();
        let failed = redis::resp::Reply::refused("ERR the server failed");
        self.0.ask(&bytes, (commands.len(), failed), |_, held| redis::resp::Reply::read(held))
    }
}

/// A Memcached server of this node.
pub(super) struct MemcachedServer(Served);

impl MemcachedServer {
    /// Starts one in `folder`.
    pub(super) fn start(folder: &Path, watch: &Arc<Watch>) -> Result<Self, SynError> {
        // One thread, an error instead of eviction, no mover of memory; far more memory than values may hold.
        let words = "-s {socket} -a 0700 -t 1 -M -m 1024 -c 16 -o no_lru_crawler,no_lru_maintainer,no_slab_reassign,slab_automove=0";
        let arguments = words.split_whitespace().map(str::to_owned).collect();
        // It refuses to run as root unless it is told to.
        let when_root = ["-u", "root"].map(str::to_owned).to_vec();
        let program = Program { name: MEMCACHED.0, package: MEMCACHED.1, arguments, when_root };
        Served::start(&program, folder, watch).map(Self)
    }
}

impl memcached::Server for MemcachedServer {
    fn ask(&self, commands: &[memcached::Ask]) -> Vec<memcached::Reply> {
        let bytes: Vec<u8> = commands.iter().flat_map(memcached::Ask::encode).collect();
        let failed = memcached::Reply::Line(Bytes::from_static(b"SERVER_ERROR the server failed"));
        self.0.ask(&bytes, (commands.len(), failed), |at, held| match commands.get(at) {
            Some(command) => command.read(held),
            None => Err(memcached::NotAReply),
        })
    }
}
