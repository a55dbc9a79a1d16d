//! The expensive work of a broker: signatures of clients and servers, trees, sums, seals.

use std::sync::Arc;

use synod_crypto::bls::{
    BlsCertificate, BlsClaim, BlsSignature, Registration, Share, StoredKey, Uncombined, combine, search,
};
use synod_crypto::{Claim, Hash, Keys, PublicKey, ReadKey, Signature, Verified, verify_all, verify_all_read};
use synod_machine::planted;
use synod_machine::{Cost, Job as Work};
use synod_quorum::{NodeId, NodeSet};

use super::open::Admitted;
use crate::batch::{OwnedEntry, Plan, Seal};
use crate::card::Card;
use crate::certificate::Legitimacy;
use crate::certified::certified;
use crate::columns::Straggler;
use crate::config::Cluster;
use crate::content::AnyBatch;
use crate::dedup::{Exceptions, exceptions_leaves};
use crate::directory::View;
use crate::keybook::{KEYS_PER_JOB, KeyBook};
use crate::message::{ExceptionProof, Submit};
use crate::signup::SealedSignUp;
use crate::statement::{
    BlsShareBytes, BlsSignatureBytes, Delivered, Height, Root, SignUp, State, Submission, Witness,
};
use crate::tree::{EntryTree, TreeShape};

/// Entries of a leaf of the exceptions tree.
pub(super) const LEAF_ENTRIES: u32 = 256;

/// A signer among the candidates of a search.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its entry.
    pub index: u32,
    /// Its key.
    pub key: StoredKey,
    /// The share of the link that came first.
    pub first: BlsSignature,
    /// The share of another link.
    pub other: Option<BlsSignature>,
}

/// What a search found.
#[derive(Clone, Debug, Default)]
pub struct Distilled {
    /// The aggregate of all entries that are not listed below; none when nobody's share is good.
    pub aggregate: Option<BlsSignatureBytes>,
    /// Entries whose first share is bad.
    pub bad_first: Vec<u32>,
    /// Entries whose other share is bad too.
    pub bad_other: Vec<u32>,
    /// Entries without a good share, or that the budget did not reach.
    pub left_out: Vec<u32>,
    /// Checks of sums.
    pub checks: u32,
    /// Entries that the budget did not reach.
    pub unresolved: u32,
}

/// What is sealed.
#[derive(Clone, Debug)]
pub enum ToSeal {
    /// Messages.
    Messages {
        /// What the header says beyond the entries.
        plan: Plan,
        /// The entries, by rising id.
        entries: Vec<OwnedEntry>,
        /// Those with signatures of their own.
        stragglers: Vec<Straggler>,
        /// The aggregate of the others.
        aggregate: Option<BlsSignatureBytes>,
    },
    /// Cards.
    Cards {
        /// The broker's number.
        broker: u32,
        /// Height from which it may not be accepted any more.
        expiry: u64,
        /// The cards.
        cards: Vec<Card>,
    },
}

/// What a broker has done elsewhere. Batches are named by their number.
#[derive(Clone, Debug)]
pub enum Task {
    /// Checks submissions as one batch (t_i), each for the key beside it, which may have been read before.
    Submissions(Vec<(Submitted, PublicKey, Option<ReadKey>)>),
    /// Checks why a submission is legitimate.
    Legitimacy(NodeId, Box<Submit>, Legitimacy),
    /// Grows the tree over a batch.
    Tree(u64, TreeShape, Vec<OwnedEntry>),
    /// Reads shares: entry, link, bytes.
    Shares(u64, Vec<(u32, NodeId, Box<BlsShareBytes>)>),
    /// Looks for bad shares, with this many checks at most.
    Search(u64, Hash, Vec<Candidate>, u32),
    /// Lays a batch out.
    Seal(u64, ToSeal),
    /// Checks shards.
    Shards(u64, Hash, Vec<Claim<Witness>>),
    /// Checks shards of a batch of an earlier life, as those of messages and as those of cards.
    Earlier(Hash, Box<[Vec<Claim<Witness>>; 2]>),
    /// Puts verdicts together.
    Verdicts(u64, Delivered, Exceptions, Vec<(NodeId, BlsSignatureBytes)>),
    /// Puts heights together.
    Heights(Height, Vec<(NodeId, BlsSignatureBytes)>),
    /// Puts states together.
    States(State, Vec<(NodeId, BlsSignatureBytes)>),
    /// Checks cards: possession and signature.
    Cards(Vec<(Card, NodeId)>),
    /// Reads keys of the directory.
    ReadKeys(View, u32),
    /// The root of a directory.
    Root(View),
}

/// A submission on its way to its check.
#[derive(Clone, Debug)]
pub struct Submitted(pub(super) Admitted);

