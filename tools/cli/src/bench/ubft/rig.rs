//! Who takes part: replicas, memory nodes, the server without replicas, and the client.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use synod_config::{SynError, code};
use synod_crypto::{Hash, Keys, Seed};
use synod_flip::Flip;
use synod_host::ubft::Applied;
use synod_kv::Kv;
use synod_machine::host::{Host, HostConfig, Hosted, LaneLog};
use synod_machine::{Condition, Recover, Span, Unrecoverable};
use synod_quorum::{Epoch, Member, NodeId, Roster};
use synod_service::App as Application;
use synod_shm::{
    Builder, Crypto, Deliveries, Door, Hosting, Memory as At, Observer, Regions, RegionsConfig,
    RegistersConfig, Ropes, Station, Tenant,
};
use synod_ubft::batch::View;
use synod_ubft::client::{Client, ClientConfig, Output};
use synod_ubft::replica::{Output as Told, Replica, ReplicaConfig};
use synod_ubft::sessions::SessionLimits;
use synod_ubft::{Config, Memory, Parameters};
use synod_wire::Bytes;

use super::alone::{Alone, Asker, Speaks};
use super::apps::{Noop, application, book, pairs};
use super::caller::{Caller, Load, PACER, Probe, Taken};
use super::pacer::{Due, Pacer};
use super::plan::{App, CLOSED_MAX, Placement, System, UbftBench};
use super::run::refused;
use crate::exit::bug;

pub(super) const REPLICAS: u32 = 3;
pub(super) const MEMORY: u32 = 3;
/// The client, as it calls itself and as replicas call it.
const CLIENT: NodeId = NodeId::GUESTS;
/// Memory nodes, as replicas call them.
const FIRST_MEMORY: u32 = NodeId::GUESTS.0 + 64;
/// How long a run may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(300);
/// Waits are so many times longer where processes share cores (specification, section 2).
const CROWDED: u64 = 5;

/// What was measured of one system with one application.
pub(super) struct Measured {
    pub(super) taken: Taken,
    /// The most memory that a process of a replica, or of the server, held; where they are processes.
    pub(super) resident: Option<u64>,
    /// Bytes of registers at a memory node, in whole pages; none where there is none.
    pub(super) disaggregated: Option<u64>,
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
    let mut parameters = Parameters {
        tail: plan.tail,
        window: plan.window,
        batch_max: plan.batch,
        batch_bytes_max: plan.batch_bytes(),
        request_inline_max: plan.op_max(),
        merge_promises: plan.is_merged,
        ..Parameters::default()
    };
    if plan.placement == Placement::Isolated && cores()? <= REPLICAS {
        for wait in [&mut parameters.echo, &mut parameters.fast, &mut parameters.suspect] {
            *wait = wait.times(CROWDED);
        }
    }
    Ok(Config {
        cluster: Hash::of(b"bench ubft"),
        epoch: Epoch(0),
        me,
        roster: Arc::new(roster.map_err(|error| bug("roster", &error))?),
        first_view: View(0),
        memory: (0..MEMORY).map(memory).collect(),
        parameters,
    })
}

