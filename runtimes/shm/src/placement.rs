//! Where processes run, and whether they may spin (docs/papers/ubft.md, section on the runtime).

use crate::error::Error;

/// How the processes of a group are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// All replicas in one thread of one process: no isolation.
    Cooperative,
    /// A process for each replica, which may share cores.
    Isolated,
    /// A process for each replica and a core for each process.
    Dedicated,
}

/// What a poller does when it found nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Gives its core to others that can run.
    Yield,
    /// Keeps its core.
    Spin,
}

/// Why a poller must not spin though that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{processes} processes share {cores} cores: they yield, for spinning would stop each other")]
pub struct TooFewCores {
    /// Cores that this process may run on.
    pub cores: u32,
    /// Processes of the group.
    pub processes: u32,
}

impl Placement {
    /// Says how a poller of a group of `processes` rests where `cores` cores are there, and why it does not spin where
    /// that was asked for: four spinners on two cores have a median of 48 ms, not of 12 us.
    #[must_use]
    pub const fn rest(self, processes: u32, cores: u32) -> (Rest, Option<TooFewCores>) {
        match self {
            Self::Cooperative | Self::Isolated => (Rest::Yield, None),
            Self::Dedicated if processes <= cores => (Rest::Spin, None),
            Self::Dedicated => (Rest::Yield, Some(TooFewCores { cores, processes })),
        }
    }
}

/// Cores that the calling thread may run on.
///
/// # Errors
/// What the system said.
pub fn cores() -> Result<u32, Error> {
    let set = rustix::thread::sched_getaffinity(None).map_err(Error::of("sched_getaffinity"))?;
    Ok(set.count())
}
