//! Clients of Chop Chop: a key, a journal, and messages whose delivery anybody can check.
//!
//! A client is a directory: `client.key` with its secrets, `wal` with its promises, `receipts` with what was delivered.
//! Where the key stands in the directory of the genesis, the client has that id and never signs up.

use super::receipts::write as write_receipt;
use crate::cluster::unwritable;
use crate::exit::{Done, bug};
use crate::output::Report;
use crate::session::{Session, home, usage};
use clap::Args;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use synod_chopchop::client::Parameters;
use synod_config::hex;
use synod_config::{Context, Exit, Genesis, NodeKey, SynError, code};
use synod_host::chop;
use synod_host::chop::client::{ChopBroker, ChopClient, ChopClientSetup, ChopDelivered};
use synod_wire::Bytes;

/// How long a client waits, unless --timeout says otherwise: brokers are asked one after the other, 4 s each.
const PATIENCE: Duration = Duration::from_secs(30);
/// The key's file in a client's directory.
const KEY_FILE: &str = "client.key";

/// Enters the directory of a cluster: servers check that the key is the client's, and give it an id for ever.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod client signup main --home alice")]
pub(super) struct SignUp {
    /// The cluster or its context.
    cluster: String,
    #[command(flatten)]
    place: Place,
}

/// Asks f + 1 servers where the client stands, and finishes what is in flight.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod client resync main --home alice")]
pub(super) struct Resync {
    /// The cluster or its context.
    cluster: String,
    #[command(flatten)]
    place: Place,
}

/// Where a client keeps its key, its promises and its receipts.
#[derive(Clone, Debug, Args)]
pub(in crate::verbs) struct Place {
    /// The client's directory, for clusters of protocol chopchop; by default one for each cluster in the state directory.
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
}

impl SignUp {
    pub(super) fn run(self, session: &Session) -> Done {
        let (context, genesis) = super::context(session, &self.cluster)?;
        let client = Opened::new(&context, &genesis, &self.place, true)?;
        let patience = session.timeout.unwrap_or(PATIENCE);
        let id = client.wait(client.client.sign_up(patience))?;
        let report = client.report("signed up").field("id", id);
        client.close(session, report)
    }
}

impl Resync {
    pub(super) fn run(self, session: &Session) -> Done {
        let (context, genesis) = super::context(session, &self.cluster)?;
        let client = Opened::new(&context, &genesis, &self.place, false)?;
        let patience = session.timeout.unwrap_or(PATIENCE);
        let finished = client.wait(client.client.finish(patience))?;
        let next = client.wait(client.client.resync(patience))?;
        let mut report = client.report("resynced").field("id", client.client.state().id);
        report = report.field("next_number", next).field("finished", finished.is_some());
        if let Some(delivered) = finished {
            report = client.delivered(report, &delivered)?;
        }
        client.close(session, report)
    }
}

/// Broadcasts a message and keeps its receipt.
pub(super) fn submit(
    session: &Session,
    (context, genesis): (&Context, &Genesis),
    place: &Place,
    body: Vec<u8>,
) -> Done {
    let client = Opened::new(context, genesis, place, false)?;
    let delivered = client.broadcast(session, body)?;
    let report = client.report("delivered").field("id", client.id());
    let report = client.delivered(report, &delivered)?;
    client.close(session, report)
}

/// A message whose receipt is kept.
pub(in crate::verbs) struct Receipted {
    /// The height of its batch.
    pub(in crate::verbs) height: u64,
    /// Where the receipt lies.
    pub(in crate::verbs) file: PathBuf,
}

/// A client that runs.
pub(in crate::verbs) struct Opened {
    runtime: tokio::runtime::Runtime,
    client: ChopClient,
    home: PathBuf,
    genesis: Genesis,
    public: String,
}

