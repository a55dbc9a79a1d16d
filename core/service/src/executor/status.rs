//! What operators see of an executor.

use synod_machine::Wall;
use synod_machine::broadcast::Position;

use super::{ClientAuth, Executor};
use crate::app::App;

/// A look at an executor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutorStatus {
    /// The last position executed.
    pub executed: Position,
    /// The last position delivered.
    pub delivered: Position,
    /// The position of the newest own snapshot.
    pub snapshot: Position,
    /// The position of the state being installed, if one is.
    pub installing: Option<Position>,
    /// Agreed time.
    pub time: Wall,
    /// Open sessions.
    pub sessions: u64,
    /// Items admitted and not executed.
    pub pool_items: u64,
    /// Bytes of them.
    pub pool_bytes: u64,
    /// Entries delivered and not executed.
    pub lag: u64,
    /// Commands executed since the process started.
    pub commands: u64,
    /// Items of the order skipped as invalid since the process started.
    pub skipped: u64,
    /// How the origin of items is known.
    pub auth: ClientAuth,
}

impl<P: App> Executor<P> {
    /// A look at this executor.
    pub fn status(&self) -> ExecutorStatus {
        ExecutorStatus {
            executed: self.executed,
            delivered: self.backlog.delivered(),
            snapshot: self.resume_position(),
            installing: self.transfer.as_ref().map(|transfer| transfer.position),
            time: self.time,
            sessions: self.sessions.count() as u64,
            pool_items: self.pool.count() as u64,
            pool_bytes: self.pool.payload_bytes(),
            lag: self.backlog.count() as u64,
            commands: self.commands,
            skipped: self.skipped,
            auth: self.settings.auth,
        }
    }
}
