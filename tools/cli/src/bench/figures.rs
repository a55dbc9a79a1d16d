//! The result of a run, as JSON. What could not be measured is null, with its reason under `unavailable`.

use super::audit::Audit;
use super::baseline::Baseline;
use super::header::header;
use super::pages::{Passed, Spread, stages};
use super::window::Taken;
use super::{Plan, Target};
use crate::output::Report;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use synod_host::Mode;
use synod_load::Measured;

/// A figure, or why there is none.
type Figure = Result<Value, String>;

/// All that a run gave.
pub(crate) struct Findings {
    pub(crate) measured: Measured,
    pub(crate) taken: Taken,
    pub(crate) audit: Audit,
    pub(crate) baseline: Option<Baseline>,
    /// Names of the members.
    pub(crate) names: Vec<String>,
}

/// Two digits behind the point are enough.
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// The nearest whole number.
fn whole(value: f64) -> Value {
    format!("{:.0}", value.max(0.0)).parse::<u64>().map_or(Value::Null, Value::from)
}

fn float(n: u64) -> f64 {
    // Counts of a run stay far below 2^53.
    format!("{n}").parse().unwrap_or(f64::NAN)
}

/// Figures with their reasons kept aside.
#[derive(Default)]
struct Noted {
    object: Map<String, Value>,
    missing: BTreeMap<String, String>,
}

impl Noted {
    fn put(&mut self, key: &str, value: impl Into<Value>) {
        self.object.insert(key.to_owned(), value.into());
    }

    fn figure(&mut self, key: &str, figure: Figure) {
        let value = figure.unwrap_or_else(|why| {
            self.missing.insert(key.to_owned(), why);
            Value::Null
        });
        self.put(key, value);
    }
}

impl Findings {
    /// The result of a run of `plan`.
    pub(crate) fn report(&self, plan: &Plan) -> Report {
        let measured = &self.measured;
        let mut own = self.own(plan);
        let mut shared = Noted::default();
        shared.figure("bytes_per_op", self.bytes_per_op());
        shared.figure("fsync_us", self.spread("synod_wal_fsync_seconds", None));
        for key in shared.missing.keys().cloned().collect::<Vec<_>>() {
            own.missing.insert(key.clone(), shared.missing.get(&key).cloned().unwrap_or_default());
        }
        let missing = std::mem::take(&mut own.missing);
        own.put("unavailable", json!(missing));
        let mut report = Report::new("synod-bench/1")
            .field("header", header(plan))
            .field("offered_per_s", whole(measured.offered_per_s))
            .field("achieved_per_s", whole(measured.achieved_per_s()))
            .field("held", measured.held())
            .field("latency_us", measured.latency.to_json())
            .field("outcomes", self.outcomes())
            .field("cpu_us_per_op", self.cpu())
            .field("rss_peak_bytes", self.memory());
        for (key, value) in shared.object {
            report = report.field(key, value);
        }
        report.field("audit", self.audit.to_json()).field(plan.target.name(), own.object)
    }

    fn outcomes(&self) -> Value {
        let tally = &self.measured.tally;
        json!({ "accepted": tally.accepted, "rejected": tally.rejected, "unknown": tally.unknown })
    }

    fn per_op(&self, total: f64) -> Value {
        match self.measured.completed {
            0 => Value::Null,
            operations => json!(rounded(total / float(operations))),
        }
    }

    fn cpu(&self) -> Value {
        let taken = &self.taken;
        let micros = |span: Duration| self.per_op(span.as_secs_f64() * 1e6);
        let proxy = taken.proxy_usage.map(|spent| spent.cpu);
        let total = taken.node_usage.cpu + taken.own_usage.cpu + proxy.unwrap_or_default();
        json!({
            "total": micros(total),
            "by_role": {
                "nodes": micros(taken.node_usage.cpu), "clients": micros(taken.own_usage.cpu),
                "proxy": proxy.map(micros),
            },
        })
    }

    fn memory(&self) -> Value {
        let taken = &self.taken;
        let proxy = taken.proxy_usage.map(|spent| spent.rss);
        json!({ "by_role": { "nodes": taken.node_usage.rss, "clients": taken.own_usage.rss, "proxy": proxy } })
    }

    fn nodes(&self) -> Vec<Passed> {
        self.taken.nodes.iter().map(|(_, passed)| passed.clone()).collect()
    }

    /// Bytes that each pair of members sent each other, per operation.
    fn bytes_per_op(&self) -> Figure {
        let mut links = BTreeMap::new();
        for (at, passed) in &self.taken.nodes {
            let own = self.names.get(*at).cloned().unwrap_or_default();
            for (peer, bytes) in passed.rise_by("synod_net_sent_bytes_total", "peer") {
                let (low, high) = if own < peer { (&own, &peer) } else { (&peer, &own) };
                *links.entry(format!("{low}-{high}")).or_insert(0.0) += bytes;
            }
        }
        if self.measured.completed == 0 {
            return Err("no operation was acknowledged in the measured time".to_owned());
        }
        if links.is_empty() {
            return Err("no link between members".to_owned());
        }
        let links: Map<String, Value> =
            links.into_iter().map(|(link, bytes)| (link, self.per_op(bytes))).collect();
        Ok(json!({ "by_link": links }))
    }

