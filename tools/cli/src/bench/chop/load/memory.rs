//! What a server may need: the formula of the specification (8.1), for the configuration that is measured.

use super::plan::{App, LoadPlan, TOKENS};
use synod_chopchop::config::BODY_BYTES_MAX;
use synod_chopchop::store::{Quota, StoreParameters};

/// Heights until a batch expires.
const HORIZON: u64 = 65_536;
/// Items whose certificates are kept, and their bytes.
const ITEMS: u64 = 4_096;
const ITEM_BYTES: u64 = 178 + 2_048;
/// Results of operations that are kept.
const RESULTS: u64 = 128 << 20;

/// Bytes of store, server and application together; the ordering layer and the runtime come on top.
pub(super) fn formula(plan: &LoadPlan) -> u64 {
    let (clients, body) = (u64::from(plan.clients), u64::from(BODY_BYTES_MAX));
    let parameters = StoreParameters::default();
    let store =
        Quota::GENESIS.bytes + 4 * body + u64::from(parameters.jobs_max) * body + parameters.cohort_bytes;
    // The table is there twice while a checkpoint is written.
    let server = clients * (96 + 32 + 24 + 2 * 16) + 48 * HORIZON + ITEMS * ITEM_BYTES;
    let application = match plan.app {
        App::Payments => 8 * clients,
        App::Auction => 16 * clients + 24 * u64::from(TOKENS),
        App::Pixels => 16 << 20,
    };
    store + server + application + RESULTS
}

#[cfg(test)]
mod tests {
    use super::formula;
    use crate::bench::chop::load::plan::tests::plan;
    use crate::bench::chop::load::{App, LoadPlan};

    #[test]
    fn a_million_clients_cost_what_the_specification_says() {
        let of = |clients, app| formula(&LoadPlan { clients, app, ..plan() });
        let more = of(1_000_000, App::Payments) - of(0, App::Payments);
        assert_eq!(more, 1_000_000 * (168 + 16 + 8));
        assert!(of(0, App::Pixels) < 1 << 30, "quota, bodies at work, sums of cohorts, results");
    }
}
