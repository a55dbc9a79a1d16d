//! `synod status`: the cluster and each of its nodes, as the nodes state it.

use crate::exit::Done;
use crate::health::{AskedMemory, Node, Survey, Vitals};
use crate::output::Report;
use crate::session::{Session, no_context};
use clap::Args;
use serde_json::Value;
use std::time::Duration;
use synod_config::Exit;
use synod_quorum::NodeId;

/// How long a node may take, unless --timeout says otherwise.
const PATIENCE: Duration = Duration::from_secs(2);

/// View, leader, height and quorum of the cluster, and the state of each node.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  synod status")]
pub(crate) struct Arguments {
    /// Prints again every second until interrupted.
    #[arg(short, long)]
    watch: bool,
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Done {
        let context = session.chosen()?.ok_or_else(no_context)?;
        let patience = session.timeout.unwrap_or(PATIENCE);
        loop {
            session.tell(&format!("asking the nodes of context {}", context.name));
            let survey = Survey::take(&context, patience)?;
            session.output.print(&report(&context.name, &survey))?;
            if !self.watch {
                return Ok(Exit::Success);
            }
            std::thread::sleep(Duration::from_secs(1));
        }
    }
}

fn report(context: &str, survey: &Survey) -> Report {
    if survey.genesis.pay().is_some() {
        return of_payments(context, survey);
    }
    let (is_chop, is_over_ubft) = (survey.genesis.chop().is_some(), survey.genesis.ubft().is_some());
    if is_over_ubft && !is_chop {
        return of_ubft(context, survey);
    }
    let cluster = survey.genesis.cluster();
    // uBFT has no blocks: the height of a server over it is that of its batches.
    let of = |vitals: &Vitals| if is_over_ubft { vitals.accepted } else { vitals.height };
    let height = survey.highest(of);
    let rows = survey.nodes.iter().map(|node| row(node, (of, height), is_chop));
    let own: &[&str] = if is_chop { &["batches", "directory"] } else { &["executed"] };
    let columns =
        [&["node", "state", "view", "height"], own, &["lag", "version", "fsync_p99_s", "alarms"]].concat();
    let epoch = if is_over_ubft { survey.highest(|vitals| vitals.epoch) } else { None };
    let report = Report::new("synod-status/1")
        .field("context", context)
        .field("cluster", cluster.name.clone())
        .field("kind", cluster.protocol.as_str())
        .field("epoch", epoch.unwrap_or(survey.genesis.roster().epoch().0.into()))
        .field("view", survey.highest(|vitals| vitals.view))
        .field("leader", survey.leader())
        .field("height", height)
        .field("f", survey.genesis.f())
        .field("quorum_have", survey.have())
        .field("quorum_need", survey.need());
    let report = if is_over_ubft { report.field("memory_nodes", memory(survey)) } else { report };
    report.list("nodes", &columns, rows.collect())
}

/// The memory nodes, as they state themselves.
fn memory(survey: &Survey) -> Vec<Value> {
    let node = |asked: &AskedMemory| {
        let row = super::memnode::row(&asked.name, &asked.told).into_iter();
        Value::Object(super::memnode::COLUMNS.iter().map(|name| (*name).to_owned()).zip(row).collect())
    };
    survey.memory.iter().map(node).collect()
}

/// The nodes of a payment system: there is no view, no leader and no height.
fn of_payments(context: &str, survey: &Survey) -> Report {
    let cluster = survey.genesis.cluster();
    let has_shards = survey.genesis.groups().len() > 1;
    let rows = survey.nodes.iter().zip(0_u32..).map(|(node, member)| {
        let shard = has_shards.then(|| Value::from(survey.genesis.group(NodeId(member)).0));
        let name = [Value::from(node.name.clone())].into_iter().chain(shard);
        match &node.vitals {
            Ok(vitals) => {
                let state = if vitals.ready { "ready" } else { "not ready" };
                let alarms = vitals
                    .alarms
                    .iter()
                    .map(|alarm| Value::from(format!("{} {}", alarm.check, alarm.reason)));
                let (version, fsync) = (vitals.version.clone(), vitals.fsync_p99.clone());
                let last = [Value::from(version), Value::from(fsync), alarms.collect()];
                let books = [Value::from(vitals.settled), Value::from(vitals.conflicted)];
                name.chain([Value::from(state)]).chain(books).chain(last).collect()
            }
            Err(error) => {
                let blank = std::iter::repeat_n(Value::Null, 4);
                let last = std::iter::once(Value::from(error.to_string()));
                name.chain([Value::from("unreachable")]).chain(blank).chain(last).collect()
            }
        }
    });
    let shard: &[&str] = if has_shards { &["shard"] } else { &[] };
    let columns = [&["node"], shard, &["state", "settled", "conflicted", "version", "fsync_p99_s", "alarms"]];
    Report::new("synod-status/1")
        .field("context", context)
        .field("cluster", cluster.name.clone())
        .field("kind", cluster.protocol.as_str())
        .field("shards", survey.genesis.groups().len())
        .field("epoch", survey.genesis.roster().epoch().0)
        .field("settled", survey.highest(|vitals| vitals.settled))
        .field("f", survey.genesis.f())
        .field("quorum_have", survey.have())
        .field("quorum_need", survey.need())
        .list("nodes", &columns.concat(), rows.collect())
}

