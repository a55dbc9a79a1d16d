//! U-S5: memory is bounded by the formula, and does not grow with what was done, while one receiver says nothing.

use synod_machine::{Bounded as _, Span};
use synod_quorum::NodeId;
use synod_ubft::message::Message;
use synod_ubft::replica::ReplicaConfig;

use crate::town::Town;

/// Requests in flight: a session's window.
const WINDOW: usize = 16;
/// Requests in the suite.
const FEW: usize = 8_000;

/// Several snapshots, and an archive that is full many times.
fn often(settings: &mut ReplicaConfig) {
    settings.config.parameters.snapshot_slots = 64;
    settings.archive_bytes_max = 64 << 10;
}

/// `SYNOD_UBFT_REQUESTS=1000000` asks for so many.
#[expect(clippy::disallowed_methods, reason = "how long the run is is said by whoever runs the tests")]
fn requests() -> usize {
    std::env::var("SYNOD_UBFT_REQUESTS").map_or(FEW, |many| many.parse().expect("a number"))
}

/// Bytes of the process that are in memory.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split_whitespace().nth(1)?.parse::<u64>().ok());
    pages.map_or(0, |pages| pages * 4_096)
}

/// The most that a replica held in each part of a run.
#[derive(Default)]
struct Part {
    peak: [u64; 3],
    resident: u64,
}

#[test]
#[expect(clippy::print_stderr, reason = "the figures of a long run")]
fn u_s5_memory_is_flat_and_within_the_formula_while_one_replica_says_nothing() {
    let mut town = Town::new(3, 1, 5, often);
    town.be_brief();
    town.open();
    // It hears everything, and what it misses it gets from nobody.
    town.net.lies.insert(NodeId(2), Box::new(|_, _: &Message| None));
    town.liars.insert(NodeId(2));
    let (all, mut called, mut done) = (requests(), 0, 0);
    let mut parts: [Part; 4] = Default::default();
    let mut idle = 0;
    while done < all {
        while called < all && called - done < WINDOW {
            town.call(0, &format!("{called:032}"));
            called += 1;
        }
        town.pass(Span::micros(500));
        let (results, refused) = town.take_results(0);
        // Behind an old request that waits the session has no place.
        called -= refused;
        idle = if results > 0 { 0 } else { idle + 1 };
        assert!(idle < 20_000, "{done} of {all} are done, and no more: {}", town.describe());
        done += results;
        town.told.clear();
        let part = &mut parts[(done * 4 / all).min(3)];
        for (id, peak) in (0..).zip(&mut part.peak) {
            let replica = town.of(id);
            let (bytes, most) = (replica.bytes(), replica.bytes_max());
            assert!(bytes <= most, "{bytes} of {most} bytes at {id}");
            *peak = (*peak).max(bytes);
        }
        part.resident = part.resident.max(if results > 0 { resident() } else { 0 });
    }
    let most = town.of(0).bytes_max();
    let peaks: Vec<[u64; 3]> = parts.iter().map(|part| part.peak).collect();
    let in_memory: Vec<u64> = parts.iter().map(|part| part.resident >> 10).collect();
    eprintln!("{all} requests: peaks by quarter {peaks:?} of {most} bytes, {in_memory:?} KiB in memory");
    assert_eq!((town.executed(0), town.executed(1)), (all, all));
    assert!(town.count("A2.41_decide_slow") > 0 && town.of(0).snapshotted().0 > 0, "{}", town.describe());
    // The first quarter fills what is kept; a hundredth is what the lengths of numbers come to. Whoever gets nothing it misses holds
    // as much as windows and tails have room for, more or less.
    for (id, share) in [(0, 100), (1, 100), (2, 10)] {
        let (warm, last) = (parts[1].peak[id].max(parts[2].peak[id]), parts[3].peak[id]);
        assert!(last <= warm + warm / share, "replica {id} grew from {warm} to {last} bytes: {peaks:?}");
    }
}
