//! Among processes, a client that lies: it changes no result of others, has nothing done twice, and stops nobody.
//!
//! All nodes are the processes that `synod up --kind ubft` starts. The lying client is the real one in this process, over the same sockets, and what
//! leaves it is edited with its own key.

use crate::ubft_liars::Cluster;
use std::sync::atomic::Ordering;
use std::time::Duration;
use synod_crypto::{Keys, Seed};
use synod_host::{Backend as _, Call, ClientSetup, ClusterClient, Identity, Mode, Operation};
use synod_kv::Verb;
use synod_quorum::NodeId;
use synod_trial::systems::ubft::lying::{Asks, Lying, Told};
use tokio::sync::oneshot;

/// Rounds, in each of which the liar asks once and the other client writes and reads.
const ROUNDS: u64 = 24;
/// What the liar counts up; another last byte is another key.
const TALLY: &[u8] = b"tally0";

/// A client of this cluster that lies so.
fn liar(cluster: &Cluster, asks: Asks) -> (ClusterClient, Told) {
    let genesis =
        synod_config::Genesis::read(&cluster.rig.path("cluster/genesis.toml")).expect("it was written");
    let client = |member: &synod_config::Member| member.client.as_ref().map(ToString::to_string);
    let addresses = (0..).map(NodeId).zip(genesis.members().iter().filter_map(client)).collect();
    let config = synod_host::ubft::config(&genesis, NodeId(0)).expect("a genesis of ubft");
    let key: [u8; 32] = *b"the key of a client that may lie";
    let setup = ClientSetup {
        genesis,
        addresses,
        send_all: true,
        trust: "verified",
        nearest: NodeId(0),
        sessions: 1,
        believe: None,
    };
    let identity = Identity { key: Seed::new(key), number: 8, resume: None, first: 1 };
    let mut told = None;
    let client = ClusterClient::connect_hosted(&setup, identity, |machine, hosted| {
        let keys = Keys::ed25519(&Seed::new(key), [7; 32]);
        let (lying, count) = Lying::client((machine, hosted), &config, keys, (&[asks], 1));
        told = Some(count);
        Box::new(lying)
    });
    (client.expect("a client"), told.expect("its machine"))
}

/// Asks without waiting for an answer: a liar may never have one.
fn ask(client: &ClusterClient) {
    let mut body = Vec::new();
    synod_kv::operation::write_command(Verb::Incr, [TALLY].into_iter(), &mut body);
    let operation = Operation { body: body.into(), mode: Mode::Ordered };
    let (reply, _) = oneshot::channel();
    client.call(Call { lane: 0, operations: vec![operation], deadline: Duration::from_secs(20), reply });
}

/// How often something was counted up, whatever the liar made of its name.
fn tallied(cluster: &Cluster) -> u64 {
    let count = |key: u64| {
        let value = cluster.rig.json(&format!("kv get tally{key} --timeout 120s"))["value"].clone();
        value.as_str().map_or(0, |count| count.parse().expect("a count"))
    };
    (0..4).map(count).sum()
}

fn past(asks: Asks, may_blame: &[&str]) {
    let cluster = Cluster::start(None);
    cluster.until(|_| true);
    let (client, told) = liar(&cluster, asks);
    let rig = &cluster.rig;
    for round in 0..ROUNDS {
        ask(&client);
        rig.ok(&format!("kv put key{} {round} --timeout 120s", round % 4));
        let value = rig.json(&format!("kv get key{} --timeout 120s", round % 4))["value"].clone();
        assert_eq!(value, round.to_string(), "a client asks {asks:?}");
    }
    let tallied = tallied(&cluster);
    drop(client);
    let status = cluster.agree();
    let (blames, told) = (cluster.blames(), told[0].load(Ordering::Relaxed));
    cluster.end();
    println!(
        "a client asks {asks:?}: {told} calls changed, {tallied} done, view {}, {blames:?}",
        status["view"]
    );
    assert!(told > 0, "a client that lied not once");
    assert!(tallied <= ROUNDS, "{tallied} of {ROUNDS} were done: some twice");
    for (peer, fault) in blames.keys() {
        assert!(
            !peer.starts_with('n') && may_blame.contains(&fault.as_str()),
            "{peer} is blamed for {fault}"
        );
    }
}

#[test]
fn ubft_asked_another_operation_of_each_replica_nobody_is_stopped() {
    past(Asks::Others, &[]);
}

#[test]
fn ubft_asked_of_one_replica_alone_nobody_is_stopped() {
    past(Asks::Alone, &[]);
}

#[test]
fn ubft_asked_under_names_of_others_nobody_is_stopped() {
    past(Asks::Foreign, &["malformed", "bad_signature"]);
}

#[test]
fn ubft_asked_what_no_client_may_say_nobody_is_stopped() {
    past(Asks::Unfit, &["malformed", "bad_signature", "no_receiver"]);
}

#[test]
fn ubft_asked_without_end_nobody_is_stopped() {
    past(Asks::Flood, &["quota_exceeded"]);
}