/// Sessions of one client: rings of replicas and of the client are equally deep.
fn sessions(plan: &UbftBench) -> SessionLimits {
    let limits = SessionLimits::default();
    let session_window =
        if plan.rate.is_some() { CLOSED_MAX } else { limits.session_window.max(plan.closed) };
    SessionLimits { sessions_max: 1, session_window, reply_max: plan.reply_max() }
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

/// Cores that this process may use.
///
/// # Errors
/// What the system said.
pub(super) fn cores() -> Result<u32, SynError> {
    synod_shm::cores().map_err(|error| refused(&error))
}

/// A folder of this run's own, for doors; it goes with the value.
pub(super) struct Folder(pub(super) PathBuf);

impl Folder {
    pub(super) fn make() -> Result<Self, SynError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("synod-bench-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).map_err(|error| crate::cluster::unwritable(&folder, &error))?;
        Ok(Self(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // It is this run's own; if it stays it harms nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Where a memory node is asked for its regions.
pub(super) fn memory_door(folder: &Path, at: u32) -> PathBuf {
    folder.join(format!("m{at}"))
}

/// A memory node behind its door.
pub(super) fn regions(folder: &Path, at: u32, tail: u32) -> Result<Regions, SynError> {
    let uids = vec![synod_shm::hand::own_user(); 3];
    let config = RegionsConfig { uids, faulty: 1, registers: 2 * tail, tail, boot: 1 };
    let door = Door::bind(&memory_door(folder, at)).map_err(|error| refused(&error))?;
    Regions::start(config, door).map_err(|error| refused(&error))
}

/// Gives a replica its registers at all memory nodes.
pub(super) fn join(folder: &Path, tail: u32, station: &mut Station, me: u8) -> Result<(), SynError> {
    let measures = (2 * tail, tail);
    for at in 0..MEMORY {
        let uid = synod_shm::hand::own_user();
        let tenant = Tenant::connect(&memory_door(folder, at), uid, me, measures);
        let config = RegistersConfig {
            me,
            members: 3,
            registers: measures.0,
            tail,
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

/// A replica whose application is executed by its connector.
fn replica<P: Application + 'static>(
    settings: ReplicaConfig,
    (app, crypto): (P, Crypto),
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
        .crypto(crypto)
        .connector(connector)
        .observer(observer)
        .for_guests(&[0]);
    builder.build(bell).map(|(station, _)| station).map_err(|error| refused(&error))
}

/// A replica, with its registers.
pub(super) fn seat(
    plan: &UbftBench,
    (app, me): (App, u32),
    bell: &Ropes,
    observer: Arc<dyn Observer>,
    folder: &Path,
) -> Result<Station, SynError> {
    let settings = ReplicaConfig {
        config: config(plan, NodeId(me))?,
        sessions: sessions(plan),
        archive_bytes_max: 64 << 20,
        fast_path: plan.fast_path,
    };
    let crypto = match plan.has_crypto_thread {
        // It ends with the station.
        true => Crypto::thread(keys(me)).map_err(|error| refused(&error))?.0,
        false => Crypto::inline(keys(me)),
    };
    let mut station = match app {
        App::Flip => replica(settings, (Flip::default(), crypto), bell, observer)?,
        App::Kv => replica(settings, (Kv::new(synod_kv::Config::default()), crypto), bell, observer)?,
        App::Noop => replica(settings, (Noop::default(), crypto), bell, observer)?,
        App::Book => replica(settings, (book(), crypto), bell, observer)?,
    };
    join(folder, plan.tail, &mut station, u8::try_from(me).unwrap_or(0))?;
    Ok(station)
}

/// The server without replicas.
pub(super) fn server_of(
    plan: &UbftBench,
    app: App,
    bell: &Ropes,
    observer: Arc<dyn Observer>,
) -> Result<Station, SynError> {
    let queues = Client::queues(&client_settings(plan)?);
    let config = (Speaks { queues }, Box::new(move || application(app)) as Box<dyn Fn() -> _ + Send>);
    let hosted = Host::<Alone>::open(host(NodeId(0)), config, fresh()).map_err(|why| made(&why))?;
    let builder = Builder::new(NodeId(0)).machine(Hosting::new(0, Box::new(hosted)));
    let builder = builder.observer(observer).for_guests(&[0]);
    builder.build(bell).map(|(station, _)| station).map_err(|error| refused(&error))
}

fn client_settings(plan: &UbftBench) -> Result<ClientConfig, SynError> {
    Ok(ClientConfig {
        config: config(plan, NodeId(0))?,
        key: seed(199).public(),
        nonce: 1,
        session_window: sessions(plan).session_window,
        retry: Span::millis(100),
        deadline: Span::secs(30),
    })
}

/// What the client does in a run of `plan`.
fn load(plan: &UbftBench) -> Load {
    let in_flight = if plan.rate.is_some() { CLOSED_MAX } else { plan.closed };
    Load { warmup: plan.warmup, samples: plan.samples, in_flight, rate: plan.rate }
}

/// The client of a system, which is observed and asks what was used, and where what it took will be.
pub(super) fn caller(
    plan: &UbftBench,
    (system, app): (System, App),
    (observer, probe): (Arc<dyn Observer>, Probe),
    bell: &Ropes,
) -> Result<(Station, Receiver<Taken>), SynError> {
    let (over, taken) = sync_channel(1);
    let caller = Caller::new(pairs(app, plan.size), load(plan), probe, over);
    let settings = client_settings(plan)?;
    let hosted: Box<dyn Hosted> = match system {
        System::Synod => {
            Box::new(Host::<Client>::open(host(CLIENT), settings, fresh()).map_err(|why| made(&why))?)
        }
        System::Unreplicated => {
            let speaks = Speaks { queues: Client::queues(&settings) };
            Box::new(Host::<Asker>::open(host(CLIENT), speaks, fresh()).map_err(|why| made(&why))?)
        }
    };
    let connector =
        move |_: u8, output: Box<dyn core::any::Any + Send>, deliveries: &mut Deliveries<'_>| match output
            .downcast::<Output>(
        ) {
            Ok(output) => caller.hear(*output, deliveries),
            Err(output) if output.is::<Due>() => caller.look(deliveries),
            Err(_) => {}
        };
    let mut builder = Builder::new(CLIENT).machine(Hosting::new(0, hosted));
    if plan.rate.is_some() {
        let own = HostConfig { machine: PACER, ..host(CLIENT) };
        let pacer = Host::<Pacer>::open(own, (), fresh()).map_err(|why| made(&why))?;
        builder = builder.machine(Hosting::new(PACER, Box::new(pacer)));
    }
    let builder =
        builder.crypto(Crypto::inline(keys(199))).connector(connector).observer(observer).for_guests(&[0]);
    let station = builder.build(bell).map(|(station, _)| station).map_err(|error| refused(&error))?;
    Ok((station, taken))
}

/// Nobody answered in time.
pub(super) fn unanswered() -> SynError {
    SynError::of(code::NO_ANSWER, &[("address", "the system under test"), ("stage", "benchmark")])
}
