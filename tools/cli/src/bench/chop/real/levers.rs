//! What single levers of the path give: each does the same work with and without the lever, in turn, in this process, once the run
//! is over.
//!
//! Both ways are there by name: the slow one is the reference that the fast one is tested against. So no server, broker or client
//! has a switch for them. A figure is of the lever alone: caches, other work beside it and waiting are those of this process.

use crate::exit::bug;
use serde_json::{Value, json};
use std::hint::black_box;
use std::time::{Duration, Instant};
use synod_chopchop::Domains;
use synod_chopchop::columns::Entry;
use synod_chopchop::tree::{EntryProof, EntryTree, Proven, TreeShape};
use synod_config::SynError;
use synod_crypto::{Hash, HashKey};
use synod_service::lanes::{Cells, NEAR, Space as _};
use synod_wire::Drawn;

/// Turns of both ways; the middle one of each counts.
const TURNS: usize = 9;
/// Datagrams that are read or sent together, and how often in a turn.
const BURST: u32 = 64;
const BURSTS: u32 = 256;
/// Bytes of a short datagram and of one near the longest that is hashed side by side.
const SIZES: [usize; 2] = [192, 960];
/// Entries of the tree whose paths are looked at.
const ENTRIES: u32 = 16_384;
/// Accounts, and senders of a batch among them: more than a cache holds.
const ACCOUNTS: u32 = 1 << 22;
const SENDERS: u32 = 65_536;
/// What every account holds at first.
const GRANT: u64 = 1_000;

/// How the work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    With,
    Without,
}

/// Measures every lever: what one piece of its work takes, and which way each figure is of.
///
/// # Errors
/// The two ways of a lever do not give the same.
pub(super) fn measure() -> Result<Value, SynError> {
    let differ = |lever: &str| bug("bench", &format!("{lever}: both ways do not give the same"));
    let mut all = Vec::new();
    for size in SIZES {
        let took = tags(size).ok_or_else(|| differ("tags"))?;
        all.push(row(["tags of datagrams", "side by side", "one by one"], &format!("{size} B"), took));
    }
    let took = paths(ENTRIES).ok_or_else(|| differ("paths"))?;
    let of = format!("path of a tree of {ENTRIES} messages");
    all.push(row(["paths that a load client checks", "each digest once", "each path alone"], &of, took));
    let took = senders(ACCOUNTS).ok_or_else(|| differ("senders"))?;
    let of = format!("debit of one of {ACCOUNTS} accounts");
    all.push(row(["accounts of senders", "asked for ahead", "read when needed"], &of, took));
    Ok(all.into())
}

/// One lever's line: what it is, both ways in words, what a figure is of, nanoseconds with and without.
fn row([lever, with, without]: [&str; 3], of: &str, took: [f64; 2]) -> Value {
    let hundredths = |value: f64| (value * 100.0).round() / 100.0;
    let [ns, ns_without] = took;
    json!({
        "lever": lever, "of": of, "with": with, "without": without,
        "ns": hundredths(ns), "ns_without": hundredths(ns_without),
        "speedup": hundredths(ns_without / ns.max(1e-9)),
    })
}

/// Nanoseconds per piece, with and without, of work that is done in turn; it is told the way and which time it is.
fn compared(pieces: u32, mut work: impl FnMut(Way, usize)) -> [f64; 2] {
    let mut timed = |way, time| {
        let begin = Instant::now();
        work(way, time);
        begin.elapsed()
    };
    let (mut with, mut without): (Vec<Duration>, Vec<Duration>) = (Vec::new(), Vec::new());
    for turn in 0..TURNS {
        with.push(timed(Way::With, 2 * turn));
        without.push(timed(Way::Without, 2 * turn + 1));
    }
    [with, without].map(|mut all| {
        all.sort_unstable();
        let middle = all.get(all.len() / 2).copied().unwrap_or_default();
        middle.as_secs_f64() * 1e9 / f64::from(pieces)
    })
}

/// Tags of datagrams of `size` bytes, each under the key of its own link, per datagram; none if one tag differs.
fn tags(size: usize) -> Option<[f64; 2]> {
    let keys: Vec<HashKey> =
        (0..BURST).map(|link| HashKey::derive("synod bench link", &link.to_le_bytes())).collect();
    let body: Vec<u8> = (0..=250).cycle().take(size).collect();
    let burst: Vec<(&HashKey, &[u8])> = keys.iter().map(|key| (key, body.as_slice())).collect();
    let alone = || burst.iter().map(|(key, body)| key.tag(&[body])).collect::<Vec<_>>();
    if HashKey::tag_each(&burst) != alone() {
        return None;
    }
    let took = compared(BURST * BURSTS, |way, _| {
        for _ in 0..BURSTS {
            black_box(if way == Way::With { HashKey::tag_each(black_box(&burst)) } else { alone() });
        }
    });
    Some(took)
}

