//! The run: servers and brokers as processes, the crowd and a few honest clients here.

use super::audit::{Audit, Terms};
use super::broker::{Sealed, look};
use super::honest::{Found, Honest, Of};
use super::levers;
use super::plan::{Enrol, RealPlan};
use super::receipts::Receipts;
use super::report::report;
use crate::bench::processes::{ChopStart, Processes, Start};
use crate::cluster::ChopPlan as Deployed;
use crate::exit::{Done, bug};
use crate::session::Session;
use std::net::ToSocketAddrs as _;
use std::sync::Arc;
use std::time::{Duration, Instant};
use synod_config::{Chop, ClusterKind, Exit, SynError, code};
use synod_crypto::Seed;
use synod_host::chop;
use synod_host::chop::client::ChopBroker;
use synod_load::chop::KeyFamily;
use synod_load::chop::client::{Account, Crowd, Input, LoadNode, LoadSetup, Pace, Stats, Wire};
use synod_load::usage;

/// Servers.
const SERVERS: u16 = 4;
/// What each account holds at first: above the messages that a client sends in any run.
const GRANT: u32 = 1_000_000;
/// Whom every message pays.
const PAYEE: u32 = 0;
/// Checks a second that a server lets a broker have: cards are many at once here, elsewhere they are few.
pub(super) const QUOTA_WORK: u32 = 4_000_000;
/// The family of every run.
const FAMILY: [u8; 32] = [18; 32];
/// How long an answer of the load client may take.
const ANSWER: Duration = Duration::from_secs(30);
/// How often it is looked how far things are.
const LOOK: Duration = Duration::from_millis(20);
/// How long links may take to come up, how long what is in flight may take at the end.
const LINKS: Duration = Duration::from_secs(180);
const DRAIN: Duration = Duration::from_secs(90);
/// How long sign-ups and a fixed number of messages may take.
const WORK: Duration = Duration::from_secs(900);

/// CPU of each process, by role, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cpu {
    pub(super) servers: Duration,
    pub(super) brokers: Duration,
    pub(super) clients: Duration,
    /// The largest memory of one process of each role.
    pub(super) rss: [u64; 3],
}

/// A stretch of the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub(super) wall: Duration,
    pub(super) confirmed: u64,
    pub(super) sealed: Sealed,
    pub(super) cpu: Cpu,
}

/// All that a run gave.
pub(super) struct Findings {
    pub(super) stretches: Vec<Stretch>,
    pub(super) links_took: Duration,
    pub(super) sign_up_took: Option<Duration>,
    pub(super) killed_after: Option<Duration>,
    pub(super) stats: Stats,
    pub(super) wire: Wire,
    pub(super) honest: Found,
    pub(super) audit: Audit,
    pub(super) receipts: u64,
    pub(super) cpu: Cpu,
    /// Of the brokers that live, over the whole run.
    pub(super) sealed: Sealed,
    /// What single levers give, where they were measured.
    pub(super) levers: Option<serde_json::Value>,
}

/// Runs `plan` and prints its result; without figures and with exit code 8 if the audit fails.
///
/// # Errors
/// What could not be started; SYN-6009 if the audit fails.
pub(crate) fn run(session: &Session, plan: &RealPlan) -> Done {
    let mut findings = Real::start(session, plan)?.measure()?;
    findings.audit.passed()?;
    if plan.ablations {
        session.watched("measuring levers");
        findings.levers = Some(levers::measure()?);
    }
    let report = report(plan, &findings);
    if let Some(file) = &plan.out {
        std::fs::write(file, report.to_json()).map_err(|e| crate::cluster::unwritable(file, &e))?;
    }
    session.output.print(&report)?;
    Ok(Exit::Success)
}

/// The parts of a run.
struct Real<'a> {
    session: &'a Session,
    plan: &'a RealPlan,
    cluster: Processes,
    load: LoadNode,
    honest: Honest,
    receipts: Option<Receipts>,
    begun: Instant,
}

