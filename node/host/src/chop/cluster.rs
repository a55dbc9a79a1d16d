//! From the genesis to what every role is told.

use std::path::Path;
use std::sync::Arc;

use synod_chopchop::config::{Class, Cluster, Rules};
use synod_chopchop::directory::{CHUNK_MEMBERS, Directory, MemberChunk};
use synod_config::{Chop, Genesis, MessageClass, NodeConfig, NodeKey, Simd, SynError, code};
use synod_crypto::Keys;
use synod_quorum::{Model, Quorums};

use crate::error::invalid;

/// Bytes of a client in the directory's file.
const MEMBER_BYTES: usize = 80;

/// What jobs of a server or broker sign and add up with.
pub(crate) fn keys(key: &NodeKey, node: &NodeConfig) -> Result<Keys, SynError> {
    let keys = key.to_bls_keys()?;
    if node.runtime.simd == Simd::Off {
        keys.distrust_vectors();
    }
    Ok(keys)
}

/// What only a genesis of protocol chopchop has.
pub(crate) fn chop(genesis: &Genesis) -> Result<&Chop, SynError> {
    genesis.chop().ok_or_else(|| invalid("the genesis is not of protocol chopchop"))
}

/// The cluster as every role knows it.
///
/// # Errors
/// SYN-1106 for a genesis of another protocol.
pub fn cluster(genesis: &Genesis) -> Result<Cluster, SynError> {
    let chop = chop(genesis)?;
    let bls =
        genesis.bls().cloned().ok_or_else(|| invalid("the members have no keys for multi-signatures"))?;
    let roster = genesis.roster().clone();
    let model = if genesis.ubft().is_some() { Model::Majority } else { Model::Byzantine };
    let quorums = Quorums::new(model, roster.size()).map_err(|_| invalid("a cluster has members"))?;
    let rules = Rules {
        batch_max: chop.batch_max,
        body_bytes_max: chop.body_bytes_max,
        horizon: u64::from(chop.expiry_horizon),
        checkpoint_every: u64::from(genesis.parameters().checkpoint_every),
    };
    Cluster::new(genesis.id(), roster, bls, quorums, rules).map_err(|rule| invalid(rule.0))
}

/// Lengths of the cluster's messages.
///
/// # Errors
/// SYN-1106 for a genesis of another protocol.
pub fn class(genesis: &Genesis) -> Result<Class, SynError> {
    let chop = chop(genesis)?;
    Ok(match chop.class {
        MessageClass::Variable => Class::Variable(chop.message_size),
        _ => Class::Fixed(chop.message_size),
    })
}

/// The clients that the genesis in `file` knows from the start; none when it names no directory.
///
/// # Errors
/// SYN-1101 if the file beside the genesis cannot be read, SYN-1105 if it is another one or no directory.
pub fn directory(genesis: &Genesis, file: &Path) -> Result<Directory, SynError> {
    let bytes = chop(genesis)?.directory_bytes(file)?;
    let chunks =
        bytes.chunks(CHUNK_MEMBERS * MEMBER_BYTES).map(|chunk| MemberChunk::decode(chunk).map(Arc::new));
    let read = chunks.collect::<Option<Vec<_>>>().and_then(Directory::restore);
    read.ok_or_else(|| {
        let shown = file.with_file_name(synod_config::DIRECTORY_FILE).display().to_string();
        let problem = "it is no directory: 80 bytes per client, no key twice";
        SynError::of(code::GENESIS_INVALID, &[("file", &shown), ("problem", problem)])
    })
}
