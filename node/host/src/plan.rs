//! Plans: which machines a member hosts, under which numbers, and who gets whose outputs. One per protocol.

use std::any::Any;
use std::sync::Arc;

use synod_config::{Genesis, Protocol, SynError};
use synod_crypto::{Keys, PublicKey};
use synod_hotstuff::Replica;
use synod_kv::Kv;
use synod_machine::broadcast::Delivered;
use synod_machine::host::{Host, HostConfig, Hosted, LaneLog};
use synod_machine::{Condition, Queue, QueueSpec, Unrecoverable};
use synod_net::Deliveries;
use synod_orderbook::Book;
use synod_quorum::NodeId;
use synod_service::{App, Executor, ExecutorInput, ExecutorOutput};

use crate::chop;
use crate::drill::Signer;
use crate::error::invalid;
use crate::pay::{self, Teller};
use crate::random;
use crate::server::Setup;
use crate::settings;
use crate::ubft::{self, Standing};
use crate::watch::Watch;

/// The machine that orders.
pub(crate) const REPLICA: u8 = 0;
/// The machine that executes; guests speak to it under the same number.
pub const EXECUTOR: u8 = 1;

/// A machine of a plan. Its lane of the journal is its place in the plan.
pub(crate) struct Part {
    pub(crate) number: u8,
    pub(crate) hosted: Box<dyn Hosted>,
    /// The thread it runs on: 0 is the one with the sockets.
    pub(crate) reactor: usize,
    /// Queues that lead to machines of other numbers.
    pub(crate) routes: Vec<(u8, Vec<Queue>)>,
}

