//! What comes from other shards, from a proof to a batch to a credit: the member to which a bundle was sent puts its entries into
//! its next batch; every member looks at the proofs before it endorses that; whoever has the certificate credits them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use synod_crypto::Hash;
use synod_ledger::{AccountId, Code, Entry, EntryId};
use synod_machine::Turn;
use synod_machine::broadcast::Lot;
use synod_quorum::NodeId;
use synod_wire::Wire as _;

use super::super::feed::Untold;
use super::super::{Carrier, Replica, say};
use super::imported::Told;
use crate::batch::{IMPORTS_MAX, Opened};
use crate::bundle::{Bundle, Place};
use crate::trace::Rule;
use crate::words::{Promise, Word};

/// Bytes of bundles in memory above which new ones wait outside.
pub(super) const HELD_MAX: u64 = 32 << 20;
/// Credited entries whose digests are remembered.
const CREDITED_MAX: usize = 65_536;
/// Bytes that a bundle takes in memory for each that it has on the wire.
const SPREAD: u64 = 4;

/// Bytes that remembering one of them takes.
const CREDITED_BYTES: usize = 2 * size_of::<(EntryId, Hash)>() + size_of::<EntryId>();

/// A proven bundle of another shard.
#[derive(Clone, Debug)]
struct Held {
    bundle: Arc<Bundle>,
    bytes: u64,
    /// Entries that it proves and that somebody may ask for.
    users: usize,
}

/// A proven entry that is not credited here.
#[derive(Clone, Debug)]
pub(super) struct Inbound {
    pub(super) entry: Arc<Entry>,
    pub(super) digest: Hash,
    /// Of its bundle.
    pub(super) name: Hash,
    /// Whether it came from its shard to this member, which imports it then.
    pub(super) is_mine: bool,
    /// The batch of this member's that carries it.
    carrier: Option<u64>,
}

impl Inbound {
    pub(super) const fn new(entry: Arc<Entry>, digest: Hash, name: Hash, is_mine: bool) -> Self {
        Self { entry, digest, name, is_mine, carrier: None }
    }
}

/// An entry of another shard that was credited here.
#[derive(Clone, Debug)]
pub(in super::super) struct Credited {
    /// In the order in which entries settle here and are credited.
    position: u64,
    entry: Arc<Entry>,
    digest: Hash,
}

/// What the next batch of a lane waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Need {
    /// A proof of this entry.
    Proof(EntryId),
    /// That this account opens.
    Opening(AccountId),
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Importer {
    held: BTreeMap<Hash, Held>,
    held_bytes: u64,
    pub(super) inbound: BTreeMap<EntryId, Inbound>,
    /// Lanes by what the next batch of each waits for.
    needs: BTreeMap<Need, BTreeSet<u8>>,
    /// Bundles of each peer that are being checked.
    pub(super) checking: BTreeMap<NodeId, u32>,
    pub(super) told: BTreeMap<u16, Told>,
    /// What was credited last: a batch that imports it again, as another member's may, needs no proof. Of what was credited before,
    /// the book knows the places alone.
    credited: BTreeMap<EntryId, Hash>,
    /// Its places, oldest first.
    order: VecDeque<EntryId>,
    /// Drawn at each start: what is told is counted anew.
    pub(super) life: u64,
}

impl Importer {
    /// Keeps a bundle for some entries of it.
    pub(super) fn hold(&mut self, name: Hash, bundle: &Arc<Bundle>, bytes: usize, users: usize) {
        let bytes = (bytes as u64).saturating_mul(SPREAD);
        let held = self.held.entry(name).or_insert_with(|| {
            self.held_bytes = self.held_bytes.saturating_add(bytes);
            Held { bundle: Arc::clone(bundle), bytes, users: 0 }
        });
        held.users = held.users.saturating_add(users);
    }

    /// One entry of a bundle needs it no longer.
    pub(super) fn release(&mut self, name: Hash) {
        let Some(held) = self.held.get_mut(&name) else { return };
        held.users = held.users.saturating_sub(1);
        if held.users == 0 {
            self.held_bytes = self.held_bytes.saturating_sub(held.bytes);
            self.held.remove(&name);
        }
    }

    pub(super) fn bundle(&self, name: Hash) -> Option<&Arc<Bundle>> {
        self.held.get(&name).map(|held| &held.bundle)
    }

