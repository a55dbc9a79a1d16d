//! Who broadcasts to whom, and how much is kept.

use synod_machine::Span;
use synod_machine::broadcast::{Bounds, PAYLOAD_MAX};
use synod_quorum::{Model, NodeId, NodeSet, Quorums};

/// What a broadcast needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// This node.
    pub me: NodeId,
    /// All who vote, this node among them.
    pub members: NodeSet,
    /// What is kept, and when something is said again.
    pub bounds: Bounds,
}

/// A configuration that cannot work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsound {
    /// This node is no member, or there is none.
    NoMember,
    /// No window, one above [`WINDOW_MAX`], or fewer slots kept than are worked on.
    Window,
    /// No payload, or one longer than [`PAYLOAD_MAX`].
    Payload,
    /// A wait of no length, or a longest wait below the first.
    Wait,
}

/// Most undelivered slots per source.
pub const WINDOW_MAX: u64 = 1_024;
/// Most delivered slots per source that are kept.
pub const RETAIN_MAX: u64 = 1 << 16;

/// Slots that a source fills before the first of them is done, half of the window: to others, slots are done later than to their source,
/// and what comes beyond their window is lost and has to be said again.
pub(crate) const fn offered(window: u64) -> u64 {
    window.div_ceil(2)
}

impl Config {
    /// The thresholds, if everything else is in order.
    ///
    /// # Errors
    /// [`Unsound`].
    pub fn quorums(&self) -> Result<Quorums, Unsound> {
        if !self.members.contains(self.me) {
            return Err(Unsound::NoMember);
        }
        let bounds = &self.bounds;
        if bounds.window == 0
            || bounds.window > WINDOW_MAX
            || bounds.retain < bounds.window
            || bounds.retain > RETAIN_MAX
        {
            return Err(Unsound::Window);
        }
        if bounds.payload_max == 0 || bounds.payload_max > PAYLOAD_MAX {
            return Err(Unsound::Payload);
        }
        let waits = [(bounds.resend, bounds.resend_max), (bounds.pull, bounds.pull_max)];
        if bounds.frontier_every == Span::ZERO
            || waits.iter().any(|(first, last)| *first == Span::ZERO || last < first)
        {
            return Err(Unsound::Wait);
        }
        Quorums::new(Model::Byzantine, self.members.count()).map_err(|_| Unsound::NoMember)
    }
}
