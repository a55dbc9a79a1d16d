//! What receipts are made from, in the index: batches that concern this institution's accounts, certified and settled.
//!
//! *Rows.* `b` lane, number: header and digests of a batch. `c` lane, number, name: a certificate of it. `w` lane, number, member:
//! a member's word that it has settled there. `l` payer, n, lane, number: nothing; the batch carries the entry. They are written
//! with the entries that the batch settles or before, so an entry of the index has its batch there unless an earlier release wrote
//! it.
//!
//! *Bounds.* A batch takes 32 bytes per entry, and its certificates and words about 100 bytes per member each; a receipt looks at
//! [`CHAIN_MAX`] entries at most.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_astro::{CHAIN_MAX, Header, Level, Material, Opened, PaymentReceipt, Receipt};
use synod_broadcast::signed::Certificate;
use synod_crypto::Hash;
use synod_ledger::EntryId;
use synod_machine::broadcast::{ITEMS_MAX, Lot, View};
use synod_service::StateStore as _;
use synod_wire::{Bytes, Limits, List, Wire};

use super::index::{Index, key, place};

/// Longest row: the digests of a batch.
const ROW_BYTES_MAX: u32 = 1 << 20;
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

    /// As rows of the index.
    pub(super) fn rows(&self, rows: &mut BTreeMap<Bytes, Bytes>) {
        let (lot, header) = (number(self.opened.lot()), self.opened.batch.header);
        let digests = List::try_from(self.opened.digests.clone()).expect("a batch has no more");
        let row: Row = (header, digests);
        rows.insert(key(b'b', &[&lot]), row.encode());
        for proof in &self.proofs {
            rows.insert(key(b'c', &[&lot, &Hash::of(proof).0]), proof.clone());
        }
        for id in &self.places {
            rows.insert(key(b'l', &[&place(*id), &lot]), Bytes::new());
        }
    }
}

/// A member's word as a row of the index.
pub(super) fn word(receipt: &Receipt) -> (Bytes, Bytes) {
    (key(b'w', &[&number(receipt.lot), &[receipt.member]]), receipt.encode())
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

impl Index {
    /// The receipt of a settled entry, at the highest level that this node can show; `None` where it has no certificate of it.
    #[must_use]
    pub fn receipt(&self, id: EntryId, view: &View) -> Option<PaymentReceipt> {
        let mut best: Option<PaymentReceipt> = None;
        let mut chain = Vec::new();
        for n in (id.n..).take(CHAIN_MAX) {
            let next = EntryId { n, ..id };
            let Some(entry) = self.entry(next) else { break };
            chain.push(entry.entry);
            // What proves a later entry of the log proves this one.
            for receipt in self.batches(next).filter_map(|lot| self.shown_by(&chain, lot, view)) {
                if best.as_ref().is_none_or(|best| best.level(view) < receipt.level(view)) {
                    best = Some(receipt);
                }
            }
            if best.as_ref().is_some_and(|best| best.level(view) == Level::Stable) {
                break;
            }
        }
        best
    }

    fn shown_by(&self, chain: &[synod_ledger::Entry], lot: [u8; 9], view: &View) -> Option<PaymentReceipt> {
        let (header, digests): Row = read(self.read().get(&key(b'b', &[&lot]))?)?;
        let certificates = self.rows_of(&key(b'c', &[&lot])).into_iter().map(|(_, row)| row);
        let words = self.rows_of(&key(b'w', &[&lot])).into_iter().filter_map(|(_, row)| read(row));
        let (certificates, words): (Vec<Bytes>, Vec<Receipt>) = (certificates.collect(), words.collect());
        let material =
            Material { header: &header, digests: &digests, certificates: &certificates, words: &words };
        PaymentReceipt::new::<Certificate>(chain.to_vec(), &material, view)
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
