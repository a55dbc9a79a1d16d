//! What is read, hashed, signed and checked beside the handlers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use synod_crypto::bls::StoredKey;
use synod_crypto::{Claim, Keys, PublicKey, Scope, Signature, Verified, verify_all, verify_evidence};
use synod_ledger::{AccountId, Digests, EntryId};
use synod_machine::broadcast::{Except, Lot, View};
use synod_machine::{Cost, Job as Run};
use synod_quorum::{Epoch, NodeId, NodeSet};
use synod_wire::Bytes;

use crate::batch::{Auth, Content, Line, Opened, digest_of, root};
use crate::bundle::{Bundle, Unproven};
use crate::config::Profile;
use crate::cut::{CertifiedCut, Counted, Cut, CutSign, CutSigned, CutState, NoCut};
use crate::dependency::{self, Credit, Credited, Sub, Vouch, With};
use crate::shards::Proofs;
use crate::spoken::{Good, Recalled, forged};
use crate::together::{self, Invitation, Points, Shared, Signer};
use crate::witness::{self, Witnessed};
use crate::words::{Authorized, Receipt, Settled};

/// What a batch is read for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Its representative wants it endorsed.
    Judge,
    /// It is certified but for these entries.
    Settle(Except),
}

/// Work of a replica beside the broadcast's.
#[derive(Clone, Debug)]
pub enum Work {
    /// Reads a payload.
    Read {
        /// For which slot.
        lot: Lot,
        /// The payload.
        payload: Bytes,
        /// Of which payment system.
        profile: Profile,
        /// See there.
        purpose: Purpose,
    },
    /// Checks owners' signatures on entries of a batch.
    Check {
        /// The batch.
        opened: Arc<Opened>,
        /// The cluster.
        view: Arc<View>,
        /// The keys that each line's owner has, where it needs one.
        keys: Vec<Option<Signer>>,
        /// Keys that were read.
        points: Points,
        /// What is known of the words that entries are backed with.
        recalled: Recalled,
    },
    /// The same, and says what was found.
    Witness {
        /// The batch.
        opened: Arc<Opened>,
        /// The members.
        view: Arc<View>,
        /// This node.
        me: NodeId,
        /// See [`Work::Check`].
        keys: Vec<Option<Signer>>,
        /// See [`Work::Check`].
        points: Points,
    },
    /// Reads keys of accounts for sums.
    Points {
        /// Whose accounts.
        registrar: u32,
        /// The first, counted from 0.
        from: usize,
        /// Their keys; none of an account that signs with nobody.
        keys: Vec<Option<[u8; 48]>>,
    },
    /// Makes the tree that owners are asked to sign.
    Invite {
        /// Its number.
        number: u64,
        /// Its leaves.
        leaves: BTreeMap<AccountId, synod_crypto::Hash>,
    },
    /// Adds up what owners signed.
    AddUp {
        /// The number of the tree.
        number: u64,
        /// The cluster.
        view: Arc<View>,
        /// The root.
        root: synod_crypto::Hash,
        /// Of each owner, its key and what it gave.
        shares: BTreeMap<AccountId, ([u8; 48], [u8; 192])>,
        /// Keys that were read.
        points: Points,
    },
    /// Checks a member's word on owners' signatures.
    Look {
        /// The members.
        view: Arc<View>,
        /// Who sent it.
        from: NodeId,
        /// The word.
        word: Witnessed,
    },
    /// Checks owners' signatures on orders, all at once.
    Admit {
        /// The cluster.
        view: Arc<View>,
        /// Tickets, entries, and the keys of their owners.
        orders: Vec<(u64, Line, PublicKey)>,
    },
    /// Puts this node's next batch together.
    Build {
        /// The shard.
        shard: u16,
        /// Its slot.
        lot: Lot,
        /// Digest of the batch before.
        prev: synod_crypto::Hash,
        /// What it is made of.
        content: Content,
        /// What each entry is backed with; none but in profile II.
        withs: Option<Vec<Option<With>>>,
    },
    /// Vouches for payments.
    Vouch {
        /// The members.
        view: Arc<View>,
        /// This node.
        me: NodeId,
        /// Which they are.
        of: Sub,
        /// Their places.
        ids: Vec<EntryId>,
        /// Their digests.
        digests: Vec<synod_crypto::Hash>,
        /// Those that are not vouched for.
        open: Except,
        /// For whom the word is.
        to: NodeSet,
    },
    /// Checks a member's word on payments.
    Credit {
        /// The members.
        view: Arc<View>,
        /// Who sent it.
        from: NodeId,
        /// The word.
        credit: Credit,
    },
    /// Signs a receipt.
    Sign {
        /// The members.
        view: Arc<View>,
        /// This node.
        me: NodeId,
        /// What is signed.
        settled: Settled,
        /// The same with its list.
        open: Except,
    },
    /// Checks a receipt.
    Receipt {
        /// The members.
        view: Arc<View>,
        /// Who sent it.
        from: NodeId,
        /// The receipt.
        receipt: Receipt,
    },
    /// Checks the proof of entries that cross between shards.
    Bundle {
        /// Who sent it.
        from: NodeId,
        /// The entries.
        bundle: Arc<Bundle>,
        /// The members of their shard.
        view: Arc<View>,
        /// How.
        proofs: Proofs,
    },
    /// Hashes the state behind a cut, checks that it is in order, and signs it.
    Root {
        /// The members.
        view: Arc<View>,
        /// This node.
        me: NodeId,
        /// The cut.
        cut: Arc<Cut>,
        /// The state.
        counted: Box<Counted>,
    },
    /// Checks a member's signature on the state behind a cut.
    CutSign {
        /// The members.
        view: Arc<View>,
        /// Who sent it.
        from: NodeId,
        /// The signature.
        sign: CutSign,
    },
    /// Checks a certified cut.
    CutCertified {
        /// The members.
        view: Arc<View>,
        /// Who sent it.
        from: NodeId,
        /// The cut.
        certified: Box<CertifiedCut>,
    },
}

