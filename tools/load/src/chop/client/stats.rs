//! What a load client counts, and what each member may say of itself afterwards.

use serde_json::{Value, json};

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Members with an id.
    pub enrolled: u32,
    /// Members whose card got none.
    pub refused: u32,
    /// Members with a message in flight.
    pub flying: u32,
    /// Messages begun.
    pub begun: u64,
    /// SUBMIT that left, those sent again among them.
    pub submits: u64,
    /// INCLUSION that holds, and those that do not.
    pub inclusions: u64,
    /// INCLUSION that shows nothing of the member's message.
    pub false_inclusions: u64,
    /// MULTISIG that left.
    pub shares: u64,
    /// Messages that DELIVERY says are delivered, with those of [`Stats::same`].
    pub confirmed: u64,
    /// Those that were delivered before, as an entry of another batch.
    pub same: u64,
    /// Entries that came back stale or void.
    pub stale: u64,
    /// SUBMIT sent again.
    pub retransmits: u64,
    /// Turns to another broker.
    pub other_broker: u64,
    /// NACK.
    pub nacks: u64,
    /// NACK that said busy.
    pub busy: u64,
    /// The highest height that DELIVERY named.
    pub height: u64,
}

impl Stats {
    /// As results show it.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let Self { enrolled, refused, flying, begun, submits, inclusions, .. } = self;
        json!({
            "enrolled": enrolled, "refused": refused, "flying": flying, "begun": begun, "submits": submits,
            "inclusions": inclusions, "false_inclusions": self.false_inclusions, "shares": self.shares,
            "confirmed": self.confirmed, "same": self.same, "stale": self.stale,
            "retransmits": self.retransmits, "other_broker": self.other_broker, "nacks": self.nacks,
            "busy": self.busy, "height": self.height,
        })
    }
}

/// What a member knows of its own messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its id.
    pub id: u32,
    /// Whether it keeps the rules; a silent member does.
    pub keeps_rules: bool,
    /// Messages begun.
    pub begun: u32,
    /// Messages known to be delivered.
    pub confirmed: u32,
}
