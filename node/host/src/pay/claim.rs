//! Whose index a file is, and how far it has to be: without the right one, names of payments are forgotten and paid twice.
//!
//! The node's log says how far: a replica lets go of what settled once its index has it on disk, so the index has at least that,
//! and at most all that settled.

use std::path::Path;

use synod_config::{SynError, code};
use synod_crypto::Hash;
use synod_machine::broadcast::Position;
use synod_service::StateStore as _;
use synod_store::{Options, Pace, Reader, Store};
use synod_wire::Bytes;

use super::index::{PAGE_MAX, Rows, changes, key, open_hold, place, read_row};

/// The file in the node's data directory.
const FILE: &str = "pay.redb";

/// What a node knows of its index before it opens it.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The cluster.
    pub cluster: Hash,
    /// The member.
    pub member: u32,
    /// The position up to which the index has everything.
    pub kept: u64,
    /// The position that it has not passed.
    pub last: u64,
}

impl Claim {
    /// The mark of this node's index.
    pub(super) fn mark(&self) -> Bytes {
        self.cluster.0.into_iter().chain(self.member.to_be_bytes()).collect()
    }

    /// Opens the file, or makes it where there has been none.
    pub(super) fn open(&self, data: &Path) -> Result<Store, SynError> {
        let path = data.join(FILE);
        let unfit = |problem: &str| unfit(&path, problem);
        if self.kept > 0 && !path.exists() {
            return Err(unfit(&format!("it is missing, and had {} entries", self.kept)));
        }
        let fatal = Box::new(|error: &synod_store::Error| {
            tracing::error!(%error, "the index of payments cannot be written: the node ends");
            std::process::exit(9);
        });
        let options = Options { pace: Pace::Each, fatal, ..Options::default() };
        let mut store =
            Store::open(&path, options).map_err(|error| unfit("it cannot be opened").because(error))?;
        let position = store.position().0;
        let mark = key(b'm', &[]);
        let known = store.get(&mark);
        if known.as_ref().is_some_and(|known| *known != self.mark()) {
            return Err(unfit("it is the index of another node"));
        }
        if !(self.kept..=self.last).contains(&position) {
            let Self { kept, last, .. } = self;
            let problem = format!(
                "it has {position} entries, and by the journal of this node it has at least {kept} and at most {last}"
            );
            return Err(unfit(&problem));
        }
        if known.is_none() {
            let mut rows = holds(&store.reader());
            rows.insert(mark, Some(self.mark()));
            store.commit(Position(position), changes(rows));
        }
        if position > 0 && store.get(&key(b'p', &[&position.to_be_bytes()])).is_none() {
            number(&mut store, position);
        }
        Ok(store)
    }
}

/// Writes the places of entries by position, of an index that an earlier build wrote without such rows; the last one comes last.
fn number(store: &mut Store, position: u64) {
    let (reader, mut from) = (store.reader(), key(b'e', &[]));
    let mut last = Rows::new();
    loop {
        let page = reader.scan(&from, PAGE_MAX);
        let mut rows = Rows::new();
        for (place, row) in page.iter().filter(|(key, _)| key.starts_with(b"e")) {
            let (Some(turn), Some(place)) = (row.get(..8), place.get(1..)) else { continue };
            let rows = if turn == position.to_be_bytes() { &mut last } else { &mut rows };
            rows.insert(key(b'p', &[turn]), Some(Bytes::copy_from_slice(place)));
        }
        store.commit(Position(position), changes(rows));
        match page.last() {
            Some((last, _)) if last.starts_with(b"e") => from = last.iter().copied().chain([0]).collect(),
            _ => break,
        }
    }
    store.commit(Position(position), changes(last));
}

/// Open holds by their resolvers, of an index that an earlier build wrote without such rows and without a mark.
fn holds(reader: &Reader) -> Rows {
    let (mut rows, mut from) = (Rows::new(), key(b'e', &[]));
    loop {
        let page = reader.scan(&from, PAGE_MAX);
        for (_, row) in page.iter().filter(|(key, _)| key.starts_with(b"e")) {
            let Some(known) = read_row(row) else { continue };
            let is_decided = || reader.get(&key(b'x', &[&place(known.entry.id)])).is_some();
            if let Some(row) = open_hold(&known.entry).filter(|_| !is_decided()) {
                rows.insert(row, Some(Bytes::new()));
            }
        }
        match page.last() {
            Some((last, _)) if last.starts_with(b"e") => from = last.iter().copied().chain([0]).collect(),
            _ => return rows,
        }
    }
}

fn unfit(path: &Path, problem: &str) -> SynError {
    SynError::of(code::PAY_INDEX, &[("file", &path.display().to_string()), ("problem", problem)])
}
