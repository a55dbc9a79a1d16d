//! The header of every result: what must be equal before two results may be compared.

use super::{Pace, Plan};
use crate::score::stamp;
use serde_json::{Map, Value, json};

/// The header of a run of `plan`.
pub(crate) fn header(plan: &Plan) -> Value {
    let mut header = common();
    for (key, value) in [
        ("transport", json!("tls")),
        ("access", json!(plan.access())),
        ("auth", json!(plan.auth())),
        ("durability", json!(plan.durability())),
        ("loop", json!(if plan.pace == Pace::Closed { "closed" } else { "open" })),
        ("processes", json!(plan.processes())),
    ] {
        header.insert(key.to_owned(), value);
    }
    Value::Object(header)
}

/// What every header says: build, machine, day.
pub(crate) fn common() -> Map<String, Value> {
    let fields = [
        ("commit", json!(env!("SYNOD_BUILD_COMMIT"))),
        ("machine", json!(stamp::processor())),
        ("cores", json!(std::thread::available_parallelism().map_or(0, std::num::NonZero::get))),
        ("kernel", json!(kernel())),
        ("rustc", json!(env!("SYNOD_BUILD_RUSTC"))),
        ("build", json!(if cfg!(target_feature = "avx2") { "native" } else { "portable" })),
        ("profile", json!(if cfg!(debug_assertions) { "dev" } else { "release" })),
        ("huge_pages", json!(crate::huge::Pages::own().word())),
        ("date", json!(date())),
    ];
    fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn kernel() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease")
        .map_or_else(|_| "unknown".to_owned(), |t| t.trim().to_owned())
}

/// Today, as `YYYY-MM-DD` in UTC.
fn date() -> String {
    stamp::civil(stamp::now() / 86_400)
}