impl Opened {
    /// Opens the client at `place`; its key is made where it may be and there is none.
    ///
    /// # Errors
    /// SYN-3201 without a key; those of [`ChopClient::open`].
    pub(in crate::verbs) fn new(
        context: &Context,
        genesis: &Genesis,
        place: &Place,
        may_make: bool,
    ) -> Result<Self, SynError> {
        let folder = match &place.home {
            Some(home) => home.clone(),
            None => {
                let clients = home("XDG_STATE_HOME", ".local/state", "the directory of clients")?;
                clients.join("clients").join(genesis.id().to_string())
            }
        };
        let key = key(&folder, may_make)?;
        let public = hex(&key.public().0);
        let directory = chop::directory(genesis, &context.genesis)?.view();
        let own = key.public();
        let id = (0..directory.len()).find(|id| directory.member(*id).is_some_and(|member| member.ed == own));
        let setup = ChopClientSetup {
            cluster_name: genesis.cluster().name.clone(),
            cluster: chop::cluster(genesis)?,
            class: chop::class(genesis)?,
            brokers: brokers(genesis)?,
            id,
            key,
            data: folder.clone(),
            parameters: Parameters::default(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| bug("runtime", &error))?;
        let client = ChopClient::open(setup)?;
        Ok(Self { runtime, client, home: folder, genesis: genesis.clone(), public })
    }

    /// The client's number, once it has one.
    pub(in crate::verbs) fn id(&self) -> Option<u32> {
        self.client.state().id
    }

    /// Broadcasts a message, after what an earlier process left in flight.
    ///
    /// # Errors
    /// Those of [`ChopClient::submit`].
    pub(in crate::verbs) fn broadcast(
        &self,
        session: &Session,
        body: Vec<u8>,
    ) -> Result<ChopDelivered, SynError> {
        let patience = session.timeout.unwrap_or(PATIENCE);
        if self.client.state().unfinished {
            session.tell("an earlier message of this client is in flight; it is finished first");
            if let Some(delivered) = self.wait(self.client.finish(patience))? {
                self.keep(&delivered)?;
            }
        }
        self.wait(self.client.submit(Bytes::from(body), patience))
    }

    /// Runs a call to its end.
    ///
    /// # Errors
    /// Those of the call.
    pub(in crate::verbs) fn wait<T>(
        &self,
        call: impl Future<Output = Result<T, SynError>>,
    ) -> Result<T, SynError> {
        self.runtime.block_on(call)
    }

    fn report(&self, outcome: &str) -> Report {
        Report::new("synod-client/1")
            .field("outcome", outcome)
            .field("cluster", self.genesis.cluster().name.clone())
            .field("client", self.public.clone())
    }

    /// Keeps the receipt of what was delivered; none when the servers had delivered it before.
    ///
    /// # Errors
    /// SYN-1101 if the system refuses.
    pub(in crate::verbs) fn keep(&self, delivered: &ChopDelivered) -> Result<Option<Receipted>, SynError> {
        let Some(receipt) = &delivered.receipt else { return Ok(None) };
        let folder = self.home.join("receipts");
        make(&folder)?;
        let file = folder.join(format!("{}-{}.json", receipt.id, receipt.k));
        write_receipt(&file, &self.genesis, receipt)?;
        Ok(Some(Receipted { height: receipt.certificate.statement.height, file }))
    }

    /// Says what was delivered; its receipt goes to a file.
    fn delivered(&self, report: Report, delivered: &ChopDelivered) -> Result<Report, SynError> {
        let Some(Receipted { height, file }) = self.keep(delivered)? else {
            let same = SynError::of(code::SAME, &[]);
            return Ok(report.field("receipt", None::<String>).field("note", same.message()));
        };
        Ok(report.field("height", height).field("receipt", file.display().to_string()))
    }

    /// Ends the client.
    ///
    /// # Errors
    /// What ended a thread or its journal.
    pub(in crate::verbs) fn stop(self) -> Result<(), SynError> {
        self.client.stop()
    }

    fn close(self, session: &Session, report: Report) -> Done {
        self.stop()?;
        session.output.print(&report)?;
        Ok(Exit::Success)
    }
}

fn make(folder: &Path) -> Result<(), SynError> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| unwritable(folder, &error))
}

/// The client's key; made with the first sign-up.
fn key(folder: &Path, may_make: bool) -> Result<NodeKey, SynError> {
    let file = folder.join(KEY_FILE);
    if !file.exists() {
        if !may_make {
            let who = folder.display().to_string();
            let error = SynError::of(code::NOT_IN_DIRECTORY, &[("client", &who)]);
            return Err(error.because(format!("there is no {KEY_FILE}: it never signed up")));
        }
        make(folder)?;
        NodeKey::generate()?.write_new(&file)?;
    }
    NodeKey::read(&file)
}

/// The brokers of the genesis, in its order.
fn brokers(genesis: &Genesis) -> Result<Vec<ChopBroker>, SynError> {
    let stated = genesis.chop().map(|chop| chop.brokers.as_slice()).unwrap_or_default();
    if stated.is_empty() {
        return Err(usage("the genesis names no broker, so no client reaches its servers"));
    }
    stated.iter().map(|broker| Ok(ChopBroker { address: resolve(broker)?, key: broker.ed25519 })).collect()
}

fn resolve(broker: &synod_config::Broker) -> Result<SocketAddr, SynError> {
    let text = broker.datagram.to_string();
    let unknown = || SynError::of(code::NAME_NOT_FOUND, &[("host", &text)]);
    let all = text.to_socket_addrs().map_err(|error| unknown().because(error))?;
    all.into_iter().next().ok_or_else(unknown)
}
