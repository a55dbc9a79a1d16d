//! Back from a log: what was on its way is on its way still.

use std::sync::Arc;

use synod_crypto::Hash;
use synod_ledger::{Digests, Entry};
use synod_machine::{Time, Turn};

use super::super::{Carrier, Replica};
use crate::bundle::{Bundle, BundleId, Place};
use crate::words::Promise;

impl<B: Carrier> Replica<B> {
    pub(in super::super) fn replay_exported(
        &mut self,
        shard: u16,
        name: Hash,
        id: BundleId,
        places: &[Place],
    ) {
        self.take_export(shard, name, id, places, Time::ZERO);
    }

    pub(in super::super) fn replay_confirmed(
        &mut self,
        shard: u16,
        name: Hash,
        ids: &[synod_ledger::EntryId],
    ) {
        self.take_confirmed(shard, name, ids);
    }

    /// It was checked before it was recorded.
    pub(in super::super) fn replay_inbound(&mut self, bundle: &Arc<Bundle>) {
        let digests = Digests::default().entries(bundle.entries().map(|entry| &**entry));
        self.take_bundle(bundle, &digests, true);
    }

    pub(in super::super) fn replay_incoming(&mut self, entry: &Arc<Entry>) {
        self.ledger.import(entry);
    }

    pub(in super::super) fn replay_told(&mut self, place: Place) {
        self.note_imported(&[place]);
    }

    pub(in super::super) fn border_records(&self, put: &mut dyn FnMut(Promise)) {
        self.exporter.records(put);
        self.importer.records(put);
        self.ledger.incoming().for_each(|entry| put(Promise::Incoming(Arc::clone(entry))));
    }

    pub(in super::super) fn start_border(&mut self, turn: &mut Turn<'_, Self>) {
        if !self.config.shards.is_alone() {
            self.importer.life = turn.rng().draw();
            self.on_border_due(turn);
        }
    }
}
