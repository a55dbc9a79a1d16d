//! Fresh seeds, spread over the four packs and both sizes; one in ten runs twice.
//!
//! `SYNOD_SEED` (hexadecimal) chooses the first seed, `SYNOD_SEEDS` how many there are.

use synod_trial::soak::{SoakOptions, soak};

/// About 10 s of two cores in the dev profile.
const SEEDS: u64 = 136;
/// Where the seeds begin when nobody says otherwise.
const FIRST: u64 = 0x5eed_0001;

#[test]
fn fresh_seeds_break_nothing() {
    let first = std::env::var("SYNOD_SEED").ok().and_then(|text| u64::from_str_radix(&text, 16).ok());
    let seeds = std::env::var("SYNOD_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS);
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let options =
        SoakOptions { jobs, twice_every: 10, ..SoakOptions::new("hotstuff", first.unwrap_or(FIRST), seeds) };
    let (report, columns) = soak(&options).expect("hotstuff is a system");
    println!(
        "{} seeds, {} events, {} commands, {} virtual seconds in {} ms; rules {} of {}, effective {:?}, {} repeats",
        report.seeds,
        report.events,
        report.executed,
        report.virtual_s,
        report.wall_ms,
        report.rules.hit,
        report.rules.of,
        report.effective_pct,
        report.repeats.run,
    );
    for (failure, columns) in report.failures.iter().zip(&columns) {
        println!("{} {}: {}\n{columns}", failure.token, failure.checker, failure.what);
    }
    assert_eq!((report.clean, report.seeds), (seeds, seeds), "failures are listed above");
    assert!(report.repeats.run >= seeds / 11 && report.executed > seeds, "hardly anything happened");
}
