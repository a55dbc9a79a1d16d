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

/// What is measured.
#[derive(Clone, Debug)]
pub(crate) struct UbftBench {
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
