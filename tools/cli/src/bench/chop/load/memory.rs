//! What a server may need: the formula of the specification (8.1), for the configuration that is measured.

use super::plan::{App, LoadPlan, TOKENS};
use super::rig::{Rig, SERVERS};
use crate::bench::pages::Page;
use serde_json::{Map, Value, json};
use synod_chopchop::config::BODY_BYTES_MAX;
use synod_chopchop::store::{Quota, StoreParameters};
use synod_load::usage;

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

/// The resident memory of each server at its highest since its last start, beside the formula of the specification and what the
/// formulas of its own machines allow, the ordering layer among them.
pub(super) fn of_servers(rig: &Rig, plan: &LoadPlan) -> Value {
    let (most, pids, metrics) = (formula(plan), rig.cluster.pids(), rig.metrics());
    let mut servers = Vec::new();
    for at in 0..usize::from(SERVERS) {
        let pid = pids.iter().find(|(server, _)| *server == at).map(|(_, pid)| *pid);
        let rss = pid.and_then(usage).map(|used| used.rss_peak_bytes);
        let page = metrics.get(at).and_then(|metrics| Page::fetch(metrics.as_ref()?));
        servers.push(row(rig.cluster.name(at), rss, (most, page.as_ref())));
    }
    let within = servers.iter().all(|row| row["in_formula"] == true);
    json!({ "formula_bytes": most, "in_formula": within, "servers": servers })
}

fn row(name: &str, rss: Option<u64>, (most, page): (u64, Option<&Page>)) -> Value {
    let pools = |name| {
        let told = page.map(|page| page.by(name, "pool")).unwrap_or_default();
        told.into_iter().map(|(pool, bytes)| (pool, json!(bytes.round()))).collect::<Map<_, _>>()
    };
    json!({
        "server": name, "rss_peak_bytes": rss, "in_formula": rss.map(|rss| rss <= most),
        "machines_hold": pools("synod_memory_bytes"), "machines_allow": pools("synod_memory_bound_bytes"),
    })
}

#[cfg(test)]
mod tests {
    use super::{formula, row};
    use crate::bench::chop::load::plan::tests::plan;
    use crate::bench::chop::load::{App, LoadPlan};
    use crate::bench::pages::Page;
    use serde_json::Value;
    use std::time::Instant;

    #[test]
    fn a_million_clients_cost_what_the_specification_says() {
        let of = |clients, app| formula(&LoadPlan { clients, app, ..plan() });
        let more = of(1_000_000, App::Payments) - of(0, App::Payments);
        assert_eq!(more, 1_000_000 * (168 + 16 + 8));
        assert!(of(0, App::Pixels) < 1 << 30, "quota, bodies at work, sums of cohorts, results");
    }

    #[test]
    fn a_server_is_in_the_formula_only_if_its_memory_is_known_and_not_above_it() {
        let text = "synod_memory_bytes{pool=\"store\"} 10\nsynod_memory_bound_bytes{pool=\"store\"} 90\n";
        let page = Page::parse(text, Instant::now());
        let at = |rss| row("n0", rss, (100, Some(&page)))["in_formula"].clone();
        assert_eq!([at(Some(100)), at(Some(101)), at(None)], [true.into(), false.into(), Value::Null]);
        assert_eq!(row("n0", None, (100, Some(&page)))["machines_allow"]["store"], 90.0);
    }
}
