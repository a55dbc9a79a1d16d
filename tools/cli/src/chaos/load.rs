//! The load: lanes that count their own keys up, in a thread of their own.

use super::ledger::{Lane, steps};
use super::timeline::Timeline;
use crate::context::client_addresses;
use crate::exit::bug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use synod_config::{Genesis, SynError, code};
use synod_host::{Backend, Call, ClientSetup, ClusterClient, Mode, Operation, Outcome};
use synod_kv::Verb;
use synod_kv::operation::write_command;
use synod_quorum::NodeId;
use tokio::sync::oneshot;

/// Sessions.
const CLIENTS: usize = 4;
/// Lanes of a session.
const LANES: usize = 4;
/// Increments of a call.
const BATCH: usize = 8;
/// Calls between two reads.
const READ_EVERY: u64 = 4;
/// Deadline of a call.
const DEADLINE: Duration = Duration::from_secs(30);
/// Bytes of a piece that is appended.
const PIECE: u64 = 64;
/// What is appended.
const FILLING: [u8; 64] = [b'.'; 64];
/// Pieces of a key.
const PIECES: u64 = 512;
/// The lane that appends.
const APPENDS: usize = 1_000;
/// How often a number that all depends on is asked for.
const ASKED: u32 = 5;
/// Pause after a call of which everything was refused.
const REFUSED: Duration = Duration::from_millis(20);

/// A load that runs.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Result<Done, SynError>>,
}

/// What a load was told.
pub(crate) struct Done {
    /// All lanes, closed with their counters.
    pub(crate) lane: Lane,
    /// Bytes that were appended and acknowledged.
    pub(crate) bytes_acked: u64,
    /// Those of them that are not there.
    pub(crate) bytes_lost: u64,
    /// Members that contradicted an accepted result, and what they did, with the number of times.
    pub(crate) blamed: Vec<(u32, &'static str, u64)>,
}

impl Load {
    /// Starts the load against all members.
    ///
    /// # Errors
    /// SYN-9001 if the system gives no thread.
    pub(crate) fn start(genesis: &Genesis, timeline: Arc<Timeline>) -> Result<Self, SynError> {
        let stop = Arc::new(AtomicBool::new(false));
        let (genesis, stopped) = (genesis.clone(), stop.clone());
        let work = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map_err(|error| bug("runtime", &error))?.block_on(drive(&genesis, &timeline, &stopped))
        };
        let thread = std::thread::Builder::new().name("chaos-load".to_owned()).spawn(work);
        Ok(Self { stop, thread: thread.map_err(|error| bug("load", &error))? })
    }

    /// Stops the load, waits for what is in flight and compares every counter with what its lane was told.
    ///
    /// # Errors
    /// SYN-3401 if a counter cannot be read.
    pub(crate) fn finish(self) -> Result<Done, SynError> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| bug("load", &"its thread panicked"))?
    }
}

async fn drive(
    genesis: &Genesis,
    timeline: &Arc<Timeline>,
    stop: &Arc<AtomicBool>,
) -> Result<Done, SynError> {
    let clients = (0..CLIENTS).map(|at| connect(genesis, at)).collect::<Result<Vec<_>, _>>()?;
    let mut tasks = Vec::new();
    for (lane, client) in (0..LANES).flat_map(|_| &clients).enumerate() {
        let work = count(client.clone(), lane, timeline.clone(), stop.clone());
        tasks.push(tokio::spawn(work));
    }
    let appending = tokio::spawn(append(clients[0].clone(), stop.clone()));
    let mut lanes = Vec::new();
    for task in tasks {
        lanes.push(task.await.map_err(|error| bug("lane", &error))?);
    }
    let mut all = Lane::default();
    for (number, mut lane) in lanes.into_iter().enumerate() {
        lane.close(read(&clients[number % CLIENTS], "GET", &key(number)).await?);
        all.add(&lane);
    }
    let appended = appending.await.map_err(|error| bug("lane", &error))??;
    all.add(&appended);
    let mut blamed = std::collections::BTreeMap::new();
    for client in &clients {
        for ((member, fault), times) in client.watch().look().faults {
            *blamed.entry((member, fault)).or_insert(0) += times;
        }
    }
    let blamed = blamed.into_iter().map(|((member, fault), times)| (member, fault, times)).collect();
    let (bytes_acked, bytes_lost) = (appended.acked * PIECE, appended.lost * PIECE);
    Ok(Done { lane: all, bytes_acked, bytes_lost, blamed })
}

