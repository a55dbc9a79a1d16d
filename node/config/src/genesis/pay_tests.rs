//! Tests of the genesis of protocol astro.

use super::*;
use crate::address::Address;
use crate::errors::{SynError, code};
use crate::keys::NodeKey;
use std::time::Duration;
use synod_crypto::Seed;
use synod_quorum::NodeId;

fn members() -> Vec<Member> {
    let member = |at: u8| {
        let key = NodeKey::from_seed(Seed::new([at + 1; 32])).public();
        Member::new(&format!("n{at}"), Address::loopback(7100 + 10 * u16::from(at)), key)
    };
    (0..4).map(member).collect()
}

fn build(pay: Pay) -> Result<Genesis, SynError> {
    build_with(pay, Vec::new())
}

fn operators(count: u8) -> Vec<Operator> {
    let key = |at: u8| NodeKey::from_seed(Seed::new([at + 100; 32])).public();
    (0..count).map(|at| Operator { name: format!("o{at}"), ed25519: key(at) }).collect()
}

fn build_with(pay: Pay, operators: Vec<Operator>) -> Result<Genesis, SynError> {
    let app = "ledger".to_owned();
    let cluster = Cluster { name: "main".to_owned(), protocol: Protocol::Astro, app, drill: false };
    Genesis::build_pay(cluster, pay, members(), operators)
}

fn genesis() -> Genesis {
    build(Pay::of(&members())).expect("it is valid")
}

#[test]
fn a_pay_genesis_is_read_back_as_written_and_states_nothing_of_an_order() {
    let genesis = genesis();
    let text = genesis.to_toml();
    assert!(!text.contains("view_window") && text.contains("profile = \"II-F\""), "{text}");
    let again = Genesis::parse("genesis.toml", &text).expect("what is written is valid");
    assert_eq!((&again, again.id()), (&genesis, genesis.id()));
    assert_eq!(again.pay(), Some(&Pay::of(&members())));
    let defaults =
        ["profile", "batch", "window", "lane", "retain", "founders", "shards", "cut", "app", "ledger"];
    let short: String = text
        .lines()
        .filter(|line| !defaults.iter().any(|key| line.starts_with(key)))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(Genesis::parse("genesis.toml", &short).expect("defaults are valid").id(), genesis.id());
}

#[test]
fn every_value_of_a_pay_genesis_is_part_of_its_id() {
    let pay = || Pay::of(&members());
    let registrar = |change: fn(&mut Registrar)| {
        let mut pay = pay();
        change(&mut pay.registrars[1]);
        pay
    };
    let fewer = Pay { registrars: pay().registrars[..3].to_vec(), ..pay() };
    for (changed, key) in [
        (Pay { batch_max: 9, ..pay() }, "protocol.batch_max"),
        (Pay { batch_bytes: 9 << 10, ..pay() }, "protocol.batch_bytes"),
        (Pay { window: 9, ..pay() }, "protocol.window"),
        (Pay { lane_window: 9, ..pay() }, "protocol.lane_window"),
        (Pay { retain_batches: 99, ..pay() }, "protocol.retain_batches"),
        (Pay { cut_every: Duration::from_secs(30), ..pay() }, "protocol.cut_every"),
        (registrar(|registrar| registrar.cap += 1), "registrar[1].cap"),
        (registrar(|registrar| registrar.ledger += 1), "registrar[1].ledger"),
        (fewer, "registrar[3].member"),
    ] {
        let changed = build(changed).expect("it is valid");
        assert_ne!(changed.id(), genesis().id(), "{key}");
        assert_eq!(genesis().first_difference(&changed).as_deref(), Some(key));
    }
}

#[test]
fn what_does_not_fit_together_is_refused_by_its_key() {
    let pay = || Pay::of(&members());
    let named = |name: &str| {
        let mut pay = pay();
        name.clone_into(&mut pay.registrars[0].member);
        pay
    };
    for (pay, text) in [
        (Pay { batch_max: 16_385, ..pay() }, "protocol.batch_max"),
        (Pay { lane_window: 64, retain_batches: 63, ..pay() }, "protocol.retain_batches"),
        (Pay { registrars: Vec::new(), ..pay() }, "nobody may issue money"),
        (named("n9"), "no member is named n9"),
        (named("n1"), "n1 is a registrar twice"),
    ] {
        let error = build(pay).expect_err("it is refused");
        assert_eq!(error.code(), code::RELATION_BROKEN, "{error}");
        assert!(error.message().contains(text), "{error}");
    }
}

