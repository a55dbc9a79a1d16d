//! Runs a plan: cluster, load, events, audit, result.

use super::histories::Histories;
use super::load::{Done as Told, Load};
use super::power::{Furnished, check};
use super::report::{Findings, report};
use super::schedule::Stage;
use super::timeline::Timeline;
use super::{Lie, Plan};
use crate::bench::{Processes, Start, are_settled, settled};
use crate::context::client_addresses;
use crate::exit::{Done, bug};
use crate::session::Session;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use synod_config::{Exit, Service, SynError, code};

/// How long members may take to come to the same state once the load has ended.
const SETTLE: Duration = Duration::from_secs(60);

/// Members whose gateways serve clients of histories.
const SERVERS: usize = 4;

/// Runs `plan` and prints its result.
///
/// # Errors
/// The error of the cluster; SYN-6009 with what differed if the audit fails.
pub(crate) fn run(session: &Session, plan: &Plan) -> Done {
    if plan.needs_disks() {
        check()?;
    }
    session.tell("starting the cluster");
    let kept = ("storage.retain_bytes".to_owned(), "256Mi".to_owned());
    // Disks that can fail are in memory.
    let flags: Vec<(String, String)> = plan.mixed_disks.then_some(kept).into_iter().collect();
    let start = Start { name: "chaos", nodes: plan.nodes, dead: 0, parameters: &|_| {}, flags: &flags };
    let mut processes =
        if plan.needs_links() { Processes::start_wired(&start)? } else { Processes::start(&start)? };
    let mut furnished = if plan.needs_disks() { Some(Furnished::lay(&mut processes)?) } else { None };
    let played = play(session, plan, &mut processes, furnished.as_mut());
    let directory = processes.directory().display().to_string();
    let failed = match &played {
        Ok(findings) if findings.ok() => None,
        Ok(findings) => Some(findings.error()),
        Err(error) => Some(error.clone()),
    };
    let kept = furnished.map_or(Ok(()), |furnished| furnished.end(&mut processes, failed.is_some()));
    if let Ok(findings) = &played {
        let report = report(plan, findings);
        session.score(&plan.file(), &report);
        session.output.print(&report)?;
    }
    match failed {
        None => kept.map(|()| Exit::Success),
        Some(error) => {
            processes.keep();
            let data = kept.map_or_else(|why| format!("logs ({why})"), |()| "data and logs".to_owned());
            Err(error.because(format!("{data} are kept in {directory}; the seed is {}", plan.seed)))
        }
    }
}

fn play(
    session: &Session,
    plan: &Plan,
    processes: &mut Processes,
    furnished: Option<&mut Furnished>,
) -> Result<Findings, SynError> {
    let begun = Instant::now();
    let timeline = Arc::new(Timeline::new(begun));
    let servers = servers(plan, processes)?;
    let load = Load::start(&processes.genesis, timeline.clone())?;
    let histories = Histories::start(&processes.genesis, &servers, plan.seed)?;
    let mut stage = Stage::new(session, processes, timeline.clone(), plan.seed)?;
    stage.disks = furnished.map(|furnished| &mut furnished.disks);
    stage.slow_down(plan.slow);
    let played = stage.play(plan);
    let events = stage.events;
    session.tell("auditing");
    let (told, seen) = (load.finish(), histories.finish());
    played?;
    let seen = seen?;
    if let Some(offence) = &seen.offence {
        crate::output::progress(&format!("not linearizable: {offence}"));
    }
    let gaps = timeline.finish(Instant::now());
    let Told { lane, bytes_acked, bytes_lost, blamed } = told?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| bug("runtime", &error))?;
    let addresses = client_addresses(&processes.genesis);
    let states = runtime.block_on(settled(&processes.genesis, &addresses, SETTLE))?;
    let blamed = blamed.into_iter().map(|(member, fault, times)| {
        (processes.name(usize::try_from(member).unwrap_or(usize::MAX)).to_owned(), fault, times)
    });
    Ok(Findings {
        hash_equal: are_settled(&states, usize::from(plan.nodes)),
        keys: states.first().map_or(0, |(_, keys)| *keys),
        members: states.len(),
        liar: events.liar.map(|liar| processes.name(liar).to_owned()),
        must_report: plan.lie == Some(Lie::Equivocate),
        must_name: plan.lie == Some(Lie::Replies),
        blamed: blamed.collect(),
        lane,
        bytes_acked,
        bytes_lost,
        seen,
        connections: processes.links().map(synod_chaos::links::Links::counts),
        events,
        gaps,
        took: begun.elapsed(),
    })
}

/// Where clients of histories find servers that speak RESP: a proxy, and the members' own, unless one of them lies.
fn servers(plan: &Plan, processes: &mut Processes) -> Result<Vec<SocketAddr>, SynError> {
    let mut servers = vec![processes.start_proxy(&[])?];
    if plan.lie.is_none() {
        let own = processes.addresses(Service::Resp).into_iter().take(SERVERS);
        servers.extend(own.map(|address| SocketAddr::from((Ipv4Addr::LOCALHOST, address.port()))));
    }
    Ok(servers)
}

impl Findings {
    /// What is wrong, as an error.
    fn error(&self) -> SynError {
        let values =
            [("lost", &*self.lane.lost.to_string()), ("duplicated", &*self.lane.duplicated.to_string())];
        let error = self.lane.because(SynError::of(code::AUDIT_FAILED, &values));
        self.differences().into_iter().fold(error, SynError::because)
    }
}
