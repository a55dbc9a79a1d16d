//! What a gate runs, with how long.

use std::path::Path;

use crate::mutants::mixed;

/// Which gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The first gate: 40 minutes.
    Full,
    /// A release: three hours, then chaos.
    Release,
}

impl Kind {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Release => "release",
        }
    }
}

/// A registered plant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plant {
    pub(super) id: String,
    /// Whether the registry says that no drawn run finds it.
    pub(super) is_open: bool,
}

/// The starred plants of what is built, as the first gate names them.
const STARRED: &[&str] = &[
    "H1", "H2", "H3", "H5", "H8", "H10", "H15", "C1", "C2", "C3", "C4", "C8", "A1", "A2", "A6", "U1", "U3",
    "U9",
];

/// One command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// Its name in the table and of its log.
    pub(super) name: String,
    /// The program and its arguments.
    pub(super) words: Vec<String>,
    /// Its time box, in seconds.
    pub(super) limit_s: u64,
    /// Whether it may be missing in this build: then asking it for help fails.
    pub(super) may_miss: bool,
}

/// Lanes that run at the same time, each its steps in order.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) name: &'static str,
    pub(super) lanes: Vec<Vec<Step>>,
}

impl Group {
    /// How many steps it has.
    pub(super) fn len(&self) -> usize {
        self.lanes.iter().map(Vec::len).sum()
    }
}

/// The groups of a gate, one after the other.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) groups: Vec<Group>,
}

/// Programs that the first group builds.
struct Programs {
    synod: String,
    /// The same that unwinds, for whatever simulates: there a panic is a finding and not the end of the run.
    sim: String,
    planted: String,
    xtask: String,
}

impl Plan {
    /// The plan of a gate at a commit, which draws seeds, mutants and the quarter of the plants.
    pub(super) fn of(kind: Kind, commit: &str, target: &Path, plants: &[Plant]) -> Self {
        let at = |path: &str| target.join(path).display().to_string();
        let xtask = std::env::current_exe()
            .map_or_else(|_| at("debug/synod-xtask"), |path| path.display().to_string());
        let (synod, sim, planted) = (at("release/synod"), at("soak/synod"), at("plant/soak/synod"));
        let programs = Programs { synod, sim, planted, xtask };
        let long = kind == Kind::Release;
        let groups = vec![
            builds(&programs),
            tests(&programs),
            seeds(&programs, long),
            searches(&programs, long, commit, plants),
            Group {
                name: "mutants",
                lanes: vec![vec![if long {
                    step("mutants", 7_200, &[&programs.xtask, "mutants", "--count", "200"])
                } else {
                    step("mutants", 480, &[&programs.xtask, "mutants", "--seconds", "360"])
                }]],
            },
            inputs_and_models(&programs, long, commit),
            attacks(&programs),
            processes(&programs, long),
        ];
        Self { groups }
    }
}

fn step(name: &str, limit_s: u64, words: &[&str]) -> Step {
    let words = words.iter().map(|word| (*word).to_owned()).collect();
    Step { name: name.to_owned(), words, limit_s, may_miss: false }
}

impl Step {
    fn or_missing(self) -> Self {
        Self { may_miss: true, ..self }
    }
}

/// A build from nothing takes longer than any other stage.
const COLD_S: u64 = 2_400;

fn builds(programs: &Programs) -> Group {
    let release =
        step("build release", COLD_S, &["cargo", "build", "--locked", "--release", "--package", "synod-cli"]);
    let sim = ["cargo", "build", "--locked", "--profile", "soak", "--package", "synod-cli"];
    let fuzz = [
        "cargo",
        "test",
        "--locked",
        "--release",
        "--package",
        "synod-fuzz",
        "--test",
        "campaign",
        "--no-run",
    ];
    let lane = vec![
        release,
        step("build soak", COLD_S, &sim),
        step("build plants", COLD_S, &[&programs.xtask, "plant", "--build"]),
        step("build fuzz", COLD_S, &fuzz),
        step("build mutants", COLD_S, &[&programs.xtask, "mutants", "--prepare"]),
    ];
    Group { name: "builds", lanes: vec![lane] }
}

fn tests(programs: &Programs) -> Group {
    let lane = vec![
        step("supply", 120, &[&programs.xtask, "supply"]),
        step("parity and contract", COLD_S, &[&programs.xtask, "gate-tests"]),
    ];
    Group { name: "supply and tests", lanes: vec![lane] }
}

