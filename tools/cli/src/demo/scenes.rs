//! The scenes, each with a sentence that says when it passes.

use super::cluster::Cluster;
use super::redis::Redis;
use crate::bench::{Audit, are_settled, audit_mark, settled};
use crate::exit::bug;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use synod_config::{SynError, code};
use synod_host::Backend;
use synod_load::{Closed, Kv, KvOperation, Measured, Tally, closed};

/// Keys of the scene `kv`.
const KEYS: usize = 2_000;
/// How long a member may take to come back.
const PATIENCE: Duration = Duration::from_secs(15);

/// What a scene showed.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) name: &'static str,
    pub(crate) ok: bool,
    pub(crate) operations: u64,
    pub(crate) took: Duration,
    pub(crate) gap_ms: Option<u64>,
    pub(crate) note: String,
}

impl Scene {
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "name": self.name, "ok": self.ok, "ops": self.operations, "ms": millis(self.took),
            "gap_ms": self.gap_ms, "note": self.note,
        })
    }
}

pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// What the play added to the state.
#[derive(Default)]
struct Told {
    tally: Tally,
}

/// Plays every scene; `show` hears each as it ends. The audit comes back with the scenes.
///
/// # Errors
/// The code of whatever kept the play from going on; a scene that fails is no error.
pub(crate) async fn play(
    cluster: &mut Cluster,
    ready: Duration,
    show: &mut dyn FnMut(&Scene),
) -> Result<(Vec<Scene>, Audit), SynError> {
    let mut scenes = Vec::new();
    let mut told = Told::default();
    let before = mark(cluster).await?;
    let mut add = |scene: Scene| {
        show(&scene);
        scenes.push(scene);
    };
    let note = format!("{} members over TLS, one may do anything", cluster.size());
    add(Scene { name: "ready", ok: true, operations: 1, took: ready, gap_ms: None, note });
    add(kv(cluster, &mut told).await?);
    add(lie(cluster, &mut told).await?);
    let (scene, victim) = kill(cluster, &mut told).await?;
    add(scene);
    add(recover(cluster, victim, &mut told).await?);
    let begun = Instant::now();
    let after = mark(cluster).await?;
    let audit = judge(cluster, after.saturating_sub(before).saturating_sub(1), told.tally).await?;
    let note = format!(
        "{} lost, {} duplicated, {} keys equal at {} members",
        audit.lost, audit.duplicated, audit.keys, audit.members
    );
    let operations = told.tally.accepted;
    add(Scene { name: "audit", ok: audit.ok(), operations, took: begun.elapsed(), gap_ms: None, note });
    Ok((scenes, audit))
}

async fn mark(cluster: &Cluster) -> Result<u64, SynError> {
    let stuck = || SynError::of(code::NO_QUORUM, &[("names", "the demo's members")]);
    audit_mark(&cluster.client).await.ok_or_else(stuck)
}

fn set(key: usize, value: &str) -> Vec<Vec<u8>> {
    vec![b"SET".to_vec(), format!("demo:{key}").into_bytes(), value.as_bytes().to_vec()]
}

fn get(key: usize) -> Vec<Vec<u8>> {
    vec![b"GET".to_vec(), format!("demo:{key}").into_bytes()]
}

/// Writes and reads back through the proxy; whether every value was right.
async fn round(
    cluster: &Cluster,
    keys: std::ops::Range<usize>,
    salt: &str,
    told: &mut Told,
) -> Result<bool, SynError> {
    let mut redis = Redis::connect(cluster.proxy).await.map_err(|e| bug("proxy", &e))?;
    let mut right = true;
    let keys: Vec<usize> = keys.collect();
    for chunk in keys.chunks(100) {
        let sets: Vec<_> = chunk.iter().map(|key| set(*key, &format!("{salt}{key}"))).collect();
        let gets: Vec<_> = chunk.iter().map(|key| get(*key)).collect();
        let done = redis.pipeline(&sets).await.map_err(|e| bug("proxy", &e))?;
        told.tally.accepted += done.iter().filter(|reply| reply.as_slice() == b"+OK").count() as u64;
        let unknown = done.iter().filter(|reply| reply.starts_with(b"-UNKNOWN")).count() as u64;
        told.tally.unknown += unknown;
        let values = redis.pipeline(&gets).await.map_err(|e| bug("proxy", &e))?;
        right &= unknown == 0
            && chunk.iter().zip(&values).all(|(key, value)| value == format!("{salt}{key}").as_bytes());
    }
    Ok(right)
}

