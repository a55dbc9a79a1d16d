//! Keys and nonces with a part of small order: the verdict on one signature never depends on its company (Chop Chop, T14).
//!
//! Such signatures are where checks with and without the cofactor part ways, so that one client's signature could make a batch
//! of thousands fail for one server and pass for another. 4,096 cases; `SYNOD_TORSION=100000` for all that the attack asks for.

use aws_lc_rs::digest::{Context, SHA512};
use bytes::Bytes;
use curve25519_dalek::Scalar;
use curve25519_dalek::constants::EIGHT_TORSION;
use curve25519_dalek::edwards::EdwardsPoint;
use synod_chopchop::batch::{OwnedEntry, Plan, Refusal, Seal, Sealed};
use synod_chopchop::columns::Straggler;
use synod_chopchop::config::Cluster;
use synod_chopchop::directory::{Member, View};
use synod_chopchop::keybook::KeyBook;
use synod_chopchop::statement::{BlsSignatureBytes, Root, Submission};
use synod_chopchop::store::{CheckBatch, Known, StoreDone, StoreJob, Task};
use synod_crypto::{
    Claim, Keys, PublicKey, ReadKey, Seed, Signature, Statement as _, verify_all, verify_all_read,
};
use synod_load::chop::{KeyFamily, cluster};
use synod_machine::{Job as _, Rng};
use synod_quorum::NodeId;

/// Entries of the batch.
const COUNT: u32 = 65_536;
/// Stragglers among them, and signatures that are checked together.
const TOGETHER: u32 = 4_096;
/// One in so many does not hold.
const FALSE_EVERY: u64 = 500;

fn number(rng: &mut Rng) -> Scalar {
    let mut bytes = [0; 64];
    bytes.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&rng.draw().to_le_bytes()));
    Scalar::from_bytes_mod_order_wide(&bytes)
}

fn small(rng: &mut Rng) -> EdwardsPoint {
    let at = usize::try_from(rng.below(8)).expect("below eight");
    EIGHT_TORSION[at]
}

fn challenge(nonce: &[u8; 32], key: &[u8; 32], message: &[u8]) -> Scalar {
    let mut hash = Context::new(&SHA512);
    [nonce.as_slice(), key, message].iter().for_each(|part| hash.update(part));
    Scalar::from_bytes_mod_order_wide(hash.finish().as_ref().try_into().expect("64 bytes"))
}

/// A signature over `statement` whose key and nonce may each have a part of small order.
fn signed(rng: &mut Rng, cluster: &Cluster, statement: &Submission, holds: bool) -> (PublicKey, Signature) {
    let (secret, nonce) = (number(rng), number(rng));
    let key = (EdwardsPoint::mul_base(&secret) + small(rng)).compress().to_bytes();
    let commitment = (EdwardsPoint::mul_base(&nonce) + small(rng)).compress().to_bytes();
    let mut response =
        nonce + challenge(&commitment, &key, &statement.signed_bytes(&cluster.scope())) * secret;
    if !holds {
        response += Scalar::ONE;
    }
    let mut bytes = [0; 64];
    bytes[..32].copy_from_slice(&commitment);
    bytes[32..].copy_from_slice(&response.to_bytes());
    (PublicKey(key), Signature(bytes))
}

fn servers() -> [Keys; 2] {
    [7, 8].map(|secret| Keys::ed25519(&Seed::new([1; 32]), [secret; 32]))
}

#[test]
fn t14_torsion_signatures_split_no_batch() {
    let cases =
        std::env::var("SYNOD_TORSION").ok().map_or(TOGETHER, |n| n.parse().expect("a number of cases"));
    let (cluster, servers) = (cluster(), servers());
    let (mut rng, mut refused, mut done) = (Rng::new(14, NodeId(0), 0), 0, 0);
    while done < cases {
        let mut claims = Vec::new();
        let mut holds = Vec::new();
        for id in 0..TOGETHER {
            let message = cluster.domains().msg.hash(&id.to_le_bytes());
            let statement = Submission { id, k0: rng.draw(), parity: id % 2 == 0, message };
            holds.push(rng.below(FALSE_EVERY) > 0);
            let (key, signature) = signed(&mut rng, &cluster, &statement, holds[id as usize]);
            claims.push(Claim { statement, scope: cluster.scope(), signer: NodeId(id), key, signature });
        }
        for keys in &servers {
            let verdicts: Vec<bool> = verify_all(claims.clone(), keys).iter().map(Result::is_ok).collect();
            assert_eq!(verdicts, holds, "one client's key or nonce changes nobody else's verdict");
            // Over keys that are read for it, and over those again.
            let mut known: Vec<Option<ReadKey>> = vec![None; claims.len()];
            for _ in 0..2 {
                let checked =
                    verify_all_read(claims.iter().cloned().zip(known.iter().copied()).collect(), keys);
                for (at, verdict) in checked.into_iter().enumerate() {
                    assert_eq!(verdict.is_ok(), holds[at], "{at}: what is known of keys changes no verdict");
                    known[at] = verdict.ok().and_then(|(_, new)| new).or(known[at]);
                }
            }
        }
        refused += holds.iter().filter(|holds| !**holds).count();
        for (claim, holds) in claims.into_iter().zip(holds).take(64) {
            assert_eq!(claim.verify(&servers[0]).is_ok(), holds, "alone as in company");
        }
        done += TOGETHER;
    }
    assert!(refused > 0 && done >= cases, "{refused} of {done} are refused");
}

