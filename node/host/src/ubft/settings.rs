//! From the genesis to what replicas, memory nodes and clients of uBFT are built from.

use std::sync::Arc;

use synod_config::{Genesis, SynError, Ubft};
use synod_machine::Span;
use synod_quorum::NodeId;
use synod_service::memory::MemoryConfig;
use synod_ubft::batch::View;
use synod_ubft::sessions::SessionLimits;
use synod_ubft::{Config, Memory, Parameters};

use crate::error::invalid;

/// The machine that orders and, by its connector, executes; guests speak to it under the same number.
pub(super) const REPLICA: u8 = 0;
/// The machine of a memory node.
pub const MEMORY: u8 = 6;
/// The plan that replicas of protocol ubft and memory nodes share, of which each hosts one machine.
const PLAN: [u8; 2] = [REPLICA, MEMORY];
/// Longest operation.
pub(super) const OPERATION_MAX: u32 = 16 << 10;
/// Longest result: as many are kept for each session.
pub(super) const RESULT_MAX: usize = 16 << 10;
/// Sessions of clients.
const SESSIONS_MAX: u32 = 1_024;
/// Bytes of batches that are kept for whoever is behind.
pub(super) const ARCHIVE_BYTES_MAX: u64 = 64 << 20;
/// Operations of a replica that a memory node serves in a millisecond.
const QUOTA: u32 = 1_000;
/// The boot number of a memory node that never stopped: the only one that the first epoch lists.
pub const FIRST_BOOT: u64 = 1;
/// Frames a second of one replica: a slot takes some twenty of them.
const FRAMES_PER_SECOND: u64 = 1_000_000;

fn span(duration: std::time::Duration) -> Span {
    Span(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// What a genesis says of uBFT.
pub(super) fn stated(genesis: &Genesis) -> Result<&Ubft, SynError> {
    genesis.ubft().ok_or_else(|| invalid("the genesis does not order by ubft"))
}

/// The plan that members and memory nodes share.
pub(super) fn plan(genesis: &Genesis) -> &'static [u8] {
    if genesis.chop().is_some() { &crate::chop::OVER_UBFT } else { &PLAN }
}

/// What replicas and clients are built from; a client is built as if it were the first replica.
///
/// # Errors
/// SYN-1106 if the genesis orders otherwise, or its parameters make no replica.
pub fn config(genesis: &Genesis, me: NodeId) -> Result<Config, SynError> {
    let sizes = Parameters {
        batch_bytes_max: 2 * OPERATION_MAX,
        request_inline_max: OPERATION_MAX,
        request_max: OPERATION_MAX,
        ..Parameters::default()
    };
    config_of(genesis, me, sizes)
}

/// The same with these sizes; the genesis says the rest.
pub(super) fn config_of(genesis: &Genesis, me: NodeId, sizes: Parameters) -> Result<Config, SynError> {
    let from = stated(genesis)?;
    let first = genesis.roster().size();
    let memory =
        (first..).take(from.memory.len()).map(|id| Memory { node: NodeId(id), boot: FIRST_BOOT }).collect();
    let config = Config {
        cluster: genesis.id(),
        epoch: genesis.roster().epoch(),
        me,
        roster: Arc::new(genesis.roster().clone()),
        first_view: View(0),
        memory,
        parameters: Parameters {
            tail: from.tail,
            window: from.window,
            batch_max: from.batch_max,
            fast: span(from.fast_wait),
            echo: span(from.fast_wait / 2),
            suspect: span(from.suspect_wait),
            merge_promises: from.merge_promises,
            ..sizes
        },
    };
    config.quorums().map_err(|why| invalid(&format!("the parameters make no replica: {why:?}")))?;
    Ok(config)
}

pub(super) fn sessions() -> SessionLimits {
    let reply_max = u32::try_from(RESULT_MAX).unwrap_or(u32::MAX);
    SessionLimits { sessions_max: SESSIONS_MAX, reply_max, ..SessionLimits::default() }
}

/// What a memory node of this cluster is built from.
pub(super) fn memory_config(genesis: &Genesis) -> Result<MemoryConfig, SynError> {
    let replicas = genesis.roster().size();
    let faulty = u32::try_from(genesis.f()).unwrap_or(u32::MAX);
    let registers = replicas.saturating_sub(1).saturating_mul(stated(genesis)?.tail);
    Ok(MemoryConfig { members: replicas, faulty, registers, quota: QUOTA })
}

/// Limits of the network that what replicas say to one another fits.
pub(crate) fn limits() -> synod_net::Limits {
    synod_net::Limits { member_frames_per_second: FRAMES_PER_SECOND, ..synod_net::Limits::default() }
}
