//! What a peer can do wrong: one variant per rejection path, with the SYN code beside it.

synod_machine::faults! {
    /// Sent a consensus message without being a member.
    Stranger = 4_101, "stranger";
    /// Named an epoch that is neither its receiver's nor one it may name.
    WrongEpoch = 4_102, "wrong_epoch";
    /// Used a kind of vote or certificate that the pack does not have there.
    WrongKind = 4_103, "wrong_kind";
    /// Complained about a view that ends no term.
    NotTermEnd = 4_105, "complaint_inside_term";
    /// Signed two votes for one view and kind.
    EquivocatedVote = 4_106, "equivocated_vote";
    /// Signed two orders for one view.
    EquivocatedOrder = 4_107, "equivocated_order";
    /// Signed two headers for one view.
    EquivocatedProposal = 4_108, "equivocated_proposal";
    /// A vote's signature does not verify.
    ForgedVote = 4_109, "forged_vote";
    /// An order's signature does not verify.
    ForgedOrder = 4_110, "forged_order";
    /// A complaint's signature does not verify.
    ForgedComplaint = 4_111, "forged_complaint";
    /// A header's signature does not verify.
    ForgedProposal = 4_112, "forged_proposal";
    /// A checkpoint statement's signature does not verify.
    ForgedAttestation = 4_113, "forged_attestation";
    /// A QC does not verify.
    BadQc = 4_114, "bad_qc";
    /// A TC does not verify.
    BadTc = 4_115, "bad_tc";
    /// A commit proof does not verify.
    BadCommitProof = 4_116, "bad_commit_proof";
    /// A checkpoint certificate or its header does not verify.
    BadAnchor = 4_117, "bad_anchor";
    /// A certificate names another view than the block it certifies.
    WrongView = 4_118, "wrong_view";
    /// Claimed a certificate for the genesis that is not the constant one.
    FalseGenesis = 4_119, "false_genesis";
    /// Proposed without leading the view.
    NotLeader = 4_120, "not_leader";
    /// Proposed a block whose parent is not the one its justify certifies.
    NotExtending = 4_121, "not_extending";
    /// Proposed without the TC that the view needs.
    MissingTc = 4_122, "missing_tc";
    /// Proposed with a TC that the view does not need.
    SuperfluousTc = 4_123, "superfluous_tc";
    /// Proposed with another TC than of the view before.
    WrongTc = 4_124, "wrong_tc";
    /// Proposed a wrong height.
    WrongHeight = 4_125, "wrong_height";
    /// Proposed a wrong reputation list.
    WrongList = 4_126, "wrong_reputation_list";
    /// Proposed more bytes or items than a block may have.
    Oversized = 4_127, "oversized_block";
    /// Proposed a justify that does not lie below its view.
    JustifyAhead = 4_128, "justify_ahead";
    /// Sent a body that does not decode or breaks a rule of bodies.
    BadBody = 4_129, "bad_body";
    /// Sent a body whose length or count its header does not state.
    BodyMismatch = 4_130, "body_mismatch";
    /// Proposed an item of an uncommitted ancestor again.
    RepeatedItem = 4_131, "suspected_repeated_item";
    /// Answered a range with blocks that do not link, or do not end at their proof.
    BadRange = 4_132, "bad_range";
    /// Forwarded an item whose id is not the digest of its payload, or none of its own.
    BadForward = 4_134, "bad_forward";
    /// Attested two states for one position.
    EquivocatedAttestation = 4_135, "equivocated_attestation";
    /// Attested a position where no checkpoint is due.
    MisplacedAttestation = 4_136, "misplaced_attestation";
    /// A complaint whose certificate lies above the term it gives up.
    ComplaintAhead = 4_137, "complaint_ahead";
    /// Sent a proposal in another member's name.
    NotProposer = 4_138, "not_proposer";
    /// Showed a statement of the receiver that the receiver did not sign.
    ForgedEvidence = 4_139, "forged_evidence";
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
        assert!(codes.iter().all(|code| (4_100..4_200).contains(code)));
    }
}
