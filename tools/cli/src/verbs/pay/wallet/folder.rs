//! A wallet's directory: the owner's key, whose account it is, what it signed, and receipts.
//!
//! `key` moves the money, and `log/` says which entry stands at which place: without the log a second one could be signed for a place,
//! which can lock the account. So the log is a journal that is synced before anything leaves, one process has it at a time, and a wallet
//! without it signs nothing until somebody accepts that risk. `wallet.json` is written last: a directory without it never signed.

use crate::cluster::{from_journal, unwritable};
use crate::exit::bug;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use synod_config::{Genesis, NodeKey, SynError, code};
use synod_host::pay::wallet::Record;
use synod_host::pay::{AccountId, genesis};
use synod_journal::{Condition, Config, Journal, Keep, LaneLog, OsDisk};
use synod_machine::Record as _;
use synod_wire::{Bytes, Limits, Wire as _};

const SCHEMA: &str = "synod-wallet/1";
/// Longest `wallet.json` that is read.
const FILE_BYTES_MAX: u64 = 4 << 10;
/// Longest record: an entry of 64 legs takes a part of it.
const RECORD_BYTES_MAX: u32 = 64 << 10;
/// A log of 64 entries and a place.
const SEGMENT_BYTES: u64 = 256 << 10;

/// Whose account it is, as its file says.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    schema: String,
    cluster: String,
    account: String,
    ledger: u32,
}

/// See the module.
pub(super) struct Folder {
    path: PathBuf,
    pub(super) key: NodeKey,
    pub(super) account: AccountId,
    /// The ledger of the account.
    pub(super) ledger: u32,
}

/// The log of a wallet, which this process has until it ends, and its records.
pub(super) struct Log {
    pub(super) journal: Journal,
    pub(super) records: Vec<Record>,
}

/// A directory that is becoming a wallet.
pub(super) struct Begun {
    path: PathBuf,
    pub(super) key: NodeKey,
    /// Whether the key stood there: an earlier call got no further, and may have opened an account.
    pub(super) is_continued: bool,
}

impl Begun {
    /// Makes the directory and the key, or goes on where an earlier call was interrupted.
    ///
    /// # Errors
    /// SYN-1109 where a wallet is, SYN-1101 where the system refuses, and those of key files.
    pub(super) fn new(path: &Path) -> Result<Self, SynError> {
        if file(path).exists() {
            return Err(SynError::of(code::ALREADY_INITIALISED, &[("path", &path.display().to_string())]));
        }
        let failed = |error: std::io::Error| unwritable(path, &error);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new("."))).and_then(|file| file.sync_all()).map_err(failed)?;
        let at = path.join("key");
        let is_continued = at.exists();
        let key = if is_continued {
            NodeKey::read(&at)?
        } else {
            let key = NodeKey::generate()?;
            key.write_new(&at)?;
            key
        };
        Ok(Self { path: path.to_owned(), key, is_continued })
    }

    /// The wallet of an account that was opened with its key, and that nobody else signs for.
    ///
    /// # Errors
    /// Those of the journal, and SYN-1101.
    pub(super) fn of(self, of: &Genesis, account: AccountId, ledger: u32) -> Result<Folder, SynError> {
        let folder = Folder { path: self.path, key: self.key, account, ledger };
        folder.create_log(of)?;
        let Log { mut journal, records } = folder.open_log(of)?;
        if records.is_empty() {
            let representative = u8::try_from(account.registrar).unwrap_or(u8::MAX);
            let based = Record::Based { n: 0, head: genesis(account), representative };
            let at = folder.log();
            journal.append(0, Keep::Log, body(&based)).map_err(|error| from_journal(&error, &at))?;
            journal.sync().map_err(|error| from_journal(&error, &at))?;
        }
        let said = Said {
            schema: SCHEMA.to_owned(),
            cluster: of.id().to_string(),
            account: account.to_string(),
            ledger,
        };
        let text = serde_json::to_string(&said).map_err(|error| bug("wallet", &error))? + "\n";
        replace(&file(&folder.path), text.as_bytes())?;
        Ok(folder)
    }
}

