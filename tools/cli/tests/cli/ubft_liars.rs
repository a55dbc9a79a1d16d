//! Among processes, a replica that lies as those of the simulator do: it changes no result and stops nobody.
//!
//! Two replicas and three memory nodes are the processes that `synod up --kind ubft` starts. The third replica is this test's own
//! executable, started again: it hosts the real replica over the same sockets, and what leaves it is edited by the simulator's liars.

use crate::rig::{Rig, read};
use crate::ubft::{rows, state};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use synod_host::{Server, Setup};
use synod_trial::systems::ubft::lying::Lying;

/// Where the lying process lives, which lies it tells, and what its draws begin from.
const FOLDER: &str = "LIAR_FOLDER";
const LIES: &str = "LIAR_LIES";
const DRAWS: &str = "LIAR_DRAWS";
/// What the lying process says once it serves.
const UP: &str = "the liar is up";
/// Nodes of a cluster, each with a block of ports.
const NODES: u16 = 6;
const BLOCK: u16 = 10;
/// Where blocks are looked for: below the ports of outgoing connections.
const FIRST: u16 = 10_000;
const PLACES: u64 = 2_000;
/// Rounds of writes.
const ROUNDS: usize = 24;
/// Clusters that are started until a liar got to lie: one that is suspected before it said much proves nothing.
const TRIES: u64 = 5;

/// The lies of a line such as `B4/1+B14/0`: names of the adversaries' table, each with its shape.
fn lies(line: &str) -> Vec<(&str, i64)> {
    let lie = |word: &str| word.find('/').expect("a name and a shape");
    line.split('+')
        .map(|word| (&word[..lie(word)], word[lie(word) + 1..].parse().expect("a shape is a number")))
        .collect()
}

/// Started by the other tests of this module with a folder, it is the process of a replica that lies: it ends with its standard input,
/// and says by then how often it lied.
#[test]
fn the_process_of_a_liar() {
    let (Ok(folder), Ok(line)) = (std::env::var(FOLDER), std::env::var(LIES)) else {
        assert_eq!(lies("B4/1+B14/0"), [("B4", 1), ("B14", 0)]);
        return;
    };
    let folder = Path::new(&folder);
    let setup = Setup::read(folder, [], &[]).expect("a replica's directory");
    let config = synod_host::ubft::config(&setup.genesis, setup.own).expect("a genesis of ubft");
    let draws: u64 = std::env::var(DRAWS).expect("a number").parse().expect("a number");
    let (mut told, mut keys) = (None, Some(setup.key.to_keys().expect("randomness")));
    let server = Server::start_as(setup, |machine, hosted| {
        let keys = keys.take().expect("a replica is one machine");
        let (lying, count) =
            Lying::new((machine, hosted), &config, keys, (&lies(&line), draws)).expect("lies that there are");
        told = Some(count);
        Box::new(lying)
    });
    let server = server.expect("the replica starts");
    println!("{UP}");
    // Whoever started this closes its end, or is gone.
    drop(std::io::stdin().read_to_end(&mut Vec::new()));
    let counts: Vec<u64> =
        told.expect("a machine").iter().map(|count| count.load(Ordering::Relaxed)).collect();
    std::fs::write(folder.join("lies"), serde_json::to_string(&counts).expect("numbers"))
        .expect("its directory is writable");
    server.stop().expect("it ran to its end");
}

/// A replica that lies, which lies it tells, and what its draws begin from.
type Liar<'a> = (&'a str, &'a str, u64);

/// How often a replica blamed whom for what.
pub(crate) type Blames = BTreeMap<(String, String), u64>;

/// The processes of a cluster; they end with it.
pub(crate) struct Cluster {
    nodes: BTreeMap<String, Child>,
    /// The replica that lies, if one does.
    liar: Option<String>,
    first: u16,
    pub(crate) rig: Rig,
    _guards: Vec<TcpListener>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for node in self.nodes.values_mut() {
            drop(node.kill());
            drop(node.wait());
        }
    }
}

/// The first of a cluster's ports, and what owns them as `synod up` does: whoever listens on the last port of a block has the block.
fn claim() -> (u16, Vec<TcpListener>) {
    let mut drawn = RandomState::new().build_hasher();
    let listen = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    for _ in 0..400 {
        drawn.write_u8(0);
        let place = u16::try_from(drawn.finish() % PLACES).expect("it is small");
        let first = FIRST + place * BLOCK;
        let last = (1..=NODES).map(|block| listen(first + block * BLOCK - 1));
        let Ok(guards) = last.collect::<Result<Vec<TcpListener>, _>>() else { continue };
        let mut services = (0..NODES * BLOCK).filter(|at| at % BLOCK != BLOCK - 1);
        if services.all(|at| listen(first + at).is_ok()) {
            return (first, guards);
        }
    }
    unreachable!("of {PLACES} places one is free")
}

