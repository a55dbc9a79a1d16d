//! `synod ctx`: the clusters a user talks to.

use crate::context::Gone;
use crate::exit::Done;
use crate::output::Report;
use crate::session::{Session, absolute, usage};
use clap::{Args, Subcommand};
use serde_json::Value;
use std::path::PathBuf;
use synod_config::{Address, Context, Contexts, Exit, Genesis, SynError};

/// Contexts: addresses, genesis and directory of the clusters you talk to, one of them selected.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod ctx ls")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Add(Add),
    /// Selects a context.
    #[command(after_help = "Example:\n  synod ctx use shop")]
    Use {
        /// Its name.
        name: String,
    },
    /// Lists the contexts; * marks the selected one.
    #[command(after_help = "Example:\n  synod ctx ls")]
    Ls,
    /// Removes a context; the cluster is not touched.
    #[command(after_help = "Example:\n  synod ctx rm old")]
    Rm {
        /// Its name.
        name: String,
    },
    /// Shows a context, without a name the selected one.
    #[command(after_help = "Example:\n  synod ctx show shop")]
    Show {
        /// Its name.
        name: Option<String>,
    },
    /// Selects the context that was selected before.
    #[command(name = "-", after_help = "Example:\n  synod ctx -")]
    Previous,
}

/// Adds a context and selects it.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod ctx add west --genesis cluster/genesis.toml")]
struct Add {
    /// Its name, new.
    name: String,
    /// The genesis that answers are verified against.
    #[arg(long, value_name = "FILE")]
    genesis: PathBuf,
    /// Client address of a node; repeat it. Without it, those of the genesis.
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    address: Vec<Address>,
    /// RESP port of a gateway or proxy.
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    resp: Option<Address>,
    /// HTTP port of a gateway or proxy.
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    http: Option<Address>,
    /// Directory of the deployment, if it is on this machine.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn address(text: &str) -> Result<Address, String> {
    Address::parse(text).ok_or_else(|| "not of the form HOST:PORT".to_owned())
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        let directory = Session::directory()?;
        let mut contexts = Contexts::read(&directory)?;
        let report = match self.verb {
            Verb::Ls => {
                let gone = Gone::of(&mut contexts);
                if gone.is_some() {
                    contexts.write(&directory)?;
                }
                gone.tell();
                listed(&contexts)
            }
            Verb::Show { name: Some(name) } => shown(contexts.show(&name)?),
            Verb::Show { name: None } => match session.chosen()? {
                Some(context) => shown(&context),
                None => return Err(usage("no context is selected").because("`synod ctx ls` lists them")),
            },
            change => {
                let gone =
                    if matches!(change, Verb::Add(_)) { Gone::of(&mut contexts) } else { Gone::default() };
                let report = match change {
                    Verb::Add(add) => add.apply(&mut contexts)?,
                    Verb::Use { name } => shown(contexts.select(&name)?),
                    Verb::Previous => shown(contexts.select_previous()?),
                    Verb::Rm { name } => shown(&contexts.remove(&name)?),
                    Verb::Ls | Verb::Show { .. } => unreachable!("the arms above took these"),
                };
                contexts.write(&directory)?;
                gone.tell();
                report
            }
        };
        session.output.print(&report)?;
        Ok(Exit::Success)
    }
}

impl Add {
    fn apply(self, contexts: &mut Contexts) -> Result<Report, SynError> {
        let genesis = Genesis::read(&self.genesis)?;
        let mut addresses = self.address;
        if addresses.is_empty() {
            addresses = genesis.members().iter().filter_map(|member| member.client.clone()).collect();
        }
        if addresses.is_empty() {
            return Err(usage("the genesis states no client addresses; give --address"));
        }
        contexts.add(Context {
            name: self.name.clone(),
            genesis: absolute(&self.genesis)?,
            addresses,
            directory: self.dir.as_deref().map(absolute).transpose()?,
            resp: self.resp,
            http: self.http,
            managed: false,
        })?;
        Ok(shown(contexts.select(&self.name)?))
    }
}

fn listed(contexts: &Contexts) -> Report {
    let selected = contexts.current().map(|context| context.name.as_str());
    let rows = contexts.list().iter().map(|context| {
        let mark = if selected == Some(&context.name) { "*" } else { "" };
        vec![
            Value::from(mark),
            Value::from(context.name.clone()),
            Value::from(context.genesis.display().to_string()),
            Value::from(context.addresses.len()),
        ]
    });
    Report::new("synod-contexts/1").field("selected", selected).list(
        "contexts",
        &["selected", "name", "genesis", "addresses"],
        rows.collect(),
    )
}

fn shown(context: &Context) -> Report {
    let text = |address: &Option<Address>| address.as_ref().map(ToString::to_string);
    let addresses: Vec<String> = context.addresses.iter().map(ToString::to_string).collect();
    Report::new("synod-context/1")
        .field("name", context.name.clone())
        .field("genesis", context.genesis.display().to_string())
        .field("addresses", addresses)
        .field("directory", context.directory.as_ref().map(|path| path.display().to_string()))
        .field("resp", text(&context.resp))
        .field("http", text(&context.http))
}
