//! Epochs (specification, 4.15): which life of each replica, and which boot of each memory node, may take part.
//!
//! Locks, promises and places in streams die with a process, and registers with a memory node. Whoever lost them is silent until an epoch
//! begins that lists it anew. A replica asks for that by a signed request which is ordered like any other; of a memory node that came back
//! empty f + 1 replicas say so. From the order alone follows where the epoch ends, and how the next one begins.
//!
//! *Bounds.* One number per replica and memory node; a replica is readmitted at most once in [`REJOIN_FIRST_MS`], doubling.

use synod_crypto::{Claim, Hash, Keys, Signature};
use synod_quorum::{Epoch, NodeId};
use synod_wire::{List, wire};

use crate::batch::{Slot, View};
use crate::certificate::REPLICAS_MAX;
use crate::config::{Config, MEMORY_MAX, Memory, NUMBER_END};
use crate::statement::Statement;

/// A replica is readmitted once in so much agreed time; doubles up to [`REJOIN_MAX_MS`].
pub const REJOIN_FIRST_MS: u64 = 10_000;
/// The longest of these waits.
pub const REJOIN_MAX_MS: u64 = 600_000;
/// One that asked for nothing for so long waits for [`REJOIN_FIRST_MS`] again.
pub const REJOIN_RESET_MS: u64 = 3_600_000;

wire! {
    /// Who takes part in an epoch.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Configuration {
        /// The epoch.
        pub epoch: Epoch,
        /// The view in which it begins.
        pub first_view: View,
        /// Of each replica which life.
        pub incarnations: List<u64, REPLICAS_MAX>,
        /// Of each memory node which boot.
        pub boots: List<u64, MEMORY_MAX>,
    }

    /// What is ordered to begin another epoch.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Change {
        /// A replica was started again.
        0 = Rejoin {
            /// Which.
            node: u8,
            /// Its present life.
            incarnation: u64,
            /// Its own, over it.
            signature: Signature,
        },
        /// A memory node came back empty.
        1 = Readmit {
            /// Its place among memory nodes.
            memory: u8,
            /// Its present boot.
            boot: u64,
            /// Of f + 1 replicas that saw it.
            signed: List<(u8, Signature), REPLICAS_MAX>,
        },
    }

    /// When a replica was readmitted, and how long it waits for the next time.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Readmission {
        /// In agreed unix milliseconds; none where it never was.
        pub at_ms: Option<u64>,
        /// The wait.
        pub wait_ms: u64,
    }

    /// The epoch that comes.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Ending {
        /// The first slot that is none of the present epoch's.
        pub end: Slot,
        /// Of each replica which life.
        pub incarnations: List<u64, REPLICAS_MAX>,
        /// Of each memory node which boot.
        pub boots: List<u64, MEMORY_MAX>,
    }

    /// What follows from the order about epochs; replicated state.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Epochs {
        /// The present one, at the last slot that was executed.
        pub configuration: Configuration,
        /// The next one, once it is ordered.
        pub ending: Option<Ending>,
        /// Of each replica.
        pub readmissions: List<Readmission, REPLICAS_MAX>,
    }
}

impl Configuration {
    /// The first epoch: first lives, and memory nodes as the genesis lists them.
    #[must_use]
    pub fn genesis(config: &Config) -> Self {
        let count = usize::try_from(config.roster.size()).unwrap_or(0);
        let boots: Vec<u64> = config.memory.iter().map(|memory| memory.boot).collect();
        Self {
            epoch: config.epoch,
            first_view: config.first_view,
            incarnations: List::try_from(vec![1; count]).unwrap_or_default(),
            boots: List::try_from(boots).unwrap_or_default(),
        }
    }

    /// What stands for it.
    #[must_use]
    pub fn digest(&self) -> Hash {
        Hash::of_value("ubft configuration", self)
    }