/// Paths of all entries of a tree, in the order of their clients, per path; none if one does not hold.
fn paths(count: u32) -> Option<[f64; 2]> {
    let domains = Domains::of(&Hash::of(b"synod bench levers"));
    let entry = |id: u32| (id < count).then_some(Entry { id, message: b"8 bytes.", parity: false });
    let shape = TreeShape { count, msg_size: 8 };
    let tree = EntryTree::grow(&domains, shape, (0..count).filter_map(entry));
    let proofs: Vec<EntryProof> = (0..count).map(|at| tree.prove(at, entry)).collect::<Option<_>>()?;
    let entries: Vec<Entry<'_>> = (0..count).filter_map(entry).collect();
    let (root, mut sound) = (tree.root(), true);
    let took = compared(count, |way, _| {
        let (all, mut proven) = (proofs.iter().zip(&entries), Proven::new(shape, root));
        let held = match way {
            Way::With => all.filter(|(proof, entry)| proven.proves(&domains, proof, entry)).count(),
            Way::Without => {
                all.filter(|(proof, entry)| proof.root(&domains, &shape, entry) == Some(root)).count()
            }
        };
        sound &= held == proofs.len();
    });
    sound.then_some(took)
}

/// Debits of the senders of a batch, whose ids rise by strides that no processor foresees, per debit; none if money is missing.
fn senders(accounts: u32) -> Option<[f64; 2]> {
    let mut cells = Cells::<u64>::default();
    cells.begin(0, accounts as usize);
    for place in 0..accounts as usize {
        if let Some(cell) = cells.get_mut(place) {
            *cell = GRANT;
        }
    }
    // Every time has senders of its own: none of them is in a cache because the other way has just been there.
    let (mut draw, share) = (Drawn::new(5), accounts / SENDERS.min(accounts));
    let mut stride = |at: u32| at * share + u32::try_from(draw.below(u64::from(share))).unwrap_or(0);
    let count = accounts / share;
    let batches: Vec<Vec<u32>> = (0..2 * TURNS).map(|_| (0..count).map(&mut stride).collect()).collect();
    let took = compared(count, |way, time| {
        let mut pieces = batches.get(time).map_or(&[][..], Vec::as_slice).chunks(NEAR).peekable();
        while let Some(piece) = pieces.next() {
            if let Some(next) = pieces.peek().filter(|_| way == Way::With) {
                cells.near(next.iter().copied().map(u64::from));
            }
            for id in piece {
                let place = cells.place(u64::from(*id));
                if let Some(cell) = cells.get_mut(place) {
                    *cell -= 1;
                }
            }
        }
    });
    let spent: u64 = batches.iter().map(|batch| batch.len() as u64).sum();
    let left: u64 = cells.all().iter().sum();
    (left + spent == GRANT * u64::from(accounts)).then_some(took)
}

#[cfg(test)]
mod tests {
    use super::{Way, compared, paths, row, senders, tags};

    #[test]
    fn both_ways_of_every_lever_do_the_same_work() {
        for took in [tags(192), tags(960), tags(1_100), paths(1), paths(77), senders(1_000), senders(200_000)]
        {
            let took = took.expect("the same");
            assert!(took.iter().all(|ns| *ns > 0.0), "{took:?}");
        }
    }

    #[test]
    fn ways_take_turns_and_each_time_is_another() {
        let mut seen = Vec::new();
        compared(1, |way, time| seen.push((way, time)));
        let wanted = (0..18).map(|time| (if time % 2 == 0 { Way::With } else { Way::Without }, time));
        assert_eq!(seen, wanted.collect::<Vec<_>>());
    }

    #[test]
    fn a_line_says_what_was_done_both_ways_and_how_much_faster_the_lever_is() {
        let line = row(["lever", "with", "without"], "piece", [2.0, 5.001]);
        assert_eq!((&line["ns"], &line["ns_without"]), (&2.0.into(), &5.0.into()));
        assert_eq!((&line["speedup"], &line["of"]), (&2.5.into(), &"piece".into()));
    }
}
