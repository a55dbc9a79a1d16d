//! Receipts of payments, to take away and to check with the members' keys alone (specification, section 4.10).
//!
//! A receipt carries the payment's entry; where a later entry of its log is what a certificate names, those up to it, for a
//! certificate certifies every ancestor (4.4); that entry's path to the header of its batch; the certificate of the batch by
//! members whose lists of exceptions leave the entry in; and the words of members that the batch has settled, so many as its level
//! needs. Whoever shortens a receipt is left with less than a quorum, or with a lower level that is true as well.
//!
//! *Bounds.* [`CHAIN_MAX`] entries; a certificate of [`CERTIFICATE_MAX`] bytes. Nothing is allocated beyond what the bytes of a
//! receipt hold.

use core::fmt;

use synod_crypto::{Evidence, Group, Hash, Keys, Refusal, Signature, Threshold, verify_evidence};
use synod_ledger::{Digests, Entry};
use synod_machine::broadcast::{Except, Lot, Transferable, View};
use synod_quorum::{Epoch, NodeId, NodeSet};
use synod_wire::{Blob, Bytes, Limits, List, Malformed, wire};

use crate::batch::{EntryProof, Header, prove};
use crate::words::{Level, Receipt, Settled};

/// Most entries from a payment to the one that a certificate names.
pub const CHAIN_MAX: usize = 64;
/// Longest certificate of a receipt, in bytes.
pub const CERTIFICATE_MAX: usize = 512 << 10;
/// Most words of members.
const WORDS_MAX: usize = 128;

wire! {
    /// How a receipt is written.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Format {
        /// As here.
        1 = First,
    }

    /// A member's word that a batch has settled there.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct SettledBy {
        /// Whose.
        pub member: u8,
        /// Entries of the batch that have not.
        pub open: Except,
        /// Over [`Settled`].
        pub signature: Signature,
    }

    /// What proves a payment to anybody.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct PaymentReceipt {
        /// See there.
        pub format: Format,
        /// The payment's entry, and those behind it up to the one that the certificate names.
        pub chain: List<Entry, CHAIN_MAX>,
        /// What the batch of the last of them commits to.
        pub header: Header,
        /// Where it stands in the batch.
        pub place: EntryProof,
        /// The certificate of the batch: a [`Transferable`] of the cluster's broadcast.
        pub certificate: Blob<CERTIFICATE_MAX>,
        /// Members where it settled, lowest first.
        pub settled: List<SettledBy, WORDS_MAX>,
    }
}

/// What a node has of a batch, to make receipts from.
#[derive(Clone, Debug)]
pub struct Material<'a> {
    /// See there.
    pub header: &'a Header,
    /// The digest of each entry.
    pub digests: &'a [Hash],
    /// Certificates of it, as the broadcast encodes them.
    pub certificates: &'a [Bytes],
    /// Members' words that it settled, one of each.
    pub words: &'a [Receipt],
}

/// What a receipt proves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proved {
    /// How sure the payment is.
    pub level: Level,
    /// The payment.
    pub entry: Entry,
    /// Its digest.
    pub digest: Hash,
    /// The batch that certifies it.
    pub lot: Lot,
    /// Members who endorsed it.
    pub certified_by: NodeSet,
    /// Members where it settled, as far as the receipt says.
    pub settled_by: NodeSet,
}

/// Why a receipt proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoReceipt {
    /// It names no entry, or entries that are not one chain.
    Chain,
    /// The last entry does not stand at that place of that batch.
    Inclusion,
    /// The certificate cannot be read.
    Malformed(Malformed),
    /// Signed in another view, epoch or shard.
    OtherView,
    /// The certificate is of another batch.
    OtherBatch,
    /// This member signed, and leaves the entry out.
    Excepted(NodeId),
    /// The certificate's signatures.
    Certificate(Refusal),
    /// This member's word is that the entry has not settled there.
    Open(NodeId),
    /// The signatures of members where it is said to have settled.
    Settled(Refusal),
}

impl fmt::Display for NoReceipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chain => f.write_str("its entries are not one chain"),
            Self::Inclusion => f.write_str("the entry does not stand in the batch"),
            Self::Malformed(why) => write!(f, "the certificate cannot be read: {why}"),
            Self::OtherView => f.write_str("it was signed in another view or shard"),
            Self::OtherBatch => f.write_str("the certificate is of another batch"),
            Self::Excepted(member) => write!(f, "{member} signed for the batch without this entry"),
            Self::Certificate(why) => write!(f, "the certificate does not hold: {why}"),
            Self::Open(member) => write!(f, "{member} says that the entry has not settled"),
            Self::Settled(why) => write!(f, "that it settled does not hold: {why}"),
        }
    }
}

impl core::error::Error for NoReceipt {}

/// Members' words about one batch.
struct Words {
    epoch: Epoch,
    signed: Vec<(NodeId, Settled, Signature)>,
}

impl Evidence for Words {
    type Statement = Settled;

    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn groups(&self) -> Result<Vec<Group<Settled>>, Refusal> {
        if !self.signed.is_sorted_by(|(one, ..), (next, ..)| one < next) {
            return Err(Refusal::Unfit("members stand in order, each once"));
        }
        Ok(vec![Group { threshold: Threshold::Weak, signed: self.signed.clone() }])
    }
}

