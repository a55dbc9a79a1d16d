//! What runs report; the keys are those of the JSON that commands print.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Number;

use crate::cells::Cells;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Nothing was broken.
    Pass,
    /// A safety property was broken.
    Violation,
    /// A liveness bound passed.
    Stall,
    /// Two equal runs differ.
    Nondeterminism,
    /// An honest node panicked.
    Panic,
}

/// The three respects in which a seed can be effective.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EffectiveReport {
    /// A change of view or path.
    pub view_change: bool,
    /// A restart lost an un-synced suffix.
    pub lost_suffix: bool,
    /// A touched frame passed authentication at an honest node.
    pub byzantine: bool,
}

/// Rules applied, of how many.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// Rules applied at least once.
    pub hit: u64,
    /// Rules there are.
    pub of: u64,
    /// Rules never applied.
    pub missed: Vec<String>,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunReport {
    /// Format of this object.
    pub schema: &'static str,
    /// How it ended.
    pub verdict: Outcome,
    /// The checker that fired; empty on a pass.
    pub checker: String,
    /// What the checker saw; empty on a pass.
    pub what: String,
    /// The run's name.
    pub token: String,
    /// Digest of the scenario's text.
    pub scenario_hash: String,
    /// Digest of every event and effect.
    pub audit: String,
    /// Events.
    pub events: u64,
    /// Virtual milliseconds.
    pub virtual_ms: u64,
    /// Virtual seconds, rounded down.
    pub virtual_s: u64,
    /// Real milliseconds.
    pub wall_ms: u64,
    /// Families of faults that began.
    pub families: Vec<String>,
    /// Faults that began.
    pub faults: u64,
    /// In which respects the seed was effective.
    pub effective: EffectiveReport,
    /// Cells of the lever table that were reached.
    pub cells: Vec<String>,
    /// Rule coverage.
    pub rules: Coverage,
    /// Largest share of its memory formula a machine reached, per mille.
    pub bytes_permille_max: u64,
    /// The same as a ratio.
    pub bytes_ratio_max: Number,
    /// Bytes that all machines together held more at the end of the safety phase than half way through it.
    pub bytes_growth: i64,
    /// Members.
    pub nodes: u32,
    /// Whether distances were those of a wide area.
    pub wan: bool,
    /// Whether the script of the run, if it has one, was played to its end.
    pub complete: bool,
    /// The highest view.
    pub views: u64,
    /// Different headers seen.
    pub blocks: u64,
    /// The highest position delivered.
    pub delivered: u64,
    /// Commands executed.
    pub executed: u64,
    /// Commands whose clients accepted an answer.
    pub accepted: u64,
    /// What else the system counts.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<&'static str, u64>,
    /// The last events, one column per node; empty on a pass.
    #[serde(skip)]
    pub columns: String,
    /// Every event as a JSON line, if asked for.
    #[serde(skip)]
    pub lines: Vec<String>,
    /// Virtual nanoseconds of the violation.
    #[serde(skip)]
    pub violated_ns: u64,
    /// Names of the rules applied.
    #[serde(skip)]
    pub applied: Vec<&'static str>,
}

/// A number of thousandths as a ratio.
#[must_use]
pub fn ratio(permille: u64) -> Number {
    let text = format!("{}.{:03}", permille / 1_000, permille % 1_000);
    text.parse().ok().and_then(Number::from_f64).unwrap_or_else(|| Number::from(permille / 1_000))
}

impl RunReport {
    /// Whether nothing was broken.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.verdict == Outcome::Pass
    }
}

/// One failure of a soak.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The run.
    pub token: String,
    /// The checker.
    pub checker: String,
    /// What it saw.
    pub what: String,
}

/// Runs that were repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Repeats {
    /// How many.
    pub run: u64,
    /// How many of them differed.
    pub mismatch: u64,
}

/// Many runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SoakReport {
    /// Format of this object.
    pub schema: &'static str,
    /// The first seed.
    pub from: u64,
    /// The seed behind the last.
    pub next: u64,
    /// Seeds run.
    pub seeds: u64,
    /// Seeds without failure.
    pub clean: u64,
    /// The failures.
    pub failures: Vec<Failure>,
    /// Seeds per real second.
    pub seeds_per_s: u64,
    /// Events per real second.
    pub events_per_s: u64,
    /// Virtual hours, rounded down.
    pub virtual_h: u64,
    /// Virtual seconds.
    pub virtual_s: u64,
    /// Virtual seconds per real second, over runs in one data centre (`lan`) and over wide areas (`wan`).
    pub virtual_per_real: BTreeMap<&'static str, u64>,
    /// Hours of nodes simulated per hour of processor time.
    pub node_h_per_cpu_h: u64,
    /// Median number of faults.
    pub faults_p50: u64,
    /// Families that came up.
    pub families_active: u64,
    /// Share of seeds that were effective, per respect.
    pub effective_pct: BTreeMap<&'static str, u64>,
    /// Cells of the lever table reached over all seeds.
    pub cells: Cells,
    /// Rule coverage over all seeds.
    pub rules: Coverage,
    /// Repeated runs.
    pub repeats: Repeats,
    /// Rule of three: failures per seed that N clean seeds still allow, 3 / N.
    pub bound_per_seed: Number,
    /// The same in millionths.
    pub bound_per_seed_ppm: u64,
    /// Real milliseconds.
    pub wall_ms: u64,
    /// Events of all runs.
    pub events: u64,
    /// Commands executed in all runs.
    pub executed: u64,
    /// What else the systems count, over all runs.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<&'static str, u64>,
}