pub(super) fn connect(genesis: &Genesis, at: usize) -> Result<Arc<ClusterClient>, SynError> {
    let members = genesis.members().len().max(1);
    let setup = ClientSetup {
        genesis: genesis.clone(),
        addresses: client_addresses(genesis),
        send_all: false,
        trust: "verified",
        nearest: NodeId(u32::try_from(at % members).unwrap_or(0)),
        sessions: 1,
        believe: None,
    };
    ClusterClient::connect(&setup).map(Arc::new)
}

/// The key of a lane.
fn key(lane: usize) -> String {
    format!("chaos:{lane}")
}

pub(super) fn operation(verb: &str, key: &str, mode: Mode) -> Operation {
    command(verb, &[key.as_bytes()], mode)
}

pub(super) fn command(verb: &str, words: &[&[u8]], mode: Mode) -> Operation {
    let verb = Verb::find(verb.as_bytes()).expect("the store has the verbs of this load");
    let mut body = Vec::new();
    write_command(verb, words.iter().copied(), &mut body);
    Operation { body: body.into(), mode }
}

pub(super) async fn ask(client: &ClusterClient, lane: usize, operations: Vec<Operation>) -> Vec<Outcome> {
    let (reply, answer) = oneshot::channel();
    let count = operations.len();
    client.call(Call { lane: lane as u64, operations, deadline: DEADLINE, reply });
    answer.await.unwrap_or_else(|_| vec![Outcome::Unknown(None); count])
}

/// One lane: counts up until `stop`.
async fn count(
    client: Arc<ClusterClient>,
    number: usize,
    timeline: Arc<Timeline>,
    stop: Arc<AtomicBool>,
) -> Lane {
    let mut lane = Lane::default();
    let mut calls = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        let increments = (0..BATCH).map(|_| operation("INCR", &key(number), Mode::Ordered)).collect();
        let outcomes = ask(&client, number, increments).await;
        outcomes.iter().for_each(|outcome| lane.incremented(outcome));
        if outcomes.iter().any(|outcome| matches!(outcome, Outcome::Accepted { .. })) {
            timeline.acknowledged(Instant::now());
        } else {
            tokio::time::sleep(REFUSED).await;
        }
        calls += 1;
        if calls.is_multiple_of(READ_EVERY) {
            let read = ask(&client, number, vec![operation("GET", &key(number), Mode::Quorum)]).await;
            read.iter().for_each(|outcome| lane.read(outcome));
        }
    }
    lane
}

/// Appends pieces to one key after the other until `stop`; a key is compared with what was told once it is full.
async fn append(client: Arc<ClusterClient>, stop: Arc<AtomicBool>) -> Result<Lane, SynError> {
    let mut all = Lane::default();
    for number in 0_u64.. {
        let mut lane = Lane::default();
        let key = format!("chaos:bytes:{number}");
        while lane.acked + lane.unknown < PIECES && !stop.load(Ordering::Relaxed) {
            let write = command("APPEND", &[key.as_bytes(), &FILLING], Mode::Ordered);
            let outcomes = ask(&client, APPENDS, vec![write]).await;
            outcomes.iter().for_each(|outcome| lane.stepped(outcome, PIECE));
            tokio::time::sleep(REFUSED).await;
        }
        lane.close(read(&client, "STRLEN", &key).await? / PIECE);
        all.add(&lane);
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(all)
}

/// A number that stands in the store, in its order.
async fn read(client: &ClusterClient, verb: &str, key: &str) -> Result<u64, SynError> {
    let mut last = None;
    for _ in 0..ASKED {
        last = ask(client, APPENDS, vec![operation(verb, key, Mode::Ordered)]).await.pop();
        if let Some(Outcome::Accepted { value, .. }) = &last {
            if let Some(number) = steps(value, 1) {
                return Ok(number);
            }
            break;
        }
        tokio::time::sleep(REFUSED).await;
    }
    Err(SynError::of(code::NO_QUORUM, &[("names", "the audit's read")]).because(format!("{last:?}")))
}
