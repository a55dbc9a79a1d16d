//! The driver: gives both machines their events, jobs to the pool, and the broker its answers.

use super::feed::{Replay, Sent};
use super::solo::Solo;
use crate::chop::family::{Members, server_keys};
use crate::host::{Host, Said};
use crate::usage::cpu_of_threads;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, Scope};
use std::time::{Duration, Instant};
use synod_chopchop::certificate::Signers;
use synod_chopchop::config::Cluster;
use synod_chopchop::directory::Directory;
use synod_chopchop::item::Item;
use synod_chopchop::message::{ServerMessage, StoreMessage};
use synod_chopchop::server::{Server, ServerConfig, ServerDone, ServerInput, ServerJob, ServerOutput};
use synod_chopchop::store::{Quota, Store, StoreConfig, StoreDone, StoreJob, StoreParameters, Task};
use synod_chopchop::vocabulary::Message;
use synod_crypto::{Hash, Keys, Signature};
use synod_machine::{Event, Job as _, Never};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{Limits, Wire as _};

const BROKER: NodeId = NodeId(100);
const OWN: NodeId = NodeId(0);
/// Threads for the store's jobs.
const STORE_THREADS: usize = 2;
/// What the broker may ask a store to verify in a second, in signatures of stragglers: more than any store does.
pub const QUOTA_WORK: u64 = 4_000_000;
/// How long nothing may be delivered.
const PATIENCE: Duration = Duration::from_secs(20);

/// What threads do, by the names they have.
pub const ROLES: [(&str, &str); 4] = [
    ("machines", "chop-machines"),
    ("store", "chop-store"),
    ("server", "chop-server"),
    ("load", "chop-load"),
];

/// How a server is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerPlan {
    /// Batches on their way.
    pub window: usize,
    /// Of how many batches this server is asked to witness how many.
    pub share: (u32, u32),
    /// Whether sums of cohorts are kept.
    pub cohorts: bool,
    /// Whether vectors add keys.
    pub vectors: bool,
    /// Most checks that share a multi-pairing.
    pub together: usize,
    /// Time before measuring.
    pub warmup: Duration,
    /// Time measured.
    pub span: Duration,
}

/// What a run gave.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// Batches delivered while the clock ran, and their messages.
    pub batches: u64,
    /// Messages of these batches.
    pub messages: u64,
    /// Of these batches, how many this server witnessed.
    pub witnessed: u64,
    /// The clock.
    pub wall: Duration,
    /// Processor time meanwhile, in the order of [`ROLES`].
    pub cpu: [Duration; ROLES.len()],
    /// Batches sent and delivered in the whole run, warm-up and end included.
    pub sent: u64,
    /// Of them, those delivered once, in order.
    pub delivered: u64,
    /// Messages that were not delivered.
    pub exceptions: u64,
    /// Batches refused, peers blamed, sums that were wrong: none in a sound run.
    pub faults: u64,
    /// Whether the clock stopped before its time, because hardly any batch was left to be sent.
    pub used_up: bool,
}

impl Served {
    /// Whether each message was delivered once and nothing was found wrong.
    #[must_use]
    pub const fn sound(&self) -> bool {
        self.sent > 0 && self.sent == self.delivered && self.exceptions == 0 && self.faults == 0
    }
}

type Jobs = ServerJob<Never>;

/// What the machines' thread is told.
enum Told {
    Sent(Box<Sent>),
    Store(StoreDone),
    Server(Box<ServerDone<Never>>),
}

/// A batch on its way.
struct Open {
    number: u64,
    statement: synod_chopchop::statement::Witness,
    ask: bool,
    shards: Vec<(NodeId, Signature)>,
}

/// Runs one server under the load of `replay` and measures it; what went wrong in words if the server cannot be opened or
/// stops.
///
/// # Errors
/// The reason.
pub fn serve(
    cluster: &Cluster,
    members: &Members,
    replay: &Replay<'_>,
    plan: &ServerPlan,
) -> Result<Served, String> {
    let keys = server_keys(0);
    if !plan.vectors {
        keys.distrust_vectors();
    }
    let (store, server) = machines(cluster, members, plan)?;
    let (tell, told) = channel();
    let (to_store, store_jobs) = channel();
    let (to_server, server_jobs) = channel();
    let (permit, permits) = sync_channel(plan.window);
    let store_jobs = Mutex::new(store_jobs);
    std::thread::scope(|scope| {
        for _ in 0..STORE_THREADS {
            let (jobs, keys, tell) = (&store_jobs, &keys, tell.clone());
            named(scope, "chop-store", move || store_worker(jobs, plan.together, keys, &tell))?;
        }
        let (own, answers) = (&keys, tell.clone());
        named(scope, "chop-server", move || server_worker(&server_jobs, own, &answers))?;
        named(scope, "chop-load", move || load(replay, plan.share, &permits, &tell))?;
        let most = replay.most().unwrap_or(u64::MAX);
        let drive = move || {
            let (books, open) = (Served::default(), BTreeMap::new());
            let mut drive = Drive {
                cluster,
                store,
                server,
                to_store,
                to_server,
                open,
                books,
                height: 1,
                items: BTreeMap::new(),
                next: 1,
            };
            drive.run(&told, permit, plan, most)
        };
        let drive = named(scope, "chop-machines", drive)?;
        drive.join().map_err(|_| "the machines stopped".to_owned())?
    })
}

