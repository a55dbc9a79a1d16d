//! What gateways, the command line and load generators ask of a cluster, whoever answers.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use synod_crypto::Hash;
use tokio::sync::oneshot;

/// How an operation is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Ordered like every write; linearizable.
    Ordered,
    /// Read by a quorum without ordering; ordered when the quorum does not agree. Linearizable.
    Quorum,
    /// Read from one member, unverified and labelled so.
    Local,
}

/// One operation in the application's own encoding.
#[derive(Clone, Debug)]
pub struct Operation {
    /// The encoded request.
    pub body: Bytes,
    /// How to carry it out.
    pub mode: Mode,
}

/// The name of a request, for asking later: `r1-<8 hex of cluster>-<session>-<sequence>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId {
    /// The cluster.
    pub cluster: Hash,
    /// The session.
    pub session: u64,
    /// The sequence number within it.
    pub sequence: u64,
}

impl RequestId {
    /// Reads the text of a request of this cluster.
    #[must_use]
    pub fn parse(text: &str, cluster: Hash) -> Option<Self> {
        let mut parts = text.strip_prefix("r1-")?.split('-');
        let (head, session, sequence) = (parts.next()?, parts.next()?, parts.next()?);
        let id = Self { cluster, session: session.parse().ok()?, sequence: sequence.parse().ok()? };
        // One name, one text: no signs, no leading zeros, no other cluster.
        (parts.next().is_none() && cluster.to_string().starts_with(head) && id.to_string() == text)
            .then_some(id)
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cluster = self.cluster.to_string();
        write!(f, "r1-{}-{}-{}", &cluster[..8], self.session, self.sequence)
    }
}

/// What became of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Executed exactly once; f + 1 members agree on the result.
    Accepted {
        /// The application's reply.
        value: Bytes,
        /// Position of the entry that executed it, or the position a read was answered at; 0 when unknown.
        position: u64,
    },
    /// It never takes effect; the SYN code says why, with milliseconds to wait where trying again can help.
    Rejected {
        /// For example 3002 (too large) or 3402 (busy).
        code: u16,
        /// When to try again; 0 when that cannot help.
        retry_ms: u32,
    },
    /// The deadline passed; it may still take effect. `None` when it was never given a name.
    Unknown(Option<RequestId>),
}

/// Operations of one connection, answered together and in order.
///
/// Calls that are in flight together are executed in any order, those of one lane too: who needs an order waits for
/// the answer. An operation whose outcome is unknown may take effect after later calls.
pub struct Call {
    /// The connection: calls with equal lanes go the same way.
    pub lane: u64,
    /// What to do. Those of [`Mode::Ordered`] are executed in this order; reads have no order among themselves.
    pub operations: Vec<Operation>,
    /// When to give up waiting; never zero.
    pub deadline: Duration,
    /// Gets one outcome per operation, in order. Dropped if the backend stops.
    pub reply: oneshot::Sender<Vec<Outcome>>,
}

/// A cluster as its users reach it.
pub trait Backend: Send + Sync + 'static {
    /// Takes a call; refuses it through its reply when too much is in flight.
    fn call(&self, call: Call);

    /// `verified` or `gateway`: whom a user of this backend believes.
    fn trust(&self) -> &'static str;

    /// One JSON object of `synod-status/1` as this backend sees the cluster.
    fn status(&self) -> serde_json::Value;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_one_text() {
        let cluster = Hash::of(b"a cluster");
        let id = RequestId { cluster, session: 17, sequence: 3 };
        let text = id.to_string();
        assert_eq!(RequestId::parse(&text, cluster), Some(id));
        assert_eq!(RequestId::parse(&text, Hash::of(b"another")), None);
        for wrong in [
            "r1",
            "r1-",
            "r1--17-3",
            &format!("{text}-1"),
            &text.replace("-17", "-017"),
            &text.replace("-17", "-+17"),
        ] {
            assert_eq!(RequestId::parse(wrong, cluster), None, "{wrong}");
        }
    }
}
