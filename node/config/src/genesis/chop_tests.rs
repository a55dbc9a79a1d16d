//! Tests of the genesis of protocol chopchop.

use super::*;
use crate::address::Address;
use crate::errors::{SynError, code};
use crate::files::scratch::Scratch;
use crate::keys::NodeKey;
use synod_crypto::{Hash, Seed};

fn key(number: u8) -> NodeKey {
    NodeKey::from_seed(Seed::new([number; 32]))
}

fn member(at: u8) -> Member {
    let port = 7100 + 10 * u16::from(at);
    let (bls, pop) = key(at).bls_card().expect("the system has randomness");
    Member {
        client: Some(Address::loopback(port + 1)),
        bls: Some(bls),
        pop: Some(pop),
        ..Member::new(&format!("n{at}"), Address::loopback(port), key(at).public())
    }
}

fn members() -> Vec<Member> {
    (0..4).map(member).collect()
}

fn broker(at: u8) -> Broker {
    let datagram = Address::loopback(7148 + 10 * u16::from(at));
    Broker { name: format!("b{at}"), datagram, ed25519: key(100 + at).public() }
}

fn chop() -> Chop {
    Chop { brokers: vec![broker(0), broker(1)], ..Chop::default() }
}

fn build(chop: Chop, members: Vec<Member>) -> Result<Genesis, SynError> {
    let app = "payments".to_owned();
    let cluster = Cluster { name: "main".to_owned(), protocol: Protocol::Chopchop, app, drill: false };
    let mut parameters = Parameters::defaults(Rules::Chain2Order, members.len());
    parameters.checkpoint_every = Chop::CHECKPOINT_EVERY;
    Genesis::build_chop(cluster, (parameters, chop), members, Vec::new())
}

fn genesis() -> Genesis {
    build(chop(), members()).expect("it is valid")
}

#[test]
fn a_chop_genesis_is_read_back_as_written_with_keys_for_multi_signatures() {
    let genesis = genesis();
    let text = genesis.to_toml();
    let again = Genesis::parse("genesis.toml", &text).expect("what is written is valid");
    assert_eq!((&again, again.id()), (&genesis, genesis.id()));
    assert_eq!(again.chop(), Some(&chop()));
    assert_eq!(again.broker("b1").map(|(number, _)| number), Some(1));
    let keys = again.bls().expect("every member has one");
    let bytes = keys.key(synod_quorum::NodeId(2)).map(|key| key.to_bytes());
    assert_eq!(bytes, member(2).bls);
    let short: String = text
        .lines()
        .filter(|line| {
            !["batch_max", "grant", "message", "kind", "checkpoint"].iter().any(|k| line.starts_with(k))
        })
        .map(|line| format!("{line}\n"))
        .collect();
    let defaults = Genesis::parse("genesis.toml", &short).expect("defaults are valid");
    assert_eq!(defaults.id(), genesis.id());
    assert_eq!(defaults.parameters().checkpoint_every, 1_024);
}

#[test]
fn every_value_of_a_chop_genesis_is_part_of_its_id() {
    let reference = genesis();
    let directory = Some(Hash::of(b"clients"));
    let moved = |broker: Broker| Broker { datagram: Address::loopback(9), ..broker };
    let changes = [
        (Chop { batch_max: 64, ..chop() }, "protocol.batch_max"),
        (Chop { body_bytes_max: 1 << 20, ..chop() }, "protocol.body_bytes_max"),
        (Chop { class: MessageClass::Variable, ..chop() }, "protocol.message_class"),
        (Chop { message_size: 32, ..chop() }, "protocol.message_size"),
        (Chop { expiry_horizon: 99, ..chop() }, "protocol.expiry_horizon"),
        (Chop { grant: 7, ..chop() }, "protocol.grant"),
        (Chop { tokens: 7, ..chop() }, "protocol.tokens"),
        (Chop { kind: ClusterKind::Bench, ..chop() }, "cluster.kind"),
        (Chop { brokers: vec![broker(0)], ..chop() }, "broker[1].name"),
        (Chop { brokers: vec![broker(1), broker(0)], ..chop() }, "broker[0].name"),
        (Chop { brokers: vec![broker(0), moved(broker(1))], ..chop() }, "broker[1].addresses"),
    ];
    for (changed, named) in changes {
        let changed = build(changed, members()).expect(named);
        assert_ne!(changed.id(), reference.id(), "{named}");
        assert_eq!(reference.first_difference(&changed).as_deref(), Some(named));
    }
    let changed = build(Chop { directory, ..chop() }, members()).expect("a directory may be named");
    assert_ne!(changed.id(), reference.id());
}