/// Where its nodes are, as `synod up` writes it down.
fn ports(first: u16) -> Value {
    let names = ["n0", "n1", "n2", "m0", "m1", "m2"];
    let node = |(index, name): (u16, &&str)| {
        let at = first + index * BLOCK;
        let ports = match name.starts_with('n') {
            true => json!({"peer": at, "client": at + 1, "http": at + 2, "resp": at + 4, "metrics": at + 5}),
            false => json!({"metrics": at + 5, "memory": at + 6}),
        };
        json!({"cluster": "lied", "name": name, "index": index, "ports": ports})
    };
    let nodes: Vec<Value> = (0..).zip(&names).map(node).collect();
    json!({"schema": "synod-ports/1", "nodes": nodes})
}

/// Waits until the process of a liar says that it serves.
fn await_up(liar: &mut Child) {
    let mut heard = BufReader::new(liar.stdout.take().expect("it is piped"));
    let mut line = String::new();
    while !line.trim_end().ends_with(UP) {
        line.clear();
        assert!(heard.read_line(&mut line).expect("text") > 0, "the liar ended before it served");
    }
    liar.stdout = Some(heard.into_inner());
}

impl Cluster {
    /// A cluster, of which one replica may lie from its beginning.
    pub(crate) fn start(liar: Option<Liar<'_>>) -> Self {
        let rig = Rig::new();
        let (first, guards) = claim();
        rig.ok(&format!("init --name lied --kind ubft --nodes 3 --out cluster --base-port {first}"));
        std::fs::write(rig.path("cluster/ports.json"), ports(first).to_string()).expect("a new file");
        rig.ok("ctx add lied --genesis cluster/genesis.toml --dir cluster");
        rig.ok("ctx use lied");
        let liar_name = liar.map(|(name, ..)| name.to_owned());
        let mut cluster = Self { nodes: BTreeMap::new(), liar: liar_name, first, rig, _guards: guards };
        ["m0", "m1", "m2"].into_iter().for_each(|name| cluster.run(name, "memnode"));
        // The liar is there before those who would suspect a leader that is late.
        if let Some((name, line, draws)) = liar {
            let command = cluster.lying(name, line, draws);
            await_up(cluster.spawn(name, command));
        }
        let liar = cluster.liar.clone();
        let honest = ["n0", "n1", "n2"].into_iter().filter(|name| Some(*name) != liar.as_deref());
        honest.for_each(|name| cluster.run(name, "node"));
        cluster
    }

    fn run(&mut self, name: &str, role: &str) {
        let command = self.rig.command(&format!("{role} run --data cluster/{name}"));
        self.spawn(name, command);
    }

    fn spawn(&mut self, name: &str, mut command: Command) -> &mut Child {
        let log = std::fs::File::create(self.rig.path(&format!("{name}.log"))).expect("a new file");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let node = command.spawn().expect("a process starts");
        self.nodes.entry(name.to_owned()).or_insert(node)
    }

    /// This executable once more, as the process of a liar.
    fn lying(&self, name: &str, line: &str, draws: u64) -> Command {
        let mut command = Command::new(std::env::current_exe().expect("this is a file"));
        self.rig.furnish(&mut command);
        command.args(["ubft_liars::the_process_of_a_liar", "--exact", "--nocapture"]);
        command.env(FOLDER, self.rig.path("cluster").join(name)).env(LIES, line);
        command.env(DRAWS, draws.to_string());
        command
    }

    /// The replicas that tell the truth have executed equally many slots and have equal states; all that tell it are there.
    pub(crate) fn agree(&self) -> Value {
        self.until(|honest| {
            let standing = |node: &Value| (node["executed"].clone(), node["digest"].clone());
            honest[0]["digest"].is_string()
                && honest[0]["executed"].as_u64() > Some(0)
                && honest.iter().all(|node| standing(node) == standing(honest[0]))
        })
    }

