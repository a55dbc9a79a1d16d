//! The rows of the scoreboard.
//!
//! Three rows count over all protocols of the project: starred plants, all plants and the cells of amnesia. Where only
//! some protocols are built, their first bar is all that belongs to those, and the row says the bar of the whole
//! beside it (`first_whole`); the bar of a release is always the whole.

use super::bar::Bar;
use super::reading::{self as read, Read};

/// How a figure came to be. Kinds never share an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// In virtual time, on one thread.
    Simulated,
    /// By programs and tests that run in real time.
    Real,
    /// Read off sources and builds.
    Static,
}

impl Kind {
    /// Its name in the score.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Simulated => "simulated",
            Self::Real => "real",
            Self::Static => "static",
        }
    }
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) key: &'static str,
    pub(crate) kind: Kind,
    /// The name its files begin with.
    pub(crate) files: &'static str,
    /// The command that makes it.
    pub(crate) command: &'static str,
    pub(crate) read: Read,
    /// The bar of the first gate; none where nothing is demanded.
    pub(crate) first: Option<Bar>,
    /// What `first` is over all protocols, where only some are built.
    pub(crate) first_whole: Option<u64>,
    pub(crate) release: Bar,
    /// Whether it sums over history.
    pub(crate) sums: bool,
    /// Whether builds with planted bugs may make it.
    pub(crate) planted: bool,
    /// Whether what it measures exists.
    pub(crate) built: bool,
}

const fn row(key: &'static str, kind: Kind, files: &'static str, command: &'static str, read: Read) -> Row {
    Row {
        key,
        kind,
        files,
        command,
        read,
        first: None,
        first_whole: None,
        release: Bar::Printed,
        sums: false,
        planted: false,
        built: true,
    }
}

impl Row {
    const fn bars(self, first: Bar, release: Bar) -> Self {
        Self { first: Some(first), release, ..self }
    }

    const fn summed(self) -> Self {
        Self { sums: true, ..self }
    }

    /// Only builds with planted bugs make it, or may make it.
    const fn planted(self) -> Self {
        Self { planted: true, ..self }
    }

    const fn whole(self, first: u64) -> Self {
        Self { first_whole: Some(first), ..self }
    }

    const fn missing(self) -> Self {
        Self { built: false, ..self }
    }
}

/// Starred plants of what is built, of 23.
pub(crate) const STARRED_BUILT: u64 = 18;
/// Cells of amnesia of what is built: nine per protocol, of 45.
const CELLS_BUILT: u64 = 9;

use Bar::{All, Clean, Least, LeastEach, Most, MostEach, Printed, Within};
use Kind::{Real, Simulated, Static};

const SOAK: &str = "synod sim soak --system hotstuff --minutes 10";
const SOAK_CHOP: &str = "synod sim soak --system chopchop --seeds 1000 --jobs 2";
const SOAK_ASTRO: &str = "synod sim soak --system astro --seeds 1000 --jobs 2";
const SOAK_UBFT: &str = "synod sim soak --system ubft --seeds 1000 --jobs 2";
const PLANT: &str = "cargo xtask plant --all";
const TWINS: &str = "synod sim twins --system all --minutes 1";
const CRASH: &str = "synod sim crash --system all --blocks";
const FUZZ: &str = "cargo xtask fuzz --seconds 540";
const CHAOS: &str = "synod chaos run --minutes 6";
const POWER: &str = "synod chaos power --cuts 50";
const FLOOD: &str = "synod chaos flood --seconds 60";
const GATE: &str = "cargo xtask gate full";
const SUPPLY: &str = "cargo xtask supply";

/// A soak's row of a protocol that is not built.
const fn unbuilt(key: &'static str, files: &'static str) -> Row {
    row(key, Simulated, files, SOAK, read::clean).bars(Clean(1_000), Clean(10_000)).missing()
}

const SHARES_FIRST: Bar = LeastEach(&[("view_change", 70.0), ("lost_suffix", 50.0), ("byzantine", 80.0)]);
const SHARES: Bar = LeastEach(&[("view_change", 90.0), ("lost_suffix", 90.0), ("byzantine", 90.0)]);
const NOTHING_LOST: Bar =
    MostEach(&[("lost", 0.0), ("duplicated", 0.0), ("bytes_lost", 0.0), ("money_created", 0.0)]);
