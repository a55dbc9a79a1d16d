//! The budgets of the specification, 8.2, held against the rows of a run.
//!
//! A gate whose row was not measured says why it was skipped; it neither passes nor fails.

use serde_json::{Value, json};

use super::baseline::{Beside, WANTED};
use super::plan::{Placement, System, UbftBench};
use crate::bench::chop::{float, rounded};

/// What of a row gates look at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures<'a> {
    pub(super) plan: &'a UbftBench,
    pub(super) system: System,
    pub(super) is_flip: bool,
    pub(super) p50_ns: u64,
    pub(super) ops_per_s: f64,
    pub(super) ratio: Option<f64>,
    pub(super) rss_bytes: Option<u64>,
    pub(super) disaggregated_bytes: Option<u64>,
}

/// One gate, judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Gate {
    pub(super) id: &'static str,
    unit: &'static str,
    /// None where a value is shown and not judged.
    limit: Option<f64>,
    verdict: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    Measured { value: f64, pass: Option<bool> },
    Skipped(&'static str),
}

impl Gate {
    /// Whether it was measured and missed.
    pub(super) fn is_missed(&self) -> bool {
        matches!(self.verdict, Verdict::Measured { pass: Some(false), .. })
    }

    /// As results show it.
    pub(super) fn shown(&self) -> Value {
        let (value, pass, skipped) = match self.verdict {
            Verdict::Measured { value, pass } => (rounded(value), json!(pass), Value::Null),
            Verdict::Skipped(why) => (Value::Null, Value::Null, json!(why)),
        };
        json!({ "id": self.id, "unit": self.unit, "limit": self.limit, "value": value, "pass": pass, "skipped": skipped })
    }
}

