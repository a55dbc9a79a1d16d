//! Real servers behind the adapters: `cargo run -p synod-xtask --example servers -- redis|memcached [SLOTS] [SEED]`.
//!
//! Starts three servers of the kind on Unix sockets in a directory of their own, and asks two of them the same slots of drawn
//! commands through their adapters; in the middle the third takes over the state of the first. Every reply must be equal,
//! and the roots after each slot of sixteen. The second Redis keeps small values in another form than the first, so
//! that the order of its sets, and how it stores them, differ. Ends with 0 only if all of that held.

mod link;
mod memcached;
mod redis;
mod run;

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, usual: u64| words.get(at).map_or(Some(usual), |word| word.parse().ok());
    let (Some(kind), Some(slots), Some(seed)) = (words.first(), number(1, 400), number(2, 7)) else {
        eprintln!("servers: say redis or memcached, then a number of slots and a seed");
        return ExitCode::from(2);
    };
    let ran = match kind.as_str() {
        "redis" => redis::run(slots, seed),
        "memcached" => memcached::run(slots, seed),
        other => {
            eprintln!("servers: there is no kind `{other}`");
            return ExitCode::from(2);
        }
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("servers: {why:#}");
            ExitCode::FAILURE
        }
    }
}