const CRATES: Bar = MostEach(&[("core", 60.0), ("default", 200.0), ("all", 240.0)]);

/// Every row, in the order it is shown.
pub(crate) const ROWS: &[Row] = &[
    row("sim.clean.hotstuff", Simulated, "sim-soak-hotstuff", SOAK, read::clean)
        .bars(Clean(1_000), Clean(10_000)),
    row("sim.clean.chopchop", Simulated, "sim-soak-chopchop", SOAK_CHOP, read::clean)
        .bars(Clean(1_000), Clean(10_000)),
    row("sim.clean.astro", Simulated, "sim-soak-astro", SOAK_ASTRO, read::clean)
        .bars(Clean(1_000), Clean(10_000)),
    row("sim.clean.ubft", Simulated, "sim-soak-ubft", SOAK_UBFT, read::clean)
        .bars(Clean(1_000), Clean(10_000)),
    unbuilt("sim.clean.picsou", "sim-soak-picsou"),
    row("sim.seeds", Simulated, "sim-soak", SOAK, read::seeds).bars(Least(5e3), Least(1e6)).summed(),
    row("sim.virtual_per_real", Simulated, "sim-soak", SOAK, read::virtual_per_real)
        .bars(Least(300.0), Least(1_000.0)),
    row("sim.virtual_hours", Simulated, "sim-soak", SOAK, read::virtual_hours)
        .bars(Least(1e3), Least(1e5))
        .summed(),
    row("sim.faults_p50", Simulated, "sim-soak", SOAK, read::faults).bars(Least(40.0), Least(100.0)),
    row("sim.families", Simulated, "sim-soak", SOAK, read::families).bars(Least(12.0), Least(20.0)),
    row("sim.effective", Simulated, "sim-soak", SOAK, read::effective).bars(SHARES_FIRST, SHARES),
    row("sim.cells", Simulated, "sim-soak", SOAK, read::cells).bars(Least(40.0), Least(90.0)),
    row("sim.rules", Simulated, "sim-soak", SOAK, read::rules).bars(Least(90.0), Least(100.0)),
    row("sim.false_alarms", Simulated, "sim-plant", PLANT, read::false_alarms)
        .bars(Most(0.0), Most(0.0))
        .planted(),
    row("sim.repeats", Simulated, "sim-soak", SOAK, read::repeats).bars(Most(0.0), Most(0.0)),
    row("plant.starred", Simulated, "sim-plant", PLANT, read::starred)
        .bars(Least(STARRED_BUILT as f64), Least(23.0))
        .whole(23)
        .planted(),
    Row { release: Least(143.0), ..row("plant.all", Simulated, "sim-plant", PLANT, read::all_plants) }
        .planted(),
    Row {
        release: Least(24.0),
        ..row("plant.surface", Real, "plant-surface", "cargo xtask plant surface", read::nothing)
    }
    .missing(),
    row("plant.seeds", Simulated, "sim-plant", PLANT, read::plant_seeds)
        .bars(MostEach(&[("p50", 50.0), ("max", 500.0)]), MostEach(&[("p50", 20.0), ("max", 200.0)]))
        .planted(),
    row("mutants.score", Simulated, "mutants", "cargo xtask mutants", read::mutants)
        .bars(Least(60.0), Least(85.0)),
    row("twins.unique", Simulated, "sim-twins", TWINS, read::twins).bars(Least(5e3), Least(1e5)).summed(),
    row("twins.per_s", Simulated, "sim-twins", TWINS, read::twins_per_s).bars(Least(20.0), Least(100.0)),
    row("crash.points", Simulated, "sim-crash", CRASH, read::crash_points).bars(Least(2e3), Least(2e4)),
    row("crash.conflicts", Simulated, "sim-crash", CRASH, read::crash_conflicts).bars(Most(0.0), Most(0.0)),
    row("amnesia.cells", Simulated, "sim-amnesia", "synod sim amnesia", read::amnesia)
        .bars(Least(CELLS_BUILT as f64), Least(45.0))
        .whole(20),
    row("model.unique", Simulated, "sim-explore", "synod sim explore all", read::model_states)
        .bars(Least(1e5), Least(1e7))
        .planted(),
    row("model.exhausted", Simulated, "sim-explore", "synod sim explore all", read::models_exhausted)
        .bars(Least(1.0), Least(4.0))
        .planted(),
    row("fuzz.inputs", Real, "fuzz", FUZZ, read::fuzz_inputs).bars(Least(1e7), Least(1e9)).summed(),
    row("fuzz.crashes", Real, "fuzz", FUZZ, read::fuzz_crashes).bars(Most(0.0), Most(0.0)),
    row("fuzz.overalloc", Real, "fuzz", FUZZ, read::fuzz_overalloc).bars(Most(0.0), Most(0.0)),
    row("id.refused", Real, "chaos-identities", "synod chaos identities", read::refused)
        .bars(Clean(14), Clean(14)),
    row("flood.kept", Real, "chaos-flood", FLOOD, read::flood_kept).bars(Least(50.0), Least(80.0)),
    row("flood.rss", Real, "chaos-flood", FLOOD, read::flood_memory)
        .bars(MostEach(&[("rss_growth", 268_435_456.0)]), Within("rss_growth", "formula")),
    row("ubft.flat", Simulated, "sim-run-ubft-flat", "synod sim run --scenario ubft-flat", read::nothing)
        .bars(Most(0.0), Most(0.0))
        .missing(),
    row("chaos.hours", Real, "chaos-run", CHAOS, read::chaos_hours).bars(Least(0.1), Least(24.0)).summed(),
    row("chaos.kills", Real, "chaos-run", CHAOS, read::chaos_kills).bars(Least(100.0), Least(1e4)).summed(),
    row("chaos.audit", Real, "chaos-run", CHAOS, read::chaos_audit).bars(NOTHING_LOST, NOTHING_LOST),
    row("chaos.first_commit", Real, "chaos-run", CHAOS, read::first_commit).bars(Printed, Most(200.0)),
    row("chaos.restart_to_vote", Real, "chaos-run", CHAOS, read::restart_to_vote)
        .bars(Printed, Most(2_000.0)),
    row("power.cuts", Real, "chaos-power", POWER, read::power_cuts).bars(Least(50.0), Least(1e3)).summed(),
    row("power.violations", Real, "chaos-power", POWER, read::power_violations).bars(Most(0.0), Most(0.0)),
    row("power.order", Real, "chaos-power", POWER, read::power_order).bars(Most(0.0), Most(0.0)),
    row("shrink.p50", Simulated, "sim-shrink", "synod sim shrink --all", read::shrunk)
        .bars(Most(200.0), Most(60.0))
        .planted(),
    row("parity", Real, "tests", GATE, read::parity).bars(All, All),
    row("contract", Real, "tests", GATE, read::contract).bars(All, All),
    row("supply.advisories", Static, "supply", SUPPLY, read::advisories).bars(Most(0.0), Most(0.0)),
    row("supply.crates", Static, "supply", SUPPLY, read::crates).bars(CRATES, CRATES),
    row("lint.unsafe", Static, "supply", SUPPLY, read::unsafe_code).bars(Most(0.0), Most(0.0)),
    row("lint.allows", Static, "supply", SUPPLY, read::allows).bars(Most(20.0), Most(20.0)),
    row("lint.plants_in_release", Static, "supply", SUPPLY, read::planted).bars(Most(0.0), Most(0.0)),
];

/// Rows that every commit must meet, because `.ci/run` checks what they count.
pub(crate) const COMMIT: &[&str] = &["parity", "contract", "lint.unsafe"];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn keys_are_unique_and_demands_do_not_fall() {
        let keys: BTreeSet<&str> = ROWS.iter().map(|row| row.key).collect();
        assert_eq!(keys.len(), ROWS.len());
        for row in ROWS {
            if let (Some(Least(first)), Least(release)) = (row.first, row.release) {
                assert!(first <= release, "{}", row.key);
            }
            if let (Some(Most(first)), Most(release)) = (row.first, row.release) {
                assert!(first >= release, "{}", row.key);
            }
        }
        assert!(COMMIT.iter().all(|key| keys.contains(key)));
    }

    #[test]
    fn the_starred_plants_of_what_is_built_are_those_of_the_registry() {
        let text = include_str!("../../../../tests/plants.toml");
        let plants = synod_trial::plants::registry(text).expect("the registry is read");
        let starred = plants.iter().filter(|plant| plant.is_starred()).count();
        assert_eq!(starred as u64, STARRED_BUILT);
    }
}
