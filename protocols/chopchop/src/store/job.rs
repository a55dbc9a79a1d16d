//! The work of a store: digests, checks of batches and cards, shards, keys of the directory.
//!
//! Only [`check`](CheckBatch) mints [`Sound`], so nothing is witnessed that was not checked.

use std::sync::Arc;

use synod_crypto::bls::{
    BlsClaim, BlsSignature, KeyAdder, Registration, StoredKey, verify_all as verify_all_bls,
};
use synod_crypto::{Claim, Hash, Keys, Scope, Verified, verify_all};
use synod_machine::planted;
use synod_machine::{Cost, Job};
use synod_quorum::NodeId;

use crate::batch::{Batch, Refusal, Sealed};
use crate::columns::Straggler;
use crate::config::Cluster;
use crate::content::AnyBatch;
use crate::directory::View;
use crate::keybook::KeyBook;
use crate::signup::SealedSignUp;
use crate::statement::{Root, SignUp, Submission, Witness};
use crate::store::cohort::{Cohort, Known};

/// Signatures of stragglers that are checked as one batch.
const TOGETHER: usize = 4_096;

/// Why a body is digested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// A broker sent it; whether it asks for a witness.
    Uploaded(bool),
    /// It was pulled for this digest.
    Pulled(Hash),
}

/// Proof that a batch passed every check of a witness. Only jobs make it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sound(());

/// A batch of messages to be checked.
#[derive(Clone, Debug)]
pub struct CheckBatch {
    /// Its digest.
    pub digest: Hash,
    /// The batch.
    pub batch: Sealed,
    /// The directory it is checked against.
    pub view: View,
    /// The keys of that directory.
    pub keys: KeyBook,
    /// Signers of earlier batches of its broker, and their sums.
    pub cohorts: Known,
}

/// Work for the pool.
#[derive(Clone, Debug)]
pub enum Task {
    /// Digests a body.
    Digest(Why, AnyBatch),
    /// BV1 to BV8.
    Batch(Box<CheckBatch>),
    /// Every card of a sign-up batch.
    Cards(Hash, SealedSignUp),
    /// Signs a shard.
    Shard(NodeId, Witness),
    /// Reads keys of a directory from this id on.
    Keys(View, u32),
}

/// A job of a store.
#[derive(Clone, Debug)]
pub struct StoreJob {
    /// The cluster.
    pub cluster: Cluster,
    /// Whose data it is.
    pub from: NodeId,
    /// What to do.
    pub task: Task,
}

/// The answer of a job.
#[derive(Clone, Debug)]
pub enum StoreDone {
    /// A body was digested.
    Digested {
        /// Who sent it.
        from: NodeId,
        /// Why.
        why: Why,
        /// The batch.
        batch: AnyBatch,
        /// Name of its body's blob.
        name: Hash,
        /// Its digest.
        digest: Hash,
    },
    /// A batch was checked.
    Checked {
        /// Its digest.
        digest: Hash,
        /// The verdict.
        verdict: Result<Sound, Refusal>,
        /// Whether the fast sum of keys was not the reference's.
        mismatch: bool,
        /// Signers and sum of their keys, if the pairing held over it.
        cohort: Option<Arc<Cohort>>,
    },
    /// A shard was signed.
    Shard(Verified<Claim<Witness>>),
    /// Keys were read.
    Keys {
        /// Of the ids from this one on.
        from: u32,
        /// The keys.
        keys: Vec<Option<StoredKey>>,
    },
}

/// What BV7 has to check, and who is said to have signed it.
type Signed = (BlsClaim<Root>, Arc<Cohort>);

/// What the keys of a batch's signers are said to have signed, before these are added up.
struct Said {
    signers: Arc<[u32]>,
    statement: Root,
    scope: Scope,
    signature: BlsSignature,
}

