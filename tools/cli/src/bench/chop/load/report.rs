//! Figures of runs under a load broker, as JSON.

use super::audit::Audit;
use super::plan::LoadPlan;
use super::rig::Stretch;
use super::threads::Threads;
use super::wire::on_wire;
use crate::bench::chop::report::{each, float, rounded};
use crate::bench::header::common;
use crate::bench::pages::{Passed, Spread};
use crate::output::Report;
use serde_json::{Map, Value, json};
use std::time::Duration;
use synod_load::chop::broker::Books;

/// So many in this time.
pub(super) fn per_s(count: u64, wall: Duration) -> f64 {
    if wall.is_zero() { 0.0 } else { float(count) / wall.as_secs_f64() }
}

/// The stretch in the middle by messages per second, and the smallest and largest rate.
pub(super) fn middle(stretches: &[Stretch]) -> Option<(&Stretch, [f64; 2])> {
    let mut all: Vec<&Stretch> = stretches.iter().collect();
    all.sort_by(|a, b| a.per_s().total_cmp(&b.per_s()));
    let (least, most) = (all.first()?.per_s(), all.last()?.per_s());
    Some((all.get(all.len() / 2)?, [least, most]))
}

/// What every header of these parts says.
pub(super) fn header(plan: &LoadPlan, durability: &str) -> Value {
    let mut header = common();
    for (key, value) in [
        ("transport", "tls"),
        ("auth", "signed"),
        ("durability", durability),
        ("loop", if plan.rate.is_some() { "open" } else { "closed" }),
    ] {
        header.insert(key.to_owned(), json!(value));
    }
    header.insert("processes".to_owned(), json!(plan.servers() + plan.memory() + 1));
    Value::Object(header)
}

/// What every part says of its batches.
pub(super) fn of_batches(plan: &LoadPlan, part: &str, pool: usize) -> Map<String, Value> {
    let Value::Object(object) = json!({
        "part": part, "generated": "all messages and batches are generated; no client sent them",
        "n": plan.servers(), "f": 1, "share": format!("2/{}", plan.servers()), "ordering": plan.ordering.name(),
        "memory_nodes": plan.memory(), "app": plan.app.name(),
        "ids": plan.ids.to_string(), "clients": plan.clients, "id_space": plan.clients,
        "batch": plan.batch, "size": plan.size, "distilled": f64::from(plan.distilled) / 1_000.0,
        // Stores keep the sums of a broker's last eight sets of signers.
        "pool": pool, "sums_recur": (1..=8).contains(&pool), "window": plan.window, "checkpoint_every": super::rig::checkpoint_every(plan),
        "quota_work": super::rig::QUOTA_WORK,
    }) else {
        unreachable!("an object was written")
    };
    object
}

fn by_thread(threads: &Threads, count: u64) -> Value {
    threads.iter().map(|(role, used)| ((*role).to_owned(), each(*used, count))).collect::<Map<_, _>>().into()
}

/// Nanoseconds of CPU per message. A server's own are those of all divided by their number.
pub(super) fn cpu(stretch: &Stretch) -> Value {
    let messages = stretch.messages;
    json!({
        "all": each(stretch.cpu.servers + stretch.cpu.memory + stretch.cpu.load, messages),
        "server": each(stretch.cpu.servers, messages * stretch.servers),
        "memory_nodes": each(stretch.cpu.memory, messages),
        "load": each(stretch.cpu.load, messages),
        "of_a_server_by_thread": by_thread(&stretch.cpu.threads, messages * stretch.servers),
        "of_the_load_by_thread": by_thread(&stretch.cpu.load_threads, messages),
        "making_batches_wall": each(stretch.making, messages),
    })
}

/// Bytes of a broker's link to a server, per message, and what they are on a wire.
pub(super) fn bytes(stretch: &Stretch) -> [Value; 2] {
    let per = |bytes: u64| {
        let links = stretch.messages * stretch.servers;
        if links == 0 { Value::Null } else { rounded(float(bytes) / float(links)) }
    };
    [per(stretch.carried.sent), per(on_wire(stretch.carried.sent))]
}

