//! What a run under a load broker does.

use super::rig::SERVERS;
use crate::verbs::init::Ordering;
use std::path::PathBuf;
use std::time::Duration;
use synod_load::chop::IdDraw;
use synod_load::chop::broker::{Operations, SourcePlan};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoadPart {
    /// Messages per second, CPU and latency.
    E2e,
    /// Bytes on the wire.
    Linerate,
    /// Batches that are distilled in part.
    Partial,
    /// One application after another.
    Apps,
    /// Leader, server and broker killed, a server that sleeps.
    Faults,
}

/// An application of protocol chopchop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum App {
    /// Money from account to account.
    Payments,
    /// Bids on tokens.
    Auction,
    /// Pixels on a board.
    Pixels,
}

/// Tokens of an auction.
pub(super) const TOKENS: u32 = 65_536;

impl App {
    /// All of them.
    pub(super) const ALL: [Self; 3] = [Self::Payments, Self::Pixels, Self::Auction];

    /// Its name in a genesis.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Payments => "payments",
            Self::Auction => "auction",
            Self::Pixels => "pixels",
        }
    }

    /// What its clients ask for; bytes of another size are operations of none.
    const fn operations(self, size: u16, clients: u32) -> Operations {
        match (self, size) {
            (Self::Payments, 8) => Operations::Payments { clients },
            (Self::Auction, 8) => {
                Operations::Bids { tokens: if clients < TOKENS { clients } else { TOKENS } }
            }
            (Self::Pixels, 8) => Operations::Pixels,
            _ => Operations::Bytes(size),
        }
    }
}

/// One run.
#[derive(Clone, Debug)]
pub(crate) struct LoadPlan {
    pub(crate) part: LoadPart,
    /// What orders.
    pub(crate) ordering: Ordering,
    pub(crate) ids: IdDraw,
    /// Entries under the multi-signature, of a thousand.
    pub(crate) distilled: u16,
    /// Messages per batch.
    pub(crate) batch: u32,
    /// Bytes of a message.
    pub(crate) size: u16,
    /// Clients of the directory.
    pub(crate) clients: u32,
    /// Ids of the batches whose bytes are counted.
    pub(crate) id_space: u32,
    /// Bodies made beforehand; 0 for batches made one after another.
    pub(crate) pool: usize,
    /// Batches on their way.
    pub(crate) window: u32,
    /// Messages per second of an open loop.
    pub(crate) rate: Option<u32>,
    pub(crate) app: App,
    /// `storage.sync` of the servers.
    pub(crate) sync: &'static str,
    /// Bytes of delivered bodies that a server keeps.
    pub(crate) retain: u64,
    pub(crate) span: Duration,
    pub(crate) warmup: Duration,
    pub(crate) repeat: u32,
    /// Whether other ways to do the same are measured too.
    pub(crate) ablations: bool,
    /// Whether this process and the servers ask for huge pages.
    pub(crate) huge: bool,
    /// Whether the audit is told of a message that never was.
    pub(crate) planted: bool,
    pub(crate) out: Option<PathBuf>,
}

impl LoadPlan {
    /// Servers, of which one may do anything.
    pub(super) const fn servers(&self) -> u16 {
        match self.ordering {
            Ordering::Hotstuff => SERVERS,
            Ordering::Ubft => 3,
        }
    }

    /// Memory nodes.
    pub(super) const fn memory(&self) -> u16 {
        match self.ordering {
            Ordering::Hotstuff => 0,
            Ordering::Ubft => 3,
        }
    }

    /// The batches of the run.
    pub(super) const fn source(&self) -> SourcePlan {
        SourcePlan {
            ids: self.ids,
            count: self.batch,
            distilled: self.distilled,
            operations: self.app.operations(self.size, self.clients),
            pool: self.pool,
        }
    }

    /// How durability is called in results.
    pub(super) fn durability(&self) -> &'static str {
        match self.sync {
            "volatile-UNSAFE" => "volatile",
            "none-UNSAFE" => "nosync",
            _ => "fsync",
        }
    }

    /// How long another way is measured.
    pub(super) fn aside(&self) -> Duration {
        (self.span / 2).max(Duration::from_millis(200))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::{App, IdDraw, LoadPart, LoadPlan};
    use std::time::Duration;
    use synod_load::chop::broker::Operations;

    /// A small plan.
    pub(in super::super) fn plan() -> LoadPlan {
        LoadPlan {
            part: LoadPart::E2e,
            ordering: super::Ordering::Hotstuff,
            ids: IdDraw::Uniform,
            distilled: 1_000,
            batch: 100,
            size: 8,
            clients: 1_000,
            id_space: 1_000,
            pool: 4,
            window: 2,
            rate: None,
            app: App::Payments,
            sync: "group",
            retain: 1 << 30,
            span: Duration::from_secs(1),
            warmup: Duration::ZERO,
            repeat: 1,
            ablations: true,
            huge: false,
            planted: false,
            out: None,
        }
    }

    #[test]
    fn messages_are_operations_of_the_application_if_they_have_its_size() {
        let operations = |app, size| LoadPlan { app, size, ..plan() }.source().operations;
        assert_eq!(operations(App::Payments, 8), Operations::Payments { clients: 1_000 });
        assert_eq!(operations(App::Auction, 8), Operations::Bids { tokens: 1_000 });
        assert_eq!(operations(App::Pixels, 8), Operations::Pixels);
        assert_eq!(operations(App::Pixels, 9), Operations::Bytes(9));
        assert_eq!(LoadPlan { sync: "volatile-UNSAFE", ..plan() }.durability(), "volatile");
        assert_eq!(plan().durability(), "fsync");
    }
}
