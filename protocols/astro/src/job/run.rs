//! Running what replicas have computed, and what it costs.

use super::{Made, Work};
use crate::batch::{Auth, Content, Line, Opened, digest_of, root};
use crate::cut::{Counted, Cut, CutSign, CutSigned, CutState};
use crate::dependency::{self, Credit, Credited, Vouch, With};
use crate::spoken::forged;
use crate::together::{self, Points, Signer};
use crate::witness::{self};
use crate::words::{Authorized, Receipt, Settled};
use std::sync::Arc;
use synod_crypto::bls::StoredKey;
use synod_crypto::{Claim, Keys, PublicKey, Scope, Signature, Verified, verify_all, verify_evidence};
use synod_ledger::Digests;
use synod_machine::Cost;
use synod_machine::broadcast::{Except, Lot, View};
use synod_quorum::{Epoch, NodeId};

impl Work {
    pub(super) fn run(self, keys: &Keys) -> Made {
        match self {
            Self::Read { lot, payload, profile, purpose } => {
                Made::Read { lot, purpose, opened: Opened::read_as(profile, &payload).map(Arc::new) }
            }
            Self::Check { opened, view, keys: owners, points, recalled } => {
                let (forged, said) = forged(&opened, &view, &recalled, keys);
                let keys = check(&opened, &view, (&owners, &points), keys);
                Made::Checked { opened, keys, forged, said }
            }
            Self::Points { registrar, from, keys: wanted } => {
                Made::Points { registrar, from, keys: points(&wanted, keys) }
            }
            Self::Invite { number, leaves } => Made::Invited(together::invite(number, &leaves)),
            Self::AddUp { number, view, root, shares, points } => {
                let (owners, signature) = together::add_up((&view, root), &shares, &points, keys);
                Made::AddedUp { number, owners, signature }
            }
            Self::Witness { opened, view, me, keys: wanted, points } => {
                let good = check(&opened, &view, (&wanted, &points), keys);
                let word = witness::bear((&view, me), &opened, (&wanted, &good), keys);
                Made::Witnessed { opened, wanted, keys: good, word }
            }
            Self::Look { view, from, word } => {
                let is_good =
                    witness::claim(&view, from, &word).is_some_and(|claim| claim.verify(keys).is_ok());
                Made::Looked { from, word: is_good.then_some(word) }
            }
            Self::Admit { view, orders } => Made::Admitted { orders: admitted(orders, &view, keys) },
            Self::Vouch { view, me, of, ids, digests, open, to } => {
                let root = root(&digests);
                let statement = Credited { context: view.context, root, open: open.digest() };
                let signature = keys.sign(view.scope(), me, statement).signature;
                let member = me.member().expect("a replica is a member");
                let credit = Credit { of, root, vouch: Vouch { member, open, signature } };
                Made::Vouched { credit, ids, digests, to }
            }
            Self::Credit { view, from, credit } => {
                let claim = dependency::claim(&view, credit.root, &credit.vouch);
                let is_good = claim.is_some_and(|claim| claim.verify(keys).is_ok());
                Made::Credit { from, credit: is_good.then_some(credit) }
            }
            Self::Build { shard, lot, prev, content, withs } => built((shard, lot, prev), content, withs),
            Self::Sign { view, me, settled, open } => Made::Signed(receipt((&view, me), settled, open, keys)),
            Self::Receipt { view, from, receipt } => {
                let is_good =
                    receipt_claim(&view, from, &receipt).is_some_and(|claim| claim.verify(keys).is_ok());
                Made::Receipt { from, receipt: is_good.then_some(receipt) }
            }
            Self::Bundle { from, bundle, view, proofs } => {
                let digests = (proofs.check)(&bundle, &view, keys);
                Made::Bundle { from, bundle, digests }
            }
            Self::Root { view, me, cut, counted } => rooted(&view, me, &cut, *counted, keys),
            Self::CutSign { view, from, sign } => {
                Made::CutSign { from, sign: is_signed(&view, from, &sign, keys).then_some(sign) }
            }
            Self::CutCertified { view, from, certified } => {
                let certificate = certified.certificate.clone();
                let is_good = certified.fits()
                    && verify_evidence(certificate, keys, view.cluster, &view.roster).is_ok();
                Made::CutCertified { from, certified: is_good.then_some(certified) }
            }
        }
    }

