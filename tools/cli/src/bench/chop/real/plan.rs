//! What a run with real clients does.

use std::path::PathBuf;
use std::time::Duration;

/// How clients come into the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Enrol {
    /// They stand in the directory of the genesis.
    Genesis,
    /// They sign up, each with a proof of possession.
    SignUp,
}

/// One run.
#[derive(Clone, Debug)]
pub(crate) struct RealPlan {
    /// Clients that one load client plays.
    pub(crate) clients: u32,
    /// Real clients beside them.
    pub(crate) honest: u32,
    /// Clients that never multi-sign, of a thousand.
    pub(crate) silent: u32,
    /// Clients that break rules, of a thousand.
    pub(crate) invalid: u32,
    /// Sockets of the load client.
    pub(crate) sockets: u32,
    /// Messages begun per second at most.
    pub(crate) rate: u32,
    /// Brokers.
    pub(crate) brokers: u16,
    /// How clients come into the directory.
    pub(crate) enrol: Enrol,
    /// So many messages of each client, instead of a time.
    pub(crate) messages: Option<u32>,
    /// Whether a broker is killed in the middle of a batch.
    pub(crate) kill: bool,
    pub(crate) span: Duration,
    pub(crate) warmup: Duration,
    pub(crate) repeat: u32,
    /// Whether levers are measured alone, behind the run.
    pub(crate) ablations: bool,
    /// A file for every receipt, one per line; the genesis is copied beside it.
    pub(crate) receipts: Option<PathBuf>,
    /// Whether the audit takes a message for one that its client never began.
    pub(crate) planted: bool,
    pub(crate) out: Option<PathBuf>,
}