    /// Asks for the status until all replicas that tell the truth are ready, and it is so of them.
    pub(crate) fn until(&self, is_so: impl Fn(&[&Value]) -> bool) -> Value {
        let expected = if self.liar.is_some() { 2 } else { 3 };
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            let ran = self.rig.run("status --json");
            assert!(
                Instant::now() < deadline,
                "{expected} that are ready and agree: {} {}",
                ran.out,
                ran.err
            );
            // Nobody may have come up yet.
            let Ok(status) = serde_json::from_str::<Value>(&ran.out) else { continue };
            let honest: Vec<&Value> = rows(&status, "nodes")
                .iter()
                .filter(|node| node["node"].as_str() != self.liar.as_deref())
                .collect();
            let is_ready = honest.len() == expected && honest.iter().all(|node| node["state"] == "ready");
            if is_ready && is_so(&honest) {
                return status;
            }
        }
    }

    /// What the replicas that tell the truth say in their metrics whom they blamed for what.
    pub(crate) fn blames(&self) -> Blames {
        let mut blames = Blames::new();
        for (at, name) in (0..).zip(["n0", "n1", "n2"]) {
            if Some(name) == self.liar.as_deref() {
                continue;
            }
            let port = self.first + at * BLOCK + 5;
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
            write!(stream, "GET /metrics HTTP/1.1\r\nhost: node\r\nconnection: close\r\n\r\n")
                .expect("it reads");
            let mut page = String::new();
            stream.read_to_string(&mut page).expect("it answers");
            assert!(page.trim_end().ends_with("# EOF"), "{page}");
            for line in page.lines().filter_map(|line| line.strip_prefix("synod_blames_total{peer=\"")) {
                let (peer, rest) = line.split_once("\",fault=\"").expect("both labels");
                let (fault, times) = rest.split_once("\"} ").expect("a count");
                let times: u64 = times.parse().expect("a number");
                *blames.entry((peer.to_owned(), fault.to_owned())).or_default() += times;
            }
        }
        blames
    }

    /// Nobody ended that tells the truth; the liar ends now, and says how often it told each of its lies.
    pub(crate) fn end(mut self) -> Vec<u64> {
        for (name, node) in &mut self.nodes {
            let ended = node.try_wait().expect("it is ours");
            assert_eq!(ended, None, "{name}: {}", read(&self.rig.path(&format!("{name}.log"))));
        }
        let Some(name) = self.liar.clone() else { return Vec::new() };
        let liar = self.nodes.get_mut(&name).expect("there is one");
        drop(liar.stdin.take());
        let ended = liar.wait().expect("it is ours");
        assert!(ended.success(), "{}", read(&self.rig.path(&format!("{name}.log"))));
        let counts = read(&self.rig.path("cluster").join(&name).join("lies"));
        serde_json::from_str(&counts).expect("numbers")
    }
}

/// In a cluster where each of these lies was told, and found out, no result is false and nobody waits in vain; neither where fewer were.
fn lied_to(liar: &str, line: &str) {
    let is_found_out = |draws| {
        let (told, blames) = past(liar, line, draws);
        told.iter().all(|count| *count > 0) && !blames.is_empty()
    };
    assert!(
        (1..=TRIES).any(is_found_out),
        "in none of {TRIES} clusters {liar} told all of {line} and was blamed for it"
    );
}

/// Writes and reads past a replica that tells these lies; how often it told each, and what it was blamed for.
fn past(liar: &str, line: &str, draws: u64) -> (Vec<u64>, Blames) {
    let cluster = Cluster::start(Some((liar, line, draws)));
    let rig = &cluster.rig;
    cluster.until(|_| true);
    for round in 0..ROUNDS {
        rig.ok(&format!("kv put key{} {round} --timeout 120s", round % 4));
        let value = rig.json(&format!("kv get key{} --timeout 120s", round % 4))["value"].clone();
        assert_eq!(value, round.to_string(), "{liar} tells {line}");
    }
    for key in 0..4 {
        let value = rig.json(&format!("kv get key{key} --timeout 120s"))["value"].clone();
        assert_eq!(value, (ROUNDS - 4 + key).to_string(), "{liar} tells {line}");
    }
    let status = cluster.agree();
    for name in ["m0", "m1", "m2"] {
        assert_eq!(state(&status, "memory_nodes", "memory_node", name), "ready", "{status}");
    }
    let blames = cluster.blames();
    let told = cluster.end();
    println!("{liar} tells {line}: {told:?} calls changed, view {}, {blames:?}", status["view"]);
    let others: Vec<_> = blames.keys().filter(|(peer, _)| peer != liar).collect();
    assert!(others.is_empty(), "who tells the truth is blamed by one that does: {others:?}");
    (told, blames)
}

#[test]
fn ubft_liars_a_leader_that_tells_each_another_message_changes_nothing() {
    lied_to("n0", "B4/0");
    lied_to("n0", "B4/1");
}

#[test]
fn ubft_liars_a_leader_of_batches_and_certificates_of_nothing_changes_nothing() {
    lied_to("n0", "B15/1");
    lied_to("n0", "B9/1");
}

/// Registers are used where the fast path is not: false acknowledgements see to that.
#[test]
fn ubft_liars_a_follower_of_false_locks_and_false_registers_changes_nothing() {
    lied_to("n2", "B7/0+B14/0");
}

#[test]
fn ubft_liars_a_leader_that_equivocates_and_writes_false_registers_changes_nothing() {
    lied_to("n0", "B4/3+B14/0+B7/0");
}
