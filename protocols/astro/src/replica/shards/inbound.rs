//! Bundles as they arrive: of another shard, from there or beside a batch, and of this shard, from whoever imported them.

use std::collections::BTreeSet;
use std::sync::Arc;

use synod_crypto::Hash;
use synod_ledger::{Code, Digests, Entry, EntryId};
use synod_machine::{Turn, planted};
use synod_quorum::NodeId;
use synod_wire::{List, Wire};

use super::super::{Carrier, Replica, compute, keep, say};
use super::importer::{Inbound, Need};
use crate::batch::{Auth, Line};
use crate::bundle::{Bundle, Place, Unproven};
use crate::fault::Fault;
use crate::job::Work;
use crate::words::{IMPORTED_MAX, Promise, Word};
use crate::xlog::Certified;

/// Bundles of one peer that are checked at a time.
const CHECKS_MAX: u32 = 8;

impl<B: Carrier> Replica<B> {
    /// A bundle, unchecked.
    pub(in super::super) fn on_bundle(
        &mut self,
        from: NodeId,
        bundle: Arc<Bundle>,
        turn: &mut Turn<'_, Self>,
    ) {
        let (shard, own) = (bundle.header.shard, self.book().shard());
        let view = match self.config.shards.get(shard) {
            Some(neighbour) => Arc::clone(&neighbour.view),
            None if shard == own => Arc::clone(&self.config.view),
            None => return turn.blame(from, Fault::BadBundle),
        };
        let Some(proofs) = self.config.shards.proofs() else { return };
        let is_news = if shard == own {
            bundle.entries().any(|entry| self.is_asked(entry.id))
        } else {
            self.answer_known(from, &bundle, turn);
            let mut into = bundle.paying(own);
            into.any(|entry| self.is_worth_a_look(entry) && !self.has_taken(from, entry.id))
        };
        let checking = self.importer.checking.entry(from).or_default();
        if !is_news || *checking >= CHECKS_MAX {
            return;
        }
        *checking = checking.saturating_add(1);
        compute(turn, Work::Bundle { from, bundle, view, proofs });
    }

    /// Whether a proof of an entry is of use here: it can be credited now, or a batch waits for the proof. What pays an account that
    /// is not open comes again, since nobody confirms it; what never can be credited takes no place.
    fn is_of_use(&self, entry: &Entry) -> bool {
        self.importer.is_needed(entry.id) || matches!(self.book().may_import(entry), Ok(Some(_)))
    }

    /// Whether a bundle is checked for an entry: it is of use, or such that no honest member sends it.
    fn is_worth_a_look(&self, entry: &Entry) -> bool {
        let can_wait = |why| matches!(why, Code::UnknownBeneficiary | Code::LedgerMismatch);
        self.is_of_use(entry) || self.book().may_import(entry).is_err_and(|why| !can_wait(why))
    }

    /// Whether a bundle from there would say no more of an entry.
    fn has_taken(&self, from: NodeId, id: EntryId) -> bool {
        self.importer.inbound.get(&id).is_some_and(|inbound| inbound.is_mine || from.is_member())
    }

    /// Entries that come again from their shard were credited: it did not hear.
    fn answer_known(&self, from: NodeId, bundle: &Bundle, turn: &mut Turn<'_, Self>) {
        if self.config.shards.member(from).is_none_or(|(shard, _)| shard != bundle.header.shard) {
            return;
        }
        let (own, digests) = (self.book().shard(), Digests::default());
        let known = bundle.paying(own).filter(|entry| self.book().is_used(entry.id));
        let known: Vec<Place> =
            known.map(|entry| Place { id: entry.id, digest: digests.entry(entry) }).collect();
        for some in known.chunks(IMPORTED_MAX) {
            let places = List::try_from(some.to_vec()).expect("chunks of so many");
            say(turn, from, Word::Imported { life: 0, first: 0, places });
        }
    }

