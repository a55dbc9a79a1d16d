//! The plan of a replica: one machine, its registers at the memory nodes, the application behind its connector.

use std::sync::Arc;

use synod_config::{Genesis, SynError};
use synod_flip::Flip;
use synod_kv::{Kv, Reply};
use synod_machine::Unrecoverable;
use synod_machine::host::{Host, LaneLog};
use synod_memcached_adapter as memcached;
use synod_redis_adapter as redis;
use synod_service::App;
use synod_service::memory::MemoryNode;
use synod_ubft::Replica;
use synod_ubft::replica::{Output, ReplicaConfig};
use synod_wire::Bytes;

use super::applied::Applied;
pub(crate) use super::applied::Standing;
use super::beside::Beside;
use super::servers::{MemcachedServer, RedisServer, STATE_BYTES_MAX};
use super::settings::{ARCHIVE_BYTES_MAX, MEMORY, REPLICA, config, memory_config, plan, sessions, stated};
use crate::error::invalid;
use crate::plan::{Connect, Linked, Part, Plan, damaged, host};
use crate::server::Setup;
use crate::watch::{End, Watch};
use synod_machine::Recover as _;

/// Lanes of the journal: the incarnation's, or at a memory node the boot number's.
pub(crate) const LANES: u8 = 1;
/// Where a server process lives, in the node's data directory.
const SERVER_FOLDER: &str = "server";

/// Recovers a replica of the genesis' application.
pub(crate) fn recover(setup: &Setup, lanes: Vec<LaneLog>, watch: &Arc<Watch>) -> Result<Plan, SynError> {
    let folder = setup.data.join(SERVER_FOLDER);
    let of_thread = watch.clone();
    match setup.genesis.cluster().app.as_str() {
        "kv" => here(setup, lanes, watch, Applied::new(Kv::new(synod_kv::Config::default()), redis_error())),
        "flip" => here(setup, lanes, watch, Applied::new(Flip::default(), Bytes::new())),
        "redis" => {
            let config = redis::Config { bytes_max: STATE_BYTES_MAX, ..redis::Config::default() };
            let make = move || Ok(redis::Adapter::new(config, RedisServer::start(&folder, &of_thread)?));
            beside(setup, lanes, watch, Beside::start(make, redis_error(), watch)?)
        }
        "memcached" => {
            let config = memcached::Config { bytes_max: STATE_BYTES_MAX };
            let make =
                move || Ok(memcached::Adapter::new(config, MemcachedServer::start(&folder, &of_thread)?));
            let too_long = Bytes::from_static(b"SERVER_ERROR the result is longer than 16 KiB\r\n");
            beside(setup, lanes, watch, Beside::start(make, too_long, watch)?)
        }
        _ => Err(invalid("cluster.app names no application of this build")),
    }
}

/// What stands for a result that no session keeps.
fn redis_error() -> Bytes {
    let mut error = Vec::new();
    Reply::Error(Bytes::from_static(b"ERR the result is longer than 16 KiB")).write(&mut error);
    error.into()
}

/// A replica whose application answers where it is asked.
fn here<P: App + 'static>(
    setup: &Setup,
    lanes: Vec<LaneLog>,
    watch: &Arc<Watch>,
    applied: Applied<P>,
) -> Result<Plan, SynError> {
    let (applied, watched) = (Arc::new(applied), watch.clone());
    let standing = applied.clone();
    let connector: Connect = Box::new(move |_, output, deliveries| {
        let Ok(output) = output.downcast::<Output>() else { return };
        show(&output, &watched);
        match applied.answer(*output) {
            Ok(Some(input)) => deliveries.input(REPLICA, input),
            Ok(None) => {}
            Err(why) => refused(&watched, &why),
        }
    });
    with(setup, lanes, connector, standing)
}

/// A replica whose application is asked on a thread of its own.
fn beside<P: App + 'static>(
    setup: &Setup,
    lanes: Vec<LaneLog>,
    watch: &Arc<Watch>,
    app: Beside<P>,
) -> Result<Plan, SynError> {
    let (app, watched) = (Arc::new(app), watch.clone());
    let standing = app.clone();
    let connector: Connect = Box::new(move |_, output, deliveries| {
        let Ok(output) = output.downcast::<Output>() else { return };
        show(&output, &watched);
        if let Some(input) = app.take(*output) {
            deliveries.input(REPLICA, input);
        }
    });
    with(setup, lanes, connector, standing)
}

fn with(
    setup: &Setup,
    lanes: Vec<LaneLog>,
    connector: Connect,
    standing: Arc<dyn Standing>,
) -> Result<Plan, SynError> {
    let Ok::<[LaneLog; 1], _>([log]) = lanes.try_into() else {
        return Err(invalid("the journal has another number of lanes than the plan"));
    };
    let settings = ReplicaConfig {
        config: config(&setup.genesis, setup.own)?,
        sessions: sessions(),
        archive_bytes_max: ARCHIVE_BYTES_MAX,
        fast_path: true,
    };
    let replica = Host::<Replica>::open(host(setup, REPLICA), settings, log).map_err(damaged)?;
    Ok(Plan {
        parts: vec![Part { number: REPLICA, hosted: Box::new(replica), reactor: 0, routes: Vec::new() }],
        connector,
        guests: vec![REPLICA],
        named: Vec::new(),
        keys: None,
        readmitted: Vec::new(),
        signer: None,
        teller: None,
        linked: Some(linked(&setup.genesis)?),
        standing: Some(standing),
    })
}

/// The memory nodes of a cluster, and that its first machine asks them.
pub(crate) fn linked(genesis: &Genesis) -> Result<Linked, SynError> {
    let memory = stated(genesis)?.memory.iter().map(|node| node.memory.to_string());
    Ok(Linked {
        plan: plan(genesis).to_vec(),
        asking: REPLICA,
        memory: (MEMORY, MemoryNode::queues(&memory_config(genesis)?)),
        addresses: (genesis.roster().size()..).zip(memory).collect(),
    })
}

/// What the replica tells is shown to whoever watches.
fn show(output: &Output, watch: &Watch) {
    match output {
        Output::Execute { slot, .. } => watch.executed(slot.0.saturating_add(1)),
        Output::Ready(takes_part) => watch.takes_part(*takes_part),
        Output::Diverged { low } => {
            tracing::warn!(
                slot = low.0,
                "the state differs from the certified one: it is discarded and fetched"
            );
        }
        Output::Irreparable { low } => {
            watch.alarm("state_divergence", low.0);
            watch.end(End::Diverged(low.0));
        }
        Output::Broken(slot) => watch.alarm("conflicting_commit", slot.0),
        Output::Stranded { from } => watch.alarm("stranded", from.0),
        Output::Install { low, index, count, .. } if index.saturating_add(1) >= *count => {
            watch.executed(low.0);
        }
        Output::Query { .. }
        | Output::TakeSnapshot { .. }
        | Output::DropSnapshot { .. }
        | Output::NeedChunk { .. }
        | Output::Install { .. } => {}
    }
}

/// A certified snapshot could not be installed.
pub(super) fn refused(watch: &Watch, why: &Unrecoverable) {
    tracing::error!(%why, "a certified snapshot is none of this application");
    watch.alarm("unrecoverable_state", 0);
}
