//! The real applications beside servers: batches executed in lanes, as nodes do.
//!
//! *Why.* The chain of digests (`keeper`) shows that servers deliver the same; that an application makes the same of it, and
//! what its rules say, is another thing. How many lanes a server has changes with its every life, since it may not matter.

use core::any::Any;

use synod_auction::AuctionLanes;
use synod_chopchop::server::{Apply, ServerInput, ServerOutput};
use synod_machine::Unrecoverable;
use synod_machine::host::{Host, HostConfig, Hosted, LaneLog};
use synod_payments::PaymentLanes;
use synod_quorum::{NodeId, Roster};
use synod_service::lanes::{Batch, LaneApp, State};
use synod_service::{At, BatchConfig, BatchExecutor, BatchInput, BatchLimits, BatchOutput};
use synod_sim::{Draws, Routed, Scenario, Stream};

use super::plan::{KEEPER, SERVER};
use super::world;
use crate::params::number;

/// What is beside the servers of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum App {
    /// The chain of digests.
    Chain,
    /// Payments, and what every account opens with.
    Payments(u64),
    /// An auction: what every client opens with, and the number of tokens.
    Auction(u64, u32),
}

impl App {
    /// That of a scenario.
    #[must_use]
    pub fn of(scenario: &Scenario) -> Self {
        let grant = number(scenario, "grant", 100);
        match number(scenario, "app", 0) {
            0 => Self::Chain,
            1 => Self::Payments(grant),
            _ => Self::Auction(grant, u32::try_from(number(scenario, "tokens", 3)).unwrap_or(3)),
        }
    }

    /// An operation for its clients, of which there are `clients`: much that breaks a rule, and what only credits of the same
    /// batch would pay for.
    #[must_use]
    pub fn operation(self, clients: u64, stream: &mut Stream) -> Option<[u8; 8]> {
        let (low, grant) = match self {
            Self::Chain => return None,
            Self::Payments(grant) => (stream.below(clients + 1), grant),
            Self::Auction(grant, tokens) => {
                let token = stream.below(u64::from(tokens) + 1);
                (u64::from(stream.chance(300_000)) | token << 1, grant)
            }
        };
        let amount = match stream.below(100) {
            0..25 => 1,
            25..32 => 0,
            32..45 => grant,
            // One more than there is at first: any credit of the same batch would pay for it.
            45..75 => grant + 1,
            75..80 => u64::from(u32::MAX),
            _ => 1 + stream.below(2 * grant),
        };
        let taking = matches!(self, Self::Auction(..)) && low & 1 == 1 && !stream.chance(100_000);
        let amount = if taking { 0 } else { amount };
        let odd = if stream.chance(20_000) { 1 << 28 } else { 0 };
        Some((low | odd | amount << 32).to_le_bytes())
    }
}

/// Builds the executor of a server that has `clients` of its genesis.
///
/// # Errors
/// The log contradicts itself, or the scenario makes more money than there may be.
pub fn host(
    scenario: &Scenario,
    (app, clients): (App, u32),
    config: HostConfig,
    (own, roster, life): (NodeId, Roster, u32),
    log: LaneLog,
) -> Result<Box<dyn Hosted>, Unrecoverable> {
    let entity = u64::from(own.0) << 32 | u64::from(life);
    let lanes = *Draws::new(scenario.seed).stream("lanes", entity).pick(&[1, 2, 7, 16]).unwrap_or(&1);
    let small = u32::try_from(number(scenario, "app_small", 0)).unwrap_or(0);
    let place = Place { config, own, roster, lanes, small, clients };
    let refused = || Unrecoverable("a grant makes more money than there may be".to_owned());
    match app {
        App::Payments(grant) => place.open(PaymentLanes::new(grant).ok_or_else(refused)?, log),
        App::Auction(grant, tokens) => place.open(AuctionLanes::new(grant, tokens).ok_or_else(refused)?, log),
        App::Chain => Err(Unrecoverable("the chain of digests has no lanes".to_owned())),
    }
}

struct Place {
    config: HostConfig,
    own: NodeId,
    roster: Roster,
    lanes: u8,
    small: u32,
    clients: u32,
}

impl Place {
    fn open<P: LaneApp>(self, app: P, log: LaneLog) -> Result<Box<dyn Hosted>, Unrecoverable> {
        let config = BatchConfig {
            state: State::new(app, self.lanes, self.clients),
            own: self.own,
            roster: self.roster,
            limits: BatchLimits { small: self.small, results_bytes: 64 << 10, ..BatchLimits::default() },
        };
        Ok(Box::new(Host::<BatchExecutor<P>>::open(self.config, config, log)?))
    }
}

/// What a machine says goes to its neighbours, or to the user, where an executor stands beside the server.
pub(crate) fn connect(machine: u8, output: Box<dyn Any + Send>) -> Routed {
    let output = match output.downcast::<BatchOutput>() {
        Ok(said) => {
            return match *said {
                BatchOutput::Applied { position, root } => {
                    Routed::Machine(SERVER, Box::new(ServerInput::Applied { position, root }))
                }
                BatchOutput::Executed { height } => {
                    Routed::Machine(SERVER, Box::new(ServerInput::Executed { height }))
                }
                BatchOutput::Stuck => Routed::Machine(SERVER, Box::new(ServerInput::Stuck)),
                BatchOutput::Status(_) => Routed::Harness(said),
            };
        }
        Err(output) => output,
    };
    match world::connect(machine, output) {
        Routed::Machine(KEEPER, said) => match said.downcast::<ServerOutput>().map(|said| input(*said)) {
            Ok(Some(input)) => Routed::Machine(KEEPER, Box::new(input)),
            Ok(None) => Routed::Harness(Box::new(())),
            Err(other) => Routed::Harness(other),
        },
        other => other,
    }
}

fn input(said: ServerOutput) -> Option<BatchInput> {
    Some(match said {
        ServerOutput::Apply(apply) => {
            BatchInput::Apply { batch: Box::new(columns(&apply)), awaited: apply.awaited }
        }
        ServerOutput::Checkpoint { position, height, stable } => {
            BatchInput::Checkpoint { position, height, stable }
        }
        ServerOutput::Jump { position, height, root } => BatchInput::Jump { position, height, root },
        ServerOutput::Store(_) | ServerOutput::FalseWitness { .. } => return None,
    })
}

fn columns(apply: &Apply) -> Batch {
    Batch {
        height: apply.height,
        at: At { position: apply.position, time: apply.time, draw: apply.draw },
        directory: apply.directory,
        ids: apply.ids.clone(),
        operations: apply.batch.columns().messages().clone(),
        skipped: apply.exceptions.list().iter().map(|(index, _)| *index).collect(),
    }
}
