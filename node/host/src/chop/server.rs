//! The Chop Chop deployment of one member: server over HotStuff or uBFT, application, store.

use std::any::Any;
use std::sync::Arc;

use synod_auction::AuctionLanes;
use synod_chopchop::config::Cluster;
use synod_chopchop::directory::Directory;
use synod_chopchop::server::{Apply, OrderConfig, Server, ServerConfig, ServerInput, ServerOutput};
use synod_chopchop::store::{Quota, Store, StoreConfig, StoreInput, StoreOutput, StoreParameters};
use synod_chopchop::vocabulary::{
    BROKER as TO_BROKERS, BROKER_BULK, SERVER as TO_SERVERS, SERVER_BULK, STORE as TO_STORES, STORE_BULK,
};
use synod_config::{Chop, Parameters, SynError};
use synod_hotstuff::Replica;
use synod_machine::broadcast::Position;
use synod_machine::host::{Host, Hosted, LaneLog};
use synod_machine::{Queue, Recover, Wall};
use synod_net::Deliveries;
use synod_payments::PaymentLanes;
use synod_pixels::PixelLanes;
use synod_quorum::NodeId;
use synod_service::lanes::{Batch, LaneApp, State};
use synod_service::{At, BatchConfig, BatchExecutor, BatchInput, BatchLimits, BatchOutput};

use super::{APPLICATION, BROKER, SERVER, STORE, cluster};
use crate::error::invalid;
use crate::plan::{Part, Plan, damaged, host};
use crate::server::Setup;
use crate::settings;
use crate::ubft;
use crate::watch::Watch;

/// Lanes of the journal: one per hosted machine.
pub(crate) const LANES: u8 = 3;

/// Where a server's words lead besides its own kind: to stores and brokers; and a store's.
fn routes(own: u8) -> Vec<(u8, Vec<Queue>)> {
    let all = [
        (SERVER, vec![TO_SERVERS, SERVER_BULK]),
        (STORE, vec![TO_STORES, STORE_BULK]),
        (BROKER, vec![TO_BROKERS, BROKER_BULK]),
    ];
    all.into_iter().filter(|(machine, _)| *machine != own).collect()
}

/// Entries of the order that are delivered at most before one of them is applied.
fn entries_ahead(parameters: &Parameters) -> u64 {
    let items = match parameters.block_items {
        0 => 65_536,
        items => u64::from(items),
    };
    u64::from(parameters.executor_lag_max) * items
}

/// Recovers the application, the server that feeds it, and the store: the user's durable position comes first.
pub(crate) fn recover(setup: &Setup, lanes: Vec<LaneLog>, watch: &Arc<Watch>) -> Result<Plan, SynError> {
    let Ok::<[LaneLog; 3], _>([server_log, application_log, store_log]) = lanes.try_into() else {
        return Err(invalid("the journal has another number of lanes than the plan"));
    };
    let genesis = &setup.genesis;
    let chop = cluster::chop(genesis)?;
    let directory = cluster::directory(genesis, &setup.genesis_file)?;
    let known = cluster::cluster(genesis)?;
    let application = application(setup, chop, directory.len(), application_log)?;

    let brokers: Vec<NodeId> = (NodeId::GUESTS.0..).take(chop.brokers.len()).map(NodeId).collect();
    let server = server(setup, known.clone(), directory, server_log)?;
    let store =
        StoreConfig::new(known, setup.own, brokers, parameters(setup)).map_err(|rule| invalid(rule.0))?;
    let store = Host::<Store>::open(host(setup, STORE), store, store_log).map_err(damaged)?;

    let keys = cluster::keys(&setup.key, &setup.node)?;
    watch.chop().adds(keys.key_adder().is_vector());
    Ok(Plan {
        parts: vec![
            Part { number: SERVER, hosted: server, reactor: 0, routes: routes(SERVER) },
            Part { number: APPLICATION, hosted: application, reactor: 1, routes: Vec::new() },
            Part { number: STORE, hosted: Box::new(store), reactor: 0, routes: routes(STORE) },
        ],
        connector: connect(watch),
        guests: vec![SERVER, APPLICATION, STORE],
        named: chop.brokers.iter().map(|broker| broker.ed25519).collect(),
        keys: Some(keys),
        // The application promises nothing of its own; the store writes down that it is silent.
        readmitted: vec![APPLICATION, STORE],
        signer: None,
        teller: None,
        linked: genesis.ubft().is_some().then(|| ubft::linked(genesis)).transpose()?,
        standing: None,
    })
}

/// A server over what the genesis orders by.
fn server(
    setup: &Setup,
    known: Cluster,
    directory: Directory,
    log: LaneLog,
) -> Result<Box<dyn Hosted>, SynError> {
    let (genesis, node, own) = (setup.genesis.clone(), setup.node.clone(), setup.own);
    if genesis.ubft().is_some() {
        let order = Box::new(ubft::orderings(&genesis, own)?);
        let config = over::<synod_ubft::Ordering>(setup, (known, directory), (order, ubft::AHEAD))?;
        return Ok(Box::new(
            Host::<Server<synod_ubft::Ordering>>::open(host(setup, SERVER), config, log).map_err(damaged)?,
        ));
    }
    // What refuses a configuration is found here; only the position differs later.
    settings::replica(&genesis, &node, own, Position(0))?;
    let ahead = entries_ahead(genesis.parameters());
    let order = Box::new(move |resume| match settings::replica(&genesis, &node, own, resume) {
        Ok(config) => config,
        Err(error) => unreachable!("the configuration holds from every position: {error}"),
    });
    let config = over::<Replica>(setup, (known, directory), (order, ahead))?;
    Ok(Box::new(Host::<Server<Replica>>::open(host(setup, SERVER), config, log).map_err(damaged)?))
}

