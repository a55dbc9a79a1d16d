//! Between the network runtime's lanes and the journal thread.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use synod_crypto::Hash;
use synod_journal as journal;
use synod_machine::Keep;
use synod_machine::host::Lsn;
use synod_net::{LaneWriter, Reports};

/// Where the journal thread's reports go, one place per lane; filled as the reactors make their lanes.
#[derive(Clone)]
pub(crate) struct Switchboard {
    lanes: Arc<Vec<OnceLock<Arc<Reports>>>>,
}

impl Switchboard {
    pub(crate) fn new(lanes: u8) -> Self {
        Self { lanes: Arc::new((0..lanes).map(|_| OnceLock::new()).collect()) }
    }

    fn lane(&self, lane: u8) -> Option<&Arc<Reports>> {
        self.lanes.get(usize::from(lane)).and_then(OnceLock::get)
    }

    /// Handles one report, on the journal thread.
    pub(crate) fn report(&self, report: &journal::thread::Report) {
        match report {
            journal::thread::Report::Durable(durable) => {
                for (lane, count) in &durable.lanes {
                    if let Some(reports) = self.lane(*lane) {
                        reports.durable(*count);
                    }
                }
            }
            journal::thread::Report::Loaded { lane, name, bytes } => {
                if let Some(reports) = self.lane(*lane) {
                    reports.loaded(Hash(*name), bytes.clone());
                }
            }
            journal::thread::Report::Failed(error) => {
                if let Some(reports) = self.lanes.iter().find_map(OnceLock::get) {
                    reports.failed(&error.to_string());
                }
            }
            journal::thread::Report::Compacted { .. } | journal::thread::Report::SnapshotDropped { .. } => {}
        }
    }

    /// Makes a lane's writer once its reports are known.
    pub(crate) fn attach(
        &self,
        number: u8,
        lane: journal::thread::Lane,
        reports: Arc<Reports>,
    ) -> Box<dyn LaneWriter> {
        if let Some(place) = self.lanes.get(usize::from(number)) {
            let _ = place.set(reports.clone());
        }
        Box::new(JournalLane { lane, reports, issued: 0 })
    }
}

/// A lane of the journal as the runtime writes it.
struct JournalLane {
    lane: journal::thread::Lane,
    reports: Arc<Reports>,
    issued: Lsn,
}

impl JournalLane {
    /// A journal that refuses has failed before and says so on its own thread; the lane's number still rises, and
    /// what waits for it waits for ever.
    fn settle(&mut self, result: Result<u64, journal::Error>) -> Lsn {
        match result {
            Ok(count) => self.issued = count,
            Err(error) => {
                self.issued += 1;
                self.reports.failed(&error.to_string());
            }
        }
        self.issued
    }
}

const fn keep_as(keep: Keep) -> journal::Keep {
    match keep {
        Keep::Log => journal::Keep::Log,
        Keep::LogAndSlot => journal::Keep::LogAndSlot,
    }
}

impl LaneWriter for JournalLane {
    fn append(&mut self, keep: Keep, record: Bytes) -> Lsn {
        let result = self.lane.append(keep_as(keep), record);
        self.settle(result)
    }

    fn store(&mut self, name: Hash, bytes: Bytes) -> Lsn {
        let result = self.lane.store(name.0, bytes);
        self.settle(result)
    }

    fn erase(&mut self, name: Hash) {
        let result = self.lane.erase(name.0);
        self.settle(result);
    }

    fn load(&mut self, name: Hash) {
        if let Err(error) = self.lane.load(name.0) {
            self.reports.failed(&error.to_string());
        }
    }

    fn compact(&mut self, snapshot: Vec<(Keep, Bytes)>) {
        let records = snapshot.into_iter().map(|(keep, bytes)| (keep_as(keep), bytes)).collect();
        if let Err(error) = self.lane.snapshot(records) {
            self.reports.failed(&error.to_string());
        }
    }

    fn flush(&mut self) {}
}