#[test]
fn members_come_and_go_where_founders_and_operators_are_said() {
    let pay = |founders| Pay { founders, ..Pay::of(&members()) };
    let genesis = build_with(pay(3), operators(1)).expect("it is valid");
    let again = Genesis::parse("genesis.toml", &genesis.to_toml()).expect("what is written is valid");
    assert_eq!((&again, again.id()), (&genesis, genesis.id()));
    assert!(genesis.pay().is_some_and(Pay::has_views));
    let ids: Vec<_> = [0, 3, 4].map(|founders| build_with(pay(founders), operators(1))).into();
    let mut ids: Vec<_> = ids.into_iter().map(|genesis| genesis.expect("it is valid").id()).collect();
    ids.dedup();
    assert_eq!(ids.len(), 3, "how many begin is part of the id");
    for (pay, count, text) in [
        (pay(5), 1, "5 founders of 4 members"),
        (pay(3), 0, "nobody endorses"),
        (pay(3), 17, "17 operators; 16 at most"),
        (Pay { lane_window: 65, ..pay(3) }, 1, "65 batches under way; 64 at most"),
        (Pay { cut_every: Duration::from_millis(1), ..pay(3) }, 1, "members that come and go make none"),
    ] {
        let error = build_with(pay, operators(count)).expect_err("it is refused");
        assert_eq!(error.code(), code::RELATION_BROKEN, "{error}");
        assert!(error.message().contains(text), "{error}");
    }
    build_with(Pay { lane_window: 65, ..pay(0) }, operators(0)).expect("members that stay need none of it");
}

#[test]
fn shards_have_as_many_members_each_and_a_quorum_is_one_of_a_shard() {
    let pay = |shards| Pay { shards, ..Pay::of(&members()) };
    let genesis = build(pay(2)).expect("it is valid");
    let again = Genesis::parse("genesis.toml", &genesis.to_toml()).expect("what is written is valid");
    assert_eq!((&again, again.id()), (&genesis, genesis.id()));
    assert_eq!((genesis.groups(), genesis.f()), (vec![0..2, 2..4], 0));
    assert_eq!([0, 1, 2, 3].map(|member| genesis.group(NodeId(member)).0), [0, 0, 1, 1]);
    assert_eq!(genesis.group(NodeId(3)).1, 2..4);
    let one = build(pay(1)).expect("it is valid");
    assert_eq!(
        (one.groups(), one.f(), one.group(NodeId(3))),
        (std::iter::once(0..4).collect(), 1, (0, 0..4))
    );
    // What a file states of faults follows from it, and stands first.
    assert_ne!(one.id(), genesis.id());
    assert_eq!(one.first_difference(&genesis).as_deref(), Some("cluster.f"));
    let older = one.to_toml().replacen("shards = 1\n", "", 1);
    assert_eq!(Genesis::parse("genesis.toml", &older).expect("it is valid").id(), one.id());
    for (pay, count, text) in [
        (pay(3), 0, "3 shards of 4 members"),
        (pay(5), 0, "5 shards of 4 members"),
        (pay(128), 0, "128 shards of 4 members"),
        (Pay { founders: 4, ..pay(2) }, 1, "there for good"),
        (Pay { cut_every: Duration::from_secs(1), ..pay(2) }, 0, "several shards make none"),
    ] {
        let error = build_with(pay, operators(count)).expect_err("it is refused");
        assert_eq!(error.code(), code::RELATION_BROKEN, "{error}");
        assert!(error.message().contains(text), "{error}");
    }
    let none = genesis.to_toml().replacen("shards = 2", "shards = 0", 1);
    assert_eq!(Genesis::parse("genesis.toml", &none).expect_err("one at least").code(), code::BAD_VALUE);
}

#[test]
fn the_time_between_cuts_is_read_back_and_none_is_no_part_of_the_id() {
    let pay = |cut_every| Pay { cut_every, ..Pay::of(&members()) };
    for every in [Duration::from_millis(1), Duration::from_secs(30), Duration::from_secs(86_400)] {
        let genesis = build(pay(every)).expect("it is valid");
        let again = Genesis::parse("genesis.toml", &genesis.to_toml()).expect("what is written is valid");
        assert_eq!((&again, again.id()), (&genesis, genesis.id()), "{every:?}");
        assert!(again.pay().is_some_and(Pay::has_cuts));
    }
    let text = genesis().to_toml();
    assert!(text.contains("cut_every = \"0\"\n"), "{text}");
    let older = text.replacen("cut_every = \"0\"\n", "", 1);
    assert_eq!(Genesis::parse("genesis.toml", &older).expect("it is valid").id(), genesis().id());
    let longer = text.replacen("cut_every = \"0\"", "cut_every = \"86401s\"", 1);
    assert_eq!(Genesis::parse("genesis.toml", &longer).expect_err("a day at most").code(), code::BAD_VALUE);
}

#[test]
fn keys_of_another_protocol_are_refused() {
    let text = genesis().to_toml();
    for (line, key) in [
        ("profile = \"II-F\"\nview_window = 64", "protocol.view_window"),
        ("profile = \"II-F\"\ngrant = 64", "protocol.grant"),
    ] {
        let wrong = text.replacen("profile = \"II-F\"", line, 1);
        let error = Genesis::parse("genesis.toml", &wrong).expect_err("it is refused");
        assert_eq!(error.code(), code::RELATION_BROKEN, "{error}");
        assert!(error.message().contains(key), "{error}");
    }
    let hotstuff = text
        .replacen("protocol = \"astro\"\napp = \"ledger\"", "protocol = \"hotstuff\"", 1)
        .replacen("batch_max = 4096\n", "", 1);
    let error = Genesis::parse("genesis.toml", &hotstuff).expect_err("it is refused");
    assert!(error.message().contains("only astro has it"), "{error}");
}