/// A budget: what is looked at, where, and what may be at most, or must be at least.
struct Budget {
    id: &'static str,
    unit: &'static str,
    limit: f64,
    is_least: bool,
    of: fn(&Figures<'_>) -> Option<f64>,
    /// What a run must be for it.
    wants: &'static str,
}

const MIB: f64 = 1_048_576.0;

/// One request of 32 bytes in flight, at a placement, on a path.
fn is_single(figures: &Figures<'_>, placement: Placement, fast_path: bool) -> bool {
    let plan = figures.plan;
    let is_here = plan.placement == placement && plan.fast_path == fast_path;
    is_here && plan.size == 32 && plan.is_alone()
}

fn micros(figures: &Figures<'_>) -> f64 {
    float(figures.p50_ns) / 1_000.0
}

const BUDGETS: [Budget; 7] = [
    Budget {
        id: "coop.p50",
        unit: "us",
        limit: 6.0,
        is_least: false,
        of: |row| is_single(row, Placement::Cooperative, true).then(|| micros(row)),
        wants: "needs --placement cooperative --path fast --size 32 --closed 1",
    },
    Budget {
        id: "coop.ratio",
        unit: "times unreplicated",
        limit: 3.0,
        is_least: false,
        of: |row| row.ratio.filter(|_| is_single(row, Placement::Cooperative, true)),
        wants: "needs what coop.p50 needs, and --system all",
    },
    Budget {
        id: "iso.p50",
        unit: "us",
        limit: 15.0,
        is_least: false,
        of: |row| is_single(row, Placement::Isolated, true).then(|| micros(row)),
        wants: "needs --placement isolated --path fast --size 32 --closed 1",
    },
    Budget {
        id: "slow.iso",
        unit: "us",
        limit: 800.0,
        is_least: false,
        of: |row| is_single(row, Placement::Isolated, false).then(|| micros(row)),
        wants: "needs --placement isolated --path slow --size 32 --closed 1",
    },
    Budget {
        id: "throughput",
        unit: "requests/s",
        limit: 182_000.0,
        is_least: true,
        of: |row| {
            let plan = row.plan;
            let is_its = plan.placement == Placement::Cooperative && plan.fast_path && plan.size == 32;
            (is_its && plan.batch == 16 && plan.closed >= 16).then_some(row.ops_per_s)
        },
        wants: "needs --placement cooperative --path fast --size 32 --batch 16 --closed 16 or more",
    },
    Budget {
        id: "rss",
        unit: "MiB of a replica's process, the application and the program with it",
        limit: 32.0,
        is_least: false,
        of: |row| row.rss_bytes.filter(|_| row.plan.size == 64).map(|bytes| float(bytes) / MIB),
        wants: "needs --placement isolated --size 64",
    },
    Budget {
        id: "memory.node",
        unit: "KiB",
        limit: 162.0,
        is_least: false,
        of: |row| {
            row.disaggregated_bytes.filter(|_| row.plan.tail == 128).map(|bytes| float(bytes) / 1_024.0)
        },
        wants: "needs --tail 128",
    },
];

/// Gates of the specification that this command does not measure, and where they are.
const ELSEWHERE: [(&str, &str, f64, &str); 6] = [
    ("slow.dedicated", "us", 400.0, "the placement dedicated is not built"),
    ("ctb.fast", "us", 2.3, "cargo bench -p synod-ubft --bench ctb measures it"),
    ("ctb.slow", "us", 86.0, "no command measures it"),
    ("failover", "ms", 150.0, "no command measures it"),
    ("rejoin", "s", 2.0, "no command measures it"),
    ("regress", "%", 5.0, "there is no stored baseline"),
];

/// MinBFT beside uBFT, of one run: with an enclave's time it must take so many times as long. Without, it has four delays
/// where uBFT has seven, and is shown.
const BESIDE: [(&str, u32, Option<f64>); 2] = [("minbft.ratio", 8, Some(5.0)), ("minbft.raw", 0, None)];

/// The gates of the baseline. Where several rows of uBFT count, the slowest.
fn beside(rows: &[Figures<'_>], beside: &[Beside]) -> impl Iterator<Item = Gate> {
    let own = rows.iter().filter(|row| row.system == System::Synod && row.is_flip);
    let own = own.filter(|row| is_single(row, Placement::Cooperative, true)).map(|row| row.p50_ns).max();
    BESIDE.into_iter().map(move |(id, enclave_us, limit)| {
        let is_its = |row: &&Beside| row.size == 32 && row.enclave_us == enclave_us;
        let value = beside.iter().find(is_its).zip(own.filter(|own| *own > 0));
        let value = value.map(|(row, own)| float(row.p50_ns) / float(own));
        let verdict = value.map_or(Verdict::Skipped(WANTED), |value| Verdict::Measured {
            value,
            pass: limit.map(|limit| value >= limit),
        });
        Gate { id, unit: "times uBFT", limit, verdict }
    })
}

/// Every gate of the specification; where several rows count, the worst.
pub(super) fn judge(rows: &[Figures<'_>], others: &[Beside]) -> Vec<Gate> {
    let measured = BUDGETS.iter().map(|budget| {
        let Budget { id, unit, limit, is_least, of, wants } = *budget;
        let values = rows.iter().filter(|row| row.system == System::Synod).filter_map(of);
        let worst = if is_least { values.reduce(f64::min) } else { values.reduce(f64::max) };
        let pass = |value: f64| if is_least { value >= limit } else { value <= limit };
        let verdict = worst
            .map_or(Verdict::Skipped(wants), |value| Verdict::Measured { value, pass: Some(pass(value)) });
        Gate { id, unit, limit: Some(limit), verdict }
    });
    let elsewhere = ELSEWHERE.iter().map(|(id, unit, limit, why)| Gate {
        id,
        unit,
        limit: Some(*limit),
        verdict: Verdict::Skipped(why),
    });
    measured.chain(beside(rows, others)).chain(elsewhere).collect()
}

/// The runs that the gates need, each like `plan` but for what its gate says.
pub(super) fn suite(plan: &UbftBench) -> Vec<UbftBench> {
    use super::plan::App;
    let both = vec![System::Unreplicated, System::Synod];
    let base = UbftBench {
        is_suite: false,
        placement: Placement::Cooperative,
        apps: vec![App::Flip],
        systems: vec![System::Synod],
        baseline: None,
        size: 32,
        closed: 1,
        rate: None,
        batch: 1,
        fast_path: true,
        has_crypto_thread: true,
        ..plan.clone()
    };
    let isolated = UbftBench { placement: Placement::Isolated, ..base.clone() };
    let fewer = |count: u32| (count / 10).max(100);
    vec![
        UbftBench { systems: both, baseline: plan.baseline.clone(), ..base.clone() },
        UbftBench { closed: super::plan::CLOSED_MAX, batch: 16, ..base },
        isolated.clone(),
        UbftBench {
            fast_path: false,
            samples: fewer(plan.samples),
            warmup: fewer(plan.warmup),
            ..isolated.clone()
        },
        UbftBench { size: 64, tail: 128, ..isolated },
    ]
}

#[cfg(test)]
mod tests {
    use super::super::plan::App;
    use super::*;

    fn plan() -> UbftBench {
        UbftBench {
            is_suite: true,
            placement: Placement::Isolated,
            part: None,
            apps: vec![App::Kv],
            systems: vec![System::Unreplicated],
            baseline: None,
            size: 1_000,
            closed: 3,
            rate: Some(5),
            batch: 7,
            samples: 20_000,
            warmup: 2_000,
            tail: 256,
            window: 512,
            fast_path: false,
            is_merged: false,
            has_crypto_thread: true,
            out: None,
        }
    }

    fn row(plan: &UbftBench) -> Figures<'_> {
        Figures {
            plan,
            system: System::Synod,
            is_flip: true,
            p50_ns: 6_000,
            ops_per_s: 182_000.0,
            ratio: Some(3.0),
            rss_bytes: (plan.placement == Placement::Isolated).then_some(32 << 20),
            disaggregated_bytes: Some(159_744),
        }
    }

    fn found(gates: &[Gate], id: &str) -> Value {
        gates.iter().find(|gate| gate.id == id).expect("every gate is there").shown()
    }

    #[test]
    fn the_runs_of_the_suite_measure_every_gate_that_can_be_measured_here() {
        let plans = suite(&plan());
        let rows: Vec<Figures<'_>> = plans.iter().map(row).collect();
        let gates = judge(&rows, &[]);
        for Budget { id, .. } in &BUDGETS {
            assert_eq!(found(&gates, id)["pass"], true, "{id}");
        }
        for (id, ..) in &ELSEWHERE {
            assert!(found(&gates, id)["skipped"].as_str().is_some_and(|why| !why.is_empty()), "{id}");
        }
        for (id, ..) in &BESIDE {
            assert_eq!(found(&gates, id)["skipped"], WANTED, "{id}");
        }
        assert_eq!(gates.len(), 15, "every gate of the specification");
        assert!(!gates.iter().any(Gate::is_missed));
    }

    #[test]
    fn a_gate_is_missed_just_beyond_its_limit_and_by_the_worst_row() {
        let plans = suite(&plan());
        let beyond = |row: Figures<'_>| {
            let ok = row;
            let worse = Figures {
                p50_ns: 800_001,
                ops_per_s: 181_999.9,
                ratio: Some(3.001),
                rss_bytes: row.rss_bytes.map(|bytes| bytes + 1),
                disaggregated_bytes: Some(162 * 1_024 + 1),
                ..row
            };
            let gates = judge(&[ok, worse], &[]);
            gates.into_iter().filter(Gate::is_missed).map(|gate| gate.id).collect::<Vec<_>>()
        };
        let missed: Vec<_> = plans.iter().map(row).map(beyond).collect();
        assert_eq!(
            missed,
            [
                vec!["coop.p50", "coop.ratio"],
                vec!["throughput"],
                vec!["iso.p50"],
                vec!["slow.iso"],
                vec!["rss", "memory.node"]
            ]
        );
    }

    #[test]
    fn minbft_is_held_against_the_replicas_of_the_same_run_and_without_an_enclave_it_is_shown() {
        let plans = suite(&plan());
        let rows: Vec<Figures<'_>> = plans.iter().map(row).collect();
        let of = |enclave_us, p50_ns| Beside { size: 32, enclave_us, p50_ns, shown: Value::Null };
        let gates = judge(&rows, &[of(0, 5_000), of(8, 30_000)]);
        let (ratio, raw) = (found(&gates, "minbft.ratio"), found(&gates, "minbft.raw"));
        assert_eq!(
            (&ratio["value"], &ratio["pass"], &ratio["limit"]),
            (&json!(5.0), &json!(true), &json!(5.0))
        );
        assert_eq!(
            (&raw["pass"], &raw["limit"], &raw["skipped"]),
            (&Value::Null, &Value::Null, &Value::Null)
        );
        assert!(raw["value"].as_f64().is_some_and(|value| value < 1.0), "{raw}");
        let missed = |others: &[Beside]| judge(&rows, others).iter().filter(|gate| gate.is_missed()).count();
        assert_eq!((missed(&[of(0, 1), of(8, 29_999)]), missed(&[of(0, 1)])), (1, 0));
        let larger = Beside { size: 64, ..of(8, 1) };
        assert_eq!(found(&judge(&rows, &[larger]), "minbft.ratio")["skipped"], WANTED, "another size");
        assert_eq!(
            found(&judge(&rows[1..], &[of(8, 1)]), "minbft.ratio")["skipped"],
            WANTED,
            "no row of its own"
        );
    }

    #[test]
    fn what_was_measured_otherwise_or_of_one_server_is_no_gates() {
        let mut plan = suite(&plan()).swap_remove(0);
        let server = Figures { system: System::Unreplicated, ..row(&plan) };
        assert!(judge(&[server], &[]).iter().all(|gate| gate.shown()["value"].is_null()));
        plan.rate = Some(100);
        assert!(found(&judge(&[row(&plan)], &[]), "coop.p50")["value"].is_null(), "an open loop");
        (plan.rate, plan.size) = (None, 33);
        assert!(found(&judge(&[row(&plan)], &[]), "coop.p50")["value"].is_null(), "another size");
    }
}
