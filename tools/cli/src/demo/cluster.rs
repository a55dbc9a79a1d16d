//! The demo's cluster: members, and a proxy that believes none of them, in one process.

use crate::cluster::{Purpose, found};
use crate::deployment::free_seats;
use crate::exit::bug;
use crate::serve::{Served, client, default_limits};
use crate::verbs::init::local_seats;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use synod_config::{Address, Genesis, SynError};
use synod_gateway::{RespServer, RespSettings, Shared, Stopper};
use synod_host::{ClusterClient, Seen};
use synod_quorum::NodeId;

/// A member that runs.
struct Running {
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
    _proxy_stopper: Stopper,
}

impl Cluster {
    /// Starts `nodes` members on the ports from `base` on, or on free ones if `base` is 0 or taken.
    ///
    /// # Errors
    /// The code of whatever refused.
    pub(crate) async fn start(nodes: u16, base: u16) -> Result<Self, SynError> {
        let directory = std::env::temp_dir().join(format!("synod-demo-{}", std::process::id()));
        let seats = match local_seats(nodes, base.max(1)) {
            Ok(seats) if base > 0 && crate::deployment::refuse_taken(&addresses(&seats)).is_ok() => seats,
            _ => free_seats(nodes)?,
        };
        let genesis = found("main", Purpose::Drill, &seats, &directory)?;
        let names: Vec<String> = seats.iter().map(|seat| seat.name.clone()).collect();
        let client = client(&genesis, "verified", NodeId(0), 1)?;
        let (stopper, stop) = Stopper::new();
        let shared = Shared::new(client.clone(), &default_limits()?, stop);
        let bound = RespServer::bind(&Address::loopback(0), RespSettings::default(), shared).await?;
        let proxy = bound.local();
        tokio::spawn(bound.run());
        let members = names.iter().map(|_| None).collect();
        let mut cluster = Self { directory, genesis, names, members, client, proxy, _proxy_stopper: stopper };
        for index in 0..cluster.names.len() {
            cluster.launch(index).await?;
        }
        Ok(cluster)
    }

    /// Starts one member from its journal.
    ///
    /// # Errors
    /// The code of whatever refused.
    pub(crate) async fn launch(&mut self, index: usize) -> Result<(), SynError> {
        let (stopper, stop) = Stopper::new();
        let served = Served::start(&self.folder(index), [], &[], stop).await?;
        self.members[index] = Some(Running { served, stopper });
        Ok(())
    }

    /// Takes one member away.
    ///
    /// # Errors
    /// What ended a thread or its journal.
    pub(crate) async fn remove(&mut self, index: usize) -> Result<(), SynError> {
        match self.members[index].take() {
            Some(Running { served, stopper }) => {
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

    /// The gateway of a member.
    pub(crate) fn resp(&self, index: usize) -> Option<SocketAddr> {
        self.members.get(index)?.as_ref()?.served.resp
    }

    /// The HTTP listener of a member.
    pub(crate) fn http(&self, index: usize) -> Option<SocketAddr> {
        self.members.get(index)?.as_ref()?.served.http
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

fn addresses(seats: &[crate::cluster::Seat]) -> Vec<Address> {
    seats.iter().flat_map(|seat| seat.listen.iter().map(|(_, address)| address.clone())).collect()
}
