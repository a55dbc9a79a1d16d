//! The signatures of members, made where they cost nobody's turn.

use std::sync::Arc;

use synod_chopchop::card::Card;
use synod_chopchop::config::Cluster;
use synod_chopchop::statement::{
    BlsKeyBytes, BlsShareBytes, BlsSignatureBytes, Possession, Root, SignUp, Submission,
};
use synod_crypto::{Hash, Keys, PublicKey, Seed, Signature, Statement as _};
use synod_machine::{Cost, Job as Work};

use super::member::Half;
use super::root::{MadeFrom, Signs};
use crate::chop::family::KeyFamily;

/// Signatures that making the first share under a root costs as much as.
const SIGN_FIRST: usize = 60;

/// What every job reads.
pub(super) struct Shared {
    pub(super) family: Arc<KeyFamily>,
    pub(super) cluster: Cluster,
    /// The first member of the family.
    pub(super) first: u32,
    /// The Ed25519 keys of the members.
    pub(super) ed: Vec<PublicKey>,
}

/// What is signed. Nonces count from the number given: no two jobs of a process share one.
#[derive(Clone)]
pub(super) enum Task {
    Submissions(u64, Vec<(u32, Submission)>),
    Shares(Half, Hash, MadeFrom, Vec<Signs>),
    Cards(u64, Vec<u32>),
}

/// A task and the keys it needs.
pub struct Job {
    pub(super) shared: Arc<Shared>,
    pub(super) task: Task,
}

/// The answer: members and their signatures.
pub enum Done {
    /// The signature of each submission, and its number.
    Submissions(Vec<(u32, u64, Signature)>),
    /// Shares under a root: of which member, to which broker.
    Shares([u8; 16], Vec<(u32, u32, BlsShareBytes)>),
    /// Cards; none where a key is not canonical, which does not happen.
    Cards(Vec<(u32, Option<Box<Card>>)>),
}

impl Shared {
    pub(super) fn new(family: Arc<KeyFamily>, cluster: Cluster, (first, count): (u32, u32)) -> Self {
        let ed = family.ed.keys(first, count);
        Self { family, cluster, first, ed }
    }

    fn key(&self, member: u32) -> PublicKey {
        self.ed.get(member as usize).copied().unwrap_or(PublicKey([0; 32]))
    }

    /// Signs what members say, under nonces from `nonce` on.
    fn sign<'a>(&self, nonce: u64, said: &'a [(u32, Vec<u8>)]) -> Vec<Signature> {
        let of = |(member, bytes): &'a (u32, Vec<u8>)| (self.first + *member, self.key(*member), &bytes[..]);
        self.family.ed.signer_at(nonce).sign(said.iter().map(of))
    }

    fn submissions(&self, nonce: u64, all: &[(u32, Submission)]) -> Vec<(u32, u64, Signature)> {
        let scope = self.cluster.scope();
        let said: Vec<(u32, Vec<u8>)> =
            all.iter().map(|(member, submission)| (*member, submission.signed_bytes(&scope))).collect();
        let signatures = self.sign(nonce, &said);
        all.iter().zip(signatures).map(|((member, of), t)| (*member, of.k0, t)).collect()
    }

    fn shares(&self, root_commit: Hash, from: &MadeFrom, signs: &[Signs]) -> Vec<(u32, u32, BlsShareBytes)> {
        let (scope, statement) = (self.cluster.scope(), Root { root_commit });
        let shares = from.get_or_init(|| self.family.bls.under(&scope, &statement));
        let signers: Vec<u32> = signs.iter().map(|(_, signer, _)| self.first + *signer).collect();
        let made = shares.of(&signers).into_iter().map(|share| BlsShareBytes(share.to_share()));
        signs.iter().zip(made).map(|((at, _, broker), share)| (*at, *broker, share)).collect()
    }

    fn cards(&self, nonce: u64, members: &[u32]) -> Vec<(u32, Option<Box<Card>>)> {
        let scope = self.cluster.card_scope();
        let sign_up = |member: &u32| {
            let secret = self.family.bls.secret(self.first + *member);
            let (bls, ed) = (BlsKeyBytes(secret.public().to_bytes()), self.key(*member));
            // Who proves possession has an Ed25519 key too; this one signs nothing.
            let keys = Keys::ed25519(&Seed::new([1; 32]), [0; 32]).with_bls(secret);
            let pop = BlsSignatureBytes(keys.possess(&scope, &Possession { bls, ed })?);
            Some((*member, SignUp { bls, ed, pop }))
        };
        let all: Vec<(u32, SignUp)> = members.iter().filter_map(sign_up).collect();
        let said: Vec<(u32, Vec<u8>)> =
            all.iter().map(|(member, said)| (*member, said.signed_bytes(&scope))).collect();
        let signatures = self.sign(nonce, &said);
        let card = |((member, said), signature): ((u32, SignUp), Signature)| {
            (member, Card::new(said.bls, said.ed, said.pop, signature).ok().map(Box::new))
        };
        all.into_iter().zip(signatures).map(card).collect()
    }
}

impl Work for Job {
    type Done = Done;

    fn run(self, _: &Keys) -> Done {
        match self.task {
            Task::Submissions(nonce, all) => Done::Submissions(self.shared.submissions(nonce, &all)),
            Task::Shares(half, commit, from, signs) => {
                Done::Shares(half, self.shared.shares(commit, &from, &signs))
            }
            Task::Cards(nonce, members) => Done::Cards(self.shared.cards(nonce, &members)),
        }
    }

    fn cost(&self) -> Cost {
        let sign = match &self.task {
            Task::Submissions(_, all) => all.len(),
            Task::Shares(_, _, _, signs) => signs.len() + SIGN_FIRST,
            Task::Cards(_, members) => 2 * members.len(),
        };
        Cost { sign: u32::try_from(sign).unwrap_or(u32::MAX), ..Cost::default() }
    }
}
