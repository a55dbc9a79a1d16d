//! Batches: what a representative broadcasts in one slot of its lane (specification, section 3.2).
//!
//! A batch is a header and what it commits to: lines (entries with their authorization) and openings of accounts. The header's
//! digest stands for the batch in every statement, so a Merkle path, the header and a certificate prove one entry to anybody.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use synod_crypto::merkle::{self, Tree};
use synod_crypto::{Hash, Hasher, Signature};
use synod_ledger::{AccountId, Digests, Entry, Opening};
use synod_machine::broadcast::{ITEMS_MAX, Items, Lot, PAYLOAD_MAX, Read};
use synod_machine::planted;
use synod_wire::{Bytes, Limits, List, Wire, Writer, wire};

use crate::config::Profile;
use crate::dependency::{BackedBatch, Backing, Dependency, With, backed, root_of_with};

/// Most openings of one batch.
pub const OPENINGS_MAX: usize = 1_024;
/// Longest path of an entry.
const PATH_MAX: usize = 32;

wire! {
    /// Who vouches for an entry.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Auth {
        /// The institution whose lane carries it: its signature on the batch.
        0 = Institution,
        /// The owner, over [`crate::Authorized`].
        1 = Owner(Signature),
    }

    /// An entry with its authorization.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Line {
        /// What is to happen; shared by all who keep it.
        pub entry: Arc<Entry>,
        /// Who vouches for it.
        pub auth: Auth,
    }

    /// What a batch commits to.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Header {
        /// The shard.
        pub shard: u16,
        /// The representative's member number, and the how-manieth of its batches.
        pub lot: Lot,
        /// Digest of the lane's batch before it; zero before the first.
        pub prev: Hash,
        /// Root over the digests of its entries; the root binds their number.
        pub entries: Hash,
        /// Over the authorizations.
        pub auths: Hash,
        /// Over the openings.
        pub openings: Hash,
    }

    /// A batch as it is broadcast.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Batch {
        /// What it commits to.
        pub header: Header,
        /// Accounts that the lane's registrar opens, in order.
        pub openings: List<Opening, OPENINGS_MAX>,
        /// Entries; those of one log in its order.
        pub lines: List<Line, ITEMS_MAX>,
    }

    /// An entry of a batch, to whoever has the header.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct EntryProof {
        /// Which of the entries.
        pub index: u32,
        /// Of how many.
        pub count: u32,
        /// Siblings from the entry up.
        pub path: List<Hash, PATH_MAX>,
    }
}

impl Header {
    /// What stands for the batch.
    #[must_use]
    pub fn digest(&self) -> Hash {
        Hash::of_value("synod astro batch", self)
    }
}

impl EntryProof {
    /// Whether the entry with this digest is in the batch of this header.
    #[must_use]
    pub fn shows(&self, digest: Hash, header: &Header) -> bool {
        shows(self, digest, &header.entries)
    }
}

/// Whether something with this digest is under a root.
pub(crate) fn shows(proof: &EntryProof, digest: Hash, root: &Hash) -> bool {
    merkle::proves(root, proof.count, proof.index, merkle::leaf(&digest.0), &proof.path)
}

pub(crate) fn over<'a, T: Wire + 'a>(domain: &'static str, values: impl IntoIterator<Item = &'a T>) -> Hash {
    let (mut hasher, mut encoded) = (Hasher::new(domain), Writer::with_capacity(0));
    for value in values {
        let start = encoded.len();
        value.write(&mut encoded);
        hasher.add(encoded.as_slice().get(start..).unwrap_or_default());
    }
    hasher.finish()
}

/// A batch whose header is known to fit what it carries, with the digests of its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// What stands for it.
    pub digest: Hash,
    /// See there.
    pub batch: Batch,
    /// The digest of each entry.
    pub digests: Vec<Hash>,
    /// What its entries are backed with (profile II).
    pub(crate) backings: BTreeMap<u32, With>,
    /// Its encoding.
    payload: Bytes,
}

impl Opened {
    /// Puts a batch together.
    ///
    /// # Panics
    /// Above [`ITEMS_MAX`] lines or [`OPENINGS_MAX`] openings.
    #[must_use]
    pub fn new(shard: u16, lot: Lot, prev: Hash, openings: Vec<Opening>, lines: Vec<Line>) -> Self {
        let digests = digests(&lines);
        let (entries, auths, opened) = roots(&digests, &openings, &lines);
        let header = Header { shard, lot, prev, entries, auths, openings: opened };
        let openings = List::try_from(openings).expect("the representative counts openings");
        let lines = List::try_from(lines).expect("the representative counts lines");
        let batch = Batch { header, openings, lines };
        Self { digest: header.digest(), payload: batch.encode(), batch, digests, backings: BTreeMap::new() }
    }

