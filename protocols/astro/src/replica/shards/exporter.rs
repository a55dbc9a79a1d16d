//! What leaves for other shards: entries go with their proofs once they are certified, from one member to one member, and from the
//! next to the next while nobody says that they were imported.
//!
//! A bundle is a blob on the disk, and a row per entry is in memory until a quorum of the other shard imported it. An account has
//! `window` such rows at most before its next entry that leaves is refused; behind as many for the account and each other shard, which
//! others endorsed, a bundle is left to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use synod_crypto::Hash;
use synod_ledger::{AccountId, Entry, EntryId};
use synod_machine::broadcast::Except;
use synod_machine::{Span, Time, Turn};
use synod_quorum::NodeSet;
use synod_wire::{Blob, Bytes, Limits, List, Wire};

use super::super::{Carrier, Replica, keep, say};
use crate::batch::Opened;
use crate::bundle::{
    BUNDLE_BYTES, Bundle, BundleId, BundleSeen, BundlesSeen, PROVEN_MAX, Place, Proven, SEEN_MAX, STRETCH_MAX,
};
use crate::trace::Rule;
use crate::words::{Output, Promise, Timer, Word};

/// Bundles that are read from the disk in one tick.
const LOADS_MAX: usize = 64;

/// An entry on its way.
#[derive(Clone, Copy, Debug)]
struct Row {
    digest: Hash,
    /// Members of the other shard who imported it.
    confirmed: NodeSet,
}

/// A bundle on its way to one shard.
#[derive(Clone, Debug)]
struct Parcel {
    id: BundleId,
    rows: BTreeMap<EntryId, Row>,
    due: Time,
    wait: Span,
    /// How often this member sent it.
    pushed: u64,
    is_loading: bool,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Exporter {
    parcels: BTreeMap<(u16, Hash), Parcel>,
    /// Which bundle an entry is in.
    names: BTreeMap<(u16, EntryId), Hash>,
}

impl Exporter {
    fn has_blob(&self, shards: &BTreeSet<u16>, name: Hash) -> bool {
        shards.iter().any(|shard| self.parcels.contains_key(&(*shard, name)))
    }

    /// Takes a bundle in.
    fn put(&mut self, (shard, name): (u16, Hash), places: &[Place], mut parcel: Parcel) {
        for place in places {
            self.names.insert((shard, place.id), name);
            parcel.rows.insert(place.id, Row { digest: place.digest, confirmed: NodeSet::EMPTY });
        }
        self.parcels.insert((shard, name), parcel);
    }

    /// Lets entries of a bundle go; whether none is left of it.
    fn remove(&mut self, (shard, name): (u16, Hash), ids: &[EntryId]) -> bool {
        let Some(parcel) = self.parcels.get_mut(&(shard, name)) else { return false };
        for id in ids {
            parcel.rows.remove(id);
            self.names.remove(&(shard, *id));
        }
        let is_empty = parcel.rows.is_empty();
        if is_empty {
            self.parcels.remove(&(shard, name));
        }
        is_empty
    }

    /// What users see of it.
    pub(super) fn seen(&self) -> Vec<BundleSeen> {
        let bundle = |((to, _), parcel): (&(u16, Hash), &Parcel)| {
            let entries = u32::try_from(parcel.rows.len()).unwrap_or(u32::MAX);
            BundleSeen { to: *to, lot: parcel.id.lot, entries, sent: parcel.pushed }
        };
        let mut seen: Vec<BundleSeen> = self.parcels.iter().map(bundle).collect();
        seen.sort_unstable_by_key(|bundle| (bundle.to, bundle.lot));
        seen.truncate(SEEN_MAX);
        seen
    }

    /// How many entries are on their way.
    pub(in super::super) fn count(&self) -> usize {
        self.names.len()
    }

    pub(in super::super) fn bytes(&self) -> u64 {
        let rows = self.names.len() * 2 * (size_of::<(EntryId, Row)>() + size_of::<((u16, EntryId), Hash)>());
        (rows + self.parcels.len() * 2 * size_of::<((u16, Hash), Parcel)>()) as u64
    }

    /// Bytes that one entry takes at most.
    pub(in super::super) const fn row_max() -> u64 {
        let row = size_of::<(EntryId, Row)>() + size_of::<((u16, EntryId), Hash)>();
        2 * (row + size_of::<((u16, Hash), Parcel)>()) as u64
    }

