//! Servers as processes and a load broker in this one.

use super::audit::{Audit, Eyes, Terms};
use super::plan::{App, LoadPlan, TOKENS};
use super::threads::{self, Threads};
use crate::bench::pages::{Page, Passed};
use crate::bench::processes::{ChopStart, Processes, Start};
use crate::cluster::ChopPlan as Deployed;
use crate::context::client_addresses;
use crate::exit::bug;
use crate::layout::NODE_FILE;
use crate::session::{Session, usage as wrong_usage};
use std::sync::Arc;
use std::time::{Duration, Instant};
use synod_config::{Address, Chop, ClusterKind, Effective, SynError, code};
use synod_crypto::Seed;
use synod_host::chop::{BrokerSetup as BrokerFiles, cluster};
use synod_load::chop::broker::{Books, BrokerSetup, Carried, Driver, DriverSetup, Pace};
use synod_load::chop::{KeyFamily, Members};
use synod_load::{Latency, usage};

/// Servers over HotStuff.
pub(super) const SERVERS: u16 = 4;
/// What each account holds at first: above what a client pays in any run.
pub(super) const GRANT: u32 = 2_000_000_000;
/// Positions between checkpoints, at most.
const CHECKPOINT_EVERY: u32 = 256;
/// Time measured of a run that is too short for as many batches, and its positions between checkpoints.
const SHORT: (Duration, u32) = (Duration::from_secs(1), 32);
/// How long links may take to come up, and what is on its way to be delivered.
const LINKS: Duration = Duration::from_secs(60);
const DRAIN: Duration = Duration::from_secs(120);
/// Batches that are sent at once where a checkpoint is missing.
const SMALL: u32 = 32;
/// Checks a second that a server lets this broker have: what it costs is measured here, not what it is allowed.
pub(super) const QUOTA_WORK: u32 = 4_000_000;
/// How long servers may take to read the keys of all clients.
const FIRST: Duration = Duration::from_secs(900);
const LOOK: Duration = Duration::from_millis(20);

/// Positions between the checkpoints of this run. Small batches make up what is missing to the next one, so a short run would
/// be little else.
pub(super) fn checkpoint_every(plan: &LoadPlan) -> u32 {
    if plan.span <= SHORT.0 { SHORT.1 } else { CHECKPOINT_EVERY }
}

/// The members of every run's family.
///
/// # Errors
/// Clients that are no directory.
pub(super) fn members(session: &Session, clients: u32) -> Result<Arc<Members>, SynError> {
    session.watched("making keys");
    let members = KeyFamily::new(&Seed::new(super::super::auth::FAMILY)).members(clients, clients);
    members.map(Arc::new).ok_or_else(|| bug("bench", &"a directory that cuts a chunk"))
}

/// A cluster under load.
pub(super) struct Rig {
    pub(super) cluster: Processes,
    pub(super) driver: Driver,
    app: App,
}

/// CPU of servers and of this process.
#[derive(Clone, Debug, Default)]
pub(super) struct Cpu {
    pub(super) servers: Duration,
    /// Of memory nodes, where uBFT orders.
    pub(super) memory: Duration,
    pub(super) load: Duration,
    /// Of all servers, by thread, and of this process.
    pub(super) threads: Threads,
    pub(super) load_threads: Threads,
    /// The largest memory of one server, and of this process.
    pub(super) rss: [u64; 2],
}

/// A stretch of the run.
#[derive(Clone, Debug)]
pub(super) struct Stretch {
    pub(super) wall: Duration,
    /// Servers, as a number to divide by.
    pub(super) servers: u64,
    pub(super) batches: u64,
    pub(super) messages: u64,
    pub(super) latency: Latency,
    pub(super) cpu: Cpu,
    pub(super) carried: Carried,
    pub(super) making: Duration,
    pub(super) pages: Vec<Passed>,
}

impl Stretch {
    /// Messages per second.
    pub(super) fn per_s(&self) -> f64 {
        super::report::per_s(self.messages, self.wall)
    }
}