    /// Puts a batch of profile II together, of entries with what each is backed with.
    ///
    /// # Panics
    /// As [`Self::new`].
    #[must_use]
    pub fn new_backed(
        shard: u16,
        lot: Lot,
        prev: Hash,
        openings: Vec<Opening>,
        (lines, withs): (Vec<Line>, Vec<Option<Arc<Vec<Dependency>>>>),
    ) -> Self {
        let plain = Self::new(shard, lot, prev, openings, lines);
        let withs = (0_u32..).zip(withs).filter_map(|(at, with)| Some((at, with?)));
        let backings: BTreeMap<u32, With> = withs.collect();
        let digests = back_all(plain.digests, &backings);
        let mut batch = plain.batch;
        (batch.header.entries, ..) = roots(&digests, &batch.openings, &batch.lines);
        let all = backings.iter().map(|(at, with)| {
            let with = List::try_from(with.to_vec()).expect("the representative counts dependencies");
            Backing { at: *at, with }
        });
        let all = List::try_from(all.collect::<Vec<_>>()).expect("lines are counted");
        let whole = BackedBatch { batch, backings: all };
        let (payload, batch) = (whole.encode(), whole.batch);
        Self { digest: batch.header.digest(), payload, batch, digests, backings }
    }

    /// Reads a payload of a profile.
    #[must_use]
    pub fn read_as(profile: Profile, payload: &Bytes) -> Option<Self> {
        if profile.credits() { Self::read_backed(payload) } else { Self::read(payload) }
    }

    fn read_backed(payload: &Bytes) -> Option<Self> {
        let limits = Limits { frame_max: PAYLOAD_MAX };
        let BackedBatch { batch, backings } = BackedBatch::decode(payload.clone(), &limits).ok()?;
        let count = u32::try_from(batch.lines.len()).ok()?;
        let is_sound = |backing: &Backing| backing.at < count && !backing.with.is_empty();
        if !backings.is_sorted_by(|one, next| one.at < next.at) || !backings.iter().all(is_sound) {
            return None;
        }
        let backings: BTreeMap<u32, With> = backings
            .into_vec()
            .into_iter()
            .map(|Backing { at, with }| (at, With::new(with.into_vec())))
            .collect();
        let digests = back_all(digests(&batch.lines), &backings);
        Self::fitting(batch, digests, backings, payload)
    }

    /// A batch of something whose header fits.
    fn fitting(
        batch: Batch,
        digests: Vec<Hash>,
        backings: BTreeMap<u32, With>,
        payload: &Bytes,
    ) -> Option<Self> {
        if batch.openings.is_empty() && batch.lines.is_empty() {
            return None;
        }
        let header = &batch.header;
        let fits =
            roots(&digests, &batch.openings, &batch.lines) == (header.entries, header.auths, header.openings);
        let digest = header.digest();
        fits.then(|| Self { digest, batch, digests, backings, payload: payload.clone() })
    }

    /// Reads a payload; `None` unless it is a batch of something whose header fits.
    #[must_use]
    pub fn read(payload: &Bytes) -> Option<Self> {
        let limits = Limits { frame_max: PAYLOAD_MAX };
        let batch = Batch::decode(payload.clone(), &limits).ok()?;
        if batch.openings.is_empty() && batch.lines.is_empty() {
            return None;
        }
        let digests = digests(&batch.lines);
        Self::fitting(batch, digests, BTreeMap::new(), payload)
    }

    /// The payload that [`Self::read`] reads.
    #[must_use]
    pub fn payload(&self) -> Bytes {
        self.payload.clone()
    }

    /// Whether it was read from this payload: the same bytes are the same batch.
    #[must_use]
    pub fn is(&self, payload: &Bytes) -> bool {
        let is_same =
            core::ptr::eq(self.payload.as_ptr(), payload.as_ptr()) && self.payload.len() == payload.len();
        is_same || self.payload == *payload
    }

    /// Which slot of which lane it is for.
    #[must_use]
    pub const fn lot(&self) -> Lot {
        self.batch.header.lot
    }

    /// Its lines with their digests and indexes.
    pub fn lines(&self) -> impl Iterator<Item = (u32, &Line, Hash)> {
        (0_u32..)
            .zip(self.batch.lines.iter().zip(&self.digests))
            .map(|(at, (line, digest))| (at, line, *digest))
    }

