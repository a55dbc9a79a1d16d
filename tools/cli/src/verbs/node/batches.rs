//! `synod node inspect directory|batch|height`: what a server of Chop Chop holds, from its journal alone.
//!
//! *What is known offline.* The store's lane says which batches are kept and which heights they took; the server's lane
//! holds the directory of the last durable checkpoint. Sign-ups above that height are followed here as the server would
//! follow them, as far as their bodies are kept.

use super::lanes::{blobs, records};
use crate::layout;
use crate::output::Report;
use crate::session::usage;
use crate::verbs::config::Source;
use clap::Args;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use synod_chopchop::batch::Batch;
use synod_chopchop::content::{AnyBatch, AnyHeader};
use synod_chopchop::directory::{Directory, MemberChunk};
use synod_chopchop::server::{Mark, ServerRecord};
use synod_chopchop::store::{Pinned, StoreRecord};
use synod_config::hex;
use synod_config::{Genesis, SynError, code};
use synod_crypto::Hash;
use synod_hotstuff::Record;
use synod_wire::Bytes;

/// The server's lane and the store's; the application's is between them.
const SERVER_LANE: u8 = 0;
const STORE_LANE: u8 = 2;
/// Rows that are listed.
const ROWS: usize = 64;
/// Heights whose sign-ups are read in one walk over the journal.
const TOGETHER: usize = 1_024;
/// Digits of a digest that name a batch.
const DIGITS_MIN: usize = 8;

/// The clients that a server knows: those of the genesis and those who signed up.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod node inspect directory --data cluster/n0")]
pub(super) struct DirectoryOf {
    #[command(flatten)]
    source: Source,
    /// The first number that is listed; at most 64 are.
    #[arg(long, value_name = "ID", default_value_t = 0)]
    from: u32,
}

/// One batch that a server keeps: its header, where it stands in the order, its entries.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod node inspect batch --data cluster/n0")]
pub(super) struct BatchOf {
    /// Its digest, or the first 8 digits or more; without it, the one that was kept last.
    digest: Option<String>,
    #[command(flatten)]
    source: Source,
}

/// The batch that took a height.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod node inspect height 2 --data cluster/n0")]
pub(super) struct HeightOf {
    /// The height; the first batch behind the genesis takes 2.
    height: u64,
    #[command(flatten)]
    source: Source,
}

fn damaged(journal: &Path, why: &str) -> SynError {
    let values = [("segment", &*journal.display().to_string()), ("offset", "?")];
    SynError::of(code::JOURNAL_CORRUPT, &values).because(why)
}

/// Gives the blobs of these names, as far as they are there.
type Read<'a> = dyn FnMut(&BTreeSet<Hash>) -> Result<BTreeMap<Hash, Bytes>, SynError> + 'a;

/// What the store's lane says.
#[derive(Default)]
struct Kept {
    pinned: BTreeMap<Hash, Pinned>,
    /// In the order in which they were kept.
    order: Vec<Hash>,
    heights: BTreeMap<u64, Hash>,
    released: BTreeSet<Hash>,
}

/// A server's files.
struct Server {
    genesis: Genesis,
    genesis_file: PathBuf,
    journal: PathBuf,
    kept: Kept,
}

impl Kept {
    fn add(&mut self, record: StoreRecord) {
        match record {
            StoreRecord::Pinned(pinned) => {
                self.released.remove(&pinned.digest);
                self.order.push(pinned.digest);
                self.pinned.insert(pinned.digest, pinned);
            }
            StoreRecord::Released(digest) => drop(self.released.insert(digest)),
            StoreRecord::Ordered(ordered) => drop(self.heights.insert(ordered.height, ordered.digest)),
            StoreRecord::Silent(_) => {}
        }
    }

    /// The batches that took the heights behind `from`; a gap means that what a batch held is not known here.
    fn behind(&self, from: u64) -> Vec<(u64, &Pinned)> {
        let heights = self.heights.range(from + 1..).zip(from + 1..);
        let known = heights.map_while(|((height, digest), expected)| {
            self.pinned.get(digest).filter(|_| *height == expected).map(|pinned| (*height, pinned))
        });
        known.collect()
    }

    fn height(&self, digest: &Hash) -> Option<u64> {
        self.heights.iter().find(|(_, other)| *other == digest).map(|(height, _)| *height)
    }
}

