//! Fresh seeds, spread over the four packs and both sizes; one in ten runs twice.
//!
//! `SYNOD_SEED` (hexadecimal) is the first seed, which the gate derives from the commit, so that a failure comes again;
//! `SYNOD_SEEDS` is how many there are.

use synod_trial::report::Failure;
use synod_trial::soak::{SoakOptions, soak};
use synod_trial::token::Token;

/// About 15 s of two cores in the dev profile.
const SEEDS: u64 = 200;
/// Where the seeds begin when nobody says otherwise.
const FIRST: u64 = 0x5eed_0001;

/// The number in a variable of the environment, if it is set.
fn number(name: &str, radix: u32) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let digits = text.trim_start_matches("0x");
    Some(u64::from_str_radix(digits, radix).unwrap_or_else(|_| unreachable!("{name} is no number: {text}")))
}

/// The command that runs one failed seed again.
fn again(failure: &Failure) -> String {
    match failure.token.parse::<Token>() {
        Ok(Token { system, seed, options, .. }) => {
            format!("synod sim run --system {system} --seed {seed:#x} --options \"{options}\"")
        }
        Err(bad) => bad.to_string(),
    }
}

#[test]
fn fresh_seeds_break_nothing() {
    let first = number("SYNOD_SEED", 16).unwrap_or(FIRST);
    let seeds = number("SYNOD_SEEDS", 10).unwrap_or(SEEDS);
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let options = SoakOptions { jobs, twice_every: 10, ..SoakOptions::new("hotstuff", first, seeds) };
    let (report, columns) = soak(&options).expect("hotstuff is a system");
    println!(
        "seeds {first:#x} and following: {} seeds, {} events, {} commands, {} virtual seconds in {} ms; rules {} of {}, \
         effective {:?}, {} repeats",
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
        println!("again: {}", again(failure));
    }
    if !report.failures.is_empty() {
        println!(
            "all again: SYNOD_SEED={first:x} SYNOD_SEEDS={seeds} cargo test -p synod-scenarios fresh_seeds"
        );
    }
    assert_eq!((report.clean, report.seeds), (seeds, seeds), "failures are listed above");
    assert!(report.repeats.run >= seeds / 11 && report.executed > seeds, "hardly anything happened");
}

#[test]
fn a_failed_seed_names_the_command_that_runs_it_again() {
    let token = "hotstuff/chain2+order:5eed008c:n=4@any".to_owned();
    let failure = Failure { token, checker: "H-L4".to_owned(), what: String::new() };
    let command = "synod sim run --system hotstuff/chain2+order --seed 0x5eed008c --options \"n=4\"";
    assert_eq!(again(&failure), command);
}
