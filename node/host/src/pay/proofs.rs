//! What receipts and the log are made from, in the index: batches, certified and settled.
//!
//! *Rows.* `b` lane, number: header and digests of a batch. `a` lane, number: what it carries beside its entries, if it is more than
//! the institution's word for all. `c` lane, number, name: a certificate of it. `w` lane, number, member:
//! a member's word that it has settled there. `l` payer, n, lane, number: nothing; the batch carries the entry. They are written
//! with the entries that the batch settles or before, so an entry of the index has its batch there unless an earlier release wrote
//! it.
//!
//! *Bounds.* A batch takes 32 bytes per entry, once, and its certificates and words about 100 bytes per member each; a receipt looks
//! at [`CHAIN_MAX`] entries at most.

use std::sync::Arc;

use synod_astro::audit::{Beside, Carried as Listed, Item};
use synod_astro::{CHAIN_MAX, Header, Material, Opened, PaymentReceipt, Receipt};
use synod_broadcast::signed::Certificate;
use synod_crypto::Hash;
use synod_ledger::{Entry, EntryId};
use synod_machine::broadcast::{ITEMS_MAX, Lot, View};
use synod_wire::{Blob, Bytes, Limits, List, Wire};

use super::index::{Index, Rows, key, place, read_place};

/// Longest row: what a batch carries beside its entries.
const ROW_BYTES_MAX: u32 = 4 << 20;
/// Bytes of records behind which a page of the log takes no more.
const PAGE_BYTES: usize = 256 << 10;
/// Rows that are looked at for a page.
const PAGE_ROWS: usize = 4_096;
/// Kinds of rows in the order in which the log has them: what is certified was so before it settled, so whoever reads on while things
/// happen finds the certificate of whatever it has.
const ORDER: [u8; 4] = *b"pbcw";
/// Most certificates of a batch, and most of one entry's batches, that are looked at.
const LOOKED_MAX: usize = 128;

/// A batch without its entries: its header and their digests.
type Row = (Header, List<Hash, ITEMS_MAX>);

/// A batch that is certified, as the index keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    opened: Arc<Opened>,
    proofs: Vec<Bytes>,
    /// Its entries of which receipts may be asked for here.
    places: Vec<EntryId>,
}

impl Shown {
    /// What member `own` keeps of a batch: all of its own, and what its registrar's accounts pay or are paid.
    pub(super) fn new(opened: Arc<Opened>, proofs: Vec<Bytes>, own: u32) -> Self {
        let is_mine = u32::from(opened.lot().source) == own;
        let lines = opened.batch.lines.iter().map(|line| &line.entry);
        let places = lines.filter(|entry| {
            let is_own = |registrar| registrar == own;
            is_mine
                || is_own(entry.id.spender.registrar)
                || entry.names().any(|account| is_own(account.registrar))
        });
        let places = places.map(|entry| entry.id).collect();
        Self { opened, proofs, places }
    }

    /// As rows of the index, as far as it does not have them: each new certificate of a batch comes with all that came before.
    pub(super) fn rows(&self, rows: &mut Rows, is_kept: impl Fn(&[u8]) -> bool) {
        let lot = number(self.opened.lot());
        let batch = key(b'b', &[&lot]);
        if !rows.contains_key(&batch) && !is_kept(&batch) {
            let digests = List::try_from(self.opened.digests.clone()).expect("a batch has no more");
            let row: Row = (self.opened.batch.header, digests);
            rows.insert(batch, Some(row.encode()));
            let beside = Beside::of(&self.opened.batch);
            if beside != Beside::default() {
                rows.insert(key(b'a', &[&lot]), Some(beside.encode()));
            }
            for id in &self.places {
                rows.insert(key(b'l', &[&place(*id), &lot]), Some(Bytes::new()));
            }
        }
        for proof in &self.proofs {
            let certificate = key(b'c', &[&lot, &Hash::of(proof).0]);
            if !is_kept(&certificate) {
                rows.insert(certificate, Some(proof.clone()));
            }
        }
    }
}

/// A member's word as a row of the index.
pub(super) fn word(receipt: &Receipt) -> (Bytes, Bytes) {
    (key(b'w', &[&number(receipt.lot), &[receipt.member]]), receipt.encode())
}

/// Records of the log, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogPage {
    /// As bytes of [`Item`]s.
    pub records: Vec<Bytes>,
    /// Where the next page begins; `None` behind the last.
    pub next: Option<Bytes>,
}

fn number(lot: Lot) -> [u8; 9] {
    let mut bytes = [0; 9];
    bytes[0] = lot.source;
    bytes[1..].copy_from_slice(&lot.sequence.to_be_bytes());
    bytes
}

fn read<T: Wire>(bytes: Bytes) -> Option<T> {
    T::decode(bytes, &Limits { frame_max: ROW_BYTES_MAX }).ok()
}