/// A task and the cluster it is about.
#[derive(Clone, Debug)]
pub struct Job {
    /// The cluster.
    pub cluster: Cluster,
    /// What to do.
    pub task: Task,
}

/// Votes of servers, put together or not.
pub(super) type Combined<S> = Result<Verified<BlsCertificate<S>>, NodeSet>;

/// Shards by who gave each; none where it does not hold.
pub(super) type Shards = Vec<(NodeId, Option<Signature>)>;

/// The answer.
#[derive(Clone, Debug)]
pub enum Done {
    /// Submissions, and whether each is its client's; and clients' keys that were read for it.
    Submissions(Vec<(Submitted, bool)>, Vec<(u32, ReadKey)>),
    /// A submission, and whether its certificate holds.
    Legitimacy(NodeId, Box<Submit>, Legitimacy, bool),
    /// A tree.
    Tree(u64, Arc<EntryTree>),
    /// Shares that are on the curve, or not.
    Shares(u64, Vec<(u32, NodeId, Option<BlsSignature>)>),
    /// What a search found.
    Search(u64, Distilled),
    /// A batch as it travels, with its digest; none when a rule of the format is broken.
    Sealed(u64, Option<(Box<AnyBatch>, Hash)>),
    /// Shards of a batch, each verified or not.
    Shards(u64, Hash, Vec<(NodeId, Option<Signature>)>),
    /// Shards of a batch of an earlier life, each verified or not, of messages and of cards.
    Earlier(Hash, Box<[Shards; 2]>),
    /// A certificate of delivery and the leaves of its exceptions; or who lied.
    Verdicts(u64, Exceptions, Vec<ExceptionProof>, Combined<Delivered>),
    /// A certificate of a height; or who lied.
    Heights(Combined<Height>),
    /// A certificate of a state; or who lied.
    States(State, Combined<State>),
    /// Cards, and whether each is sound.
    Cards(Vec<(Card, NodeId, bool)>),
    /// Keys of clients from this id on.
    Keys(u32, Vec<Option<StoredKey>>),
    /// The root of a directory of this length.
    Root(u32, Hash),
}

/// A job at work.
struct Desk {
    cluster: Cluster,
}

impl Desk {
    /// Whether f + 1 servers stand behind the height that is shown.
    fn is_legitimate(&self, shown: &Legitimacy, keys: &Keys) -> bool {
        match shown {
            Legitimacy::Delivered(certificate) => {
                certified(certificate.statement.clone(), &certificate.aggregate, &self.cluster, keys).is_ok()
            }
            Legitimacy::Height(certificate) => {
                certified(certificate.statement.clone(), &certificate.aggregate, &self.cluster, keys).is_ok()
            }
        }
    }

    fn submissions(&self, of: Vec<(Submitted, PublicKey, Option<ReadKey>)>, keys: &Keys) -> Done {
        let (scope, domains) = (self.cluster.scope(), self.cluster.domains());
        let claims = of
            .iter()
            .map(|(Submitted(admitted), key, read)| {
                let Admitted { id, k0, parity, t, .. } = *admitted;
                let parity = parity && !planted!(C20);
                let message = domains.msg.hash(&admitted.message);
                let statement = Submission { id, k0, parity, message };
                (Claim { statement, scope, signer: NodeId::GUESTS, key: *key, signature: t }, *read)
            })
            .collect();
        let mut new = Vec::new();
        let checked = of.into_iter().zip(verify_all_read(claims, keys)).map(|((one, ..), verdict)| {
            let (holds, read) = verdict.map_or((false, None), |(_, read)| (true, read));
            new.extend(read.map(|read| (one.0.id, read)));
            (one, holds)
        });
        Done::Submissions(checked.collect(), new)
    }