impl CheckBatch {
    /// BV1 to BV6 and BV8, and what BV7 is about, if there are signers.
    fn prepare(&self, cluster: &Cluster, keys: &Keys) -> Result<Option<Said>, Refusal> {
        let batch = Batch::open(&self.batch).map_err(|fault| fault.refusal())?;
        batch.check().map_err(|fault| fault.refusal())?;
        if batch.header().directory > self.view.len().min(self.keys.len()) {
            return Err(Refusal::Directory);
        }
        batch.check_root(cluster.domains()).map_err(|fault| fault.refusal())?;
        self.check_stragglers(&batch, cluster, keys)?;
        // BV8: decoding refuses a signature without signers and signers without a signature.
        let Some(aggregate) = &batch.header().aggregate else { return Ok(None) };
        let signature = keys.bls().signature(&aggregate.0).map_err(|_| Refusal::Aggregate)?;
        let statement = Root { root_commit: batch.root_commit(cluster.domains()) };
        Ok(Some(Said { signers: batch.signers(), statement, scope: cluster.scope(), signature }))
    }

    /// What BV7 has to check.
    fn add_up(&self, said: Said, adder: &mut KeyAdder<'_>) -> Result<Signed, Refusal> {
        let Said { signers, statement, scope, signature } = said;
        let cohort = self.cohorts.add_up(signers, &self.keys, adder).ok_or(Refusal::Aggregate)?;
        Ok((BlsClaim { statement, scope, keys: cohort.sum(), signature }, cohort))
    }

    /// BV6: every straggler signed its message under its own number.
    fn check_stragglers(&self, batch: &Batch, cluster: &Cluster, keys: &Keys) -> Result<(), Refusal> {
        if batch.header().stragglers == 0 {
            return Ok(());
        }
        let mut stragglers = batch.columns().stragglers().peekable();
        let mut claims = Vec::new();
        let scope = cluster.scope();
        for (index, entry) in (0_u32..).zip(batch.columns().entries()) {
            let Some(Straggler { k, t, .. }) = stragglers.next_if(|straggler| straggler.index == index)
            else {
                continue;
            };
            let member = self.view.member(entry.id).filter(|_| !planted!(C3) || !t.0.ends_with(&[0xff; 32]));
            let key = member.ok_or(Refusal::Ids)?.ed;
            let message = cluster.domains().msg.hash(entry.message);
            let parity = entry.parity && !planted!(C20);
            let statement = Submission { id: entry.id, k0: k, parity, message };
            claims.push(Claim { statement, scope, signer: NodeId(entry.id), key, signature: t });
            if claims.len() == TOGETHER {
                all_hold(core::mem::take(&mut claims), keys)?;
            }
        }
        all_hold(claims, keys)
    }

    /// The verdict on a claim that did not hold: the key sum is made anew by the reference path, whose verdict counts.
    fn confirm(&self, claim: BlsClaim<Root>, signers: &[u32], keys: &Keys) -> (Result<Sound, Refusal>, bool) {
        let again = claim.reconsider(signers.iter().filter_map(|id| self.keys.key(*id)), keys);
        if !again.adders_agree {
            keys.distrust_vectors();
        }
        (again.verdict.map(|_| Sound(())).map_err(|_| Refusal::Aggregate), !again.adders_agree)
    }
}

fn all_hold(claims: Vec<Claim<Submission>>, keys: &Keys) -> Result<(), Refusal> {
    if verify_all(claims, keys).iter().all(Result::is_ok) { Ok(()) } else { Err(Refusal::Straggler) }
}

/// Every card of a sign-up batch: canonical, possession in its group and of the key, signed by the other key.
fn check_cards(batch: &SealedSignUp, cluster: &Cluster, keys: &Keys) -> Result<Sound, Refusal> {
    let cards = batch.cards().map_err(|fault| fault.refusal())?;
    let scope = cluster.card_scope();
    for cards in cards.chunks(TOGETHER) {
        let claim = |card: &crate::card::Card| Claim::<SignUp> {
            statement: card.sign_up(),
            scope,
            signer: NodeId(u32::MAX),
            key: *card.ed(),
            signature: *card.signature(),
        };
        let registration = |card: &crate::card::Card| {
            Registration::of_statement(card.bls().0, card.pop().0, &card.possession(), &scope)
        };
        let signed = verify_all(cards.iter().map(claim).collect(), keys).iter().all(Result::is_ok);
        let registrations: Vec<Registration> = cards.iter().map(registration).collect();
        let possessed = planted!(C2) || keys.bls().register(&registrations).iter().all(Result::is_ok);
        if !signed || !possessed {
            return Err(Refusal::Card);
        }
    }
    Ok(Sound(()))
}

