//! Cells: a case under a protocol, and what came of it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::Serialize;

use super::{disks, lives};
use crate::run::SYSTEMS as PACKS;

/// The protocols of which every case has a cell.
pub const PROTOCOLS: [&str; 5] = ["hotstuff", "chopchop", "astro", "ubft", "picsou"];

/// The cases: number, what is lost, what must come of it.
pub const CASES: [(&str, &str, &str); 9] = [
    ("M1", "the tail is lost after a sync that lied", "halts by what its peers show"),
    ("M2", "the image is rolled back", "halts by what its peers show"),
    ("M3", "two live instances of one key", "the second is refused"),
    ("M4", "disks are swapped between two nodes", "refuses to start"),
    ("M5", "wiped, the same key", "listens"),
    ("M6", "a message crashes it between send and sync", "nothing is sent without its record"),
    ("M7", "no space exactly at the promise", "ends before it sends"),
    ("M8", "the vote slot or the log is damaged", "repaired from the log, or listens"),
    ("M9", "an older program on newer records", "refuses to start"),
];

/// One case under one protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cell {
    /// The case.
    pub case: &'static str,
    /// The protocol.
    pub system: String,
    /// Whether everything came about that must.
    pub passed: bool,
    /// What came about, in a few words.
    pub outcome: String,
    /// What was seen that speaks for it, or against it.
    pub why: String,
}

impl Cell {
    /// The cell of a case that ran.
    #[must_use]
    pub fn of(case: &'static str, system: &str, ran: Result<String, String>) -> Self {
        let must = CASES.iter().find(|(name, ..)| *name == case).map_or("", |(_, _, must)| *must);
        let (passed, outcome, why) = match ran {
            Ok(why) => (true, must.to_owned(), why),
            Err(why) => (false, "fails".to_owned(), why),
        };
        Self { case, system: system.to_owned(), passed, outcome, why }
    }

    /// The cell of a protocol that does not exist yet: not passed, and not run.
    #[must_use]
    pub fn not_built(case: &'static str, system: &str) -> Self {
        let why = "this protocol has no machines yet".to_owned();
        Self { case, system: system.to_owned(), passed: false, outcome: "not built".to_owned(), why }
    }
}

/// A case under one pack of HotStuff; none where it needs sockets.
fn of_pack(case: &str, pack: &str) -> Option<Result<String, String>> {
    Some(match case {
        "M1" => lives::lied_to(pack),
        "M2" => lives::rolled_back(pack),
        "M4" => disks::swapped(),
        "M5" => lives::wiped(pack),
        "M6" => lives::poisoned(pack),
        "M7" => lives::full(pack),
        "M8" => disks::damaged(pack),
        "M9" => disks::newer(pack),
        _ => return None,
    })
}

/// The cell of a case under HotStuff, in all its packs; none where the case needs sockets.
fn of_hotstuff(case: &'static str) -> Option<Cell> {
    let mut seen = String::new();
    for pack in PACKS {
        let ran = catch_unwind(AssertUnwindSafe(|| of_pack(case, pack)));
        let outcome = match ran {
            Ok(None) => return None,
            Ok(Some(outcome)) => outcome,
            Err(_) => Err("an oracle fired or a machine panicked; the text is on standard error".to_owned()),
        };
        match outcome {
            Ok(why) => seen = why,
            Err(why) => return Some(Cell::of(case, "hotstuff", Err(format!("{pack}: {why}")))),
        }
    }
    Some(Cell::of(case, "hotstuff", Ok(format!("{seen}; all {} packs", PACKS.len()))))
}

/// The cells of these protocols and cases. `beside` runs those that need sockets.
pub fn cells(
    protocols: &[&str],
    cases: &[&'static str],
    mut beside: impl FnMut(&'static str) -> Result<String, String>,
) -> Vec<Cell> {
    let mut cells = Vec::new();
    for protocol in protocols {
        for case in cases {
            cells.push(match *protocol {
                "hotstuff" => of_hotstuff(case).unwrap_or_else(|| Cell::of(case, "hotstuff", beside(case))),
                other => Cell::not_built(case, other),
            });
        }
    }
    cells
}
