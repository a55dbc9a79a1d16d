//! `synod node inspect genesis`: the cluster a node believes in.

use crate::output::Report;
use crate::verbs::config::Source;
use clap::Args;
use serde_json::Value;
use synod_config::hex;
use synod_config::{Genesis, SynError};

/// The cluster id, its tolerance and its members.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod node inspect genesis --data cluster/n0")]
pub(super) struct Arguments {
    #[command(flatten)]
    source: Source,
}

impl Arguments {
    pub(super) fn report(self) -> Result<Report, SynError> {
        let config = self.source.effective()?.config()?;
        let genesis = Genesis::read(&self.source.data.join(&config.node.genesis))?;
        let rows = genesis.members().iter().enumerate().map(|(id, member)| {
            vec![
                Value::from(id),
                Value::from(member.name.clone()),
                Value::from(member.peer.to_string()),
                Value::from(member.client.as_ref().map(ToString::to_string)),
                Value::from(member.stake),
                Value::from(hex(&member.ed25519.0)),
            ]
        });
        Ok(Report::new("synod-genesis/1")
            .field("cluster", genesis.cluster().name.clone())
            .field("id", genesis.id().to_string())
            .field("protocol", genesis.cluster().protocol.as_str())
            .field("rules", genesis.parameters().rules.as_str())
            .field("app", genesis.cluster().app.clone())
            .field("members", genesis.members().len())
            .field("f", genesis.f())
            .field("drill", genesis.cluster().drill)
            .field("this_node", config.node.name)
            .list("list", &["id", "name", "peer", "client", "stake", "ed25519"], rows.collect()))
    }
}
