//! Many seeds over several threads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Number;

use crate::cells;
use crate::draw;
use crate::plants::cpu;
use crate::report::{Failure, Outcome, Repeats, RunReport, SoakReport};
use crate::rules;
use crate::run::{SYSTEMS, commit, run_scenario, run_twice};
use crate::systems::{astro, chopchop, ubft};
use crate::token::{RunOptions, Token};

/// What to soak.
#[derive(Clone, Debug)]
pub struct SoakOptions {
    /// The systems, one after the other per seed.
    pub systems: Vec<String>,
    /// The first seed.
    pub from: u64,
    /// How many seeds.
    pub seeds: u64,
    /// Stop taking seeds after this long.
    pub time_max: Option<Duration>,
    /// Threads.
    pub jobs: usize,
    /// Stop at the first failure.
    pub first: bool,
    /// One seed in this many runs twice; 0 for none.
    pub twice_every: u64,
    /// Options of every run.
    pub options: RunOptions,
}

impl SoakOptions {
    /// `seeds` seeds of a system from `from` on, one in a hundred twice; a bare protocol stands for its production systems, `all`
    /// for those of HotStuff, Chop Chop, Astro and uBFT.
    #[must_use]
    pub fn new(system: &str, from: u64, seeds: u64) -> Self {
        let systems = match system {
            "astro" => astro::SYSTEMS.iter().map(|name| (*name).to_owned()).collect(),
            "chopchop" => chopchop::SYSTEMS.iter().map(|name| (*name).to_owned()).collect(),
            "ubft" => ubft::SYSTEMS.iter().map(|name| (*name).to_owned()).collect(),
            "hotstuff" => SYSTEMS.iter().map(|name| (*name).to_owned()).collect(),
            "all" => {
                let others = astro::SYSTEMS.iter().chain(&ubft::SYSTEMS);
                let all = SYSTEMS.iter().chain(&chopchop::SYSTEMS).chain(others);
                all.map(|name| (*name).to_owned()).collect()
            }
            one => vec![one.to_owned()],
        };
        Self {
            systems,
            from,
            seeds,
            time_max: None,
            jobs: 1,
            first: false,
            twice_every: 100,
            options: RunOptions::default(),
        }
    }
}

/// What the threads share.
struct Pile<'a> {
    options: &'a SoakOptions,
    next: AtomicU64,
    stop: AtomicBool,
    started: Instant,
    sums: Mutex<Sums>,
}

#[derive(Default)]
struct Sums {
    seeds: u64,
    failures: Vec<Failure>,
    columns: Vec<String>,
    events: u64,
    executed: u64,
    virtual_ms: u64,
    by_distance: BTreeMap<&'static str, (u64, u64)>,
    faults: Vec<u64>,
    families: BTreeSet<String>,
    effective: [u64; 3],
    node_ms: u64,
    cpu: Duration,
    cells: BTreeSet<String>,
    applied: BTreeSet<&'static str>,
    repeats: Repeats,
    counts: BTreeMap<&'static str, u64>,
}

/// Runs many seeds. The second value holds the last events of each failure, in the order of `failures`.
///
/// # Errors
/// A system is unknown.
pub fn soak(options: &SoakOptions) -> Result<(SoakReport, Vec<String>), String> {
    for system in &options.systems {
        draw::scenario(system, options.from, &options.options)?;
    }
    let pile = Pile {
        options,
        next: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        started: Instant::now(),
        sums: Mutex::default(),
    };
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.max(1) {
            scope.spawn(|| work(&pile));
        }
    });
    let elapsed = pile.started.elapsed();
    let sums = pile.sums.into_inner().map_err(|_| "a thread of the soak panicked".to_owned())?;
    Ok(summed(options, sums, elapsed))
}

fn work(pile: &Pile<'_>) {
    let options = pile.options;
    loop {
        let number = pile.next.fetch_add(1, Ordering::Relaxed);
        let late = options.time_max.is_some_and(|most| pile.started.elapsed() >= most);
        if number >= options.seeds || late || pile.stop.load(Ordering::Relaxed) {
            return;
        }
        let seed = options.from.wrapping_add(number);
        let at = usize::try_from(number % options.systems.len().max(1) as u64).unwrap_or(0);
        let Some(system) = options.systems.get(at) else { return };
        let twice = options.twice_every > 0
            && (number / options.systems.len() as u64).is_multiple_of(options.twice_every);
        let before = cpu();
        let Ok(report) = one(system, seed, &options.options, twice) else { return };
        let spent = cpu().saturating_sub(before);
        if options.first && !report.passed() {
            pile.stop.store(true, Ordering::Relaxed);
        }
        if let Ok(mut sums) = pile.sums.lock() {
            sums.cpu += spent;
            sums.add(report, twice);
        }
    }
}

fn one(system: &str, seed: u64, options: &RunOptions, twice: bool) -> Result<RunReport, String> {
    let scenario = draw::scenario(system, seed, options)?;
    let token =
        Token { system: system.to_owned(), seed, options: options.clone(), commit: commit() }.to_string();
    if twice {
        run_twice(&scenario, &token)
    } else {
        run_scenario(&scenario, &token, crate::run::Manner::default())
    }
}