impl Server {
    fn open(source: &Source) -> Result<Self, SynError> {
        let config = source.effective()?.config()?;
        let genesis_file = source.data.join(&config.node.genesis);
        let genesis = Genesis::read(&genesis_file)?;
        if genesis.chop().is_none() {
            let verb = format!("this of a node of protocol {}", genesis.cluster().protocol);
            return Err(SynError::of(code::UNSUPPORTED, &[("verb", &verb)]));
        }
        let journal = layout::journal(&source.data.join(&config.node.data_dir));
        let mut kept = Kept::default();
        records(&journal, STORE_LANE, |record| kept.add(record))?;
        Ok(Self { genesis, genesis_file, journal, kept })
    }

    fn body(&self, pinned: &Pinned) -> Result<Option<Bytes>, SynError> {
        let found = blobs(&self.journal, STORE_LANE, &BTreeSet::from([pinned.name]))?;
        Ok(found.into_values().next())
    }

    /// The last durable checkpoint.
    fn mark(&self) -> Result<Option<Mark>, SynError> {
        let mut last = None;
        records(&self.journal, SERVER_LANE, |record: ServerRecord<Record>| {
            if let ServerRecord::Mark(mark) = record {
                last = Some(mark);
            }
        })?;
        Ok(last)
    }

    fn damaged(&self, why: &str) -> SynError {
        damaged(&self.journal, why)
    }

    /// The directory of the last checkpoint, or of the genesis, and its height.
    fn settled(&self) -> Result<(Directory, u64), SynError> {
        let Some(mark) = self.mark()? else {
            return Ok((synod_host::chop::directory(&self.genesis, &self.genesis_file)?, 1));
        };
        let names = mark.directory.iter().copied().collect();
        let found = blobs(&self.journal, SERVER_LANE, &names)?;
        let chunk = |name: &Hash| found.get(name).and_then(|bytes| MemberChunk::decode(bytes)).map(Arc::new);
        let chunks = mark.directory.iter().map(chunk).collect::<Option<Vec<_>>>();
        let directory = chunks.and_then(Directory::restore);
        let directory = directory.ok_or_else(|| self.damaged("chunks of the directory are not there"))?;
        Ok((directory, mark.height))
    }

    /// The directory with the sign-ups above it, and the height up to which they were followed.
    fn directory(&self) -> Result<(Directory, u64, u64), SynError> {
        let (mut directory, from) = self.settled()?;
        let mut read = |names: &BTreeSet<Hash>| blobs(&self.journal, STORE_LANE, names);
        let reached = follow(&self.kept, &self.journal, (&mut directory, from), &mut read)?;
        Ok((directory, from, reached))
    }

    fn described(&self, digest: Hash) -> Result<Report, SynError> {
        let Some(pinned) = self.kept.pinned.get(&digest) else {
            return Err(usage(&format!("no batch {digest} is kept here")));
        };
        let body = self.body(pinned)?;
        let header = &pinned.header;
        let names = self.genesis.chop().map(|chop| chop.brokers.as_slice()).unwrap_or_default();
        let broker = usize::try_from(pinned.broker).ok().and_then(|at| names.get(at));
        let report = Report::new("synod-batch/1")
            .field("digest", digest.to_string())
            .field("height", self.kept.height(&digest))
            .field("released", self.kept.released.contains(&digest))
            .field("checked_here", pinned.sound)
            .field("broker", broker.map(|broker| broker.name.clone()))
            .field("expiry", header.expiry())
            .field("count", header.count())
            .field("body_bytes", header.body_len())
            .field("body_held", body.is_some());
        let Some(body) = body else { return Ok(report.field("kind", kind(header))) };
        let batch = AnyBatch { header: header.clone(), body };
        match header {
            AnyHeader::Messages(_) => self.messages(report, batch),
            AnyHeader::SignUp(_) => self.cards(report, batch),
        }
    }

    fn messages(&self, report: Report, batch: AnyBatch) -> Result<Report, SynError> {
        let sealed = batch.into_messages();
        let batch = sealed.and_then(|sealed| Batch::open(&sealed).ok());
        let batch = batch.ok_or_else(|| self.damaged("a body is none of its header"))?;
        let header = batch.header();
        Ok(report
            .field("kind", "messages")
            .field("k", header.k)
            .field("stragglers", header.stragglers)
            .field("voids", header.voids)
            .field("root", header.root.to_string())
            .list("entries", &["client", "k", "signed", "parity", "message"], entries(&batch)))
    }

