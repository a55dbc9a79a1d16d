//! Questions to one server alone, to look at what it holds.

use crate::context::client_addresses;
use crate::exit::bug;
use std::time::Duration;
use synod_config::{Genesis, SynError, code};
use synod_host::{ClientSetup, ClusterClient, Mode, Operation, Outcome};
use synod_quorum::NodeId;
use synod_service::{BatchQuestion, BatchStanding};
use synod_wire::{Blob, Bytes, Limits, Wire as _};

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(20);

/// A session that believes one server.
pub(super) struct Server {
    client: ClusterClient,
    /// Which one it is.
    pub(super) id: u32,
}

impl Server {
    /// Calls a server, in the background.
    ///
    /// # Errors
    /// The code of the thread or description that was refused.
    pub(super) fn call(genesis: &Genesis, id: u32) -> Result<Self, SynError> {
        let client = ClusterClient::connect(&ClientSetup {
            genesis: genesis.clone(),
            addresses: client_addresses(genesis),
            send_all: false,
            trust: "verified",
            nearest: NodeId(id),
            sessions: 1,
            believe: Some(NodeId(id)),
        })?;
        Ok(Self { client, id })
    }

    async fn ask(&self, questions: Vec<BatchQuestion>) -> Result<Vec<Bytes>, SynError> {
        let body = |question: BatchQuestion| Operation { body: question.encode(), mode: Mode::Local };
        let outcomes = self.client.ask(questions.into_iter().map(body).collect(), ANSWER).await;
        let address = format!("server {}", self.id);
        let answer = |outcome| match outcome {
            Outcome::Accepted { value, .. } => Ok(value),
            _ => Err(SynError::of(code::NO_ANSWER, &[("address", &address), ("stage", "audit")])),
        };
        outcomes.into_iter().map(answer).collect()
    }

    /// Where its application stands.
    ///
    /// # Errors
    /// SYN-2003 without an answer in time.
    pub(super) async fn standing(&self) -> Result<BatchStanding, SynError> {
        let answer = self.ask(vec![BatchQuestion::Standing]).await?.pop().unwrap_or_default();
        BatchStanding::decode(answer, &Limits::default()).map_err(|error| bug("standing", &error))
    }

    /// The balances of these accounts.
    ///
    /// # Errors
    /// SYN-2003 without an answer in time; an account that is none.
    pub(super) async fn balances(&self, ids: &[u32]) -> Result<Vec<u64>, SynError> {
        let question = |id: &u32| {
            let question = Blob::try_from(Bytes::copy_from_slice(&id.to_le_bytes()));
            let question = question.unwrap_or_else(|_| unreachable!("four bytes are a question"));
            BatchQuestion::Ask { since: 0, question }
        };
        let answers = self.ask(ids.iter().map(question).collect()).await?;
        let balance = |(id, answer): (&u32, Bytes)| {
            let balance = answer.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
            balance.ok_or_else(|| bug("audit", &format!("client {id} has no account")))
        };
        ids.iter().zip(answers).map(balance).collect()
    }
}
