//! What a load broker does: replays batches under rising numbers, and signs for the servers that are not there.

use crate::chop::batches::{BatchPlan, Batches, Unfit};
use crate::chop::family::{Members, SERVERS, server_keys};
use synod_chopchop::batch::{Batch, OwnedEntry, Plan, Seal, Sealed};
use synod_chopchop::config::Cluster;
use synod_chopchop::message::{StoreMessage, Upload};
use synod_chopchop::statement::{BlsSignatureBytes, Kind, Root, Witness};
use synod_chopchop::vocabulary::Message;
use synod_crypto::{Keys, Signature};
use synod_machine::Never;
use synod_quorum::NodeId;
use synod_wire::{Bytes, Wire as _};

/// A batch whose number and expiry are chosen when it is sent, and which of the family signed it.
struct Template {
    sealed: Sealed,
    signers: (u64, u64),
}

/// Batches to be replayed. Each is there twice, the second time with the other parity, so that no client's message is its
/// last one again; who signed is known as a sum, so that a fresh aggregate costs one signature.
pub struct Replay<'a> {
    cluster: &'a Cluster,
    members: &'a Members,
    pool: Vec<[Template; 2]>,
    absent: Vec<Keys>,
}

/// A batch on its way to the server.
pub(super) struct Sent {
    pub(super) number: u64,
    pub(super) frame: Bytes,
    pub(super) statement: Witness,
    pub(super) ask: bool,
    /// Of servers that are not there: one fewer than a witness needs if this one is asked.
    pub(super) shards: Vec<(NodeId, Signature)>,
}

impl<'a> Replay<'a> {
    /// Makes a pool of `size` batches of `plan`, fully distilled.
    ///
    /// # Errors
    /// [`Unfit`] when the plan means no batch that a server takes.
    pub fn new(
        cluster: &'a Cluster,
        members: &'a Members,
        plan: BatchPlan,
        size: usize,
    ) -> Result<Self, Unfit> {
        let mut batches = Batches::new(members, cluster, BatchPlan { distilled: 1_000, ..plan })?;
        let mut pool = Vec::with_capacity(size);
        for _ in 0..size {
            let first = batches.draw()?;
            let second = other_parity(cluster, &first)?;
            let steps = Batch::open(&first).map_err(Unfit::Intake)?.signers();
            let steps: u64 = steps.iter().map(|id| u64::from(members.behind(*id))).sum();
            let signers = (u64::from(first.header.count), steps);
            pool.push([first, second].map(|sealed| Template { sealed, signers }));
        }
        let absent = (1..SERVERS).map(server_keys).collect();
        Ok(Self { cluster, members, pool, absent })
    }

    /// Number of batches in the pool.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pool.len()
    }

    /// Whether there is nothing to replay.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pool.is_empty()
    }

    /// Batch `number`, counted from 1, which this server is asked to witness or not. `None` of an empty pool.
    pub(super) fn send(&self, number: u64, ask: bool) -> Option<Sent> {
        let turn = usize::try_from(number - 1).ok()?;
        let round = turn.checked_div(self.pool.len())?;
        let Template { sealed, signers } = self.pool.get(turn % self.pool.len())?.get(round % 2)?;
        let mut sealed = sealed.clone();
        sealed.header.k = number;
        sealed.header.expiry = number + self.cluster.rules().horizon / 4;
        let statement = Root { root_commit: sealed.header.root_commit(self.cluster.domains()) };
        let family = &self.members.family.bls;
        let together = family.signed_by_sum(&self.cluster.scope(), &statement, *signers)?;
        sealed.header.aggregate = Some(BlsSignatureBytes(together.to_bytes()));
        let witness = Witness {
            kind: Kind::Messages,
            digest: sealed.digest(self.cluster.domains()),
            expiry: sealed.header.expiry,
            count: sealed.header.count,
            body_len: sealed.header.body_len,
        };
        let wanted = self.cluster.quorums().one_correct() - u32::from(ask);
        let sign = |(id, keys): (u32, &Keys)| {
            let signed = keys.sign(self.cluster.scope(), NodeId(id), witness.clone());
            (NodeId(id), signed.signature)
        };
        let shards = (1..).zip(&self.absent).take(wanted as usize).map(sign).collect();
        let upload: Message<Never> = StoreMessage::Batch(Upload::messages(ask, sealed)).into();
        Some(Sent { number, frame: upload.encode(), statement: witness, ask, shards })
    }
}

/// The same ids and messages with the other parity. Its signature is that of the first: senders make another.
fn other_parity(cluster: &Cluster, first: &Sealed) -> Result<Sealed, Unfit> {
    let batch = Batch::open(first).map_err(Unfit::Intake)?;
    let entries = batch.columns().entries().map(|entry| OwnedEntry {
        id: entry.id,
        message: entry.message.to_vec().into(),
        parity: !entry.parity,
    });
    let plan = Plan {
        broker: first.header.broker,
        msg_size: first.header.msg_size,
        epoch: first.header.epoch,
        k: first.header.k,
        expiry: first.header.expiry,
        directory: first.header.directory,
    };
    let seal = Seal::new(plan, entries.collect());
    seal.seal(cluster.domains(), first.header.aggregate).map_err(Unfit::Seal)
}
