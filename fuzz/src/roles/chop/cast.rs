//! Who is who in Chop Chop's roles: four servers, eight clients, two brokers, all with keys of the simulator, and what they sign.

use synod_chopchop::batch::{OwnedEntry, Plan, Seal, Sealed};
use synod_chopchop::certificate::{Aggregate, Signers};
use synod_chopchop::columns::Straggler;
use synod_chopchop::config::{Cluster, Rules};
use synod_chopchop::directory::{Directory, Member};
use synod_chopchop::item::Item;
use synod_chopchop::message::{Submit, Upload};
use synod_chopchop::statement::{BlsKeyBytes, BlsSignatureBytes, Root, Submission, Witness};
use synod_chopchop::vocabulary::Message;
use synod_crypto::bls::BlsMembers;
use synod_crypto::{Hash, Keys, Statement};
use synod_machine::{Message as Spoken, Never, Queue};
use synod_quorum::{Epoch, Member as Voter, Model, NodeId, NodeSet, Quorums, Roster};
use synod_sim::{Crypto, Keyring};
use synod_wire::{Blob, Bytes, Wire};

use crate::tape::Tape;

/// Servers, of which one may be faulty.
pub(super) const SERVERS: u32 = 4;
/// Clients of the genesis.
pub(super) const CLIENTS: u32 = 8;
/// The broker of the genesis, and another one.
pub(super) const BROKERS: [NodeId; 2] = [NodeId(200), NodeId(201)];
/// The name of client 0 in the keyring.
const FIRST: u64 = 1_000;

/// What a message looks like on the wire.
pub(super) fn framed(message: &Message<Never>) -> (Queue, Vec<u8>) {
    let mut body = vec![<Message<Never> as Spoken>::VERSION];
    body.extend_from_slice(&message.encode());
    (message.queue(), body)
}

/// The keys and the cluster.
pub(super) struct Cast {
    pub(super) cluster: Cluster,
    ring: Keyring,
}

impl Cast {
    pub(super) fn new() -> Self {
        let ring = Keyring::new(Crypto::Toy, 1);
        let all: Vec<Keys> = (0..u64::from(SERVERS)).map(|id| ring.keys(id)).collect();
        let voters = all.iter().map(|keys| Voter { key: keys.public(), power: 1 }).collect();
        let bls = BlsMembers::new(all.iter().filter_map(Keys::bls_public).collect());
        let roster = Roster::new(Epoch(1), voters);
        let quorums = Quorums::new(Model::Byzantine, SERVERS);
        let rules = Rules { batch_max: 16, body_bytes_max: 4 << 10, horizon: 32, checkpoint_every: 4 };
        let (Ok(roster), Some(bls), Ok(quorums)) = (roster, bls, quorums) else {
            unreachable!("four distinct keys make a cluster")
        };
        match Cluster::new(super::super::CLUSTER, roster, bls, quorums, rules) {
            Ok(cluster) => Self { cluster, ring },
            Err(rule) => unreachable!("the rules are sound: {rule}"),
        }
    }

    /// The keys of a server.
    pub(super) fn server(&self, id: u32) -> Keys {
        self.ring.keys(u64::from(id))
    }

    /// The keys of a client.
    pub(super) fn client(&self, id: u32) -> Keys {
        self.ring.keys(FIRST + u64::from(id))
    }

    pub(super) fn directory(&self) -> Directory {
        let mut directory = Directory::default();
        for id in 0..CLIENTS {
            let keys = self.client(id);
            let Some(bls) = keys.bls_public() else { unreachable!("clients sign together") };
            directory.admit(&Member { bls: BlsKeyBytes(bls.to_bytes()), ed: keys.public() });
        }
        directory
    }

    /// What client `id` submits.
    pub(super) fn submit(&self, (id, k0): (u32, u64), word: u64, parity: bool) -> Submit {
        let bytes = Bytes::copy_from_slice(&word.to_le_bytes());
        let statement = Submission { id, k0, parity, message: self.cluster.domains().msg.hash(&bytes) };
        let t = self.client(id).sign(self.cluster.scope(), NodeId(id), statement).signature;
        let message = Blob::try_from(bytes).unwrap_or_default();
        Submit { id, k0, message, parity, t, legitimacy: None }
    }