    /// The life of a replica that takes part.
    #[must_use]
    pub fn incarnation(&self, id: NodeId) -> Option<u64> {
        self.incarnations.get(usize::from(id.member()?)).copied()
    }

    /// Everything that a replica must know of the epoch; none where it lists others than the genesis.
    #[must_use]
    pub fn config(&self, genesis: &Config) -> Option<Config> {
        let replicas = usize::try_from(genesis.roster.size()).ok()?;
        if self.incarnations.len() != replicas
            || self.boots.len() != genesis.memory.len()
            || self.first_view.0 >= NUMBER_END
        {
            return None;
        }
        let boots = genesis.memory.iter().zip(&self.boots);
        let memory = boots.map(|(memory, boot)| Memory { node: memory.node, boot: *boot }).collect();
        Some(Config { first_view: self.first_view, memory, ..genesis.at(self.epoch)? })
    }
}

impl Change {
    /// What it is about: of one thing only the newest is kept.
    #[must_use]
    pub const fn about(&self) -> (bool, u8) {
        match self {
            Self::Rejoin { node, .. } => (false, *node),
            Self::Readmit { memory, .. } => (true, *memory),
        }
    }

    /// The life, or the boot.
    #[must_use]
    pub const fn number(&self) -> u64 {
        match self {
            Self::Rejoin { incarnation, .. } => *incarnation,
            Self::Readmit { boot, .. } => *boot,
        }
    }

    fn claims(&self, genesis: &Config) -> Option<Vec<Claim<Statement>>> {
        match self {
            Self::Rejoin { node, incarnation, signature } => {
                let statement = Statement::Rejoin { signer: *node, incarnation: *incarnation };
                Some(vec![genesis.claim(statement, *signature)?])
            }
            Self::Readmit { memory, boot, signed } => {
                let need = usize::try_from(genesis.quorums().ok()?.one_correct()).ok()?;
                if signed.len() != need || !signed.iter().is_sorted_by(|(a, _), (b, _)| a < b) {
                    return None;
                }
                let claim = |(signer, signature): &(u8, Signature)| {
                    let statement = Statement::Readmit { signer: *signer, memory: *memory, boot: *boot };
                    genesis.claim(statement, *signature)
                };
                signed.iter().map(claim).collect()
            }
        }
    }

    /// Whether whoever must have signed it did: the replica itself, or exactly f + 1 distinct ones.
    #[must_use]
    pub fn is_signed(&self, genesis: &Config, keys: &Keys) -> bool {
        let claims = self.claims(genesis);
        self.number() < NUMBER_END
            && claims.is_some_and(|claims| claims.into_iter().all(|claim| claim.verify(keys).is_ok()))
    }
}

impl Epochs {
    /// Before anything is ordered.
    #[must_use]
    pub fn genesis(config: &Config) -> Self {
        let configuration = Configuration::genesis(config);
        let first = Readmission { at_ms: None, wait_ms: REJOIN_FIRST_MS };
        let readmissions = vec![first; configuration.incarnations.len()];
        Self { configuration, ending: None, readmissions: List::try_from(readmissions).unwrap_or_default() }
    }

    /// The end of the present epoch, once it is known.
    #[must_use]
    pub fn end(&self) -> Option<Slot> {
        self.ending.as_ref().map(|ending| ending.end)
    }

    /// The number that is listed for what a change is about, with what is ordered already.
    #[must_use]
    pub fn listed(&self, change: &Change) -> Option<u64> {
        let (incarnations, boots) = self
            .ending
            .as_ref()
            .map_or((&self.configuration.incarnations, &self.configuration.boots), |ending| {
                (&ending.incarnations, &ending.boots)
            });
        match change {
            Change::Rejoin { node, .. } => incarnations.get(usize::from(*node)).copied(),
            Change::Readmit { memory, .. } => boots.get(usize::from(*memory)).copied(),
        }
    }

