//! Lanes: batches, their certificates, and what members said of them.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::sync::Arc;

use synod_crypto::{Hash, Keys, verify_all, verify_evidence};
use synod_ledger::{Book, Code, Digests, Entry, Opening, Units};
use synod_machine::broadcast::{Lot, Transferable, View};
use synod_quorum::NodeId;
use synod_wire::{Bytes, Limits, Wire as _};

use super::replay::{Findings, Replay};
use super::roots::{Roots, Signed};
use super::violation::{Violation, What};
use super::words::{Carried, CountedAt, Item};
use super::{COUNTS_MAX, ENTRIES_MAX, VIOLATIONS_MAX};
use crate::batch::{Auth, digests_of, roots_of};
use crate::job::receipt_claim;
use crate::receipt::CERTIFICATE_MAX;
use crate::words::Receipt;

/// A batch of the log.
struct Known<C> {
    record: u64,
    carried: Carried,
    /// Those that hold.
    certificates: Vec<C>,
    /// Members that said that it settled.
    words: BTreeSet<u8>,
}

/// An entry of the log.
pub(super) struct Stood {
    pub(super) record: u64,
    pub(super) entry: Arc<Entry>,
    pub(super) digest: Hash,
}

/// How an entry is carried by batches that are certified.
#[derive(Default)]
pub(super) struct Carriage {
    /// Whether one of them is certified with it.
    pub(super) is_certified: bool,
    /// In whose lanes, and who vouches there.
    pub(super) by: Vec<(u8, Auth)>,
}

/// Violations as far as they are told one by one, and how many there are.
#[derive(Default)]
pub(super) struct Offences {
    pub(super) told: Vec<Violation>,
    pub(super) count: u64,
}

impl Offences {
    pub(super) fn add(&mut self, violation: Violation) {
        self.count += 1;
        if self.told.len() < VIOLATIONS_MAX {
            self.told.push(violation);
        }
    }
}

/// See [`super`]. `C` is what the cluster's broadcast gives as proof.
pub struct Audit<C> {
    view: View,
    genesis: Vec<Opening>,
    caps: BTreeMap<u32, Units>,
    lots: BTreeMap<Lot, BTreeMap<Hash, Known<C>>>,
    entries: Vec<Stood>,
    offences: Offences,
    /// Certificates and words of batches that the log does not have: those of after it was begun.
    beyond: u64,
    words: Vec<(u64, Receipt)>,
    /// What the next cut counts.
    counted: Vec<CountedAt>,
    /// How many of these there were in all.
    counts: usize,
    cuts: Vec<Signed>,
    proof: PhantomData<C>,
}

impl<C: Transferable + Clone> Audit<C> {
    /// An audit of a cluster's log, from the accounts that its genesis opens, and how much each registrar's accounts may owe in all.
    #[must_use]
    pub const fn new(view: View, genesis: Vec<Opening>, caps: BTreeMap<u32, Units>) -> Self {
        Self {
            view,
            genesis,
            caps,
            lots: BTreeMap::new(),
            entries: Vec::new(),
            offences: Offences { told: Vec::new(), count: 0 },
            beyond: 0,
            words: Vec::new(),
            counted: Vec::new(),
            counts: 0,
            cuts: Vec::new(),
            proof: PhantomData,
        }
    }

    /// Takes the next record. False beyond [`ENTRIES_MAX`] or [`COUNTS_MAX`]: the log is longer than an audit takes.
    #[must_use]
    pub fn take(&mut self, record: u64, item: Item, keys: &Keys) -> bool {
        match item {
            Item::Settled(entry) => {
                let digest = Digests::default().entry(&entry);
                self.entries.push(Stood { record, entry: Arc::new(entry), digest });
            }
            Item::Batch(carried) => self.batch(record, carried),
            Item::Certificate(bytes) => self.certificate(record, bytes.bytes().clone(), keys),
            Item::Word(word) => self.words.push((record, word)),
            Item::Counted(counted) => {
                self.counts = self.counts.saturating_add(counted.len());
                self.counted.extend(counted.iter());
            }
            Item::Cut { root, certificate } => {
                let counted = std::mem::take(&mut self.counted);
                self.cuts.push(Signed { at: record, root: *root, certificate: *certificate, counted });
            }
            Item::End { .. } => {}
        }
        self.entries.len() <= ENTRIES_MAX && self.counts <= COUNTS_MAX
    }