    pub(super) fn cost(&self) -> Cost {
        match self {
            Self::Read { payload, .. } => {
                let bytes = payload.len() as u64;
                Cost { hashed: 2 * bytes, coded: bytes, ..Cost::default() }
            }
            Self::Check { opened, recalled, .. } => {
                signed_cost(opened) + Cost { batch_verify: recalled.fresh, ..Cost::default() }
            }
            Self::Witness { opened, .. } => signed_cost(opened) + Cost { sign: 1, ..Cost::default() },
            Self::Points { keys, .. } => {
                let keys = u32::try_from(keys.iter().flatten().count()).unwrap_or(u32::MAX);
                Cost { subgroup: keys, ..Cost::default() }
            }
            Self::Invite { leaves, .. } => Cost {
                hashed: 256 * leaves.len() as u64,
                coded: 512 * leaves.len() as u64,
                ..Cost::default()
            },
            Self::AddUp { shares, .. } => {
                let shares = u32::try_from(shares.len()).unwrap_or(u32::MAX);
                Cost { pairing: 2, hash_to_curve: 1, key_add: shares.saturating_mul(4), ..Cost::default() }
            }
            Self::Build { content, .. } => {
                let lines = content.lines.len() + content.imports.len();
                let bytes = (lines * size_of::<Line>()) as u64;
                Cost { hashed: 2 * bytes, coded: bytes, ..Cost::default() }
            }
            Self::Vouch { digests, .. } => {
                Cost { sign: 1, hashed: 64 * digests.len() as u64, ..Cost::default() }
            }
            Self::Sign { .. } => Cost { sign: 1, ..Cost::default() },
            Self::Admit { orders, .. } => {
                Cost { batch_verify: u32::try_from(orders.len()).unwrap_or(u32::MAX), ..Cost::default() }
            }
            Self::Look { .. } | Self::Receipt { .. } | Self::Credit { .. } | Self::CutSign { .. } => {
                Cost { verify: 1, ..Cost::default() }
            }
            Self::Root { counted, .. } => {
                // A leaf of some 700 bytes with its salt and its rest, and a node of as many above it.
                Cost { sign: 1, hashed: 1_400 * counted.accounts.len() as u64, ..Cost::default() }
            }
            Self::CutCertified { certified, .. } => {
                let signed = certified.certificate.signed.len();
                Cost { batch_verify: u32::try_from(signed).unwrap_or(u32::MAX), ..Cost::default() }
            }
            Self::Bundle { bundle, view, .. } => {
                let hashed = (bundle.proven.len() * 2 * size_of::<Line>()) as u64;
                let quorum = u32::try_from(view.roster.weights().intersecting()).unwrap_or(u32::MAX);
                Cost { hashed, batch_verify: quorum, ..Cost::default() }
            }
        }
    }

    pub(super) fn peer(&self) -> Option<NodeId> {
        match self {
            Self::Read { lot, .. } => Some(NodeId(u32::from(lot.source))),
            Self::Check { opened, .. } | Self::Witness { opened, .. } => {
                Some(NodeId(u32::from(opened.lot().source)))
            }
            Self::Look { from, .. }
            | Self::Receipt { from, .. }
            | Self::Bundle { from, .. }
            | Self::Credit { from, .. }
            | Self::CutSign { from, .. }
            | Self::CutCertified { from, .. } => Some(*from),
            Self::Root { cut, .. } => Some(NodeId(u32::from(cut.proposer))),
            Self::Admit { .. }
            | Self::Build { .. }
            | Self::Sign { .. }
            | Self::Vouch { .. }
            | Self::Points { .. }
            | Self::Invite { .. }
            | Self::AddUp { .. } => None,
        }
    }
}

/// Puts a batch together.
fn built(
    (shard, lot, prev): (u16, Lot, synod_crypto::Hash),
    content: Content,
    withs: Option<Vec<Option<With>>>,
) -> Made {
    let opened = match withs {
        Some(withs) => Opened::backed(shard, lot, prev, content, withs),
        None => Opened::of(shard, lot, prev, content),
    };
    let payload = opened.payload();
    Made::Built(Arc::new(opened), payload)
}

/// Signs that a batch has settled, but for what is open.
fn receipt((view, me): (&View, NodeId), settled: Settled, open: Except, keys: &Keys) -> Receipt {
    let Settled { lot, digest, .. } = settled;
    let signature = keys.sign(view.scope(), me, settled).signature;
    let member = me.member().expect("a replica is a member");
    Receipt { lot, digest, open, member, signature }
}

/// Checks owners' signatures on orders; who vouches for nobody's has none.
fn admitted(
    orders: Vec<(u64, Line, PublicKey)>,
    view: &View,
    keys: &Keys,
) -> Vec<(u64, Line, Option<PublicKey>)> {
    let digests = Digests::default();
    let claim = |(_, line, key): &(u64, Line, PublicKey)| match line.auth {
        Auth::Owner(signature) => {
            Some(owner_claim(view, Authorized { entry: digests.entry(&line.entry) }, *key, signature))
        }
        Auth::Institution | Auth::Together | Auth::Straggler(_) => None,
    };
    let claims: Vec<Option<Claim<Authorized>>> = orders.iter().map(claim).collect();
    let is_signed: Vec<bool> = claims.iter().map(Option::is_some).collect();
    let mut checked = verify_all(claims.into_iter().flatten().collect(), keys).into_iter();
    let judged = orders.into_iter().zip(is_signed).map(|((ticket, line, key), is_signed)| {
        let is_good = is_signed && checked.next().is_some_and(|checked| checked.is_ok());
        (ticket, line, is_good.then_some(key))
    });
    judged.collect()
}