/// What a server is built from over `A`, which gives so many entries at most before one of them is applied.
fn over<A: Recover>(
    setup: &Setup,
    (known, directory): (Cluster, Directory),
    (order, ahead): (OrderConfig<A>, u64),
) -> Result<ServerConfig<A>, SynError> {
    let brokers = cluster::chop(&setup.genesis)?.brokers.len();
    let config = ServerConfig::new(known, setup.own, setup.node.chop.lanes, directory, order);
    let config = config.map_err(|rule| invalid(rule.0))?;
    Ok(config.within(ahead).serving((NodeId::GUESTS.0..).take(brokers).map(NodeId).collect()))
}

fn parameters(setup: &Setup) -> StoreParameters {
    let (chop, defaults) = (&setup.node.chop, StoreParameters::default());
    let genesis = Quota {
        bytes: chop.quota_bytes,
        batches: chop.quota_batches,
        work: chop.quota_work,
        burst: Quota::GENESIS.burst.max(chop.quota_work),
    };
    StoreParameters {
        genesis,
        others_max: chop.others_max,
        retain_bytes: setup.node.storage.retain_bytes,
        ..defaults
    }
}

fn application(setup: &Setup, chop: &Chop, clients: u32, log: LaneLog) -> Result<Box<dyn Hosted>, SynError> {
    let refused = || invalid("protocol.grant makes more money than there may be");
    match setup.genesis.cluster().app.as_str() {
        "payments" => {
            executor(setup, PaymentLanes::new(chop.grant.into()).ok_or_else(refused)?, clients, log)
        }
        "auction" => {
            let auction = AuctionLanes::new(chop.grant.into(), chop.tokens).ok_or_else(refused)?;
            executor(setup, auction, clients, log)
        }
        "pixels" => executor(setup, PixelLanes, clients, log),
        _ => Err(invalid("cluster.app names no application of this build")),
    }
}

fn executor<P: LaneApp>(
    setup: &Setup,
    app: P,
    clients: u32,
    log: LaneLog,
) -> Result<Box<dyn Hosted>, SynError> {
    let lanes = setup.node.chop.lanes;
    let chop = cluster::chop(&setup.genesis)?;
    let batch_bytes = u64::from(chop.body_bytes_max) + 8 * u64::from(chop.batch_max) + 256;
    let config = BatchConfig {
        state: State::new(app, lanes, clients),
        own: setup.own,
        roster: setup.genesis.roster().clone(),
        limits: BatchLimits { batch_bytes, ..BatchLimits::default() },
    };
    let opened = Host::<BatchExecutor<P>>::open(host(setup, APPLICATION), config, log).map_err(damaged)?;
    Ok(Box::new(opened))
}

/// Where outputs go; nothing is kept back, so the order of each pair of machines is the order of what was said.
fn connect(watch: &Arc<Watch>) -> crate::plan::Connect {
    let watch = watch.clone();
    Box::new(move |machine, output, deliveries| match machine {
        SERVER => {
            if let Ok(output) = output.downcast::<ServerOutput>() {
                of_server(*output, &watch, deliveries);
            }
        }
        STORE => {
            if let Ok(output) = output.downcast::<StoreOutput>() {
                deliveries.input(SERVER, ServerInput::Store(*output));
            }
        }
        _ => of_application(output, &watch, deliveries),
    })
}

fn of_server(output: ServerOutput, watch: &Watch, deliveries: &mut Deliveries<'_>) {
    match output {
        ServerOutput::Store(input) => {
            if let StoreInput::Progress(progress) = &input {
                let mut seen = watch.chop().seen();
                (seen.height, seen.delivered) = (progress.height, seen.delivered.max(progress.delivered));
                (seen.stable, seen.collected) = (progress.stable, progress.collected);
                seen.directory = seen.directory.max(u64::from(progress.directory.len()));
            }
            deliveries.input(STORE, input);
        }
        ServerOutput::Apply(apply) => {
            let (batch, awaited) = (Box::new(columns(&apply)), apply.awaited);
            deliveries.input(APPLICATION, BatchInput::Apply { batch, awaited });
        }
        ServerOutput::Checkpoint { position, height, stable } => {
            deliveries.input(APPLICATION, BatchInput::Checkpoint { position, height, stable });
        }
        ServerOutput::Jump { position, height, root } => {
            deliveries.input(APPLICATION, BatchInput::Jump { position, height, root });
        }
        // The note beside it is what operators see.
        ServerOutput::FalseWitness { .. } => {}
    }
}

fn of_application(output: Box<dyn Any + Send>, watch: &Watch, deliveries: &mut Deliveries<'_>) {
    match output.downcast::<BatchOutput>().map(|output| *output) {
        Ok(BatchOutput::Applied { position, root }) => {
            deliveries.input(SERVER, ServerInput::Applied { position, root });
        }
        Ok(BatchOutput::Executed { height }) => deliveries.input(SERVER, ServerInput::Executed { height }),
        Ok(BatchOutput::Stuck) => deliveries.input(SERVER, ServerInput::Stuck),
        Ok(BatchOutput::Status(status)) => watch.application(status),
        Err(_) => {}
    }
}

/// A delivered batch as the application reads it; messages that are no operations stand as none.
fn columns(apply: &Apply) -> Batch {
    let Apply { height, position, time, draw, .. } = *apply;
    let time: Wall = time;
    let operations = match apply.batch.header().msg_size {
        8 => apply.batch.columns().messages().clone(),
        _ => synod_wire::Bytes::new(),
    };
    Batch {
        height,
        at: At { position, time, draw },
        directory: apply.directory,
        ids: apply.ids.clone(),
        operations,
        skipped: apply.exceptions.list().iter().map(|(index, _)| *index).collect(),
    }
}
