//! Runs a benchmark: cluster, load, audit, result.

use super::audit::{self, Audit};
use super::header::header;
use super::{Plan, Processes, Target};
use crate::exit::Done;
use crate::output::Report;
use crate::session::Session;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use synod_config::{ClientAuth, Exit, Parameters, SynError, code};
use synod_host::{Backend, ClientSetup, ClusterClient, Mode};
use synod_load::{Closed, Kv, KvOperation, Measured, Null, Open, Usage, Workload, closed, open, usage};
use synod_quorum::NodeId;

const DEADLINE: Duration = Duration::from_secs(10);

/// Runs `plan` and prints its result; without figures and with exit code 8 if the audit fails.
///
/// # Errors
/// The error of the cluster; SYN-6009 if the audit fails.
pub(crate) fn run(session: &Session, plan: &Plan) -> Done {
    let parameters = |p: &mut Parameters| {
        *p = Parameters::defaults(plan.rules, usize::from(plan.nodes));
        if plan.channel {
            p.client_auth = ClientAuth::Channel;
        }
    };
    session.tell("starting the cluster");
    let flags = [("storage.sync".to_owned(), plan.sync.to_owned())];
    let mut processes = Processes::start("bench", plan.nodes, &parameters, &flags)?;
    for index in (0..usize::from(plan.nodes)).rev().take(usize::from(plan.dead)) {
        processes.kill(index);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| SynError::of(code::BUG, &[("bundle", "runtime")]).because(e))?;
    let (result, audit) = runtime.block_on(measure(session, plan, &mut processes))?;
    drop(processes);
    if !audit.ok() {
        let found = format!(
            "lost {}, duplicated {}, equal states: {}",
            audit.lost, audit.duplicated, audit.state_hash_equal
        );
        return Err(SynError::of(code::AUDIT_FAILED, &[]).because(found));
    }
    if let Some(file) = &plan.out {
        std::fs::write(file, format!("{result:#}\n")).map_err(|e| crate::cluster::unwritable(file, &e))?;
    }
    session.output.print(&report(&result))?;
    Ok(Exit::Success)
}

fn clients(plan: &Plan, processes: &Processes) -> Result<Vec<Arc<ClusterClient>>, SynError> {
    let genesis = &processes.genesis;
    let alive = processes.alive();
    let addresses: Vec<(NodeId, String)> = crate::context::client_addresses(genesis);
    (0..usize::from(plan.clients))
        .map(|at| {
            let nearest = alive.get(at % alive.len().max(1)).copied().unwrap_or(0);
            let setup = ClientSetup {
                genesis: genesis.clone(),
                addresses: addresses.clone(),
                send_all: false,
                trust: "verified",
                nearest: NodeId(u32::try_from(nearest).unwrap_or(0)),
                sessions: 1,
                believe: None,
            };
            ClusterClient::connect(&setup).map(Arc::new)
        })
        .collect()
}

fn workload(plan: &Plan) -> Arc<dyn Workload> {
    let size = usize::try_from(plan.size).unwrap_or(usize::MAX);
    match plan.target {
        Target::Order => Arc::new(Null { size }),
        Target::Kv { keys, reads } => {
            let what = match reads {
                0 => KvOperation::Set,
                1_000 => KvOperation::Get,
                share => KvOperation::Mix(share),
            };
            Arc::new(Kv { what, keys, size, read: Mode::Quorum })
        }
    }
}

async fn measure(
    session: &Session,
    plan: &Plan,
    processes: &mut Processes,
) -> Result<(Value, Audit), SynError> {
    let clients = clients(plan, processes)?;
    let backends: Vec<Arc<dyn Backend>> = clients.iter().map(|c| c.clone() as Arc<dyn Backend>).collect();
    let stuck = || SynError::of(code::NO_QUORUM, &[("names", "the cluster does not answer the marker")]);
    let before = audit::mark(&clients[0]).await.ok_or_else(stuck)?;
    session.tell("measuring");
    let used = total_usage(processes);
    let own = usage(std::process::id()).unwrap_or_default();
    let measured = load(plan, &backends).await;
    let spent = total_usage(processes);
    let own_spent = usage(std::process::id()).unwrap_or_default();
    session.tell("auditing");
    let after = audit::mark(&clients[0]).await.ok_or_else(stuck)?;
    let audit = judge(plan, processes, &measured, after.saturating_sub(before).saturating_sub(1)).await?;
    let cpu = Cpu {
        nodes: spent.cpu.saturating_sub(used.cpu),
        clients: own_spent.cpu.saturating_sub(own.cpu),
        rss: spent.rss_peak_bytes,
        own_rss: own_spent.rss_peak_bytes,
    };
    Ok((result(plan, &measured, &audit, &cpu), audit))
}