    /// Proves one entry; `None` beyond the last.
    #[must_use]
    pub fn prove(&self, index: u32) -> Option<EntryProof> {
        prove(&self.digests, index)
    }

    /// Bytes held, for memory accounting.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let lines = self.batch.lines.len() * (size_of::<Line>() + size_of::<Hash>());
        let openings = self.batch.openings.len() * size_of::<Opening>();
        let backings = self.backings.values().flat_map(|with| with.iter()).map(|one| one.bytes());
        (size_of::<Self>() + lines + openings + self.payload.len()) as u64 + backings.sum::<u64>()
    }
}

fn digests(lines: &[Line]) -> Vec<Hash> {
    Digests::default().entries(lines.iter().map(|line| &*line.entry))
}

/// The digest of one entry, without what it is backed with.
pub(crate) fn digest_of(entry: &Entry) -> Hash {
    Digests::default().entry(entry)
}

/// The digests of entries with what they are backed with.
fn back_all(mut digests: Vec<Hash>, backings: &BTreeMap<u32, With>) -> Vec<Hash> {
    for (at, with) in backings {
        if let Some(digest) = usize::try_from(*at).ok().and_then(|at| digests.get_mut(at)) {
            *digest = backed(*digest, root_of_with(with));
        }
    }
    digests
}

/// The root over digests.
pub(crate) fn root(digests: &[Hash]) -> Hash {
    tree(digests).root()
}

/// Proves some of these digests under their root.
pub(crate) fn proofs(digests: &[Hash], of: &[u32]) -> Vec<(u32, EntryProof)> {
    if of.is_empty() {
        return Vec::new();
    }
    let tree = tree(digests);
    let proof = |at: &u32| {
        let path = List::try_from(tree.path(*at)?).ok()?;
        Some((*at, EntryProof { index: *at, count: tree.count(), path }))
    };
    of.iter().filter_map(proof).collect()
}

fn tree(digests: &[Hash]) -> Tree {
    Tree::new(merkle::leaves(digests))
}

/// Proves one entry of a batch of these entries; `None` beyond the last.
pub(crate) fn prove(digests: &[Hash], index: u32) -> Option<EntryProof> {
    let tree = tree(digests);
    let path = List::try_from(tree.path(index)?).ok()?;
    Some(EntryProof { index, count: tree.count(), path })
}

fn roots(digests: &[Hash], openings: &[Opening], lines: &[Line]) -> (Hash, Hash, Hash) {
    let auths = lines.iter().map(|line| &line.auth);
    (tree(digests).root(), over("synod astro authorizations", auths), over("synod astro openings", openings))
}

/// Batches as payloads of a broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batches;

impl Items for Batches {
    fn digest(payload: &Bytes) -> Option<Hash> {
        Opened::read(payload).map(|opened| opened.digest)
    }

    fn read(payload: &Bytes) -> Option<(Hash, Option<Read>)> {
        let opened = Arc::new(Opened::read(payload)?);
        Some((opened.digest, Some(Read(opened))))
    }

    /// A list is closed: behind an excepted entry every later one of its log is excepted as well.
    fn may_except(payload: &Bytes, items: &[u32]) -> bool {
        Opened::read(payload).is_some_and(|opened| is_closed(&opened, items))
    }
}

/// Batches of profile II as payloads of a broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackedBatches;

impl Items for BackedBatches {
    fn digest(payload: &Bytes) -> Option<Hash> {
        Opened::read_backed(payload).map(|opened| opened.digest)
    }

    fn read(payload: &Bytes) -> Option<(Hash, Option<Read>)> {
        let opened = Arc::new(Opened::read_backed(payload)?);
        Some((opened.digest, Some(Read(opened))))
    }

    fn may_except(payload: &Bytes, items: &[u32]) -> bool {
        Opened::read_backed(payload).is_some_and(|opened| is_closed(&opened, items))
    }
}

/// See [`Batches::may_except`].
fn is_closed(opened: &Opened, items: &[u32]) -> bool {
    let mut behind: BTreeSet<AccountId> = BTreeSet::new();
    let is_in_range =
        items.last().is_none_or(|last| usize::try_from(*last).is_ok_and(|last| last < opened.digests.len()));
    is_in_range
        && opened.lines().all(|(at, line, _)| {
            let is_excepted = items.binary_search(&at).is_ok();
            let is_behind = !is_excepted && behind.contains(&line.entry.id.spender);
            if is_excepted {
                behind.insert(line.entry.id.spender);
            }
            !is_behind || planted!(A25)
        })
}
