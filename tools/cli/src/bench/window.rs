//! Beside the load: looks at all processes when measuring begins and ends, kills the leader, tells how far it is.

use super::pages::{Page, Passed};
use super::{Plan, Processes};
use crate::session::Session;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use synod_config::{Address, Service, SynError};
use synod_load::{Usage, Window, usage};

/// How long a killed leader stays away.
const AWAY: Duration = Duration::from_secs(1);
/// Between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(1);

/// All processes at a moment.
struct Look {
    /// By process number.
    used: BTreeMap<u32, Usage>,
    proxy: Usage,
    own: Usage,
    pages: Vec<Option<Page>>,
}

/// CPU time and peak memory of a role.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    pub(crate) cpu: Duration,
    pub(crate) rss: u64,
}

/// What passed in the measured time.
pub(crate) struct Taken {
    /// Of every node that answered at both ends.
    pub(crate) nodes: Vec<(usize, Passed)>,
    pub(crate) node_usage: Spent,
    pub(crate) proxy_usage: Option<Spent>,
    pub(crate) own_usage: Spent,
    /// The member that was killed.
    pub(crate) killed: Option<usize>,
}

/// Conducts one run.
pub(crate) struct Conductor<'a> {
    pub(crate) session: &'a Session,
    pub(crate) plan: &'a Plan,
    pub(crate) window: Window,
    pub(crate) accepted: &'a AtomicU64,
}

impl Conductor<'_> {
    /// Waits through the window and gives what passed in it.
    ///
    /// # Errors
    /// What prevents the killed leader from coming back.
    pub(crate) fn conduct(&self, processes: &mut Processes) -> Result<Taken, SynError> {
        let metrics = processes.addresses(Service::Metrics);
        self.wait_until(self.window.begin());
        let before = look(processes, &metrics);
        let mut lost = Duration::ZERO;
        let mut killed = None;
        if let Some(at) = self.plan.kill_leader_at {
            self.wait_until(self.window.begin() + at);
            killed = kill_leader(processes, &metrics, &before, &mut lost);
            if let Some(leader) = killed {
                self.session.watched(&format!("killed {}, the leader", processes.name(leader)));
                self.wait_until(self.window.begin() + at + AWAY);
                processes.launch(leader)?;
            }
        }
        self.wait_until(self.window.end());
        let after = look(processes, &metrics);
        Ok(taken(before, after, lost, killed))
    }

    fn wait_until(&self, moment: Instant) {
        loop {
            let left = moment.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(PROGRESS));
            let gone = self.window.start.elapsed().as_secs();
            let all = (self.window.warmup + self.window.measure).as_secs();
            let accepted = self.accepted.load(Ordering::Relaxed);
            self.session.watched(&format!("second {gone} of {all}: {accepted} operations acknowledged"));
        }
    }
}

fn look(processes: &Processes, metrics: &[Address]) -> Look {
    let used = processes.pids().into_iter().filter_map(|(_, pid)| Some((pid, usage(pid)?))).collect();
    let proxy = processes.proxy().and_then(usage).unwrap_or_default();
    let own = usage(std::process::id()).unwrap_or_default();
    let alive = processes.alive();
    let pages = metrics.iter().enumerate();
    let pages = pages.map(|(at, metrics)| alive.contains(&at).then(|| Page::fetch(metrics)).flatten());
    Look { used, proxy, own, pages: pages.collect() }
}

/// Kills the member that most nodes call the leader of the newest view; adds the CPU time it had used since `before`.
fn kill_leader(
    processes: &mut Processes,
    metrics: &[Address],
    before: &Look,
    lost: &mut Duration,
) -> Option<usize> {
    let pages = look(processes, metrics).pages;
    let leader = leader(pages.iter().flatten())?;
    let (_, pid) = processes.pids().into_iter().find(|(at, _)| *at == leader)?;
    let used = usage(pid).unwrap_or_default().cpu;
    let was = before.used.get(&pid).map_or(Duration::ZERO, |usage| usage.cpu);
    *lost += used.saturating_sub(was);
    processes.kill(leader);
    Some(leader)
}

/// Whom the node with the newest view calls its leader.
pub(super) fn leader<'a>(pages: impl Iterator<Item = &'a Page>) -> Option<usize> {
    let told = pages
        .filter_map(|page| Some((page.sum("synod_consensus_view")?, page.sum("synod_consensus_leader")?)));
    let (_, leader) = told.max_by(|left, right| left.0.total_cmp(&right.0))?;
    format!("{leader:.0}").parse().ok()
}

fn taken(before: Look, after: Look, lost: Duration, killed: Option<usize>) -> Taken {
    let mut node_usage = Spent { cpu: lost, rss: 0 };
    for (pid, usage) in &after.used {
        let was = before.used.get(pid).map_or(Duration::ZERO, |usage| usage.cpu);
        node_usage.cpu += usage.cpu.saturating_sub(was);
        node_usage.rss += usage.rss_peak_bytes;
    }
    let spent = |before: Usage, after: Usage| Spent {
        cpu: after.cpu.saturating_sub(before.cpu),
        rss: after.rss_peak_bytes,
    };
    let pages = before.pages.into_iter().zip(after.pages).enumerate();
    Taken {
        nodes: pages.filter_map(|(at, (before, after))| Some((at, Passed::new(before?, after?)))).collect(),
        node_usage,
        proxy_usage: (after.proxy.rss_peak_bytes > 0).then(|| spent(before.proxy, after.proxy)),
        own_usage: spent(before.own, after.own),
        killed,
    }
}

#[cfg(test)]
mod tests {
    use super::{Page, leader};
    use std::time::Instant;

    #[test]
    fn the_leader_is_that_of_the_newest_view() {
        let page = |view: u64, leader: u64| {
            let text = format!("synod_consensus_view {view}\nsynod_consensus_leader {leader}\n");
            Page::parse(&text, Instant::now())
        };
        assert_eq!(leader([page(7, 0), page(9, 2), page(8, 1)].iter()), Some(2));
        assert_eq!(leader([Page::parse("synod_consensus_view 9\n", Instant::now())].iter()), None);
    }
}