    /// Remembers what is credited.
    fn remember(&mut self, place: Place) {
        if self.credited.insert(place.id, place.digest).is_none() {
            self.order.push_back(place.id);
        }
        if self.order.len() > CREDITED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.credited.remove(&oldest);
        }
    }

    /// Whether there is room for more bundles, once the proofs of what is credited made way.
    pub(super) fn has_room(&mut self) -> bool {
        if self.held_bytes > HELD_MAX {
            let names = self.told.values_mut().flat_map(Told::take_names);
            for name in names.collect::<Vec<_>>() {
                self.release(name);
            }
        }
        self.held_bytes <= HELD_MAX
    }

    /// Whether a batch waits for a proof of an entry.
    pub(super) fn is_needed(&self, id: EntryId) -> bool {
        self.needs.contains_key(&Need::Proof(id))
    }

    /// Has a lane wait for one thing.
    fn need(&mut self, lane: u8, need: Need) {
        self.needs.retain(|_, lanes| {
            lanes.remove(&lane);
            !lanes.is_empty()
        });
        self.needs.entry(need).or_default().insert(lane);
    }

    /// Whether something waits that the next batch can carry.
    fn waits(&self) -> bool {
        self.inbound.values().any(|inbound| inbound.is_mine && inbound.carrier.is_none())
    }

    pub(in super::super) fn bytes(&self) -> u64 {
        let rows = self.inbound.len() * 2 * size_of::<(EntryId, Inbound)>()
            + self.needs.len() * 2 * size_of::<(Need, BTreeSet<u8>)>()
            + self.checking.len() * 2 * size_of::<(NodeId, u32)>()
            + self.order.len() * CREDITED_BYTES;
        let told: u64 = self.told.values().map(Told::bytes).sum();
        self.held_bytes + rows as u64 + told
    }

    /// Bytes that it takes at most, with so many shards, beside one bundle per batch that waits for a proof.
    pub(in super::super) fn bytes_max(shards: u64) -> u64 {
        // An entry has at least 64 bytes on the wire, and a row of it less than eight times that.
        8 * HELD_MAX + shards * Told::bytes_max() + (CREDITED_MAX * CREDITED_BYTES) as u64
    }

    pub(super) fn records(&self, put: &mut dyn FnMut(Promise)) {
        let mine = self.inbound.values().filter(|inbound| inbound.is_mine);
        let names: BTreeSet<Hash> = mine.map(|inbound| inbound.name).collect();
        for bundle in names.iter().filter_map(|name| self.bundle(*name)) {
            put(Promise::Inbound(Arc::clone(bundle)));
        }
        self.told.values().flat_map(Told::places).for_each(|place| put(Promise::Told(place)));
    }
}

impl<B: Carrier> Replica<B> {
    /// Whether the next batch has entries to import.
    pub(in super::super) fn has_imports(&self) -> bool {
        self.importer.waits() && self.importable().next().is_some()
    }

    fn importable(&self) -> impl Iterator<Item = &Inbound> {
        let mine = self.importer.inbound.values();
        let mine = mine.filter(|inbound| inbound.is_mine && inbound.carrier.is_none());
        mine.filter(|inbound| matches!(self.book().may_import(&inbound.entry), Ok(Some(_))))
    }

    /// Entries for the next batch, in the order of their places.
    ///
    /// They leave half of a batch to others; the bytes that they take are given as well.
    pub(in super::super) fn take_imports(&self) -> (Vec<Arc<Entry>>, usize) {
        let most = usize::try_from(self.config.parameters.batch_bytes / 2).unwrap_or(usize::MAX);
        let (mut taken, mut bytes) = (Vec::new(), 0_usize);
        for inbound in self.importable().take(IMPORTS_MAX) {
            let with = bytes.saturating_add(inbound.entry.encode().len());
            // One alone may be longer than half: a batch has room for the longest entry.
            if with > most && !taken.is_empty() {
                break;
            }
            bytes = with;
            taken.push(Arc::clone(&inbound.entry));
        }
        (taken, bytes)
    }

    /// One of this member's batches goes out: the proofs of what it imports go beside it.
    pub(in super::super) fn carry_imports(&mut self, opened: &Opened, turn: &mut Turn<'_, Self>) {
        let mut names = BTreeSet::new();
        for entry in opened.batch.beside.imports.iter() {
            if let Some(inbound) = self.importer.inbound.get_mut(&entry.id) {
                inbound.carrier = Some(opened.lot().sequence);
                names.insert(inbound.name);
            }
        }
        let others = self.others();
        for bundle in names.into_iter().filter_map(|name| self.importer.bundle(name).cloned()) {
            say(turn, others, Word::Bundle(bundle));
        }
    }