impl Sums {
    fn add(&mut self, report: RunReport, twice: bool) {
        self.seeds += 1;
        self.events += report.events;
        self.executed += report.executed;
        self.virtual_ms += report.virtual_ms;
        let kind = if report.wan { "wan" } else { "lan" };
        let (virtual_ms, wall_ms) = self.by_distance.entry(kind).or_default();
        *virtual_ms += report.virtual_ms;
        *wall_ms += report.wall_ms;
        self.node_ms += report.virtual_ms * u64::from(report.nodes);
        self.cells.extend(report.cells.iter().cloned());
        self.faults.push(report.faults);
        let effective = report.effective;
        let flags = [effective.view_change, effective.lost_suffix, effective.byzantine];
        self.effective.iter_mut().zip(flags).for_each(|(sum, flag)| *sum += u64::from(flag));
        self.applied.extend(report.applied.iter().copied());
        for (name, count) in &report.counts {
            *self.counts.entry(name).or_insert(0) += count;
        }
        self.families.extend(report.families.iter().cloned());
        self.repeats.run += u64::from(twice);
        self.repeats.mismatch += u64::from(report.verdict == Outcome::Nondeterminism);
        if report.verdict != Outcome::Pass {
            let RunReport { token, checker, what, columns, .. } = report;
            self.failures.push(Failure { token, checker, what });
            self.columns.push(columns);
        }
    }
}

/// Three in `seeds`, to the millionth, as a number of JSON.
fn bound(seeds: u64) -> (Number, u64) {
    let ppm = 3_000_000_u64.checked_div(seeds).unwrap_or(1_000_000).min(1_000_000);
    let text = format!("{}.{:06}", ppm / 1_000_000, ppm % 1_000_000);
    let number = text.parse().ok().and_then(Number::from_f64);
    (number.unwrap_or_else(|| Number::from(1)), ppm)
}

/// How the three respects are shared out, in percent.
fn shares([views, suffixes, lies]: [u64; 3], seeds: u64) -> BTreeMap<&'static str, u64> {
    let share = |count: u64| (count * 100).checked_div(seeds).unwrap_or(0);
    BTreeMap::from([
        ("view_change", share(views)),
        ("lost_suffix", share(suffixes)),
        ("byzantine", share(lies)),
    ])
}

/// Rules that the systems of a soak can apply, and those they did.
fn covered(options: &SoakOptions, applied: &[&str]) -> crate::report::Coverage {
    let any = |is: fn(&str) -> bool| options.systems.iter().any(|system| is(system));
    let mut sum = rules::coverage(&options.systems, applied);
    let others = [
        any(chopchop::is).then(|| chopchop::run::coverage(applied)),
        any(ubft::is).then(|| ubft::run::coverage(applied)),
        any(astro::is).then(|| {
            let known = options.systems.iter().map(String::as_str).filter(|system| astro::is(system));
            astro::run::coverage(&known.collect::<Vec<_>>(), applied)
        }),
    ];
    for other in others.into_iter().flatten() {
        (sum.hit, sum.of) = (sum.hit + other.hit, sum.of + other.of);
        sum.missed.extend(other.missed);
    }
    sum
}

fn summed(options: &SoakOptions, mut sums: Sums, elapsed: Duration) -> (SoakReport, Vec<String>) {
    let wall_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX).max(1);
    let failed = sums.failures.len() as u64;
    sums.faults.sort_unstable();
    let applied: Vec<&str> = sums.applied.iter().copied().collect();
    let (bound_per_seed, bound_per_seed_ppm) = bound(sums.seeds);
    let cpu_ms = u64::try_from(sums.cpu.as_millis()).unwrap_or(u64::MAX).max(1);
    let rate = |(virtual_ms, wall): &(u64, u64)| virtual_ms / (*wall).max(1);
    let report = SoakReport {
        schema: "synod-sim-soak/1",
        from: options.from,
        next: options.from.wrapping_add(sums.seeds),
        seeds: sums.seeds,
        clean: sums.seeds - failed,
        seeds_per_s: sums.seeds * 1_000 / wall_ms,
        events_per_s: sums.events * 1_000 / wall_ms,
        virtual_h: sums.virtual_ms / 3_600_000,
        virtual_s: sums.virtual_ms / 1_000,
        virtual_per_real: sums.by_distance.iter().map(|(kind, times)| (*kind, rate(times))).collect(),
        faults_p50: sums.faults.get(sums.faults.len() / 2).copied().unwrap_or(0),
        families_active: sums.families.len() as u64,
        effective_pct: shares(sums.effective, sums.seeds),
        node_h_per_cpu_h: sums.node_ms / cpu_ms,
        cells: cells::summed(&options.systems, &sums.cells),
        rules: covered(options, &applied),
        repeats: sums.repeats,
        bound_per_seed,
        bound_per_seed_ppm,
        wall_ms,
        events: sums.events,
        executed: sums.executed,
        failures: sums.failures,
        counts: sums.counts,
    };
    (report, sums.columns)
}
