//! A scenario and its incidents, as plain values.

use std::collections::BTreeMap;

use synod_machine::Span;

use super::Family;
use crate::network::{Latency, Mode};
use crate::toy::Crypto;

/// One fault of a run. What `nodes` and `amount` mean depends on the family; see [`Family`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    /// Its name in the run; its draws depend on it, so it stays when other incidents go.
    pub id: u32,
    /// What goes wrong.
    pub family: Family,
    /// When it begins, in virtual time.
    pub at: Span,
    /// How long it lasts.
    pub lasts: Span,
    /// Whom it hits; empty means everybody where that makes sense.
    pub nodes: Vec<u32>,
    /// How much.
    pub amount: i64,
}

/// A run, but for the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// The system, as `--system` names it.
    pub system: String,
    /// The seed of every draw of the run.
    pub seed: u64,
    /// Number of members.
    pub nodes: u32,
    /// Number of guests.
    pub guests: u32,
    /// Number of requests of the workload.
    pub requests: u32,
    /// Which signatures.
    pub crypto: Crypto,
    /// How nodes are linked.
    pub mode: Mode,
    /// Distances.
    pub latency: Latency,
    /// Mean jitter per frame.
    pub jitter: Span,
    /// The end of the safety phase at the latest.
    pub horizon: Span,
    /// Further numbers, whose names the system knows.
    pub options: BTreeMap<String, i64>,
    /// The only frames that are heard, by their names in a trace; all are when `None`. What is left of a run that was made
    /// small.
    pub heard: Option<Vec<u32>>,
    /// What goes wrong, in order of time.
    pub incidents: Vec<Incident>,
}

impl Scenario {
    /// A run of `system` in which nothing goes wrong: four members, one data centre, ten virtual seconds.
    #[must_use]
    pub fn quiet(system: &str, seed: u64) -> Self {
        Self {
            system: system.to_owned(),
            seed,
            nodes: 4,
            guests: 1,
            requests: 100,
            crypto: Crypto::Toy,
            mode: Mode::Connection,
            latency: Latency::Lan,
            jitter: Span::micros(20),
            horizon: Span::secs(10),
            options: BTreeMap::new(),
            heard: None,
            incidents: Vec::new(),
        }
    }

    /// The options of the world that runs it; the rest of a world comes from the system.
    #[must_use]
    pub fn world_options(&self, token: &str) -> crate::Options {
        crate::Options {
            seed: self.seed,
            token: token.to_owned(),
            crypto: self.crypto,
            latency: self.latency,
            jitter: self.jitter,
            heard: self.heard.clone(),
            ..crate::Options::default()
        }
    }
}
