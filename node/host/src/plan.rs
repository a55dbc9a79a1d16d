//! The HotStuff deployment: which machines a member hosts, under which numbers, and who gets whose outputs.

use std::any::Any;
use std::sync::Arc;

use synod_config::{Genesis, NodeConfig, SynError};
use synod_hotstuff::Replica;
use synod_kv::Kv;
use synod_machine::broadcast::{Delivered, Position};
use synod_machine::host::{Host, HostConfig, Hosted, LaneLog};
use synod_machine::{Condition, Unrecoverable};
use synod_net::Deliveries;
use synod_quorum::NodeId;
use synod_service::{Executor, ExecutorInput, ExecutorOutput};

use crate::settings;
use crate::watch::Watch;

/// The machine that orders.
pub(crate) const REPLICA: u8 = 0;
/// The machine that executes; guests speak to it under the same number.
pub const EXECUTOR: u8 = 1;
/// Lanes of the journal: one per hosted machine.
pub(crate) const LANES: u8 = 2;

/// The machines of one member, recovered.
pub(crate) struct Machines {
    pub(crate) replica: Box<dyn Hosted>,
    pub(crate) executor: Box<dyn Hosted>,
}

/// Recovers the executor, then the replica that feeds it: the user's durable position comes first.
pub(crate) fn recover(
    genesis: &Genesis,
    node: &NodeConfig,
    own: NodeId,
    lanes: [LaneLog; LANES as usize],
) -> Result<Machines, SynError> {
    let [replica_log, executor_log] = lanes;
    let config = |machine| HostConfig {
        own,
        machine,
        seed: crate::random::number(),
        jobs_max: node.limits.jobs_max,
        checked: cfg!(debug_assertions),
    };
    let app = Kv::new(synod_kv::Config::default());
    let settings = settings::executor(genesis, node, own, app);
    let executor = Host::<Executor<Kv>>::open(config(EXECUTOR), settings, executor_log).map_err(damaged)?;
    let resume = executor.machine().resume_position();
    let replica = replica(genesis, node, own, (resume, config(REPLICA), replica_log))?;
    Ok(Machines { replica, executor: Box::new(executor) })
}

fn replica(
    genesis: &Genesis,
    node: &NodeConfig,
    own: NodeId,
    with: (Position, HostConfig, LaneLog),
) -> Result<Box<dyn Hosted>, SynError> {
    let (resume, host, log) = with;
    let config = settings::replica(genesis, node, own, resume)?;
    Ok(Box::new(Host::<Replica>::open(host, config, log).map_err(damaged)?))
}

fn damaged(why: Unrecoverable) -> SynError {
    SynError::of(synod_config::code::JOURNAL_CORRUPT, &[]).because(why)
}

/// Where outputs go: what the replica delivers to the executor, what the executor submits to the replica, what it
/// says of itself to the watch.
pub(crate) fn connect(
    watch: &Arc<Watch>,
) -> impl Fn(u8, Box<dyn Any + Send>, &mut Deliveries<'_>) + Send + Sync + 'static {
    let watch = watch.clone();
    move |machine, output, deliveries| match machine {
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
    }
}

/// A lane that was never written.
pub(crate) const fn empty(condition: Condition) -> LaneLog {
    LaneLog { condition, records: Vec::new() }
}
