//! What a peer can do wrong: one variant per rejected statement or rule, with the SYN code beside it (section 6).

use crate::batch::Refusal;

synod_machine::faults! {
    /// Sent a message that is for another role.
    WrongRole = 4_401, "wrong_role";
    /// Spoke as a server without being one.
    Stranger = 4_402, "stranger";
    /// Sent a batch that is not well formed.
    MalformedBatch = 4_403, "malformed_batch";
    /// Sent a batch whose ids do not rise, or are beyond the directory it names.
    BadIds = 4_404, "bad_ids";
    /// Sent a batch with a straggler or a void that breaks a rule, or is not signed.
    BadStraggler = 4_405, "bad_straggler";
    /// Sent a batch with another root than its body has.
    BadRoot = 4_406, "bad_root";
    /// Sent a batch whose aggregate does not hold.
    BadAggregate = 4_407, "bad_aggregate";
    /// Sent a sign-up batch with a card that is not sound.
    BadCard = 4_408, "bad_card";
    /// Sent a batch of another epoch.
    WrongEpoch = 4_409, "wrong_epoch";
    /// Sent an item whose signers are not f + 1 members of the cluster.
    BadSigners = 4_411, "bad_signers";
    /// Sent an item with a shard that does not verify.
    BadShard = 4_412, "bad_shard";
    /// Sent a piece that was not asked for, or of another length.
    WrongPiece = 4_413, "wrong_piece";
    /// Sent pieces that are not the batch of their digest.
    WrongBody = 4_414, "wrong_body";
    /// Said a lower durable height than before.
    FallingMark = 4_415, "falling_mark";
    /// Sent a part of a state that its root does not contain.
    WrongStatePart = 4_417, "wrong_state_part";
    /// Sent a shard that does not verify.
    ForgedShard = 4_421, "forged_shard";
    /// Sent a verdict whose signature does not verify.
    ForgedVerdict = 4_422, "forged_verdict";
    /// Sent a verdict whose exceptions do not have its root.
    FalseExceptions = 4_423, "false_exceptions";
    /// Sent a verdict unlike that of f + 1 others.
    UnequalVerdict = 4_424, "unequal_verdict";
    /// Sent a height whose signature does not verify.
    ForgedHeight = 4_425, "forged_height";
    /// Sent a state whose signature does not verify.
    ForgedState = 4_426, "forged_state";
    /// Sent members that are not those of the directory.
    FalseCards = 4_427, "false_cards";
    /// Submitted a message whose signature does not verify.
    ForgedSubmission = 4_431, "forged_submission";
    /// Showed a certificate that does not verify.
    BadCertificate = 4_432, "bad_certificate";
    /// Sent a share that is not the client's signature of the root.
    BadShare = 4_433, "bad_share";
    /// Claimed an id with a signature that does not verify.
    FalseClaim = 4_434, "false_claim";
    /// Sent a card that is not sound.
    UnsoundCard = 4_435, "unsound_card";
    /// Showed an inclusion of a batch that cannot be: too many entries, or messages of another size.
    FalseInclusion = 4_441, "false_inclusion";
    /// Proposed a number that is the last one, or not proven legitimate.
    IllegitimateK = 4_442, "illegitimate_k";
    /// Showed a delivery that does not verify.
    FalseDelivery = 4_443, "false_delivery";
    /// Showed a state that does not verify.
    FalseState = 4_444, "suspected_state";
    /// Showed an id that the certificate does not contain.
    FalseId = 4_445, "false_id";
    /// Showed an inclusion whose proof does not hold, or of another message. It proves nothing: what a correct broker said of
    /// an earlier message may come so late.
    StrangeInclusion = 4_446, "suspected_inclusion";
}

impl Fault {
    /// What a broker did wrong whose batch is refused; none where a correct one can be late or early.
    #[must_use]
    pub const fn of_refusal(why: Refusal) -> Option<Self> {
        match why {
            Refusal::Malformed => Some(Self::MalformedBatch),
            Refusal::Ids => Some(Self::BadIds),
            Refusal::Straggler => Some(Self::BadStraggler),
            Refusal::Root => Some(Self::BadRoot),
            Refusal::Aggregate => Some(Self::BadAggregate),
            Refusal::Card => Some(Self::BadCard),
            Refusal::Epoch => Some(Self::WrongEpoch),
            Refusal::Directory | Refusal::Expired | Refusal::TooFar | Refusal::Credit => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Fault;
    use std::collections::BTreeSet;

    #[test]
    fn every_fault_has_a_code_and_a_name_of_its_own() {
        let codes: BTreeSet<u16> = Fault::ALL.iter().map(|f| f.code()).collect();
        let names: BTreeSet<&str> = Fault::ALL.iter().map(|f| f.name()).collect();
        assert_eq!((codes.len(), names.len()), (Fault::ALL.len(), Fault::ALL.len()));
        assert!(codes.iter().all(|code| (4_400..4_500).contains(code)));
    }
}
