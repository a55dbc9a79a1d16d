//! The demo's cluster: members, and a proxy that believes none of them, in one process.

use crate::admin::Admin;
use crate::cluster::{Purpose, found};
use crate::deployment::{Claim, describe_ports};
use crate::exit::bug;
use crate::layout::{NODE_FILE, PORTS_FILE};
use crate::serve::{BUILD, Served, client, default_limits};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use synod_config::{Effective, Genesis, Ports, Service, SynError, code};
use synod_gateway::{HttpServer, HttpSettings, RespServer, RespSettings, Shared, Stopper};
use synod_host::{ClusterClient, Seen, Server};
use synod_net::Refusal;
use synod_quorum::NodeId;

/// Times that ports are chosen again when another program took one in the meantime.
const STARTS: u32 = 4;

/// A member that runs.
struct Running {
    /// Before the rest: its file goes while its directory is there.
    _admin: Option<Admin>,
    served: Served,
    stopper: Stopper,
}

/// Members, proxy and the directory they live in; all of it goes with the value.
pub(crate) struct Cluster {
    pub(crate) directory: PathBuf,
    pub(crate) genesis: Genesis,
    names: Vec<String>,
    members: Vec<Option<Running>>,
    /// The proxy's client.
    pub(crate) client: Arc<ClusterClient>,
    /// Where the proxy listens for RESP.
    pub(crate) proxy: SocketAddr,
    /// Where the proxy listens for HTTP.
    pub(crate) proxy_http: SocketAddr,
    /// The ports of the members.
    pub(crate) ports: Ports,
    _proxy_stopper: Stopper,
    _claim: Claim,
}

impl Cluster {
    /// Starts `nodes` members on the ports from `base` on, or on the next free ones; 0 draws them. The proxy sits
    /// behind the last member.
    ///
    /// # Errors
    /// The code of whatever refused.
    pub(crate) async fn start(nodes: u16, base: u16) -> Result<Self, SynError> {
        let mut tries = 1;
        loop {
            let seats = nodes.saturating_add(1);
            let claim = if base == 0 { Claim::free(seats)? } else { Claim::from(seats, base)? };
            match Self::found(claim).await {
                Err(error) if error.code() == code::PORT_TAKEN && tries < STARTS => tries += 1,
                started => return started,
            }
        }
    }

    async fn found(claim: Claim) -> Result<Self, SynError> {
        let directory = std::env::temp_dir().join(format!("synod-demo-{}", std::process::id()));
        let (behind, seats) = claim.seats.split_last().expect("the proxy has a seat");
        let genesis = found("main", Purpose::Drill, seats, &directory)?;
        let ports = describe_ports(&directory)?;
        ports.write(&directory.join(PORTS_FILE))?;
        let names: Vec<String> = seats.iter().map(|seat| seat.name.clone()).collect();
        let client = client(&genesis, "verified", NodeId(0), 1)?;
        let (stopper, stop) = Stopper::new();
        let shared = Shared::new(client.clone(), &default_limits()?, stop);
        let at = |service| behind.address(service).expect("a seat has every service");
        let resp = RespServer::bind(at(Service::Resp), RespSettings::default(), shared.clone()).await?;
        let settings = HttpSettings { build: BUILD, ..HttpSettings::default() };
        let http = HttpServer::bind(at(Service::Http), settings, shared).await?;
        let (proxy, proxy_http) = (resp.local(), http.local());
        tokio::spawn(resp.run());
        tokio::spawn(http.run());
        let members = names.iter().map(|_| None).collect();
        let mut cluster = Self {
            directory,
            genesis,
            names,
            members,
            client,
            proxy,
            proxy_http,
            ports,
            _proxy_stopper: stopper,
            _claim: claim,
        };
        cluster.launch_all().await?;
        Ok(cluster)
    }

    /// Starts every member at once.
    async fn launch_all(&mut self) -> Result<(), SynError> {
        let mut starting = Vec::new();
        for index in 0..self.members.len() {
            starting.push(tokio::spawn(start(self.folder(index))));
        }
        for (member, started) in self.members.iter_mut().zip(starting) {
            *member = Some(started.await.map_err(|error| bug("member", &error))??);
        }
        Ok(())
    }

    /// Starts one member from its journal.
    ///
    /// # Errors
    /// The code of whatever refused.
    pub(crate) async fn launch(&mut self, index: usize) -> Result<(), SynError> {
        self.members[index] = Some(start(self.folder(index)).await?);
        Ok(())
    }

    /// Takes one member away.
    ///
    /// # Errors
    /// What ended a thread or its journal.
    pub(crate) async fn remove(&mut self, index: usize) -> Result<(), SynError> {
        match self.members[index].take() {
            Some(Running { served, stopper, .. }) => {
                stopper.stop();
                served.end().await
            }
            None => Ok(()),
        }
    }

    /// What a member tells of itself.
    pub(crate) fn look(&self, index: usize) -> Option<Seen> {
        self.members.get(index)?.as_ref()?.served.node.with(synod_host::Server::look)
    }

    /// How often a member refused a handshake for this reason, or was.
    pub(crate) fn refused(&self, index: usize, why: Refusal) -> u64 {
        self.server(index, |server| server.handle().counters().refused(why)).unwrap_or(0)
    }

    /// How many pairs of Hellos of one key a member keeps.
    pub(crate) fn instances(&self, index: usize) -> usize {
        self.server(index, |server| server.handle().second_instances().len()).unwrap_or(0)
    }

    fn server<T>(&self, index: usize, ask: impl FnOnce(&Server) -> T) -> Option<T> {
        self.members.get(index)?.as_ref()?.served.node.with(ask)
    }

    /// The leader, as the first member that knows one says.
    pub(crate) fn leader(&self) -> Option<usize> {
        let told = (0..self.members.len()).filter_map(|index| self.look(index)?.leader);
        told.filter_map(|leader| usize::try_from(leader).ok()).next()
    }

    /// Makes a member lie to clients, or stop lying.
    pub(crate) fn lie(&self, index: usize, on: bool) {
        if let Some(running) = self.members.get(index).and_then(Option::as_ref) {
            running.served.node.with(|server| server.drill().map(|drill| drill.lie(on)));
        }
    }

    /// Name of a member.
    pub(crate) fn name(&self, index: usize) -> &str {
        self.names.get(index).map_or("?", String::as_str)
    }

    /// Number of members.
    pub(crate) fn size(&self) -> usize {
        self.names.len()
    }

    fn folder(&self, index: usize) -> PathBuf {
        self.directory.join(self.name(index))
    }

    /// Ends every member and removes the directory.
    ///
    /// # Errors
    /// What ended a thread or a journal.
    pub(crate) async fn end(mut self) -> Result<(), SynError> {
        for index in 0..self.members.len() {
            self.remove(index).await?;
        }
        remove(&self.directory)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Members stop with their values; what they leave behind goes too.
        self.members.clear();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn remove(directory: &Path) -> Result<(), SynError> {
    std::fs::remove_dir_all(directory).map_err(|error| bug("demo directory", &error))
}

async fn start(folder: PathBuf) -> Result<Running, SynError> {
    let (stopper, stop) = Stopper::new();
    let served = Served::start(synod_host::Setup::read(&folder, [], &[])?, &folder, stop).await?;
    let socket = Effective::read(&folder.join(NODE_FILE), [], [])?.config()?.listen.admin;
    let admin = Admin::of(&served, &folder, socket.as_deref())?;
    Ok(Running { _admin: admin, served, stopper })
}

#[cfg(test)]
mod tests;