    /// A bundle was checked.
    pub(in super::super) fn on_bundle_checked(
        &mut self,
        from: NodeId,
        bundle: &Arc<Bundle>,
        digests: Result<Vec<Hash>, Unproven>,
        turn: &mut Turn<'_, Self>,
    ) {
        if let Some(checking) = self.importer.checking.get_mut(&from) {
            *checking = checking.saturating_sub(1);
        }
        self.importer.checking.retain(|_, count| *count > 0);
        match digests {
            Err(Unproven::Forged) => turn.blame(from, Fault::BadBundle),
            // The other shard will show a proof of the view that is known here.
            Err(Unproven::OtherView) => {}
            Ok(digests) if bundle.header.shard == self.book().shard() => {
                self.on_own_bundle(bundle, &digests, turn);
            }
            Ok(digests) => {
                let is_sent = !from.is_member();
                let new = self.take_bundle(bundle, &digests, is_sent);
                if new.is_empty() {
                    return;
                }
                if is_sent && new.iter().any(|id| !self.book().is_used(*id)) {
                    keep(turn, Promise::Inbound(Arc::clone(bundle)));
                }
                if planted!(A28) {
                    let taken = self.importer.inbound.iter().filter(|(id, _)| new.contains(id));
                    let places = taken.map(|(id, inbound)| Place { id: *id, digest: inbound.digest });
                    self.tell_imported(&places.collect::<Vec<_>>(), turn);
                }
                for id in new {
                    self.forget_asked(id, turn);
                    self.meet(Need::Proof(id), turn);
                }
                self.consider_flush(turn);
            }
        }
    }

    /// Takes proven entries of another shard in; gives those of which more is known than before.
    pub(super) fn take_bundle(
        &mut self,
        bundle: &Arc<Bundle>,
        digests: &[Hash],
        is_mine: bool,
    ) -> BTreeSet<EntryId> {
        let own = self.book().shard();
        let into = |entry: &Arc<Entry>| entry.legs_into(own).next().is_some();
        let proven = bundle.entries().zip(digests).filter(|(entry, _)| into(entry));
        let proven = proven.filter(|(entry, _)| self.is_of_use(entry));
        let proven: Vec<(Arc<Entry>, Hash)> =
            proven.map(|(entry, digest)| (Arc::clone(entry), *digest)).collect();
        let is_needed = proven.iter().any(|(entry, _)| self.importer.is_needed(entry.id));
        let encoded = bundle.encode();
        let (name, mut new) = (Hash::of(&encoded), BTreeSet::new());
        if !self.importer.has_room() && !is_needed {
            return new;
        }
        for (entry, digest) in proven {
            let id = entry.id;
            match self.importer.inbound.get_mut(&id) {
                Some(known) if is_mine && !known.is_mine => {
                    known.is_mine = true;
                    new.insert(id);
                }
                Some(_) => {}
                None => {
                    self.importer.hold(name, bundle, encoded.len(), 1);
                    self.importer.inbound.insert(id, Inbound::new(entry, digest, name, is_mine));
                    new.insert(id);
                }
            }
        }
        new
    }

    /// A certificate of this shard's own that this member had not seen: somebody abroad imported by it. What it certifies settles
    /// here, and goes to whichever shards it pays.
    fn on_own_bundle(&mut self, bundle: &Arc<Bundle>, digests: &[Hash], turn: &mut Turn<'_, Self>) {
        let mut spenders = BTreeSet::new();
        for shard in self.config.shards.numbers() {
            self.dispatch(shard, Arc::clone(bundle), turn);
        }
        let all: Vec<(Arc<Entry>, Hash)> = bundle.entries().cloned().zip(digests.iter().copied()).collect();
        for (entry, digest) in all.into_iter().rev() {
            let id = entry.id;
            self.forget_asked(id, turn);
            if self.is_settled(id) {
                continue;
            }
            let known = self.ledger.slot(id).filter(|slot| slot.digest == digest);
            let auth = known.map_or(Auth::Institution, |slot| slot.line.auth);
            let line = Line { entry, auth };
            keep(turn, Promise::Descended(line.clone()));
            match self.ledger.certify(&line, digest) {
                Certified::Whole | Certified::Settled => {}
                Certified::Missing(id, digest) => self.want(id, digest, turn),
                Certified::Contradicts => self.tell_contradiction(&line, None, turn),
            }
            spenders.insert(id.spender);
        }
        self.settle(spenders, turn);
    }

    pub(in super::super) fn is_settled(&self, id: EntryId) -> bool {
        self.book().account(id.spender).is_some_and(|account| id.n <= account.sequence())
    }
}
