//! Cuts, back from a log: what was signed is not signed otherwise.

use synod_ledger::AccountId;
use synod_machine::Unrecoverable;

use super::cuts::Kept;
use crate::cut::{CertifiedCut, CutSign, LaneEnd};
use crate::replica::{Carrier, Replica};
use crate::words::Promise;

impl<B: Carrier> Replica<B> {
    /// As records of a snapshot, behind the book.
    pub(in crate::replica) fn cut_records(&self, put: &mut dyn FnMut(Promise)) {
        for sign in self.cuts.signed.values() {
            put(Promise::CutSigned(*sign));
        }
        if let Some(kept) = &self.cuts.newest {
            put(Promise::CutCertified(Box::new(kept.certified.clone())));
        }
        if !self.cuts.is_on() {
            return;
        }
        for (lane, carried) in &self.cuts.lanes {
            put(Promise::Carried(carried.end()));
            for (local, place) in carried.places() {
                let account =
                    AccountId { shard: self.ledger.book().shard(), registrar: u32::from(*lane), local };
                if self.ledger.book().account(account).is_some_and(|here| here.sequence() != place) {
                    put(Promise::CarriedTo { account, place });
                }
            }
        }
    }

    pub(in crate::replica) fn replay_cut_signed(&mut self, sign: CutSign) {
        self.cuts.signed.insert(sign.proposer, sign);
    }

    pub(in crate::replica) fn replay_cut_certified(&mut self, certified: CertifiedCut) {
        self.cuts.newest = Some(std::sync::Arc::new(Kept { certified, state: None }));
    }

    /// The places that a lane carried are those that settled, but for those that records behind this one name.
    pub(in crate::replica) fn replay_carried(&mut self, end: LaneEnd) -> Result<(), Unrecoverable> {
        let book = self.ledger.book();
        let (shard, registrar) = (book.shard(), u32::from(end.lot.source));
        let accounts = book.accounts_from(AccountId { shard, registrar, local: 0 });
        let places =
            accounts.take_while(|(id, _)| id.registrar == registrar).map(|(_, here)| here.sequence());
        let none = || Unrecoverable(format!("no lane {}", end.lot.source));
        self.cuts.lanes.get_mut(&end.lot.source).ok_or_else(none)?.restart(end, places);
        self.cuts.beyond.clear();
        Ok(())
    }

    pub(in crate::replica) fn replay_carried_to(&mut self, account: AccountId, place: u64) {
        let lane = u8::try_from(account.registrar).ok();
        if let Some(lane) = lane.and_then(|lane| self.cuts.lanes.get_mut(&lane)) {
            lane.set(account.local, place);
        }
    }
}
