//! The families of faults, by the names they have in reports.

use std::collections::{BTreeMap, BTreeSet};

use super::Incident;

macro_rules! families {
    ($( $(#[$doc:meta])* $variant:ident = $name:literal ),* $(,)?) => {
        /// A kind of fault. Nodes are places in the order of the seats; amounts are named per family.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Family { $( $(#[$doc])* $variant ),* }

        /// All families, in their fixed order.
        pub const FAMILIES: &[Family] = &[ $( Family::$variant ),* ];

        impl Family {
            /// Its name in scenarios and reports.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $( Self::$variant => $name ),* }
            }
        }
    };
}

families! {
    /// Datagrams from and to the nodes are lost; parts per million.
    NetLoss = "net.loss",
    /// Datagrams arrive twice; parts per million.
    NetDup = "net.dup",
    /// Datagrams are held back by up to this many microseconds.
    NetReorder = "net.reorder",
    /// An exponential delay of this mean, or when negative a log-normal one of this median, in microseconds, on the links
    /// of the nodes.
    NetDelay = "net.delay",
    /// One frame in a hundred is delayed by up to this many microseconds.
    NetSpike = "net.spike",
    /// The connection between two nodes breaks.
    NetReset = "net.reset",
    /// Nothing arrives between two nodes until the end; order is kept and nothing is lost.
    NetClog = "net.clog",
    /// Bytes per second: of each link of a node, of the link between two, or when negative of a node as a whole.
    NetBand = "net.band",
    /// A partition; the amount is the number of its shape, 6 isolates the busiest sender, 7 does so again and again,
    /// whoever it is by then.
    NetSplit = "net.split",
    /// The first node is heard by nobody.
    NetOneWay = "net.oneway",
    /// Two nodes lose and find each other, with this period in microseconds.
    NetFlap = "net.flap",
    /// A crash after this many recipients and writes more, or after a second; restarts after `lasts`.
    NodeCrash = "node.crash",
    /// Every node crashes within a second; each restarts after `lasts`.
    NodeStorm = "node.storm",
    /// A pause; afterwards everything that was missed comes at once.
    NodePause = "node.pause",
    /// A processor at this many percent of the normal time per step.
    NodeSlow = "node.slow",
    /// The wall clock is off by this many milliseconds until the end.
    ClockOffset = "clock.offset",
    /// The clock runs fast or slow by this many parts per billion.
    ClockDrift = "clock.drift",
    /// The wall clock jumps by this many milliseconds and stays.
    ClockStep = "clock.step",
    /// Crashes lose writes that were not durable, independently of one another or, when negative, keep a prefix; without
    /// it they lose none.
    DiskUnsynced = "disk.unsynced",
    /// The next sync fails and the process ends, as it must; restarts after `lasts`.
    DiskSyncFail = "disk.syncfail",
    /// Syncs take this many microseconds longer.
    DiskSlow = "disk.slow",
    /// Syncs report success and make nothing durable; ends in a crash. Counts as faulty.
    DiskLie = "disk.lie",
    /// This share of the reads of blobs comes back damaged, in parts per million.
    DiskRot = "disk.rot",
    /// The disk's content at the beginning comes back at the end. Counts as faulty.
    DiskRollback = "disk.rollback",
    /// The disk is lost; restarts after `lasts` with a damaged journal. Counts as faulty.
    DiskWipe = "disk.wipe",
    /// Answers of jobs come late and out of order; mean in microseconds.
    JobDelay = "job.delay",
    /// A client sends its requests again to the same node, within this many microseconds.
    ClientRetry = "client.retry",
    /// A client is idle and then says everything at once, with this period in microseconds.
    ClientBurst = "client.burst",
    /// A client sends copies of its requests to other nodes, within this many microseconds.
    ClientDup = "client.dup",
    /// Carried out by the harness: joins, leaves and stake changes.
    MemberChange = "member.change",
    /// Silent or withholding, by queue and target.
    ByzSilent = "byz.B1",
    /// Delays around timeouts; the longest, in microseconds.
    ByzDelay = "byz.B2",
    /// Repeats old frames.
    ByzReplay = "byz.B3",
    /// Different frames to different peers; needs levers.
    ByzEquivocate = "byz.B4",
    /// Two machines with one key; carried out by the system, which seats them.
    ByzTwins = "byz.B5",
    /// Mutated frames.
    ByzMutate = "byz.B6",
    /// Lies in acknowledgements; needs the protocol's strategy.
    ByzAcks = "byz.B7",
    /// Amnesia: the disk forgets, the key stays.
    ByzAmnesia = "byz.B8",
    /// Forged certificates; needs the protocol's strategy.
    ByzForge = "byz.B9",
    /// Floods with repeated and made-up frames; frames per event.
    ByzFlood = "byz.B10",
    /// Delivers to exactly a quorum, or one less; needs the protocol's strategy.
    ByzShave = "byz.B11",
    /// Colludes across roles; needs the protocol's strategy.
    ByzCollude = "byz.B12",
    /// Crashes at the worst moment: behind a write, between two recipients. Not faulty: the log is intact.
    ByzCrash = "byz.B13",
    /// Lies in registers; needs the protocol's strategy.
    ByzRegisters = "byz.B14",
    /// Bad batches; needs the protocol's strategy.
    ByzBatches = "byz.B15",
    /// Lies to those who catch up; needs the protocol's strategy.
    ByzSync = "byz.B16",
    /// The next write finds no space and the process ends, as it must; restarts after `lasts`.
    DiskFull = "disk.full",
    /// A crash that tears whatever was not durable at sectors of 512 bytes; restarts after `lasts`.
    DiskTorn = "disk.torn",
    /// A durable sector is found where another belongs, and the process restarts at the end. Counts as faulty.
    DiskMisdirect = "disk.misdirect",
    /// The process is replaced by one of the other release, and by its own again at the end.
    NodeVersion = "node.version",
    /// A second process of the same key runs on a copy of the disk until the end. Counts as faulty.
    NodeClone = "node.clone",
}

impl Family {
    /// The family of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        FAMILIES.iter().copied().find(|family| family.name() == name)
    }

    /// Whether the node it hits counts against the fault budget.
    #[must_use]
    pub fn costs_budget(self) -> bool {
        let lost = matches!(self, Self::DiskLie | Self::DiskRollback | Self::DiskWipe | Self::DiskMisdirect);
        lost || self == Self::NodeClone || (self.is_byzantine() && self != Self::ByzCrash)
    }

    /// Whether it is one of the strategies B1 to B16.
    #[must_use]
    pub fn is_byzantine(self) -> bool {
        self.name().starts_with("byz.")
    }
}

/// What a world knows of the incidents it was given.
#[derive(Default)]
pub(crate) struct Incidents {
    pub(crate) list: Vec<Incident>,
    /// Directed pairs of places that an incident blocks now.
    pub(crate) blocks: BTreeMap<u32, Vec<(u32, u32)>>,
    /// How many `disk.unsynced` are going on.
    pub(crate) unsynced: u32,
    /// How many of them keep prefixes.
    pub(crate) prefixes: u32,
    /// Incidents whose steps do not happen any more: others took their places.
    pub(crate) replaced: BTreeSet<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_is_found_by_its_own_name() {
        for family in FAMILIES {
            assert_eq!(Family::named(family.name()), Some(*family));
        }
        assert_eq!(Family::named("net.rain"), None);
        assert_eq!(FAMILIES.iter().filter(|family| family.is_byzantine()).count(), 16);
    }

    #[test]
    fn a_clean_crash_costs_no_budget_and_a_lost_disk_does() {
        assert!(!Family::NodeCrash.costs_budget() && !Family::ByzCrash.costs_budget());
        assert!(Family::DiskWipe.costs_budget() && Family::ByzSilent.costs_budget());
    }
}
