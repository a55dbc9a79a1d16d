//! What the trace sees: rules applied, with their algorithm lines, and notes for operators.

use synod_crypto::Hash;
use synod_machine::{Note as ErasedNote, Rule as ErasedRule, names};

use crate::block::Header;

names! {
    /// A numbered rule of the specification, with the line of the paper's algorithm it stands for.
    Rule:
    /// R1, Alg. 2 lines 7-9: the leader proposes.
    Propose = "R1_propose";
    /// R2, Alg. 1 line 21: a proposal is taken in.
    TakeProposal = "R2_take_proposal";
    /// R3, Alg. 1 lines 24-26: vote.
    Vote = "R3_vote";
    /// R3: the same vote again.
    VoteAgain = "R3_vote_again";
    /// R4, Alg. 2 lines 3-6: the high QC rises.
    RaiseHighQc = "R4_raise_high_qc";
    /// R4, Alg. 1 lines 12-13: the lock rises.
    RaiseLock = "R4_raise_lock";
    /// R4, Alg. 2 lines 30-32: a QC ends the view.
    AdvanceByQc = "R4_advance_by_qc";
    /// R4: a QC for a block that is not here.
    QcForUnknown = "R4_qc_for_unknown";
    /// R5: order vote.
    Order = "R5_order";
    /// R5: commit by order votes.
    CommitByOrders = "R5_commit_by_orders";
    /// R6, Alg. 1 lines 35-37: votes become a QC.
    FormQc = "R6_form_qc";
    /// R7, Alg. 1 lines 14-16: commit by the pack's chain rule.
    CommitByChain = "R7_commit_by_chain";
    /// R7, Alg. 1 lines 17-20: ancestors first.
    Deliver = "R7_deliver";
    /// R8: an empty block.
    ProposeEmpty = "R8_propose_empty";
    /// R9: a complaint is answered with a certificate.
    AnswerWithCertificate = "R9_answer_with_certificate";
    /// R9: a complaint is answered with a commit proof.
    AnswerWithProof = "R9_answer_with_proof";
    /// BR1: the leader proposes on the highest of a quorum of new-views.
    BasicPropose = "BR1_propose";
    /// BR3: pre-commit vote.
    BasicPrecommit = "BR3_vote_precommit";
    /// BR4: lock and commit vote.
    BasicCommit = "BR4_vote_commit";
    /// BR5: decide.
    BasicDecide = "BR5_decide";
    /// M1: the view timer is armed.
    ArmTimer = "M1_arm_timer";
    /// M2, Alg. 2 lines 19-21: the timer ran out.
    Complain = "M2_complain";
    /// M2: a complaint again, with the best certificates.
    ComplainAgain = "M2_complain_again";
    /// M2: pending items to all.
    ForwardToAll = "M2_forward_to_all";
    /// M3: join a weak quorum.
    Join = "M3_join";
    /// M4, Alg. 2 lines 22-29: complaints become a TC.
    FormTc = "M4_form_tc";
    /// M5, Alg. 2 lines 30-32: a TC ends the term.
    AdvanceByTc = "M5_advance_by_tc";
    /// M6, Alg. 2 line 14: new-view to the leader.
    NewView = "M6_new_view";
    /// M7: the timeout grows.
    TimeoutGrows = "M7_timeout_grows";
    /// 4.5: items go to the leader.
    Forward = "B_forward";
    /// 4.5, Alg. 3: an item of an uncommitted ancestor is not eligible.
    Filter = "B_filter";
    /// 4.5: marks fall with an orphaned block.
    MarksFall = "B_marks_fall";
    /// 4.11: a range of committed blocks is taken over.
    SyncRange = "S_range";
    /// 4.11: a block or body is pulled.
    Pull = "S_pull";
    /// 4.12: a state is attested.
    Attest = "C_attest";
    /// 4.12: an attestation that is not certified yet, or that another lacks, is said again.
    AttestAgain = "C_attest_again";
    /// 4.12: a checkpoint is stable.
    Stable = "C_stable";
    /// 4.12: the state must be fetched.
    Jump = "C_jump";
    /// 3.5: the replica listens only.
    Listen = "J_listen";
    /// 3.5: the replica acts again.
    Rejoin = "J_rejoin";
    /// 4.10: a barrier returns.
    Barrier = "X_barrier";
    /// 3.4: a proof is given.
    Prove = "X_prove";
    /// 3.4: an empty item moves the chain for a proof.
    ProveByEmptyItem = "X_prove_by_empty_item";
}

names! {
    /// Something operators see.
    NoteName:
    /// A view was entered: view, reason (0 start, 1 QC, 2 TC), leader.
    View = "view_entered";
    /// A block came, or was proposed here: height, view, items.
    Taken = "block_taken";
    /// The first certificate of a block came: height, view.
    Certified = "block_certified";
    /// A block was committed: height, view, items.
    Commit = "committed";
    /// A block was given to the user: height, last position, bytes of its body.
    Delivered = "block_delivered";
    /// Delivery starts, or starts again behind a state: committed height, delivered height, delivered position.
    Resumed = "delivery_resumed";
    /// A term was given up: last view, high QC view.
    GaveUp = "term_given_up";
    /// Two committed blocks conflict: height; SYN-6007. The replica stops.
    Conflict = "conflicting_commit";
    /// A quorum has another root than this node: position; SYN-6006. The replica stops.
    Divergence = "state_divergence";
    /// A peer holds a newer statement of this node than its log: which peer; SYN-5005. The replica stops.
    RolledBack = "rolled_back";
    /// The replica listens only, for it has no memory of its promises.
    Listening = "listening";
    /// The replica acts again: view of the proof, new complained view.
    Rejoined = "rejoined";
    /// A body is missing: height.
    BodyMissing = "body_missing";
    /// A checkpoint is stable: position.
    Stable = "checkpoint_stable";
    /// The state must be fetched: position.
    Jump = "behind_retention";
    /// The view timeout: milliseconds, terms given up since the last commit.
    Timeout = "view_timeout";
}

impl From<Rule> for ErasedRule {
    fn from(rule: Rule) -> Self {
        Self { protocol: "hotstuff", name: rule.name() }
    }
}

/// A note with its numbers.
#[derive(Clone, Copy, Debug)]
pub struct Note {
    /// What happened.
    pub name: NoteName,
    /// Numbers whose meaning the name fixes.
    pub values: [u64; 3],
    /// The block it is about, or zero.
    pub digest: Hash,
}

impl Note {
    /// A block is in the tree.
    pub(crate) fn taken(header: &Header, digest: Hash) -> Self {
        let values = [header.height, header.view.0, u64::from(header.count)];
        Self { name: NoteName::Taken, values, digest }
    }
}

impl From<Note> for ErasedNote {
    fn from(note: Note) -> Self {
        let [a, b, c] = note.values;
        Self { name: note.name.name(), values: [a, b, c, 0], digest: note.digest }
    }
}
