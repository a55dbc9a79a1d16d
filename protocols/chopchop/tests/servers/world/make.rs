//! Batches made by hand, of clients whose keys the test has.

use synod_chopchop::batch::{OwnedEntry, Plan, Seal, Sealed};
use synod_chopchop::columns::Straggler;
use synod_chopchop::config::Cluster;
use synod_chopchop::directory::{Directory, Member};
use synod_chopchop::statement::{BlsKeyBytes, BlsSignatureBytes, Root, Submission};
use synod_crypto::Keys;
use synod_quorum::NodeId;
use synod_sim::Keyring;
use synod_wire::Bytes;

/// The name of client 0 in the keyring.
const CLIENTS: u64 = 1_000;

/// What a batch is made of. Clients not named otherwise sign the root.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    pub(crate) k: u64,
    pub(crate) expiry: u64,
    pub(crate) directory: u32,
    pub(crate) entries: Vec<(u32, Vec<u8>, bool)>,
    /// Indices of stragglers, with their numbers.
    pub(crate) stragglers: Vec<(u32, u64)>,
    pub(crate) voids: Vec<u32>,
}

impl Recipe {
    /// Eight bytes of each of these clients, parity 0.
    pub(crate) fn of(k: u64, entries: &[(u32, u64)]) -> Self {
        let entries = entries.iter().map(|(id, word)| (*id, word.to_le_bytes().to_vec(), false)).collect();
        Self { k, expiry: 1_000, directory: 16, entries, stragglers: Vec::new(), voids: Vec::new() }
    }

    /// Every entry under its own signature and this number.
    pub(crate) fn all_straggle(mut self) -> Self {
        self.stragglers =
            (0..self.entries.len()).map(|at| (u32::try_from(at).expect("few"), self.k)).collect();
        self
    }
}

/// The clients.
#[derive(Clone)]
pub(crate) struct Maker {
    pub(crate) cluster: Cluster,
    pub(crate) ring: Keyring,
}

impl Maker {
    pub(crate) fn client(&self, id: u32) -> Keys {
        self.ring.keys(CLIENTS + u64::from(id))
    }

    pub(crate) fn member(&self, id: u32) -> Member {
        let keys = self.client(id);
        Member { bls: BlsKeyBytes(keys.bls_public().expect("a key").to_bytes()), ed: keys.public() }
    }

    /// A directory of clients 0 to `length` - 1.
    pub(crate) fn directory(&self, length: u32) -> Directory {
        let mut directory = Directory::default();
        for id in 0..length {
            assert_eq!(directory.admit(&self.member(id)), (Some(id), true));
        }
        directory
    }

    fn straggler(&self, recipe: &Recipe, index: u32, k: u64) -> Straggler {
        let (id, message, parity) = recipe.entries[index as usize].clone();
        let message = self.cluster.domains().msg.hash(&message);
        let statement = Submission { id, k0: k, parity, message };
        let t = self.client(id).sign(self.cluster.scope(), NodeId(id), statement).signature;
        Straggler { index, k, t }
    }

    /// The batch of a recipe, signed by its clients.
    pub(crate) fn batch(&self, recipe: &Recipe) -> Sealed {
        let Recipe { k, expiry, directory, .. } = *recipe;
        let msg_size = u16::try_from(recipe.entries[0].1.len()).expect("short");
        let plan = Plan { broker: 0, msg_size, epoch: self.cluster.epoch(), k, expiry, directory };
        let entry = |(id, message, parity): &(u32, Vec<u8>, bool)| OwnedEntry {
            id: *id,
            message: Bytes::from(message.clone()),
            parity: *parity,
        };
        let stragglers: Vec<Straggler> =
            recipe.stragglers.iter().map(|(index, k)| self.straggler(recipe, *index, *k)).collect();
        let apart: Vec<u32> =
            stragglers.iter().map(|s| s.index).chain(recipe.voids.iter().copied()).collect();
        let signers: Vec<u32> = (0_u32..)
            .zip(&recipe.entries)
            .filter(|(index, _)| !apart.contains(index))
            .map(|(_, entry)| entry.0)
            .collect();
        let seal = Seal::new(plan, recipe.entries.iter().map(entry).collect())
            .with_stragglers(stragglers)
            .with_voids(recipe.voids.clone());
        let some = (!signers.is_empty()).then_some(BlsSignatureBytes([1; 96]));
        let mut sealed = seal.seal(self.cluster.domains(), some).expect("a sound recipe");
        if !signers.is_empty() {
            let root = Root { root_commit: sealed.header.root_commit(self.cluster.domains()) };
            let scope = self.cluster.scope();
            let sign = |id: &u32| self.client(*id).sign_bls(&scope, &root).expect("a secret");
            let sum = self.ring.keys(0).bls().sum_signatures(signers.iter().map(sign));
            sealed.header.aggregate = Some(BlsSignatureBytes(sum.to_signature().to_bytes()));
        }
        sealed
    }
}
