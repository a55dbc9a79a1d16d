//! Rules applied: numbered lines of the paper's algorithms, and written rules.

use synod_machine::{Rule as ErasedRule, names};

names! {
    /// A line of Algorithms 1 to 5, or a rule of the specification.
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
    /// A follower promises to certify a proposal with what it locks of it (4.18).
    Merged = "S4.18_promise";
    /// A later message waits for one of its place that is promised (4.18).
    MergedWait = "S4.18_wait";
    /// A broadcaster waits for a summary of its own messages (E23).
    Blocked = "E23_blocked";
    /// An operation of a register is complete at f_m + 1 memory nodes (section 6.1).
    RegisterQuorum = "S6.1_register_quorum";
    /// An epoch's registers are gone, which is not to be empty (E37).
    Retired = "E37_retired";
    /// Algorithm 2, lines 14 to 17: the leader proposes.
    A2Propose = "A2.17_propose";
    /// Algorithm 2, lines 18 to 20: a replica promises to certify a proposal.
    A2WillCertify = "A2.20_will_certify";
    /// Algorithm 2, line 22: a replica signs a proposal.
    A2Certify = "A2.22_certify";
    /// Algorithm 2, lines 25 to 27: all promised to certify it, so it is promised to commit to it.
    A2WillCommit = "A2.27_will_commit";
    /// Algorithm 2, lines 29 to 31: all promised to commit to it.
    A2DecideFast = "A2.31_decide_fast";
    /// Algorithm 2, lines 34 to 36: f + 1 signatures are shown.
    A2Commit = "A2.36_commit";
    /// Algorithm 2, lines 38 to 41: f + 1 streams show a certificate.
    A2DecideSlow = "A2.41_decide_slow";
    /// Algorithm 2, lines 46 and 47: the state behind a half window is signed.
    A2CertifyCheckpoint = "A2.47_certify_checkpoint";
    /// Algorithm 2, lines 49 to 58: a newer checkpoint is adopted.
    A2Adopt = "A2.52_adopt";
    /// Algorithm 2, line 61: the own stream shows it (E8).
    A2Checkpoint = "A2.61_checkpoint";
    /// Algorithm 3, line 1: the leader is given up.
    A3Suspect = "A3.01_suspect";
    /// Algorithm 3, lines 2 to 4: a view is to be left.
    A3Change = "A3.03_change";
    /// What was promised to be certified is, before the view is left (E12).
    A3Honour = "E12_honour";
    /// Algorithm 3, lines 5 and 6: the view is sealed.
    A3Seal = "A3.06_seal";
    /// Algorithm 3, lines 8 to 11: where a replica stood is signed.
    A3Left = "A3.11_left";
    /// Algorithm 3, lines 13 to 16: the leader shows where f + 1 stood.
    A3NewView = "A3.16_new_view";
    /// Algorithm 3, lines 21 to 23: who is behind follows the leader of a later view.
    A3Follow = "A3.23_follow";
    /// Algorithm 3, lines 25 and 26: what must be proposed is endorsed by its certificates (E30).
    A3Must = "A3.26_must";
    /// Algorithm 3, line 27: a slot that nobody is bound to, below one that somebody is, or below the end of the epoch.
    A3Fill = "A3.27_fill";
    /// Algorithm 4, lines 1 and 2: the state of a stream is signed.
    A4Share = "A4.02_share";
    /// Algorithm 4, lines 4 to 9: f + 1 shares are a summary.
    A4Summary = "A4.09_summary";
    /// Algorithm 4, line 11: messages are missing.
    A4Gap = "A4.11_gap";
    /// Algorithm 4, lines 12 to 16: a summary takes their place.
    A4Restore = "A4.14_restore";
    /// Algorithm 5: a message that may not be there ends its stream.
    A5Halt = "A5_halt";
    /// A slot is slow, so it is signed (4.10).
    Slow = "slow_slot";
    /// A peer finds a slot slow (4.10).
    Hint = "hint";
    /// Slots are signed at once (4.10).
    ToSlow = "mode_slow";
    /// Slots are promised first (4.10).
    ToFast = "mode_fast";
    /// f + 1 replicas are in later views (E25).
    Join = "E25_join";
    /// A replica that suspects alone is followed (E25).
    Courtesy = "E25_courtesy";
    /// A share that a view cannot be left without is asked for (E12).
    MissingShare = "E12_missing_share";
    /// A promise is honoured in a later view (E12).
    ServeShare = "E12_serve_share";
    /// Something is missed, and asked for (4.16).
    Fetch = "fetch";
    /// A follower says that it heard a request (5.4).
    Echo = "S5.4_echo";
    /// Not all heard a request: its client signs it (D2).
    NeedSigned = "D02_need_signed";
    /// Whatever waits is proposed together (4.8).
    Batch = "batch";
    /// A batch is vouched for (E29).
    Endorse = "E29_endorse";
    /// A slot is executed, in order.
    Execute = "A2.44_execute";
    /// A session is opened by what was ordered (4.8).
    Register = "register";
    /// Results differ from those that were certified (4.11).
    Diverged = "diverged";
    /// Batches below a checkpoint are fetched (4.12).
    Transfer = "A2.60_transfer";
    /// A snapshot is taken (4.12).
    Snapshot = "snapshot";
    /// f + 1 replicas signed a snapshot.
    Snapshotted = "snapshot_certified";
    /// A snapshot of peers takes the place of what is here.
    Install = "A2.60_install";
    /// The archive is full, and no snapshot is certified: nothing is executed until one is.
    Full = "archive_full";
    /// A replica that lives anew asks to be listed (E34).
    Rejoin = "E34_rejoin";
    /// A memory node came back empty, and replicas say so.
    Reborn = "E34_reborn";
    /// What ends an epoch is executed.
    Ending = "E34_ending";
    /// An epoch begins here.
    Enter = "E34_enter";
    /// A replica that came to the epoch is told what it may have missed.
    Greet = "E34_greet";
    /// A replica asks where others stand.
    Standing = "standing";
    /// A message of the own stream had no place.
    Unsaid = "unsaid";
    /// An entry is delivered, in order (3.2).
    Deliver = "ordering_deliver";
    /// f + 1 users have one state at a position (3.2).
    Rooted = "ordering_rooted";
    /// What is missing is gone: the user takes a certified state (3.2).
    Jump = "ordering_jump";
}

impl From<Rule> for ErasedRule {
    fn from(rule: Rule) -> Self {
        Self { protocol: "ubft", name: rule.name() }
    }
}
