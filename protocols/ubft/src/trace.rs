//! Rules applied: numbered lines of the paper's algorithms, and written rules.

use synod_machine::{Rule as ErasedRule, names};

names! {
    /// A line of Algorithm 1, or a rule of the specification.
    Rule:
    /// Algorithm 1, line 3: the message goes to all receivers.
    A1Lock = "A1.03_lock";
    /// Algorithm 1, line 4: it is signed.
    A1Signed = "A1.04_signed";
    /// Algorithm 1, lines 12 to 16: the first message of a number is locked and told.
    A1Locked = "A1.12_locked";
    /// Algorithm 1, lines 22 and 23: all receivers have locked it.
    A1DeliverFast = "A1.22_deliver_fast";
    /// Algorithm 1, lines 25 to 30: a signed message that is locked is written.
    A1Write = "A1.25_write";
    /// Algorithm 1, lines 33 and 34: two signed messages of one number.
    A1TwoMessages = "A1.33_two_messages";
    /// Algorithm 1, lines 35 and 36: a later message has taken the place.
    A1OutOfTail = "A1.35_out_of_tail";
    /// Algorithm 1, line 37: the registers of all others speak of no other message.
    A1DeliverSlow = "A1.37_deliver_slow";
    /// What is overdue is asked for (4.5).
    Nack = "nack";
    /// An entry that its broadcaster did not sign is none (E5).
    ForeignEntry = "E05_foreign_entry";
    /// A receiver that locks by a signature tells it as well (D1).
    LockedBySignature = "D01_locked_by_signature";
    /// A broadcaster waits for a summary of its own messages (E23).
    Blocked = "E23_blocked";
    /// An operation of a register is complete at f_m + 1 memory nodes (section 6.1).
    RegisterQuorum = "S6.1_register_quorum";
    /// An epoch's registers are gone, which is not to be empty (E37).
    Retired = "E37_retired";
}

impl From<Rule> for ErasedRule {
    fn from(rule: Rule) -> Self {
        Self { protocol: "ubft", name: rule.name() }
    }
}
