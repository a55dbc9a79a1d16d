//! Batches as a broker would seal them, one after another, with genuine signatures.

use super::draw::{IdDraw, Sets, pick};
use super::ed25519::EdSigner;
use super::family::Members;
use bytes::Bytes;
use std::fmt;
use synod_chopchop::batch::{Batch, BatchFault, OwnedEntry, Plan, Seal, Sealed, Unsealable};
use synod_chopchop::columns::Straggler;
use synod_chopchop::config::Cluster;
use synod_chopchop::statement::{BlsSignatureBytes, Root, Submission};
use synod_chopchop::tree::{TreeShape, entry_root, root_commit};
use synod_crypto::{PublicKey, Statement as _};
use synod_machine::Rng;
use synod_quorum::NodeId;

/// The share of a whole.
const WHOLE: u64 = 1_000;

/// What is generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchPlan {
    /// How ids are drawn.
    pub ids: IdDraw,
    /// Entries of a batch, above 0.
    pub count: u32,
    /// Bytes of a message, above 0.
    pub msg_size: u16,
    /// Entries under the multi-signature, of a thousand; the others are stragglers.
    pub distilled: u16,
}

impl BatchPlan {
    /// Stragglers of a batch.
    #[must_use]
    pub fn stragglers(&self) -> u32 {
        let apart = WHOLE.saturating_sub(u64::from(self.distilled));
        u32::try_from((u64::from(self.count) * apart + WHOLE / 2) / WHOLE).unwrap_or(self.count)
    }
}

/// Why there is no such batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// A batch has no entry, or more than there are ids.
    Space,
    /// A batch breaks a rule of its format.
    Seal(Unsealable),
    /// A server would not take a batch in.
    Intake(BatchFault),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Space => f.write_str("a batch has at least one entry and at most one for each id"),
            Self::Seal(why) => write!(f, "no batch: {why}"),
            Self::Intake(why) => write!(f, "no server takes such a batch: {why}"),
        }
    }
}

impl std::error::Error for Unfit {}

/// Batches of one broker: the sequence number and the height rise by one with each.
pub struct Batches<'a> {
    members: &'a Members,
    cluster: &'a Cluster,
    plan: BatchPlan,
    sets: Sets,
    signer: EdSigner<'a>,
    rng: Rng,
    k: u64,
    /// How far below k the numbers of some stragglers are.
    lag: u64,
}

impl<'a> Batches<'a> {
    /// Batches of `plan` by `members`.
    ///
    /// # Errors
    /// [`Unfit::Space`].
    pub fn new(members: &'a Members, cluster: &'a Cluster, plan: BatchPlan) -> Result<Self, Unfit> {
        let sets = Sets::new(plan.ids, plan.count, members.length())?;
        let rng = Rng::new(u64::from(plan.msg_size), NodeId(plan.count), 2);
        let signer = members.family.ed.signer();
        Ok(Self { members, cluster, plan, sets, signer, rng, k: 0, lag: 1 })
    }

    /// The same, with the number of the batch for every straggler: none comes too late behind its last message.
    #[must_use]
    pub(super) fn in_step(mut self) -> Self {
        self.lag = 0;
        self
    }

    /// The next batch.
    ///
    /// # Errors
    /// [`Unfit`] when the plan means no batch that a server takes.
    pub fn draw(&mut self) -> Result<Sealed, Unfit> {
        self.k += 1;
        let entries = self.entries();
        let expiry = self.k + self.cluster.rules().horizon / 4;
        let sealed = self.seal((self.k, expiry), entries)?;
        sealed.header.intake(&self.cluster.intake(self.k)).map_err(Unfit::Intake)?;
        Ok(sealed)
    }

    /// A batch of these entries, as many as the plan says and in rising order of their ids, under this number and expiry.
    ///
    /// # Errors
    /// [`Unfit::Seal`] when entries and plan contradict each other.
    pub(super) fn seal(
        &mut self,
        (k, expiry): (u64, u64),
        entries: Vec<OwnedEntry>,
    ) -> Result<Sealed, Unfit> {
        self.k = k;
        let apart = pick(&mut self.rng, self.plan.stragglers(), self.plan.count);
        let stragglers = self.stragglers(&entries, &apart);
        let plan = Plan {
            broker: 0,
            msg_size: self.plan.msg_size,
            epoch: self.cluster.epoch(),
            k: self.k,
            expiry,
            directory: self.members.length(),
        };
        let aggregate = self.aggregate(&entries, &apart);
        let seal = Seal::new(plan, entries).with_stragglers(stragglers);
        seal.seal(self.cluster.domains(), aggregate).map_err(Unfit::Seal)
    }

    fn entries(&mut self) -> Vec<OwnedEntry> {
        let (ids, size) = (self.sets.next(), usize::from(self.plan.msg_size));
        let mut messages = Vec::with_capacity(ids.len() * size + 8);
        while messages.len() < ids.len() * size {
            messages.extend_from_slice(&self.rng.draw().to_le_bytes());
        }
        messages.truncate(ids.len() * size);
        let mut messages = Bytes::from(messages);
        let parity = self.k % 2 == 1;
        ids.into_iter().map(|id| OwnedEntry { id, message: messages.split_to(size), parity }).collect()
    }