    /// A batch of clients that the tape names, signed by them; now and then a byte of it is not what they signed.
    pub(super) fn batch(&self, tape: &mut Tape<'_>, k: u64, expiry: u64) -> Option<Sealed> {
        let (here, apart, void) = (tape.byte() | 1, tape.byte() & tape.byte(), tape.byte() & tape.byte());
        let of = |set: u8, id: u32| set >> id & 1 == 1;
        let words = tape.take(8);
        let entry = |id: u32| {
            let word = u64::from(words.get(id as usize).copied().unwrap_or(0) % 4);
            let message = Bytes::copy_from_slice(&word.to_le_bytes());
            OwnedEntry { id, message, parity: word % 2 == 1 }
        };
        let ids: Vec<u32> = (0..CLIENTS).filter(|id| of(here, *id)).collect();
        let entries: Vec<OwnedEntry> = ids.iter().map(|id| entry(*id)).collect();
        let (mut stragglers, mut voids, mut signers) = (Vec::new(), Vec::new(), Vec::new());
        for (index, entry) in (0_u32..).zip(&entries) {
            if of(void, entry.id) {
                voids.push(index);
            } else if of(apart, entry.id) {
                let (id, k) = (entry.id, k.saturating_sub(u64::from(index)));
                let message = self.cluster.domains().msg.hash(&entry.message);
                let statement = Submission { id, k0: k, parity: entry.parity, message };
                let t = self.client(id).sign(self.cluster.scope(), NodeId(id), statement).signature;
                stragglers.push(Straggler { index, k, t });
            } else {
                signers.push(entry.id);
            }
        }
        let plan =
            Plan { broker: 0, msg_size: 8, epoch: self.cluster.epoch(), k, expiry, directory: CLIENTS };
        let seal = Seal::new(plan, entries).with_stragglers(stragglers).with_voids(voids);
        let some = (!signers.is_empty()).then_some(BlsSignatureBytes([1; 96]));
        let mut sealed = seal.seal(self.cluster.domains(), some).ok()?;
        if !signers.is_empty() {
            let root = Root { root_commit: sealed.header.root_commit(self.cluster.domains()) };
            sealed.header.aggregate = Some(self.signed_by(&signers, &root));
        }
        if tape.below(8) == 1 && !sealed.body.is_empty() {
            let mut body = sealed.body.to_vec();
            let place = tape.below(body.len());
            body[place] ^= 1 << tape.below(8);
            sealed.body = Bytes::from(body);
        }
        Some(sealed)
    }

    /// What these clients sign together.
    fn signed_by(&self, clients: &[u32], root: &Root) -> BlsSignatureBytes {
        let scope = self.cluster.scope();
        let shares = clients.iter().filter_map(|id| self.client(*id).sign_bls(&scope, root));
        let sum = self.ring.keys(0).bls().sum_signatures(shares);
        BlsSignatureBytes(sum.to_signature().to_bytes())
    }

    /// What a set of servers says together, enough of them or not.
    pub(super) fn aggregate<S: Statement>(&self, servers: NodeSet, statement: &S) -> Option<Aggregate> {
        let scope = self.cluster.scope();
        let shares = servers.iter().filter_map(|id| self.server(id.0).sign_bls(&scope, statement));
        let sum = self.ring.keys(0).bls().sum_signatures(shares);
        let signature = BlsSignatureBytes(sum.to_signature().to_bytes());
        Some(Aggregate { signers: Signers::new(servers, SERVERS)?, signature })
    }

    /// An item with the shards of these servers.
    pub(super) fn item(&self, statement: &Witness, by: NodeSet) -> Option<Item> {
        let sign = |id: NodeId| self.server(id.0).sign(self.cluster.scope(), id, statement.clone()).signature;
        let shards = by.iter().map(sign).collect();
        Item::new(statement.clone(), Signers::new(by, SERVERS)?, shards)
    }
}

/// An upload of messages.
pub(super) const fn upload(ask: bool, batch: Sealed) -> Upload {
    Upload::messages(ask, batch)
}

/// Two servers that the tape names.
pub(super) fn two(tape: &mut Tape<'_>) -> NodeSet {
    let first = u32::from(tape.byte()) % SERVERS;
    let second = (first + 1 + u32::from(tape.byte()) % (SERVERS - 1)) % SERVERS;
    NodeSet::only(NodeId(first)).with(NodeId(second))
}

/// A state of an application at a height.
pub(super) fn root_of(height: u64) -> Hash {
    Hash::of(&height.to_le_bytes())
}