/// What is kept of a batch that carries an entry.
struct Carried {
    header: Header,
    digests: List<Hash, ITEMS_MAX>,
    /// Of members where the entry has settled by it, one of each.
    words: Vec<Receipt>,
    certificates: Vec<Bytes>,
}

impl Index {
    /// A page of the log for audits, from where the page before said; of what settled up to this position. At least one record.
    #[must_use]
    pub fn log(&self, from: Option<&[u8]>, until: u64) -> LogPage {
        let mut from = Bytes::copy_from_slice(from.filter(|from| !from.is_empty()).unwrap_or(&ORDER[..1]));
        let mut page = LogPage::default();
        let mut bytes = 0;
        loop {
            let Some(at) = ORDER.iter().position(|kind| from.first() == Some(kind)) else { return page };
            let rows = self.read().scan(&from, PAGE_ROWS);
            let is_last =
                rows.len() < PAGE_ROWS || rows.last().is_some_and(|(key, _)| key.first() != from.first());
            let mut last = None;
            let behind = key(b'p', &[&until.to_be_bytes()]);
            let of_kind = rows.into_iter().take_while(|(key, _)| key.first() == from.first());
            for (key, row) in of_kind.take_while(|(key, _)| key.first() != Some(&b'p') || *key <= behind) {
                if bytes >= PAGE_BYTES {
                    page.next = Some(key);
                    return page;
                }
                let record = self.record(&key, row);
                bytes += record.as_ref().map_or(0, Bytes::len);
                page.records.extend(record);
                last = Some(key);
            }
            from = match last.filter(|_| !is_last) {
                Some(last) => last.iter().copied().chain([0]).collect(),
                None => match ORDER.get(at + 1) {
                    Some(kind) => Bytes::copy_from_slice(&[*kind]),
                    None => return page,
                },
            };
        }
    }

    /// A row as a record of the log.
    fn record(&self, at: &Bytes, row: Bytes) -> Option<Bytes> {
        let item = match at.split_first()? {
            (b'p', _) => {
                let settled = self.entry(read_place(&row)?)?;
                Item::Settled(Arc::unwrap_or_clone(settled.entry))
            }
            (b'b', lot) => {
                let (header, digests): Row = read(row)?;
                let beside = self.read().get(&key(b'a', &[lot]));
                let beside = beside.map_or_else(|| Some(Beside::default()), read)?;
                Item::Batch(Listed { header, digests, beside })
            }
            (b'c', _) => Item::Certificate(Blob::try_from(row).ok()?),
            _ => Item::Word(read(row)?),
        };
        Some(item.encode())
    }

    /// The receipt of a settled entry, at the highest level that a batch with it shows; by a later entry of its log, where only that
    /// one's batch is certified with it; `None` where this node has no certificate of it.
    ///
    /// A receipt by a later entry shows those in between to whoever gets it.
    #[must_use]
    pub fn receipt(&self, id: EntryId, view: &View) -> Option<PaymentReceipt> {
        let mut chain: Vec<Entry> = Vec::new();
        for n in (id.n..).take(CHAIN_MAX) {
            let next = EntryId { n, ..id };
            let known = self.entry(next)?;
            chain.push(Arc::unwrap_or_clone(known.entry));
            let carried = |lot| self.carried(lot, known.digest);
            let mut batches: Vec<Carried> = self.batches(next).filter_map(carried).collect();
            // The batch that most members say has settled shows the highest level, if it is certified.
            batches.sort_by_key(|batch| std::cmp::Reverse(batch.words.len()));
            let made = batches.iter().find_map(|batch| {
                let Carried { header, digests, words, certificates } = batch;
                let material = Material { header, digests, certificates, words };
                PaymentReceipt::new::<Certificate>(chain.clone(), &material, view)
            });
            if made.is_some() {
                return made;
            }
        }
        None
    }

    fn carried(&self, lot: [u8; 9], entry: Hash) -> Option<Carried> {
        let (header, digests): Row = read(self.read().get(&key(b'b', &[&lot]))?)?;
        let index = u32::try_from(digests.iter().position(|digest| *digest == entry)?).ok()?;
        let certificates = self.rows_of(&key(b'c', &[&lot])).into_iter().map(|(_, row)| row);
        let words = self.rows_of(&key(b'w', &[&lot])).into_iter().filter_map(|(_, row)| read(row));
        let words = words.filter(|word: &Receipt| word.open.items().binary_search(&index).is_err());
        Some(Carried { header, digests, words: words.collect(), certificates: certificates.collect() })
    }

    /// The batches that carry an entry.
    fn batches(&self, id: EntryId) -> impl Iterator<Item = [u8; 9]> {
        let rows = self.rows_of(&key(b'l', &[&place(id)])).into_iter();
        rows.filter_map(|(key, _)| key.get(25..)?.try_into().ok())
    }

    fn rows_of(&self, prefix: &[u8]) -> Vec<(Bytes, Bytes)> {
        let mut rows = self.read().scan(prefix, LOOKED_MAX);
        rows.retain(|(key, _)| key.starts_with(prefix));
        rows
    }
}