impl StoreJob {
    /// Does everything but BV7s, which are checked together.
    fn begin(self, keys: &Keys) -> Begun {
        let Self { cluster, from, task } = self;
        let done = match task {
            Task::Digest(why, batch) => {
                let (name, digest) = batch.name_and_digest(cluster.domains());
                StoreDone::Digested { from, why, batch, name, digest }
            }
            Task::Batch(check) => match check.prepare(&cluster, keys) {
                Ok(Some(said)) => return Begun::Said(check, Box::new(said)),
                Ok(None) => checked(check.digest, Ok(Sound(()))),
                Err(why) => checked(check.digest, Err(why)),
            },
            Task::Cards(digest, batch) => checked(digest, check_cards(&batch, &cluster, keys)),
            Task::Shard(own, witness) => StoreDone::Shard(keys.sign(cluster.scope(), own, witness.signed())),
            Task::Keys(view, from) => StoreDone::Keys { from, keys: KeyBook::read(&view, from, keys) },
        };
        Begun::Done(done)
    }
}

const fn checked(digest: Hash, verdict: Result<Sound, Refusal>) -> StoreDone {
    StoreDone::Checked { digest, verdict, mismatch: false, cohort: None }
}

/// A job after everything but BV7, and after everything but its pairing.
enum Begun {
    Done(StoreDone),
    Said(Box<CheckBatch>, Box<Said>),
    Signed(Box<CheckBatch>, Box<Signed>),
}

impl Begun {
    fn add_up(self, adder: &mut KeyAdder<'_>) -> Self {
        match self {
            Self::Said(check, said) => match check.add_up(*said, adder) {
                Ok(signed) => Self::Signed(check, Box::new(signed)),
                Err(why) => Self::Done(checked(check.digest, Err(why))),
            },
            other => other,
        }
    }
}

impl Job for StoreJob {
    type Done = StoreDone;

    fn run(self, keys: &Keys) -> StoreDone {
        let mut done = Self::run_all(vec![self], keys);
        done.pop().unwrap_or_else(|| unreachable!("one job has one answer"))
    }

    /// Sums are made late and one behind the other, so that each finds the newest ones that other threads have by then.
    fn run_all(jobs: Vec<Self>, keys: &Keys) -> Vec<StoreDone> {
        let begun: Vec<Begun> = jobs.into_iter().map(|job| job.begin(keys)).collect();
        let mut adder = keys.key_adder();
        let begun: Vec<Begun> = begun.into_iter().map(|begun| begun.add_up(&mut adder)).collect();
        drop(adder);
        let claims = begun.iter().filter_map(|begun| match begun {
            Begun::Signed(_, claim) => Some(claim.0.clone()),
            Begun::Done(_) | Begun::Said(..) => None,
        });
        let mut verdicts = verify_all_bls(claims.collect(), keys).into_iter();
        let finish = |begun| match begun {
            Begun::Done(done) => done,
            Begun::Said(..) => unreachable!("every sum was made"),
            Begun::Signed(check, signed) => {
                let (digest, (claim, cohort)) = (check.digest, *signed);
                match verdicts.next() {
                    Some(Ok(_)) => {
                        let verdict = Ok(Sound(()));
                        StoreDone::Checked { digest, verdict, mismatch: false, cohort: Some(cohort) }
                    }
                    Some(Err(_)) | None => {
                        let (verdict, mismatch) = check.confirm(claim, cohort.ids(), keys);
                        StoreDone::Checked { digest, verdict, mismatch, cohort: None }
                    }
                }
            }
        };
        begun.into_iter().map(finish).collect()
    }

