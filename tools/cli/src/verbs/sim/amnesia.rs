//! `synod sim amnesia`: nine ways to lose promises, and what must come of each.

use crate::demo::Cluster;
use crate::exit::Done;
use crate::layout::NODE_FILE;
use crate::output::Report;
use crate::session::{Session, usage};
use clap::Args;
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};
use synod_config::{Address, Exit, SynError};
use synod_host::{Server, Setup};
use synod_net::Refusal;
use synod_trial::amnesia::{CASES, Cell, PROTOCOLS, cells};

/// How long the members may take to refuse a second instance.
const PATIENCE: Duration = Duration::from_secs(20);

/// Loses promises in nine ways; passed is a cell in which the member stops, refuses or listens, says so, and comes back
/// by its rejoin rule. Protocols that do not exist yet pass nothing.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod sim amnesia --system hotstuff --case M4")]
pub(super) struct Arguments {
    /// A protocol; all five by default.
    #[arg(long)]
    system: Option<String>,
    /// One case, M1 to M9; all by default.
    #[arg(long)]
    case: Option<String>,
}

impl Arguments {
    pub(super) fn run(self, session: &Session) -> Done {
        let protocols = chosen(self.system.as_deref(), PROTOCOLS.iter().copied(), "protocol")?;
        let cases = chosen(self.case.as_deref(), CASES.iter().map(|(case, ..)| *case), "case")?;
        let cells = cells(&protocols, &cases, |case| match case {
            "M3" => second_instance().map_err(|error| error.to_string()).and_then(|seen| seen),
            other => Err(format!("nothing plays {other}")),
        });
        let report = shown(&cells);
        if self.case.is_none() {
            session.score("sim-amnesia", &report);
        }
        session.output.print(&report)?;
        match cells.iter().find(|cell| !cell.passed && cell.outcome != "not built") {
            None => Ok(Exit::Success),
            Some(cell) => {
                let token = format!("amnesia {} {}", cell.system, cell.case);
                Err(super::violated(&token, &cell.why, ""))
            }
        }
    }
}

fn chosen<'a>(
    wanted: Option<&str>,
    known: impl Iterator<Item = &'a str> + Clone,
    what: &str,
) -> Result<Vec<&'a str>, SynError> {
    let Some(wanted) = wanted else { return Ok(known.collect()) };
    let bare = wanted.split('/').next().unwrap_or(wanted);
    let found: Vec<&str> = known.clone().filter(|one| one.eq_ignore_ascii_case(bare)).collect();
    if found.is_empty() {
        let all: Vec<&str> = known.collect();
        return Err(usage(&format!("no {what} is called {wanted}")).because(all.join(", ")));
    }
    Ok(found)
}

fn shown(cells: &[Cell]) -> Report {
    let count = |of: fn(&&Cell) -> bool| cells.iter().filter(of).count() as u64;
    let rows = cells.iter().map(|cell| {
        vec![json!(cell.case), json!(cell.system), json!(cell.passed), json!(cell.outcome), json!(cell.why)]
    });
    Report::new("synod-sim-amnesia/1")
        .field("cells", cells.len() as u64)
        .field("passed", count(|cell| cell.passed))
        .field("not_built", count(|cell| cell.outcome == "not built"))
        .list("per", &["case", "system", "passed", "outcome", "why"], rows.collect())
}

/// M3: four members in this process, and a copy of the last one's directory started beside it.
fn second_instance() -> Result<Result<String, String>, SynError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| crate::exit::bug("runtime", &error))?;
    runtime.block_on(async {
        let cluster = Cluster::start(4, 0).await?;
        let ran = copied(&cluster).await;
        cluster.end().await?;
        ran
    })
}

async fn copied(cluster: &Cluster) -> Result<Result<String, String>, SynError> {
    let last = cluster.size() - 1;
    if !until(|| (0..last).all(|id| is_up(cluster, id, last))).await {
        return Ok(Err("the first instance is not connected to all".to_owned()));
    }
    let copy = cluster.directory.join("copy");
    copy_all(&cluster.directory.join(cluster.name(last)), &copy)
        .map_err(|error| crate::cluster::unwritable(&copy, &error))?;
    let mut setup = Setup::read(&copy, [], &[])?;
    setup.node.listen.peer = Address::loopback(0);
    setup.node.listen.client = None;
    let second = Server::start(setup)?;
    let refused = || (0..last).filter(|id| cluster.refused(*id, Refusal::SecondInstance) > 0).count();
    let all = until(|| refused() == last).await;
    let linked = second.look().up.values().filter(|up| **up).count();
    let kept = (0..last).map(|id| cluster.instances(id)).filter(|pairs| *pairs > 0).count();
    let first = (0..last).all(|id| is_up(cluster, id, last));
    second.stop()?;
    Ok(match (all, linked, first, kept == last) {
        (false, ..) => Err(format!("{} of {last} members refused the second instance", refused())),
        (_, 1.., ..) => Err(format!("the second instance is linked to {linked} members")),
        (_, _, false, _) => Err("the first instance lost its links".to_owned()),
        (.., false) => Err(format!("{kept} of {last} members keep the hellos of both")),
        _ => Ok(format!(
            "SYN-2109 at {last} of {last} members, which keep both hellos; the first stays linked"
        )),
    })
}

fn is_up(cluster: &Cluster, at: usize, peer: usize) -> bool {
    let peer = u32::try_from(peer).unwrap_or(u32::MAX);
    cluster.look(at).is_some_and(|seen| seen.up.get(&peer).copied().unwrap_or(false))
}

async fn until(mut held: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + PATIENCE;
    while !held() {
        if Instant::now() >= deadline {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    true
}

/// Copies the directory of a node that runs: its key, its configuration, its journal as it is now.
fn copy_all(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            copy_all(&entry.path(), &target)?;
        } else if kind.is_file() {
            std::fs::copy(entry.path(), target)?;
        }
    }
    debug_assert!(!to.join(NODE_FILE).is_dir(), "a node's configuration is a file");
    Ok(())
}
