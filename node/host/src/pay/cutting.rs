//! A thread that keeps certified cuts once the index has all that they count.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use synod_astro::{Accounts, CutCertificate, RootRecord};
use synod_config::SynError;

use super::cuts::Cuts;
use super::teller::Teller;
use crate::error::invalid;

/// A certified cut, with the accounts behind it.
pub(super) struct Certified {
    pub(super) record: RootRecord,
    pub(super) certificate: CutCertificate,
    pub(super) accounts: Arc<Accounts>,
}

/// The cuts of a node and who keeps them.
pub(super) struct Cutting {
    pub(super) cuts: Arc<Cuts>,
    told: Mutex<Option<SyncSender<Certified>>>,
    keeper: Mutex<Option<JoinHandle<()>>>,
}

impl Cutting {
    /// Starts the thread.
    ///
    /// # Errors
    /// SYN-1001 where the system has no thread.
    pub(super) fn begin(cuts: Cuts, teller: Weak<Teller>) -> Result<Self, SynError> {
        let cuts = Arc::new(cuts);
        let (told, heard) = sync_channel(1);
        let kept = Arc::clone(&cuts);
        let thread = std::thread::Builder::new().name("pay-cuts".to_owned());
        let keeper = thread.spawn(move || keep(&heard, &kept, &teller));
        let keeper = keeper.map_err(|error| invalid("no thread for the cuts of payments").because(error))?;
        Ok(Self { cuts, told: Mutex::new(Some(told)), keeper: Mutex::new(Some(keeper)) })
    }

    /// A cut is certified. One that comes while two others are being kept is passed over: the next one has all that it counts.
    pub(super) fn tell(&self, certified: Certified) {
        let number = certified.record.number;
        if let Some(told) = self.told.lock().unwrap_or_else(PoisonError::into_inner).as_ref()
            && let Err(TrySendError::Full(_)) = told.try_send(certified)
        {
            tracing::warn!(number, "a certified cut is not kept: two others are being written");
        }
    }

    /// Keeps what was told and ends.
    pub(super) fn end(&self) {
        drop(self.told.lock().unwrap_or_else(PoisonError::into_inner).take());
        let keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(keeper) = keeper {
            // It ends with its channel; what it could not write ended the process.
            let _ = keeper.join();
        }
    }
}

fn keep(heard: &Receiver<Certified>, cuts: &Cuts, teller: &Weak<Teller>) {
    while let Ok(Certified { record, certificate, accounts }) = heard.recv() {
        // All that it counts was told before it: the index has that once it answers.
        let Some(told) = teller.upgrade().map(|teller| teller.kept()) else { return };
        if told.blocking_recv().is_err() {
            return;
        }
        let heard_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
        let heard_ms = u64::try_from(heard_ms).unwrap_or(u64::MAX);
        if let Some(teller) = teller.upgrade() {
            cuts.keep((record, certificate), accounts, (teller.index(), heard_ms));
        }
    }
}