    fn cost(&self) -> Cost {
        match &self.task {
            Task::Digest(_, batch) => Cost { hashed: batch.body.len() as u64, ..Cost::default() },
            Task::Batch(check) => {
                let header = &check.batch.header;
                let paired = u32::from(header.signers() > 0);
                Cost {
                    batch_verify: header.stragglers,
                    key_add: header.signers(),
                    pairing: 2 * paired,
                    hash_to_curve: paired,
                    subgroup: paired,
                    hashed: u64::from(header.count) * 64,
                    coded: check.batch.body.len() as u64,
                    ..Cost::default()
                }
            }
            Task::Cards(_, batch) => {
                let count = batch.header.count;
                Cost {
                    batch_verify: count,
                    pairing: count + 1,
                    hash_to_curve: count,
                    subgroup: 2 * count,
                    ..Cost::default()
                }
            }
            Task::Shard(..) => Cost { sign: 1, ..Cost::default() },
            Task::Keys(view, from) => {
                let count = view.len().saturating_sub(*from).min(crate::keybook::KEYS_PER_JOB);
                Cost { subgroup: count, ..Cost::default() }
            }
        }
    }

    fn peer(&self) -> Option<NodeId> {
        Some(self.from)
    }
}

#[cfg(test)]
mod tests {
    use super::{CheckBatch, StoreDone, StoreJob, Task};
    use crate::batch::{OwnedEntry, Plan, Refusal, Seal};
    use crate::by_hand::{client_keys, cluster, keys, member};
    use crate::directory::Directory;
    use crate::keybook::KeyBook;
    use crate::statement::{BlsSignatureBytes, Root};
    use crate::store::cohort::Known;
    use synod_machine::Job as _;
    use synod_quorum::NodeId;

    /// The verdict on a batch of these clients, under the infinite signature or that of client `by`.
    fn verdict(directory: &Directory, ids: &[u32], by: Option<u32>) -> Result<(), Refusal> {
        let (cluster, keys) = (cluster(), keys(0));
        let view = directory.view();
        let mut book = KeyBook::default();
        book.append(&KeyBook::read(&view, 0, &keys));
        let entry = |id: &u32| OwnedEntry { id: *id, message: vec![1; 8].into(), parity: false };
        let plan =
            Plan { broker: 0, msg_size: 8, epoch: cluster.epoch(), k: 0, expiry: 9, directory: view.len() };
        let mut infinite = [0; 96];
        infinite[0] = 0xc0;
        let seal = Seal::new(plan, ids.iter().map(entry).collect());
        let mut batch = seal.seal(cluster.domains(), Some(BlsSignatureBytes(infinite))).expect("sound");
        if let Some(by) = by {
            let root = Root { root_commit: batch.header.root_commit(cluster.domains()) };
            let signature = client_keys(by).sign_bls(&cluster.scope(), &root).expect("a key");
            batch.header.aggregate = Some(BlsSignatureBytes(signature.to_bytes()));
        }
        let digest = batch.digest(cluster.domains());
        let task =
            Task::Batch(Box::new(CheckBatch { digest, batch, view, keys: book, cohorts: Known::default() }));
        match (StoreJob { cluster, from: NodeId(100), task }).run(&keys) {
            StoreDone::Checked { verdict, mismatch: false, .. } => verdict.map(|_| ()),
            other => unreachable!("{other:?}"),
        }
    }

    #[test]
    fn a_key_and_its_negation_alone_stand_for_nobody() {
        // T13, row 13: their sum is infinity, and so is the sum of what they sign.
        let [one, mut negated, third] = [0, 1, 2].map(|id| member(&client_keys(id)));
        negated.bls = one.bls;
        negated.bls.0[0] ^= 0x20;
        let mut directory = Directory::default();
        for member in [one, negated, third] {
            assert!(directory.admit(&member).1);
        }
        for by in [None, Some(0), Some(2)] {
            assert_eq!(verdict(&directory, &[0, 1], by), Err(Refusal::Aggregate), "{by:?}");
        }
        assert_eq!(verdict(&directory, &[2], None), Err(Refusal::Aggregate), "an infinite signature");
        assert_eq!(verdict(&directory, &[0], Some(2)), Err(Refusal::Aggregate));
        // Beside another client the two cancel out, as their owner signed for both.
        assert_eq!(verdict(&directory, &[0, 1, 2], Some(2)), Ok(()));
        assert_eq!(verdict(&directory, &[0, 1, 2], Some(0)), Err(Refusal::Aggregate));
    }
}
