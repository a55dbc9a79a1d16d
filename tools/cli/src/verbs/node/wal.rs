//! `synod node inspect wal`: what the journal holds, segment by segment, without opening it.
//!
//! Each segment is read alone: its header, then records for as long as checksums and chain hold. A compacted
//! journal may keep older segments for their blobs; they are listed like the others.

use crate::cluster::unwritable;
use crate::layout;
use crate::output::Report;
use crate::verbs::config::Source;
use clap::Args;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use synod_config::hex;
use synod_config::{Code, SynError, code};
use synod_journal::record::{Decoded, Kind, decode};
use synod_journal::segment::{self, BadHeader, Header, Origin};

/// The journal's segments, or every record of them.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod node inspect wal --data cluster/n0")]
pub(super) struct Arguments {
    #[command(flatten)]
    source: Source,
    /// Lists records instead of segments.
    #[arg(long)]
    records: bool,
}

/// One record as it is listed.
struct Line {
    offset: u64,
    kind: Kind,
    lane: u8,
    group: u32,
    lsn: u64,
    durable: u64,
    bytes: usize,
}

/// What a segment holds.
struct Contents {
    header: Header,
    lines: Vec<Line>,
    /// Where reading stopped, and why.
    end: u64,
    state: &'static str,
}

impl Arguments {
    pub(super) fn report(self) -> Result<Report, SynError> {
        let config = self.source.effective()?.config()?;
        let directory = layout::journal(&self.source.data.join(&config.node.data_dir));
        let segments = read_all(&directory)?;
        let Some(newest) = segments.values().next_back() else {
            let values = [("segment", &*directory.display().to_string()), ("offset", "0")];
            return Err(SynError::of(code::JOURNAL_CORRUPT, &values).because("there is no segment"));
        };
        let report = Report::new("synod-wal/1")
            .field("directory", directory.display().to_string())
            .field("cluster", hex(&newest.header.cluster))
            .field("member", newest.header.member)
            .field("lanes", newest.header.lanes)
            .field("damaged_lanes", newest.header.damaged.count_ones());
        Ok(if self.records { records(report, &segments) } else { summaries(report, &segments) })
    }
}

fn read_all(directory: &Path) -> Result<BTreeMap<u64, Contents>, SynError> {
    let mut segments = BTreeMap::new();
    for entry in std::fs::read_dir(directory).map_err(|error| unwritable(directory, &error))? {
        let entry = entry.map_err(|error| unwritable(directory, &error))?;
        if let Some(number) = entry.file_name().to_str().and_then(segment::number_of) {
            segments.insert(number, read_one(&entry.path())?);
        }
    }
    Ok(segments)
}

fn read_one(path: &Path) -> Result<Contents, SynError> {
    let bytes = std::fs::read(path).map_err(|error| unwritable(path, &error))?;
    let header = Header::decode(&bytes).map_err(|bad| refused(path, bad))?;
    let mut contents =
        Contents { end: segment::data_at(header.lanes), header, lines: Vec::new(), state: "open" };
    let mut chain = contents.header.chain;
    while let Some(rest) = usize::try_from(contents.end).ok().and_then(|at| bytes.get(at..)) {
        match decode(contents.header.seed(), rest) {
            Decoded::Record(found) if found.follows(chain) => {
                chain = found.chain;
                contents.lines.push(Line {
                    offset: contents.end,
                    kind: found.head.kind,
                    lane: found.head.lane,
                    group: found.head.group,
                    lsn: found.head.lsn,
                    durable: found.head.durable,
                    bytes: found.body.len(),
                });
                if found.head.kind == Kind::Mark && found.body.len() == 8 {
                    contents.state = "sealed";
                }
                contents.end = contents.end.saturating_add(u64::try_from(found.size).unwrap_or(u64::MAX));
            }
            Decoded::Nothing => break,
            Decoded::Record(_) => return Ok(Contents { state: "chain broken", ..contents }),
            Decoded::Broken { .. } => return Ok(Contents { state: "torn or damaged", ..contents }),
            Decoded::Unknown => return Ok(Contents { state: "newer record", ..contents }),
        }
    }
    Ok(contents)
}

fn refused(path: &Path, bad: BadHeader) -> SynError {
    let shown = path.display().to_string();
    let number: Code = match bad {
        BadHeader::Newer => code::FORMAT_NEWER,
        BadHeader::Damaged => code::JOURNAL_CORRUPT,
    };
    let known = layout::DATA_FORMAT.to_string();
    let values =
        [("file", &*shown), ("segment", &*shown), ("offset", "0"), ("found", "newer"), ("known", &*known)];
    SynError::of(number, &values).because("its header cannot be used")
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Record => "record",
        Kind::Blob => "blob",
        Kind::Erase => "erase",
        Kind::Mark => "mark",
    }
}

fn summaries(report: Report, segments: &BTreeMap<u64, Contents>) -> Report {
    let rows = segments.values().map(|held| {
        let count = |kind| Value::from(held.lines.iter().filter(|line| line.kind == kind).count());
        let origin = match held.header.origin {
            Origin::Continued => "continued",
            Origin::Compacted => "compacted",
            Origin::Restarted => "restarted",
        };
        vec![
            Value::from(held.header.number),
            Value::from(origin),
            Value::from(held.header.first),
            Value::from(held.lines.last().map(|line| line.lsn)),
            Value::from(held.lines.iter().map(|line| line.durable).max()),
            count(Kind::Record),
            count(Kind::Blob),
            count(Kind::Erase),
            count(Kind::Mark),
            Value::from(held.end),
            Value::from(held.state),
        ]
    });
    let columns = [
        "segment",
        "origin",
        "first_lsn",
        "last_lsn",
        "durable",
        "records",
        "blobs",
        "erases",
        "marks",
        "end",
        "state",
    ];
    report.list("segments", &columns, rows.collect())
}

fn records(report: Report, segments: &BTreeMap<u64, Contents>) -> Report {
    let mut rows = Vec::new();
    for (number, held) in segments {
        rows.extend(held.lines.iter().map(|line| {
            vec![
                Value::from(*number),
                Value::from(line.offset),
                Value::from(word(line.kind)),
                Value::from(line.lane),
                Value::from(line.group),
                Value::from(line.lsn),
                Value::from(line.durable),
                Value::from(line.bytes),
            ]
        }));
    }
    let columns = ["segment", "offset", "kind", "lane", "group", "lsn", "durable", "bytes"];
    report.list("records", &columns, rows)
}
