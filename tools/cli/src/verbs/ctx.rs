//! `synod ctx`: the clusters a user talks to.

use crate::context::Gone;
use crate::exit::Done;
use crate::output::Report;
use crate::session::{Session, absolute, usage};
use clap::{Args, Subcommand};
use serde_json::Value;
use std::path::PathBuf;
use synod_config::{Address, Context, Contexts, Exit, Genesis, Member, SynError};

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
    /// Client address of a node; repeat it. Without it, those of the genesis. Payments need none.
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    address: Vec<Address>,
    /// RESP port of a gateway or proxy.
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    resp: Option<Address>,
    /// HTTP port of a gateway or proxy; for payments with the name of the member whose node it is.
    #[arg(long, value_name = "[NAME=]HOST:PORT", value_parser = place)]
    http: Option<Place>,
    /// The file with the token that the HTTP port asks for.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Directory of the deployment, if it is on this machine.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn address(text: &str) -> Result<Address, String> {
    Address::parse(text).ok_or_else(|| "not of the form HOST:PORT".to_owned())
}

/// Who takes HTTP, where that matters, and where.
#[derive(Clone, Debug)]
struct Place {
    member: Option<String>,
    address: Address,
}

fn place(text: &str) -> Result<Place, String> {
    let (member, text) = text.split_once('=').map_or((None, text), |(name, text)| (Some(name), text));
    let address = address(text).map_err(|_| "not of the form HOST:PORT or NAME=HOST:PORT".to_owned())?;
    Ok(Place { member: member.map(str::to_owned), address })
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
        let is_pay = genesis.pay().is_some();
        let mut addresses = self.address;
        if addresses.is_empty() {
            let clients = |member: &Member| if is_pay { member.http.clone() } else { member.client.clone() };
            addresses = genesis.members().iter().filter_map(clients).collect();
        }
        if addresses.is_empty() && !is_pay {
            return Err(usage("the genesis states no client addresses; give --address"));
        }
        let (member, http) = self.http.map_or((None, None), |place| (place.member, Some(place.address)));
        if let Some(name) = member.as_ref().filter(|name| genesis.member(name).is_none()) {
            return Err(usage(&format!("the cluster has no member {name}")));
        }
        if is_pay && http.is_some() && member.is_none() {
            return Err(usage("--http needs the name of the member whose node it is: NAME=HOST:PORT"));
        }
        contexts.add(Context {
            name: self.name.clone(),
            genesis: absolute(&self.genesis)?,
            addresses,
            directory: self.dir.as_deref().map(absolute).transpose()?,
            resp: self.resp,
            http,
            member,
            token_file: self.token_file.as_deref().map(absolute).transpose()?,
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
        .field("member", context.member.clone())
        .field("token_file", context.token_file.as_ref().map(|path| path.display().to_string()))
}
