//! Ranges 50 (storage), 60 (verification), 70 (simulator, lab) and 90 (bugs).

super::rows! { STATE;
    5001 JOURNAL_CORRUPT "journal_corrupt" (Damaged, None, Permanent)
        "the journal is damaged in {segment} at offset {offset}"
        ["the disk returned other bytes than were written", "a segment was removed or edited"]
        "check the disk, then `synod node recover`; the node listens until its peers readmit it";
    5002 SNAPSHOT_DIGEST "snapshot_digest" (Damaged, None, Permanent)
        "the snapshot at {position} does not have its certified digest"
        ["the file is damaged", "it belongs to another position"]
        "remove the snapshot; the node fetches it from its peers";
    5003 STATE_FILE "state_file" (Damaged, None, Permanent)
        "{file} cannot be used: {problem}"
        ["the state file is damaged or of another position than the journal"]
        "remove the file; state is rebuilt from the snapshot and the journal";
    5004 JOURNAL_WRITE_FAILED "journal_write_failed" (Damaged, None, Temporary)
        "writing the journal failed: {problem}; the node stops"
        ["the disk is full", "the disk or its controller fails"]
        "free space or replace the disk, then start the node again; nothing was promised that was not written";
    5005 ROLLED_BACK "rolled_back" (Damaged, None, Permanent)
        "{peer} holds a statement of this node that its own journal does not have"
        ["the data directory was restored from an older copy", "the disk lost synced writes"]
        "`synod node recover`; never start a node on restored data";
    5006 ARCHIVE_TRUNCATED "archive_truncated" (Damaged, None, Permanent)
        "{file} ends after {found} of {expected} bytes"
        ["the copy was interrupted"]
        "copy the archive again";
    5007 PAY_INDEX "pay_index" (Damaged, None, Permanent)
        "{file} cannot be used: {problem}"
        ["the index of payments was removed, damaged, or put back from an older copy", "it is of another node or cluster"]
        "put back the node's whole data directory as it was when the node stopped: without this file ids of payments are forgotten, and could be paid twice";
    5008 WALLET_LOG "wallet_log" (Damaged, None, Permanent)
        "the wallet's log {file} cannot be used: {problem}"
        ["it was removed or damaged", "taking the account over was interrupted"]
        "put the newest copy of the wallet's directory back; where there is none, `synod pay wallet recover WALLET --accept-lock-risk`";

    6001 REPLIES_DISAGREE "replies_disagree" (Unsafe, Some(500), Permanent)
        "no f+1 nodes gave the same reply to {id}"
        ["more than f nodes are faulty", "a node runs another release of the application"]
        "compare the state hashes in `synod status`; keep the evidence";
    6002 CERTIFICATE_INVALID "certificate_invalid" (Unsafe, Some(500), Permanent)
        "the certificate is invalid: {reason}"
        ["too few signers, a repeated or foreign signer, a wrong signature", "it is of another cluster or epoch"]
        "take the certificate from another node and verify it against the right genesis";
    6003 EPOCH_UNKNOWN "epoch_unknown" (Unsafe, Some(500), Permanent)
        "epoch {epoch} is not in the verified chain of epochs"
        ["the genesis or the epoch certificates are older than the proof"]
        "fetch the epoch certificates, then verify again";
    6004 CHAIN_HASH_MISMATCH "chain_hash_mismatch" (Unsafe, Some(500), Permanent)
        "the chain hash at {position} differs between {first} and {second}"
        ["one side lost or changed an entry"]
        "stop the link and compare both sides from the last equal position";
    6005 MONEY_NOT_CONSERVED "money_not_conserved" (Unsafe, Some(500), Permanent)
        "balances sum to {found}, expected {expected}"
        ["a bug, or state that was changed outside the ledger"]
        "stop payments and keep every data directory";
    6006 STATE_DIVERGENCE "state_divergence" (Unsafe, Some(500), Permanent)
        "state differs at height {height} between {nodes}"
        ["a node runs another release", "memory or disk of a node is faulty", "an application is not deterministic"]
        "stop the minority node, keep its data, reinstall it with `synod node recover`";
    6007 CONFLICTING_COMMITS "conflicting_commits" (Unsafe, Some(500), Permanent)
        "two blocks are committed at height {height}; evidence in {evidence}"
        ["more than f members are faulty", "the keys of members were stolen"]
        "stop the cluster and keep the evidence; the signers of both blocks are named in it";
    6008 BACKUP_UNPROVED "backup_unproved" (Unsafe, Some(500), Permanent)
        "the archive carries no valid checkpoint certificate: {reason}"
        ["it was altered, or made by another cluster"]
        "use an archive that `synod backup verify` accepts";
    6009 AUDIT_FAILED "audit_failed" (Unsafe, Some(500), Permanent)
        "the audit found {lost} lost and {duplicated} duplicated operations"
        ["a bug, or durability was switched off during a crash"]
        "keep the data directories and the operation log of the run";

    7001 PROPERTY_VIOLATED "property_violated" (Unsafe, None, Permanent)
        "property {property} was violated; replay with {token}"
        ["a bug in the protocol, its host or the property"]
        "`synod sim replay` with the token, then `shrink`";
    7002 EXPECTATION_FAILED "expectation_failed" (Unsafe, None, Permanent)
        "the expectation {check} failed: {problem}"
        ["the figure changed", "the machine was busy during the run"]
        "run it again on an idle machine; a lasting change needs an explanation";
    7003 BASELINE_MISSING "baseline_missing" (Failure, None, Permanent)
        "the baseline program {program} was not found"
        ["it is not installed, or --bin names another path"]
        "install it, or give its path with --bin";

    9001 BUG "bug" (Failure, Some(500), Permanent)
        "this is a bug; details are in {bundle}"
        ["the program reached a state it excludes"]
        "report it with the bundle";
}