    fn search(&self, commit: Hash, candidates: &[Candidate], budget: u32, keys: &Keys) -> Distilled {
        let (scope, root) = (self.cluster.scope(), Root { root_commit: commit });
        let shares: Vec<Share> =
            candidates.iter().map(|one| Share { key: one.key, signature: one.first }).collect();
        let found = search(root.clone(), scope, &shares, budget, keys);
        let at = |indices: &[u32]| -> Vec<&Candidate> {
            indices.iter().filter_map(|index| candidates.get(*index as usize)).collect()
        };
        let mut out = Distilled { checks: found.checks, ..Distilled::default() };
        let bad = at(&found.bad);
        let unresolved = at(&found.unresolved);
        out.bad_first = bad.iter().map(|one| one.index).collect();
        out.unresolved = u32::try_from(unresolved.len()).unwrap_or(u32::MAX);
        out.left_out = unresolved.iter().map(|one| one.index).collect();
        let mut good = found.good.map(Verified::into_inner);
        // Bad shares yield to those of other links, in a search of their own.
        let (again, without): (Vec<&Candidate>, Vec<&Candidate>) =
            bad.into_iter().partition(|one| one.other.is_some());
        out.left_out.extend(without.iter().map(|one| one.index));
        let others: Vec<Share> =
            again.iter().filter_map(|one| Some(Share { key: one.key, signature: one.other? })).collect();
        let left = budget.saturating_sub(found.checks + 1);
        let second = search(root, scope, &others, left, keys);
        out.checks += second.checks;
        let mut lost: Vec<u32> = second.bad.clone();
        lost.extend(&second.unresolved);
        out.bad_other = second.bad.iter().filter_map(|at| Some(again.get(*at as usize)?.index)).collect();
        let more = second.good.map(Verified::into_inner);
        if let Some(joined) = Self::join(good.as_ref(), more.as_ref(), keys) {
            good = Some(joined);
            out.left_out.extend(lost.iter().filter_map(|at| Some(again.get(*at as usize)?.index)));
        } else {
            out.left_out.extend(again.iter().map(|one| one.index));
        }
        out.left_out.sort_unstable();
        out.aggregate = good.map(|claim| BlsSignatureBytes(claim.signature.to_bytes()));
        out
    }

    /// Two sound sums as one, unless their keys cancel out.
    fn join(
        first: Option<&BlsClaim<Root>>,
        second: Option<&BlsClaim<Root>>,
        keys: &Keys,
    ) -> Option<BlsClaim<Root>> {
        let (Some(first), Some(second)) = (first, second) else { return second.cloned() };
        let mut joined = first.clone();
        joined.keys.add(&second.keys);
        let both = [first.signature, second.signature];
        joined.signature = keys.bls().sum_signatures(both).to_signature();
        (!joined.keys.is_infinity()).then_some(joined)
    }

    fn seal(&self, what: ToSeal) -> Option<(Box<AnyBatch>, Hash)> {
        let domains = self.cluster.domains();
        let batch = match what {
            ToSeal::Messages { plan, entries, stragglers, aggregate } => {
                let seal = Seal::new(plan, entries).with_stragglers(stragglers);
                AnyBatch::from(seal.seal(domains, aggregate).ok()?)
            }
            ToSeal::Cards { broker, expiry, cards } => {
                AnyBatch::from(SealedSignUp::seal(broker, self.cluster.epoch(), expiry, &cards)?)
            }
        };
        let (_, digest) = batch.name_and_digest(domains);
        Some((Box::new(batch), digest))
    }

    fn shards(claims: Vec<Claim<Witness>>, keys: &Keys) -> Vec<(NodeId, Option<Signature>)> {
        let verdicts = verify_all(claims, keys).into_iter();
        let each = verdicts.map(|verdict| match verdict {
            Ok(claim) => (claim.signer, Some(claim.signature)),
            Err(claim) => (claim.signer, None),
        });
        each.collect()
    }

    /// Votes of f + 1 servers for one statement, or those whose vote is none.
    fn combined<S: synod_crypto::Statement>(
        &self,
        statement: S,
        votes: &[(NodeId, BlsSignatureBytes)],
        keys: &Keys,
    ) -> Combined<S> {
        let bls = keys.bls();
        let (mut read, mut liars) = (Vec::new(), NodeSet::EMPTY);
        for (signer, bytes) in votes {
            match bls.signature(&bytes.0) {
                Ok(signature) => read.push((*signer, signature)),
                Err(_) => {
                    liars.insert(*signer);
                }
            }
        }
        if !liars.is_empty() {
            return Err(liars);
        }
        let quorums = *self.cluster.quorums();
        let of = (statement, self.cluster.scope());
        combine(of, &read, self.cluster.bls(), |set| quorums.has_correct(set), keys)
            .map_err(|Uncombined { liars, .. }| liars)
    }

    fn leaves(&self, exceptions: &Exceptions) -> Vec<ExceptionProof> {
        if exceptions.list().is_empty() {
            return Vec::new();
        }
        let domains = self.cluster.domains();
        (0..exceptions_leaves(exceptions.count()))
            .filter_map(|leaf| exceptions.prove(domains, leaf * LEAF_ENTRIES))
            .map(|(leaf, path)| ExceptionProof { leaf, path })
            .collect()
    }

