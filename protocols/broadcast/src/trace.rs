//! Rules applied: the numbered lines of the listings, and written rules.

use synod_machine::{Rule as ErasedRule, names};

names! {
    /// A line of Listing 5 (Bracha) or 6 (signed), or a rule of the specification.
    Rule:
    /// Listing 5, line 4: the payload goes to all.
    L5Prepare = "L5.04_prepare";
    /// Listing 5, lines 11 to 13: the first payload of a slot is echoed, by digest.
    L5Echo = "L5.11_echo";
    /// Listing 5, lines 17 to 21: a quorum of echoes makes ready.
    L5ReadyByEchoes = "L5.17_ready";
    /// Listing 5, lines 25 to 29: f + 1 who are ready make ready.
    L5ReadyByReady = "L5.25_amplify";
    /// Listing 5, lines 30 to 34: 2f + 1 who are ready deliver.
    L5Deliver = "L5.30_deliver";
    /// Listing 6, lines 3 to 5: the payload goes to all, with its source's ACK.
    L6Prepare = "L6.03_prepare";
    /// Listing 6, lines 10 to 15: what is endorsed is recorded and signed.
    L6Ack = "L6.10_ack";
    /// Listing 6, lines 16 to 21: ACKs of a quorum make a certificate.
    L6Commit = "L6.16_commit";
    /// Listing 6, lines 22 to 27: a certificate and the payload it names deliver.
    L6Deliver = "L6.22_deliver";
    /// A certificate certifies what those before it did not.
    Fuller = "fuller";
    /// Somebody else collects the ACKs of a source that does not.
    Rescue = "rescue";
    /// A payload that votes decided on is asked for (E5, E13).
    Pull = "pull";
    /// A delivery lets the next slot of the source be delivered (E7).
    Successor = "successor";
    /// Others are further: what they know is asked for.
    CatchUp = "catch_up";
    /// What was endorsed or certified in an older view is endorsed again in this one.
    Carry = "carry";
    /// A certificate of an older view decides between two payloads.
    Decide = "decide";
}

impl From<Rule> for ErasedRule {
    fn from(rule: Rule) -> Self {
        Self { protocol: "broadcast", name: rule.name() }
    }
}