async fn load(plan: &Plan, backends: &[Arc<dyn Backend>]) -> Measured {
    let lanes = u64::from(plan.clients);
    let (warmup, measure, deadline) = (plan.warmup, plan.span, DEADLINE);
    match plan.rate {
        Some(rate) => {
            let plan_ = Open { lanes, rate: f64::from(rate), warmup, measure, deadline };
            open(backends, workload(plan), plan_).await
        }
        None => {
            let plan_ =
                Closed { lanes, inflight: plan.window(), batch: plan.batch(), warmup, measure, deadline };
            closed(backends, workload(plan), plan_).await
        }
    }
}

/// Writes of the run, reads aside: only writes change the state.
async fn judge(
    plan: &Plan,
    processes: &Processes,
    measured: &Measured,
    changes: u64,
) -> Result<Audit, SynError> {
    let only_writes = matches!(plan.target, Target::Order | Target::Kv { reads: 0, .. });
    let (lost, duplicated) = if only_writes { Audit::count(changes, measured.whole) } else { (0, 0) };
    let addresses = crate::context::client_addresses(&processes.genesis);
    let alive = processes.alive();
    let members: Vec<_> = alive.iter().filter_map(|index| addresses.get(*index).cloned()).collect();
    let states = audit::settled(&processes.genesis, &members, DEADLINE).await?;
    let equal = audit::are_settled(&states, alive.len());
    let keys = states.first().map_or(0, |(_, keys)| *keys);
    Ok(Audit { lost, duplicated, state_hash_equal: equal, members: states.len(), keys })
}

struct Cpu {
    nodes: Duration,
    clients: Duration,
    rss: u64,
    own_rss: u64,
}

fn total_usage(processes: &Processes) -> Usage {
    processes.pids().into_iter().filter_map(usage).fold(Usage::default(), |sum, one| Usage {
        cpu: sum.cpu + one.cpu,
        rss_peak_bytes: sum.rss_peak_bytes + one.rss_peak_bytes,
    })
}

fn result(plan: &Plan, measured: &Measured, audit: &Audit, cpu: &Cpu) -> Value {
    let operations = measured.whole.accepted.max(1);
    let per_op = |span: Duration| -> f64 {
        let micros = span.as_secs_f64() * 1e6;
        (micros / f64::from(u32::try_from(operations).unwrap_or(u32::MAX)) * 100.0).round() / 100.0
    };
    let own = json!({
        "rules": plan.rules.as_str(), "nodes": plan.nodes, "size": plan.size, "clients": plan.clients,
        "inflight": plan.inflight, "pipeline": plan.pipeline, "dead": plan.dead,
        "gap_ms": u64::try_from(measured.gap.as_millis()).unwrap_or(u64::MAX),
    });
    let mut result = json!({
        "schema": "synod-bench/1",
        "header": header(plan),
        "offered_per_s": measured.offered_per_s.round(),
        "achieved_per_s": measured.achieved_per_s().round(),
        "held": measured.held(),
        "latency_us": measured.latency.to_json(),
        "outcomes": {
            "accepted": measured.tally.accepted, "rejected": measured.tally.rejected,
            "unknown": measured.tally.unknown,
        },
        "cpu_us_per_op": {
            "total": per_op(cpu.nodes + cpu.clients),
            "by_role": { "nodes": per_op(cpu.nodes), "clients": per_op(cpu.clients) },
        },
        "rss_peak_bytes": { "by_role": { "nodes": cpu.rss, "clients": cpu.own_rss } },
        "audit": audit.to_json(),
    });
    if let Some(object) = result.as_object_mut() {
        object.insert(plan.target.name().to_owned(), own);
    }
    result
}

fn report(result: &Value) -> Report {
    let mut report = Report::new("synod-bench/1");
    let keys = [
        "header",
        "offered_per_s",
        "achieved_per_s",
        "held",
        "latency_us",
        "outcomes",
        "cpu_us_per_op",
        "rss_peak_bytes",
        "audit",
        "order",
        "kv",
    ];
    for key in keys {
        if let Some(value) = result.get(key) {
            report = report.field(key, value.clone());
        }
    }
    report
}
