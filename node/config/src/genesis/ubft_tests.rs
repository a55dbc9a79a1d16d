//! Tests of the genesis of protocol ubft.

use super::*;
use crate::address::Address;
use crate::errors::{SynError, code};
use crate::keys::NodeKey;
use std::time::Duration;
use synod_crypto::{PublicKey, Seed};
use synod_quorum::NodeId;

fn key(at: u8) -> PublicKey {
    NodeKey::from_seed(Seed::new([at + 1; 32])).public()
}

fn members(count: u8) -> Vec<Member> {
    let member =
        |at: u8| Member::new(&format!("n{at}"), Address::loopback(7100 + 10 * u16::from(at)), key(at));
    (0..count).map(member).collect()
}

fn ubft(nodes: u8) -> Ubft {
    let node = |at: u8| MemoryMember {
        name: format!("m{at}"),
        memory: Address::loopback(7136 + 10 * u16::from(at)),
        ed25519: key(100 + at),
    };
    Ubft { memory: (0..nodes).map(node).collect(), ..Ubft::default() }
}

fn build(ubft: Ubft, members: Vec<Member>) -> Result<Genesis, SynError> {
    let app = "kv".to_owned();
    let cluster = Cluster { name: "main".to_owned(), protocol: Protocol::Ubft, app, drill: false };
    Genesis::build_ubft(cluster, ubft, members, Vec::new())
}

fn genesis() -> Genesis {
    build(ubft(3), members(3)).expect("it is valid")
}

#[test]
fn a_ubft_genesis_is_read_back_as_written_and_defaults_may_be_left_out() {
    let genesis = genesis();
    let text = genesis.to_toml();
    assert!(!text.contains("view_window") && text.contains("f = 1"), "{text}");
    let again = Genesis::parse("genesis.toml", &text).expect("what is written is valid");
    assert_eq!((&again, again.id()), (&genesis, genesis.id()));
    let defaults = ["tail", "window", "batch_max", "fast_wait", "suspect_wait", "merge_promises", "app"];
    let short: String = text
        .lines()
        .filter(|line| !defaults.iter().any(|key| line.starts_with(key)))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(Genesis::parse("genesis.toml", &short).expect("defaults are valid").id(), genesis.id());
}

#[test]
fn memory_nodes_are_linked_behind_the_members_and_are_none() {
    let genesis = genesis();
    assert_eq!((genesis.f(), genesis.roster().size(), genesis.linked().size()), (1, 3, 6));
    let (id, node) = genesis.memory_node("m1").expect("it is there");
    assert_eq!((id, genesis.linked().member(id).map(|member| member.key)), (NodeId(4), Some(node.ed25519)));
    assert!(genesis.member("m1").is_none() && genesis.memory_node("n1").is_none());
    let five = build(ubft(1), members(5)).expect("one memory node is enough for a cluster without crashes");
    assert_eq!((five.f(), five.linked().size()), (2, 6));
}

#[test]
fn every_value_of_a_ubft_genesis_is_part_of_its_id() {
    let elsewhere = |change: fn(&mut MemoryMember)| {
        let mut ubft = ubft(3);
        change(&mut ubft.memory[1]);
        ubft
    };
    for (changed, key) in [
        (Ubft { tail: 16, ..ubft(3) }, "protocol.tail"),
        (Ubft { window: 32, ..ubft(3) }, "protocol.window"),
        (Ubft { batch_max: 2, ..ubft(3) }, "protocol.batch_max"),
        (Ubft { fast_wait: Duration::from_millis(3), ..ubft(3) }, "protocol.fast_wait"),
        (Ubft { suspect_wait: Duration::from_secs(3), ..ubft(3) }, "protocol.suspect_wait"),
        (Ubft { merge_promises: true, ..ubft(3) }, "protocol.merge_promises"),
        (elsewhere(|node| node.name = "x".to_owned()), "memory[1].name"),
        (elsewhere(|node| node.memory = Address::loopback(9_000)), "memory[1].addresses"),
        (elsewhere(|node| node.ed25519 = key(77)), "memory[1].ed25519"),
        (ubft(1), "memory[1].name"),
    ] {
        let changed = build(changed, members(3)).expect("it is valid");
        assert_ne!(changed.id(), genesis().id(), "{key}");
        assert_eq!(genesis().first_difference(&changed).as_deref(), Some(key));
    }
}

#[test]
fn what_no_cluster_of_ubft_can_be_made_of_is_refused() {
    let refused = |ubft, members| build(ubft, members).map(drop).map_err(|error| error.code());
    for count in [1, 2, 4, 64] {
        assert_eq!(refused(ubft(3), members(count)), Err(code::RELATION_BROKEN), "{count} members");
    }
    for count in [0, 2, 4, 33] {
        assert_eq!(refused(ubft(count), members(3)), Err(code::RELATION_BROKEN), "{count} memory nodes");
    }
    for wrong in [
        Ubft { tail: 17, ..ubft(3) },
        Ubft { window: 16, ..ubft(3) },
        Ubft { window: 8_192, ..ubft(3) },
        Ubft { batch_max: 65, ..ubft(3) },
        Ubft { fast_wait: Duration::from_millis(51), ..ubft(3) },
    ] {
        assert_eq!(refused(wrong.clone(), members(3)), Err(code::RELATION_BROKEN), "{wrong:?}");
    }
    let merged = || Ubft { merge_promises: true, ..ubft(3) };
    assert_eq!(refused(merged(), members(3)), Ok(()));
    assert_eq!(refused(merged(), members(5)), Err(code::RELATION_BROKEN));
    let shares = |change: fn(&mut MemoryMember)| {
        let mut ubft = ubft(3);
        change(&mut ubft.memory[0]);
        refused(ubft, members(3))
    };
    assert_eq!(shares(|node| node.name = "n1".to_owned()), Err(code::GENESIS_INVALID));
    assert_eq!(shares(|node| node.ed25519 = key(1)), Err(code::GENESIS_INVALID));
    assert_eq!(shares(|node| node.ed25519 = key(101)), Err(code::GENESIS_INVALID));
    assert_eq!(shares(|node| node.memory = Address::loopback(7_110)), Err(code::GENESIS_INVALID));
    assert_eq!(shares(|node| node.memory = Address::loopback(0)), Err(code::GENESIS_INVALID));
}

#[test]
fn keys_of_other_protocols_are_refused_and_its_own_are_refused_there() {
    let text = genesis().to_toml();
    for (from, to) in [
        ("tail = 256", "tail = 256\nrules = \"chain2\""),
        ("tail = 256", "tail = 256\ngrant = 7"),
        ("drill = false", "drill = false\nkind = \"bench\""),
    ] {
        let error = Genesis::parse("genesis.toml", &text.replacen(from, to, 1)).expect_err(to);
        assert_eq!(error.code(), code::RELATION_BROKEN, "{to}: {error}");
    }
    let other = text.replacen("\"ubft\"", "\"hotstuff\"", 1);
    let error = Genesis::parse("genesis.toml", &other).expect_err("hotstuff has no tail");
    assert_eq!(error.code(), code::RELATION_BROKEN, "{error}");
    assert!(error.message().ends_with(" has it"), "whose key it is: {error}");
}
