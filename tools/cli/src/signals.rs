//! Signals that ask a verb to end: interrupted from the terminal, terminated, or its terminal went away.

use crate::exit::bug;
use synod_config::{Exit, SynError};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The three signals that ask a verb to end.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    /// Hears them from now on; without this they end the process at once.
    ///
    /// # Errors
    /// SYN-9001 if the system refuses.
    pub(crate) fn listen() -> Result<Self, SynError> {
        let listen = |kind| signal(kind).map_err(|error| bug("signals", &error));
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    /// Waits for one; what it stands for as an exit code.
    pub(crate) async fn next(&mut self) -> Exit {
        tokio::select! {
            _ = self.interrupt.recv() => Exit::Interrupted,
            _ = self.terminate.recv() => Exit::Terminated,
            _ = self.hangup.recv() => Exit::Terminated,
        }
    }
}
