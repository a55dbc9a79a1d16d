//! Batches: what a representative broadcasts in one slot of its lane (specification, section 3.2).
//!
//! A batch is a header and what it commits to: lines (entries with their authorization) and openings of accounts. The header's
//! digest stands for the batch in every statement, so a Merkle path, the header and a certificate prove one entry to anybody.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use synod_crypto::merkle;
use synod_crypto::{Hash, Hasher, Signature};
use synod_ledger::{AccountId, Digests, Entry, Opening};
use synod_machine::broadcast::{ITEMS_MAX, Items, Lot, Read};
use synod_machine::planted;
use synod_wire::{Bytes, Draw, Drawn, List, Malformed, Reader, Why, Wire, Writer, wire};

use crate::config::Profile;
use crate::dependency::With;
use crate::together::Shared;
use roots::{back_all, decode, decode_backed, digests, roots, write_lines};

pub(crate) use roots::{digest_of, digests_of, proofs, prove, root, roots_of};

mod roots;

/// Most openings of one batch.
pub const OPENINGS_MAX: usize = 1_024;
/// Most entries of other shards that one batch imports.
pub const IMPORTS_MAX: usize = 256;
/// Bytes of the shortest line: an entry has two digests' worth of them.
const LINE_BYTES_MIN: usize = 64;
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
        /// The owner, with others of the batch: its part of [`Shared`].
        2 = Together,
        /// The owner alone, as [`Self::Owner`], though its entry is one of those that others signed together.
        3 = Straggler(Signature),
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
        /// Over the openings, and over the entries of other shards that it imports, if it does.
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
        /// See there.
        pub beside: Beside,
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

/// What few batches have. It stands last and takes no byte where there is nothing of it, so that batches are written as before there
/// was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// Entries of other shards that are credited with this batch, in the order of their places. Their proofs travel beside it.
    pub imports: List<Arc<Entry>, IMPORTS_MAX>,
    /// What owners signed together, if some did.
    pub together: Option<Shared>,
}

impl Wire for Beside {
    fn write(&self, out: &mut Writer) {
        if *self == Self::default() {
            return;
        }
        self.imports.write(out);
        self.together.iter().for_each(|together| together.write(out));
    }

    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        let refusal = input.refuse(Why::NotCanonical);
        if input.remaining() == 0 {
            return Ok(Self::default());
        }
        let imports: List<Arc<Entry>, IMPORTS_MAX> = List::read(input)?;
        let together = if input.remaining() == 0 { None } else { Some(Shared::read(input)?) };
        let read = Self { imports, together };
        if read == Self::default() { Err(refusal) } else { Ok(read) }
    }

    fn size_hint(&self) -> usize {
        if *self == Self::default() {
            0
        } else {
            self.imports.size_hint() + self.together.map_or(0, |_| size_of::<Shared>())
        }
    }
}

impl Draw for Beside {
    fn draw(from: &mut Drawn) -> Self {
        Self { imports: List::draw(from), together: Option::draw(from) }
    }
}

impl Auth {
    /// Bytes of its encoding.
    pub(crate) const fn length(&self) -> usize {
        match self {
            Self::Institution | Self::Together => 1,
            Self::Owner(_) | Self::Straggler(_) => 65,
        }
    }
}

impl Line {
    /// As it is outside of its batch: whose owner signed it alone needs no tree.
    pub(crate) fn alone(&self) -> Self {
        let auth = match self.auth {
            Auth::Straggler(signature) => Auth::Owner(signature),
            auth => auth,
        };
        Self { entry: Arc::clone(&self.entry), auth }
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
    merkle::proves_digest(root, proof.count, proof.index, digest, &proof.path)
}

pub(crate) fn over<'a, T: Wire + 'a>(domain: &'static str, values: impl IntoIterator<Item = &'a T>) -> Hash {
    measured(domain, values).0
}

/// The same with the bytes that the values take.
pub(crate) fn measured<'a, T: Wire + 'a>(
    domain: &'static str,
    values: impl IntoIterator<Item = &'a T>,
) -> (Hash, usize) {
    let (mut hasher, mut encoded) = (Hasher::new(domain), Writer::with_capacity(0));
    for value in values {
        let start = encoded.len();
        value.write(&mut encoded);
        hasher.add(encoded.as_slice().get(start..).unwrap_or_default());
    }
    (hasher.finish(), encoded.len())
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
    /// The digest of each entry that it imports.
    imported: Vec<Hash>,
    /// Its encoding.
    payload: Bytes,
}

/// What a batch is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// See [`Batch::openings`].
    pub openings: Vec<Opening>,
    /// See [`Batch::lines`].
    pub lines: Vec<Line>,
    /// The digests of the lines' entries; of none of them where they are not known.
    pub digests: Vec<Hash>,
    /// See [`Beside::imports`].
    pub imports: Vec<Arc<Entry>>,
    /// See [`Beside::together`].
    pub together: Option<Shared>,
}

impl Opened {
    /// Puts a batch together that imports nothing.
    ///
    /// # Panics
    /// Above [`ITEMS_MAX`] lines or [`OPENINGS_MAX`] openings.
    #[must_use]
    pub fn new(shard: u16, lot: Lot, prev: Hash, openings: Vec<Opening>, lines: Vec<Line>) -> Self {
        Self::of(shard, lot, prev, Content { openings, lines, ..Content::default() })
    }

