//! After a run: was every acknowledged write executed exactly once, and do all members hold the same state?
//!
//! The store numbers every change from one counter, which is part of the state. A marker is written before and after
//! the load; between the two versions of it lie exactly as many changes as writes were executed.

use bytes::Bytes;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use synod_config::{Genesis, SynError, code};
use synod_crypto::{Hash, Hasher};
use synod_host::{Backend, ClientSetup, ClusterClient, Mode, Operation, Outcome};
use synod_kv::operation::{Range, write_command, write_fetch, write_range};
use synod_kv::{Reply, Verb};
use synod_load::{INDEX_BYTES, Tally};
use synod_quorum::NodeId;

const MARKER: &[u8] = b"synod:audit";
const DEADLINE: Duration = Duration::from_secs(20);
/// Keys asked for at a time.
const PAGE: u32 = 500;
/// Pause between two looks at members that are not equal yet.
const PAUSE: Duration = Duration::from_millis(100);

/// What the audit found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Audit {
    /// Acknowledged writes that the state does not show.
    pub(crate) lost: u64,
    /// Executions beyond those acknowledged or unknown.
    pub(crate) duplicated: u64,
    /// Reads that gave a value never written to their key; none where nothing was read.
    pub(crate) wrong_reads: Option<u64>,
    /// Whether all members that answered hold the same keys and values.
    pub(crate) state_hash_equal: bool,
    /// Members compared.
    pub(crate) members: usize,
    /// Keys compared at each.
    pub(crate) keys: u64,
}

impl Audit {
    /// Whether nothing is wrong.
    pub(crate) fn ok(&self) -> bool {
        self.lost == 0 && self.duplicated == 0 && self.wrong_reads.unwrap_or(0) == 0 && self.state_hash_equal
    }

    /// Nothing, if nothing is wrong.
    ///
    /// # Errors
    /// SYN-6009 with what is wrong.
    pub(crate) fn passed(self) -> Result<(), SynError> {
        if self.ok() {
            return Ok(());
        }
        let Self { lost, duplicated, wrong_reads, state_hash_equal, members, .. } = self;
        let values = [("lost", &*lost.to_string()), ("duplicated", &*duplicated.to_string())];
        let wrong_reads = wrong_reads.map(|wrong| format!("{wrong} reads gave what was never written; "));
        let wrong_reads = wrong_reads.unwrap_or_default();
        let found = format!("{wrong_reads}equal states at {members} members: {state_hash_equal}");
        Err(SynError::of(code::AUDIT_FAILED, &values).because(found))
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "lost": self.lost, "duplicated": self.duplicated, "wrong_reads": self.wrong_reads,
            "state_hash_equal": self.state_hash_equal,
            "members": self.members, "keys": self.keys, "ok": self.ok(),
        })
    }

    /// Compares the number of changes with what clients were told.
    pub(crate) fn count(changes: u64, told: Tally) -> (u64, u64) {
        let least = told.accepted;
        let most = told.accepted + told.unknown;
        (least.saturating_sub(changes), changes.saturating_sub(most))
    }
}

fn command(verb: &str, arguments: &[&[u8]]) -> Bytes {
    let mut body = Vec::new();
    let verb = Verb::find(verb.as_bytes()).expect("the store has the verbs of its audit");
    write_command(verb, arguments.iter().copied(), &mut body);
    body.into()
}

async fn value(client: &ClusterClient, body: Bytes, mode: Mode) -> Option<Reply> {
    match client.ask(vec![Operation { body, mode }], DEADLINE).await.pop()? {
        Outcome::Accepted { value, .. } => Reply::decode(&value),
        Outcome::Rejected { .. } | Outcome::Unknown(_) => None,
    }
}

/// Writes the marker and gives its version: the number of changes so far.
pub(crate) async fn mark(client: &ClusterClient) -> Option<u64> {
    value(client, command("SET", &[MARKER, b"here"]), Mode::Ordered).await?;
    let mut question = Vec::new();
    write_fetch(MARKER, &mut question);
    match value(client, question.into(), Mode::Quorum).await? {
        Reply::Array(parts) => match parts.as_slice() {
            [_, Reply::Integer(version)] => u64::try_from(*version).ok(),
            _ => None,
        },
        _ => None,
    }
}

/// Passes on everything one member holds, in the order of keys; how many keys, or `None` if it does not answer.
async fn visit(
    genesis: &Genesis,
    (member, address): (NodeId, String),
    see: &mut dyn FnMut(&[&[u8]], Reply),
) -> Result<Option<u64>, SynError> {
    let setup = crate::serve::client_setup(genesis, "gateway", member, 1);
    let client = ClusterClient::connect(&ClientSetup {
        addresses: vec![(member, address)],
        believe: Some(member),
        ..setup
    })?;
    assert_eq!(client.trust(), "gateway", "an audit of one member believes that member");
    let (mut after, mut keys) = (Vec::new(), 0_u64);
    loop {
        let mut question = Vec::new();
        write_range(&Range { prefix: b"", after: &after, limit: PAGE }, &mut question);
        let Some(Reply::Array(page)) = value(&client, question.into(), Mode::Local).await else {
            return Ok(None);
        };
        let names: Vec<&[u8]> =
            page.iter().filter_map(|k| if let Reply::Bulk(k) = k { Some(&k[..]) } else { None }).collect();
        let Some(last) = names.last() else { return Ok(Some(keys)) };
        after = last.to_vec();
        keys += names.len() as u64;
        let Some(values) = value(&client, command("MGET", &names), Mode::Local).await else {
            return Ok(None);
        };
        see(&names, values);
    }
}

