//! `synod node inspect votes`: what the replica promised, from its records in the journal, and what others can check
//! of it.

use crate::cluster::unwritable;
use crate::layout;
use crate::output::Report;
use crate::proof::Proof;
use crate::verbs::config::Source;
use clap::Args;
use std::path::{Path, PathBuf};
use synod_config::hex;
use synod_config::{Genesis, SynError, code};
use synod_hotstuff::{Anchor, Mark, Qc, Record, Safety};
use synod_journal::record::{Decoded, Kind, decode};
use synod_journal::segment::{self, Header};
use synod_machine::Record as _;
use synod_wire::{Bytes, Limits, Wire as _};

/// The replica's lane: the executor's is the one behind it.
const LANE: u8 = 0;

/// What the node voted for, proposed, gave up and is locked on; and the newest certificate or certified state it keeps.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod node inspect votes --data cluster/n0")]
pub(super) struct Arguments {
    #[command(flatten)]
    source: Source,
    /// Writes the certified state, or else the newest certificate, as a proof that `client verify` checks.
    #[arg(long, value_name = "FILE")]
    proof: Option<PathBuf>,
}

/// The newest of each kind.
#[derive(Default)]
struct Newest {
    safety: Option<Safety>,
    certificate: Option<Qc>,
    anchor: Option<Anchor>,
    records: u64,
}

impl Newest {
    fn add(&mut self, record: Record) {
        self.records += 1;
        match record {
            Record::Safety(safety) => self.safety = Some(safety),
            Record::Qc(qc) if self.certificate.as_ref().is_none_or(|known| known.view <= qc.view) => {
                self.certificate = Some(qc);
            }
            Record::Checkpoint(anchor) => self.anchor = Some(anchor),
            _ => {}
        }
    }
}

impl Arguments {
    pub(super) fn report(self) -> Result<Report, SynError> {
        let config = self.source.effective()?.config()?;
        let directory = layout::journal(&self.source.data.join(&config.node.data_dir));
        let newest = read(&directory)?;
        if let Some(file) = &self.proof {
            let genesis = Genesis::read(&self.source.data.join(&config.node.genesis))?;
            newest.proof(&genesis)?.write(file)?;
        }
        Ok(newest.report())
    }
}

impl Newest {
    fn proof(&self, genesis: &Genesis) -> Result<Proof, SynError> {
        match (&self.anchor, &self.certificate) {
            (Some(anchor), _) => Ok(Proof::new("checkpoint", genesis, &anchor.encode())),
            (None, Some(qc)) => Ok(Proof::new("certificate", genesis, &qc.encode())),
            (None, None) => Err(SynError::of(code::PROOF_UNAVAILABLE, &[("what", "the node")])
                .because("it has not kept a certificate yet")),
        }
    }

    fn report(&self) -> Report {
        let mark = |mark: &Mark| format!("view {} block {}", mark.view.0, short(&mark.digest.0));
        let said = |of: fn(&Safety) -> &Mark| self.safety.as_ref().map(|safety| mark(of(safety)));
        Report::new("synod-votes/1")
            .field("records", self.records)
            .field("voted", said(|safety| &safety.voted))
            .field("proposed", said(|safety| &safety.proposed))
            .field("ordered", said(|safety| &safety.ordered))
            .field("complained", self.safety.as_ref().map(|safety| safety.complained.0))
            .field("lock", said(|safety| &safety.lock))
            .field(
                "certificate",
                self.certificate
                    .as_ref()
                    .map(|qc| format!("view {} block {}", qc.view.0, short(&qc.digest.0))),
            )
            .field(
                "checkpoint",
                self.anchor
                    .as_ref()
                    .map(|anchor| format!("position {}", anchor.certificate.state().position.0)),
            )
    }
}

fn short(digest: &[u8]) -> String {
    hex(digest.get(..8).unwrap_or(digest))
}

fn read(directory: &Path) -> Result<Newest, SynError> {
    let entries = std::fs::read_dir(directory).map_err(|error| unwritable(directory, &error))?;
    let mut segments = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| unwritable(directory, &error))?;
        segments.extend(
            entry.file_name().to_str().and_then(segment::number_of).map(|number| (number, entry.path())),
        );
    }
    segments.sort();
    let mut newest = Newest::default();
    for (_, path) in segments {
        read_one(&path, &mut newest)?;
    }
    Ok(newest)
}

/// Reads the records of one segment for as long as checksums and chain hold; what is damaged behind that is
/// `inspect wal`'s to tell.
fn read_one(path: &Path, newest: &mut Newest) -> Result<(), SynError> {
    let bytes = std::fs::read(path).map_err(|error| unwritable(path, &error))?;
    let damaged = |offset: u64, why: &str| {
        let values = [("segment", &*path.display().to_string()), ("offset", &*offset.to_string())];
        SynError::of(code::JOURNAL_CORRUPT, &values).because(why)
    };
    let header = Header::decode(&bytes).map_err(|_| damaged(0, "its header cannot be used"))?;
    let (mut at, mut chain) = (segment::data_at(header.lanes), header.chain);
    while let Some(rest) = usize::try_from(at).ok().and_then(|at| bytes.get(at..)) {
        let Decoded::Record(found) = decode(header.seed(), rest) else { break };
        if !found.follows(chain) {
            break;
        }
        chain = found.chain;
        if found.head.kind == Kind::Record && found.head.lane == LANE {
            let record = match found.body.split_first() {
                Some((&Record::VERSION, body)) => {
                    Record::decode(Bytes::copy_from_slice(body), &Limits::default())
                }
                _ => return Err(damaged(at, "a record of the replica has another version")),
            };
            newest.add(record.map_err(|_| damaged(at, "a record of the replica does not decode"))?);
        }
        at = at.saturating_add(u64::try_from(found.size).unwrap_or(u64::MAX));
    }
    Ok(())
}
