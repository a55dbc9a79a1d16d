//! What receipts and the log are made from, in the index: batches, certified and settled.
//!
//! *Rows.* `b` lane, number: header and digests of a batch. `a` lane, number: what it carries beside its entries, if it is more than
//! the institution's word for all. `c` lane, number, name: a certificate of it. `w` lane, number, member:
//! a member's word that it has settled there. Which batches carry an entry is a record of [`super::sorted`]. They are written
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

use super::Seat;
use super::blocks::Looking;
use super::index::Index;
use super::rows::{Rows, key, prefixed};
use super::sorted::Sorted;

/// Longest row: what a batch carries beside its entries.
const ROW_BYTES_MAX: u32 = 4 << 20;
/// Bytes of records behind which a page of the log takes no more.
const PAGE_BYTES: usize = 256 << 10;
/// Rows that are looked at at a time.
const PAGE_ROWS: usize = 32;
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
    /// What the member of a seat keeps of a batch: all of its own, and what its registrar's accounts pay or are paid.
    pub(super) fn new(opened: Arc<Opened>, proofs: Vec<Bytes>, own: Seat) -> Self {
        let is_mine = u32::from(opened.lot().source) == own.number;
        let lines = opened.batch.lines.iter().map(|line| &line.entry);
        let places = lines.filter(|entry| {
            is_mine || own.owns(entry.id.spender) || entry.names().any(|account| own.owns(account))
        });
        let places = places.map(|entry| entry.id).collect();
        Self { opened, proofs, places }
    }

    /// As rows of the index, as far as it does not have them: each new certificate of a batch comes with all that came before.
    pub(super) fn rows(&self, rows: &mut Rows, sorted: &mut Sorted, is_kept: impl Fn(&[u8]) -> bool) {
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
            self.places.iter().for_each(|id| sorted.carry(*id, self.opened.lot()));
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
        while let Some(at) = ORDER.iter().position(|kind| from.first() == Some(kind)) {
            let next = if at == 0 {
                self.settled(&from, until, (&mut page, &mut bytes))
            } else {
                self.proving(&from, (&mut page, &mut bytes))
            };
            if next.is_some() {
                page.next = next;
                return page;
            }
            match ORDER.get(at + 1) {
                Some(kind) => from = Bytes::copy_from_slice(&[*kind]),
                None => break,
            }
        }
        page
    }

    /// Adds what settled from a position on; where the next page begins, if this one is full.
    fn settled(&self, from: &[u8], until: u64, (page, bytes): (&mut LogPage, &mut usize)) -> Option<Bytes> {
        let first = from.get(1..).and_then(|at| at.try_into().ok()).map_or(1, u64::from_be_bytes);
        let mut looking = Looking::at(self.read());
        for position in first.max(1)..=until.min(self.position()) {
            if *bytes >= PAGE_BYTES {
                return Some(key(b'p', &[&position.to_be_bytes()]));
            }
            // What was credited from another shard stands in the batch that imports it.
            let settled = looking.find(position).map(|(settled, _)| settled);
            if let Some(settled) = settled.filter(|settled| self.keeps_log_of(settled.place().spender)) {
                let record = Item::Settled(Arc::unwrap_or_clone(settled.entry)).encode();
                *bytes += record.len();
                page.records.push(record);
            }
        }
        None
    }

    /// Adds what proves that, of one kind, from a row on; where the next page begins, if this one is full.
    fn proving(&self, from: &Bytes, (page, bytes): (&mut LogPage, &mut usize)) -> Option<Bytes> {
        let mut from = from.clone();
        loop {
            let rows = self.read().scan(&from, PAGE_ROWS);
            let is_whole = rows.len() == PAGE_ROWS;
            let mut last = None;
            for (at, row) in rows {
                if at.first() != from.first() {
                    return None;
                }
                if *bytes >= PAGE_BYTES {
                    return Some(at);
                }
                let record = self.record(&at, row);
                *bytes += record.as_ref().map_or(0, Bytes::len);
                page.records.extend(record);
                last = Some(at);
            }
            match last.filter(|_| is_whole) {
                Some(last) => from = last.iter().copied().chain([0]).collect(),
                None => return None,
            }
        }
    }

    /// A row as a record of the log.
    fn record(&self, at: &Bytes, row: Bytes) -> Option<Bytes> {
        let item = match at.split_first()? {
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
            let mut batches: Vec<Carried> = self.batches(next).into_iter().filter_map(carried).collect();
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
    fn batches(&self, id: EntryId) -> Vec<[u8; 9]> {
        let found = self.known().batches(self.read(), id, LOOKED_MAX).into_iter();
        found.map(|(source, sequence)| number(Lot { source, sequence })).collect()
    }

    fn rows_of(&self, prefix: &[u8]) -> Vec<(Bytes, Bytes)> {
        prefixed(self.read(), prefix, LOOKED_MAX)
    }
}