fn named<'s, 'e, T: Send + 's>(
    scope: &'s Scope<'s, 'e>,
    name: &str,
    work: impl FnOnce() -> T + Send + 's,
) -> Result<std::thread::ScopedJoinHandle<'s, T>, String> {
    Builder::new().name(name.to_owned()).spawn_scoped(scope, work).map_err(|why| why.to_string())
}

fn machines(
    cluster: &Cluster,
    members: &Members,
    plan: &ServerPlan,
) -> Result<(Host<Store>, Host<Server<Solo>>), String> {
    let body = u64::from(cluster.rules().body_bytes_max);
    // What stragglers cost is measured here, and not held back.
    let quota = Quota { bytes: 64 * body, work: QUOTA_WORK, burst: QUOTA_WORK, ..Quota::GENESIS };
    let cohort_bytes = if plan.cohorts { StoreParameters::default().cohort_bytes } else { 0 };
    let usual = StoreParameters::default();
    // One broker uploads all, and may use half of the places: what finds none is not sent again here.
    let places = u32::try_from(2 * plan.window).unwrap_or(u32::MAX).clamp(usual.jobs_max, 256);
    let parameters = StoreParameters { genesis: quota, cohort_bytes, jobs_max: places, ..usual };
    let store =
        StoreConfig::new(cluster.clone(), OWN, vec![BROKER], parameters).map_err(|e| e.to_string())?;
    let store = Host::open(OWN, store.knowing(members.keys.clone()), false).map_err(|e| e.0)?;
    let genesis = Directory::restore(members.view.chunks().to_vec());
    let genesis = genesis.ok_or("the ids of a server's directory are distinct members")?;
    let order = Box::new(|resume| resume);
    let server = ServerConfig::new(cluster.clone(), OWN, 4, genesis, order).map_err(|e| e.to_string())?;
    Ok((store, Host::open(OWN, server, false).map_err(|e| e.0)?))
}

/// Does the store's jobs, up to `together` checks that wait at once.
fn store_worker(jobs: &Mutex<Receiver<StoreJob>>, together: usize, keys: &Keys, tell: &Sender<Told>) {
    loop {
        let mut taken = Vec::new();
        {
            let jobs = jobs.lock().unwrap_or_else(PoisonError::into_inner);
            let Ok(first) = jobs.recv() else { return };
            taken.push(first);
            while taken.len() < together
                && matches!(taken.last(), Some(StoreJob { task: Task::Batch(_), .. }))
            {
                let Ok(next) = jobs.try_recv() else { break };
                taken.push(next);
            }
        }
        for done in StoreJob::run_all(taken, keys) {
            if tell.send(Told::Store(done)).is_err() {
                return;
            }
        }
    }
}

fn server_worker(jobs: &Receiver<Jobs>, keys: &Keys, tell: &Sender<Told>) {
    while let Ok(job) = jobs.recv() {
        if tell.send(Told::Server(Box::new(job.run(keys)))).is_err() {
            return;
        }
    }
}

/// Sends a batch for each permit; every server is asked for its share, evenly.
fn load(replay: &Replay<'_>, (asked, of): (u32, u32), permits: &Receiver<()>, tell: &Sender<Told>) {
    let (asked, of) = (u64::from(asked), u64::from(of.max(1)));
    let mut number = 0_u64;
    while permits.recv().is_ok() {
        number += 1;
        let ask = number * asked / of > (number - 1) * asked / of;
        let Some(sent) = replay.send(number, ask) else { return };
        if tell.send(Told::Sent(Box::new(sent))).is_err() {
            return;
        }
    }
}

