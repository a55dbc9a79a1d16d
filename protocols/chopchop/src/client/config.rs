//! What a client is told.

use synod_machine::Span;
use synod_quorum::NodeId;

use crate::config::{Class, Cluster, Invalid};

/// Most brokers a client knows.
pub const BROKERS_MAX: usize = 16;

/// What a client may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Silence after which the next broker is asked (T_submit), doubled after each round over all.
    pub submit: Span,
    /// Longest such silence.
    pub submit_max: Span,
    /// Silence after which a message is sent again, doubled each time.
    pub retransmit: Span,
    /// Payloads that wait behind the one in flight.
    pub queue_max: u32,
    /// Whether payloads that wait are packed together; variable classes only.
    pub burst: bool,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            submit: Span::secs(4),
            submit_max: Span::secs(60),
            retransmit: Span::millis(250),
            queue_max: 1_024,
            burst: false,
        }
    }
}

/// Validated configuration of one client.
#[derive(Clone, Debug)]
pub struct Config {
    pub(super) cluster: Cluster,
    pub(super) class: Class,
    pub(super) brokers: Vec<NodeId>,
    pub(super) id: Option<u32>,
    pub(super) parameters: Parameters,
}

impl Config {
    /// A client of `cluster` that speaks with `brokers`, in this order. `id` is its place in the directory of the genesis;
    /// without one, and without one in its journal, it signs up first.
    ///
    /// # Errors
    /// [`Invalid`] states the rule that is broken.
    pub fn new(
        cluster: Cluster,
        class: Class,
        brokers: Vec<NodeId>,
        id: Option<u32>,
        parameters: Parameters,
    ) -> Result<Self, Invalid> {
        let mut names = brokers.clone();
        names.sort_unstable();
        names.dedup();
        let rules = [
            ((1..=BROKERS_MAX).contains(&brokers.len()), "a client knows 1 to 16 brokers"),
            (names.len() == brokers.len(), "brokers are distinct"),
            (class != Class::Fixed(0) && class != Class::Variable(0), "messages have at least a byte"),
            ((1..=65_536).contains(&parameters.queue_max), "queue_max is 1 to 65536"),
            (parameters.submit >= Span::millis(50), "T_submit is at least 50 ms"),
            (parameters.submit <= parameters.submit_max, "T_submit is at most its cap"),
            (parameters.retransmit >= Span::millis(1), "retransmission waits at least 1 ms"),
            (
                !parameters.burst || matches!(class, Class::Variable(_)),
                "payloads are packed in variable classes alone",
            ),
        ];
        match rules.into_iter().find(|(holds, _)| !holds) {
            Some((_, rule)) => Err(Invalid(rule)),
            None => Ok(Self { cluster, class, brokers, id, parameters }),
        }
    }

    /// Bytes of the longest payload.
    pub(super) fn payload_max(&self) -> u64 {
        match self.class {
            Class::Fixed(size) | Class::Variable(size) => u64::from(size),
        }
    }
}
