//! The scenes of uBFT, each with a sentence that says when it passes.

use super::cluster::{MEMORY, REPLICAS, UbftCluster};
use crate::demo::{Scene, millis};
use crate::exit::bug;
use std::sync::Arc;
use std::time::{Duration, Instant};
use synod_config::{Context, SynError};
use synod_host::{ClusterClient, Mode, Operation, Outcome};
use synod_kv::{Verb, operation};

/// Writers that each wait for the outcome of a write before the next.
const WRITERS: u64 = 4;
/// Writes of a writer while nothing fails, and while something does.
const CALM: u64 = 250;
const HURT: u64 = 100;
/// Writes of a writer when it is gone.
const AFTER: u64 = 10;
/// How long after the first write of a scene something is killed.
const UNDER_WAY: Duration = Duration::from_millis(100);
/// How long a write may take.
const DEADLINE: Duration = Duration::from_secs(60);

/// What the play showed.
pub(crate) struct UbftShown {
    pub(crate) scenes: Vec<Scene>,
    /// Whether every counter is what its writer was told, and all states are equal.
    pub(crate) is_sound: bool,
}

/// What the writers were told of their counters.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    /// Increments that took effect, and those that may have.
    acked: u64,
    unknown: u64,
    /// An increment was answered with what no correct cluster answers.
    wrong: u64,
    /// The longest time without any answer.
    gap: Duration,
}

impl Told {
    fn add(&mut self, other: Self) {
        self.acked += other.acked;
        self.unknown += other.unknown;
        self.wrong += other.wrong;
        self.gap = self.gap.max(other.gap);
    }
}

fn command(verb: &'static [u8], key: &str) -> Result<Operation, SynError> {
    let verb = Verb::find(verb).ok_or_else(|| bug("demo", &"the store has no such verb"))?;
    let mut body = Vec::new();
    operation::write_command(verb, std::iter::once(key.as_bytes()), &mut body);
    Ok(Operation { body: body.into(), mode: Mode::Ordered })
}

fn counter(writer: u64) -> String {
    format!("demo:count:{writer}")
}

/// The number in a reply to INCR, or to GET of a counter.
fn number(reply: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(reply).ok()?;
    let last = text.trim_end_matches("\r\n").rsplit("\r\n").next()?;
    last.trim_start_matches(':').parse().ok()
}

/// Counts one counter up, so many times; `told` of it before counts.
async fn count_up(
    client: Arc<ClusterClient>,
    (writer, before): (u64, Told),
    times: u64,
) -> Result<Told, SynError> {
    let mut told = Told::default();
    let mut last = Instant::now();
    for _ in 0..times {
        let outcomes = client.ask(vec![command(b"INCR", &counter(writer))?], DEADLINE).await;
        let least = before.acked + told.acked + 1;
        match outcomes.first() {
            Some(Outcome::Accepted { value, .. }) => {
                let most = least + before.unknown + told.unknown;
                told.wrong += u64::from(!number(value).is_some_and(|is| (least..=most).contains(&is)));
                told.acked += 1;
            }
            Some(Outcome::Rejected { .. }) => {}
            Some(Outcome::Unknown(_)) | None => told.unknown += 1,
        }
        told.gap = told.gap.max(last.elapsed());
        last = Instant::now();
    }
    Ok(told)
}

/// The play so far.
struct Play<'a> {
    cluster: &'a mut UbftCluster,
    context: &'a Context,
    /// By writer.
    told: Vec<Told>,
}

