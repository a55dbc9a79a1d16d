//! The directory's keys as points, ready to be added up.
//!
//! Reading a key costs a square root and a check of its group, so each is read once, in a job, when it enters the
//! directory. Ids whose keys are not read yet do not count as known.
//!
//! *Bounds.* 104 bytes per client. Appending copies at most one chunk of 512 that a job still holds.

use std::sync::Arc;

use synod_crypto::Keys;
use synod_crypto::bls::BlsPublicKey;

use crate::directory::{CHUNK_MEMBERS, View, repeating};

/// Keys that one job reads at most.
pub(crate) const KEYS_PER_JOB: u32 = 8_192;

/// The keys of the first clients of a directory, as points; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct KeyBook {
    chunks: Vec<Arc<Vec<Option<BlsPublicKey>>>>,
    length: u32,
}

impl KeyBook {
    /// The keys of as many clients as [`View::repeating`] gives; `None` when it gives none. For load generators.
    #[must_use]
    pub fn repeating(keys: &[BlsPublicKey], length: u32) -> Option<Self> {
        let chunks = repeating(keys, length, |keys| keys.iter().copied().map(Some).collect())?;
        Some(Self { chunks, length })
    }

    /// Number of clients whose keys are here.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.length
    }

    /// Whether there is no key.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The key of client `id`; `None` beyond the last, and for a key that is no point.
    #[must_use]
    pub fn key(&self, id: u32) -> Option<BlsPublicKey> {
        let at = usize::try_from(id).ok()?;
        self.chunks.get(at / CHUNK_MEMBERS)?.get(at % CHUNK_MEMBERS).copied().flatten()
    }

    /// Appends the keys of the next clients.
    pub(crate) fn append(&mut self, keys: Vec<Option<BlsPublicKey>>) {
        for key in keys {
            match self.chunks.last_mut().filter(|chunk| chunk.len() < CHUNK_MEMBERS) {
                Some(chunk) => Arc::make_mut(chunk).push(key),
                None => self.chunks.push(Arc::new(vec![key])),
            }
            self.length += 1;
        }
    }

    /// Reads the keys of `view` from `from` on, [`KEYS_PER_JOB`] at most.
    pub(crate) fn read(view: &View, from: u32, keys: &Keys) -> Vec<Option<BlsPublicKey>> {
        let bls = keys.bls();
        let until = view.len().min(from.saturating_add(KEYS_PER_JOB));
        let members = (from..until).map_while(|id| view.member(id));
        members.map(|member| bls.vouched_key(&member.bls.0).ok()).collect()
    }

    /// Bytes held, for memory accounting.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        u64::from(self.length) * 104
    }
}
