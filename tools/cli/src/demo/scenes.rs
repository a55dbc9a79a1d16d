//! The scenes, each with a sentence that says when it passes.

use super::cluster::Cluster;
use super::redis::Redis;
use crate::bench::{Audit, are_settled, audit_mark, settled};
use crate::chaos::{Lane, Load, Phase, Timeline};
use crate::exit::bug;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use synod_config::{SynError, code};

/// Keys of the scene `kv`.
const KEYS: usize = 2_000;
/// Commands of a pipeline.
const CHUNK: usize = 100;
/// The counter that each pipeline of commands counts up once.
const COUNTER: &[u8] = b"demo:count";
/// How long the leader leads under load before it is stopped, and how long the load goes on after that.
const LOADED: Duration = Duration::from_secs(1);
const LEADERLESS: Duration = Duration::from_secs(2);
/// How long a liar may stay unnamed, a member may take to come back, and members may differ: what a slow and busy machine
/// needs.
const PATIENCE: Duration = Duration::from_secs(90);

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

/// What the play was told about its writes. Others may write meanwhile: nothing is concluded from their keys.
struct Told {
    /// What each key must hold.
    values: Vec<String>,
    /// The counter, and the counters of the load.
    counts: Lane,
    load: Lane,
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
    let mut told = Told { values: vec![String::new(); KEYS], counts: Lane::default(), load: Lane::default() };
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
    add(recover(cluster, victim).await?);
    let begun = Instant::now();
    let operations = told.load.acked + told.counts.acked + KEYS as u64;
    let audit = judge(cluster, told).await?;
    let note = format!(
        "{} lost, {} duplicated, {} keys equal at {} members",
        audit.lost, audit.duplicated, audit.keys, audit.members
    );
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
    let count = vec![b"INCR".to_vec(), COUNTER.to_vec()];
    let mut right = true;
    let keys: Vec<usize> = keys.collect();
    for chunk in keys.chunks(CHUNK) {
        for key in chunk {
            told.values[*key] = format!("{salt}{key}");
        }
        let sets = chunk.iter().map(|key| set(*key, &told.values[*key]));
        let writes: Vec<_> = sets.chain([count.clone()]).collect();
        let mut done = redis.pipeline(&writes).await.map_err(|e| bug("proxy", &e))?;
        match done.pop().as_deref() {
            Some([b':', ..]) => told.counts.acked += 1,
            _ => told.counts.unknown += 1,
        }
        right &= done.iter().all(|reply| reply == b"+OK") && holds(&mut redis, chunk, told).await? == 0;
    }
    Ok(right)
}

/// How many of these keys do not hold what they must. A read that the proxy has no answer to is asked again.
async fn holds(redis: &mut Redis, keys: &[usize], told: &Told) -> Result<u64, SynError> {
    let deadline = Instant::now() + PATIENCE;
    let mut wrong = 0;
    for chunk in keys.chunks(CHUNK) {
        let gets: Vec<_> = chunk.iter().map(|key| get(*key)).collect();
        let values = loop {
            let values = redis.pipeline(&gets).await.map_err(|e| bug("proxy", &e))?;
            if Instant::now() > deadline || !values.iter().any(|value| value.starts_with(b"-")) {
                break values;
            }
        };
        let differs = |(key, value): &(&usize, &Vec<u8>)| **value != told.values[**key].as_bytes();
        wrong += chunk.iter().zip(&values).filter(differs).count() as u64;
    }
    Ok(wrong)
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
    let named = || {
        let faults = cluster.client.watch().look().faults;
        faults.keys().any(|(peer, _)| usize::try_from(*peer) == Ok(liar))
    };
    // A liar that is behind the others is heard, and named, later.
    while !named() && begun.elapsed() < PATIENCE {
        mark(cluster).await?;
    }
    let named = named();
    cluster.lie(liar, false);
    let note = format!("{} answers wrongly: every value right, liar named: {named}", cluster.name(liar));
    let ok = right && named;
    Ok(Scene { name: "lie", ok, operations: 800, took: begun.elapsed(), gap_ms: None, note })
}

async fn kill(cluster: &mut Cluster, told: &mut Told) -> Result<(Scene, usize), SynError> {
    let begun = Instant::now();
    let timeline = Arc::new(Timeline::new(begun));
    let load = Load::start(&cluster.genesis, timeline.clone())?;
    tokio::time::sleep(LOADED).await;
    let victim = cluster.leader().unwrap_or(0);
    timeline.enter(Phase::Kill);
    cluster.remove(victim).await?;
    tokio::time::sleep(LEADERLESS).await;
    let done = tokio::task::spawn_blocking(move || load.finish()).await;
    told.load = done.map_err(|error| bug("load", &error))??.lane;
    let gaps = timeline.finish(Instant::now());
    let gap = gaps.get(&Phase::Kill).and_then(|gaps| gaps.iter().max()).copied().map_or(0, millis);
    let note =
        format!("{}, the leader, stopped under load: {gap} ms without an answer", cluster.name(victim));
    let (operations, ok) = (told.load.acked, told.load.acked > 0 && told.load.unknown == 0);
    let scene = Scene { name: "kill", ok, operations, took: begun.elapsed(), gap_ms: Some(gap), note };
    Ok((scene, victim))
}

async fn recover(cluster: &mut Cluster, victim: usize) -> Result<Scene, SynError> {
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
        }
    }
    let note = format!("{} is back from its journal and at the newest block", cluster.name(victim));
    Ok(Scene { name: "recover", ok: caught_up, operations: 0, took: begun.elapsed(), gap_ms: None, note })
}

async fn judge(cluster: &Cluster, mut told: Told) -> Result<Audit, SynError> {
    let mut redis = Redis::connect(cluster.proxy).await.map_err(|e| bug("proxy", &e))?;
    let keys: Vec<usize> = (0..KEYS).collect();
    let wrong = holds(&mut redis, &keys, &told).await?;
    let count = redis.pipeline(&[vec![b"GET".to_vec(), COUNTER.to_vec()]]).await;
    let count = count.map_err(|e| bug("proxy", &e))?.pop().unwrap_or_default();
    told.counts.close(std::str::from_utf8(&count).ok().and_then(|text| text.parse().ok()).unwrap_or(0));
    let addresses = crate::context::client_addresses(&cluster.genesis);
    let states = settled(&cluster.genesis, &addresses, PATIENCE).await?;
    let equal = addresses.len() == cluster.size() && are_settled(&states, addresses.len());
    let keys = states.first().map_or(0, |(_, keys)| *keys);
    Ok(Audit {
        lost: wrong + told.counts.lost + told.load.lost,
        duplicated: told.counts.duplicated + told.load.duplicated,
        wrong_reads: None,
        state_hash_equal: equal,
        members: states.len(),
        keys,
    })
}