/// What the machines' thread has.
struct Drive<'a> {
    cluster: &'a Cluster,
    store: Host<Store>,
    server: Host<Server<Solo>>,
    to_store: Sender<StoreJob>,
    to_server: Sender<Jobs>,
    open: BTreeMap<Hash, Open>,
    books: Served,
    height: u64,
    /// Items that wait for those before them, and the number of the next one: numbers rise in the order, so no client's
    /// message comes too late behind its next one.
    items: BTreeMap<u64, Item>,
    next: u64,
}

impl Drive<'_> {
    /// Serves until the time is over, or so many of the `most` batches are delivered that the window cannot be filled again; of
    /// so few the first quarter warms up, at most.
    fn run(
        &mut self,
        told: &Receiver<Told>,
        permit: SyncSender<()>,
        plan: &ServerPlan,
        most: u64,
    ) -> Result<Served, String> {
        let refill = |count: u64| (0..count).all(|_| permit.try_send(()).is_ok());
        let begin = Instant::now();
        let (mut given, mut moved) = (0_u64, Instant::now());
        let mut from: Option<(Instant, [Duration; ROLES.len()], Served)> = None;
        let window = u64::try_from(plan.window).unwrap_or(u64::MAX);
        let last = most.saturating_sub(window);
        let used_up = loop {
            let delivered = self.books.delivered;
            if from.is_none() && (begin.elapsed() >= plan.warmup || delivered >= last / 4) {
                from = Some((Instant::now(), times(), self.books.clone()));
            }
            let over = from.as_ref().is_some_and(|(from, ..)| from.elapsed() >= plan.span);
            if over || delivered >= last || self.books.faults > 0 {
                break delivered >= last && !over;
            }
            let wanted = (delivered + window).min(most);
            refill(wanted.saturating_sub(given));
            given = given.max(wanted);
            self.moved(told, &mut moved)?;
            if moved.elapsed() > PATIENCE {
                return Err(format!("nothing was delivered for {PATIENCE:?}: {:?}", self.books));
            }
        };
        let measured =
            from.map(|(from, cpu, books)| (from.elapsed(), cpu, times(), books, self.books.clone()));
        drop(permit);
        // What is on its way arrives; only then each batch can be accounted for. Behind one that was refused nothing does.
        moved = Instant::now();
        while self.books.delivered < given && self.books.faults == 0 && moved.elapsed() < PATIENCE {
            self.moved(told, &mut moved)?;
        }
        let mut books = self.books.clone();
        (books.sent, books.used_up) = (given, used_up);
        books.faults += self.store.blamed + self.server.blamed;
        if let Some((wall, cpu, until, before, after)) = measured {
            books.wall = wall;
            books.cpu = std::array::from_fn(|role| until[role].saturating_sub(cpu[role]));
            books.batches = after.batches - before.batches;
            books.messages = after.messages - before.messages;
            books.witnessed = after.witnessed - before.witnessed;
        }
        Ok(books)
    }

    /// Takes what comes next, and notes when a batch was delivered by it.
    fn moved(&mut self, told: &Receiver<Told>, moved: &mut Instant) -> Result<(), String> {
        let before = self.books.delivered;
        self.turn(told)?;
        if self.books.delivered > before {
            *moved = Instant::now();
        }
        Ok(())
    }

    /// Takes what comes next, and lets both machines act on it.
    fn turn(&mut self, told: &Receiver<Told>) -> Result<(), String> {
        match told.recv_timeout(Duration::from_millis(20)) {
            Ok(Told::Sent(sent)) => self.on_sent(*sent)?,
            Ok(Told::Store(done)) => self.on_store_done(done),
            Ok(Told::Server(done)) => self.server.push(Event::Done(*done)),
            Err(RecvTimeoutError::Timeout) => {
                self.store.fire();
                self.server.fire();
            }
            Err(RecvTimeoutError::Disconnected) => return Err("the load stopped".to_owned()),
        }
        self.settle();
        Ok(())
    }

    fn on_sent(&mut self, sent: Sent) -> Result<(), String> {
        let message = Message::<Never>::decode(sent.frame.clone(), &Limits::default());
        let message = message.map_err(|why| format!("what is sent cannot be read: {why:?}"))?;
        self.store.push(Event::Message { from: BROKER, message });
        let Sent { number, statement, ask, shards, .. } = sent;
        self.open.insert(statement.digest, Open { number, statement, ask, shards });
        Ok(())
    }

    fn on_store_done(&mut self, done: StoreDone) {
        let here = match &done {
            StoreDone::Digested { digest, .. } => Some(*digest),
            StoreDone::Checked { mismatch, .. } => {
                self.books.faults += u64::from(*mismatch);
                None
            }
            StoreDone::Shard(_) | StoreDone::Keys { .. } => None,
        };
        self.store.push(Event::Done(done));
        // A batch that this server is not asked to witness is ordered as soon as it is here.
        if let Some(digest) = here.filter(|digest| self.open.get(digest).is_some_and(|open| !open.ask)) {
            self.order(&digest);
        }
    }

    fn order(&mut self, digest: &Hash) {
        let Some(open) = self.open.get_mut(digest) else { return };
        open.shards.sort_by_key(|(id, _)| id.0);
        let set: NodeSet = open.shards.iter().map(|(id, _)| *id).collect();
        let shards = open.shards.iter().map(|(_, shard)| *shard).collect();
        let signers = Signers::new(set, self.cluster.roster().size());
        let item = signers.and_then(|signers| Item::new(open.statement.clone(), signers, shards));
        match item {
            Some(item) => drop(self.items.insert(open.number, item)),
            None => self.books.faults += 1,
        }
        while let Some(item) = self.items.remove(&self.next) {
            let message = ServerMessage::Order(item).into();
            self.server.push(Event::Message { from: BROKER, message });
            self.next += 1;
        }
    }

    /// Steps both machines until neither has anything to do.
    fn settle(&mut self) {
        loop {
            let (mut to_server, mut witnessed, mut refused) = (Vec::new(), Vec::new(), 0);
            let jobs = &self.to_store;
            self.store.run(|said| match said {
                Said::Output(output) => to_server.push(output),
                Said::Job(job) => drop(jobs.send(job)),
                Said::Send(_, Message::Store(StoreMessage::Shard(shard))) => witnessed.push(shard),
                Said::Send(_, Message::Store(StoreMessage::Refuse(_))) => refused += 1,
                Said::Send(..) => {}
            });
            self.books.faults += refused;
            for shard in witnessed {
                if let Some(open) = self.open.get_mut(&shard.digest) {
                    open.shards.push((OWN, shard.signature));
                    self.order(&shard.digest);
                }
            }
            for output in to_server {
                self.server.push(Event::Input(ServerInput::Store(output)));
            }
            if !self.step_server() {
                return;
            }
        }
    }

    /// Steps the server; whether it told the store something.
    fn step_server(&mut self) -> bool {
        let (mut to_store, mut verdicts, mut applied, mut false_witness) =
            (Vec::new(), Vec::new(), Vec::new(), 0);
        let (jobs, mut executed) = (&self.to_server, None);
        self.server.run(|said| match said {
            Said::Output(ServerOutput::Store(input)) => to_store.push(input),
            Said::Output(ServerOutput::Checkpoint { position, height, .. }) => {
                applied.push((position, height))
            }
            Said::Output(ServerOutput::Apply(apply)) => {
                executed = apply.awaited.then_some(apply.height).or(executed);
            }
            Said::Output(ServerOutput::Jump { .. } | ServerOutput::FalseWitness { .. }) => false_witness += 1,
            Said::Job(job) => drop(jobs.send(job)),
            Said::Send(_, Message::Server(ServerMessage::Delivered(verdict))) => verdicts.push(verdict),
            Said::Send(..) => {}
        });
        self.books.faults += false_witness;
        verdicts.iter().for_each(|verdict| self.on_verdict(verdict));
        let moved = !to_store.is_empty() || !applied.is_empty() || executed.is_some();
        to_store.into_iter().for_each(|input| self.store.push(Event::Input(input)));
        if let Some(height) = executed {
            self.server.push(Event::Input(ServerInput::Executed { height }));
        }
        for (position, height) in applied {
            let root = Hash::of(&height.to_le_bytes());
            self.server.push(Event::Input(ServerInput::Applied { position, root }));
        }
        moved
    }

    /// The server says that a batch is delivered: once, at the next height.
    fn on_verdict(&mut self, verdict: &synod_chopchop::message::Verdict) {
        let statement = &verdict.statement;
        self.height += 1;
        match self.open.remove(&statement.digest) {
            Some(open) if statement.height == self.height => {
                self.books.batches += 1;
                self.books.delivered += 1;
                self.books.messages += u64::from(open.statement.count - statement.exc_count);
                self.books.exceptions += u64::from(statement.exc_count);
                self.books.witnessed += u64::from(open.ask);
            }
            Some(_) | None => self.books.faults += 1,
        }
    }
}

/// Processor time of the named threads, by role.
fn times() -> [Duration; ROLES.len()] {
    let all = cpu_of_threads(&ROLES.map(|(_, thread)| thread));
    std::array::from_fn(|role| all.get(role).copied().unwrap_or_default())
}

#[cfg(test)]
mod tests;