fn seeds(programs: &Programs, long: bool) -> Group {
    let synod = programs.sim.as_str();
    let soak = |name, limit, words: &[&str]| {
        step(name, limit, &[&[synod, "sim", "soak", "--jobs", "2", "--system"], words].concat())
    };
    let twins = |limit, minutes| {
        let words = &[synod, "sim", "twins", "--system", "all", "--minutes", minutes, "--jobs", "2"];
        step("twins", limit, words)
    };
    let lane = if long {
        vec![
            soak("soak", 5_400, &["hotstuff", "--seeds", "10000"]),
            soak("soak of Chop Chop", 5_400, &["chopchop", "--seeds", "10000"]),
            soak("soak of Astro", 5_400, &["astro", "--seeds", "10000"]),
            soak("soak of uBFT", 5_400, &["ubft", "--seeds", "10000"]),
            twins(1_500, "5"),
        ]
    } else {
        vec![
            soak("soak", 240, &["hotstuff", "--minutes", "3"]),
            soak("soak of Chop Chop", 300, &["chopchop", "--seeds", "1000"]),
            soak("soak of Astro", 170, &["astro", "--seeds", "1000"]),
            soak("soak of uBFT", 170, &["ubft", "--seeds", "1000"]),
            twins(330, "1"),
        ]
    };
    Group { name: "seeds and twins", lanes: vec![lane] }
}

/// The starred plants and a quarter of the others, drawn by the commit; all for a release.
fn wanted(long: bool, commit: &str, plants: &[Plant]) -> Vec<String> {
    let others = plants.iter().filter(|plant| !plant.is_open && !STARRED.contains(&plant.id.as_str()));
    let mut others: Vec<&str> = others.map(|plant| plant.id.as_str()).collect();
    others.sort_by_key(|id| mixed(&[commit, id]));
    let count = if long { others.len() } else { others.len().div_ceil(4) };
    let starred = STARRED.iter().copied().filter(|id| plants.iter().any(|plant| plant.id == *id));
    starred.chain(others.into_iter().take(count)).map(str::to_owned).collect()
}

fn searches(programs: &Programs, long: bool, commit: &str, plants: &[Plant]) -> Group {
    let wanted = wanted(long, commit, plants);
    let (one, other) = wanted.split_at(wanted.len().div_ceil(2));
    let run = [programs.planted.as_str(), "sim", "plant", "run", "--cpu-s", "60"];
    let search = |lane: &str, ids: &[String], limit| {
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        step(&format!("plants, fresh seeds {lane}"), limit, &[run.as_slice(), &ids].concat())
    };
    let limit = if long { 3_600 } else { 400 };
    let replays = step("plants, replays", 300, &[run.as_slice(), &["--all", "--replays"]].concat());
    let mut first = vec![replays];
    first.push(search("1", one, limit));
    Group { name: "plants", lanes: vec![first, vec![search("2", other, limit)]] }
}

fn inputs_and_models(programs: &Programs, long: bool, commit: &str) -> Group {
    let (synod, planted) = (programs.sim.as_str(), programs.planted.as_str());
    let seed = (mixed(&[commit, "fuzz"]) >> 16).to_string();
    let seconds = if long { "3600" } else { "480" };
    let fuzz = step(
        "fuzz",
        if long { 4_800 } else { 600 },
        &[&programs.xtask, "fuzz", "--seconds", seconds, "--seed", &seed],
    );
    // With planted bugs, so that the controls of the models are looked for as well.
    let explore = if long {
        step("explore", 3_600, &[planted, "sim", "explore", "all", "--minutes", "15"])
    } else {
        step("explore", 300, &[planted, "sim", "explore", "all"])
    };
    let crash = [synod, "sim", "crash", "--system", "all"];
    let lane = vec![
        explore,
        step("crash points", 300, &crash).or_missing(),
        step("crash points, blocks", 300, &[crash.as_slice(), &["--blocks"]].concat()).or_missing(),
        step("crash points, payments", 300, &[synod, "sim", "crash", "--system", "astro", "--stride", "24"])
            .or_missing(),
        step("amnesia", 200, &[synod, "sim", "amnesia"]).or_missing(),
        // The stored replays fail with their planted bugs alone.
        step("shrink", 600, &[planted, "sim", "shrink", "--all", "--budget-s", "10"]).or_missing(),
    ];
    Group { name: "inputs and models", lanes: vec![vec![fuzz], lane] }
}

/// Alone on the machine: a flood is held against a run without one.
fn attacks(programs: &Programs) -> Group {
    let synod = programs.synod.as_str();
    let lane = vec![
        step("identities", 60, &[synod, "chaos", "identities"]).or_missing(),
        step("flood", 180, &[synod, "chaos", "flood", "--seconds", "60"]).or_missing(),
    ];
    Group { name: "attacks", lanes: vec![lane] }
}

