//! Who stands where: the replicas or the server at one poller, the client at another, registers in this process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use synod_config::{SynError, code};
use synod_crypto::{Hash, Keys, Seed};
use synod_flip::Flip;
use synod_host::ubft::Applied;
use synod_kv::{Kv, Verb, operation};
use synod_machine::host::{Host, HostConfig, Hosted, LaneLog};
use synod_machine::{Condition, QueueSpec, Recover, Rule, Span, Unrecoverable};
use synod_quorum::{Epoch, Member, NodeId, Roster};
use synod_service::App as Application;
use synod_shm::{
    Builder, Crypto, Deliveries, Door, Doorbell, Hosting, Memory as At, Observer, Regions, RegionsConfig,
    RegistersConfig, Rest, Ropes, Running, Silent, Station, Tenant, introduce, poller,
};
use synod_ubft::batch::View;
use synod_ubft::client::{Client, ClientConfig, Output};
use synod_ubft::replica::{Output as Told, Replica, ReplicaConfig};
use synod_ubft::sessions::SessionLimits;
use synod_ubft::{Config, Memory, Parameters};
use synod_wire::Bytes;

use super::alone::{Alone, Asker, Speaks};
use super::caller::{Caller, Pair, Taken};
use super::plan::{App, System, UbftBench};
use super::run::refused;
use crate::exit::bug;

const REPLICAS: u32 = 3;
const MEMORY: u32 = 3;
/// The client, as it calls itself and as replicas call it.
const CLIENT: NodeId = NodeId::GUESTS;
/// Memory nodes, as replicas call them.
const FIRST_MEMORY: u32 = NodeId::GUESTS.0 + 64;
/// How long a run may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// Counts slots that were decided by signatures.
#[derive(Default)]
struct Signed(AtomicU64);

