//! The header of every result: what must be equal before two results may be compared.

use super::{Pace, Plan};
use crate::score::stamp;
use serde_json::{Value, json};

/// The header of a run of `plan`.
pub(crate) fn header(plan: &Plan) -> Value {
    json!({
        "commit": env!("SYNOD_BUILD_COMMIT"),
        "machine": stamp::processor(),
        "cores": std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
        "kernel": kernel(),
        "rustc": env!("SYNOD_BUILD_RUSTC"),
        "build": if cfg!(target_feature = "avx2") { "native" } else { "portable" },
        "profile": if cfg!(debug_assertions) { "dev" } else { "release" },
        "transport": "tls",
        "access": plan.access(),
        "auth": plan.auth(),
        "durability": plan.durability(),
        "loop": if plan.pace == Pace::Closed { "closed" } else { "open" },
        "processes": plan.processes(),
        "date": date(),
    })
}

fn kernel() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease")
        .map_or_else(|_| "unknown".to_owned(), |t| t.trim().to_owned())
}

/// Today, as `YYYY-MM-DD` in UTC.
fn date() -> String {
    stamp::civil(stamp::now() / 86_400)
}
