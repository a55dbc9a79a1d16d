//! Bundles: entries of one shard with the proof that they are certified, on their way to another (specification, section 4.9).
//!
//! A bundle holds entries of one batch. The batch's header, a certificate of it and a path prove an entry to whoever knows the
//! members; where a certificate names a later entry of the log only, those between come along, for it certifies every ancestor.

use std::sync::Arc;

use synod_crypto::{Hash, Keys, verify_evidence};
use synod_ledger::{Digests, Entry, EntryId};
use synod_machine::broadcast::{Lot, Transferable, View};
use synod_wire::{Blob, Bytes, Limits, List, wire};

use crate::batch::{EntryProof, Header};
use crate::receipt::CERTIFICATE_MAX;

/// Most entries from one to the certified one that proves it.
pub(crate) const STRETCH_MAX: usize = 1_024;
/// Most stretches of one bundle.
pub(crate) const PROVEN_MAX: usize = 1_024;
/// Bytes of entries and paths at which a bundle is full.
pub(crate) const BUNDLE_BYTES: usize = 192 << 10;
/// Most entries of one bundle, by its bytes.
pub(crate) const PLACES_MAX: usize = 8_192;

wire! {
    /// What entries a bundle is of.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub struct BundleId {
        /// The shard that they leave.
        pub shard: u16,
        /// The batch that certifies them.
        pub lot: Lot,
    }

    /// An entry by its place and digest.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub struct Place {
        /// Its place.
        pub id: EntryId,
        /// Its digest.
        pub digest: Hash,
    }

    /// Entries of one log in a row, the last of which stands in the batch.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Proven {
        /// The entries.
        pub chain: List<Arc<Entry>, STRETCH_MAX>,
        /// Where the last one stands.
        pub place: EntryProof,
    }

    /// See the module.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Bundle {
        /// What the batch commits to.
        pub header: Header,
        /// A certificate of the batch by members who endorse all of these entries: a [`Transferable`] of the broadcast.
        pub certificate: Blob<CERTIFICATE_MAX>,
        /// The entries.
        pub proven: List<Proven, PROVEN_MAX>,
    }
}

/// Most bundles that one question is answered with.
pub(crate) const SEEN_MAX: usize = 1_024;

/// What is on its way between shards, as one member knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BundlesSeen {
    /// Bundles of which a quorum of another shard has not said that it credited all, with the shard, oldest batches of each lane first:
    /// 1,024 at most.
    pub leaving: Vec<BundleSeen>,
    /// Entries in all of them, also those that are not shown.
    pub entries: u64,
    /// Proven entries of other shards that are not credited here.
    pub coming: u64,
}

/// A bundle on its way to another shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BundleSeen {
    /// To which.
    pub to: u16,
    /// The batch that certifies it.
    pub lot: Lot,
    /// Entries that are left of it.
    pub entries: u32,
    /// How often this member sent it.
    pub sent: u64,
}

/// Why a bundle proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unproven {
    /// It was signed in another view than the one that is known here; another proof may do.
    OtherView,
    /// It proves nothing in any view.
    Forged,
}

impl BundleId {
    /// Where the turns of those who send and take it begin.
    pub(crate) fn first(self) -> u64 {
        let Hash([a, b, c, d, e, f, g, h, ..]) = Hash::of_value("synod astro bundle", &self);
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }
}

impl Bundle {
    /// See [`BundleId`].
    pub(crate) const fn id(&self) -> BundleId {
        BundleId { shard: self.header.shard, lot: self.header.lot }
    }

    /// Its entries.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.proven.iter().flat_map(|proven| &proven.chain)
    }

    /// Those that pay accounts of a shard.
    pub(crate) fn paying(&self, shard: u16) -> impl Iterator<Item = &Arc<Entry>> {
        self.entries().filter(move |entry| entry.legs_into(shard).next().is_some())
    }
}

/// The digests of a bundle's entries in their order, if a certificate of the members of this view proves all of them.
pub(crate) fn check<C: Transferable>(
    bundle: &Bundle,
    view: &View,
    keys: &Keys,
) -> Result<Vec<Hash>, Unproven> {
    let header = &bundle.header;
    let limits = Limits { frame_max: u32::try_from(CERTIFICATE_MAX).unwrap_or(u32::MAX) };
    let certificate = C::decode(bundle.certificate.bytes().clone(), &limits).map_err(|_| Unproven::Forged)?;
    if header.shard != view.context.shard || certificate.context().shard != header.shard {
        return Err(Unproven::Forged);
    }
    if (certificate.context(), certificate.epoch()) != (view.context, view.roster.epoch()) {
        return Err(Unproven::OtherView);
    }
    let is_of_batch = (certificate.lot(), certificate.digest()) == (header.lot, header.digest());
    let digests = Digests::default().entries(bundle.entries().map(|entry| &**entry));
    let (mut rest, mut is_whole) = (digests.as_slice(), !bundle.proven.is_empty());
    for proven in &bundle.proven {
        let Some((own, after)) = rest.split_at_checked(proven.chain.len()) else {
            return Err(Unproven::Forged);
        };
        rest = after;
        is_whole &= is_stretch(&proven.chain, own, header.shard)
            && own.last().is_some_and(|last| proven.place.shows(*last, header))
            && certificate.excepting(proven.place.index).is_none();
    }
    if !is_of_batch || !is_whole {
        return Err(Unproven::Forged);
    }
    verify_evidence(certificate, keys, view.cluster, &view.roster).map_err(|_| Unproven::Forged)?;
    Ok(digests)
}

/// Whether entries stand in a row in a log of this shard.
fn is_stretch(chain: &[Arc<Entry>], digests: &[Hash], shard: u16) -> bool {
    let in_a_row = |((one, digest), next): ((&Arc<Entry>, &Hash), &Arc<Entry>)| {
        let is_next = next.id.spender == one.id.spender && one.id.n.checked_add(1) == Some(next.id.n);
        is_next && next.prev == *digest
    };
    chain.first().is_some_and(|first| first.id.spender.shard == shard && first.id.n > 0)
        && chain.iter().zip(digests).zip(chain.iter().skip(1)).all(in_a_row)
}

/// Certificates of exactly a quorum, each with the items that all of its signers endorse.
pub(crate) type Cuts = Vec<(Bytes, Vec<u32>)>;

/// See [`crate::shards::Proofs`].
pub(crate) fn cut<C: Transferable>(certificate: &Bytes, items: Vec<u32>, quorum: u32) -> Cuts {
    let Ok(whole) = C::decode(certificate.clone(), &Limits::default()) else { return Vec::new() };
    let (mut rest, mut out) = (items, Vec::new());
    while let Some(first) = rest.first().copied() {
        let Some(cut) = whole.of_item(first, quorum) else {
            rest.retain(|item| *item != first);
            continue;
        };
        let (now, later): (Vec<u32>, Vec<u32>) =
            rest.into_iter().partition(|item| *item == first || cut.excepting(*item).is_none());
        out.push((cut.encode(), now));
        rest = later;
    }
    out
}
