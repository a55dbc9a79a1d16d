//! Operations and questions of the applications of Chop Chop: who asks, what was delivered, what came of it.
//!
//! An operation is eight bytes under a client's key. That it was delivered is one thing, shown by a receipt; what the
//! application made of it is another, the word of f + 1 servers, and a rule that was broken ends the verb with its code.

use super::client::{Opened, Place, Receipted};
use crate::exit::{Done, bug};
use crate::output::Report;
use crate::servers::{Servers, ask};
use crate::session::{Session, no_context};
use clap::Args;
use std::time::Duration;
use synod_config::{Context, Exit, Genesis, SynError, code};
use synod_service::BatchQuestion;
use synod_wire::Bytes;

/// How long servers may take to say what became of something, unless --timeout says otherwise.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is said of every failure behind a delivery.
const DELIVERED: &str = "it was delivered: do not send it again";

/// What is said when an operation was delivered and servers did not say what came of it. Servers that contradict each other
/// keep their code; that too few answered is an outcome that is unknown.
fn unknown(error: SynError, client: u32, kept: &Receipted, patience: Duration) -> SynError {
    let height = kept.height;
    let delivered = format!("it was delivered at height {height}: do not send it again");
    let receipt = format!("its receipt is {}", kept.file.display());
    let look = format!("what came of it is read with --since {height}");
    if error.code() == code::REPLIES_DISAGREE {
        return error.because(delivered).because(receipt).because(look);
    }
    let (id, deadline) = (format!("the operation of client {client}"), format!("{patience:?}"));
    let unknown = SynError::of(code::DEADLINE_PASSED, &[("id", &id), ("deadline", &deadline)]);
    let unknown = unknown.because(delivered).because(receipt).because(look).because(&error);
    error.causes().iter().fold(unknown, |unknown, cause| unknown.because(cause))
}

/// Whose cluster, and whose key.
#[derive(Clone, Debug, Args)]
pub(super) struct By {
    /// The cluster or its context; by default the selected context.
    #[arg(long, value_name = "CLUSTER")]
    cluster: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// How new a state must be.
#[derive(Clone, Debug, Args)]
pub(super) struct Since {
    /// Waits for the state of this height, such as that of a receipt; else a height that a correct server executed.
    #[arg(long, value_name = "HEIGHT")]
    since: Option<u64>,
}

/// What an application's codes mean.
pub(super) struct App {
    /// Its name in a genesis.
    pub(super) name: &'static str,
    /// What a code says.
    pub(super) words: fn(u8) -> &'static str,
    /// Why an operation of this client changed nothing; none when it did.
    pub(super) refusal: fn(u8, u64, &str) -> Option<SynError>,
}

/// The refusal of a code that every application has, or that none of this release has.
pub(super) fn other(words: &str) -> SynError {
    SynError::of(code::MALFORMED, &[("problem", words)])
}

impl By {
    fn cluster(&self, session: &Session, app: &App) -> Result<(Context, Genesis), SynError> {
        let (context, genesis) = match &self.cluster {
            Some(name) => super::client::context(session, name)?,
            None => {
                let context = session.chosen()?.ok_or_else(no_context)?;
                let genesis = Genesis::read(&context.genesis)?;
                (context, genesis)
            }
        };
        let stated = genesis.cluster();
        if genesis.chop().is_none() || stated.app != app.name {
            let runs =
                format!("the cluster {} runs {} over {}", stated.name, stated.app, stated.protocol.as_str());
            return Err(SynError::of(code::UNSUPPORTED, &[("verb", app.name)]).because(runs));
        }
        Ok((context, genesis))
    }

