//! The work of a server: checks of items, lanes of deduplication, signatures, chunks of checkpoints.
//!
//! Only a check mints [`Witnessed`], so nothing is accepted that f + 1 servers did not witness.

use std::sync::{Arc, Weak};

use synod_crypto::{Claim, Hash, Keys, verify_all};
use synod_machine::broadcast::Position;
use synod_machine::planted;
use synod_machine::{Cost, Job};
use synod_quorum::NodeId;
use synod_wire::Bytes;

use super::record::RECENT_CHUNK;
use crate::batch::{Batch, Sealed};
use crate::card::Card;
use crate::config::Cluster;
use crate::dedup::{Chunk, Cut, Exceptions, Lane, Reason, Runs};
use crate::directory::{Assigned, MemberChunk, View};
use crate::item::Item;
use crate::message::{ExceptionList, SignedHeight, SignedState, Verdict};
use crate::signup::SealedSignUp;
use crate::statement::{BlsSignatureBytes, Delivered, Height, Kind, State, Witness};

/// Proof that f + 1 servers witnessed an item. Only jobs make it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Witnessed(());

/// What a verdict is about.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Messages: the batch and what of it was not delivered.
    Messages(Batch, Exceptions),
    /// Cards: the ids they have.
    Cards(Assigned),
}

/// A state as it was at one height; shares its chunks with the server.
#[derive(Clone, Debug)]
pub struct Frozen {
    /// The chunks of the table.
    pub dedup: Vec<Arc<Chunk>>,
    /// The directory.
    pub directory: View,
    /// The recent digests, rising.
    pub recent: Vec<Hash>,
}

/// The names of chunks that were hashed before; a chunk that was written since is not the same any more.
#[derive(Clone, Debug, Default)]
pub struct Named {
    pub(super) dedup: Vec<(Weak<Chunk>, Hash)>,
    pub(super) directory: Vec<(Weak<MemberChunk>, Hash)>,
    pub(super) ring: Vec<Hash>,
}

impl Named {
    /// Bytes held.
    pub(super) const fn bytes(&self) -> usize {
        48 * (self.dedup.len() + self.directory.len()) + 32 * self.ring.len()
    }
}

/// Work for the pool.
#[derive(Clone, Debug)]
pub enum ServerTask {
    /// Checks the shards of an item: of a broker, or of the order.
    Item(Option<NodeId>, Hash, Item),
    /// BV1 to BV4 of an ordered batch, and its runs by the lanes of a table that is cut like this.
    Split(u64, Sealed, Cut),
    /// Opens a sign-up batch.
    Cards(u64, SealedSignUp),
    /// One run against its lane.
    Dedup {
        /// The height of the batch.
        height: u64,
        /// Which run.
        at: usize,
        /// All runs.
        runs: Runs,
        /// The lane, by value.
        lane: Lane,
    },
    /// Signs what was delivered.
    Delivered(u64, Hash, Outcome),
    /// Signs a height, for a broker.
    Height(NodeId, Height),
    /// Signs where a client stands, for a broker.
    State(NodeId, State),
    /// Names the chunks of a state.
    Chunks(Position, Frozen, Named),
    /// The root of a directory.
    Root(View),
}

/// A job of a server, or of the ordering layer under it.
#[derive(Clone, Debug)]
pub enum ServerJob<J> {
    /// Of the server.
    Own(Box<(Cluster, ServerTask)>),
    /// Of the ordering layer.
    Order(J),
}

/// The answer of a job.
#[derive(Debug)]
pub enum ServerDone<D> {
    /// An item was checked.
    Item {
        /// Whose it is, unless it came by the order.
        from: Option<NodeId>,
        /// Hash of its encoding.
        name: Hash,
        /// The item.
        item: Item,
        /// Whether f + 1 shards hold.
        verdict: Option<Witnessed>,
    },
    /// A batch was split by such a cut; `None` when it breaks a rule.
    Split(u64, Cut, Option<Runs>),
    /// The cards of a sign-up batch; `None` when one is not canonical.
    Cards(u64, Option<Vec<Card>>),
    /// A run was deduplicated: height, which run, its lane, what was not delivered.
    Dedup(u64, usize, Lane, Vec<(u32, Reason)>),
    /// A verdict was signed.
    Delivered(Box<Verdict>),
    /// A height was signed, for a broker.
    Height(NodeId, SignedHeight),
    /// A state was signed.
    State(NodeId, SignedState),
    /// Chunks were named: the names, and the blobs that were not named before.
    Chunks(Position, Named, Vec<(Hash, Bytes)>),
    /// The root of a directory of this length.
    Root(u32, Hash),
    /// The keys of this server cannot sign together with others.
    NoKey,
    /// Of the ordering layer.
    Order(D),
}