/// By which way servers added keys up, as they tell; nothing where one of them does not.
pub(super) fn keysum_path(pages: &[Passed]) -> Value {
    let told = |page: &Passed| page.last("synod_server_keysum_path").map(|path| path > 0.5);
    match pages.iter().map(told).collect::<Option<Vec<bool>>>().as_deref() {
        None | Some([]) => Value::Null,
        Some(all) if all.iter().all(|in_vectors| *in_vectors) => json!("vectors"),
        Some(all) if !all.contains(&true) => json!("one by one"),
        Some(_) => json!("vectors at some servers, one by one at others"),
    }
}

/// Half and 99 % of a histogram of seconds over all servers, in microseconds; or why there is none.
pub(super) fn spread(stretch: &Stretch, name: &str) -> Result<Value, String> {
    let spread = Spread::over(&stretch.pages, name, None)?;
    let micros = |share| rounded(spread.at(share) * 1e6);
    Ok(json!({ "p50": micros(0.5), "p99": micros(0.99) }))
}

/// The keys that all benchmarks have, from the stretch that counts.
pub(super) fn common_fields(
    plan: &LoadPlan,
    durability: &str,
    stretch: &Stretch,
    books: &Books,
    audit: &Audit,
) -> Report {
    let us = |time: Duration| rounded(time.as_secs_f64() * 1e6 / float(stretch.messages.max(1)));
    let [ingress, _] = bytes(stretch);
    let offered = plan.rate.map_or(Value::Null, |rate| json!(rate));
    let held = plan.rate.is_none_or(|rate| stretch.per_s() >= 0.95 * f64::from(rate));
    Report::new("synod-bench/1")
        .field("header", header(plan, durability))
        .field("offered_per_s", offered)
        .field("achieved_per_s", rounded(stretch.per_s()))
        .field("held", held)
        .field("latency_us", stretch.latency.to_json())
        .field(
            "outcomes",
            json!({ "accepted": books.delivered.1, "rejected": books.exceptions, "unknown": 0 }),
        )
        .field(
            "cpu_us_per_op",
            json!({
                "total": us(stretch.cpu.servers + stretch.cpu.memory + stretch.cpu.load),
                "by_role": {
                    "servers": us(stretch.cpu.servers), "memory_nodes": us(stretch.cpu.memory),
                    "load": us(stretch.cpu.load),
                },
            }),
        )
        .field(
            "rss_peak_bytes",
            json!({ "by_role": { "server": stretch.cpu.rss[0], "load": stretch.cpu.rss[1] } }),
        )
        .field("bytes_per_op", json!({ "by_link": { "load-server": ingress } }))
        .field("fsync_us", spread(stretch, "synod_wal_fsync_seconds").unwrap_or(Value::Null))
        .field("audit", audit.to_json())
}

/// Reasons for what is null, as an object.
pub(super) fn unavailable(reasons: &[(&str, &str)], own: &mut Map<String, Value>) {
    for (key, _) in reasons {
        if !key.contains('.') {
            own.entry((*key).to_owned()).or_insert(Value::Null);
        }
    }
    let reasons: Map<String, Value> =
        reasons.iter().map(|(key, why)| ((*key).to_owned(), json!(why))).collect();
    own.insert("unavailable".to_owned(), reasons.into());
}

#[cfg(test)]
mod tests {
    use super::{Passed, keysum_path};
    use crate::bench::pages::Page;
    use serde_json::Value;
    use std::time::Instant;

    #[test]
    fn the_way_of_adding_keys_is_what_servers_tell() {
        let passed = |text: &str| {
            let page = Page::parse(text, Instant::now());
            Passed::new(page.clone(), page)
        };
        let of = |paths: &[&str]| keysum_path(&paths.iter().map(|text| passed(text)).collect::<Vec<_>>());
        let (vectors, single) = ("synod_server_keysum_path 1\n", "synod_server_keysum_path 0\n");
        assert_eq!(of(&[vectors, vectors]), "vectors");
        assert_eq!(of(&[single]), "one by one");
        assert!(of(&[vectors, single]).as_str().is_some_and(|words| words.contains("some servers")));
        assert_eq!([of(&[]), of(&[vectors, "other 1\n"])], [Value::Null, Value::Null]);
    }
}