impl<'a> Real<'a> {
    fn start(session: &'a Session, plan: &'a RealPlan) -> Result<Self, SynError> {
        session.watched("making keys");
        let family = Arc::new(KeyFamily::new(&Seed::new(FAMILY)));
        let directory = (plan.enrol == Enrol::Genesis).then(|| directory(&family, plan.clients));
        session.watched("starting servers and brokers");
        let cluster = deploy(plan, directory.as_deref())?;
        let begun = Instant::now();
        let receipts =
            plan.receipts.as_ref().map(|file| Receipts::start(file, &cluster.genesis)).transpose()?;
        let known = chop::cluster(&cluster.genesis)?;
        let class = chop::class(&cluster.genesis)?;
        let brokers = brokers(&cluster)?;
        let crowd = Crowd {
            family,
            members: (0, plan.clients),
            ids: (plan.enrol == Enrol::Genesis).then_some(0),
            cluster: known.clone(),
            class,
            brokers: u32::from(plan.brokers),
            silent: plan.silent,
            invalid: plan.invalid,
            receipts: receipts.is_some(),
            payee: PAYEE,
            pace: Pace { per_second: plan.rate, ..Pace::default() },
        };
        let to = receipts.as_ref().map(Receipts::sink);
        let setup = LoadSetup {
            crowd,
            cluster_name: cluster.genesis.cluster().name.clone(),
            brokers: brokers.iter().map(|broker| (broker.address, broker.key)).collect(),
            sockets: plan.sockets,
            threads: 1,
            receipts: to,
        };
        let load = LoadNode::start(setup).map_err(|error| bug("load client", &error))?;
        let of = Of {
            cluster: known,
            cluster_name: cluster.genesis.cluster().name.clone(),
            class,
            brokers,
            payload: (1_u64 << 32).to_le_bytes(),
        };
        let honest = Honest::start(plan.honest, &of, &cluster.directory().join("clients"))?;
        Ok(Self { session, plan, cluster, load, honest, receipts, begun })
    }

    fn measure(mut self) -> Result<Findings, SynError> {
        self.await_links()?;
        let links_took = self.begun.elapsed();
        let sign_up_took = self.enrol()?;
        self.await_honest()?;
        let mut killed_after = None;
        let stretches = match self.plan.messages {
            Some(messages) => vec![self.send_all(messages, &mut killed_after)?],
            None => self.send_for_a_time()?,
        };
        self.session.watched("waiting for what is in flight");
        let honest = self.drain()?;
        let (stats, wire) = (self.stats()?, self.load.wire());
        let (sealed, cpu) = (self.sealed(), self.cpu());
        self.session.watched("auditing every account on every server");
        let mut accounts = self.accounts(&honest)?;
        if self.plan.planted {
            plant(&mut accounts)?;
        }
        let terms = Terms { genesis: &self.cluster.genesis, grant: GRANT.into(), payee: PAYEE };
        let audit = Audit::of(&terms, &accounts)?;
        self.load.stop().map_err(|error| bug("load client", &error))?;
        let receipts = self.receipts.map_or(Ok(0), Receipts::close)?;
        let failed = honest.failed.clone().filter(|_| audit.passed().is_ok());
        failed.map_or(Ok(()), Err)?;
        Ok(Findings {
            stretches,
            links_took,
            sign_up_took,
            killed_after,
            stats,
            wire,
            honest,
            audit,
            receipts,
            cpu,
            sealed,
            levers: None,
        })
    }

    fn stats(&self) -> Result<Stats, SynError> {
        self.load.stats(ANSWER).ok_or_else(|| bug("load client", &"it does not answer"))
    }

