//! `synod pay bundles`: what is on its way between shards, as the nodes know it.

use super::institution::{Institution, System};
use crate::output::Report;
use clap::Args;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use synod_config::SynError;

/// Lists what left for other shards and is not known to be credited there, as each node knows it, and how much waits for its credit.
///
/// A bundle has the payments of one batch that pay accounts of one other shard. All nodes of the shard that it left keep it until a
/// quorum of the other has said that it credited all of it. Of a system of one shard nothing is listed.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod pay bundles")]
pub(super) struct Bundles {
    /// The node to ask; by default all.
    #[arg(long)]
    node: Option<String>,
}

/// Columns of a bundle.
const BUNDLE: [&str; 7] = ["node", "shard", "to_shard", "lane", "batch", "entries", "sent"];

/// What nodes told together.
#[derive(Debug, Default)]
struct Told {
    rows: Vec<Vec<Value>>,
    /// Most entries that one node of a shard has on their way, by shard.
    leaving: BTreeMap<u64, u64>,
    /// The same of what waits for its credit.
    coming: BTreeMap<u64, u64>,
}

impl Told {
    /// What a node said; `name` gives the names of the members of its shard by their numbers there.
    fn hear(&mut self, node: &str, found: &Value, name: impl Fn(u64) -> String) {
        let number = |value: &Value| value.as_str().and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        let Some(shard) = found["shard"].as_u64() else { return };
        for (sums, field) in [(&mut self.leaving, "entries"), (&mut self.coming, "coming")] {
            let most = sums.entry(shard).or_default();
            *most = (*most).max(number(&found[field]));
        }
        for row in found["bundles"].as_array().into_iter().flatten() {
            let lane = row["lane"].as_u64().map(&name);
            let [to, batch, entries, sent] =
                ["to_shard", "batch", "entries", "sent"].map(|field| row[field].clone());
            self.rows.push(vec![json!(node), json!(shard), to, json!(lane), batch, entries, sent]);
        }
    }
}

impl Bundles {
    /// # Errors
    /// Those of the one node that is asked; SYN-2001 and others where none answers.
    pub(super) fn report(&self, system: &System) -> Result<Report, SynError> {
        let asked = match &self.node {
            Some(node) => vec![system.named(Some(node))?],
            None => system.all()?,
        };
        let (mut told, mut answered, mut away, mut last) = (Told::default(), Vec::new(), Vec::new(), None);
        for at in asked {
            match at.get("/v1/pay/bundles") {
                Ok(found) => {
                    answered.push(at.name().to_owned());
                    told.hear(at.name(), &found, |lane| member(system, &at, lane));
                }
                Err(error) => {
                    away.push(at.name().to_owned());
                    last = Some(error);
                }
            }
        }
        if let Some(error) = last.filter(|_| answered.is_empty()) {
            return Err(error);
        }
        Ok(Report::new("synod-pay-bundles/1")
            .field("nodes", answered)
            .field("away", away)
            .field("leaving", told.leaving.values().sum::<u64>().to_string())
            .field("coming", told.coming.values().sum::<u64>().to_string())
            .list("bundles", &BUNDLE, told.rows))
    }
}

/// The name of a member of a node's shard.
fn member(system: &System, at: &Institution<'_>, lane: u64) -> String {
    let members = system.members_of(at.seat().shard);
    let member = usize::try_from(lane).ok().and_then(|lane| members.get(lane));
    member.map_or("?", |member| &member.name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_nodes_of_a_shard_keep_is_counted_once_and_shown_by_each() {
        let said = |entries: &str, coming: &str, shard: u64| {
            let row = json!({ "to_shard": 1 - shard, "lane": 2, "batch": "9", "entries": 3, "sent": "1" });
            json!({ "shard": shard, "entries": entries, "coming": coming, "bundles": [row] })
        };
        let mut told = Told::default();
        for (node, found) in [("n0", said("3", "0", 0)), ("n1", said("2", "5", 0)), ("n4", said("7", "4", 1))]
        {
            told.hear(node, &found, |lane| format!("m{lane}"));
        }
        told.hear("n5", &json!({}), |_| unreachable!("an answer of no node"));
        let sum = |sums: &BTreeMap<u64, u64>| sums.values().sum::<u64>();
        assert_eq!((sum(&told.leaving), sum(&told.coming), told.rows.len()), (10, 9, 3));
        let wanted = [json!("n0"), json!(0), json!(1), json!("m2"), json!("9"), json!(3), json!("1")];
        assert_eq!(told.rows.first().map(Vec::as_slice), Some(wanted.as_slice()));
    }
}