    /// Ids of a session lie above this. A replica that lives anew forgot which ids of its own session it used, so each epoch begins them
    /// anew, and what was not executed in the one before is void.
    #[must_use]
    pub fn id_floor(&self, session: u64) -> u64 {
        let is_replica = session < crate::sessions::FIRST_CLIENT;
        if is_replica { u64::from(self.configuration.epoch.0) << 32 } else { 0 }
    }

    /// Whether a change is certain to do nothing.
    #[must_use]
    pub fn is_void(&self, change: &Change) -> bool {
        self.listed(change).is_none_or(|listed| change.number() <= listed)
    }

    /// Whether a replica asks to be listed so soon after the last time that nothing would happen at this time.
    #[must_use]
    pub fn is_early(&self, change: &Change, now_ms: u64) -> bool {
        let Change::Rejoin { node, .. } = change else { return false };
        let last = self.readmissions.get(usize::from(*node));
        last.is_some_and(|last| last.at_ms.is_some_and(|at| now_ms.saturating_sub(at) < last.wait_ms))
    }

    /// Executes a change in a slot, at an agreed time, with checkpoints behind each `half` slots. False where it does nothing.
    pub fn apply(&mut self, change: &Change, slot: Slot, now_ms: u64, half: u64) -> bool {
        if self.is_void(change) {
            return false;
        }
        if let Change::Rejoin { node, .. } = change
            && !self.may_rejoin(usize::from(*node), now_ms)
        {
            return false;
        }
        let Configuration { incarnations, boots, .. } = &self.configuration;
        // The first checkpoint behind the slot says where it ends: so far reach the windows before it.
        let behind = slot.0.checked_div(half).unwrap_or(0).saturating_add(1).saturating_mul(half);
        let ending = self.ending.get_or_insert_with(|| Ending {
            end: Slot(behind.saturating_add(half)),
            incarnations: incarnations.clone(),
            boots: boots.clone(),
        });
        match change {
            Change::Rejoin { node, incarnation, .. } => {
                ending.incarnations = with(&ending.incarnations, *node, *incarnation);
            }
            Change::Readmit { memory, boot, .. } => ending.boots = with(&ending.boots, *memory, *boot),
        }
        true
    }

    /// A replica that is started again and again ends an epoch more and more rarely.
    fn may_rejoin(&mut self, node: usize, now_ms: u64) -> bool {
        let mut readmissions = core::mem::take(&mut self.readmissions).into_vec();
        let mut may = false;
        if let Some(readmission) = readmissions.get_mut(node) {
            let since = readmission.at_ms.map(|at| now_ms.saturating_sub(at));
            may = since.is_none_or(|since| since >= readmission.wait_ms);
            if may {
                let wait_ms = match since {
                    Some(since) if since < REJOIN_RESET_MS => {
                        readmission.wait_ms.saturating_mul(2).min(REJOIN_MAX_MS)
                    }
                    Some(_) | None => REJOIN_FIRST_MS,
                };
                *readmission = Readmission { at_ms: Some(now_ms), wait_ms };
            }
        }
        self.readmissions = List::try_from(readmissions).unwrap_or_default();
        may
    }

    /// The next configuration, where the present epoch ends at this slot; `origin` is the view in which its last batch was proposed first.
    #[must_use]
    pub fn next(&self, executed: Slot, origin: View) -> Option<Configuration> {
        let ending = self.ending.as_ref().filter(|ending| ending.end == executed)?;
        Some(Configuration {
            epoch: Epoch(self.configuration.epoch.0.saturating_add(1)),
            first_view: origin,
            incarnations: ending.incarnations.clone(),
            boots: ending.boots.clone(),
        })
    }

    /// The present epoch is over.
    pub fn enter(&mut self, configuration: Configuration) {
        self.configuration = configuration;
        self.ending = None;
    }
}