impl Rig {
    /// Starts servers and load broker; batches are ready and links are up when it is there.
    ///
    /// # Errors
    /// What could not be started.
    pub(super) fn start(
        session: &Session,
        plan: &LoadPlan,
        members: &Arc<Members>,
    ) -> Result<Self, SynError> {
        let servers = plan.servers();
        session.watched(&format!("starting {servers} servers: {}, {}", plan.app.name(), plan.durability()));
        let processes = deploy(plan, members)?;
        let broker = usize::from(servers + plan.memory());
        let folder = processes.directory().join(processes.name(broker));
        let files = BrokerFiles::read(&folder, [], &[])?;
        let broker = BrokerSetup {
            cluster_name: files.genesis.cluster().name.clone(),
            cluster: cluster(&files.genesis)?,
            seed: files.key.seed().clone(),
            servers: client_addresses(&files.genesis),
            margin: u32::from(servers) / 16,
            window: plan.window.max(16),
        };
        session.watched("making batches");
        let ahead = if plan.source().is_replayed() { 2 } else { plan.pool };
        let setup = DriverSetup { members: members.clone(), broker, source: plan.source(), ahead };
        let driver = Driver::start(setup).map_err(|why| wrong_usage(&why.to_string()))?;
        let rig = Self { cluster: processes, driver, app: plan.app };
        rig.until(LINKS, "links", || rig.driver.carried().links >= u64::from(servers))?;
        Ok(rig)
    }