/// What came of it.
#[derive(Clone, Debug)]
pub enum Made {
    /// A payload was read, if it is a batch.
    Read {
        /// For which slot.
        lot: Lot,
        /// See there.
        purpose: Purpose,
        /// The batch.
        opened: Option<Arc<Opened>>,
    },
    /// Signatures were checked.
    Checked {
        /// The batch.
        opened: Arc<Opened>,
        /// The key under which each line's signature is good.
        keys: Vec<Option<PublicKey>>,
        /// Entries that are backed with something that does not pay their spenders.
        forged: BTreeSet<u32>,
        /// Words that entries are backed with and that were checked and found good.
        said: Vec<Good>,
    },
    /// Signatures were checked for others as well.
    Witnessed {
        /// The batch.
        opened: Arc<Opened>,
        /// The keys that were wanted.
        wanted: Vec<Option<Signer>>,
        /// The key under which each line's signature is good.
        keys: Vec<Option<PublicKey>>,
        /// What is said of it.
        word: Witnessed,
    },
    /// A word on owners' signatures was checked.
    Looked {
        /// Who sent it.
        from: NodeId,
        /// The word, if it is signed well.
        word: Option<Witnessed>,
    },
    /// Orders' signatures were checked.
    Admitted {
        /// Tickets, entries, and the keys under which their signatures are good.
        orders: Vec<(u64, Line, Option<PublicKey>)>,
    },
    /// Keys were read: those that are none are absent.
    Points {
        /// Whose accounts.
        registrar: u32,
        /// The first, counted from 0.
        from: usize,
        /// Their keys.
        keys: Vec<StoredKey>,
    },
    /// What each owner of a tree is asked.
    Invited(Vec<Invitation>),
    /// What owners signed of a tree is added up.
    AddedUp {
        /// The number of the tree.
        number: u64,
        /// Whose signatures are in it.
        owners: Vec<AccountId>,
        /// The signature, if there is any.
        signature: Option<Shared>,
    },
    /// A batch is ready to go out.
    Built(Arc<Opened>, Bytes),
    /// A word on payments is signed.
    Vouched {
        /// The word.
        credit: Credit,
        /// The payments' places.
        ids: Vec<EntryId>,
        /// Their digests.
        digests: Vec<synod_crypto::Hash>,
        /// For whom it is.
        to: NodeSet,
    },
    /// A word on payments was checked.
    Credit {
        /// Who sent it.
        from: NodeId,
        /// The word, if it is good.
        credit: Option<Credit>,
    },
    /// A receipt is signed.
    Signed(Receipt),
    /// A receipt was checked.
    Receipt {
        /// Who sent it.
        from: NodeId,
        /// The receipt, if it is good.
        receipt: Option<Receipt>,
    },
    /// A bundle was checked.
    Bundle {
        /// Who sent it.
        from: NodeId,
        /// The bundle.
        bundle: Arc<Bundle>,
        /// The digests of its entries, if it is good.
        digests: Result<Vec<synod_crypto::Hash>, Unproven>,
    },
    /// The state behind a cut was hashed.
    Rooted {
        /// Whose cut.
        proposer: u8,
        /// Its number.
        number: u64,
        /// The state and this node's signature, if it is in order.
        rooted: Result<(Arc<CutState>, CutSign), NoCut>,
    },
    /// A signature on a state was checked.
    CutSign {
        /// Who sent it.
        from: NodeId,
        /// The signature, if it is good.
        sign: Option<CutSign>,
    },
    /// A certified cut was checked.
    CutCertified {
        /// Who sent it.
        from: NodeId,
        /// The cut, if it is certified.
        certified: Option<Box<CertifiedCut>>,
    },
}

/// Work of a replica; `J` is the broadcast's.
#[derive(Clone, Debug)]
pub enum Job<J> {
    /// Of the broadcast.
    Broadcast(J),
    /// Beside it. Boxed: queues of events and effects hold many that are small.
    Own(Box<Work>),
}

/// What came of it; `D` is what came of the broadcast's.
#[derive(Clone, Debug)]
pub enum Done<D> {
    /// Of the broadcast.
    Broadcast(D),
    /// Beside it.
    Own(Box<Made>),
}

impl<J> From<Work> for Job<J> {
    fn from(own: Work) -> Self {
        Self::Own(Box::new(own))
    }
}

impl<J: Run> Run for Job<J> {
    type Done = Done<J::Done>;

    fn run(self, keys: &Keys) -> Self::Done {
        match self {
            Self::Broadcast(job) => Done::Broadcast(job.run(keys)),
            Self::Own(work) => Done::Own(Box::new(work.run(keys))),
        }
    }

    fn cost(&self) -> Cost {
        match self {
            Self::Broadcast(job) => job.cost(),
            Self::Own(work) => work.cost(),
        }
    }

    fn peer(&self) -> Option<NodeId> {
        match self {
            Self::Broadcast(job) => job.peer(),
            Self::Own(work) => work.peer(),
        }
    }
}

impl Work {
    fn run(self, keys: &Keys) -> Made {
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

    fn cost(&self) -> Cost {
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

    fn peer(&self) -> Option<NodeId> {
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
