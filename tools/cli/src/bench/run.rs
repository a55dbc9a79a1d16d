//! Runs a benchmark: cluster, load, audit, result.

use super::audit::{self, Audit};
use super::baseline::Baseline;
use super::figures::Findings;
use super::plan::CALIBRATION;
use super::window::Conductor;
use super::{Access, Pace, Plan, Processes, Start};
use crate::exit::{Done, bug};
use crate::serve::client_setup;
use crate::session::Session;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use synod_config::{ClientAuth, Exit, Parameters, Service, SynError, code};
use synod_host::{Backend, ClientSetup, ClusterClient, Mode, Outcome};
use synod_load::{
    Closed, Drive, Keys, Measured, Open, RespClient, Tally, Window, Workload, closed, fill, open,
};
use synod_quorum::NodeId;

/// Deadline of an operation.
const DEADLINE: Duration = Duration::from_secs(10);
/// How long members may take to come to the same state once the load has ended.
const SETTLE: Duration = Duration::from_secs(60);
/// Operations per call while keys are written for the first time.
const FILL_BATCH: usize = 256;

/// What is run for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// The benchmark itself.
    Cluster,
    /// One member alone, as a baseline: nothing is audited.
    Alone,
}

/// Runs `plan` and prints its result; without figures and with exit code 8 if the audit fails.
///
/// # Errors
/// The error of the cluster; SYN-6009 if the audit fails.
pub(crate) fn run(session: &Session, plan: &Plan) -> Done {
    let baseline = plan.baseline.then(|| Baseline::take(session, plan));
    let mut findings = measure(session, plan, Load::Cluster)?;
    findings.baseline = baseline;
    findings.audit.clone().passed()?;
    let report = findings.report(plan);
    if let Some(file) = &plan.out {
        std::fs::write(file, report.to_json()).map_err(|e| crate::cluster::unwritable(file, &e))?;
    }
    session.output.print(&report)?;
    Ok(Exit::Success)
}

/// Starts a cluster, loads it, looks at it afterwards.
///
/// # Errors
/// The error of the cluster.
pub(super) fn measure(session: &Session, plan: &Plan, load: Load) -> Result<Findings, SynError> {
    let parameters = |p: &mut Parameters| {
        *p = Parameters::defaults(plan.rules, usize::from(plan.nodes));
        if plan.channel {
            p.client_auth = ClientAuth::Channel;
        }
    };
    let flags = [("storage.sync".to_owned(), plan.sync.to_owned())];
    let name = if load == Load::Alone { "bench-alone" } else { "bench" };
    if load == Load::Cluster {
        session.watched("starting the cluster");
    }
    let start = Start { name, nodes: plan.nodes, dead: plan.dead, parameters: &parameters, flags: &flags };
    let mut processes = Processes::start(&start)?;
    let resp = doors(plan, &mut processes)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| bug("runtime", &error))?;
    let mut bench = {
        // Connections are tasks of the runtime.
        let _guard = runtime.enter();
        Bench::new(session, plan, &processes, &resp)?
    };
    let before = runtime.block_on(bench.prepare())?;
    let (measured, taken) = bench.measure(&runtime, &mut processes)?;
    let names = (0..usize::from(plan.nodes)).map(|index| processes.name(index).to_owned()).collect();
    let audit = match load {
        Load::Alone => Audit::default(),
        Load::Cluster => {
            session.watched("auditing");
            processes.await_all()?;
            runtime.block_on(bench.audit(&processes, before))?
        }
    };
    Ok(Findings { measured, taken, audit, baseline: None, names })
}

/// Where Redis clients connect.
fn doors(plan: &Plan, processes: &mut Processes) -> Result<Vec<SocketAddr>, SynError> {
    match plan.access {
        Access::Binary => Ok(Vec::new()),
        Access::Proxy => {
            let read = if plan.read == Mode::Ordered { "ordered" } else { "linearizable" };
            let send = if plan.send_all { "all" } else { "one" };
            Ok(vec![processes.start_proxy(&["--read", read, "--send", send])?])
        }
        Access::Node => {
            let alive = processes.alive();
            let addresses = processes.addresses(Service::Resp).into_iter().enumerate();
            let alive = addresses.filter(|(at, _)| alive.contains(at)).map(|(_, address)| address);
            let resolved = alive.flat_map(|address| {
                (address.host(), address.port())
                    .to_socket_addrs()
                    .into_iter()
                    .flatten()
                    .take(1)
                    .collect::<Vec<_>>()
            });
            Ok(resolved.collect())
        }
    }
}

/// A load in front of a cluster.
struct Bench<'a> {
    session: &'a Session,
    plan: &'a Plan,
    keys: Arc<Keys>,
    backends: Vec<Arc<dyn Backend>>,
    /// Asks for markers, as an ordinary client does.
    auditor: ClusterClient,
    /// Operations per second of a closed loop, once measured.
    peak: Option<f64>,
}

fn stuck(what: &str) -> SynError {
    SynError::of(code::NO_QUORUM, &[("names", what)])
}