/// Checks a receipt against the members of a view, without network or disk. `C` is what the cluster's broadcast gives as proof,
/// and `keys` may be anybody's.
///
/// # Errors
/// [`NoReceipt`] names what does not hold.
pub fn verify_receipt<C: Transferable>(
    receipt: &PaymentReceipt,
    view: &View,
    keys: &Keys,
) -> Result<Proved, NoReceipt> {
    let header = &receipt.header;
    let (entry, digest, last) = receipt.chained()?;
    if !receipt.place.shows(last, header) {
        return Err(NoReceipt::Inclusion);
    }
    let bytes = receipt.certificate.bytes().clone();
    let certificate = C::decode(bytes, &limits()).map_err(NoReceipt::Malformed)?;
    let here = (view.context, view.roster.epoch());
    if (certificate.context(), certificate.epoch()) != here || header.shard != view.context.shard {
        return Err(NoReceipt::OtherView);
    }
    if (certificate.lot(), certificate.digest()) != (header.lot, header.digest()) {
        return Err(NoReceipt::OtherBatch);
    }
    if let Some(member) = certificate.excepting(receipt.place.index) {
        return Err(NoReceipt::Excepted(member));
    }
    let certified_by = certificate.signers();
    verify_evidence(certificate, keys, view.cluster, &view.roster).map_err(NoReceipt::Certificate)?;
    let settled_by = receipt.settled_by(view, keys)?;
    Ok(Proved {
        level: receipt.level(view),
        entry: entry.clone(),
        digest,
        lot: header.lot,
        certified_by,
        settled_by,
    })
}

fn limits() -> Limits {
    Limits { frame_max: u32::try_from(CERTIFICATE_MAX).unwrap_or(u32::MAX) }
}

impl PaymentReceipt {
    /// Makes the receipt of the first of these entries, at the highest level that the batch of the last of them shows in a cluster
    /// of this view; `None` where the batch, or what fits into a receipt, does not show it to be certified.
    #[must_use]
    pub fn new<C: Transferable>(chain: Vec<Entry>, material: &Material<'_>, view: &View) -> Option<Self> {
        let Material { header, digests, certificates, words } = *material;
        let last = Digests::default().entry(chain.last()?);
        let index = u32::try_from(digests.iter().position(|digest| *digest == last)?).ok()?;
        let weights = view.roster.weights();
        let quorum = u32::try_from(weights.intersecting()).ok()?;
        let certificates =
            certificates.iter().filter_map(|bytes| C::decode(bytes.clone(), &Limits::default()).ok());
        let certificates = certificates.filter_map(|certificate| certificate.of_item(index, quorum));
        let certificate = certificates.map(|certificate| certificate.encode()).min_by_key(Bytes::len)?;
        let of_batch = words.iter().filter(|word| (word.lot, word.digest) == (header.lot, header.digest()));
        let settled = of_batch.filter(|word| word.open.items().binary_search(&index).is_err());
        let mut settled: Vec<&Receipt> = settled.collect();
        settled.sort_by_key(|word| (word.open.items().len(), word.member));
        let fewest = usize::try_from(weights.weak()).ok()?;
        settled.truncate(match settled.len() {
            many if many >= usize::try_from(quorum).ok()? => usize::try_from(quorum).ok()?,
            some if some >= fewest => fewest,
            _ => 0,
        });
        settled.sort_by_key(|word| word.member);
        let settled = settled.into_iter().map(|word| {
            let Receipt { member, open, signature, .. } = word.clone();
            SettledBy { member, open, signature }
        });
        Some(Self {
            format: Format::First,
            chain: List::try_from(chain).ok()?,
            header: *header,
            place: prove(digests, index)?,
            certificate: Blob::try_from(certificate).ok()?,
            settled: List::try_from(settled.collect::<Vec<_>>()).ok()?,
        })
    }

    /// The level that it shows if its signatures are good.
    #[must_use]
    pub fn level(&self, view: &View) -> Level {
        let members = self.settled.iter().map(|word| NodeId(u32::from(word.member)));
        match members.fold(NodeSet::EMPTY, NodeSet::with) {
            NodeSet::EMPTY => Level::Certified,
            members if view.roster.weights().intersects(members) => Level::Stable,
            _ => Level::Settled,
        }
    }

    /// The payment with its digest, and the digest of the last entry of the chain.
    fn chained(&self) -> Result<(&Entry, Hash, Hash), NoReceipt> {
        let digests = Digests::default();
        let (first, behind) = self.chain.split_first().ok_or(NoReceipt::Chain)?;
        let digest = digests.entry(first);
        let (mut before, mut last) = (first.id, digest);
        for entry in behind {
            let is_next = entry.id.spender == before.spender && Some(entry.id.n) == before.n.checked_add(1);
            if !is_next || entry.prev != last {
                return Err(NoReceipt::Chain);
            }
            (before, last) = (entry.id, digests.entry(entry));
        }
        Ok((first, digest, last))
    }

    /// Members where it settled; none where the receipt does not say.
    fn settled_by(&self, view: &View, keys: &Keys) -> Result<NodeSet, NoReceipt> {
        if self.settled.is_empty() {
            return Ok(NodeSet::EMPTY);
        }
        let (context, lot, digest) = (view.context, self.header.lot, self.header.digest());
        let (mut members, mut signed) = (NodeSet::EMPTY, Vec::new());
        for word in &self.settled {
            let member = NodeId(u32::from(word.member));
            if word.open.items().binary_search(&self.place.index).is_ok() {
                return Err(NoReceipt::Open(member));
            }
            members.insert(member);
            signed.push((member, Settled { context, lot, digest, open: word.open.digest() }, word.signature));
        }
        let words = Words { epoch: view.roster.epoch(), signed };
        verify_evidence(words, keys, view.cluster, &view.roster).map_err(NoReceipt::Settled)?;
        Ok(members)
    }
}