impl Folder {
    /// Reads a wallet's directory.
    ///
    /// # Errors
    /// SYN-1101 where there is none, SYN-1110 for another format, SYN-1108 for a wallet of another cluster, and those of key files.
    pub(super) fn read(path: &Path, of: &Genesis) -> Result<Self, SynError> {
        let at = file(path);
        let shown = at.display().to_string();
        let unreadable = |why: &dyn std::fmt::Display| {
            SynError::of(code::CONFIG_UNREADABLE, &[("file", &shown)]).because(why)
        };
        let mut text = String::new();
        let opened = File::open(&at).map_err(|error| {
            unreadable(&error)
                .because("`synod pay wallet new` makes a wallet, and goes on where it was interrupted")
        })?;
        opened.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(|error| unreadable(&error))?;
        let said: Said = serde_json::from_str(&text).map_err(|error| unreadable(&error))?;
        if said.schema != SCHEMA {
            let values = [("file", &*shown), ("found", &*said.schema), ("known", SCHEMA)];
            return Err(SynError::of(code::FORMAT_NEWER, &values));
        }
        let mine = of.id().to_string();
        if mine != said.cluster {
            let path = path.display().to_string();
            let values = [("directory", &*path), ("path", &path), ("theirs", &said.cluster), ("mine", &mine)];
            return Err(SynError::of(code::FOREIGN_DATA_DIR, &values));
        }
        let account = said.account.parse().map_err(|why| unreadable(&why))?;
        let key = NodeKey::read(&path.join("key"))?;
        Ok(Self { path: path.to_owned(), key, account, ledger: said.ledger })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    fn config(&self, of: &Genesis) -> Config {
        Config {
            segment_bytes: SEGMENT_BYTES,
            salt: RandomState::new().hash_one(0),
            ..Config::new(of.id().0, self.account.registrar, 1)
        }
    }

    fn disk(&self) -> Result<Box<OsDisk>, SynError> {
        let at = self.log();
        OsDisk::open(&at).map(Box::new).map_err(|error| unwritable(&at, &error))
    }

    fn create_log(&self, of: &Genesis) -> Result<(), SynError> {
        match Journal::create(self.disk()?, &self.config(of)) {
            Ok(()) | Err(synod_journal::Error::AlreadyInitialised) => Ok(()),
            Err(error) => Err(from_journal(&error, &self.log())),
        }
    }

    /// Opens the log; nobody else can until this process ends.
    ///
    /// # Errors
    /// SYN-1112 where another process has it, SYN-5008 where it is gone or damaged, and those of the disk.
    pub(super) fn open_log(&self, of: &Genesis) -> Result<Log, SynError> {
        if !self.log().is_dir() {
            return Err(self.lost("it is gone"));
        }
        let opened = Journal::open(self.disk()?, self.config(of)).map_err(|error| match error {
            synod_journal::Error::Corrupt { .. } => self.lost("its segments are gone").because(error),
            error => from_journal(&error, &self.log()),
        })?;
        let lane = opened.lanes.into_iter().next();
        let LaneLog { condition, records } = lane.ok_or_else(|| self.lost("it has no lane"))?;
        if condition == Condition::Damaged {
            return Err(self.lost("it is damaged"));
        }
        let records: Option<Vec<Record>> = records.iter().map(read).collect();
        let records = records.ok_or_else(|| self.lost("it holds what no wallet wrote"))?;
        Ok(Log { journal: opened.journal, records })
    }

    /// Sets what is left of the log aside, and begins one that knows of nothing signed.
    ///
    /// # Errors
    /// SYN-1112 where another process has it, and SYN-1101.
    pub(super) fn renew_log(&self, of: &Genesis) -> Result<(), SynError> {
        let at = self.log();
        if at.is_dir() {
            if let Err(error @ synod_journal::Error::Locked { .. }) =
                Journal::open(self.disk()?, self.config(of))
            {
                return Err(from_journal(&error, &at));
            }
            let mut free = (1_u32..).map(|number| self.path.join(format!("log.{number}")));
            let aside = free.find(|aside| !aside.exists()).ok_or_else(|| bug("wallet", &"too many logs"))?;
            std::fs::rename(&at, aside).map_err(|error| unwritable(&at, &error))?;
        }
        self.create_log(of)
    }

    /// The refusal of a wallet that does not know what it signed.
    pub(super) fn lost(&self, problem: &str) -> SynError {
        let shown = self.log().display().to_string();
        SynError::of(code::WALLET_LOG, &[("file", &*shown), ("problem", problem)])
    }

    /// Where the receipt of a payment is kept.
    ///
    /// # Errors
    /// SYN-1101 if the system refuses.
    pub(super) fn receipt(&self, id: u128) -> Result<PathBuf, SynError> {
        let receipts = self.path.join("receipts");
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&receipts);
        made.map_err(|error| unwritable(&receipts, &error))?;
        Ok(receipts.join(format!("{id}.receipt")))
    }
}

fn file(path: &Path) -> PathBuf {
    path.join("wallet.json")
}

/// A record as the log has it.
pub(super) fn body(record: &Record) -> Bytes {
    let mut bytes = vec![Record::VERSION];
    bytes.extend_from_slice(&record.encode());
    bytes.into()
}

/// What [`body`] wrote.
fn read(body: &Bytes) -> Option<Record> {
    let rest = body.first().filter(|version| **version == Record::VERSION).map(|_| body.slice(1..))?;
    Record::decode(rest, &Limits { frame_max: RECORD_BYTES_MAX }).ok()
}

/// Puts a file of mode 0600 in the place of whatever stands there, as one durable step.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<(), SynError> {
    let next = path.with_extension("next");
    let write = || {
        let mut options = File::options();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&next)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&next, path)?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
    };
    write().map_err(|error: std::io::Error| unwritable(path, &error))
}
