//! Two entries of an owner for one place: kept, shown, and told again after a restart while nothing decides between them (4.12).

use std::sync::Arc;

use synod_crypto::PublicKey;
use synod_machine::Turn;

use super::{Carrier, Replica, keep};
use crate::batch::{Auth, Line};
use crate::torn::TwoEntries;
use crate::words::{Output, Promise};

impl<B: Carrier> Replica<B> {
    /// Shows an entry beside the one that stands in its place, where the holder of this key signed both.
    pub(super) fn show(&mut self, line: &Line, key: Option<PublicKey>, turn: &mut Turn<'_, Self>) {
        let id = line.entry.id;
        let Some(slot) = self.ledger.slot(id).filter(|slot| slot.line.entry != line.entry) else { return };
        let (Some(key), Auth::Owner(_)) = (key, slot.line.auth) else { return };
        let two = Arc::new(TwoEntries { key, one: slot.line.clone(), other: line.alone() });
        if self.ledger.tear(Arc::clone(&two)) {
            keep(turn, Promise::Torn(Arc::clone(&two)));
        }
        turn.output(Output::Conflict { id, two });
    }

    /// After a restart: what is not decided is told again.
    pub(super) fn show_torn(&self, turn: &mut Turn<'_, Self>) {
        for two in self.ledger.all_torn() {
            turn.output(Output::Conflict { id: two.place(), two: Arc::clone(two) });
        }
    }

    /// As records of a snapshot.
    pub(super) fn torn_records(&self, put: &mut dyn FnMut(Promise)) {
        self.ledger.all_torn().for_each(|two| put(Promise::Torn(Arc::clone(two))));
    }
}