/// The digest of everything one member holds, and the number of keys; `None` if it does not answer.
async fn state(genesis: &Genesis, member: NodeId, address: String) -> Result<Option<(Hash, u64)>, SynError> {
    let mut digest = Hasher::new("synod audit");
    let mut see = |names: &[&[u8]], values: Reply| {
        for name in names {
            digest.add(name);
        }
        let mut encoded = Vec::new();
        values.write(&mut encoded);
        digest.add(&encoded);
    };
    let keys = visit(genesis, (member, address), &mut see).await?;
    Ok(keys.map(|keys| (digest.finish(), keys)))
}

/// Every key one member holds, with the start of its value that names a write; `None` if it does not answer.
///
/// # Errors
/// What prevents a session.
pub(crate) async fn contents(
    genesis: &Genesis,
    member: NodeId,
    address: String,
) -> Result<Option<Vec<(Bytes, Bytes)>>, SynError> {
    let mut held = Vec::new();
    let mut see = |names: &[&[u8]], values: Reply| {
        let Reply::Array(values) = values else { return };
        for (name, value) in names.iter().zip(values) {
            if let Reply::Bulk(value) = value {
                let start = value.get(..INDEX_BYTES).unwrap_or(&value);
                held.push((Bytes::copy_from_slice(name), Bytes::copy_from_slice(start)));
            }
        }
    };
    let told = visit(genesis, (member, address), &mut see).await?;
    Ok(told.map(|_| held))
}

/// The states of these members once all are equal, or as they are when patience ends. Some member holds all that
/// was acknowledged, so equal states hold it too; a member that is behind gets time to catch up, whichever it is.
pub(crate) async fn settled(
    genesis: &Genesis,
    members: &[(NodeId, String)],
    patience: Duration,
) -> Result<Vec<(Hash, u64)>, SynError> {
    let until = Instant::now() + patience;
    loop {
        let mut states = Vec::new();
        for (member, address) in members {
            states.extend(state(genesis, *member, address.clone()).await?);
        }
        if are_settled(&states, members.len()) || Instant::now() > until {
            return Ok(states);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Whether all members told their state and all states are equal.
pub(crate) fn are_settled(states: &[(Hash, u64)], members: usize) -> bool {
    states.len() == members && states.windows(2).all(|pair| pair[0] == pair[1])
}

#[cfg(test)]
mod tests {
    use super::{Audit, Tally, are_settled};
    use synod_crypto::Hash;

    #[test]
    fn one_member_that_is_behind_or_silent_unsettles_all() {
        let state = |text: &[u8]| (Hash::of(text), 3);
        assert!(are_settled(&[state(b"a"), state(b"a")], 2));
        for states in [vec![state(b"a"), state(b"b")], vec![state(b"b"), state(b"a")], vec![state(b"a")]] {
            assert!(!are_settled(&states, 2));
        }
    }

    #[test]
    fn any_difference_fails_with_exit_8() {
        let right = Audit { state_hash_equal: true, members: 4, ..Audit::default() };
        assert!(right.clone().passed().is_ok());
        for wrong in [
            Audit { lost: 1, ..right.clone() },
            Audit { duplicated: 1, ..right.clone() },
            Audit { wrong_reads: Some(1), ..right.clone() },
            Audit { state_hash_equal: false, ..right },
        ] {
            assert!(!wrong.ok());
            let error = wrong.passed().expect_err("something is wrong");
            assert_eq!(error.exit_code().number(), 8);
        }
    }

    #[test]
    fn where_nothing_was_read_no_count_of_wrong_reads_is_told() {
        let audit = Audit { state_hash_equal: true, ..Audit::default() };
        assert!(audit.ok() && audit.to_json()["wrong_reads"].is_null(), "{audit:?}");
        assert_eq!(Audit { wrong_reads: Some(0), ..audit }.to_json()["wrong_reads"], 0);
    }

    #[test]
    fn lost_and_duplicated_writes_are_counted_around_the_unknown_ones() {
        let told = Tally { accepted: 100, rejected: 7, unknown: 5, busy: 0 };
        assert_eq!(Audit::count(100, told), (0, 0));
        assert_eq!(Audit::count(105, told), (0, 0));
        assert_eq!(Audit::count(99, told), (1, 0));
        assert_eq!(Audit::count(106, told), (0, 1));
    }
}