    fn cards(&self, report: Report, batch: AnyBatch) -> Result<Report, SynError> {
        let cards = batch.into_sign_up().and_then(|batch| batch.cards().ok());
        let cards = cards.ok_or_else(|| self.damaged("a sign-up batch holds no cards"))?;
        let row = |card: &synod_chopchop::card::Card| {
            vec![Value::from(hex(&card.ed().0)), Value::from(hex(&card.bls().0))]
        };
        let rows = cards.iter().take(ROWS).map(row).collect();
        Ok(report.field("kind", "sign-up").list("cards", &["ed25519", "bls"], rows))
    }
}

/// Delivers sign-ups above `from` for as long as they are known, and gives the height reached. `read` walks the whole journal,
/// so it is asked for many bodies at once.
fn follow(
    kept: &Kept,
    journal: &Path,
    (directory, from): (&mut Directory, u64),
    read: &mut Read<'_>,
) -> Result<u64, SynError> {
    let mut reached = from;
    for part in kept.behind(from).chunks(TOGETHER) {
        let is_sign_up = |pinned: &Pinned| matches!(pinned.header, AnyHeader::SignUp(_));
        let names = part.iter().filter(|(_, pinned)| is_sign_up(pinned)).map(|(_, pinned)| pinned.name);
        let names: BTreeSet<Hash> = names.collect();
        let bodies = if names.is_empty() { BTreeMap::new() } else { read(&names)? };
        for (height, pinned) in part {
            if is_sign_up(pinned) {
                let Some(body) = bodies.get(&pinned.name).cloned() else { return Ok(reached) };
                let batch = AnyBatch { header: pinned.header.clone(), body }.into_sign_up();
                let cards = batch.and_then(|batch| batch.cards().ok());
                directory.deliver(&cards.ok_or_else(|| damaged(journal, "a sign-up batch holds no cards"))?);
            }
            reached = *height;
        }
    }
    Ok(reached)
}

/// The first entries, and who signed each: its client alone, all together, or for a void entry nobody.
fn entries(batch: &Batch) -> Vec<Vec<Value>> {
    let (header, columns) = (batch.header(), batch.columns());
    let alone: BTreeMap<u32, u64> = columns.stragglers().map(|one| (one.index, one.k)).collect();
    let voids: BTreeSet<u32> = columns.voids().collect();
    let row = |(index, entry): (u32, synod_chopchop::columns::Entry<'_>)| {
        let own = alone.get(&index);
        let signed = match own {
            Some(_) => "alone",
            None if voids.contains(&index) => "void",
            None => "together",
        };
        vec![
            Value::from(entry.id),
            Value::from(own.copied().unwrap_or(header.k)),
            Value::from(signed),
            Value::from(entry.parity),
            Value::from(hex(entry.message)),
        ]
    };
    (0_u32..).zip(columns.entries()).take(ROWS).map(row).collect()
}

const fn kind(header: &AnyHeader) -> &'static str {
    match header {
        AnyHeader::Messages(_) => "messages",
        AnyHeader::SignUp(_) => "sign-up",
    }
}

impl DirectoryOf {
    pub(super) fn report(self) -> Result<Report, SynError> {
        let server = Server::open(&self.source)?;
        let (directory, checkpoint, reached) = server.directory()?;
        let view = directory.view();
        let rows = (self.from..view.len()).take(ROWS).filter_map(|id| {
            let member = view.member(id)?;
            Some(vec![Value::from(id), Value::from(hex(&member.ed.0)), Value::from(hex(&member.bls.0))])
        });
        Ok(Report::new("synod-directory/1")
            .field("clients", view.len())
            .field("checkpoint_height", checkpoint)
            .field("height", reached)
            .list("list", &["id", "ed25519", "bls"], rows.collect()))
    }
}

impl BatchOf {
    pub(super) fn report(self) -> Result<Report, SynError> {
        let server = Server::open(&self.source)?;
        let digest = match &self.digest {
            None => *server.kept.order.last().ok_or_else(|| usage("no batch is kept here"))?,
            Some(digits) => named(&server.kept, digits)?,
        };
        server.described(digest)
    }
}

/// The one batch whose digest begins so.
fn named(kept: &Kept, digits: &str) -> Result<Hash, SynError> {
    if digits.len() < DIGITS_MIN {
        return Err(usage(&format!("a batch is named by {DIGITS_MIN} digits of its digest or more")));
    }
    let mut found = kept.pinned.keys().filter(|digest| digest.to_string().starts_with(digits));
    match (found.next(), found.next()) {
        (Some(digest), None) => Ok(*digest),
        (Some(_), Some(_)) => Err(usage(&format!("several batches begin with {digits}"))),
        (None, _) => Err(usage(&format!("no batch here begins with {digits}"))),
    }
}