impl Play<'_> {
    /// All writers write, so many times each, while `meanwhile` is done to the cluster.
    async fn write(
        &mut self,
        times: u64,
        meanwhile: impl FnOnce(&mut UbftCluster),
    ) -> Result<Told, SynError> {
        let start = |(writer, before): (u64, &Told)| {
            tokio::spawn(count_up(self.cluster.client.clone(), (writer, *before), times))
        };
        let writers: Vec<_> = (0..).zip(&self.told).map(start).collect();
        tokio::time::sleep(UNDER_WAY).await;
        meanwhile(self.cluster);
        let mut all = Told::default();
        for (writer, told) in writers.into_iter().zip(&mut self.told) {
            let wrote = writer.await.map_err(|error| bug("writer", &error))??;
            told.add(wrote);
            all.add(wrote);
        }
        Ok(all)
    }

    /// What is killed and with what it is written on.
    async fn kill(&mut self, name: &'static str, index: usize, what: &str) -> Result<Scene, SynError> {
        let begun = Instant::now();
        let wrote = self.write(HURT, |cluster| cluster.kill(index)).await?;
        // Some of those were done before; these are not.
        let after = self.write(AFTER, |_| {}).await?;
        let note = format!(
            "{what} {} is killed with SIGKILL under writes: {} of {} are done, and {} of {} behind them",
            self.cluster.name(index),
            wrote.acked,
            HURT * WRITERS,
            after.acked,
            AFTER * WRITERS
        );
        // What is slow has no outcome in time and may take effect, which the audit looks into.
        let ok = after.acked > 0 && wrote.wrong + after.wrong == 0;
        Ok(Scene {
            gap_ms: Some(millis(wrote.gap)),
            ..scene(name, (ok, wrote.acked + after.acked), begun, note)
        })
    }

    /// Those that were killed come back.
    async fn recover(&mut self, name: &'static str, what: &str) -> Result<Scene, SynError> {
        let begun = Instant::now();
        self.cluster.launch()?;
        let wrote = self.write(HURT, |_| {}).await?;
        let (replicas, memory) = (usize::from(REPLICAS), u64::from(MEMORY));
        let epoch = self.cluster.until(self.context, "an epoch that lists all", |survey| {
            let vitals: Vec<_> = survey.nodes.iter().filter_map(|node| node.vitals.as_ref().ok()).collect();
            let epoch = vitals.first().and_then(|first| first.epoch)?;
            let all = vitals.len() == replicas
                && vitals
                    .iter()
                    .all(|one| one.ready && one.epoch == Some(epoch) && one.memory_nodes == Some(memory));
            all.then_some(epoch)
        })?;
        let note = format!("{what} empty, forgot every promise, and is taken in again by epoch {epoch}");
        Ok(scene(name, (wrote.wrong == 0 && wrote.acked > 0, wrote.acked), begun, note))
    }

    /// Every counter is what its writer was told, and all states are equal.
    async fn audit(&mut self) -> Result<Scene, SynError> {
        let begun = Instant::now();
        let (mut lost, mut twice) = (0, 0);
        for (writer, told) in (0_u64..).zip(&self.told) {
            let outcomes = self.cluster.client.ask(vec![command(b"GET", &counter(writer))?], DEADLINE).await;
            let Some(Outcome::Accepted { value, .. }) = outcomes.first() else {
                return Err(bug("audit", &"a counter could not be read"));
            };
            let is = number(value).unwrap_or(0);
            lost += told.acked.saturating_sub(is);
            twice += is.saturating_sub(told.acked + told.unknown);
        }
        let (slots, digest) = self.cluster.agreed(self.context)?;
        let all: u64 = self.told.iter().map(|told| told.acked).sum();
        let note = format!(
            "{lost} of {all} writes lost, {twice} done twice; {REPLICAS} replicas have the state {digest:016x} behind {slots} slots"
        );
        Ok(scene("audit", (lost == 0 && twice == 0, all), begun, note))
    }
}

fn scene(name: &'static str, (ok, operations): (bool, u64), begun: Instant, note: String) -> Scene {
    Scene { name, ok, operations, took: begun.elapsed(), gap_ms: None, note }
}

/// Plays every scene; `show` hears each as it ends.
///
/// # Errors
/// The code of whatever kept the play from going on; a scene that fails is no error.
pub(crate) async fn play(
    cluster: &mut UbftCluster,
    context: &Context,
    ready: Duration,
    show: &mut dyn FnMut(&Scene),
) -> Result<UbftShown, SynError> {
    let mut scenes: Vec<Scene> = Vec::new();
    let mut add = |scene: Scene| {
        show(&scene);
        scenes.push(scene);
    };
    let told = (0..WRITERS).map(|_| Told::default()).collect();
    let mut play = Play { cluster, context, told };
    let note = format!(
        "{REPLICAS} replicas, one of which may do anything, and {MEMORY} memory nodes, one of which may stop"
    );
    add(Scene { name: "ready", ok: true, operations: 0, took: ready, gap_ms: None, note });

    let begun = Instant::now();
    let wrote = play.write(CALM, |_| {}).await?;
    let per_s = wrote.acked * 1_000 / millis(begun.elapsed()).max(1);
    let note = format!("{WRITERS} writers count up over TLS, a write after the other: {per_s} in a second");
    add(scene("write", (wrote.acked > 0 && wrote.wrong == 0, wrote.acked), begun, note));

    let replicas = usize::from(REPLICAS);
    add(play.kill("memory", replicas + 1, "memory node").await?);
    let leader = play.cluster.leader(context)?;
    let follower = (0..replicas).rev().find(|index| *index != leader).unwrap_or(0);
    add(play.kill("follower", follower, "the follower").await?);
    add(play.recover("recover", "each of both comes back").await?);
    let leader = play.cluster.leader(context)?;
    add(play.kill("leader", leader, "the leader").await?);
    add(play.recover("return", "it comes back").await?);
    add(play.audit().await?);
    let is_sound = scenes.last().is_some_and(|audit| audit.ok);
    Ok(UbftShown { scenes, is_sound })
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn a_count_is_read_from_both_replies() {
        assert_eq!(number(b":17\r\n"), Some(17));
        assert_eq!(number(b"$2\r\n17\r\n"), Some(17));
        assert_eq!(number(b"$-1\r\n"), None);
        assert_eq!(number(b"-ERR no\r\n"), None);
    }
}