fn check_item(item: &Item, cluster: &Cluster, keys: &Keys) -> Option<Witnessed> {
    if !cluster.is_witness(item.signers()) {
        return None;
    }
    let claim = |(signer, shard): (NodeId, &synod_crypto::Signature)| {
        let key = cluster.roster().member(signer)?.key;
        let statement: Witness = item.statement().signed();
        Some(Claim { statement, scope: cluster.scope(), signer, key, signature: *shard })
    };
    let claims: Option<Vec<_>> = item.signers().set().iter().zip(item.shards()).map(claim).collect();
    verify_all(claims?, keys).iter().all(Result::is_ok).then_some(Witnessed(()))
}

fn split(batch: &Sealed, cut: Cut) -> Option<Runs> {
    let batch = Batch::open(batch).ok()?;
    batch.check().ok()?;
    Runs::split_by(batch, cut)
}

/// What a verdict lists.
fn listed(exceptions: &Exceptions) -> Exceptions {
    let kept = |(_, reason): &&(u32, Reason)| !(planted!(C12) && *reason == Reason::Same);
    Exceptions::new(exceptions.count(), exceptions.list().iter().filter(kept).copied().collect())
}

/// What this server says of a delivered batch.
fn verdict(height: u64, digest: Hash, outcome: &Outcome, cluster: &Cluster, keys: &Keys) -> Option<Verdict> {
    let domains = cluster.domains();
    let (statement, exceptions) = match outcome {
        Outcome::Messages(batch, exceptions) => {
            let exceptions = &listed(exceptions);
            let statement = Delivered {
                height,
                kind: Kind::Messages,
                digest,
                root_commit: batch.root_commit(domains),
                exceptions_root: exceptions.root(domains),
                exc_count: exceptions.exc_count(),
            };
            (statement, ExceptionList::from(exceptions))
        }
        Outcome::Cards(assigned) => {
            let statement = Delivered {
                height,
                kind: Kind::SignUp,
                digest,
                root_commit: Hash::ZERO,
                exceptions_root: assigned.root(domains),
                exc_count: assigned.exc_count(),
            };
            (statement, ExceptionList::Pairs(Vec::new()))
        }
    };
    let signature = keys.sign_bls(&cluster.scope(), &statement)?;
    Some(Verdict { statement, exceptions, signature: BlsSignatureBytes(signature.to_bytes()) })
}

/// The name of a chunk, known before or made now.
fn name<C>(
    chunk: &Arc<C>,
    known: Option<&(Weak<C>, Hash)>,
    encode: impl Fn(&C) -> Bytes,
    blobs: &mut Vec<(Hash, Bytes)>,
) -> (Weak<C>, Hash) {
    let same = |known: &&(Weak<C>, Hash)| known.0.upgrade().is_some_and(|old| Arc::ptr_eq(&old, chunk));
    let name = known.filter(same).map(|(_, name)| *name).unwrap_or_else(|| {
        let bytes = encode(chunk);
        let name = Hash::of(&bytes);
        blobs.push((name, bytes));
        name
    });
    (Arc::downgrade(chunk), name)
}

fn chunks(frozen: &Frozen, known: &Named) -> (Named, Vec<(Hash, Bytes)>) {
    let mut blobs = Vec::new();
    let mut named = Named::default();
    for (at, chunk) in frozen.dedup.iter().enumerate() {
        named.dedup.push(name(chunk, known.dedup.get(at), Chunk::encode, &mut blobs));
    }
    for (at, chunk) in frozen.directory.chunks().iter().enumerate() {
        let encode = |chunk: &MemberChunk| Bytes::from(chunk.encode());
        named.directory.push(name(chunk, known.directory.get(at), encode, &mut blobs));
    }
    for part in frozen.recent.chunks(RECENT_CHUNK) {
        let bytes: Bytes = part.iter().flat_map(|digest| digest.0).collect();
        let name = Hash::of(&bytes);
        named.ring.push(name);
        if !known.ring.contains(&name) {
            blobs.push((name, bytes));
        }
    }
    (named, blobs)
}