/// The replicas of uBFT, each with the digest of its application's state, and the memory nodes.
fn of_ubft(context: &str, survey: &Survey) -> Report {
    let cluster = survey.genesis.cluster();
    let rows = survey.nodes.iter().map(|node| {
        let name = Value::from(node.name.clone());
        match &node.vitals {
            Ok(vitals) => {
                let state = if vitals.ready { "ready" } else { "not ready" };
                let alarms = vitals
                    .alarms
                    .iter()
                    .map(|alarm| Value::from(format!("{} {}", alarm.check, alarm.reason)));
                vec![
                    name,
                    Value::from(state),
                    Value::from(vitals.view),
                    Value::from(vitals.executed),
                    Value::from(vitals.digest.map(|digest| format!("{digest:016x}"))),
                    Value::from(vitals.memory_nodes),
                    Value::from(vitals.version.clone()),
                    alarms.collect(),
                ]
            }
            Err(error) => {
                let blank = std::iter::repeat_n(Value::Null, 5);
                let last = std::iter::once(Value::from(error.to_string()));
                [name, Value::from("unreachable")].into_iter().chain(blank).chain(last).collect()
            }
        }
    });
    Report::new("synod-status/1")
        .field("context", context)
        .field("cluster", cluster.name.clone())
        .field("kind", cluster.protocol.as_str())
        .field("epoch", survey.highest(|vitals| vitals.epoch))
        .field("view", survey.highest(|vitals| vitals.view))
        .field("leader", survey.leader())
        .field("executed", survey.highest(|vitals| vitals.executed))
        .field("f", survey.genesis.f())
        .field("quorum_have", survey.have())
        .field("quorum_need", survey.need())
        .field("memory_nodes", memory(survey))
        .list(
            "nodes",
            &["node", "state", "view", "executed", "digest", "memory_nodes", "version", "alarms"],
            rows.collect(),
        )
}

/// `of` reads the height of a node.
fn row(
    node: &Node,
    (of, highest): (impl Fn(&Vitals) -> Option<u64>, Option<u64>),
    is_chop: bool,
) -> Vec<Value> {
    let name = Value::from(node.name.clone());
    let vitals = match &node.vitals {
        Ok(vitals) => vitals,
        Err(error) => {
            let mut row = vec![name, Value::from("unreachable")];
            row.resize(if is_chop { 9 } else { 8 }, Value::Null);
            row.push(Value::from(error.to_string()));
            return row;
        }
    };
    let state = if vitals.ready { "ready" } else { "not ready" };
    // A node that states no height has an unknown lag, not a lag of 0.
    let lag = of(vitals).zip(highest).map(|(own, highest)| highest.saturating_sub(own));
    let alarms = vitals.alarms.iter().map(|alarm| Value::from(format!("{} {}", alarm.check, alarm.reason)));
    let first = [name, Value::from(state), Value::from(vitals.view), Value::from(of(vitals))];
    let own = if is_chop {
        vec![Value::from(vitals.delivered), Value::from(vitals.directory)]
    } else {
        vec![Value::from(vitals.executed)]
    };
    let last = [
        Value::from(lag),
        Value::from(vitals.version.clone()),
        Value::from(vitals.fsync_p99.clone()),
        alarms.collect(),
    ];
    first.into_iter().chain(own).chain(last).collect()
}