    /// Puts a batch together.
    ///
    /// # Panics
    /// Above [`ITEMS_MAX`] lines, [`OPENINGS_MAX`] openings or [`IMPORTS_MAX`] imports.
    #[must_use]
    pub fn of(shard: u16, lot: Lot, prev: Hash, content: Content) -> Self {
        let Content { openings, lines, digests: known, imports, together } = content;
        let (written, spans) = write_lines(&lines);
        let is_known = known.len() == lines.len();
        let digests = if is_known { known } else { digests(written.as_slice(), &spans) };
        let imported = digests_of(&imports);
        let (entries, auths, opened) = roots(&digests, &openings, &lines, (&imported, together.as_ref()));
        let header = Header { shard, lot, prev, entries, auths, openings: opened };
        let openings = List::try_from(openings).expect("the representative counts openings");
        let lines = List::try_from(lines).expect("the representative counts lines");
        let imports = List::try_from(imports).expect("the representative counts imports");
        let batch = Batch { header, openings, lines, beside: Beside { imports, together } };
        let beside = header.size_hint() + batch.openings.size_hint() + batch.beside.size_hint();
        let mut payload = Writer::with_capacity(beside + written.len());
        batch.header.write(&mut payload);
        batch.openings.write(&mut payload);
        payload.count(batch.lines.len());
        payload.bytes(written.as_slice());
        batch.beside.write(&mut payload);
        let (payload, backings) = (payload.freeze(), BTreeMap::new());
        Self { digest: header.digest(), payload, batch, digests, backings, imported }
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
        (lines, withs): (Vec<Line>, Vec<Option<With>>),
    ) -> Self {
        Self::backed(shard, lot, prev, Content { openings, lines, ..Content::default() }, withs)
    }

    /// The same of what a batch is made of, which imports nothing and of which nothing is signed together.
    pub(crate) fn backed(
        shard: u16,
        lot: Lot,
        prev: Hash,
        content: Content,
        withs: Vec<Option<With>>,
    ) -> Self {
        let Content { openings, lines, digests: known, .. } = content;
        let is_known = known.len() == lines.len();
        let plain = || Digests::default().entries(lines.iter().map(|line| &*line.entry));
        let withs = (0_u32..).zip(withs).filter_map(|(at, with)| Some((at, with?)));
        let backings: BTreeMap<u32, With> = withs.collect();
        let digests = back_all(if is_known { known } else { plain() }, &backings);
        let (entries, auths, opened) = roots(&digests, &openings, &lines, (&[], None));
        let header = Header { shard, lot, prev, entries, auths, openings: opened };
        let openings = List::try_from(openings).expect("the representative counts openings");
        let lines = List::try_from(lines).expect("the representative counts lines");
        let batch = Batch { header, openings, lines, beside: Beside::default() };
        let lengths: usize = backings.values().map(|with| with.length()).sum();
        let mut payload = Writer::with_capacity(lengths + batch.size_hint());
        // As [`crate::BackedBatch`] is written.
        payload.count(backings.len());
        for (at, with) in &backings {
            at.write(&mut payload);
            payload.count(with.len());
            with.iter().for_each(|one| one.write(&mut payload));
        }
        batch.write(&mut payload);
        let payload = payload.freeze();
        Self { digest: header.digest(), payload, batch, digests, backings, imported: Vec::new() }
    }

    /// Reads a payload of a profile.
    #[must_use]
    pub fn read_as(profile: Profile, payload: &Bytes) -> Option<Self> {
        if profile.credits() { Self::read_backed(payload) } else { Self::read(payload) }
    }

    /// A batch of profile II, which imports nothing, and of which nothing is signed together.
    fn read_backed(payload: &Bytes) -> Option<Self> {
        let (read, batch, spans) = decode_backed(payload).ok()?;
        let count = u32::try_from(batch.lines.len()).ok()?;
        if read.last().is_some_and(|last| last >= count) {
            return None;
        }
        if batch.openings.is_empty() && batch.lines.is_empty() || batch.beside != Beside::default() {
            return None;
        }
        let (backings, plain) = (read.finish(payload), digests(payload, &spans));
        let (digests, header) = (back_all(plain, &backings), &batch.header);
        let fits = roots(&digests, &batch.openings, &batch.lines, (&[], None))
            == (header.entries, header.auths, header.openings);
        let (digest, imported) = (header.digest(), Vec::new());
        fits.then(|| Self { digest, batch, digests, backings, imported, payload: payload.clone() })
    }

    /// Reads a payload; `None` unless it is a batch of something whose header fits.
    #[must_use]
    pub fn read(payload: &Bytes) -> Option<Self> {
        let (batch, spans) = decode(payload).ok()?;
        let Beside { imports, together } = &batch.beside;
        let is_in_order = imports.is_sorted_by(|one, next| one.id < next.id);
        if batch.openings.is_empty() && batch.lines.is_empty() && imports.is_empty() || !is_in_order {
            return None;
        }
        let (digests, imported) = (digests(payload, &spans), digests_of(imports));
        let header = &batch.header;
        let fits = roots(&digests, &batch.openings, &batch.lines, (&imported, together.as_ref()))
            == (header.entries, header.auths, header.openings);
        let (digest, backings) = (header.digest(), BTreeMap::new());
        fits.then(|| Self { digest, batch, digests, backings, imported, payload: payload.clone() })
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

    /// The entries of other shards that it imports, with their digests.
    pub(crate) fn imports(&self) -> impl Iterator<Item = (&Arc<Entry>, Hash)> {
        self.batch.beside.imports.iter().zip(self.imported.iter().copied())
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
        let imports = self.batch.beside.imports.len() * 2 * (size_of::<Entry>() + size_of::<Hash>());
        (size_of::<Self>() + lines + openings + imports + self.payload.len()) as u64 + backings.sum::<u64>()
    }
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

#[cfg(test)]
mod tests;
