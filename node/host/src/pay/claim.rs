//! Whose index a file is, and how far it has to be: without the right one, names of payments are forgotten and paid twice.
//!
//! The node's log says how far: a replica lets go of what settled once its index has it on disk, so the index has at least that,
//! and at most all that settled.

use std::path::Path;

use synod_config::{SynError, code};
use synod_crypto::Hash;
use synod_machine::broadcast::Position;
use synod_service::{Change, StateStore as _};
use synod_store::{Options, Pace, Store};
use synod_wire::Bytes;

use super::Seat;
use super::older;
use super::rows::key;

/// The file in the node's data directory.
const FILE: &str = "pay.redb";
/// Where the file is written anew when an earlier release wrote it.
const ANEW: &str = "pay.redb.new";
/// How rows are laid out: behind the name of whose they are. Earlier releases wrote none.
const LAYOUT: u8 = 2;

/// What a node knows of its index before it opens it.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The cluster.
    pub cluster: Hash,
    /// The member, by its number among all.
    pub member: u32,
    /// Its shard, and its number there.
    pub seat: Seat,
    /// The position up to which the index has everything.
    pub kept: u64,
    /// The position that it has not passed.
    pub last: u64,
}

/// What the mark of a file says.
enum Mark {
    /// There is none, and nothing else.
    Nothing,
    /// An earlier release wrote the file.
    Older,
    /// This one did, or one that lays rows out as it does.
    Own,
}

impl Claim {
    /// Whose this node's index is.
    pub(super) fn owner(&self) -> Vec<u8> {
        self.cluster.0.into_iter().chain(self.member.to_be_bytes()).collect()
    }

    /// The mark of this node's index.
    fn mark(&self) -> (Bytes, Bytes) {
        (key(b'm', &[]), self.owner().into_iter().chain([LAYOUT]).collect())
    }

    /// Opens the file, or makes it where there has been none. What an earlier release wrote is written anew first.
    pub(super) fn open(&self, data: &Path) -> Result<Store, SynError> {
        let path = data.join(FILE);
        if self.kept > 0 && !path.exists() {
            return Err(unfit(&path, &format!("it is missing, and had {} entries", self.kept)));
        }
        let mut store = open(&path)?;
        match self.judge(&path, &store)? {
            Mark::Own => {}
            Mark::Nothing => {
                let (key, mark) = self.mark();
                store.commit(Position(0), vec![Change::Put(key, mark)]);
            }
            Mark::Older => {
                self.rewrite(data, store)?;
                store = open(&path)?;
                self.judge(&path, &store)?;
            }
        }
        Ok(store)
    }

    /// Whose a file is, and whether it is as far as this node's log says.
    fn judge(&self, path: &Path, store: &Store) -> Result<Mark, SynError> {
        let (owner, position) = (self.owner(), store.position().0);
        let known = store.get(&self.mark().0);
        let mark = match known.as_ref().map(|known| known.strip_prefix(&*owner)) {
            None if position == 0 && store.bytes() == 0 => Mark::Nothing,
            None | Some(Some([])) => Mark::Older,
            Some(Some([LAYOUT])) => Mark::Own,
            Some(Some(_)) => return Err(unfit(path, "a newer release wrote it")),
            Some(None) => return Err(unfit(path, "it is the index of another node")),
        };
        if (self.kept..=self.last).contains(&position) {
            return Ok(mark);
        }
        let Self { kept, last, .. } = self;
        let problem = format!(
            "it has {position} entries, and by the journal of this node it has at least {kept} and at most {last}"
        );
        Err(unfit(path, &problem))
    }

    /// Puts an index with the same content in the place of one that an earlier release wrote. Until it is whole, the old one stays.
    fn rewrite(&self, data: &Path, old: Store) -> Result<(), SynError> {
        let (path, anew) = (data.join(FILE), data.join(ANEW));
        let unfit = |problem: &str| unfit(&path, problem);
        tracing::warn!(
            entries = old.position().0,
            "an earlier release wrote the index of payments: it is written anew"
        );
        let failed = |error: std::io::Error| unfit("it cannot be written anew").because(error);
        if anew.exists() {
            std::fs::remove_file(&anew).map_err(failed)?;
        }
        older::rewrite(old, &anew, (self.seat, self.mark())).map_err(|why| {
            unfit(&format!("an earlier release wrote it, and it cannot be written anew: {why}"))
        })?;
        std::fs::rename(&anew, &path).map_err(failed)?;
        std::fs::File::open(data).and_then(|folder| folder.sync_all()).map_err(failed)
    }

    /// The refusal of a file in whose rows something is missing.
    pub(super) fn damaged(data: &Path) -> SynError {
        unfit(&data.join(FILE), "some of its rows are missing or cannot be read")
    }
}

fn open(path: &Path) -> Result<Store, SynError> {
    let fatal = Box::new(|error: &synod_store::Error| {
        tracing::error!(%error, "the index of payments cannot be written: the node ends");
        std::process::exit(9);
    });
    let options = Options { pace: Pace::Each, fatal, ..Options::default() };
    Store::open(path, options).map_err(|error| unfit(path, "it cannot be opened").because(error))
}

fn unfit(path: &Path, problem: &str) -> SynError {
    SynError::of(code::PAY_INDEX, &[("file", &path.display().to_string()), ("problem", problem)])
}
