//! Placement `cooperative`: three replicas at one poller, the client at another.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use synod_crypto::{Keys, Seed};
use synod_machine::host::{Host, HostConfig, LaneLog};
use synod_machine::{Condition, Unrecoverable};
use synod_quorum::NodeId;
use synod_shm::{
    Builder, Crypto, Deliveries, Doorbell, Hosting, Rest, Ropes, Running, Station, cores, introduce, poller,
};

use crate::caller::{Caller, Client, Load, Taken, Told};
use crate::counts::Counts;
use crate::replica::{Replica, Settings};
use crate::report::Used;

/// Replicas: 2f + 1 of which f = 1 may be faulty.
pub const REPLICAS: u32 = 3;
/// Bytes of a request at most.
pub const SIZE_MAX: u32 = 8 << 10;
/// Requests whose times are taken, at most.
pub const SAMPLES_MAX: u32 = 10_000_000;
/// How long a run may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Bytes of a request.
    pub size: u32,
    /// Requests whose times are taken.
    pub samples: u32,
    /// Requests before them.
    pub warmup: u32,
    /// How long a use of the trusted counter takes beyond the counter itself.
    pub each_use: Duration,
}

/// What was measured.
#[derive(Debug)]
pub struct Measured {
    /// Nanoseconds from a call to its result, in the order of calls.
    pub waited: Vec<u64>,
    /// From the first measured call to the last result.
    pub span: Duration,
    /// What was used meanwhile.
    pub(crate) spent: Option<(Used, Used)>,
    /// Results that were wrong, and all that replicas complained about.
    pub errors: u64,
}

/// Everybody, before anybody is polled.
pub struct Assembled {
    /// The replicas.
    pub serving: Vec<Station>,
    /// The client.
    pub calling: Station,
    /// What the replicas did, in their order, and behind them the client.
    pub counts: Vec<Arc<Counts>>,
    /// What the client will have taken.
    pub taken: Awaited,
}

/// What the client takes, once it has.
pub struct Awaited(Receiver<Taken<Used>>);

impl Awaited {
    /// If it has.
    #[must_use]
    pub fn now(&self, counts: &[Arc<Counts>]) -> Option<Measured> {
        self.0.try_recv().ok().map(|taken| measured(taken, counts))
    }
}

fn measured(taken: Taken<Used>, counts: &[Arc<Counts>]) -> Measured {
    let complaints: u64 = counts.iter().map(|counts| counts.errors()).sum();
    let Taken { waited, span, used, wrong } = taken;
    Measured { waited, span, spent: used, errors: wrong + complaints }
}

fn host(own: NodeId) -> HostConfig {
    HostConfig { own, machine: 0, seed: u64::from(own.0), jobs_max: 1, checked: cfg!(debug_assertions) }
}

const fn fresh() -> LaneLog {
    LaneLog { condition: Condition::Fresh, records: Vec::new() }
}

fn made(why: &Unrecoverable) -> anyhow::Error {
    anyhow::anyhow!("{}", why.0)
}

/// Jobs are signed by nobody here: a station has keys all the same.
fn keys() -> Crypto {
    Crypto::inline(Keys::ed25519(&Seed::new([9; 32]), [7; 32]))
}

/// Puts together who takes part; `bells` are those of the client's poller and of the replicas', none where one poller
/// polls all.
///
/// # Errors
/// What the shared-memory runtime or a replica said.
pub fn assemble(plan: &Plan, bells: (&Ropes, &Ropes), one_poller: bool) -> anyhow::Result<Assembled> {
    let (near, far) = bells;
    let mut counts: Vec<Arc<Counts>> = Vec::new();
    let mut serving = Vec::new();
    for me in 0..REPLICAS {
        let own = Arc::new(Counts::default());
        counts.push(Arc::clone(&own));
        let settings = Settings { me, size: plan.size, each_use: plan.each_use, counts: Arc::clone(&own) };
        let hosted = Host::<Replica>::open(host(NodeId(me)), settings, fresh()).map_err(|why| made(&why))?;
        let builder = Builder::new(NodeId(me)).machine(Hosting::new(0, Box::new(hosted)));
        let builder = builder.crypto(keys()).observer(own);
        serving.push(builder.for_guests(&[0]).build(far)?.0);
    }
    let own = Arc::new(Counts::default());
    counts.push(Arc::clone(&own));
    let (over, taken) = sync_channel(1);
    let load = Load { warmup: plan.warmup, samples: plan.samples, size: plan.size };
    let all = counts.clone();
    let caller = Caller::new(load, move || Used::here(&all), over);
    let connector = move |_: u8, output: Box<dyn core::any::Any + Send>, deliveries: &mut Deliveries<'_>| {
        if let Ok(told) = output.downcast::<Told>() {
            caller.hear(*told, deliveries);
        }
    };
    let hosted = Host::<Client>::open(host(NodeId::GUESTS), plan.size, fresh()).map_err(|why| made(&why))?;
    let builder = Builder::new(NodeId::GUESTS).machine(Hosting::new(0, Box::new(hosted)));
    let builder = builder.crypto(keys()).connector(connector).observer(own).for_guests(&[0]);
    let mut calling = builder.build(near)?.0;
    for at in 0..serving.len() {
        let (one, rest) = serving.split_at_mut(at + 1);
        let Some(one) = one.last_mut() else { continue };
        rest.iter_mut().try_for_each(|other| introduce(one, other, None))?;
        introduce(&mut calling, one, (!one_poller).then_some((near, far)))?;
    }
    Ok(Assembled { serving, calling, counts, taken: Awaited(taken) })
}

/// Runs three replicas and a client as `plan` says.
///
/// # Errors
/// What the runtime or a replica said, or that nobody answered in time.
pub fn measure(plan: &Plan) -> anyhow::Result<Measured> {
    let (near, far) = (Doorbell::new()?, Doorbell::new()?);
    let Assembled { serving, calling, counts, taken } = assemble(plan, (near.ropes(), far.ropes()), false)?;
    let last = cores()?;
    let core = |at: u32| (last > at).then_some(at as usize);
    let serving = Running::start(poller(serving, Rest::Yield, far), core(1))?;
    let calling = Running::start(poller(vec![calling], Rest::Yield, near), core(0))?;
    let taken = taken.0.recv_timeout(PATIENCE);
    calling.stop()?;
    serving.stop()?;
    Ok(measured(taken?, &counts))
}