impl HeightOf {
    pub(super) fn report(self) -> Result<Report, SynError> {
        let server = Server::open(&self.source)?;
        let Some(digest) = server.kept.heights.get(&self.height) else {
            let highest = server.kept.heights.keys().next_back().copied().unwrap_or(1);
            return Err(usage(&format!("no batch of height {} is known here", self.height))
                .because(format!("the highest is {highest}")));
        };
        server.described(*digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synod_chopchop::batch::{OwnedEntry, Plan, Seal};
    use synod_chopchop::signup::SignUpHeader;
    use synod_chopchop::statement::BlsSignatureBytes;
    use synod_chopchop::store::Ordered;
    use synod_quorum::Epoch;

    fn pinned(digest: u8) -> StoreRecord {
        let header = SignUpHeader { broker: 0, count: 1, epoch: Epoch(0), expiry: 9 };
        let header = AnyHeader::SignUp(header);
        let (digest, name) = (Hash([digest; 32]), Hash([9; 32]));
        StoreRecord::Pinned(Pinned { digest, name, header, broker: 0, sound: true })
    }

    #[test]
    fn a_batch_is_named_by_digits_that_no_other_begins_with() {
        let mut kept = Kept::default();
        kept.add(pinned(0xab));
        kept.add(pinned(0xac));
        assert_eq!(named(&kept, "abababab"), Ok(Hash([0xab; 32])));
        for bad in ["ab", "abababac", &"00".repeat(32)] {
            assert_eq!(named(&kept, bad).map_err(|error| error.code()), Err(code::BAD_USAGE), "{bad}");
        }
        kept.pinned.insert(Hash([0xab; 32]).with_last(1), kept.pinned[&Hash([0xab; 32])].clone());
        assert!(named(&kept, "abababab").is_err(), "two begin so");
    }

    #[test]
    fn heights_and_releases_are_read_in_the_order_written() {
        let mut kept = Kept::default();
        kept.add(pinned(1));
        kept.add(StoreRecord::Ordered(Ordered { digest: Hash([1; 32]), height: 2 }));
        kept.add(StoreRecord::Released(Hash([1; 32])));
        assert_eq!(kept.height(&Hash([1; 32])), Some(2));
        assert!(kept.released.contains(&Hash([1; 32])));
        kept.add(pinned(1));
        assert!(!kept.released.contains(&Hash([1; 32])), "kept again");
    }

    #[test]
    fn sign_ups_behind_the_checkpoint_are_read_in_one_walk_up_to_the_first_gap() {
        let mut kept = Kept::default();
        for height in [2, 3, 4, 6] {
            kept.add(pinned(height));
            kept.add(StoreRecord::Ordered(Ordered { digest: Hash([height; 32]), height: height.into() }));
        }
        assert_eq!(kept.behind(1).iter().map(|(height, _)| *height).collect::<Vec<_>>(), [2, 3, 4]);
        assert_eq!(kept.behind(2).len(), 2);
        for (height, pinned) in (0_u8..).zip(kept.pinned.values_mut()) {
            pinned.name = Hash([height; 32]);
        }
        let journal = PathBuf::from("journal");
        let mut asked = Vec::new();
        let mut directory = Directory::restore(Vec::new()).expect("a directory of nobody");
        let reached = follow(&kept, &journal, (&mut directory, 1), &mut |names| {
            asked.push(names.len());
            Ok(BTreeMap::new())
        });
        assert_eq!((reached, asked), (Ok(1), vec![3]), "one walk for three batches, whose bodies are gone");
    }

    #[test]
    fn nobody_signed_a_void_entry() {
        let cluster = synod_load::chop::cluster();
        let plan = Plan { broker: 0, msg_size: 1, epoch: cluster.epoch(), k: 5, expiry: 9, directory: 10 };
        let entry = |id: u32| OwnedEntry { id, message: Bytes::from_static(b"m"), parity: false };
        let seal = Seal::new(plan, (0..3).map(entry).collect()).with_voids(vec![1]);
        let sealed = seal.seal(cluster.domains(), Some(BlsSignatureBytes::ZERO)).expect("a sound batch");
        let rows = entries(&Batch::open(&sealed).expect("a sound batch"));
        let signed: Vec<&Value> = rows.iter().map(|row| &row[2]).collect();
        assert_eq!(signed, ["together", "void", "together"]);
    }

    trait WithLast {
        fn with_last(self, byte: u8) -> Self;
    }

    impl WithLast for Hash {
        fn with_last(mut self, byte: u8) -> Self {
            self.0[31] = byte;
            self
        }
    }
}
