//! `synod pay lanes`: how far the batches of each member are, and who is behind.

use super::institution::System;
use crate::output::Report;
use clap::Args;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use synod_config::SynError;

/// Columns of a lane.
const LANE: [&str; 7] = ["lane", "last", "frontier", "lag", "slowest", "silent", "two_batches"];

/// Shows how far the batches of each member are: the last one, up to which all are certified, how far the slowest node is behind that, and
/// which members have not said that what is certified settled there.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod pay lanes")]
pub(super) struct Lanes {
    /// The node to ask; by default all that can be reached.
    #[arg(long)]
    node: Option<String>,
}

/// What nodes tell of one lane.
#[derive(Debug, Default)]
struct Told {
    last: u64,
    frontier: u64,
    /// The lowest frontier, and whose it is.
    slowest: Option<(u64, String)>,
    /// Members that owe the lane's own word.
    silent: Vec<String>,
    two_batches: Option<u64>,
}

fn number(value: &Value) -> Option<u64> {
    value.as_str().and_then(|text| text.parse().ok())
}

impl Told {
    /// What a node of this name says.
    fn hear(&mut self, node: &str, row: &Value, names: &[String]) {
        let (last, frontier) = (number(&row["last"]).unwrap_or(0), number(&row["frontier"]).unwrap_or(0));
        self.last = self.last.max(last);
        self.frontier = self.frontier.max(frontier);
        if self.slowest.as_ref().is_none_or(|(least, _)| frontier < *least) {
            self.slowest = Some((frontier, node.to_owned()));
        }
        let behind = row["behind"].as_array().into_iter().flatten();
        let name = |one: &Value| {
            let at = one["member"].as_u64().and_then(|at| usize::try_from(at).ok())?;
            names.get(at).cloned()
        };
        self.silent.extend(behind.filter_map(name));
        self.two_batches = self.two_batches.max(number(&row["two_batches"]));
    }

    fn row(&self, name: &str) -> Vec<Value> {
        let least = self.slowest.as_ref().map_or(self.frontier, |(least, _)| *least);
        let lag = self.last.saturating_sub(least);
        let slowest = self.slowest.as_ref().filter(|_| lag > 0).map(|(_, node)| node.clone());
        vec![
            json!(name),
            json!(self.last.to_string()),
            json!(self.frontier.to_string()),
            json!(lag.to_string()),
            json!(slowest),
            json!(self.silent),
            json!(self.two_batches.map(|place| place.to_string())),
        ]
    }
}

impl Lanes {
    /// # Errors
    /// Those of the one node that is asked; SYN-2001 and others where none answers.
    pub(super) fn report(&self, system: &System) -> Result<Report, SynError> {
        let asked = match &self.node {
            Some(node) => vec![system.named(Some(node))?],
            None => system.all()?,
        };
        let names = |shard: u16| -> Vec<String> {
            system.members_of(shard).iter().map(|member| member.name.clone()).collect()
        };
        let (mut lanes, mut answered, mut away) =
            (BTreeMap::<(u16, u64), Told>::new(), Vec::new(), Vec::new());
        let mut last = None;
        for at in asked {
            match at.get("/v1/pay/lanes") {
                Ok(found) => {
                    answered.push(at.name().to_owned());
                    for row in found["lanes"].as_array().into_iter().flatten() {
                        let Some(lane) = row["lane"].as_u64() else { continue };
                        let shard = at.seat().shard;
                        lanes.entry((shard, lane)).or_default().hear(at.name(), row, &names(shard));
                    }
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
        let name = |shard: u16, lane: u64| {
            let known = usize::try_from(lane).ok().and_then(|at| system.members_of(shard).get(at));
            known.map_or("?", |member| member.name.as_str())
        };
        let rows = lanes.iter().map(|((shard, lane), told)| told.row(name(*shard, *lane))).collect();
        Ok(Report::new("synod-pay-lanes/1")
            .field("nodes", answered)
            .field("away", away)
            .list("lanes", &LANE, rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_is_as_far_as_the_furthest_says_and_its_lag_is_that_of_the_slowest() {
        let names = ["n0", "n1", "n2"].map(str::to_owned);
        let mut told = Told::default();
        told.hear(
            "n0",
            &json!({ "last": "9", "frontier": "9", "behind": [{ "member": 2, "upto": "4" }] }),
            &names,
        );
        told.hear("n1", &json!({ "last": "9", "frontier": "8", "behind": [], "two_batches": "5" }), &names);
        told.hear("n2", &json!({ "last": "4", "frontier": "4", "behind": [] }), &names);
        let wanted =
            [json!("n0"), json!("9"), json!("9"), json!("5"), json!("n2"), json!(["n2"]), json!("5")];
        assert_eq!(told.row("n0"), wanted);
        let mut even = Told::default();
        even.hear("n0", &json!({ "last": "3", "frontier": "3", "behind": [] }), &names);
        assert_eq!(even.row("n1")[3..5], [json!("0"), Value::Null]);
    }
}