    /// The signatures of the entries at `apart`, under numbers of which some are below k.
    fn stragglers(&mut self, entries: &[OwnedEntry], apart: &[u32]) -> Vec<Straggler> {
        let scope = self.cluster.scope();
        let of = |index: &u32| {
            let entry = entries.get(*index as usize)?;
            let (id, k) = (entry.id, self.k - self.lag * u64::from(*index % 2));
            let message = self.cluster.domains().msg.hash(&entry.message);
            let statement = Submission { id, k0: k, parity: entry.parity, message };
            let key = self.members.view.member(id)?.ed;
            Some((*index, k, self.members.behind(id), key, statement.signed_bytes(&scope)))
        };
        let signed: Vec<(u32, u64, u32, PublicKey, Vec<u8>)> = apart.iter().filter_map(of).collect();
        let signatures =
            self.signer.sign(signed.iter().map(|(_, _, by, key, bytes)| (*by, *key, bytes.as_slice())));
        let both = signed.iter().zip(signatures);
        both.map(|((index, k, ..), t)| Straggler { index: *index, k: *k, t }).collect()
    }

    /// What all entries but those at `apart` sign together.
    fn aggregate(&self, entries: &[OwnedEntry], apart: &[u32]) -> Option<BlsSignatureBytes> {
        let shape = TreeShape { count: self.plan.count, msg_size: self.plan.msg_size };
        let domains = self.cluster.domains();
        let root = entry_root(domains, &shape, entries.iter().map(OwnedEntry::as_entry));
        let statement = Root { root_commit: root_commit(domains, self.k, &shape, &root) };
        let mut apart = apart.iter().peekable();
        let together = (0_u32..).zip(entries).filter(|(index, _)| apart.next_if_eq(&index).is_none());
        let signers = together.map(|(_, entry)| self.members.behind(entry.id));
        let sum = self.members.family.bls.signed_by_all(&self.cluster.scope(), &statement, signers)?;
        Some(BlsSignatureBytes(sum.to_bytes()))
    }
}

/// A batch in which one message is not what its author signed.
pub struct Forged {
    /// The root is that of the forged messages: only the signatures can tell.
    pub rerooted: Sealed,
    /// The root is still that of the genuine ones.
    pub swapped: Sealed,
    /// Every message is genuine, but the signature of one straggler is wrong: of the first one at the entry or behind it, else of
    /// the last one. `None` of a batch without stragglers.
    pub resigned: Option<Sealed>,
}

impl Forged {
    /// Changes the message of entry `index` of `genuine`. `None` when it is no batch or has no such entry.
    #[must_use]
    pub fn of(cluster: &Cluster, genuine: &Sealed, index: u32) -> Option<Self> {
        let batch = Batch::open(genuine).ok()?;
        let columns = batch.columns();
        let owned = |(at, entry): (u32, synod_chopchop::columns::Entry<'_>)| {
            let mut message = entry.message.to_vec();
            if at == index {
                message.iter_mut().take(1).for_each(|byte| *byte ^= 1);
            }
            OwnedEntry { id: entry.id, message: message.into(), parity: entry.parity }
        };
        let header = &genuine.header;
        let sealed = |entries, stragglers| {
            let seal = Seal::new(plan_of(genuine), entries).with_stragglers(stragglers);
            let seal = seal.with_voids(columns.voids().collect());
            seal.seal(cluster.domains(), header.aggregate).ok()
        };
        let stragglers: Vec<Straggler> = columns.stragglers().collect();
        let rerooted = sealed((0..).zip(columns.entries()).map(owned).collect(), stragglers.clone())?;
        let swapped = Sealed { header: header.clone(), body: rerooted.body.clone() };
        let resigned = if stragglers.is_empty() {
            None
        } else {
            let genuine = (header.count..).zip(columns.entries()).map(owned).collect();
            Some(sealed(genuine, resigned(stragglers, index))?)
        };
        let forged = index < header.count && rerooted.header.root != header.root;
        forged.then_some(Self { rerooted, swapped, resigned })
    }
}

/// The signature of one of `stragglers` with a bit that is another one.
fn resigned(mut stragglers: Vec<Straggler>, index: u32) -> Vec<Straggler> {
    let last = stragglers.len().saturating_sub(1);
    let at = stragglers.iter().position(|straggler| straggler.index >= index).unwrap_or(last);
    // Of the scalar, below its order still.
    let scalar = stragglers.get_mut(at).and_then(|straggler| straggler.t.0.get_mut(32));
    scalar.into_iter().for_each(|byte| *byte ^= 1);
    stragglers
}

/// What a batch was sealed with.
pub(super) const fn plan_of(sealed: &Sealed) -> Plan {
    let header = &sealed.header;
    Plan {
        broker: header.broker,
        msg_size: header.msg_size,
        epoch: header.epoch,
        k: header.k,
        expiry: header.expiry,
        directory: header.directory,
    }
}

#[cfg(test)]
mod tests;