#[test]
fn members_without_a_proven_key_a_client_address_or_equal_stake_are_refused() {
    let with = |change: &dyn Fn(&mut Member)| {
        let mut members = members();
        change(&mut members[2]);
        build(chop(), members).expect_err("it is refused")
    };
    let none = with(&|member| (member.bls, member.pop) = (None, None));
    assert_eq!(none.code(), code::RELATION_BROKEN);
    assert!(none.message().starts_with("member.bls and cluster.protocol"), "{none}");
    let foreign = with(&|member| member.pop = self::member(1).pop);
    assert_eq!(foreign.code(), code::GENESIS_INVALID);
    assert!(foreign.message().contains("the bls key of n2 is refused"), "{foreign}");
    let twice = with(&|member| (member.bls, member.pop) = (self::member(1).bls, self::member(1).pop));
    assert_eq!(twice.code(), code::GENESIS_INVALID);
    assert!(twice.message().contains("share the bls"), "{twice}");
    let deaf = with(&|member| member.client = None);
    assert!(deaf.message().starts_with("member.addresses.client and cluster.protocol"), "{deaf}");
    let heavy = with(&|member| member.stake = 2);
    assert!(heavy.message().starts_with("member.stake and cluster.protocol"), "{heavy}");
}

#[test]
fn brokers_share_no_name_or_key_with_anybody() {
    let with = |broker: Broker| {
        let chop = Chop { brokers: vec![self::broker(0), broker], ..chop() };
        build(chop, members()).expect_err("it is refused")
    };
    let cases = [
        (Broker { name: "b0".to_owned(), ..broker(1) }, "share the name b0"),
        (Broker { name: "n3".to_owned(), ..broker(1) }, "share the name n3"),
        (Broker { ed25519: broker(0).ed25519, ..broker(1) }, "b1 and another share the key"),
        (Broker { ed25519: key(2).public(), ..broker(1) }, "b1 and another share the key"),
        (Broker { datagram: Address::loopback(0), ..broker(1) }, "datagram address of b1 has port 0"),
    ];
    for (broker, problem) in cases {
        let error = with(broker);
        assert_eq!(error.code(), code::GENESIS_INVALID);
        assert!(error.message().contains(problem), "{error}");
    }
}

#[test]
fn keys_of_chopchop_are_refused_in_a_genesis_of_another_protocol_and_apps_belong_to_one() {
    let text = genesis().to_toml();
    let hotstuff = text.replace("protocol = \"chopchop\"", "protocol = \"hotstuff\"");
    let refusal = |text: &str| Genesis::parse("genesis.toml", text).expect_err("it is refused");
    let error = refusal(&hotstuff);
    assert_eq!(error.code(), code::RELATION_BROKEN);
    assert!(error.message().ends_with("only chopchop has it"), "{error}");
    let error = refusal(&text.replace("app = \"payments\"", "app = \"kv\""));
    assert!(error.message().starts_with("cluster.app and cluster.protocol"), "{error}");
    let bare = text.lines().filter(|line| !line.starts_with("app = ")).collect::<Vec<_>>().join("\n");
    let read = Genesis::parse("genesis.toml", &bare).expect("payments is the default");
    assert_eq!(read.cluster().app, "payments");
}

#[test]
fn a_broker_is_found_by_name_and_key_and_must_listen() {
    let genesis = genesis();
    let node = |text: &str| {
        let none: [(String, String); 0] = [];
        crate::node::Effective::load(Some(("node.toml", text)), none.clone(), none)
            .and_then(|effective| effective.config())
            .expect("it is valid on its own")
    };
    let named = node("[node]\nname = \"b1\"\n[listen]\ndatagram = \"127.0.0.1:7158\"\n");
    assert_eq!(named.check_broker(&genesis, &key(101).public()), Ok(1));
    let refused = named.check_broker(&genesis, &key(100).public()).map_err(|error| error.code());
    assert_eq!(refused, Err(code::KEY_NOT_IN_GENESIS));
    let deaf = node("[node]\nname = \"b1\"\n");
    let refused = deaf.check_broker(&genesis, &key(101).public()).map_err(|error| error.code());
    assert_eq!(refused, Err(code::RELATION_BROKEN));
}

#[test]
fn only_the_directory_that_the_genesis_names_is_read() {
    let scratch = Scratch::new();
    let path = scratch.path().join("genesis.toml");
    let named = Chop { directory: Some(Hash::of(b"clients")), ..chop() };
    assert_eq!(chop().directory_bytes(&path), Ok(Vec::new()));
    assert_eq!(named.directory_bytes(&path).map_err(|error| error.code()), Err(code::CONFIG_UNREADABLE));
    std::fs::write(scratch.path().join(DIRECTORY_FILE), b"others").expect("it is ours");
    assert_eq!(named.directory_bytes(&path).map_err(|error| error.code()), Err(code::GENESIS_INVALID));
    std::fs::write(scratch.path().join(DIRECTORY_FILE), b"clients").expect("it is ours");
    assert_eq!(named.directory_bytes(&path), Ok(b"clients".to_vec()));
}