    /// Whether a batch may be endorsed as far as it imports: false where its lane waits for what is missing, or lies.
    pub(in super::super) fn may_import(
        &mut self,
        opened: &Opened,
        turn: &mut Turn<'_, Self>,
    ) -> Result<bool, ()> {
        let mut missing = None;
        for (entry, digest) in opened.imports() {
            if self.config.shards.get(entry.id.spender.shard).is_none() {
                return Err(());
            }
            let credited = self.importer.credited.get(&entry.id);
            if credited.is_some_and(|credited| *credited != digest) {
                return Err(());
            }
            let inbound = self.importer.inbound.get(&entry.id);
            let is_proven = credited.is_some() || inbound.is_some_and(|inbound| inbound.digest == digest);
            let need = match self.book().may_import(entry) {
                // What is credited here is credited no more, but whoever lags credits by the certificate that this endorsement
                // may be part of: it says that the proof held, of this entry and no other in its place.
                Ok(_) if is_proven => None,
                Ok(_) => Some(Need::Proof(entry.id)),
                Err(Code::UnknownBeneficiary) => self.unopened(entry).map(Need::Opening),
                Err(_) => return Err(()),
            };
            if let Some(need) = need.filter(|_| missing.is_none()) {
                missing = Some((need, Place { id: entry.id, digest }));
            }
        }
        let Some((need, place)) = missing else {
            self.release_used(opened);
            return Ok(true);
        };
        self.importer.need(opened.lot().source, need);
        if let Need::Proof(_) = need {
            self.ask_beside(place, opened.lot().source, turn);
        }
        Ok(false)
    }

    /// Proofs of what was credited before are of no use once a batch that imports it again was looked at.
    fn release_used(&mut self, opened: &Opened) {
        for (entry, _) in opened.imports() {
            if self.book().is_used(entry.id)
                && let Some(inbound) = self.importer.inbound.remove(&entry.id)
            {
                self.importer.release(inbound.name);
            }
        }
    }

    fn unopened(&self, entry: &Entry) -> Option<AccountId> {
        let shard = self.book().shard();
        entry.legs_into(shard).map(|leg| leg.to).find(|to| self.book().account(*to).is_none())
    }

    /// Lanes go on that waited for this.
    pub(super) fn meet(&mut self, need: Need, turn: &mut Turn<'_, Self>) {
        for lane in self.importer.needs.remove(&need).unwrap_or_default() {
            self.go_on(lane, turn);
        }
    }

    /// Accounts are open that batches may wait for.
    pub(in super::super) fn meet_openings(&mut self, accounts: &[AccountId], turn: &mut Turn<'_, Self>) {
        if !self.importer.needs.is_empty() {
            accounts.iter().for_each(|account| self.meet(Need::Opening(*account), turn));
        }
    }

    /// Credits what a certified batch imports, without a word; gives what is new.
    pub(in super::super) fn credit_imports(&mut self, opened: &Opened) -> Vec<Credited> {
        let new = opened.imports().filter(|(entry, _)| self.ledger.import(entry));
        let new = new.map(|(entry, digest)| (Arc::clone(entry), digest)).collect();
        self.note_credited(new)
    }

    /// Entries are credited: the user is to be told.
    pub(in super::super) fn note_credited(&mut self, new: Vec<(Arc<Entry>, Hash)>) -> Vec<Credited> {
        let places = new.iter().map(|(entry, digest)| Place { id: entry.id, digest: *digest });
        self.note_imported(&places.collect::<Vec<_>>());
        let told = new.into_iter().map(|(entry, digest)| {
            let position = self.feed.push(Arc::clone(&entry), digest, true);
            Credited { position, entry, digest }
        });
        told.collect()
    }

    /// Entries are credited: their proofs are kept for their shard alone.
    pub(super) fn note_imported(&mut self, places: &[Place]) {
        for place in places {
            self.importer.remember(*place);
            let name = self.importer.inbound.remove(&place.id).map(|inbound| inbound.name);
            let shard = place.id.spender.shard;
            let Some(neighbour) = self.config.shards.get(shard) else { continue };
            let told = self.importer.told.entry(shard).or_insert_with(|| Told::new(neighbour.nodes.len()));
            if let Some(name) = told.push(*place, name) {
                self.importer.release(name);
            }
        }
    }

    /// The same aloud: their shard hears of it, and whoever waited for them goes on.
    pub(in super::super) fn on_imported_here(&mut self, new: Vec<Credited>, turn: &mut Turn<'_, Self>) {
        if new.is_empty() {
            return;
        }
        turn.applied(Rule::Import);
        let places = new.iter().map(|credited| Place { id: credited.entry.id, digest: credited.digest });
        let places: Vec<Place> = places.collect();
        let mut untold = Untold::of(self.book().shard());
        for Credited { position, entry, digest } in new {
            untold.push(position, (entry, digest, true), turn);
        }
        untold.tell(turn);
        self.tell_imported(&places, turn);
        for place in places {
            self.forget_asked(place.id, turn);
            self.meet(Need::Proof(place.id), turn);
        }
    }

    /// A batch of this member's is certified, or never will be: what it did not import waits again.
    pub(in super::super) fn uncarry(&mut self, lot: Lot) {
        if lot.source != self.me() {
            return;
        }
        for inbound in self.importer.inbound.values_mut() {
            inbound.carrier = inbound.carrier.filter(|carrier| *carrier != lot.sequence);
        }
    }
}