fn with<const MAX: usize>(list: &List<u64, MAX>, at: u8, number: u64) -> List<u64, MAX> {
    let mut all: Vec<u64> = list.iter().copied().collect();
    all.get_mut(usize::from(at)).into_iter().for_each(|place| *place = number);
    List::try_from(all).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{
        Change, Configuration, Epoch, Epochs, Hash, List, REJOIN_FIRST_MS, REJOIN_RESET_MS, Readmission,
        Signature, Slot, View,
    };

    fn epochs() -> Epochs {
        let configuration = Configuration {
            epoch: Epoch(0),
            first_view: View(0),
            incarnations: List::try_from(vec![1, 1, 1]).expect("few"),
            boots: List::try_from(vec![1, 1, 1]).expect("few"),
        };
        let first = Readmission { at_ms: None, wait_ms: REJOIN_FIRST_MS };
        Epochs { configuration, ending: None, readmissions: List::try_from(vec![first; 3]).expect("few") }
    }

    const fn rejoin(node: u8, incarnation: u64) -> Change {
        Change::Rejoin { node, incarnation, signature: Signature([0; 64]) }
    }

    #[test]
    fn an_epoch_ends_half_a_window_behind_the_first_checkpoint_that_can_say_so() {
        for (slot, end) in [(0, 32), (15, 32), (16, 48), (31, 48), (32, 64)] {
            let mut epochs = epochs();
            assert!(epochs.apply(&rejoin(1, 2), Slot(slot), 5, 16));
            assert_eq!(epochs.end(), Some(Slot(end)), "of slot {slot}");
            // Another one joins the same change.
            assert!(epochs.apply(&rejoin(2, 7), Slot(end - 1), 5, 16));
            assert_eq!(epochs.end(), Some(Slot(end)));
            assert_eq!(epochs.next(Slot(end - 1), View(3)), None);
            let next = epochs.next(Slot(end), View(3)).expect("it is over");
            assert_eq!((next.epoch, next.first_view), (Epoch(1), View(3)));
            assert_eq!(&*next.incarnations, [1, 2, 7]);
            assert_ne!(next.digest(), Hash::ZERO);
        }
    }

    #[test]
    fn a_life_that_is_listed_or_a_stranger_changes_nothing() {
        let mut epochs = epochs();
        for void in [rejoin(1, 1), rejoin(1, 0), rejoin(3, 2), rejoin(200, 2)] {
            assert!(epochs.is_void(&void) && !epochs.apply(&void, Slot(1), 5, 16));
        }
        assert_eq!(epochs.ending, None);
        let readmit = Change::Readmit { memory: 2, boot: 2, signed: List::default() };
        assert!(epochs.apply(&readmit, Slot(1), 5, 16) && epochs.is_void(&readmit));
    }

    #[test]
    fn readmissions_of_one_replica_wait_twice_as_long_each_time_and_an_hour_forgets() {
        let mut epochs = epochs();
        let mut now = 1_000;
        assert!(epochs.apply(&rejoin(1, 2), Slot(0), now, 16));
        assert!(!epochs.apply(&rejoin(1, 3), Slot(0), now + REJOIN_FIRST_MS - 1, 16), "one below");
        assert!(epochs.is_early(&rejoin(1, 3), now + REJOIN_FIRST_MS - 1));
        assert!(!epochs.is_early(&rejoin(1, 3), now + REJOIN_FIRST_MS));
        assert!(!epochs.is_early(&rejoin(2, 3), now));
        now += REJOIN_FIRST_MS;
        assert!(epochs.apply(&rejoin(1, 3), Slot(0), now, 16), "at the wait");
        assert!(!epochs.apply(&rejoin(1, 4), Slot(0), now + 2 * REJOIN_FIRST_MS - 1, 16));
        assert!(epochs.apply(&rejoin(2, 4), Slot(0), now, 16), "another one's wait is its own");
        now += REJOIN_RESET_MS;
        assert!(epochs.apply(&rejoin(1, 4), Slot(0), now, 16));
        assert!(epochs.apply(&rejoin(1, 5), Slot(0), now + REJOIN_FIRST_MS, 16), "as at first");
    }
}
