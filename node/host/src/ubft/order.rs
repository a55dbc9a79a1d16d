//! uBFT under the servers of Chop Chop: what each is built from.
//!
//! *Sizes.* A payload is an item: the digest of a batch with the shards of f + 1 servers, 64 bytes each. A batch of 8 KiB holds the longest one.
//! Archives and the slots between two snapshots are the least that [`OrderingConfig::check`] takes.

use synod_config::{Genesis, SynError};
use synod_machine::broadcast::Position;
use synod_quorum::NodeId;
use synod_ubft::Parameters;
use synod_ubft::ordering::OrderingConfig;
use synod_ubft::replica::ReplicaConfig;
use synod_ubft::sessions::SessionLimits;

use super::settings::config_of;
use crate::error::invalid;

/// Entries that a server is given and did not apply, at most.
pub(crate) const AHEAD: u64 = 4_096;
/// Bytes of an item beside its shards, at most, and of a shard.
const ITEM: u32 = 128;
const SHARD: u32 = 64;
/// Bytes of a batch.
const BATCH_BYTES: u32 = 8 << 10;
/// Requests of a server that are on their way.
const SESSION_WINDOW: u32 = 64;

/// Makes the configuration of the ordering under the server `me`, wherever it resumes.
///
/// # Errors
/// SYN-1106 where the genesis makes none.
pub(crate) fn orderings(
    genesis: &Genesis,
    me: NodeId,
) -> Result<impl Fn(Position) -> OrderingConfig + Send + use<>, SynError> {
    let shards = u32::try_from(genesis.f()).unwrap_or(u32::MAX).saturating_add(1);
    let item = shards.saturating_mul(SHARD).saturating_add(ITEM);
    let sizes = Parameters {
        batch_bytes_max: BATCH_BYTES,
        request_inline_max: item,
        request_max: item,
        ..Parameters::default()
    };
    let replica = ReplicaConfig {
        config: config_of(genesis, me, sizes)?,
        // Clients speak with brokers: the sessions are those of the servers.
        sessions: SessionLimits { sessions_max: 1, session_window: SESSION_WINDOW, reply_max: 64 },
        archive_bytes_max: 0,
        fast_path: true,
    };
    let mut first = OrderingConfig {
        checkpoint_every: u64::from(genesis.parameters().checkpoint_every),
        ahead_max: AHEAD,
        ..OrderingConfig::new(replica, Position(0))
    };
    let half = u64::from(first.replica.config.parameters.window / 2);
    let apart = first.snapshot_slots_min().next_multiple_of(half);
    first.replica.config.parameters.snapshot_slots = u32::try_from(apart).unwrap_or(u32::MAX);
    first.replica.archive_bytes_max = first.archive_bytes_min();
    let sound = first.replica.config.quorums();
    sound.map_err(|why| invalid(&format!("the parameters make no ordering: {why:?}")))?;
    first.check().map_err(|why| invalid(&why.to_string()))?;
    if first.payload_max() < usize::try_from(item).unwrap_or(usize::MAX) {
        return Err(invalid("an item of so many servers is longer than a batch of ubft"));
    }
    Ok(move |resume| OrderingConfig { resume, ..first.clone() })
}

#[cfg(test)]
mod tests {
    use synod_config::{Address, Chop, Cluster, Member, MemoryMember, NodeKey, Protocol, Ubft};
    use synod_crypto::Seed;

    use super::*;

    fn genesis(servers: u8, every: u32, ubft: Ubft) -> Genesis {
        let key = |at: u8| NodeKey::from_seed(Seed::new([at; 32]));
        let member = |at: u8| {
            let (bls, pop) = key(at).bls_card().expect("the system has randomness");
            let port = 7_100 + 10 * u16::from(at);
            let plain = Member::new(&format!("n{at}"), Address::loopback(port), key(at).public());
            Member { client: Some(Address::loopback(port + 1)), bls: Some(bls), pop: Some(pop), ..plain }
        };
        let memory = MemoryMember {
            name: "m0".to_owned(),
            memory: Address::loopback(9_000),
            ed25519: key(200).public(),
        };
        let app = "payments".to_owned();
        let cluster = Cluster { name: "main".to_owned(), protocol: Protocol::Chopchop, app, drill: false };
        let parts = (every, Ubft { memory: vec![memory], ..ubft }, Chop::default());
        let made =
            Genesis::build_chop_over_ubft(cluster, parts, (0..servers).map(member).collect(), Vec::new());
        made.expect("it is in the ranges")
    }

    /// A genesis is for ever: what it accepts has to start, and to take items of all its servers.
    #[test]
    fn a_genesis_over_ubft_that_is_accepted_makes_an_ordering() {
        for servers in [3, 63] {
            for (every, window, tail) in [(16, 32, 16), (1_024, 512, 256), (8_192, 4_096, 1 << 16)] {
                let genesis = genesis(servers, every, Ubft { window, tail, ..Ubft::default() });
                let made = orderings(&genesis, NodeId(0)).map(|make| make(Position(7)));
                let made = made.unwrap_or_else(|error| unreachable!("{servers} {every} {window}: {error}"));
                assert_eq!((made.resume, made.checkpoint_every), (Position(7), u64::from(every)));
                // What docs/operating/ubft.md says of memory.
                let megabytes = made.replica.archive_bytes_max / 1_000_000;
                assert!(megabytes <= if every == 1_024 { 29 } else { 231 }, "{megabytes} MB");
            }
        }
    }
}
