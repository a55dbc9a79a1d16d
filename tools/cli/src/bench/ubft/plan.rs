//! What is measured.

use std::path::PathBuf;

/// What is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum App {
    /// Reverses its input: the paper's toy.
    Flip,
    /// SET of a value of the size.
    Kv,
}

impl App {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Flip => "flip",
            Self::Kv => "kv",
        }
    }
}

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    /// Three replicas of uBFT.
    Synod,
    /// One server.
    Unreplicated,
}

impl System {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Synod => "synod",
            Self::Unreplicated => "unreplicated",
        }
    }
}

/// Where replicas, client and registers stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// Replicas at one poller, the client at another, registers in this process.
    Cooperative,
    /// A process for each replica and memory node; the client is this one.
    Isolated,
}

impl Placement {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Cooperative => "cooperative",
            Self::Isolated => "isolated",
        }
    }
}

/// A process of a run: its name, and the folder where all have their doors.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
}

/// What is measured.
#[derive(Clone, Debug)]
pub(crate) struct UbftBench {
    pub(crate) placement: Placement,
    /// This process is a part of another's run.
    pub(crate) part: Option<Part>,
    /// The applications, one after the other.
    pub(crate) apps: Vec<App>,
    /// The systems, one after the other; a ratio needs both.
    pub(crate) systems: Vec<System>,
    /// Bytes of a request.
    pub(crate) size: u32,
    /// Requests whose times are taken.
    pub(crate) samples: u32,
    /// Requests before them.
    pub(crate) warmup: u32,
    /// Messages of a replica that the others remember.
    pub(crate) tail: u32,
    /// Slots that are worked on.
    pub(crate) window: u32,
    /// Without the fast path every slot is signed.
    pub(crate) fast_path: bool,
    /// Where the result is written as well.
    pub(crate) out: Option<PathBuf>,
}
