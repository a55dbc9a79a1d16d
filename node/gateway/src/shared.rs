//! What the listeners of one process share.

use std::sync::Arc;
use std::time::Duration;

use synod_config::Limits;
use synod_host::Backend;
use synod_host::pay::Teller;

use crate::{budget::Budget, stop::Stop, traffic::Traffic};

/// How long an operation may take when the client says nothing else.
pub const DEADLINE: Duration = Duration::from_secs(5);

/// The cluster, the budget, the counters and the signal to stop. Cheap to clone.
#[derive(Clone)]
pub struct Shared {
    /// Who answers.
    pub backend: Arc<dyn Backend>,
    /// Who answers for payments, inside a node of a payment system.
    pub teller: Option<Arc<Teller>>,
    /// Memory and connections.
    pub budget: Arc<Budget>,
    /// Counters.
    pub traffic: Arc<Traffic>,
    /// When to stop.
    pub stop: Stop,
}

impl Shared {
    /// A budget of `limits` and fresh counters.
    #[must_use]
    pub fn new(backend: Arc<dyn Backend>, limits: &Limits, stop: Stop) -> Self {
        let budget = Budget::new(limits.gateway_bytes, limits.clients_max);
        Self { backend, teller: None, budget, traffic: Arc::default(), stop }
    }

    /// The same, with somebody who answers for payments.
    #[must_use]
    pub fn with_teller(self, teller: Option<Arc<Teller>>) -> Self {
        Self { teller, ..self }
    }
}

/// The part of a deadline that the backend gets. The rest lets its answer, which names the request, arrive before
/// the gateway gives up by itself.
pub(crate) fn backend_deadline(deadline: Duration) -> Duration {
    (deadline - deadline / 16).max(Duration::from_millis(1))
}
