//! What a run found, against the goals of the first gate.

use super::honest::Measured;
use super::run::Plan;
use crate::output::Report;
use serde_json::{Value, json};
use std::time::Duration;
use synod_net::Limits;

/// Least share of the honest throughput that a flood leaves, in percent.
const KEPT_MIN: u64 = 50;
/// Most that a member may grow in a turn.
const GROWTH_MAX: u64 = 256 << 20;
/// Most that a member may grow while strangers crowd.
const STRANGERS_GROWTH_MAX: u64 = 64 << 20;
/// Most that the 99th percentile may grow while strangers crowd, in hundredths.
const STRANGERS_P99_MAX: u64 = 200;
/// Most that the logs of a member may grow in a minute.
const LOG_MAX: u64 = 10 << 20;
/// Members that write logs.
const MEMBERS: u64 = 3;
/// What a handshake may hold: what it read, and the buffers of TLS.
const HANDSHAKE: u64 = 128 << 10;
/// The largest frame of a member.
const FRAME_MAX: u64 = 16 << 20;
/// Replies that a node keeps for the readers of its gateways.
const GATEWAY: u64 = 128 << 20;

/// One turn.
pub(super) struct Turn {
    pub(super) name: &'static str,
    pub(super) measured: Measured,
    /// How much the member that grew most grew.
    pub(super) growth: u64,
    /// What the flood did.
    pub(super) detail: Value,
}

/// What a run found.
pub(super) struct Findings {
    /// The first one is without a flood.
    pub(super) turns: Vec<Turn>,
    /// Strangers that were to be there at once.
    pub(super) strangers: usize,
    /// Bytes that all members logged.
    pub(super) log_bytes: u64,
    pub(super) took: Duration,
    /// Members that ended.
    pub(super) fallen: Vec<String>,
}

impl Findings {
    fn calm(&self) -> Measured {
        self.turns.first().map(|turn| turn.measured).unwrap_or_default()
    }

    fn floods(&self) -> impl Iterator<Item = &Turn> {
        self.turns.iter().skip(1)
    }

    /// The honest throughput of a turn, in percent of the first one's.
    fn kept(&self, turn: &Turn) -> u64 {
        turn.measured.rate().saturating_mul(100) / self.calm().rate().max(1)
    }

    /// The 99th percentile of a turn in hundredths of the first one's.
    fn slower(&self, turn: &Turn) -> u64 {
        let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        micros(turn.measured.p99).saturating_mul(100) / micros(self.calm().p99).max(1)
    }

    fn log_per_minute(&self) -> u64 {
        let seconds = self.took.as_secs().max(1);
        self.log_bytes.saturating_mul(60) / seconds / MEMBERS
    }

    /// The goals that were missed.
    pub(super) fn wrong(&self) -> Vec<String> {
        let mut wrong: Vec<String> = self.fallen.iter().map(|name| format!("{name} ended")).collect();
        if self.calm().acked == 0 {
            wrong.push("nothing was acknowledged before the floods".to_owned());
        }
        for turn in self.floods() {
            let (name, kept, growth) = (turn.name, self.kept(turn), turn.growth);
            if kept < KEPT_MIN {
                wrong.push(format!("{name}: {kept} % of the honest throughput is left"));
            }
            if growth > GROWTH_MAX {
                wrong.push(format!("{name}: a member grew by {growth} bytes"));
            }
            if name == "strangers" && growth > STRANGERS_GROWTH_MAX {
                wrong.push(format!("{name}: a member grew by {growth} bytes"));
            }
            if name == "strangers" && self.slower(turn) >= STRANGERS_P99_MAX {
                wrong.push(format!("{name}: p99 is {} hundredths of what it was", self.slower(turn)));
            }
        }
        if self.log_per_minute() > LOG_MAX {
            wrong.push(format!("members log {} bytes a minute", self.log_per_minute()));
        }
        wrong
    }
}

