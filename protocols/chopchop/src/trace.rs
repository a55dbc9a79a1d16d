//! What the trace sees: rules applied, named after the steps of the paper's Figure 5 and its rules, and notes for operators.

use synod_crypto::Hash;
use synod_machine::{Note as ErasedNote, Rule as ErasedRule, names};

names! {
    /// A numbered step of the paper's Figure 5, or a rule it names.
    Rule:
    /// #1: a client has a message to broadcast.
    Step1 = "S01_broadcast";
    /// #2: the client submits it to a broker.
    Step2 = "S02_submit";
    /// #3: the broker closes a batch and builds its tree.
    Step3 = "S03_build";
    /// #4: the broker shows clients that their messages are included.
    Step4 = "S04_include";
    /// #5: a client checks the inclusion.
    Step5 = "S05_check_inclusion";
    /// #6: the client multi-signs the root.
    Step6 = "S06_multi_sign";
    /// #7: the broker aggregates and attaches the stragglers.
    Step7 = "S07_distil";
    /// #8: the broker sends the batch to the servers.
    Step8 = "S08_send_batch";
    /// #9: a store takes a batch in.
    Step9 = "S09_take_batch";
    /// #10: a store that was asked checks and witnesses it.
    Step10 = "S10_witness";
    /// #11: the broker puts the witness together.
    Step11 = "S11_collect_shards";
    /// #12: the broker has it ordered.
    Step12 = "S12_order";
    /// #13: a server accepts the ordered item.
    Step13 = "S13_accept";
    /// #14: a body that is not here is retrieved.
    Step14 = "S14_retrieve";
    /// #15: the batch is deduplicated and delivered.
    Step15 = "S15_deliver";
    /// #16: the server signs what it delivered.
    Step16 = "S16_sign_delivery";
    /// #17: the broker puts the delivery certificate together.
    Step17 = "S17_certify";
    /// #18: the broker sends it to the clients.
    Step18 = "S18_respond";
    /// #19: the client is done.
    Step19 = "S19_done";
    /// 2.2: cards of a sign-up batch enter the directory.
    Directory = "directory";
    /// 4.2: one message per client in a batch.
    UniqueSender = "unique_sender";
    /// 4.2: a client that did not multi-sign is attached with its own signature.
    Fallback = "fallback";
    /// 4.2: one message of a client in flight.
    OneAtATime = "one_at_a_time";
    /// 4.2: the same message, or an older number, is not delivered again.
    ReplayRule = "replay_rule";
    /// 4.2: queued payloads travel as one message.
    Burst = "burst";
    /// 4.2: a number is signed only below the proven height.
    LegitimateK = "legitimate_k";
    /// 4.2: a certificate shows the height.
    LegitimacyProof = "legitimacy_proof";
    /// 4.2: a client turns to another broker.
    OtherBroker = "other_broker";
    /// 4.3: more servers are asked for shards.
    WitnessExtend = "witness_extend";
    /// 4.3: a body is pulled from a witness.
    Retrieve = "retrieve";
    /// 4.3: shards count together when they are equal.
    EqualShards = "equal_shards";
    /// 5.2: a body is collected when every server delivered it durably.
    CollectAll = "collect_all";
    /// 5.1: ids of a batch rise.
    SortedIds = "sorted_ids";
    /// 5.1: lanes are deduplicated side by side.
    ParallelDedup = "parallel_dedup";
    /// 5.1: submissions are verified in batches.
    BatchedEd25519 = "batched_ed25519";
    /// 5.1: bad shares are found by a search over a tree.
    TreeSearch = "tree_search";
    /// 5.1: a proof of legitimacy is verified once.
    CachedProof = "cached_proof";
}

names! {
    /// Something operators see.
    NoteName:
    /// A batch is witnessed: count, bytes of its body, nanoseconds since it was asked for.
    Witnessed = "batch_witnessed";
    /// A batch is refused: code.
    Refused = "batch_refused";
    /// The key sum's fast path and its reference disagree: count. Any of these fails a run.
    AdderMismatch = "adder_mismatch";
    /// Bytes of bodies that are witnessed and neither ordered nor expired changed: to this many.
    Pinned = "store_pinned";
    /// Keys of signers were added up for a signature that held: 1 when the sum was begun from that of another batch, signers.
    KeysAdded = "keys_added";
    /// A body was retrieved: bytes, pieces.
    Retrieved = "body_retrieved";
    /// A body was released: height.
    Released = "body_released";
    /// An item was accepted: height, count.
    Accepted = "item_accepted";
    /// A batch was delivered: height, count, exceptions.
    Delivered = "batch_delivered";
    /// Cards were appended: height, new length of the directory, cards not appended.
    SignedUp = "cards_appended";
    /// A checkpoint is durable here: position, height.
    Marked = "checkpoint_durable";
    /// The state has to be fetched: position, height here.
    Behind = "behind_retention";
    /// A certified state of others took the place of what was here: position, height, batches delivered here before.
    Installed = "state_installed";
    /// The state of the own last checkpoint is in use again: position, height.
    Resumed = "state_resumed";
    /// A valid witness covers a body that breaks a rule, so more than f servers are faulty: height. The server stops.
    FalseWitness = "false_witness";
    /// No witness is given until a certified checkpoint is held and the horizon has passed.
    Silent = "store_silent";
    /// A broker sealed a batch of messages: count, stragglers, bytes of its body.
    Sealed = "batch_sealed";
    /// A search for bad shares ended: checks, bad, unresolved.
    Searched = "shares_searched";
    /// A client is done with a message: k, nanoseconds.
    Done = "message_done";
}

impl From<Rule> for ErasedRule {
    fn from(rule: Rule) -> Self {
        Self { protocol: "chopchop", name: rule.name() }
    }
}

/// A note with its numbers.
#[derive(Clone, Copy, Debug)]
pub struct Note {
    /// What happened.
    pub name: NoteName,
    /// Numbers whose meaning the name fixes.
    pub values: [u64; 3],
    /// The batch it is about, or zero.
    pub digest: Hash,
}

impl Note {
    /// A note about a batch.
    #[must_use]
    pub const fn of(name: NoteName, values: [u64; 3], digest: Hash) -> Self {
        Self { name, values, digest }
    }
}

impl From<Note> for ErasedNote {
    fn from(note: Note) -> Self {
        let [a, b, c] = note.values;
        Self { name: note.name.name(), values: [a, b, c, 0], digest: note.digest }
    }
}

#[cfg(test)]
mod tests {
    use super::{NoteName, Rule};
    use std::collections::BTreeSet;

    #[test]
    fn every_rule_and_note_has_a_name_of_its_own() {
        let rules: BTreeSet<&str> = Rule::ALL.iter().map(|rule| rule.name()).collect();
        let notes: BTreeSet<&str> = NoteName::ALL.iter().map(|note| note.name()).collect();
        assert_eq!((rules.len(), notes.len()), (Rule::ALL.len(), NoteName::ALL.len()));
        assert_eq!(Rule::ALL.iter().filter(|rule| rule.name().starts_with('S')).count(), 19);
    }
}
