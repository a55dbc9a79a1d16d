//! A trader: a key, a session of the cluster, and the numbers of the requests that were given out.
//!
//! An order is named by its session and request, so a trader that wants to cancel an order later keeps both. The number of
//! a request is written down before it is sent: a request is sent once, and none has the number of another.

use crate::cluster::unwritable;
use crate::exit::bug;
use crate::serve::{client, client_setup};
use crate::session::{Session, home, no_context};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;
use synod_config::{Genesis, SynError, code, hex, unhex};
use synod_crypto::Seed;
use synod_host::{ClusterClient, Identity, Mode, Outcome};
use synod_orderbook::{Answer, Operation, Question, Reply, TraderId};
use synod_quorum::NodeId;
use synod_wire::{Bytes, Limits, Wire};

/// How long an operation may take, unless --timeout says otherwise.
const PATIENCE: Duration = Duration::from_secs(5);
const FILE: &str = "trader.json";
const LOCK: &str = "lock";
const SCHEMA: &str = "synod-trader/1";

/// What is written down.
#[derive(Clone, Serialize, Deserialize)]
struct Kept {
    schema: String,
    cluster: String,
    key: String,
    number: u64,
    /// None until the cluster has opened it.
    session: Option<u64>,
    /// The number of the last request that was given out.
    last: u64,
}

/// A trader whose directory nobody else has meanwhile.
pub(super) struct Trader {
    genesis: Genesis,
    home: PathBuf,
    kept: Kept,
    _lock: File,
}

fn genesis(session: &Session) -> Result<Genesis, SynError> {
    let genesis = crate::context::genesis(session)?.ok_or_else(no_context)?;
    let stated = genesis.cluster();
    if stated.app == crate::cluster::BOOK {
        return Ok(genesis);
    }
    let runs = format!("the cluster {} runs {} over {}", stated.name, stated.app, stated.protocol.as_str());
    Err(SynError::of(code::UNSUPPORTED, &[("verb", "book")]).because(runs))
}

fn place(genesis: &Genesis, stated: Option<&Path>) -> Result<PathBuf, SynError> {
    match stated {
        Some(path) => Ok(path.to_owned()),
        None => {
            let state = home("XDG_STATE_HOME", ".local/state", "the directory of traders")?;
            Ok(state.join("traders").join(genesis.id().to_string()))
        }
    }
}

fn damaged(path: &Path, why: impl std::fmt::Display) -> SynError {
    SynError::of(code::CONFIG_UNREADABLE, &[("file", &path.display().to_string())]).because(why)
}