    fn batch(&mut self, record: u64, carried: Carried) {
        let header = carried.header;
        if !is_whole(&carried) || header.shard != self.view.context.shard {
            let shown = Violation::of(What::Root).at(record).in_lot(header.lot);
            self.offences.add(shown.showing("batch", carried.encode()));
            return;
        }
        let known = Known { record, carried, certificates: Vec::new(), words: BTreeSet::new() };
        self.lots.entry(header.lot).or_default().entry(header.digest()).or_insert(known);
    }

    fn certificate(&mut self, record: u64, bytes: Bytes, keys: &Keys) {
        let limits = Limits { frame_max: u32::try_from(CERTIFICATE_MAX).unwrap_or(u32::MAX) };
        let bad = |why: String| {
            Violation::of(What::Certificate(why)).at(record).showing("certificate", bytes.clone())
        };
        let certificate = match C::decode(bytes.clone(), &limits) {
            Ok(certificate) => certificate,
            Err(why) => return self.offences.add(bad(why.to_string())),
        };
        let lot = certificate.lot();
        let here = (self.view.context, self.view.roster.epoch());
        if (certificate.context(), certificate.epoch()) != here {
            return self.offences.add(bad("it is of another view or shard".to_owned()).in_lot(lot));
        }
        let (digest, kept) = (certificate.digest(), certificate.clone());
        if let Err(why) = verify_evidence(certificate, keys, self.view.cluster, &self.view.roster) {
            return self.offences.add(bad(why.to_string()).in_lot(lot));
        }
        match self.lots.get_mut(&lot).and_then(|of| of.get_mut(&digest)) {
            Some(known) => known.certificates.push(kept),
            None => self.beyond += 1,
        }
    }

    /// What is found, once all was taken.
    #[must_use]
    pub fn finish(mut self, keys: &Keys) -> Findings {
        self.say(keys);
        self.chain();
        let mut book = Book::new(self.view.context.shard);
        for opening in &self.genesis {
            if let Err(code) = book.open(opening) {
                self.offences.add(Violation::of(What::Opening(code)).showing("opening", opening.encode()));
            }
        }
        self.open(&mut book);
        let carriage = self.carriage();
        let imports =
            self.certified().flat_map(|(_, known)| known.carried.beside.rest.imports.iter().cloned());
        let imports = imports.collect();
        let lots = self.certified().map(|(lot, known)| (lot, known.carried.header)).collect();
        let batches = self.lots.values().map(|of| of.len() as u64).sum();
        let certificates =
            self.lots.values().flat_map(BTreeMap::values).map(|known| known.certificates.len());
        let certificates = certificates.sum::<usize>() as u64;
        let words = self.lots.values().flat_map(BTreeMap::values).map(|known| known.words.len() as u64).sum();
        let roots = Roots::new(&self.view, &self.entries, &book);
        let cuts = roots.check(std::mem::take(&mut self.cuts), (keys, &mut self.offences));
        let replay = Replay { view: &self.view, book, carriage, imports };
        let mut found = replay.run(&self.entries, self.offences, keys);
        (found.lots, found.cuts) = (lots, cuts);
        (found.batches, found.certificates, found.words, found.beyond) =
            (batches, certificates, words, self.beyond);
        found
    }

    /// Batches that a certificate names, in the order of their lanes.
    fn certified(&self) -> impl Iterator<Item = (Lot, &Known<C>)> {
        let all = self.lots.iter().flat_map(|(lot, of)| of.values().map(|known| (*lot, known)));
        all.filter(|(_, known)| !known.certificates.is_empty())
    }

    /// Checks members' words, all as one batch of signatures.
    fn say(&mut self, keys: &Keys) {
        let mut said: BTreeMap<(Lot, u8), (Hash, Receipt)> = BTreeMap::new();
        let words = std::mem::take(&mut self.words);
        let (mut claims, mut of) = (Vec::new(), Vec::new());
        for (record, word) in words {
            match receipt_claim(&self.view, NodeId(u32::from(word.member)), &word) {
                Some(claim) => {
                    claims.push(claim);
                    of.push((record, word));
                }
                None => self.offences.add(bad_word(record, &word)),
            }
        }
        for (checked, (record, word)) in verify_all(claims, keys).into_iter().zip(of) {
            if checked.is_err() {
                self.offences.add(bad_word(record, &word));
                continue;
            }
            let place = (word.lot, word.member);
            if let Some((digest, first)) = said.get(&place)
                && *digest != word.digest
            {
                let shown = Violation::of(What::TwoWords).at(record).in_lot(word.lot);
                self.offences.add(shown.showing("word", first.encode()).showing("word", word.encode()));
            }
            match self.lots.get_mut(&word.lot).and_then(|of| of.get_mut(&word.digest)) {
                Some(known) => _ = known.words.insert(word.member),
                None => self.beyond += 1,
            }
            said.entry(place).or_insert((word.digest, word));
        }
    }