#[test]
fn one_key_file_gives_both_kinds_of_keys_and_they_tell_nothing_of_each_other() {
    let (bls, pop) = key(1).bls_card().expect("the system has randomness");
    assert_eq!(key(1).bls_card().expect("the system has randomness"), (bls, pop));
    assert_ne!(key(2).bls_card().expect("the system has randomness").0, bls);
    let plain = synod_crypto::bls::BlsSecret::new(&Seed::new([1; 32]));
    assert_ne!(plain.public().to_bytes(), bls, "the seed itself is no such secret");
}

fn memory(at: u8) -> MemoryMember {
    let memory = Address::loopback(7176 + 10 * u16::from(at));
    MemoryMember { name: format!("m{at}"), memory, ed25519: key(200 + at).public() }
}

fn over_ubft(every: u32, ubft: Ubft, chop: Chop, servers: u8) -> Result<Genesis, SynError> {
    let app = "payments".to_owned();
    let cluster = Cluster { name: "main".to_owned(), protocol: Protocol::Chopchop, app, drill: false };
    Genesis::build_chop_over_ubft(
        cluster,
        (every, ubft, chop),
        (0..servers).map(member).collect(),
        Vec::new(),
    )
}

fn ubft() -> Ubft {
    Ubft { memory: (0..3).map(memory).collect(), ..Ubft::default() }
}

#[test]
fn a_chop_genesis_over_ubft_is_read_back_as_written_and_is_another_cluster_than_one_over_hotstuff() {
    let genesis = over_ubft(1_024, ubft(), chop(), 3).expect("it is valid");
    let text = genesis.to_toml();
    assert!(text.contains("ordering = \"ubft\"") && !text.contains("view_window"), "{text}");
    let again = Genesis::parse("genesis.toml", &text).expect("what is written is valid");
    assert_eq!((&again, again.id()), (&genesis, genesis.id()));
    assert_eq!((genesis.f(), genesis.linked().size()), (1, 6));
    assert_eq!(genesis.memory_node("m1").map(|(id, _)| id), Some(synod_quorum::NodeId(4)));
    assert_eq!(again.chop().map(|chop| chop.batch_max), Some(65_536), "of Chop Chop's own batches");
    let ids = [
        over_ubft(2_048, ubft(), chop(), 3),
        over_ubft(1_024, Ubft { tail: 16, ..ubft() }, chop(), 3),
        over_ubft(1_024, ubft(), Chop { grant: 7, ..chop() }, 3),
    ];
    for other in ids {
        assert_ne!(other.expect("it is valid").id(), genesis.id());
    }
    let hotstuff = self::genesis().to_toml();
    assert!(hotstuff.contains("ordering = \"hotstuff\""), "{hotstuff}");
}

#[test]
fn the_id_of_a_cluster_over_hotstuff_is_that_of_a_file_that_says_no_ordering() {
    let text = genesis().to_toml();
    let older: String =
        text.lines().filter(|line| !line.starts_with("ordering")).map(|line| format!("{line}\n")).collect();
    assert_eq!(Genesis::parse("genesis.toml", &older).expect("it is valid").id(), genesis().id());
}

#[test]
fn what_no_cluster_of_chop_chop_over_ubft_can_be_made_of_is_refused() {
    let refused = |made: Result<Genesis, SynError>| made.map(drop).map_err(|error| error.code());
    for servers in [1, 2, 4] {
        let made = over_ubft(1_024, ubft(), chop(), servers);
        assert_eq!(refused(made), Err(code::RELATION_BROKEN), "{servers} servers");
    }
    assert_eq!(refused(over_ubft(8_193, ubft(), chop(), 3)), Err(code::RELATION_BROKEN));
    assert_eq!(refused(over_ubft(8_192, ubft(), chop(), 3)), Ok(()));
    let two = Ubft { memory: (0..2).map(memory).collect(), ..ubft() };
    assert_eq!(refused(over_ubft(1_024, two, chop(), 3)), Err(code::RELATION_BROKEN));
    for like in
        [Broker { name: "m2".to_owned(), ..broker(1) }, Broker { ed25519: memory(2).ed25519, ..broker(1) }]
    {
        let made = over_ubft(1_024, ubft(), Chop { brokers: vec![like], ..chop() }, 3);
        assert_eq!(refused(made), Err(code::GENESIS_INVALID));
    }
    let text = over_ubft(1_024, ubft(), chop(), 3).expect("it is valid").to_toml();
    let said = |from: &str, to: &str| {
        let error = Genesis::parse("genesis.toml", &text.replacen(from, to, 1)).expect_err(to);
        assert_eq!(error.code(), code::RELATION_BROKEN, "{to}: {error}");
        error.message().to_owned()
    };
    assert!(said("tail = 256", "tail = 256\nrules = \"chain2\"").starts_with("protocol.rules"));
    assert!(said("tail = 256", "tail = 256\nshards = 2").starts_with("protocol.shards"));
    assert!(said("\"ubft\"", "\"hotstuff\"").ends_with("has it"), "tails and memory nodes are of ubft");
    assert!(said("\"chopchop\"", "\"ubft\"").starts_with("protocol."), "an ordering is of chopchop");
}