fn run_own<D>(cluster: &Cluster, task: ServerTask, keys: &Keys) -> ServerDone<D> {
    match task {
        ServerTask::Item(from, name, item) => {
            let verdict = check_item(&item, cluster, keys);
            ServerDone::Item { from, name, item, verdict }
        }
        ServerTask::Split(height, batch, cut) => ServerDone::Split(height, cut, split(&batch, cut)),
        ServerTask::Cards(height, batch) => ServerDone::Cards(height, batch.cards().ok()),
        ServerTask::Dedup { height, at, runs, mut lane } => {
            let list = runs.runs().get(at).map(|run| lane.apply(&runs, run)).unwrap_or_default();
            ServerDone::Dedup(height, at, lane, list)
        }
        ServerTask::Delivered(height, digest, outcome) => verdict(height, digest, &outcome, cluster, keys)
            .map_or(ServerDone::NoKey, |verdict| ServerDone::Delivered(Box::new(verdict))),
        ServerTask::Height(to, statement) => {
            keys.sign_bls(&cluster.scope(), &statement).map_or(ServerDone::NoKey, |signature| {
                let signature = BlsSignatureBytes(signature.to_bytes());
                ServerDone::Height(to, SignedHeight { statement, signature })
            })
        }
        ServerTask::State(to, statement) => {
            keys.sign_bls(&cluster.scope(), &statement).map_or(ServerDone::NoKey, |signature| {
                let signature = BlsSignatureBytes(signature.to_bytes());
                ServerDone::State(to, SignedState { statement, signature })
            })
        }
        ServerTask::Chunks(position, frozen, known) => {
            let (named, blobs) = chunks(&frozen, &known);
            ServerDone::Chunks(position, named, blobs)
        }
        ServerTask::Root(view) => ServerDone::Root(view.len(), view.root(cluster.domains())),
    }
}

impl<J: Job> Job for ServerJob<J> {
    type Done = ServerDone<J::Done>;

    fn run(self, keys: &Keys) -> Self::Done {
        match self {
            Self::Own(own) => run_own(&own.0, own.1, keys),
            Self::Order(job) => ServerDone::Order(job.run(keys)),
        }
    }

    /// The ordering layer's jobs are grouped, so that it can check them together.
    fn run_all(jobs: Vec<Self>, keys: &Keys) -> Vec<Self::Done> {
        let mut order = Vec::new();
        let mut done: Vec<Option<Self::Done>> = Vec::with_capacity(jobs.len());
        for job in jobs {
            match job {
                Self::Own(own) => done.push(Some(run_own(&own.0, own.1, keys))),
                Self::Order(job) => {
                    order.push(job);
                    done.push(None);
                }
            }
        }
        let mut order = J::run_all(order, keys).into_iter().map(ServerDone::Order);
        let answer = |done: Option<Self::Done>| match done.or_else(|| order.next()) {
            Some(done) => done,
            None => unreachable!("every job has an answer"),
        };
        done.into_iter().map(answer).collect()
    }

    fn cost(&self) -> Cost {
        let own = match self {
            Self::Order(job) => return job.cost(),
            Self::Own(own) => &own.1,
        };
        let signed = |hashed: u64| Cost { sign: 1, hash_to_curve: 1, hashed, ..Cost::default() };
        match own {
            ServerTask::Item(_, _, item) => {
                Cost { batch_verify: item.signers().set().count(), ..Cost::default() }
            }
            ServerTask::Split(_, batch, _) => Cost { coded: batch.body.len() as u64, ..Cost::default() },
            ServerTask::Cards(_, batch) => Cost { coded: batch.body.len() as u64, ..Cost::default() },
            ServerTask::Dedup { runs, at, .. } => {
                let entries = runs.runs().get(*at).map_or(0, |run| run.entries.len());
                Cost { coded: 24 * entries as u64, ..Cost::default() }
            }
            ServerTask::Delivered(_, _, Outcome::Messages(batch, _)) => {
                signed(u64::from(batch.header().count) / 4)
            }
            ServerTask::Delivered(_, _, Outcome::Cards(assigned)) => signed(36 * assigned.ids().len() as u64),
            ServerTask::Height(..) | ServerTask::State(..) => signed(0),
            ServerTask::Chunks(_, frozen, _) => {
                let hashed = 32 * frozen.recent.len() + 65_536 * frozen.dedup.len();
                Cost { hashed: hashed as u64, ..Cost::default() }
            }
            ServerTask::Root(view) => Cost { hashed: 80 * u64::from(view.len()), ..Cost::default() },
        }
    }

    fn peer(&self) -> Option<NodeId> {
        match self {
            Self::Order(job) => job.peer(),
            Self::Own(own) => match &own.1 {
                ServerTask::Item(from, ..) => *from,
                ServerTask::Height(to, _) | ServerTask::State(to, _) => Some(*to),
                ServerTask::Split(..)
                | ServerTask::Cards(..)
                | ServerTask::Dedup { .. }
                | ServerTask::Delivered(..)
                | ServerTask::Chunks(..)
                | ServerTask::Root(_) => None,
            },
        }
    }
}
