//! Who broadcasts to whom, and how much is kept.

use synod_machine::Span;
use synod_machine::broadcast::PAYLOAD_MAX;
use synod_quorum::{Model, NodeId, NodeSet, Quorums};

/// What a broadcast needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// This node.
    pub me: NodeId,
    /// All who vote, this node among them.
    pub members: NodeSet,
    /// Undelivered slots per source that are worked on.
    pub window: u64,
    /// Delivered slots per source whose votes and payload are kept for whoever is behind.
    pub retain: u64,
    /// Longest payload, in bytes.
    pub payload_max: u32,
    /// How often a node says how far it is, while somebody may not know.
    pub frontier_every: Span,
    /// When the votes of an undelivered slot are said again; doubles up to `resend_max`.
    pub resend: Span,
    /// See there.
    pub resend_max: Span,
    /// When a payload is asked of the next peer; doubles up to `pull_max`.
    pub pull: Span,
    /// See there.
    pub pull_max: Span,
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

impl Config {
    /// The defaults of the payment system (specification, section 2): 64 slots of 256 KiB.
    #[must_use]
    pub const fn new(me: NodeId, members: NodeSet) -> Self {
        Self {
            me,
            members,
            window: 64,
            retain: 1_024,
            payload_max: 256 << 10,
            frontier_every: Span::millis(50),
            resend: Span::millis(500),
            resend_max: Span::secs(10),
            pull: Span::millis(100),
            pull_max: Span::secs(5),
        }
    }

    /// The thresholds, if everything else is in order.
    ///
    /// # Errors
    /// [`Unsound`].
    pub fn quorums(&self) -> Result<Quorums, Unsound> {
        if !self.members.contains(self.me) {
            return Err(Unsound::NoMember);
        }
        if self.window == 0
            || self.window > WINDOW_MAX
            || self.retain < self.window
            || self.retain > RETAIN_MAX
        {
            return Err(Unsound::Window);
        }
        if self.payload_max == 0 || self.payload_max > PAYLOAD_MAX {
            return Err(Unsound::Payload);
        }
        let waits = [(self.resend, self.resend_max), (self.pull, self.pull_max)];
        if self.frontier_every == Span::ZERO
            || waits.iter().any(|(first, last)| *first == Span::ZERO || last < first)
        {
            return Err(Unsound::Wait);
        }
        Quorums::new(Model::Byzantine, self.members.count()).map_err(|_| Unsound::NoMember)
    }
}