    pub(super) fn records(&self, put: &mut dyn FnMut(Promise)) {
        for ((shard, name), parcel) in &self.parcels {
            let places = parcel.rows.iter().map(|(id, row)| Place { id: *id, digest: row.digest });
            let places = List::try_from(places.collect::<Vec<_>>()).expect("as many as a bundle has");
            put(Promise::Exported { shard: *shard, name: *name, bundle: parcel.id, places });
        }
    }
}

impl<B: Carrier> Replica<B> {
    /// What is on its way between shards?
    pub(in super::super) fn on_read_bundles(&self, ticket: u64, turn: &mut Turn<'_, Self>) {
        let (leaving, entries) = (self.exporter.seen(), self.exporter.count() as u64);
        let coming = self.importer.inbound.len() as u64;
        turn.output(Output::Bundles { ticket, bundles: BundlesSeen { leaving, entries, coming } });
    }

    /// Sends what a certificate newly proves of entries that leave; called before the certificate counts.
    pub(in super::super) fn export(
        &mut self,
        opened: &Opened,
        before: Option<&Except>,
        open: &Except,
        turn: &mut Turn<'_, Self>,
    ) {
        if self.config.shards.is_alone() {
            return;
        }
        let is_new = |at: &u32| {
            before.is_none_or(|before| before.items().binary_search(at).is_ok())
                && open.items().binary_search(at).is_err()
        };
        let new: BTreeSet<u32> = (0_u32..).take(opened.digests.len()).filter(is_new).collect();
        let chains = self.leaving(opened, &new);
        for shard in self.config.shards.numbers() {
            let into = |entry: &Arc<Entry>| entry.legs_into(shard).next().is_some();
            let of_shard = chains.iter().filter_map(|(at, chain)| {
                let first =
                    chain.iter().position(|entry| into(entry) && !self.is_on_its_way(shard, entry))?;
                Some((*at, chain.get(first..)?.to_vec()))
            });
            let of_shard: BTreeMap<u32, Vec<Arc<Entry>>> = of_shard.collect();
            if !of_shard.is_empty() {
                for bundle in self.bundles(opened, of_shard) {
                    self.dispatch(shard, Arc::new(bundle), turn);
                }
            }
        }
    }

    fn is_on_its_way(&self, shard: u16, entry: &Entry) -> bool {
        let by_batch = |slot: &crate::xlog::Slot| !slot.lots.is_empty();
        self.exporter.names.contains_key(&(shard, entry.id))
            || self.ledger.slot(entry.id).is_some_and(by_batch)
    }

    /// Newly certified entries of a batch by index, each behind those of its log that it alone proves.
    fn leaving(&self, opened: &Opened, new: &BTreeSet<u32>) -> BTreeMap<u32, Vec<Arc<Entry>>> {
        let lines = opened.lines().filter(|(at, ..)| new.contains(at));
        let own: BTreeSet<EntryId> = lines.map(|(_, line, _)| line.entry.id).collect();
        let lines = opened.lines().filter(|(at, ..)| new.contains(at));
        let chains = lines.map(|(at, line, _)| {
            let mut chain = vec![Arc::clone(&line.entry)];
            while let Some(first) = chain.last().filter(|_| chain.len() < STRETCH_MAX) {
                let Some(n) = first.id.n.checked_sub(1) else { break };
                let below = EntryId { n, ..first.id };
                let slot = self.ledger.slot(below).filter(|slot| slot.digest == first.prev);
                match slot.filter(|slot| !slot.is_certified && !own.contains(&below)) {
                    Some(slot) => chain.push(Arc::clone(&slot.line.entry)),
                    None => break,
                }
            }
            chain.reverse();
            (at, chain)
        });
        chains.collect()
    }