async fn kv(cluster: &Cluster, told: &mut Told) -> Result<Scene, SynError> {
    let begun = Instant::now();
    let ok = round(cluster, 0..KEYS, "v", told).await?;
    let note = format!("{KEYS} SET and GET through a proxy that believes nobody");
    Ok(Scene { name: "kv", ok, operations: 2 * KEYS as u64, took: begun.elapsed(), gap_ms: None, note })
}

async fn lie(cluster: &Cluster, told: &mut Told) -> Result<Scene, SynError> {
    let begun = Instant::now();
    let leader = cluster.leader().unwrap_or(0);
    let liar = (leader + 1) % cluster.size();
    cluster.lie(liar, true);
    let right = round(cluster, 0..400, "w", told).await?;
    cluster.lie(liar, false);
    let faults = cluster.client.watch().look().faults;
    let named = faults.keys().any(|(peer, _)| usize::try_from(*peer) == Ok(liar));
    let note = format!("{} answers wrongly: every value right, liar named: {named}", cluster.name(liar));
    let ok = right && named;
    Ok(Scene { name: "lie", ok, operations: 800, took: begun.elapsed(), gap_ms: None, note })
}

async fn kill(cluster: &mut Cluster, told: &mut Told) -> Result<(Scene, usize), SynError> {
    let begun = Instant::now();
    let plan = Closed {
        lanes: 4,
        inflight: 32,
        batch: 8,
        warmup: Duration::ZERO,
        measure: Duration::from_secs(3),
        deadline: Duration::from_secs(10),
    };
    let backend: Arc<dyn Backend> = cluster.client.clone();
    let load = Kv { what: KvOperation::Set, keys: 1_000, size: 64, read: synod_host::Mode::Quorum };
    let task = tokio::spawn(async move { closed(&[backend], Arc::new(load), plan).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let victim = cluster.leader().unwrap_or(0);
    cluster.remove(victim).await?;
    let measured: Measured = task.await.map_err(|e| bug("load", &e))?;
    told.tally.add(measured.whole);
    let gap = millis(measured.gap);
    let note =
        format!("{}, the leader, stopped under load: {gap} ms without an answer", cluster.name(victim));
    let ok = measured.whole.accepted > 0 && measured.whole.unknown == 0;
    let operations = measured.whole.accepted;
    let scene = Scene { name: "kill", ok, operations, took: begun.elapsed(), gap_ms: Some(gap), note };
    Ok((scene, victim))
}

async fn recover(cluster: &mut Cluster, victim: usize, told: &mut Told) -> Result<Scene, SynError> {
    let begun = Instant::now();
    cluster.launch(victim).await?;
    let other = (victim + 1) % cluster.size();
    let mut caught_up = false;
    while !caught_up && begun.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let (own, theirs) = (cluster.look(victim), cluster.look(other));
        caught_up = matches!((own, theirs), (Some(a), Some(b)) if a.height > 0 && a.height >= b.height);
        if !caught_up {
            // Something to order, so that a member that waits hears of the newest block.
            mark(cluster).await?;
            told.tally.accepted += 1;
        }
    }
    let note = format!("{} is back from its journal and at the newest block", cluster.name(victim));
    Ok(Scene { name: "recover", ok: caught_up, operations: 0, took: begun.elapsed(), gap_ms: None, note })
}

async fn judge(cluster: &Cluster, changes: u64, tally: Tally) -> Result<Audit, SynError> {
    let (lost, duplicated) = Audit::count(changes, tally);
    let addresses = crate::context::client_addresses(&cluster.genesis);
    let states = settled(&cluster.genesis, &addresses, PATIENCE).await?;
    let equal = addresses.len() == cluster.size() && are_settled(&states, addresses.len());
    let keys = states.first().map_or(0, |(_, keys)| *keys);
    Ok(Audit { lost, duplicated, state_hash_equal: equal, members: states.len(), keys })
}