    /// Half and 99 % of a histogram of seconds over all nodes, in microseconds.
    fn spread(&self, name: &str, stage: Option<&str>) -> Figure {
        let spread = Spread::over(&self.nodes(), name, stage)?;
        let micros = |share| whole(spread.at(share) * 1e6);
        Ok(json!({ "p50": micros(0.5), "p99": micros(0.99) }))
    }

    fn stages(&self) -> Figure {
        const NAME: &str = "synod_consensus_stage_seconds";
        let nodes = self.nodes();
        let mut object = Map::new();
        for stage in stages(&nodes, NAME) {
            if let Ok(spread) = self.spread(NAME, Some(&stage)) {
                object.insert(stage, spread);
            }
        }
        if object.is_empty() { self.spread(NAME, None) } else { Ok(object.into()) }
    }

    /// The largest of what each node saw.
    fn largest(&self, name: &str, of: impl Fn(&Passed) -> Option<f64>) -> Result<f64, String> {
        let told = self.taken.nodes.iter().filter_map(|(_, passed)| of(passed));
        told.max_by(f64::total_cmp).ok_or_else(|| format!("the nodes do not export {name}"))
    }

    fn blocks_per_s(&self) -> Result<f64, String> {
        const NAME: &str = "synod_consensus_height";
        self.largest(NAME, |node| Some(node.growth(NAME)? / node.seconds()))
    }

    /// Commands of a block that held any.
    fn commands_per_block(&self) -> Figure {
        const NAME: &str = "synod_consensus_batch_ops";
        let sum = self.largest(NAME, |node| node.rise(&format!("{NAME}_sum")))?;
        let count = self.largest(NAME, |node| node.rise(&format!("{NAME}_count")))?;
        if count < 0.5 {
            return Err(format!("{NAME} counted nothing in the measured time"));
        }
        Ok(json!(rounded(sum / count)))
    }

    fn syncs_per_s(&self) -> Figure {
        const NAME: &str = "synod_wal_fsync_seconds_count";
        let nodes = self.taken.nodes.iter();
        let rates = nodes.filter_map(|(_, node)| Some(node.rise(NAME)? / node.seconds()));
        let sum = rates.reduce(|sum, rate| sum + rate);
        sum.map(whole).ok_or_else(|| format!("the nodes do not export {NAME}"))
    }

    /// The keys of the benchmark itself.
    fn own(&self, plan: &Plan) -> Noted {
        let mut own = Noted::default();
        own.put("rules", plan.rules.as_str());
        own.put("nodes", plan.nodes);
        own.put("size", plan.size);
        own.put("clients", plan.clients);
        own.put("inflight", plan.inflight);
        own.put("pipeline", plan.pipeline);
        own.put("dead", plan.dead);
        own.put("send", if plan.send_all { "all" } else { "one" });
        if let Target::Kv { keys, reads } = plan.target {
            own.put("keys", keys);
            own.put("reads_per_thousand", reads);
            own.put("read", if reads == 0 { Value::Null } else { word(plan.read).into() });
        }
        let blocks = self.blocks_per_s();
        own.figure("blocks_per_s", blocks.map(|blocks| json!(rounded(blocks))));
        own.figure("commands_per_block", self.commands_per_block());
        own.figure("consensus_us", self.spread("synod_consensus_commit_latency_seconds", None));
        own.figure("stage_us", self.stages());
        own.figure("syncs_per_s", self.syncs_per_s());
        const CHANGES: &str = "synod_consensus_view_changes_total";
        let changes = self.largest(CHANGES, |node| node.rise(CHANGES));
        own.figure("view_changes", changes.map(whole));
        own.put("gap_ms", u64::try_from(self.measured.gap.as_millis()).unwrap_or(u64::MAX));
        own.put("busy", self.measured.tally.busy);
        if plan.kill_leader_at.is_some() {
            let name = self.taken.killed.and_then(|leader| self.names.get(leader).cloned());
            own.figure("killed", name.map(Value::from).ok_or_else(|| "no node told its leader".to_owned()));
        }
        self.baseline(&mut own);
        own
    }

    fn baseline(&self, own: &mut Noted) {
        let Some(baseline) = &self.baseline else {
            own.figure("baseline", Err("left out by --no-baseline".to_owned()));
            return;
        };
        let mut object = Map::new();
        for (key, figure) in baseline.figures() {
            let value = figure.map_or_else(
                |why| {
                    own.missing.insert(format!("baseline.{key}"), why);
                    Value::Null
                },
                Value::from,
            );
            object.insert(key.to_owned(), value);
        }
        own.put("baseline", object);
    }
}

fn word(mode: Mode) -> &'static str {
    match mode {
        Mode::Ordered => "ordered",
        Mode::Quorum => "quorum",
        Mode::Local => "local",
    }
}