    /// Bundles of these entries of a batch.
    fn bundles(&self, opened: &Opened, mut chains: BTreeMap<u32, Vec<Arc<Entry>>>) -> Vec<Bundle> {
        let Some(proofs) = self.config.shards.proofs() else { return Vec::new() };
        let (quorum, mut out) = (self.quorums.intersecting(), Vec::new());
        for certificate in self.broadcast.get().proofs(opened.lot().into()) {
            for (certificate, items) in (proofs.cut)(&certificate, chains.keys().copied().collect(), quorum) {
                let Ok(certificate) = Blob::try_from(certificate) else { continue };
                let mut proven = Vec::new();
                let mut bytes = 0;
                for at in items {
                    let Some((chain, place)) = chains.remove(&at).zip(opened.prove(at)) else { continue };
                    bytes +=
                        chain.iter().map(|entry| entry.encode().len()).sum::<usize>() + place.encode().len();
                    let Ok(chain) = List::try_from(chain) else { continue };
                    proven.push(Proven { chain, place });
                    if bytes >= BUNDLE_BYTES || proven.len() >= PROVEN_MAX {
                        out.push((certificate.clone(), std::mem::take(&mut proven)));
                        bytes = 0;
                    }
                }
                out.push((certificate, proven));
            }
        }
        let header = opened.batch.header;
        let whole = out.into_iter().filter(|(_, proven)| !proven.is_empty());
        let whole = whole.filter_map(|(certificate, proven)| {
            Some(Bundle { header, certificate, proven: List::try_from(proven).ok()? })
        });
        whole.collect()
    }

    /// Keeps a bundle for a shard until that has imported it, and sends it if that is this member's turn.
    pub(super) fn dispatch(&mut self, shard: u16, bundle: Arc<Bundle>, turn: &mut Turn<'_, Self>) {
        let encoded = bundle.encode();
        let (name, id) = (Hash::of(&encoded), bundle.id());
        let digests = synod_ledger::Digests::default();
        let most = self.rows_max();
        let places = bundle.paying(shard).filter(|entry| {
            !self.exporter.names.contains_key(&(shard, entry.id))
                && self.ledger.exports_of(entry.id.spender) < most
        });
        let places = places.map(|entry| Place { id: entry.id, digest: digests.entry(entry) });
        let places: Vec<Place> = places.collect();
        let Ok(listed) = List::try_from(places.clone()) else { return };
        if places.is_empty() || self.exporter.parcels.contains_key(&(shard, name)) {
            return;
        }
        turn.applied(Rule::Export);
        if !self.exporter.has_blob(&self.config.shards.numbers(), name) {
            turn.store(name, encoded);
        }
        keep(turn, Promise::Exported { shard, name, bundle: id, places: listed });
        let (resend, distance) = (self.config.parameters.resend, self.distance(id));
        let due = Time(turn.now().0.saturating_add(resend.0.saturating_mul(distance)));
        self.take_export((shard, name), id, &places, due);
        if distance == 0 {
            self.push((shard, name), bundle, turn);
        }
    }

    /// Rows of one account behind which a bundle is left to others. Whoever endorsed an entry had less than a window of them, and less
    /// than a window of its log was open then, each entry of which pays into every shard at most: so those who endorsed it keep it.
    fn rows_max(&self) -> u64 {
        let shards = self.config.shards.numbers().len() as u64;
        self.config.parameters.window.saturating_mul(shards.saturating_add(1))
    }

    pub(super) fn take_export(&mut self, at: (u16, Hash), id: BundleId, places: &[Place], due: Time) {
        let wait = self.config.parameters.resend;
        let parcel = Parcel { id, rows: BTreeMap::new(), due, wait, pushed: 0, is_loading: false };
        self.exporter.put(at, places, parcel);
        for place in places {
            self.ledger.count_export(place.id.spender);
        }
    }

    /// How many members have the turn to send a bundle before this one.
    fn distance(&self, id: BundleId) -> u64 {
        let members = u64::from(self.quorums.members());
        let first = id.first().checked_rem(members).unwrap_or_default();
        (u64::from(self.me()) + members - first).checked_rem(members).unwrap_or_default()
    }

    /// Sends a bundle to whoever has the turn to import it.
    fn push(&mut self, at: (u16, Hash), bundle: Arc<Bundle>, turn: &mut Turn<'_, Self>) {
        let (longest, now) = (self.config.parameters.resend_max, turn.now());
        let distance = self.distance(bundle.id());
        let Some(parcel) = self.exporter.parcels.get_mut(&at) else { return };
        let nth = parcel.id.first().wrapping_add(distance).wrapping_add(parcel.pushed);
        parcel.pushed = parcel.pushed.wrapping_add(1);
        parcel.is_loading = false;
        parcel.due = Time(now.0.saturating_add(parcel.wait.0));
        parcel.wait = parcel.wait.times(2).min(longest);
        if let Some(node) = self.config.shards.get(at.0).and_then(|shard| shard.nth(nth)) {
            say(turn, node, Word::Bundle(bundle));
        }
    }