fn processes(programs: &Programs, long: bool) -> Group {
    let synod = programs.synod.as_str();
    let mut lane = Vec::new();
    let mut other = vec![step("poison", 240, &[synod, "chaos", "poison"]).or_missing()];
    // Faults of all kinds, then as many more kills of leaders as the score wants.
    let mix = [synod, "chaos", "run", "--mix", "--minutes"];
    let often = ["--kill-mean", "500ms"];
    if long {
        other.push(step("power", 7_200, &[synod, "chaos", "power", "--cuts", "1000"]));
        // Three of them make the 24 hours and 10,000 kills that the score wants in the end.
        lane.push(step("chaos", 30_600, &[&mix[..], &["480", "--kills", "3400"], &often].concat()));
    } else {
        other.push(step("power", 600, &[synod, "chaos", "power", "--cuts", "50"]));
        lane.push(step("chaos", 1_000, &[&mix[..], &["5", "--kills", "100"], &often].concat()));
    }
    Group { name: "processes", lanes: vec![lane, other] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plants() -> Vec<Plant> {
        let plant = |id: String| Plant { is_open: id == "X3", id };
        let others = (0..20).map(|number| format!("X{number}"));
        STARRED.iter().map(|id| (*id).to_owned()).chain(others).map(plant).collect()
    }

    #[test]
    fn starred_plants_are_always_searched_and_a_quarter_of_the_others_by_commit() {
        let at = |commit: &str| wanted(false, commit, &plants());
        assert_eq!(at("5a9f7aa00112"), at("5a9f7aa00112"));
        assert_eq!(at("5a9f7aa00112").len(), STARRED.len() + 5, "a quarter of 19");
        assert!(STARRED.iter().all(|id| at("5a9f7aa00112").iter().any(|one| one == id)));
        let seen: std::collections::BTreeSet<String> =
            (0..40).flat_map(|n| at(&format!("{n:012x}"))).collect();
        assert_eq!(seen.len(), STARRED.len() + 19, "in time all but the open one");
        assert_eq!(wanted(true, "5a9f7aa00112", &plants()).len(), STARRED.len() + 19);
    }

    #[test]
    fn chaos_mixes_faults_and_kills_as_often_as_the_score_wants() {
        for (kind, least) in [(Kind::Full, 100), (Kind::Release, 10_000 / 3)] {
            let plan = Plan::of(kind, "5a9f7aa00112", Path::new("target"), &plants());
            let mut steps = plan.groups.iter().flat_map(|group| &group.lanes).flatten();
            let words = &steps.find(|step| step.name == "chaos").expect("there is one").words;
            assert!(words.iter().any(|word| word == "--mix"), "{words:?}");
            let at = words.iter().position(|word| word == "--kills").expect("kills are counted");
            assert!(words[at + 1].parse::<u32>().expect("a number") >= least, "{words:?}");
        }
    }

    #[test]
    fn what_simulates_unwinds_and_is_built_before() {
        for kind in [Kind::Full, Kind::Release] {
            let plan = Plan::of(kind, "5a9f7aa00112", Path::new("target"), &plants());
            let steps: Vec<&Step> = plan.groups.iter().flat_map(|group| &group.lanes).flatten().collect();
            let simulates = |step: &&&Step| step.words.get(1).is_some_and(|word| word == "sim");
            let programs: Vec<&str> = steps
                .iter()
                .filter(simulates)
                .filter_map(|step| step.words.first())
                .map(String::as_str)
                .collect();
            assert!(programs.len() > 8, "{programs:?}");
            assert!(programs.iter().all(|program| program.ends_with("soak/synod")), "{programs:?}");
            let built =
                steps.iter().position(|step| step.words.windows(2).any(|two| two == ["--profile", "soak"]));
            let first = steps.iter().position(|step| step.words.get(1).is_some_and(|word| word == "sim"));
            assert!(built.is_some() && built < first, "{built:?} {first:?}");
        }
    }

    #[test]
    fn a_full_gate_fits_its_time() {
        let plan = Plan::of(Kind::Full, "5a9f7aa00112", Path::new("target"), &plants());
        let boxes =
            |group: &Group| group.lanes.iter().map(|lane| lane.iter().map(|s| s.limit_s).sum::<u64>()).max();
        let measured = ["seeds and twins", "plants", "mutants"];
        let sum: u64 = plan.groups.iter().filter(|g| measured.contains(&g.name)).filter_map(boxes).sum();
        assert!(sum <= 2_400, "{sum} s of boxes");
        let names: Vec<&str> =
            plan.groups.iter().flat_map(|g| &g.lanes).flatten().map(|s| s.name.as_str()).collect();
        let different: std::collections::BTreeSet<&&str> = names.iter().collect();
        assert_eq!(different.len(), names.len(), "each has a log of its own");
        assert_eq!(plan.groups.iter().map(Group::len).sum::<usize>(), names.len());
    }
}