impl Observer for Signed {
    fn applied(&self, _: u8, rule: Rule) {
        if rule.name == "A2.41_decide_slow" {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn keys(id: u32) -> Keys {
    Keys::ed25519(&seed(id), [7; 32])
}

fn seed(id: u32) -> Seed {
    Seed::new([u8::try_from(id % 200).unwrap_or(0).saturating_add(1); 32])
}

fn config(plan: &UbftBench, me: NodeId) -> Result<Config, SynError> {
    let member = |id| Member { key: keys(id).public(), power: 1 };
    let roster = Roster::new(Epoch(0), (0..REPLICAS).map(member).collect());
    let memory = |at| Memory { node: NodeId(FIRST_MEMORY + at), boot: 1 };
    Ok(Config {
        cluster: Hash::of(b"bench ubft"),
        epoch: Epoch(0),
        me,
        roster: Arc::new(roster.map_err(|error| bug("roster", &error))?),
        first_view: View(0),
        memory: (0..MEMORY).map(memory).collect(),
        parameters: Parameters { tail: plan.tail, window: plan.window, ..Parameters::default() },
    })
}

/// Sessions of one client: rings of replicas and of the client are equally deep.
fn sessions() -> SessionLimits {
    SessionLimits { sessions_max: 1, ..SessionLimits::default() }
}

fn host(own: NodeId) -> HostConfig {
    HostConfig { own, machine: 0, seed: u64::from(own.0), jobs_max: 256, checked: cfg!(debug_assertions) }
}

const fn fresh() -> LaneLog {
    LaneLog { condition: Condition::Fresh, records: Vec::new() }
}

fn made(why: &Unrecoverable) -> SynError {
    bug("a machine of the benchmark", why)
}

/// The registers of this process, behind doors in a folder of their own.
struct Nodes {
    _all: Vec<Regions>,
    folder: PathBuf,
    tail: u32,
}

impl Nodes {
    fn start(tail: u32) -> Result<Self, SynError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("synod-bench-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).map_err(|error| crate::cluster::unwritable(&folder, &error))?;
        let mut nodes = Self { _all: Vec::new(), folder, tail };
        for at in 0..MEMORY {
            let uids = vec![synod_shm::hand::own_user(); 3];
            let config = RegionsConfig { uids, faulty: 1, registers: 2 * tail, tail, boot: 1 };
            let door = Door::bind(&door(&nodes.folder, at)).map_err(|error| refused(&error))?;
            nodes._all.push(Regions::start(config, door).map_err(|error| refused(&error))?);
        }
        Ok(nodes)
    }

    fn join(&self, station: &mut Station, me: u8) -> Result<(), SynError> {
        let measures = (2 * self.tail, self.tail);
        for at in 0..MEMORY {
            let uid = synod_shm::hand::own_user();
            let tenant = Tenant::connect(&door(&self.folder, at), uid, me, measures);
            let config = RegistersConfig {
                me,
                members: 3,
                registers: measures.0,
                tail: self.tail,
                cooldown: Span::millis(1),
                boot: 0,
            };
            let registers = tenant.and_then(|tenant| tenant.registers(config, Epoch(0)));
            let registers = At::Joined(Box::new(registers.map_err(|error| refused(&error))?));
            if !station.memory(0, NodeId(FIRST_MEMORY + at), registers) {
                return Err(bug("registers", &"they do not fit the machine"));
            }
        }
        Ok(())
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        // It is this run's own; if it stays it harms nobody.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn door(folder: &Path, at: u32) -> PathBuf {
    folder.join(at.to_string())
}

fn application(app: App) -> Box<dyn Application> {
    match app {
        App::Flip => Box::new(Flip::default()),
        App::Kv => Box::new(Kv::new(synod_kv::Config::default())),
    }
}

/// Requests of a size with what they are answered with.
fn pairs(app: App, size: u32) -> Box<dyn Fn(u64) -> Pair + Send + Sync> {
    let size = usize::try_from(size).unwrap_or(32).max(8);
    match app {
        App::Flip => Box::new(move |number| {
            let mut body = vec![7_u8; size];
            body[..8].copy_from_slice(&number.to_le_bytes());
            let reversed: Vec<u8> = body.iter().rev().copied().collect();
            (body.into(), reversed.into())
        }),
        App::Kv => Box::new(move |number| {
            let (key, value) = (format!("key{:013}", number % 1_000), vec![b'v'; size]);
            let mut body = Vec::new();
            if let Some(set) = Verb::find(b"SET") {
                operation::write_command(set, [key.as_bytes(), &value].into_iter(), &mut body);
            }
            (body.into(), Bytes::from_static(b"+OK\r\n"))
        }),
    }
}

/// A replica whose application is executed by its connector.
fn replica<P: Application + 'static>(
    settings: ReplicaConfig,
    app: P,
    bell: &Ropes,
    observer: Arc<dyn Observer>,
) -> Result<Station, SynError> {
    let me = settings.config.me;
    let hosted = Host::<Replica>::open(host(me), settings, fresh()).map_err(|why| made(&why))?;
    let applied = Applied::new(app, Bytes::new());
    let connector = move |_: u8, output: Box<dyn core::any::Any + Send>, deliveries: &mut Deliveries<'_>| {
        if let Ok(output) = output.downcast::<Told>()
            && let Ok(Some(input)) = applied.answer(*output)
        {
            deliveries.input(0, input);
        }
    };
    let builder = Builder::new(me)
        .machine(Hosting::new(0, Box::new(hosted)))
        .crypto(Crypto::inline(keys(me.0)))
        .connector(connector)
        .observer(observer)
        .for_guests(&[0]);
    builder.build(bell).map(|(station, _)| station).map_err(|error| refused(&error))
}

/// All replicas, with their registers.
fn replicas(
    plan: &UbftBench,
    app: App,
    bell: &Ropes,
    signed: &Arc<Signed>,
    nodes: &Nodes,
) -> Result<Vec<Station>, SynError> {
    let mut stations = Vec::new();
    for me in 0..REPLICAS {
        let settings = ReplicaConfig {
            config: config(plan, NodeId(me))?,
            sessions: sessions(),
            archive_bytes_max: 64 << 20,
            fast_path: plan.fast_path,
        };
        // One that counts is enough.
        let observer: Arc<dyn Observer> = if me == 0 { signed.clone() } else { Arc::new(Silent) };
        let mut station = match app {
            App::Flip => replica(settings, Flip::default(), bell, observer)?,
            App::Kv => replica(settings, Kv::new(synod_kv::Config::default()), bell, observer)?,
        };
        nodes.join(&mut station, u8::try_from(me).unwrap_or(0))?;
        stations.push(station);
    }
    Ok(stations)
}

fn server(queues: Vec<QueueSpec>, app: App, bell: &Ropes) -> Result<Station, SynError> {
    let config = (Speaks { queues }, Box::new(move || application(app)) as Box<dyn Fn() -> _ + Send>);
    let hosted = Host::<Alone>::open(host(NodeId(0)), config, fresh()).map_err(|why| made(&why))?;
    let builder = Builder::new(NodeId(0)).machine(Hosting::new(0, Box::new(hosted))).for_guests(&[0]);
    builder.build(bell).map(|(station, _)| station).map_err(|error| refused(&error))
}

fn client(hosted: Box<dyn Hosted>, caller: Arc<Caller>, bell: &Ropes) -> Result<Station, SynError> {
    let connector = move |_: u8, output: Box<dyn core::any::Any + Send>, deliveries: &mut Deliveries<'_>| {
        if let Ok(output) = output.downcast::<Output>() {
            caller.hear(*output, deliveries);
        }
    };
    let builder = Builder::new(CLIENT)
        .machine(Hosting::new(0, hosted))
        .crypto(Crypto::inline(keys(199)))
        .connector(connector)
        .for_guests(&[0]);
    builder.build(bell).map(|(station, _)| station).map_err(|error| refused(&error))
}

/// Runs one system with one application; what the client took, and how many slots were signed.
pub(super) fn measure(plan: &UbftBench, system: System, app: App) -> Result<(Taken, u64), SynError> {
    let bell = || Doorbell::new().map_err(|error| refused(&error));
    let (near, far) = (bell()?, bell()?);
    let (over, taken) = sync_channel(1);
    let caller = Caller::new(pairs(app, plan.size), (plan.warmup, plan.samples), over);
    let signed = Arc::new(Signed::default());
    let settings = ClientConfig {
        config: config(plan, NodeId(0))?,
        key: seed(199).public(),
        nonce: 1,
        session_window: sessions().session_window,
        retry: Span::millis(100),
        deadline: Span::secs(30),
    };
    let queues = Client::queues(&settings);
    let nodes = Nodes::start(plan.tail)?;
    let (hosted, mut stations): (Box<dyn Hosted>, Vec<Station>) = match system {
        System::Synod => {
            let hosted = Host::<Client>::open(host(CLIENT), settings, fresh()).map_err(|why| made(&why))?;
            (Box::new(hosted), replicas(plan, app, far.ropes(), &signed, &nodes)?)
        }
        System::Unreplicated => {
            let speaks = Speaks { queues: queues.clone() };
            let hosted = Host::<Asker>::open(host(CLIENT), speaks, fresh()).map_err(|why| made(&why))?;
            (Box::new(hosted), vec![server(queues, app, far.ropes())?])
        }
    };
    let mut caller = client(hosted, caller, near.ropes())?;
    for at in 0..stations.len() {
        let (one, rest) = stations.split_at_mut(at + 1);
        let Some(one) = one.last_mut() else { continue };
        rest.iter_mut().try_for_each(|other| introduce(one, other, None)).map_err(|error| refused(&error))?;
        introduce(&mut caller, one, Some((near.ropes(), far.ropes()))).map_err(|error| refused(&error))?;
    }
    let last = synod_shm::cores().map_err(|error| refused(&error))?;
    let core = |at: u32| (last > at).then_some(usize::try_from(at).unwrap_or(0));
    let serving =
        Running::start(poller(stations, Rest::Yield, far), core(1)).map_err(|error| refused(&error))?;
    let calling = Running::start(poller(vec![caller], Rest::Yield, near), core(0));
    let calling = calling.map_err(|error| refused(&error))?;
    let taken = taken.recv_timeout(PATIENCE).map_err(|_| {
        SynError::of(code::NO_ANSWER, &[("address", "the system under test"), ("stage", "benchmark")])
    });
    calling.stop().map_err(|error| refused(&error))?;
    serving.stop().map_err(|error| refused(&error))?;
    drop(nodes);
    Ok((taken?, signed.0.load(Ordering::Relaxed)))
}