    /// Each certified batch of a lane names the one before it, and there is one for each place.
    fn chain(&mut self) {
        let mut found = Vec::new();
        let mut before: Option<(Lot, Hash)> = None;
        for (lot, of) in &self.lots {
            let certified: Vec<(&Hash, &Known<C>)> =
                of.iter().filter(|(_, known)| !known.certificates.is_empty()).collect();
            if let [(_, one), (_, other), ..] = certified[..] {
                let proofs = [one, other].into_iter().filter_map(|known| known.certificates.first());
                let shown = Violation::of(What::TwoBatches).at(other.record).in_lot(*lot);
                found.push(proofs.fold(shown, |shown, proof| shown.showing("certificate", proof.encode())));
            }
            let Some((digest, known)) = certified.first() else { continue };
            let last = before.filter(|(last, _)| last.source == lot.source);
            let (sequence, prev) = last.map_or((0, Hash::ZERO), |(last, digest)| (last.sequence, digest));
            if sequence + 1 < lot.sequence {
                let first = Lot { source: lot.source, sequence: sequence + 1 };
                found.push(Violation::of(What::Missing).at(known.record).in_lot(first));
            } else if known.carried.header.prev != prev {
                let shown = Violation::of(What::Lane).at(known.record).in_lot(*lot);
                found.push(shown.showing("header", known.carried.header.encode()));
            }
            before = Some((*lot, **digest));
        }
        found.into_iter().for_each(|violation| self.offences.add(violation));
    }

    /// Opens the accounts of certified batches, in the order of their lanes.
    fn open(&mut self, book: &mut Book) {
        let mut found = Vec::new();
        let mut granted: BTreeMap<u32, u128> = BTreeMap::new();
        for opening in &self.genesis {
            *granted.entry(opening.id.registrar).or_default() += opening.limit_max.0;
        }
        for (lot, known) in self.certified() {
            for opening in known.carried.beside.openings.iter() {
                let is_own = opening.id.registrar == u32::from(lot.source);
                let opened = if is_own { book.open(opening) } else { Err(Code::Unauthorized) };
                let owes = granted.entry(opening.id.registrar).or_default();
                *owes = owes.saturating_add(opening.limit_max.0);
                let cap = self.caps.get(&opening.id.registrar).map_or(0, |cap| cap.0);
                let what = match opened {
                    Err(code) => What::Opening(code),
                    Ok(()) if opening.limit_max.0 > 0 && *owes > cap => What::Cap,
                    Ok(()) => continue,
                };
                let shown = Violation::of(what).at(known.record).in_lot(lot);
                found.push(shown.showing("opening", opening.encode()));
            }
        }
        found.into_iter().for_each(|violation| self.offences.add(violation));
    }

    /// How each entry is carried, by its digest.
    fn carriage(&self) -> BTreeMap<Hash, Carriage> {
        let quorum = u32::try_from(self.view.roster.weights().intersecting()).unwrap_or(u32::MAX);
        let mut all: BTreeMap<Hash, Carriage> = BTreeMap::new();
        for (lot, known) in self.certified() {
            for (index, digest) in (0_u32..).zip(known.carried.digests.iter()) {
                let is_endorsed =
                    |proof: &C| proof.excepting(index).is_none() || proof.of_item(index, quorum).is_some();
                let carriage = all.entry(*digest).or_default();
                carriage.is_certified |= known.certificates.iter().any(is_endorsed);
                let auths = &known.carried.beside.auths;
                let at = usize::try_from(index).ok();
                let auth = at.and_then(|at| auths.get(at)).copied().unwrap_or(Auth::Institution);
                carriage.by.push((lot.source, auth));
            }
        }
        all
    }
}

fn bad_word(record: u64, word: &Receipt) -> Violation {
    Violation::of(What::Word).at(record).in_lot(word.lot).showing("word", word.encode())
}

/// Whether a batch carries what its header commits to.
fn is_whole(carried: &Carried) -> bool {
    let Carried { header, digests, beside } = carried;
    let usual = vec![Auth::Institution; digests.len()];
    let auths = if beside.auths.is_empty() { &usual[..] } else { &beside.auths[..] };
    let imported = digests_of(&beside.rest.imports);
    auths.len() == digests.len()
        && roots_of(digests, &beside.openings, auths.iter(), (&imported, beside.rest.together.as_ref()))
            == (header.entries, header.auths, header.openings)
}