fn is_signed(view: &View, from: NodeId, sign: &CutSign, keys: &Keys) -> bool {
    let CutSign { number, proposer, root, signature, .. } = *sign;
    let statement = CutSigned { context: view.context, number, proposer, root };
    let claim = view.claim(from, statement, signature);
    claim.is_some_and(|claim| claim.verify(keys).is_ok())
}

fn rooted(view: &View, me: NodeId, cut: &Cut, counted: Counted, keys: &Keys) -> Made {
    let (number, proposer) = (cut.number, cut.proposer);
    let rooted = CutState::new(cut.clone(), counted).map(|state| {
        let root = state.record.digest();
        let statement = CutSigned { context: view.context, number, proposer, root };
        let signature = keys.sign(view.scope(), me, statement).signature;
        let member = me.member().expect("a replica is a member");
        (Arc::new(state), CutSign { number, proposer, root, member, signature })
    });
    Made::Rooted { proposer, number, rooted }
}

/// Where owners' signatures are good: in every view, so they name none.
pub(crate) fn owner_scope(view: &View) -> Scope {
    Scope { cluster: view.cluster, epoch: Epoch(0) }
}

/// An owner's claim.
pub(crate) fn owner_claim(
    view: &View,
    statement: Authorized,
    key: PublicKey,
    signature: Signature,
) -> Claim<Authorized> {
    Claim { statement, scope: owner_scope(view), signer: NodeId(u32::MAX), key, signature }
}

pub(crate) fn receipt_claim(view: &View, from: NodeId, receipt: &Receipt) -> Option<Claim<Settled>> {
    let statement = Settled {
        context: view.context,
        lot: receipt.lot,
        digest: receipt.digest,
        open: receipt.open.digest(),
    };
    view.claim(from, statement, receipt.signature)
}

/// The key under which the signature of each line is good, of those that are wanted.
pub(crate) fn check(
    opened: &Opened,
    view: &View,
    (owners, points): (&[Option<Signer>], &Points),
    keys: &Keys,
) -> Vec<Option<PublicKey>> {
    let mut claims = Vec::new();
    let mut at = Vec::new();
    for ((index, line, digest), owner) in opened.lines().zip(owners) {
        if let (Some(Signer { single: key, .. }), Auth::Owner(signature) | Auth::Straggler(signature)) =
            (owner, line.auth)
        {
            // An owner signs its entry; what that is backed with, its representative adds (4.6).
            let is_backed = opened.backings.contains_key(&index);
            let entry = if is_backed { digest_of(&line.entry) } else { digest };
            claims.push(owner_claim(view, Authorized { entry }, *key, signature));
            at.push((index, *key));
        }
    }
    let mut good = vec![None; owners.len()];
    let checked: Vec<Result<Verified<Claim<Authorized>>, Claim<Authorized>>> = verify_all(claims, keys);
    for ((index, key), checked) in at.into_iter().zip(checked) {
        let place = usize::try_from(index).ok().and_then(|index| good.get_mut(index));
        if let (Some(place), Ok(_)) = (place, checked) {
            *place = Some(key);
        }
    }
    for index in together::check(opened, view, owners, points, keys) {
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        if let (Some(place), Some(Some(owner))) = (good.get_mut(at), owners.get(at)) {
            *place = Some(owner.single);
        }
    }
    good
}

/// Reads keys that the genesis vouches for.
fn points(wanted: &[Option<[u8; 48]>], keys: &Keys) -> Vec<StoredKey> {
    let there: Vec<[u8; 48]> = wanted.iter().flatten().copied().collect();
    let mut read = keys.vouched_keys(&there).into_iter().map(|key| key.unwrap_or(StoredKey::ABSENT));
    wanted.iter().map(|key| key.and_then(|_| read.next()).unwrap_or(StoredKey::ABSENT)).collect()
}

/// What it costs to check what owners signed of a batch.
fn signed_cost(opened: &Opened) -> Cost {
    let count = |is_counted: fn(&Auth) -> bool| {
        let lines = opened.batch.lines.iter().filter(|line| is_counted(&line.auth));
        u32::try_from(lines.count()).unwrap_or(u32::MAX)
    };
    let alone = count(|auth| matches!(auth, Auth::Owner(_) | Auth::Straggler(_)));
    let plain = Cost { batch_verify: alone, ..Cost::default() };
    match count(|auth| *auth == Auth::Together) {
        0 => plain,
        owners => {
            plain + Cost { pairing: 2, hash_to_curve: 1, subgroup: 1, key_add: owners, ..Cost::default() }
        }
    }
}