/// Most that a member may hold for the attackers of a run, by its limits: handshakes, what waits from and to the faulty
/// member on two connections, and replies that gateways keep.
fn formula() -> u64 {
    let limits = Limits::default();
    let member = limits.peer_bytes_max + 2 * (limits.inbox_bytes_max + FRAME_MAX);
    u64::from(limits.handshakes_max) * HANDSHAKE + member + GATEWAY
}

/// Hundredths as a number.
fn decimal(hundredths: u64) -> Value {
    let text = format!("{}.{:02}", hundredths / 100, hundredths % 100);
    text.parse::<f64>().map_or(Value::Null, |number| json!(number))
}

/// The result as it is printed.
pub(super) fn report(plan: Plan, found: &Findings) -> Report {
    let kept = found.floods().map(|turn| found.kept(turn)).min().unwrap_or(0);
    let slower = found.floods().map(|turn| found.slower(turn)).max().unwrap_or(0);
    let row = |turn: &Turn| -> Vec<Value> {
        vec![
            json!(turn.name),
            json!(turn.measured.rate()),
            json!(found.kept(turn)),
            json!(turn.measured.p50.as_micros()),
            json!(turn.measured.p99.as_micros()),
            json!(turn.growth),
            turn.detail.clone(),
        ]
    };
    Report::new("synod-flood/1")
        .field("commit", env!("SYNOD_BUILD_COMMIT"))
        .field("seconds", plan.seconds)
        .field("seed", plan.seed)
        .field("connections", found.strangers)
        .field("rss_growth", found.floods().map(|turn| turn.growth).max().unwrap_or(0))
        .field("formula", formula())
        .field("honest_kept_pct", kept)
        .field("p99_ratio", decimal(slower))
        .field("log_bytes_per_min", found.log_per_minute())
        .field("fallen", json!(found.fallen))
        .field("wrong", found.wrong())
        .field("ok", found.wrong().is_empty())
        .list(
            "turns",
            &["flood", "writes_per_s", "kept_pct", "p50_us", "p99_us", "rss_growth", "detail"],
            found.turns.iter().map(row).collect(),
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(name: &'static str, acked: u64, p99: u64, growth: u64) -> Turn {
        let span = Duration::from_secs(1);
        let p99 = Duration::from_millis(p99);
        Turn { name, measured: Measured { acked, span, p50: p99, p99 }, growth, detail: json!({}) }
    }

    fn findings() -> Findings {
        let turns = vec![
            turn("nothing", 1_000, 10, 1 << 30),
            turn("strangers", 800, 19, 60 << 20),
            turn("byzantine", 500, 90, 256 << 20),
            turn("stalled", 900, 12, 0),
        ];
        Findings { turns, strangers: 10, log_bytes: 0, took: Duration::from_secs(60), fallen: Vec::new() }
    }

    #[test]
    fn goals_are_those_of_the_first_gate() {
        assert_eq!(findings().wrong(), Vec::<String>::new());
        for spoil in [
            |f: &mut Findings| f.turns[2].measured.acked = 499,
            |f: &mut Findings| f.turns[3].growth = (256 << 20) + 1,
            |f: &mut Findings| f.turns[1].growth = 65 << 20,
            |f: &mut Findings| f.turns[1].measured.p99 = Duration::from_millis(20),
            |f: &mut Findings| f.log_bytes = 31 << 20,
            |f: &mut Findings| f.fallen.push("n0".to_owned()),
        ] {
            let mut spoilt = findings();
            spoil(&mut spoilt);
            assert_eq!(spoilt.wrong().len(), 1);
        }
    }

    #[test]
    fn the_worst_flood_is_reported() {
        let plan = Plan { seconds: 60, connections: 10, seed: 1 };
        let json: Value = serde_json::from_str(&report(plan, &findings()).to_json()).expect("one object");
        assert_eq!(json["honest_kept_pct"], 50);
        assert_eq!(json["p99_ratio"], json!(9.0));
        assert_eq!(json["rss_growth"], 256 << 20);
        assert!(json["formula"].as_u64().is_some_and(|bytes| bytes > 256 << 20 && bytes < 512 << 20));
    }
}