impl Trader {
    /// Opens a trader's directory, which is made if there is none.
    ///
    /// # Errors
    /// SYN-1101 for a directory that cannot be written; SYN-1112 while another process has it.
    pub(super) fn open(session: &Session, stated: Option<&Path>) -> Result<Self, SynError> {
        let genesis = genesis(session)?;
        let home = place(&genesis, stated)?;
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&home);
        made.map_err(|error| unwritable(&home, &error))?;
        let path = home.join(LOCK);
        let lock = File::options().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let lock = lock.map_err(|error| unwritable(&path, &error))?;
        lock.try_lock().map_err(|_| {
            SynError::of(
                code::DATA_DIR_LOCKED,
                &[("directory", &home.display().to_string()), ("pid", "another")],
            )
        })?;
        let kept = match load(&home, &genesis)? {
            Some(kept) => kept,
            None => {
                let Identity { key, number, .. } = Identity::draw();
                let (cluster, key) = (genesis.id().to_string(), hex(key.expose()));
                Kept { schema: SCHEMA.to_owned(), cluster, key, number, session: None, last: 0 }
            }
        };
        Ok(Self { genesis, home, kept, _lock: lock })
    }

    /// Who the trader of a directory is.
    ///
    /// # Errors
    /// SYN-3014 where no order was placed from it yet.
    pub(super) fn known(session: &Session, stated: Option<&Path>) -> Result<TraderId, SynError> {
        let genesis = genesis(session)?;
        let home = place(&genesis, stated)?;
        let kept = load(&home, &genesis)?.and_then(|kept| kept.session);
        kept.map(TraderId).ok_or_else(|| {
            SynError::of(code::SESSION_UNKNOWN, &[("session", &home.display().to_string())])
                .because("no order was placed from this directory")
        })
    }

    /// Sends an operation; its number and the reply of f + 1 members.
    ///
    /// # Errors
    /// The code of a rejection; SYN-3501 if the outcome is unknown.
    pub(super) fn send(
        &mut self,
        session: &Session,
        operation: &Operation,
    ) -> Result<(u64, Reply), SynError> {
        self.kept.last += 1;
        self.write()?;
        let request = self.kept.last;
        let setup = client_setup(&self.genesis, "verified", NodeId(0), 1);
        let client = ClusterClient::connect_as(&setup, self.identity(request)?)?;
        let patience = session.timeout.unwrap_or(PATIENCE);
        let outcome = wait(&client, operation, Mode::Ordered, patience);
        if let Some(opened) = client.request(request)
            && self.kept.session.is_none()
        {
            self.kept.session = Some(opened.session);
            self.write()?;
        }
        let shown = format!("order {request} of {}", self.home.display());
        let value = outcome.and_then(|outcome| accepted(outcome, &shown, patience))?;
        let reply = Reply::decode(value, &Limits::default());
        reply.map(|reply| (request, reply)).map_err(|error| bug("reply", &error))
    }

    fn identity(&self, first: u64) -> Result<Identity, SynError> {
        let key = unhex(&self.kept.key).and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        let key = key.ok_or_else(|| damaged(&self.home.join(FILE), "its key is not 32 bytes"))?;
        Ok(Identity { key: Seed::new(key), number: self.kept.number, resume: self.kept.session, first })
    }

    /// Writes down what is known, so that it is on disk before anything is sent.
    fn write(&self) -> Result<(), SynError> {
        let text = serde_json::to_string(&self.kept).map_err(|error| bug("trader", &error))?;
        let (path, next) = (self.home.join(FILE), self.home.join("trader.json.new"));
        let written = File::options().write(true).create(true).truncate(true).mode(0o600).open(&next);
        let written = written.and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&next, &path)
        });
        written.map_err(|error| unwritable(&path, &error))
    }
}

fn load(home: &Path, genesis: &Genesis) -> Result<Option<Kept>, SynError> {
    let path = home.join(FILE);
    let mut text = String::new();
    match File::open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.and_then(|mut file| file.read_to_string(&mut text)),
    }
    .map_err(|error| damaged(&path, error))?;
    let kept: Kept = serde_json::from_str(&text).map_err(|error| damaged(&path, error))?;
    if kept.schema != SCHEMA {
        let values = [("file", &*path.display().to_string()), ("found", &*kept.schema), ("known", SCHEMA)];
        return Err(SynError::of(code::FORMAT_NEWER, &values));
    }
    let mine = genesis.id().to_string();
    if kept.cluster != mine {
        return Err(SynError::of(code::WRONG_CLUSTER, &[("theirs", &kept.cluster), ("mine", &mine)]));
    }
    Ok(Some(kept))
}

/// The answer to a question, of f + 1 members.
///
/// # Errors
/// As [`Trader::send`].
pub(super) fn read(session: &Session, question: Question) -> Result<Answer, SynError> {
    let genesis = genesis(session)?;
    let client = client(&genesis, "verified", NodeId(0), 1)?;
    let patience = session.timeout.unwrap_or(PATIENCE);
    let outcome = wait(&client, &Operation::Ask(question), Mode::Quorum, patience)?;
    let value = accepted(outcome, "a question", patience)?;
    Answer::decode(value, &Limits::default()).map_err(|error| bug("answer", &error))
}

fn wait(
    client: &ClusterClient,
    operation: &Operation,
    mode: Mode,
    patience: Duration,
) -> Result<Outcome, SynError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| bug("runtime", &error))?;
    let asked = synod_host::Operation { body: operation.encode(), mode };
    Ok(runtime.block_on(client.ask(vec![asked], patience)).pop().unwrap_or(Outcome::Unknown(None)))
}

fn accepted(outcome: Outcome, shown: &str, patience: Duration) -> Result<Bytes, SynError> {
    match outcome {
        Outcome::Accepted { value, .. } => Ok(value),
        Outcome::Rejected { code, .. } => Err(SynError::of(synod_config::Code::new(code), &[])),
        Outcome::Unknown(_) => {
            let deadline = format!("{patience:?}");
            Err(SynError::of(code::DEADLINE_PASSED, &[("id", shown), ("deadline", &deadline)])
                .because("`synod book show` and `synod book events` say what became of an order")
                .because("a session that is idle for long is closed; another --home is another trader"))
        }
    }
}
