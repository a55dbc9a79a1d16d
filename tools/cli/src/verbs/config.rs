//! `synod config`: what a node would run with, and whether files are right.

use crate::exit::Done;
use crate::layout::{GENESIS_FILE, NODE_FILE, PORTS_FILE};
use crate::output::Report;
use crate::session::{Session, usage};
use clap::{Args, Subcommand};
use serde_json::Value;
use std::path::{Path, PathBuf};
use synod_config::{
    Card, Contexts, Effective, Exit, Genesis, NodeConfig, NodeKey, Origin, Ports, SynError, explain_key,
};

/// Configuration: effective values with their origins, checks, the meaning of a key.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod config explain storage.sync")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Show(Show),
    Check(Check),
    /// Meaning, range and default of a key of node.toml or genesis.toml.
    #[command(after_help = "Example:\n  synod config explain storage.sync")]
    Explain {
        /// Section and name, as storage.sync.
        key: String,
    },
}

/// The values a node would run with, and the layer each comes from: default, file, environment, flag.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod config show --effective --data cluster/n0")]
struct Show {
    #[command(flatten)]
    source: Source,
    /// All keys, not only those that some layer sets.
    #[arg(long)]
    effective: bool,
}

/// Checks files by their names, and node directories as a whole. Exits 3 at the first that is wrong.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod config check cluster/n0 cluster/genesis.toml")]
struct Check {
    /// Node directories, or files: node.toml, genesis.toml, ports.json, contexts.toml, *.card, *.key.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

/// A node directory and the layers above its file.
#[derive(Clone, Debug, Args)]
pub(crate) struct Source {
    /// The node directory, which holds node.toml.
    #[arg(long, value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// Sets a key over file and environment; repeat it.
    #[arg(long, value_name = "KEY=VALUE", value_parser = setting)]
    pub(crate) set: Vec<(String, String)>,
}

fn setting(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    pair.map(|(key, value)| (key.to_owned(), value.to_owned()))
        .ok_or_else(|| "not of the form KEY=VALUE".to_owned())
}

/// The environment, without what is not text: names and values of ours are.
pub(crate) fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

impl Source {
    /// Joins the four layers.
    pub(crate) fn effective(&self) -> Result<Effective, SynError> {
        Effective::read(&self.data.join(NODE_FILE), environment(), self.set.clone())
    }

    /// The configuration and the genesis of the node, compared with each other and with its key.
    pub(crate) fn checked(&self) -> Result<(NodeConfig, Genesis), SynError> {
        let config = self.effective()?.config()?;
        let genesis = Genesis::read(&self.data.join(&config.node.genesis))?;
        let key = NodeKey::read(&self.data.join(&config.node.key_file))?;
        config.check(&genesis, &key.public())?;
        Ok((config, genesis))
    }
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        let report = match self.verb {
            Verb::Show(show) => show.report()?,
            Verb::Check(check) => check.report()?,
            Verb::Explain { key } => explained(&key)?,
        };
        session.output.print(&report)?;
        Ok(Exit::Success)
    }
}

fn explained(key: &str) -> Result<Report, SynError> {
    let page = explain_key(key)?;
    let mut report = Report::new("synod-config-key/1").field("key", key);
    for name in ["meaning", "range", "default"] {
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        report = report.field(name, line);
    }
    Ok(report.page(page))
}

impl Show {
    fn report(self) -> Result<Report, SynError> {
        let effective = self.source.effective()?;
        let rows = effective.rows().filter(|row| self.effective || row.origin != Origin::Default);
        let rows = rows.map(|row| {
            vec![Value::from(row.key), Value::from(row.value), Value::from(row.origin.to_string())]
        });
        Ok(Report::new("synod-config/1").list("values", &["key", "value", "origin"], rows.collect()))
    }
}

impl Check {
    fn report(self) -> Result<Report, SynError> {
        let mut rows = Vec::new();
        for path in &self.paths {
            let kind = check(path)?;
            rows.push(vec![Value::from(path.display().to_string()), Value::from(kind), Value::from("ok")]);
        }
        Ok(Report::new("synod-config-check/1").list("files", &["path", "kind", "result"], rows))
    }
}

/// Checks one path and says what it was taken for.
fn check(path: &Path) -> Result<&'static str, SynError> {
    if path.is_dir() {
        let source = Source { data: path.to_owned(), set: Vec::new() };
        return source.checked().map(|_| "node directory");
    }
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let directory = path.parent().unwrap_or(Path::new("."));
    match name {
        NODE_FILE => Effective::read(path, [], [])?.config().map(|_| "node"),
        GENESIS_FILE => Genesis::read(path).map(|_| "genesis"),
        PORTS_FILE => Ports::read(path).map(|_| "ports"),
        "contexts.toml" => Contexts::read(directory).map(|_| "contexts"),
        _ => match name.rsplit_once('.').map(|(_, end)| end) {
            Some("card") => Card::read(path).map(|_| "card"),
            Some("key") => NodeKey::read(path).map(|_| "key"),
            _ => Err(usage(&format!("{name:?} is not a name that says what the file is"))
                .because("known are node.toml, genesis.toml, ports.json, contexts.toml, *.card, *.key")),
        },
    }
}