    fn cards(&self, cards: Vec<(Card, NodeId)>, keys: &Keys) -> Vec<(Card, NodeId, bool)> {
        let scope = self.cluster.card_scope();
        let registrations: Vec<Registration> = cards
            .iter()
            .map(|(card, _)| {
                Registration::of_statement(card.bls().0, card.pop().0, &card.possession(), &scope)
            })
            .collect();
        let claims: Vec<Claim<SignUp>> = cards
            .iter()
            .map(|(card, _)| {
                let (key, signature) = (*card.ed(), *card.signature());
                Claim { statement: card.sign_up(), scope, signer: NodeId::GUESTS, key, signature }
            })
            .collect();
        let owned = keys.bls().register(&registrations);
        let signed = verify_all(claims, keys);
        let verdicts = owned.into_iter().zip(signed).map(|(owned, signed)| owned.is_ok() && signed.is_ok());
        cards.into_iter().zip(verdicts).map(|((card, link), sound)| (card, link, sound)).collect()
    }
}

impl Work for Job {
    type Done = Done;

    fn run(self, keys: &Keys) -> Done {
        let Self { cluster, task } = self;
        let desk = Desk { cluster };
        match task {
            Task::Submissions(of) => desk.submissions(of, keys),
            Task::Legitimacy(link, submit, shown) => {
                let holds = desk.is_legitimate(&shown, keys);
                Done::Legitimacy(link, submit, shown, holds)
            }
            Task::Tree(batch, shape, entries) => {
                let entries = entries.iter().map(OwnedEntry::as_entry);
                Done::Tree(batch, Arc::new(EntryTree::grow(desk.cluster.domains(), shape, entries)))
            }
            Task::Shares(batch, shares) => {
                let bls = keys.bls();
                let read = shares.into_iter().map(|(at, link, bytes)| (at, link, bls.share(&bytes.0).ok()));
                Done::Shares(batch, read.collect())
            }
            Task::Search(batch, commit, candidates, budget) => {
                Done::Search(batch, desk.search(commit, &candidates, budget, keys))
            }
            Task::Seal(batch, what) => Done::Sealed(batch, desk.seal(what)),
            Task::Shards(batch, digest, claims) => Done::Shards(batch, digest, Desk::shards(claims, keys)),
            Task::Earlier(digest, claims) => {
                Done::Earlier(digest, Box::new(claims.map(|claims| Desk::shards(claims, keys))))
            }
            Task::Verdicts(batch, statement, exceptions, votes) => {
                let leaves = desk.leaves(&exceptions);
                Done::Verdicts(batch, exceptions, leaves, desk.combined(statement, &votes, keys))
            }
            Task::Heights(statement, votes) => Done::Heights(desk.combined(statement, &votes, keys)),
            Task::States(statement, votes) => {
                Done::States(statement.clone(), desk.combined(statement, &votes, keys))
            }
            Task::Cards(cards) => Done::Cards(desk.cards(cards, keys)),
            Task::ReadKeys(view, from) => Done::Keys(from, KeyBook::read(&view, from, keys)),
            Task::Root(view) => Done::Root(view.len(), view.root(desk.cluster.domains())),
        }
    }

    fn cost(&self) -> Cost {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let certificate = Cost { pairing: 2, hash_to_curve: 1, subgroup: 1, ..Cost::default() };
        match &self.task {
            Task::Submissions(of) => Cost { batch_verify: number(of.len()), ..Cost::default() },
            Task::Shards(_, _, of) => Cost { batch_verify: number(of.len()), ..Cost::default() },
            Task::Earlier(_, of) => {
                Cost { batch_verify: number(of.iter().map(Vec::len).sum()), ..Cost::default() }
            }
            Task::Legitimacy(..) | Task::Verdicts(..) | Task::Heights(..) | Task::States(..) => certificate,
            Task::Tree(_, shape, _) => {
                Cost { hashed: u64::from(shape.count) * (64 + u64::from(shape.msg_size)), ..Cost::default() }
            }
            Task::Shares(_, of) => Cost { coded: 192 * of.len() as u64, ..Cost::default() },
            Task::Search(_, _, of, _) => Cost { key_add: number(of.len()) * 2, ..certificate },
            Task::Seal(_, ToSeal::Messages { entries, .. }) => {
                Cost { hashed: 100 * entries.len() as u64, ..Cost::default() }
            }
            Task::Seal(_, ToSeal::Cards { cards, .. }) => {
                Cost { hashed: 240 * cards.len() as u64, ..Cost::default() }
            }
            Task::Cards(of) => {
                let cards = number(of.len());
                Cost { pairing: cards + 1, subgroup: 2 * cards, batch_verify: cards, ..Cost::default() }
            }
            Task::ReadKeys(view, from) => {
                let keys = view.len().saturating_sub(*from).min(KEYS_PER_JOB);
                Cost { subgroup: keys, ..Cost::default() }
            }
            Task::Root(view) => Cost { hashed: 80 * u64::from(view.len()), ..Cost::default() },
        }
    }

    fn peer(&self) -> Option<NodeId> {
        match &self.task {
            Task::Legitimacy(link, ..) => Some(*link),
            _ => None,
        }
    }
}
