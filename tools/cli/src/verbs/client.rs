//! `synod client`: single requests in an application's own bytes, what came of them, and proofs checked offline.

mod behind;
mod chop;
mod kept;
mod receipts;
mod two;
mod verify;

pub(super) use behind::{Behind, behind, shown_behind};
pub(super) use chop::{Opened, Place, Receipted};
pub(super) use two::{shown_two, two_entries};
pub(super) use verify::{payment, shown_payment};

use crate::exit::{Done, bug};
use crate::output::Report;
use crate::session::{Session, no_context, usage};
use clap::{Args, Subcommand};
use kept::Kept;
use std::time::Duration;
use synod_config::{Context, Exit, Genesis, SynError, code};
use synod_config::{hex, unhex};
use synod_host::{ClientSetup, ClusterClient, Identity, Mode, Operation, Outcome, RequestId};
use synod_quorum::NodeId;

/// How long a request may take, unless --timeout says otherwise.
const PATIENCE: Duration = Duration::from_secs(5);

/// Requests in an application's own bytes, their outcomes, and what others show as proof.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod client submit main 010102086772656574696e670568656c6c6f")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Orders one request and shows its outcome as f + 1 members gave it. What is needed to ask for it again is kept
    /// under the request's id. With protocol chopchop it is a message through a broker, and its receipt goes to a file.
    #[command(after_help = "Example:\n  synod client submit main 010102086772656574696e670568656c6c6f")]
    Submit {
        /// The cluster or its context.
        cluster: String,
        /// The application's bytes as hex digits, or @FILE.
        #[arg(value_name = "HEX|@FILE")]
        body: String,
        #[command(flatten)]
        place: chop::Place,
    },
    #[command(name = "signup")]
    SignUp(chop::SignUp),
    Resync(chop::Resync),
    /// Asks for the outcome of a request that `submit` made here; it is executed at most once, however often it is
    /// asked for.
    #[command(after_help = "Example:\n  synod client wait")]
    Wait {
        /// The id, such as r1-8d2c5f01-17-1; without it, the newest that is kept here.
        #[arg(value_name = "REQUEST-ID")]
        id: Option<String>,
    },
    Verify(verify::Arguments),
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        match self.verb {
            Verb::Submit { cluster, body, place } => submit(session, &cluster, &body, &place),
            Verb::SignUp(sign_up) => sign_up.run(session),
            Verb::Resync(resync) => resync.run(session),
            Verb::Wait { id } => wait(session, &id.map_or_else(kept::newest, Ok)?),
            Verb::Verify(verify) => verify.run(session),
        }
    }
}

/// The context of this name, or one whose cluster has it.
///
/// # Errors
/// SYN-1001 when there is none; those of the files.
pub(super) fn context(session: &Session, name: &str) -> Result<(Context, Genesis), SynError> {
    let contexts = Session::contexts()?;
    let chosen = session.chosen()?;
    let candidates = contexts.get(name).cloned().into_iter().chain(chosen);
    let mut seen = Vec::new();
    for context in candidates {
        let genesis = Genesis::read(&context.genesis)?;
        if context.name == name || genesis.cluster().name == name {
            return Ok((context, genesis));
        }
        seen.push(genesis.cluster().name.clone());
    }
    if seen.is_empty() {
        return Err(no_context());
    }
    Err(usage(&format!("no context is named {name:?}"))
        .because(format!("the selected one is of {}", seen.join(", "))))
}

fn bytes_of(body: &str) -> Result<Vec<u8>, SynError> {
    let bytes = match body.strip_prefix('@') {
        Some(file) => {
            let read = std::fs::read(file);
            read.map_err(|error| crate::cluster::unwritable(std::path::Path::new(file), &error))?
        }
        None => unhex(body).ok_or_else(|| usage("a request is an even number of hex digits, or @FILE"))?,
    };
    if bytes.len() > kept::BODY_MAX {
        let most = format!("{} bytes", kept::BODY_MAX);
        return Err(SynError::of(code::TOO_LARGE, &[("what", "the request"), ("limit", &most)]));
    }
    Ok(bytes)
}

fn submit(session: &Session, name: &str, body: &str, place: &chop::Place) -> Done {
    let body = bytes_of(body)?;
    let (context, genesis) = context(session, name)?;
    if genesis.chop().is_some() {
        return chop::submit(session, (&context, &genesis), place, body);
    }
    let kept = Kept::new(&context, Identity::draw(), body);
    let (outcome, id) = ask(session, &genesis, &kept, kept.identity()?)?;
    if let Some(id) = id {
        kept.keep(id)?;
    }
    told(session, &outcome, id)
}

fn wait(session: &Session, text: &str) -> Done {
    let kept = Kept::find(text)?;
    let genesis = Genesis::read(kept.genesis())?;
    let id = RequestId::parse(text, genesis.id()).ok_or_else(|| {
        let shown = genesis.id().to_string();
        SynError::of(code::WRONG_CLUSTER, &[("theirs", text), ("mine", &shown[..8])])
    })?;
    let identity = Identity { resume: Some(id.session), ..kept.identity()? };
    let (outcome, _) = ask(session, &genesis, &kept, identity)?;
    told(session, &outcome, Some(id))
}

/// Asks the cluster; the request is the first of its session, whoever asks.
fn ask(
    session: &Session,
    genesis: &Genesis,
    kept: &Kept,
    identity: Identity,
) -> Result<(Outcome, Option<RequestId>), SynError> {
    let setup = ClientSetup {
        genesis: genesis.clone(),
        addresses: crate::context::client_addresses(genesis),
        send_all: false,
        trust: "verified",
        nearest: NodeId(0),
        sessions: 1,
        believe: None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| bug("runtime", &error))?;
    let client = ClusterClient::connect_as(&setup, identity)?;
    let operation = Operation { body: kept.body()?.into(), mode: Mode::Ordered };
    let deadline = session.timeout.unwrap_or(PATIENCE);
    let outcome = runtime.block_on(client.ask(vec![operation], deadline)).pop();
    Ok((outcome.unwrap_or(Outcome::Unknown(None)), client.request(1)))
}

fn told(session: &Session, outcome: &Outcome, id: Option<RequestId>) -> Done {
    let name = id.map_or_else(|| "none".to_owned(), |id| id.to_string());
    match outcome {
        Outcome::Accepted { value, position } => {
            let text = std::str::from_utf8(value).ok().map(|text| text.trim_end().to_owned());
            let report = Report::new("synod-client/1")
                .field("request", name)
                .field("outcome", "accepted")
                .field("position", position.to_string())
                .field("value", hex(value))
                .field("text", text);
            session.output.print(&report)?;
            Ok(Exit::Success)
        }
        Outcome::Rejected { code, .. } => {
            Err(SynError::of(synod_config::Code::new(*code), &[("names", "the members asked")])
                .because("it was not executed and never will be"))
        }
        Outcome::Unknown(_) => {
            let error = SynError::of(code::DEADLINE_PASSED, &[("id", &name)]);
            Err(match id {
                Some(_) => {
                    error.because(format!("`synod client wait {name}` asks again; nothing is executed twice"))
                }
                None => error.because("it was never sent"),
            })
        }
    }
}
