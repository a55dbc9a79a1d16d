//! What a load broker does: sends batches under rising numbers, and signs for the servers that are not there.
//!
//! Who multi-signs signs a number for all together, so a body is sent again under another one with one fresh aggregate. A straggler
//! signs the number of its own message, and no message is delivered twice: a batch with one is made for its number, before the
//! clock runs, and sent once.

use crate::chop::batches::{BatchPlan, Batches, Unfit, plan_of};
use crate::chop::family::{Members, SERVERS, server_keys};
use synod_chopchop::batch::{Batch, OwnedEntry, Seal, Sealed};
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

/// Batches that were made beforehand.
enum Made {
    /// Bodies for all numbers. Each is there twice, the second time with the other parity, so that no client's message is its
    /// last one again; who signed is known as a sum, so that a fresh aggregate costs one signature.
    Again(Vec<[Template; 2]>),
    /// One batch for each number from 1 on.
    Once(Vec<(Sealed, Witness)>),
}

/// Batches to be sent: bodies again and again where all is distilled, else each batch once.
pub struct Replay<'a> {
    cluster: &'a Cluster,
    members: &'a Members,
    made: Made,
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
    /// Makes `size` batches of `plan`.
    ///
    /// # Errors
    /// [`Unfit`] when the plan means no batch that a server takes.
    pub fn new(
        cluster: &'a Cluster,
        members: &'a Members,
        plan: BatchPlan,
        size: usize,
    ) -> Result<Self, Unfit> {
        let mut batches = Batches::new(members, cluster, plan)?.in_step();
        let made = if plan.stragglers() == 0 {
            Made::Again(again(&mut batches, cluster, members, size)?)
        } else {
            let named = |sealed: Sealed| {
                let witness = statement(cluster, &sealed);
                (sealed, witness)
            };
            Made::Once((0..size).map(|_| batches.draw().map(named)).collect::<Result<_, _>>()?)
        };
        let absent = (1..SERVERS).map(server_keys).collect();
        Ok(Self { cluster, members, made, absent })
    }

    /// Number of batches that were made.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.made {
            Made::Again(pool) => pool.len(),
            Made::Once(series) => series.len(),
        }
    }

    /// Whether there is nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Batches that can be sent; `None` where there is no end of them.
    #[must_use]
    pub fn most(&self) -> Option<u64> {
        match &self.made {
            Made::Again(_) => None,
            Made::Once(series) => Some(u64::try_from(series.len()).unwrap_or(u64::MAX)),
        }
    }

    /// The first batch, as it is sent first.
    #[must_use]
    pub fn first(&self) -> Option<&Sealed> {
        match &self.made {
            Made::Again(pool) => pool.first().map(|[first, _]| &first.sealed),
            Made::Once(series) => series.first().map(|(sealed, _)| sealed),
        }
    }

    /// The same series with another first batch.
    #[cfg(test)]
    pub(super) fn beginning_with(mut self, sealed: Sealed) -> Self {
        let witness = statement(self.cluster, &sealed);
        if let Made::Once(series) = &mut self.made
            && let Some(first) = series.first_mut()
        {
            *first = (sealed, witness);
        }
        self
    }

    /// Batch `number`, counted from 1, which this server is asked to witness or not. `None` where there is none.
    pub(super) fn send(&self, number: u64, ask: bool) -> Option<Sent> {
        let turn = usize::try_from(number.checked_sub(1)?).ok()?;
        let (sealed, witness) = match &self.made {
            Made::Again(pool) => self.renumbered(pool, (turn, number))?,
            Made::Once(series) => series.get(turn)?.clone(),
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

    /// The body whose turn it is, under `number` and with a signature for it.
    fn renumbered(&self, pool: &[[Template; 2]], (turn, number): (usize, u64)) -> Option<(Sealed, Witness)> {
        let round = turn.checked_div(pool.len())?;
        let Template { sealed, signers } = pool.get(turn % pool.len())?.get(round % 2)?;
        let mut sealed = sealed.clone();
        sealed.header.k = number;
        sealed.header.expiry = number + self.cluster.rules().horizon / 4;
        let root = Root { root_commit: sealed.header.root_commit(self.cluster.domains()) };
        let family = &self.members.family.bls;
        let together = family.signed_by_sum(&self.cluster.scope(), &root, *signers)?;
        sealed.header.aggregate = Some(BlsSignatureBytes(together.to_bytes()));
        let witness = statement(self.cluster, &sealed);
        Some((sealed, witness))
    }
}

/// Bodies for all numbers.
fn again(
    batches: &mut Batches<'_>,
    cluster: &Cluster,
    members: &Members,
    size: usize,
) -> Result<Vec<[Template; 2]>, Unfit> {
    let body = |_| {
        let first = batches.draw()?;
        let second = other_parity(cluster, &first)?;
        let steps = Batch::open(&first).map_err(Unfit::Intake)?.signers();
        let steps: u64 = steps.iter().map(|id| u64::from(members.behind(*id))).sum();
        let signers = (u64::from(first.header.count), steps);
        Ok([first, second].map(|sealed| Template { sealed, signers }))
    };
    (0..size).map(body).collect()
}

/// What witnesses of a batch sign.
fn statement(cluster: &Cluster, sealed: &Sealed) -> Witness {
    Witness {
        kind: Kind::Messages,
        digest: sealed.digest(cluster.domains()),
        expiry: sealed.header.expiry,
        count: sealed.header.count,
        body_len: sealed.header.body_len,
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
    let seal = Seal::new(plan_of(first), entries.collect());
    seal.seal(cluster.domains(), first.header.aggregate).map_err(Unfit::Seal)
}
