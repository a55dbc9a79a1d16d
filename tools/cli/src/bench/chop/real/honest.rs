//! A few real clients beside the crowd: each with a key, a journal and links of its own, each verifying what it is told.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::exit::bug;
use synod_chopchop::client::Parameters;
use synod_chopchop::config::{Class, Cluster};
use synod_config::{NodeKey, SynError};
use synod_crypto::{Keys, Seed};
use synod_host::chop::client::{ChopBroker, ChopClient, ChopClientSetup};
use synod_load::Latency;
use synod_load::chop::client::Account;
use synod_wire::Bytes;

/// How long one message may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// What all honest clients share.
struct Shared {
    stopped: AtomicBool,
    /// Messages each sends in all.
    goal: AtomicU64,
    found: Mutex<Found>,
}

/// What they found.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    /// From asking to a verified receipt.
    pub(super) latency: Latency,
    /// Receipts that hold.
    pub(super) receipts: u64,
    /// Messages that the servers said were delivered before: no receipt.
    pub(super) same: u64,
    /// What each knows of its messages.
    pub(super) accounts: Vec<Account>,
    /// The first thing that went wrong.
    pub(super) failed: Option<SynError>,
}

/// Clients that run, each on a thread of its own.
pub(super) struct Honest {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// What a client is made of.
#[derive(Clone)]
pub(super) struct Of {
    pub(super) cluster: Cluster,
    pub(super) cluster_name: String,
    pub(super) class: Class,
    pub(super) brokers: Vec<ChopBroker>,
    pub(super) payload: [u8; 8],
}

impl Honest {
    /// Starts `count` clients whose journals lie below `folder`; they sign up and wait.
    ///
    /// # Errors
    /// Threads that the system does not grant.
    pub(super) fn start(count: u32, of: &Of, folder: &Path) -> Result<Self, SynError> {
        let found = Mutex::new(Found::default());
        let shared = Arc::new(Shared { stopped: AtomicBool::new(false), goal: AtomicU64::new(0), found });
        let mut threads = Vec::new();
        for number in 0..count {
            let (of, shared) = (of.clone(), shared.clone());
            let data = folder.join(format!("client{number}"));
            let run = move || {
                if let Err(error) = one(&of, &data, &shared) {
                    shared.found().failed.get_or_insert(error);
                }
            };
            let thread = std::thread::Builder::new().name(format!("client{number}")).spawn(run);
            threads.push(thread.map_err(|error| bug("honest client", &error))?);
        }
        Ok(Self { shared, threads })
    }

    /// No client at all.
    pub(super) fn none() -> Self {
        let found = Mutex::new(Found::default());
        let shared = Shared { stopped: AtomicBool::new(true), goal: AtomicU64::new(0), found };
        Self { shared: Arc::new(shared), threads: Vec::new() }
    }

    /// Lets each send until it has sent so many messages in all.
    pub(super) fn broadcast(&self, goal: u64) {
        self.shared.goal.store(goal, Ordering::Relaxed);
    }

    /// What was found so far.
    pub(super) fn look(&self) -> Found {
        self.shared.found().clone()
    }

    /// Forgets latencies, as at the end of a warm-up.
    pub(super) fn forget(&self) {
        self.shared.found().latency = Latency::default();
    }

    /// Ends after the messages in flight; what was found.
    pub(super) fn stop(self) -> Found {
        self.shared.stopped.store(true, Ordering::Relaxed);
        for thread in self.threads {
            // A panic was printed by its thread, and an account is missing.
            let _ = thread.join();
        }
        let found = self.shared.found();
        found.clone()
    }
}

impl Shared {
    fn found(&self) -> std::sync::MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn one(of: &Of, data: &Path, shared: &Shared) -> Result<(), SynError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| bug("runtime", &error))?;
    let setup = ChopClientSetup {
        cluster_name: of.cluster_name.clone(),
        cluster: of.cluster.clone(),
        class: of.class,
        brokers: of.brokers.clone(),
        id: None,
        key: NodeKey::generate()?,
        data: data.to_owned(),
        parameters: Parameters::default(),
    };
    let client = ChopClient::open(setup)?;
    let keys = Keys::ed25519(&Seed::new([0; 32]), [0; 32]);
    let id = runtime.block_on(client.sign_up(PATIENCE))?;
    shared.found().accounts.push(Account { id, keeps_rules: true, begun: 0, confirmed: 0 });
    let mut sent = 0;
    while !shared.stopped.load(Ordering::Relaxed) {
        if sent >= shared.goal.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        }
        sent += 1;
        shared.note(id, |account| account.begun += 1);
        let begun = Instant::now();
        let payload = Bytes::copy_from_slice(&of.payload);
        let delivered = runtime.block_on(client.submit(payload, PATIENCE))?;
        let holds = delivered.receipt.as_ref().map(|receipt| receipt.verify(&of.cluster, &keys));
        let took = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        let mut found = shared.found();
        found.latency.record(took, 1);
        match holds {
            Some(Ok(())) => found.receipts += 1,
            Some(Err(why)) => return Err(crate::proof::invalid(&why.to_string())),
            None => found.same += 1,
        }
        drop(found);
        shared.note(id, |account| account.confirmed += 1);
    }
    client.stop()
}

impl Shared {
    fn note(&self, id: u32, change: impl FnOnce(&mut Account)) {
        if let Some(account) = self.found().accounts.iter_mut().find(|account| account.id == id) {
            change(account);
        }
    }
}