/// Where outputs go.
pub(crate) type Connect = Box<dyn Fn(u8, Box<dyn Any + Send>, &mut Deliveries<'_>) + Send + Sync>;

/// What a member hosts, recovered.
pub(crate) struct Plan {
    pub(crate) parts: Vec<Part>,
    pub(crate) connector: Connect,
    /// Machines that guests may speak to.
    pub(crate) guests: Vec<u8>,
    /// Guests that have ids of their own.
    pub(crate) named: Vec<PublicKey>,
    /// What jobs sign with, if that is more than the transport's own key.
    pub(crate) keys: Option<Keys>,
    /// Machines whose damaged lane is no obstacle: they promise nothing, or wrote down what they lost.
    pub(crate) readmitted: Vec<u8>,
    /// What lets the first machine of a drill sign twice.
    pub(crate) signer: Option<Signer>,
    /// Who speaks with the replica of a payment system.
    pub(crate) teller: Option<Arc<Teller>>,
    /// Who is linked with this member beside members, where anybody is.
    pub(crate) linked: Option<Linked>,
    /// How far the application is, where it is asked here.
    pub(crate) standing: Option<Arc<dyn Standing>>,
}

/// Memory nodes, which host another part of one plan.
pub(crate) struct Linked {
    /// The machines of the whole plan.
    pub(crate) plan: Vec<u8>,
    /// The machine of a member that asks them.
    pub(crate) asking: u8,
    /// The machine that takes register operations, and its queues.
    pub(crate) memory: (u8, Vec<QueueSpec>),
    /// Where they listen, by id.
    pub(crate) addresses: Vec<(u32, String)>,
}

/// Lanes of the journal of a member, or of a memory node: one per hosted machine.
pub(crate) fn lanes(genesis: &Genesis, own: NodeId) -> u8 {
    if genesis.roster().member(own).is_none() {
        return 1;
    }
    match genesis.cluster().protocol {
        Protocol::Chopchop => chop::server::LANES,
        Protocol::Astro => pay::LANES,
        Protocol::Ubft => ubft::LANES,
        _ => 2,
    }
}

/// Recovers the machines of the genesis' protocol, users before providers.
pub(crate) fn recover(setup: &Setup, lanes: Vec<LaneLog>, watch: &Arc<Watch>) -> Result<Plan, SynError> {
    match setup.genesis.cluster().protocol {
        Protocol::Chopchop => chop::server::recover(setup, lanes, watch),
        Protocol::Hotstuff => match setup.genesis.cluster().app.as_str() {
            "kv" => hotstuff(setup, lanes, watch, Kv::new(synod_kv::Config::default())),
            "book" => hotstuff(setup, lanes, watch, Book::default()),
            _ => Err(invalid("cluster.app names no application of this build")),
        },
        Protocol::Astro => pay::recover(setup, lanes),
        Protocol::Ubft => ubft::recover(setup, lanes, watch),
        _ => Err(invalid("cluster.protocol names no protocol of this build")),
    }
}

/// What hosts the machine of this number.
pub(crate) fn host(setup: &Setup, machine: u8) -> HostConfig {
    HostConfig {
        own: setup.own,
        machine,
        seed: random::number(),
        jobs_max: setup.node.limits.jobs_max,
        checked: cfg!(debug_assertions),
    }
}

/// Recovers the executor, then the replica that feeds it: the user's durable position comes first.
fn hotstuff<P: App + 'static>(
    setup: &Setup,
    lanes: Vec<LaneLog>,
    watch: &Arc<Watch>,
    app: P,
) -> Result<Plan, SynError> {
    let Ok::<[LaneLog; 2], _>([replica_log, executor_log]) = lanes.try_into() else {
        return Err(invalid("the journal has another number of lanes than the plan"));
    };
    let (genesis, node, own) = (&setup.genesis, &setup.node, setup.own);
    let config = settings::executor(genesis, node, own, app);
    let executor = Host::<Executor<P>>::open(host(setup, EXECUTOR), config, executor_log).map_err(damaged)?;
    let resume = executor.machine().resume_position();
    let config = settings::replica(genesis, node, own, resume)?;
    let replica = Host::<Replica>::open(host(setup, REPLICA), config, replica_log).map_err(damaged)?;
    let keys = Keys::ed25519(setup.key.seed(), random::bytes());
    Ok(Plan {
        parts: vec![
            Part { number: REPLICA, hosted: Box::new(replica), reactor: 0, routes: Vec::new() },
            Part { number: EXECUTOR, hosted: Box::new(executor), reactor: 1, routes: Vec::new() },
        ],
        connector: connect(watch),
        guests: vec![EXECUTOR],
        named: Vec::new(),
        keys: None,
        // An executor promises nothing of its own: what it lost is fetched by certified roots.
        readmitted: vec![EXECUTOR],
        signer: Some(Signer::new(keys, genesis.id(), own)),
        teller: None,
        linked: None,
        standing: None,
    })
}

/// A journal that holds what the machine never wrote.
pub(crate) fn damaged(why: Unrecoverable) -> SynError {
    SynError::of(synod_config::code::JOURNAL_CORRUPT, &[]).because(why)
}

/// Where outputs go: what the replica delivers to the executor, what the executor submits to the replica, what it
/// says of itself to the watch.
fn connect(watch: &Arc<Watch>) -> Connect {
    let watch = watch.clone();
    Box::new(move |machine, output, deliveries| match machine {
        REPLICA => {
            if let Ok(delivered) = output.downcast::<Delivered>() {
                deliveries.input(EXECUTOR, ExecutorInput::Delivered(*delivered));
            }
        }
        _ => match output.downcast::<ExecutorOutput>().map(|output| *output) {
            Ok(ExecutorOutput::Submit(submit)) => deliveries.input(REPLICA, submit),
            Ok(ExecutorOutput::Status(status)) => watch.executor(status),
            Ok(ExecutorOutput::Stable(_) | ExecutorOutput::Proof { .. }) | Err(_) => {}
        },
    })
}

/// A lane that was never written.
pub(crate) const fn empty(condition: Condition) -> LaneLog {
    LaneLog { condition, records: Vec::new() }
}