    pub(in super::super) fn on_border_due(&mut self, turn: &mut Turn<'_, Self>) {
        turn.arm(Timer::Border, self.config.parameters.resend);
        let now = turn.now();
        let due = self.exporter.parcels.iter_mut();
        let mut due: Vec<_> = due.filter(|(_, parcel)| parcel.due <= now && !parcel.is_loading).collect();
        // Whichever waited longest: what nobody ever confirms keeps none from its turn.
        due.sort_unstable_by_key(|(at, parcel)| (parcel.due, **at));
        let mut names = BTreeSet::new();
        for ((_, name), parcel) in due.into_iter().take(LOADS_MAX) {
            parcel.is_loading = true;
            names.insert(*name);
        }
        names.into_iter().for_each(|name| turn.load(name));
        self.tell_again(turn);
    }

    /// A bundle was read, or another's blob: false then.
    pub(in super::super) fn on_bundle_loaded(
        &mut self,
        name: Hash,
        bytes: Option<&Bytes>,
        turn: &mut Turn<'_, Self>,
    ) -> bool {
        let wanted: Vec<u16> = self.config.shards.numbers().into_iter().collect();
        let wanted: Vec<u16> =
            wanted.into_iter().filter(|shard| self.exporter.parcels.contains_key(&(*shard, name))).collect();
        let limits = Limits { frame_max: u32::MAX };
        let bundle = bytes.and_then(|bytes| Bundle::decode(bytes.clone(), &limits).ok()).map(Arc::new);
        for shard in &wanted {
            match &bundle {
                Some(bundle) => {
                    let parcel = self.exporter.parcels.get(&(*shard, name));
                    if parcel.is_some_and(|parcel| parcel.is_loading) {
                        self.push((*shard, name), Arc::clone(bundle), turn);
                    }
                }
                // The disk lost it: others have it.
                None => self.confirm((*shard, name), &self.rows_of((*shard, name)), turn),
            }
        }
        !wanted.is_empty()
    }

    fn rows_of(&self, at: (u16, Hash)) -> Vec<EntryId> {
        self.exporter.parcels.get(&at).map(|parcel| parcel.rows.keys().copied().collect()).unwrap_or_default()
    }

    /// A member of another shard imported an entry of this one.
    pub(super) fn count_imported(
        &mut self,
        (shard, member): (u16, synod_quorum::NodeId),
        places: &[Place],
        turn: &mut Turn<'_, Self>,
    ) {
        let Some(weights) = self.config.shards.get(shard).map(|of| of.view.roster.weights().clone()) else {
            return;
        };
        let mut done: BTreeMap<Hash, Vec<EntryId>> = BTreeMap::new();
        for place in places {
            let Some(name) = self.exporter.names.get(&(shard, place.id)).copied() else { continue };
            let parcel = self.exporter.parcels.get_mut(&(shard, name));
            let row = parcel.and_then(|parcel| parcel.rows.get_mut(&place.id));
            if let Some(row) = row.filter(|row| row.digest == place.digest) {
                row.confirmed.insert(member);
                if weights.intersects(row.confirmed) {
                    done.entry(name).or_default().push(place.id);
                }
            }
        }
        for (name, ids) in done {
            self.confirm((shard, name), &ids, turn);
        }
    }

    /// Lets go of entries that are imported.
    fn confirm(&mut self, (shard, name): (u16, Hash), ids: &[EntryId], turn: &mut Turn<'_, Self>) {
        let Ok(listed) = List::try_from(ids.to_vec()) else { return };
        keep(turn, Promise::Confirmed { shard, name, ids: listed });
        if self.take_confirmed(shard, name, ids)
            && !self.exporter.has_blob(&self.config.shards.numbers(), name)
        {
            turn.erase(name);
        }
    }

    /// The same without a word; whether nothing is left of the bundle.
    pub(super) fn take_confirmed(&mut self, shard: u16, name: Hash, ids: &[EntryId]) -> bool {
        let known = ids.iter().filter(|id| self.exporter.names.contains_key(&(shard, **id)));
        let spenders: Vec<AccountId> = known.map(|id| id.spender).collect();
        spenders.into_iter().for_each(|spender| self.ledger.uncount_export(spender));
        self.exporter.remove((shard, name), ids)
    }

    /// How many of its entries that leave other shards have not confirmed.
    #[must_use]
    pub fn unconfirmed(&self) -> usize {
        self.exporter.count()
    }
}