impl<'a> Bench<'a> {
    fn new(
        session: &'a Session,
        plan: &'a Plan,
        processes: &Processes,
        resp: &[SocketAddr],
    ) -> Result<Self, SynError> {
        let alive = processes.alive();
        let member = |at: usize| {
            let nearest = alive.get(at % alive.len().max(1)).copied().unwrap_or(0);
            let nearest = NodeId(u32::try_from(nearest).unwrap_or(0));
            let setup = client_setup(&processes.genesis, "verified", nearest, 1);
            ClusterClient::connect(&ClientSetup { send_all: plan.send_all, ..setup })
        };
        let mut backends: Vec<Arc<dyn Backend>> = Vec::new();
        for at in 0..usize::from(plan.clients) {
            backends.push(match plan.access {
                Access::Binary => Arc::new(member(at)?),
                _ => Arc::new(RespClient::connect(resp.to_vec(), at)),
            });
        }
        let keys = Arc::new(Keys::new(plan.draw()));
        Ok(Self { session, plan, keys, backends, auditor: member(0)?, peak: None })
    }

    fn drive(&self, window: Window) -> Drive {
        Drive {
            backends: self.backends.clone(),
            load: self.keys.clone(),
            window,
            deadline: DEADLINE,
            accepted: Arc::new(AtomicU64::new(0)),
        }
    }

    fn closed(&self) -> Closed {
        let plan = self.plan;
        Closed { lanes: u64::from(plan.clients), inflight: plan.window(), batch: plan.batch() }
    }

    /// Writes the first marker and every key that will be read; finds the peak if the rate is one of its multiples.
    async fn prepare(&mut self) -> Result<u64, SynError> {
        let before = audit::mark(&self.auditor)
            .await
            .ok_or_else(|| stuck("the cluster does not answer the marker"))?;
        let filling = self.keys.filling();
        if filling > 0 {
            self.session.watched("writing the keys");
            let drive = self.drive(Window::now(Duration::ZERO, Duration::ZERO));
            let lanes = u64::from(self.plan.clients);
            let batch = FILL_BATCH.min(self.plan.batch().max(16));
            let tally = fill(&drive, lanes, (filling, batch)).await;
            if tally.rejected + tally.unknown > 0 {
                return Err(stuck("the keys that are to be read could not be written"));
            }
        }
        if matches!(self.plan.pace, Pace::Peak(_)) {
            self.session.watched("finding the peak");
            let drive = self.drive(Window::now(CALIBRATION.0, CALIBRATION.1));
            let peak = closed(&drive, self.closed()).await.achieved_per_s();
            if peak < 1.0 {
                return Err(stuck("the closed loop that finds the peak got no answer"));
            }
            self.peak = Some(peak);
        }
        Ok(before)
    }

    /// The load, with its conductor on a thread of its own.
    fn measure(
        &self,
        runtime: &tokio::runtime::Runtime,
        processes: &mut Processes,
    ) -> Result<(Measured, super::window::Taken), SynError> {
        let drive = self.drive(Window::now(self.plan.warmup, self.plan.span));
        let (window, accepted) = (drive.window, drive.accepted.clone());
        let conductor = Conductor { session: self.session, plan: self.plan, window, accepted: &accepted };
        std::thread::scope(|scope| {
            let taken = scope.spawn(|| conductor.conduct(processes));
            let measured = runtime.block_on(self.load(&drive));
            let taken = taken.join().map_err(|_| bug("bench", &"the conductor's thread panicked"))??;
            Ok((measured, taken))
        })
    }

    async fn load(&self, drive: &Drive) -> Measured {
        let lanes = u64::from(self.plan.clients);
        let rate = match self.plan.pace {
            Pace::Closed => return closed(drive, self.closed()).await,
            Pace::Rate(rate) => f64::from(rate),
            Pace::Peak(share) => self.peak.unwrap_or(1.0) * f64::from(share) / 1_000.0,
        };
        open(drive, Open { lanes, rate }).await
    }

    /// Compares what clients were told with what the members hold.
    async fn audit(&self, processes: &Processes, before: u64) -> Result<Audit, SynError> {
        let after = audit::mark(&self.auditor)
            .await
            .ok_or_else(|| stuck("the cluster does not answer the marker"))?;
        let changes = after.saturating_sub(before).saturating_sub(1);
        if self.plan.planted {
            let batch = self.keys.take(0, 1);
            let never = Outcome::Accepted { value: bytes::Bytes::from_static(b"+OK\r\n"), position: 0 };
            self.keys.told(0, batch.first, &[never]);
        }
        let told: Tally = self.keys.writes();
        let addresses = crate::context::client_addresses(&processes.genesis);
        let alive = processes.alive();
        let members: Vec<_> = alive.iter().filter_map(|index| addresses.get(*index).cloned()).collect();
        let states = audit::settled(&processes.genesis, &members, SETTLE).await?;
        let equal = audit::are_settled(&states, alive.len());
        let keys = states.first().map_or(0, |(_, keys)| *keys);
        let (first, address) = members.first().cloned().ok_or_else(|| stuck("no member runs"))?;
        let held = audit::contents(&processes.genesis, first, address).await?;
        let held = held.ok_or_else(|| stuck("a member does not tell what it holds"))?;
        let found = self.keys.judge(held);
        let (lost, duplicated) = Audit::count(changes, told);
        Ok(Audit {
            lost: lost.max(found.lost),
            duplicated,
            wrong_reads: Some(found.wrong_reads),
            state_hash_equal: equal,
            members: states.len(),
            keys,
        })
    }
}