    /// Waits until `done` says so of what was counted, or time is up.
    fn until(
        &self,
        patience: Duration,
        mut done: impl FnMut(&Stats) -> Result<bool, SynError>,
    ) -> Result<bool, SynError> {
        let until = Instant::now() + patience;
        loop {
            if done(&self.stats()?)? {
                return Ok(true);
            }
            if Instant::now() >= until {
                return Ok(false);
            }
            std::thread::sleep(LOOK);
        }
    }

    fn await_links(&self) -> Result<(), SynError> {
        self.session.watched("shaking hands, one link per client and broker");
        let wanted = u64::from(self.plan.clients) * u64::from(self.plan.brokers);
        let until = Instant::now() + LINKS;
        while self.load.wire().links < wanted {
            if Instant::now() >= until {
                let found = format!("{} of {wanted} links are up", self.load.wire().links);
                let values = [("address", "a broker"), ("stage", "link")];
                return Err(SynError::of(code::NO_ANSWER, &values).because(found));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    fn enrol(&self) -> Result<Option<Duration>, SynError> {
        if self.plan.enrol == Enrol::Genesis {
            return Ok(None);
        }
        self.session.watched("signing up");
        let begun = Instant::now();
        self.load.tell(Input::SignUp);
        let clients = self.plan.clients;
        let mut told = Instant::now();
        let done = self.until(WORK, |stats| {
            if told.elapsed() > Duration::from_secs(10) {
                told = Instant::now();
                self.session.watched(&format!("signed up {} of {clients}", stats.enrolled));
            }
            Ok(stats.enrolled + stats.refused >= clients)
        })?;
        if !done {
            let found = format!("{} of {clients} clients have an id", self.stats()?.enrolled);
            let values = [("address", "the servers"), ("stage", "sign-up")];
            return Err(SynError::of(code::NO_ANSWER, &values).because(found));
        }
        Ok(Some(begun.elapsed()))
    }

    fn await_honest(&self) -> Result<(), SynError> {
        self.session.watched("honest clients sign up");
        let until = Instant::now() + LINKS;
        loop {
            let found = self.honest.look();
            if let Some(error) = found.failed {
                return Err(error);
            }
            if found.accounts.len() >= self.plan.honest as usize {
                return Ok(());
            }
            if Instant::now() >= until {
                let values = [("address", "the servers"), ("stage", "sign-up of honest clients")];
                return Err(SynError::of(code::NO_ANSWER, &values));
            }
            std::thread::sleep(LOOK);
        }
    }

    fn send_for_a_time(&self) -> Result<Vec<Stretch>, SynError> {
        self.session.watched("warming up");
        self.load.tell(Input::Broadcast(u32::MAX));
        self.honest.broadcast(u64::MAX);
        std::thread::sleep(self.plan.warmup);
        self.honest.forget();
        let mut stretches = Vec::new();
        for repetition in 1..=self.plan.repeat {
            self.session.watched(&format!("measuring, {repetition} of {}", self.plan.repeat));
            stretches.push(self.stretch(|| {
                std::thread::sleep(self.plan.span);
                Ok(())
            })?);
        }
        self.honest.broadcast(0);
        self.load.tell(Input::Stop);
        Ok(stretches)
    }

    /// What happens while `work` is done.
    fn stretch(&self, work: impl FnOnce() -> Result<(), SynError>) -> Result<Stretch, SynError> {
        let (begun, stats, sealed, cpu) = (Instant::now(), self.stats()?, self.sealed(), self.cpu());
        work()?;
        let after = self.stats()?;
        Ok(Stretch {
            wall: begun.elapsed(),
            confirmed: after.confirmed - stats.confirmed,
            sealed: self.sealed().since(sealed),
            cpu: self.cpu().since(&cpu),
        })
    }

    /// Each client sends so many messages; a broker may be killed in the middle of a batch.
    fn send_all(&mut self, messages: u32, killed: &mut Option<Duration>) -> Result<Stretch, SynError> {
        self.session.watched(&format!("{messages} messages of each client"));
        let (begun, stats, sealed, cpu) = (Instant::now(), self.stats()?, self.sealed(), self.cpu());
        self.load.tell(Input::Broadcast(messages));
        self.honest.broadcast(messages.into());
        if self.plan.kill {
            // Roots were shown and some are signed, and the batch is not delivered: its middle.
            let half = u64::from(self.plan.clients) / 2;
            let middle = |stats: &Stats| Ok(stats.shares > stats.confirmed + half);
            if !self.until(WORK, middle)? {
                return Err(bug("kill", &"no batch came to its middle"));
            }
            self.cluster.kill(usize::from(SERVERS));
            *killed = Some(begun.elapsed());
            self.session.watched("killed broker b0 in the middle of a batch");
        }
        let wanted = self.wanted(messages);
        let mut told = Instant::now();
        let all = self.until(WORK, |stats| {
            if told.elapsed() > Duration::from_secs(10) {
                told = Instant::now();
                self.session.watched(&format!("{} of at least {wanted} are delivered", stats.confirmed));
            }
            Ok(stats.confirmed >= wanted && self.complete(messages)?)
        })?;
        if !all {
            let found = format!("{} messages are delivered", self.stats()?.confirmed);
            let values = [("address", "a broker"), ("stage", "delivery of every message")];
            return Err(SynError::of(code::NO_ANSWER, &values).because(found));
        }
        let after = self.stats()?;
        self.load.tell(Input::Stop);
        Ok(Stretch {
            wall: begun.elapsed(),
            confirmed: after.confirmed - stats.confirmed,
            sealed: self.sealed().since(sealed),
            cpu: self.cpu().since(&cpu),
        })
    }

    /// Messages of clients that keep the rules.
    fn wanted(&self, messages: u32) -> u64 {
        let keep = u64::from(self.plan.clients) * (1_000 - u64::from(self.plan.invalid)) / 1_000;
        (keep * u64::from(messages)).saturating_sub(1_000)
    }

    /// Whether every client that keeps the rules knows all of its messages delivered.
    fn complete(&self, messages: u32) -> Result<bool, SynError> {
        Ok(complete(&self.crowd()?, messages))
    }

    /// What every client of the crowd knows of its messages.
    fn crowd(&self) -> Result<Vec<Account>, SynError> {
        self.load.accounts(ANSWER).ok_or_else(|| bug("load client", &"it does not answer"))
    }

    /// Ends the honest clients and waits for what the crowd has in flight.
    fn drain(&mut self) -> Result<Found, SynError> {
        let count = self.plan.honest;
        let honest = std::mem::replace(&mut self.honest, Honest::none());
        let found = honest.stop();
        if found.accounts.len() < count as usize && found.failed.is_none() {
            return Err(bug("honest clients", &"one of them ended by a panic"));
        }
        let invalid = self.plan.clients * self.plan.invalid / 1_000 + 1;
        self.until(DRAIN, |stats| Ok(stats.flying <= invalid))?;
        Ok(found)
    }

    fn accounts(&self, honest: &Found) -> Result<Vec<Account>, SynError> {
        let mut accounts = self.crowd()?;
        accounts.extend(honest.accounts.iter().copied());
        Ok(accounts)
    }

    fn sealed(&self) -> Sealed {
        look(&self.cluster, SERVERS, self.plan.brokers)
    }

    fn cpu(&self) -> Cpu {
        let mut all = Cpu::default();
        for (index, pid) in self.cluster.pids() {
            let Some(used) = usage(pid) else { continue };
            let role = usize::from(index >= usize::from(SERVERS));
            *(if role == 0 { &mut all.servers } else { &mut all.brokers }) += used.cpu;
            all.rss[role] = all.rss[role].max(used.rss_peak_bytes);
        }
        let own = usage(std::process::id()).unwrap_or_default();
        (all.clients, all.rss[2]) = (own.cpu, own.rss_peak_bytes);
        all
    }
}

impl Cpu {
    fn since(&self, before: &Self) -> Self {
        Self {
            servers: self.servers.saturating_sub(before.servers),
            // A broker that was killed takes its time with it.
            brokers: self.brokers.saturating_sub(before.brokers),
            clients: self.clients.saturating_sub(before.clients),
            rss: self.rss,
        }
    }
}

/// Whether every client that keeps the rules knows all of its messages delivered; nobody is not everybody.
fn complete(accounts: &[Account], messages: u32) -> bool {
    let keep = || accounts.iter().filter(|account| account.keeps_rules);
    keep().next().is_some() && keep().all(|account| account.confirmed >= messages)
}

/// Makes a client forget that it began a message that was delivered.
fn plant(accounts: &mut [Account]) -> Result<(), SynError> {
    let is_whole = |account: &&mut Account| {
        account.id != PAYEE && account.keeps_rules && account.begun > 0 && account.confirmed == account.begun
    };
    let account = accounts.iter_mut().find(is_whole);
    let account = account.ok_or_else(|| bug("audit", &"every client has a message in flight"))?;
    account.begun -= 1;
    account.confirmed -= 1;
    Ok(())
}

/// The members' keys as the directory of a genesis: 80 bytes each.
fn directory(family: &KeyFamily, clients: u32) -> Vec<u8> {
    let (bls, ed) = (family.bls.keys(0, clients), family.ed.keys(0, clients));
    bls.iter().zip(&ed).flat_map(|(bls, ed)| bls.to_bytes().into_iter().chain(ed.0)).collect()
}

fn deploy(plan: &RealPlan, directory: Option<&[u8]>) -> Result<Processes, SynError> {
    let flag = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let servers = [flag("chop.quota_work", &QUOTA_WORK.to_string()), flag("log.level", "warn")];
    let brokers = [flag("broker.links_per_second", "1000000"), flag("log.level", "warn")];
    let start = Start { name: "bench-chop", nodes: SERVERS, dead: 0, parameters: &|_| {}, flags: &servers };
    let chop = Chop { grant: GRANT, kind: ClusterKind::Bench, ..Chop::default() };
    let deployed = Deployed { app: "payments", chop, directory, ..Deployed::default() };
    Processes::start_chop(
        &start,
        ChopStart { brokers: plan.brokers, memory: 0, plan: deployed, flags: &brokers },
    )
}

fn brokers(cluster: &Processes) -> Result<Vec<ChopBroker>, SynError> {
    let stated = cluster.genesis.chop().map(|chop| chop.brokers.as_slice()).unwrap_or_default();
    let of = |broker: &synod_config::Broker| {
        let text = broker.datagram.to_string();
        let address = text.to_socket_addrs().ok().and_then(|mut all| all.next());
        let address = address.ok_or_else(|| SynError::of(code::NAME_NOT_FOUND, &[("host", &text)]))?;
        Ok(ChopBroker { address, key: broker.ed25519 })
    };
    stated.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::{Account, complete, plant};

    fn account(id: u32, keeps_rules: bool, confirmed: u32) -> Account {
        Account { id, keeps_rules, begun: 3, confirmed }
    }

    #[test]
    fn nobody_is_not_everybody_who_is_done() {
        assert!(complete(&[account(1, true, 3), account(2, false, 0)], 3));
        assert!(!complete(&[account(1, true, 3), account(2, true, 2)], 3));
        assert!(!complete(&[], 3) && !complete(&[account(2, false, 3)], 3));
    }

    #[test]
    fn a_message_is_planted_with_a_client_that_has_none_in_flight() {
        let mut accounts =
            [account(0, true, 3), account(1, false, 3), account(2, true, 2), account(3, true, 3)];
        plant(&mut accounts).expect("the last one");
        assert_eq!(accounts.map(|account| account.begun), [3, 3, 3, 2]);
        assert!(plant(&mut accounts[..3]).is_err());
    }
}