    /// Broadcasts an operation and says what became of it.
    ///
    /// # Errors
    /// Those of the client; the code of the rule that the operation broke.
    pub(super) fn send(&self, session: &Session, app: &App, operation: u64, shown: &str) -> Done {
        let (context, genesis) = self.cluster(session, app)?;
        let client = Opened::new(&context, &genesis, &self.place, false)?;
        // Before anything moves: what is refused here is refused for good.
        let servers = Servers::connect(&genesis)?;
        let delivered = client.broadcast(session, operation.to_le_bytes().to_vec())?;
        let id = client.id();
        let report = Report::new("synod-operation/1")
            .field("outcome", "delivered")
            .field("cluster", genesis.cluster().name.clone())
            .field("client", id)
            .field("operation", shown);
        let kept = client.keep(&delivered).map_err(|error| error.because(DELIVERED))?;
        let (Some(kept), Some(id)) = (kept, id) else {
            client.stop()?;
            let same = SynError::of(code::SAME, &[]);
            session.output.print(&report.field("result", None::<String>).field("note", same.message()))?;
            return Ok(Exit::Success);
        };
        let question = BatchQuestion::Result { id, height: kept.height };
        let patience = session.timeout.unwrap_or(PATIENCE);
        let answer = client.wait(servers.believed(vec![question], patience));
        let answer = answer.map_err(|error| unknown(error, id, &kept, patience))?;
        client.stop().map_err(|error| error.because(DELIVERED))?;
        let result = answer.first().and_then(|bytes| bytes.first().copied());
        let file = kept.file.display().to_string();
        if let Some(refusal) = result.and_then(|byte| (app.refusal)(byte, operation, &format!("client {id}")))
        {
            let told = format!("it was delivered at height {} and changed nothing", kept.height);
            return Err(refusal.because(told).because(format!("its receipt is {file}")));
        }
        let report = report
            .field("result", result.map(|byte| (app.words)(byte)))
            .field("height", kept.height)
            .field("receipt", file);
        session.output.print(&report)?;
        Ok(Exit::Success)
    }

    /// The number of the client whose home this is.
    fn own_id(&self, context: &Context, genesis: &Genesis) -> Result<u32, SynError> {
        let client = Opened::new(context, genesis, &self.place, false)?;
        let id = client.id();
        client.stop()?;
        id.ok_or_else(|| SynError::of(code::NOT_IN_DIRECTORY, &[("client", "this client")]))
    }

    /// The number that was given, else that of the client whose home this is.
    ///
    /// # Errors
    /// SYN-3201 where the client has none.
    pub(super) fn client(&self, session: &Session, app: &App, given: Option<u32>) -> Result<u32, SynError> {
        match given {
            Some(id) => Ok(id),
            None => {
                let (context, genesis) = self.cluster(session, app)?;
                self.own_id(&context, &genesis)
            }
        }
    }

    /// Asks the application these questions; the height that the state has at least, and the answers of f + 1 servers.
    ///
    /// # Errors
    /// SYN-3401 and SYN-6001 when f + 1 servers do not say the same in time.
    pub(super) fn read(
        &self,
        session: &Session,
        app: &App,
        since: &Since,
        questions: impl IntoIterator<Item = Vec<u8>>,
    ) -> Result<(u64, Vec<Bytes>), SynError> {
        let (_, genesis) = self.cluster(session, app)?;
        let servers = Servers::connect(&genesis)?;
        let patience = session.timeout.unwrap_or(PATIENCE);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|error| bug("runtime", &error))?.block_on(async {
            let height = match since.since {
                Some(height) => height,
                None => servers.height(patience).await?,
            };
            let asked = questions.into_iter().map(|question| ask(height, question));
            let answers = servers.believed(asked.collect::<Result<_, _>>()?, patience).await?;
            Ok((height, answers))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Receipted, code, unknown};
    use std::time::Duration;
    use synod_config::{Exit, SynError};

    #[test]
    fn a_delivered_operation_whose_outcome_nobody_tells_says_that_it_is_not_to_be_sent_again() {
        let kept = Receipted { height: 12, file: "receipts/7-3.json".into() };
        let patience = Duration::from_secs(1);
        let few = SynError::of(code::NO_QUORUM, &[("have", "1"), ("need", "2"), ("names", "n2, n3")]);
        let told = unknown(few, 7, &kept, patience);
        assert_eq!((told.code(), told.exit_code()), (code::DEADLINE_PASSED, Exit::Unknown));
        let text = told.to_text();
        for words in
            ["client 7", "delivered at height 12: do not send it again", "receipts/7-3.json", "n2, n3"]
        {
            assert!(text.contains(words), "{words}: {text}");
        }
        let liars = SynError::of(code::REPLIES_DISAGREE, &[("id", "a read")]);
        let told = unknown(liars, 7, &kept, patience);
        assert_eq!(told.code(), code::REPLIES_DISAGREE, "an alarm stays one");
        assert!(told.to_text().contains("do not send it again"), "{told:?}");
    }
}