    /// Waits until `done`.
    ///
    /// # Errors
    /// SYN-2003 if it takes longer than `patience`.
    pub(super) fn until(
        &self,
        patience: Duration,
        stage: &str,
        mut done: impl FnMut() -> bool,
    ) -> Result<(), SynError> {
        let until = Instant::now() + patience;
        while !done() {
            if Instant::now() >= until {
                let found = format!(
                    "{:?} batches sent, {:?} delivered",
                    self.driver.books().sent,
                    self.driver.delivered()
                );
                let error = SynError::of(code::NO_ANSWER, &[("address", "the servers"), ("stage", stage)]);
                return Err(self.with_reasons(error.because(found)));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// What went wrong, and why batches were given up before.
    fn with_reasons(&self, error: SynError) -> SynError {
        match self.driver.books().why_lost() {
            Some(why) => error.because(why),
            None => error,
        }
    }

    /// Has a first batch delivered: servers have read the clients' keys then. And more, for the time of the warm-up.
    ///
    /// # Errors
    /// SYN-2003 if none is delivered.
    pub(super) fn warm_up(&self, session: &Session, plan: &LoadPlan) -> Result<(), SynError> {
        session.watched("warming up");
        self.driver.pace(Pace::Window(plan.window));
        let before = self.driver.delivered().0;
        self.until(FIRST, "first delivery", || self.driver.delivered().0 > before)?;
        std::thread::sleep(plan.warmup);
        Ok(())
    }

    /// What happens while `work` is done.
    ///
    /// # Errors
    /// Those of `work`.
    pub(super) fn stretch(&self, work: impl FnOnce() -> Result<(), SynError>) -> Result<Stretch, SynError> {
        self.driver.forget();
        let pages = self.pages();
        let (begun, books, cpu) = (Instant::now(), self.driver.books(), self.cpu());
        let carried = self.driver.carried();
        work()?;
        let (wall, after) = (begun.elapsed(), self.driver.books());
        let after_cpu = self.cpu();
        let now = self.driver.carried();
        Ok(Stretch {
            wall,
            servers: u64::try_from(self.servers()).unwrap_or(u64::MAX),
            batches: after.delivered.0 - books.delivered.0,
            messages: after.delivered.1 - books.delivered.1,
            latency: after.latency.clone(),
            cpu: after_cpu.since(&cpu),
            carried: Carried {
                sent: now.sent.saturating_sub(carried.sent),
                received: now.received.saturating_sub(carried.received),
                links: now.links,
            },
            making: after.making.saturating_sub(books.making),
            pages: pages
                .into_iter()
                .zip(self.pages())
                .filter_map(|both| Some(Passed::new(both.0?, both.1?)))
                .collect(),
        })
    }

    /// How many servers there are.
    fn servers(&self) -> usize {
        self.cluster.genesis.members().len()
    }

    /// The metrics ports of the servers.
    pub(super) fn metrics(&self) -> Vec<Option<Address>> {
        let of = |at: usize| {
            let file = self.cluster.directory().join(self.cluster.name(at)).join(NODE_FILE);
            let config = Effective::read(&file, [], []).and_then(|effective| effective.config());
            config.ok().and_then(|config| config.listen.metrics)
        };
        (0..self.servers()).map(of).collect()
    }

    fn pages(&self) -> Vec<Option<Page>> {
        self.metrics().iter().map(|metrics| metrics.as_ref().and_then(Page::fetch)).collect()
    }

    fn cpu(&self) -> Cpu {
        let mut all = Cpu::default();
        for (at, pid) in self.cluster.pids() {
            let Some(used) = usage(pid) else { continue };
            if at >= self.servers() {
                all.memory += used.cpu;
                continue;
            }
            all.servers += used.cpu;
            all.rss[0] = all.rss[0].max(used.rss_peak_bytes);
            threads::add(pid, &mut all.threads);
        }
        let own = usage(std::process::id()).unwrap_or_default();
        (all.load, all.rss[1]) = (own.cpu, own.rss_peak_bytes);
        threads::add(std::process::id(), &mut all.load_threads);
        all
    }

    /// Waits for what is on its way, compares, and gives the books of what was measured; figures may be shown if the audit
    /// passed.
    ///
    /// # Errors
    /// SYN-2003 if a server does not answer; SYN-6009 if something is not delivered in time or the audit fails.
    pub(super) fn close(self, session: &Session, plan: &LoadPlan) -> Result<(Books, Audit), SynError> {
        session.watched("waiting for what is on its way, and auditing");
        if !self.driver.drain(DRAIN) {
            let books = self.driver.books();
            let lost = (books.sent.1 - books.delivered.1).to_string();
            let values = [("lost", lost.as_str()), ("duplicated", "0")];
            let found = format!("{} of {} batches are delivered", books.delivered.0, books.sent.0);
            return Err(self.with_reasons(SynError::of(code::AUDIT_FAILED, &values).because(found)));
        }
        let books = self.driver.books();
        let eyes = Eyes::open(&self.cluster.genesis)?;
        let whole = self.covered(&eyes, books.height)?;
        let metrics = self.telling()?;
        let pays = self.app == App::Payments && plan.size == 8;
        let terms =
            Terms { grant: pays.then_some(u64::from(GRANT)), metrics: &metrics, covered: books.height };
        let audit = Audit::of(&eyes, &terms, &whole, plan.planted)?;
        audit.passed()?;
        self.driver.stop().map_err(|why| bug("load broker", &why))?;
        Ok((books, audit))
    }
}

impl Rig {
    /// Sends small batches until every server has a checkpoint of this height: without one there are no roots to compare. The
    /// books with them.
    fn covered(&self, eyes: &Eyes, height: u64) -> Result<Books, SynError> {
        let mut asked = 0;
        // Items take positions one by one, so as many as lie between checkpoints are enough; a server may be behind.
        while eyes.checkpoint_height()? < height && asked < 2 * CHECKPOINT_EVERY {
            self.driver.small(SMALL);
            asked += SMALL;
            self.until(DRAIN, "small batches", || {
                let books = self.driver.books();
                books.small >= u64::from(asked) && books.delivered.0 + books.lost() >= books.sent.0
            })?;
        }
        Ok(self.driver.books())
    }

    /// The metrics ports of all servers.
    ///
    /// # Errors
    /// A server without one: what it counted is not known.
    pub(super) fn telling(&self) -> Result<Vec<Address>, SynError> {
        let port = |(at, port): (usize, Option<Address>)| {
            port.ok_or_else(|| bug("audit", &format!("{} has no metrics port", self.cluster.name(at))))
        };
        self.metrics().into_iter().enumerate().map(port).collect()
    }
}

impl Cpu {
    fn since(&self, before: &Self) -> Self {
        Self {
            servers: self.servers.saturating_sub(before.servers),
            memory: self.memory.saturating_sub(before.memory),
            load: self.load.saturating_sub(before.load),
            threads: threads::since(&self.threads, &before.threads),
            load_threads: threads::since(&self.load_threads, &before.load_threads),
            rss: self.rss,
        }
    }
}

fn deploy(plan: &LoadPlan, members: &Members) -> Result<Processes, SynError> {
    let flag = |key: &str, value: String| (key.to_owned(), value);
    // Servers have what the header says of this process.
    let huge = if crate::huge::Pages::own() == crate::huge::Pages::None { "off" } else { "auto" };
    let flags = [
        flag("runtime.huge_pages", huge.to_owned()),
        flag("chop.quota_work", QUOTA_WORK.to_string()),
        flag("storage.sync", plan.sync.to_owned()),
        flag("storage.retain_bytes", plan.retain.to_string()),
        flag("log.level", "warn".to_owned()),
    ];
    let every = checkpoint_every(plan);
    let parameters = |parameters: &mut synod_config::Parameters| parameters.checkpoint_every = every;
    let nodes = plan.servers();
    let start = Start { name: "bench-load", nodes, dead: 1, parameters: &parameters, flags: &flags };
    let chop = Chop {
        batch_max: plan.batch.max(65_536),
        message_size: plan.size,
        grant: GRANT,
        tokens: TOKENS.min(plan.clients),
        kind: ClusterKind::Bench,
        ..Chop::default()
    };
    let directory: Vec<u8> = members.view.chunks().iter().flat_map(|chunk| chunk.encode()).collect();
    let deployed =
        Deployed { app: plan.app.name(), chop, directory: Some(&directory), ..Deployed::default() };
    // The broker of the genesis is played by this process.
    Processes::start_chop(&start, ChopStart { brokers: 1, memory: plan.memory(), plan: deployed, flags: &[] })
}