/// A batch of 65,536 with genuine signatures, one in sixteen of them a straggler's.
struct Batch {
    cluster: Cluster,
    sealed: Sealed,
    view: View,
    keys: KeyBook,
}

impl Batch {
    fn new(cluster: Cluster, rng: &mut Rng, holds: impl Fn(u32) -> bool) -> Self {
        let family = KeyFamily::new(&Seed::new([9; 32]));
        let members = KeyFamily::new(&Seed::new([9; 32])).members(COUNT, COUNT).expect("whole chunks");
        let mut entries: Vec<Member> =
            (0..COUNT).map(|id| members.view.member(id).expect("all are there").clone()).collect();
        let owned = |id: u32| OwnedEntry {
            id,
            message: Bytes::copy_from_slice(&u64::from(id).to_le_bytes()),
            parity: false,
        };
        let apart: Vec<u32> = (0..TOGETHER).map(|n| n * (COUNT / TOGETHER) + n % 16).collect();
        let stragglers = apart.iter().map(|id| {
            let message = cluster.domains().msg.hash(&u64::from(*id).to_le_bytes());
            let statement = Submission { id: *id, k0: 1, parity: false, message };
            let (key, t) = signed(rng, &cluster, &statement, holds(*id));
            entries[*id as usize].ed = key;
            Straggler { index: *id, k: 1, t }
        });
        let stragglers = stragglers.collect();
        let plan =
            Plan { broker: 0, msg_size: 8, epoch: cluster.epoch(), k: 1, expiry: 900, directory: COUNT };
        let seal = Seal::new(plan, (0..COUNT).map(owned).collect()).with_stragglers(stragglers);
        let mut sealed = seal.seal(cluster.domains(), Some(BlsSignatureBytes([1; 96]))).expect("it is sound");
        let root = Root { root_commit: sealed.header.root_commit(cluster.domains()) };
        let signers = (0..COUNT).filter(|id| apart.binary_search(id).is_err());
        let sum = family.bls.signed_by_all(&cluster.scope(), &root, signers).expect("someone signs");
        sealed.header.aggregate = Some(BlsSignatureBytes(sum.to_bytes()));
        let view = View::repeating(&entries, COUNT).expect("whole chunks");
        Self { cluster, sealed, view, keys: members.keys }
    }

    /// What a witness says of it.
    fn verdict(&self, keys: &Keys) -> Result<(), Refusal> {
        let digest = self.sealed.digest(self.cluster.domains());
        let (batch, view, book) = (self.sealed.clone(), self.view.clone(), self.keys.clone());
        let check = CheckBatch { digest, batch, view, keys: book, cohorts: Known::default() };
        let task = Task::Batch(Box::new(check));
        match (StoreJob { cluster: self.cluster.clone(), from: NodeId(100), task }).run(keys) {
            StoreDone::Checked { verdict, mismatch: false, .. } => verdict.map(|_| ()),
            other => unreachable!("{other:?}"),
        }
    }
}

#[test]
fn t14_a_batch_of_65536_with_torsion_in_it_is_witnessed_by_all_or_by_none() {
    let mut rng = Rng::new(15, NodeId(0), 0);
    let whole = Batch::new(cluster(), &mut rng, |_| true);
    let spoiled = Batch::new(cluster(), &mut rng, |id| id != 16 * 77 + 77 % 16);
    for keys in servers() {
        assert_eq!(whole.verdict(&keys), Ok(()));
        assert_eq!(spoiled.verdict(&keys), Err(Refusal::Straggler), "what one lets pass, all do");
    }
}
