//! What a node of a running cluster exports, against the reference page, and what `status` makes of it.

use crate::rig::Rig;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const REFERENCE: &str = include_str!("../../../../docs/reference/metrics.md");
/// Series that a healthy cluster may lack at a moment: blames begin with the first, and the leader of a view that a member
/// entered by a certificate is unknown until the certified block is there.
const SELDOM: &[&str] = &["synod_blames_total", "synod_consensus_leader"];
/// Series of servers and brokers of Chop Chop, of payments, and of uBFT begin with these words.
const OTHERS: [&str; 7] = [
    "synod_broker_",
    "synod_server_",
    "synod_store_",
    "synod_directory_",
    "synod_pay_",
    "synod_ubft_",
    "synod_memory_node_",
];
/// Commands of the load.
const COMMANDS: usize = 400;

/// A cluster that ends with the value.
struct Cluster {
    rig: Rig,
    up: Value,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.rig.command("down --dir cluster").output());
    }
}

impl Cluster {
    fn up() -> Self {
        let rig = Rig::new();
        let up = rig.json("up --dir cluster --base-port 0 --detach");
        Self { rig, up }
    }

    fn port(&self, node: usize, name: &str) -> u16 {
        let port = self.up["nodes"][node][name].as_u64().and_then(|port| u16::try_from(port).ok());
        port.unwrap_or_else(|| panic!("{name} of node {node} in {}", self.up))
    }

    /// The answer to a request on the metrics port.
    fn get(&self, node: usize, path: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port(node, "metrics"))).expect("it listens");
        write!(stream, "GET {path} HTTP/1.1\r\nhost: node\r\nconnection: close\r\n\r\n").expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    }

    /// Writes through the RESP port of a node, all of which must be accepted.
    fn load(&self, node: usize) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port(node, "resp"))).expect("it listens");
        let mut commands: String = (0..COMMANDS).map(|n| format!("SET key{n} value\r\n")).collect();
        commands.push_str("QUIT\r\n");
        stream.write_all(commands.as_bytes()).expect("it reads");
        let mut answers = String::new();
        stream.read_to_string(&mut answers).expect("it answers");
        assert_eq!(answers, "+OK\r\n".repeat(COMMANDS + 1));
    }

    /// The nodes of `status` once `holds`, which must come about.
    fn status_until(&self, holds: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let status = self.rig.json("status");
            let nodes = status["nodes"].as_array().expect("a list of nodes").clone();
            if holds(&nodes) {
                return nodes;
            }
            assert!(Instant::now() < deadline, "{status}");
        }
    }
}

/// Types and label names by name.
type Series = BTreeMap<String, (String, BTreeSet<String>)>;

/// The rows of the reference page.
fn promised() -> Series {
    let rows = REFERENCE.lines().filter_map(|line| line.strip_prefix("| `synod_"));
    let row = |row: &str| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let name = cells[0].strip_suffix('`').expect("a name in code");
        let labels = cells[3].split(',').map(str::trim).filter(|label| !label.is_empty());
        (format!("synod_{name}"), (cells[1].to_owned(), labels.map(str::to_owned).collect()))
    };
    rows.map(row).collect()
}

/// The series of a page that have values.
fn exported(page: &str) -> Series {
    let mut types = BTreeMap::new();
    let mut series = Series::new();
    for line in page.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            types.insert(name.to_owned(), kind.to_owned());
        }
        if !line.starts_with("synod_") {
            continue;
        }
        let (sample, _) = line.rsplit_once(' ').expect("a sample has a value");
        let (full, labels) = sample.split_once('{').unwrap_or((sample, ""));
        let histogram = ["_bucket", "_sum", "_count"].iter().find_map(|end| full.strip_suffix(end));
        let histogram = histogram.filter(|name| types.get(*name).is_some_and(|kind| kind == "histogram"));
        let name = histogram.unwrap_or(full);
        let kind = types.get(name).or_else(|| types.get(name.strip_suffix("_total")?));
        let kind = kind.unwrap_or_else(|| panic!("{name} has no type")).clone();
        let names = labels.split("\",").filter_map(|label| label.split_once("=\"")).map(|(name, _)| name);
        let names = names.filter(|name| *name != "le").map(str::to_owned);
        let entry = series.entry(name.to_owned()).or_insert_with(|| (kind, BTreeSet::new()));
        entry.1.extend(names);
    }
    series
}

#[test]
fn a_page_is_read_with_its_types_and_labels() {
    let page = "# TYPE synod_a counter\nsynod_a_total{peer=\"n0\",code=\"x y\"} 1\n# TYPE synod_b histogram\n\
        synod_b_bucket{le=\"0.1\",api=\"z\"} 1\nsynod_b_count{api=\"z\"} 1\n# TYPE synod_c_count gauge\nsynod_c_count 3\n";
    let of =
        |kind: &str, labels: &[&str]| (kind.to_owned(), labels.iter().map(ToString::to_string).collect());
    let wanted: Series = [
        ("synod_a_total".to_owned(), of("counter", &["code", "peer"])),
        ("synod_b".to_owned(), of("histogram", &["api"])),
        ("synod_c_count".to_owned(), of("gauge", &[])),
    ]
    .into();
    assert_eq!(exported(page), wanted);
}

#[test]
fn a_node_exports_what_the_reference_names_and_status_has_no_gap() {
    let cluster = Cluster::up();
    cluster.load(0);
    let settled = |nodes: &[Value]| {
        let known =
            |node: &Value| node.as_object().is_some_and(|row| row.values().all(|cell| !cell.is_null()));
        let level = |node: &Value| node["executed"] == node["height"] && node["height"] == nodes[0]["height"];
        nodes.iter().all(|node| known(node) && level(node))
    };
    let nodes = cluster.status_until(settled);
    assert!(nodes.iter().all(|node| node["height"].as_u64() > Some(0)), "{nodes:?}");
    // A node that does not answer one call in time shows gaps in that call's table.
    let table = || cluster.rig.ok("status");
    let whole = |table: &String| table.lines().all(|line| line.split_whitespace().all(|cell| cell != "-"));
    assert!(core::iter::repeat_with(table).take(20).any(|table| whole(&table)), "{}", table());

    let promised = promised();
    assert!(promised.len() > 30, "the reference page was not understood");
    for node in 0..nodes.len() {
        let exported = exported(&cluster.get(node, "/metrics"));
        for (name, series) in &exported {
            assert_eq!(
                Some(series),
                promised.get(name),
                "node {node}: {name} is not as the reference has it"
            );
        }
        let missing: Vec<_> = promised.keys().filter(|name| !exported.contains_key(*name)).collect();
        let missing: Vec<_> = missing
            .iter()
            .filter(|name| {
                !SELDOM.contains(&name.as_str()) && !OTHERS.iter().any(|word| name.starts_with(word))
            })
            .collect();
        assert!(missing.is_empty(), "node {node} does not export {missing:?}");
    }

    // A node that says that it is ready has executed what its journal has, and serves; that a block is committed may have been known
    // to it without being in its journal, and it hears of it again.
    let before = nodes[1]["height"].as_u64();
    cluster.rig.ok("restart n1");
    assert!(cluster.get(1, "/readyz").starts_with("HTTP/1.1 200 "));
    let page = cluster.get(1, "/metrics");
    let executed = page.lines().find_map(|line| line.strip_prefix("synod_consensus_executed_height "));
    assert!(executed.is_some_and(|height| height != "0"), "{before:?}: {executed:?}");
    cluster.status_until(|nodes| nodes[1]["executed"].as_u64() >= before);
    cluster.load(1);
}
