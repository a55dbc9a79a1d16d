//! One session with the store.

use crate::exit::bug;
use crate::serve::client;
use crate::session::{Session, no_context};
use std::sync::Arc;
use std::time::Duration;
use synod_config::{Genesis, Protocol, SynError, code};
use synod_host::{ClusterClient, Mode, Operation, Outcome};
use synod_kv::Reply;
use synod_kv::operation::write_fetch;
use synod_quorum::NodeId;

/// How long an operation may take, unless --timeout says otherwise.
const PATIENCE: Duration = Duration::from_secs(5);

/// A client that believes f + 1 members, and how it reads.
pub(super) struct Store {
    client: Arc<ClusterClient>,
    deadline: Duration,
    pub(super) reads: Mode,
}

/// Refuses what speaks of keys at a cluster that runs something else.
///
/// # Errors
/// SYN-3003 for such a cluster.
pub(crate) fn runs_keys(genesis: &Genesis, verb: &str) -> Result<(), SynError> {
    let stated = genesis.cluster();
    // What is no session of keys under another protocol is refused where the session is opened.
    let has_apps = matches!(stated.protocol, Protocol::Hotstuff | Protocol::Ubft);
    if !has_apps || stated.app == "kv" {
        return Ok(());
    }
    let runs = format!("the cluster {} runs {} over {}", stated.name, stated.app, stated.protocol.as_str());
    Err(SynError::of(code::UNSUPPORTED, &[("verb", verb)]).because(runs))
}

impl Store {
    /// Opens a session with the cluster of the context.
    ///
    /// # Errors
    /// SYN-1001 without a context; those of its genesis.
    pub(super) fn open(session: &Session, reads: Mode) -> Result<Self, SynError> {
        let genesis = crate::context::genesis(session)?.ok_or_else(no_context)?;
        runs_keys(&genesis, "kv")?;
        let client = client(&genesis, "verified", NodeId(0), 1)?;
        Ok(Self { client, deadline: session.timeout.unwrap_or(PATIENCE), reads })
    }

    /// Asks one thing.
    ///
    /// # Errors
    /// The code of a rejection; SYN-3501 if the outcome is unknown.
    pub(super) async fn ask(&self, operation: Operation) -> Result<Reply, SynError> {
        let outcome = self.client.ask(vec![operation], self.deadline).await.pop();
        match outcome.unwrap_or(Outcome::Unknown(None)) {
            Outcome::Accepted { value, .. } => {
                Reply::decode(&value).ok_or_else(|| bug("reply", &"it does not decode"))
            }
            Outcome::Rejected { code, .. } => Err(SynError::of(synod_config::Code::new(code), &[])),
            Outcome::Unknown(id) => {
                let id = id.map_or_else(|| "none".to_owned(), |id| id.to_string());
                Err(SynError::of(code::DEADLINE_PASSED, &[("id", &id)]))
            }
        }
    }

    /// A string and its version; version 0 of a key that is not there.
    ///
    /// # Errors
    /// Those of [`Self::ask`]; SYN-3004 if the key holds no string.
    pub(super) async fn fetch(&self, key: &[u8]) -> Result<(Reply, i64), SynError> {
        let mut question = Vec::new();
        write_fetch(key, &mut question);
        let operation = Operation { body: question.into(), mode: self.reads };
        match super::failed(self.ask(operation).await?)? {
            Reply::Array(parts) => match <[Reply; 2]>::try_from(parts) {
                Ok([value, Reply::Integer(version)]) => Ok((value, version)),
                _ => Err(bug("reply", &"it is no value with a version")),
            },
            _ => Err(bug("reply", &"it is no value with a version")),
        }
    }
}
