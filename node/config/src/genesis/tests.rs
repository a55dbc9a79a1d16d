//! Tests of the genesis: every key, every relation, its id.

use super::*;
use crate::address::Address;
use crate::errors::{Code, SynError, code};
use crate::files::scratch::Scratch;
use crate::hex;
use crate::keys::NodeKey;
use crate::node::Effective;
use crate::table::Kind;
use synod_crypto::{PublicKey, Seed};
use synod_quorum::NodeId;

fn public(number: u8) -> PublicKey {
    NodeKey::from_seed(Seed::new([number; 32])).public()
}

fn members(count: u8) -> Vec<Member> {
    let member = |at: u8| {
        let mut member =
            Member::new(&format!("n{at}"), Address::loopback(7100 + 10 * u16::from(at)), public(at));
        member.client = Some(Address::loopback(7101 + 10 * u16::from(at)));
        member
    };
    (0..count).map(member).collect()
}

fn cluster() -> Cluster {
    Cluster { name: "main".to_owned(), protocol: Protocol::Hotstuff, app: "kv".to_owned(), drill: false }
}

fn genesis(count: u8) -> Genesis {
    let parameters = Parameters::defaults(Rules::Chain2Order, usize::from(count));
    let operators = vec![Operator { name: "ops".to_owned(), ed25519: public(200) }];
    Genesis::build(cluster(), parameters, members(count), operators).expect("it is valid")
}

fn parse(text: &str) -> Result<Genesis, SynError> {
    Genesis::parse("genesis.toml", text)
}

/// The smallest text of four members, with lines added to `[cluster]` and `[protocol]`.
fn text(in_cluster: &str, in_protocol: &str) -> String {
    use std::fmt::Write as _;
    let mut text = format!(
        "format = 1\n[cluster]\nname = \"main\"\nprotocol = \"hotstuff\"\n{in_cluster}\n[protocol]\n{in_protocol}\n"
    );
    for member in members(4) {
        let (name, peer, key) = (member.name, member.peer, hex(&member.ed25519.0));
        let _infallible = writeln!(
            text,
            "[[member]]\nname = \"{name}\"\naddresses = {{ peer = \"{peer}\" }}\ned25519 = \"{key}\""
        );
    }
    text
}

fn refusal(text: &str) -> SynError {
    parse(text).expect_err("the text is refused")
}

#[test]
fn what_is_written_is_read_back_and_has_the_same_id() {
    for count in [1, 4, 7, 40] {
        let genesis = genesis(count);
        let again = parse(&genesis.to_toml()).expect("what is written is valid");
        assert_eq!(again, genesis);
        assert_eq!(again.id(), genesis.id());
        assert_eq!(genesis.first_difference(&again), None);
    }
}

#[test]
fn the_file_is_never_overwritten() {
    let scratch = Scratch::new();
    let path = scratch.path().join("genesis.toml");
    genesis(4).write_new(&path).expect("nothing stands there");
    let refusal = genesis(7).write_new(&path).map_err(|error| error.code());
    assert_eq!(refusal, Err(code::ALREADY_INITIALISED));
    assert_eq!(Genesis::read(&path).map(|read| read.members().len()), Ok(4));
}

#[test]
fn an_omitted_default_and_a_stated_one_give_the_same_id() {
    let short = parse(&text("", "")).expect("defaults are valid");
    let long = parse(&text(
        "drill = false\nf = 1\nepoch = 0\napp = \"kv\"",
        "rules = \"chain2+order\"\nblock_bytes = \"1024Ki\"\nvotes = \"broadcast\"",
    ))
    .expect("stated defaults are valid");
    assert_eq!(short.id(), long.id());
    let other = parse(&text("", "view_window = 65")).expect("another window is valid");
    assert_ne!(short.id(), other.id());
    assert_eq!(short.first_difference(&other).as_deref(), Some("protocol.view_window"));
}

#[test]
fn the_id_of_a_fixed_genesis_does_not_change_between_releases() {
    let id = genesis(4).id().to_string();
    assert_eq!(id, FIXED_ID);
}

const FIXED_ID: &str = "3e1de9153c52e5320c0e10992f0b581f002ab6530cadadd0aa60ab00f3622c4b";

/// Every stated value changes the id: nothing that members must agree on is left out of it.
#[test]
fn every_value_is_part_of_the_id_and_named_when_it_differs() {
    let base = text("", "");
    let reference = parse(&base).expect("it is valid");
    let protocol = |line: &str| text("drill = true", line);
    let drill = parse(&protocol("")).expect("it is valid");
    assert_ne!(reference.id(), drill.id());
    let lines = [
        "rules = \"chain3\"",
        "term_views = 31",
        "votes = \"leader\"",
        "complaints = \"leader-first\"",
        "reputation = false",
        "block_bytes = \"64Ki\"",
        "block_items = 16383",
        "pool_items = 300000",
        "view_window = 63",
        "checkpoint_every = 1024",
        "retain_blocks = 4095",
        "executor_lag_max = 63",
        "client_auth = \"channel\"",
        "session_window = 512",
    ];
    for line in lines {
        let changed = parse(&protocol(line)).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_ne!(changed.id(), drill.id(), "{line}");
        let key = line.split(' ').next().expect("lines name a key");
        assert_eq!(drill.first_difference(&changed), Some(format!("protocol.{key}")));
    }
    let edits = [
        ("\"main\"", "\"west\"", "cluster.name"),
        ("name = \"n2\"", "name = \"n9\"", "member[2].name"),
        ("127.0.0.1:7110", "127.0.0.1:7119", "member[1].addresses"),
        (&hex(&public(3).0), &hex(&public(9).0), "member[3].ed25519"),
    ];
    for (from, to, key) in edits {
        let changed = parse(&base.replacen(from, to, 1)).expect("the change is valid");
        assert_ne!(changed.id(), reference.id(), "{key}");
        assert_eq!(reference.first_difference(&changed).as_deref(), Some(key));
    }
    let optional = [format!("x25519 = \"{}\"", "11".repeat(32)), "stake = 2".to_owned()];
    for line in optional {
        let changed = parse(&format!("{base}{line}\n")).expect("the last member takes the line");
        assert_ne!(changed.id(), reference.id(), "{line}");
    }
    let reordered = Genesis::build(
        reference.cluster().clone(),
        reference.parameters().clone(),
        reference.members().iter().rev().cloned().collect(),
        Vec::new(),
    );
    assert_ne!(reordered.expect("it is valid").id(), reference.id(), "the order of members gives their ids");
}

#[test]
fn f_follows_from_the_stake_and_is_checked_if_stated() {
    for (count, f) in [(1, 0), (3, 0), (4, 1), (5, 1), (7, 2), (10, 3)] {
        assert_eq!(genesis(count).f(), f, "{count} members");
    }
    parse(&text("f = 1", "")).expect("four members tolerate one");
    let error = refusal(&text("f = 2", ""));
    assert_eq!(error.code(), code::RELATION_BROKEN);
    assert!(error.message().starts_with("cluster.f and member.stake do not fit together: f is 2"), "{error}");
    let heavy = parse(&(text("", "") + "stake = 7\n")).expect("stake may differ");
    assert_eq!((heavy.roster().weights().total(), heavy.f()), (10, 3));
    let whole = format!("stake = {}\n", i64::MAX);
    assert_eq!(refusal(&(text("", "") + &whole)).code(), code::GENESIS_INVALID);
}

#[test]
fn defaults_depend_on_the_pack_and_the_number_of_members() {
    let small = Parameters::defaults(Rules::Chain2Order, 4);
    assert_eq!((small.term_views, small.votes, small.reputation), (32, Votes::Broadcast, true));
    assert_eq!((small.scheme, small.complaints), (Scheme::Ed25519, Complaints::Broadcast));
    assert!(!Parameters::defaults(Rules::Chain2Order, 3).reputation);
    let pack = Parameters::defaults(Rules::Basic, 4);
    assert_eq!((pack.term_views, pack.reputation), (1, false));
    for (count, votes) in [(32, Votes::Broadcast), (33, Votes::Leader)] {
        assert_eq!(Parameters::defaults(Rules::Chain2, count).votes, votes);
    }
    for (count, scheme) in [(40, Scheme::Ed25519), (41, Scheme::Bls)] {
        assert_eq!(Parameters::defaults(Rules::Chain2, count).scheme, scheme);
    }
    for (rules, count) in [(Rules::Chain3, 128), (Rules::Basic, 4), (Rules::Chain2, 33)] {
        assert_eq!(Parameters::defaults(rules, count).check(false), Ok(()), "{rules} with {count} members");
    }
}

#[test]
fn parameters_that_do_not_fit_together_are_both_named() {
    let cases = [
        (
            "",
            "rules = \"chain3\"\nvotes = \"leader\"\nterm_views = 3",
            "protocol.votes",
            "protocol.term_views",
        ),
        ("", "rules = \"chain3\"\nreputation = true", "protocol.reputation", "protocol.rules"),
        ("", "pool_items = 16383", "protocol.pool_items", "protocol.block_items"),
        ("", "retain_blocks = 64\nview_window = 65", "protocol.retain_blocks", "protocol.view_window"),
        ("", "rules = \"naive2\"", "protocol.rules", "cluster.drill"),
        ("drill = true", "filter = \"seen\"", "protocol.filter", "protocol.rules"),
        ("drill = true", "block_items = 0", "protocol.block_items", "protocol.rules"),
        ("", "rules = \"basic\"\nterm_views = 2", "protocol.term_views", "protocol.rules"),
        ("", "scheme = \"bls\"", "protocol.scheme", "member.bls"),
    ];
    for (in_cluster, in_protocol, first, second) in cases {
        let error = refusal(&text(in_cluster, in_protocol));
        assert_eq!(error.code(), code::RELATION_BROKEN, "{error}");
        assert!(error.message().starts_with(&format!("{first} and {second} do not fit together")), "{error}");
    }
    let accepted = [
        ("drill = true", "rules = \"naive2\"\nfilter = \"seen\"\nblock_items = 0"),
        ("", "rules = \"chain3\"\nvotes = \"leader\"\nterm_views = 4"),
    ];
    for (in_cluster, in_protocol) in accepted {
        parse(&text(in_cluster, in_protocol)).unwrap_or_else(|error| panic!("{in_protocol}: {error}"));
    }
}

#[test]
fn values_without_code_behind_them_are_refused() {
    for line in ["bodies = \"full\"", "bodies = \"min-exec\"", "rules = \"naive2\"\nfilter = \"off\""] {
        let error = refusal(&text("drill = true", line));
        assert_eq!(error.code(), code::BAD_VALUE, "{error}");
        assert!(error.message().contains("which this program does not have"), "{error}");
    }
}

fn out_of_range(kind: Kind) -> Vec<String> {
    let quoted = |text: &str| format!("\"{text}\"");
    match kind {
        Kind::Count(min, max) => {
            let low = min.checked_sub(1).map_or("-1".to_owned(), |low| low.to_string());
            let high = i64::try_from(max).ok().and_then(|max| max.checked_add(1));
            [Some(low), high.map(|high| high.to_string()), Some(quoted("1"))].into_iter().flatten().collect()
        }
        Kind::Size(min, max) => vec![(min - 1).to_string(), (max + 1).to_string(), quoted("1MB")],
        Kind::Span(_, max) => vec![quoted(&format!("{}ns", max + 1)), quoted("100"), "100".to_owned()],
        Kind::Hex(bytes) => {
            vec![quoted(""), quoted(&"0".repeat(2 * bytes - 1)), quoted(&"G".repeat(2 * bytes))]
        }
        Kind::Name(max) => vec![quoted(""), quoted("a b"), quoted(&"x".repeat(max + 1))],
        Kind::Address => vec![quoted(""), quoted("host")],
        Kind::AddressOrOff => vec![quoted("host"), "1".to_owned()],
        Kind::Flag => vec![quoted("true"), "1".to_owned()],
        Kind::Choice(_) => vec![quoted(""), quoted("other"), "1".to_owned()],
        other => unreachable!("genesis.toml has no key of kind {other:?}"),
    }
}

/// A valid file in which `key` (of the table) has the literal `value`.
fn with(key: &str, value: &str) -> String {
    let base = text("drill = false", "");
    let leaf = key.rsplit('.').next().expect("names are not empty");
    let line = format!("{leaf} = {value}\n");
    let without = |section: &str, text: &str| {
        let start = text.find(section).map_or(0, |at| at + section.len());
        let end = text[start..].find("\n[").map_or(text.len(), |at| start + at + 1);
        let kept: String = text[start..end]
            .lines()
            .filter(|old| !old.starts_with(&format!("{leaf} = ")))
            .map(|old| format!("{old}\n"))
            .collect();
        format!("{}\n{line}{kept}{}", text[..start].trim_end(), &text[end..])
    };
    match key.split('.').next().expect("names are not empty") {
        "format" => base.replacen("format = 1", line.trim_end(), 1),
        "cluster" => without("[cluster]", &base),
        "protocol" => without("[protocol]", &base),
        "member" if leaf == "peer" => base.replacen("peer = \"127.0.0.1:7100\"", line.trim_end(), 1),
        "member" if key.starts_with("member.addresses") => {
            base.replacen("7100\" }", &format!("7100\", {} }}", line.trim_end()), 1)
        }
        "member" => without("[[member]]", &base),
        "broker" => {
            let (name, key) = (key, hex(&public(98).0));
            let whole = format!(
                "[[broker]]\nname = \"b\"\naddresses = {{ datagram = \"127.0.0.1:7148\" }}\ned25519 = \"{key}\"\n"
            );
            base + &match leaf {
                "name" => whole.replace("name = \"b\"\n", &line),
                "datagram" => whole.replace("datagram = \"127.0.0.1:7148\"", line.trim_end()),
                "ed25519" => whole.replace(&format!("ed25519 = \"{key}\"\n"), &line),
                _ if name.starts_with("broker.addresses") => {
                    whole.replace(" }", &format!(", {} }}", line.trim_end()))
                }
                _ => whole + &line,
            }
        }
        "registrar" => {
            let whole = "[[registrar]]\nmember = \"n0\"\ncap = 5\n";
            let old = whole.lines().find(|old| old.starts_with(&format!("{leaf} = ")));
            base + &old.map_or(whole.to_owned() + &line, |old| whole.replace(&format!("{old}\n"), &line))
        }
        _ => {
            base + &format!("[[operator]]\nname = \"o\"\ned25519 = \"{}\"\n", hex(&public(99).0)).replace(
                &format!(
                    "{leaf} = \"{}\"\n",
                    if leaf == "name" { "o".to_owned() } else { hex(&public(99).0) }
                ),
                &line,
            )
        }
    }
}

#[test]
fn every_bad_value_is_refused_by_the_name_of_its_key() {
    // Memory nodes have tests beside their protocol.
    for key in GENESIS_KEYS.iter().filter(|key| !key.name.starts_with("memory.")) {
        for literal in out_of_range(key.kind).into_iter().chain(["[[1]]".to_owned()]) {
            if key.name == "format" && literal == "2" {
                continue;
            }
            let error = refusal(&with(key.name, &literal));
            assert_eq!(error.code(), code::BAD_VALUE, "{} = {literal}: {error}", key.name);
            let shown = ["member.", "operator.", "broker.", "registrar."]
                .iter()
                .fold(key.name.to_owned(), |name, list| {
                    name.replacen(list, &format!("{}[0].", list.trim_end_matches('.')), 1)
                });
            assert!(error.message().starts_with(&format!("genesis.toml: {shown} is ")), "{literal}: {error}");
        }
    }
}

#[test]
fn every_misspelt_key_suggests_its_own() {
    for key in GENESIS_KEYS {
        let (section, leaf) = key.name.rsplit_once('.').unwrap_or(("", key.name));
        let wrong = format!("{leaf}x");
        let text = match section {
            "" => text("", "").replacen("format = 1", "formatx = 1", 1),
            "operator" | "memory" => text("", "") + &format!("[[{section}]]\n{wrong} = 1\n"),
            "memory.addresses" => text("", "") + &format!("[[memory]]\naddresses = {{ {wrong} = 1 }}\n"),
            _ => with(&format!("{section}.{wrong}"), "1"),
        };
        let error = refusal(&text);
        assert_eq!(error.code(), code::UNKNOWN_KEY, "{error}");
        assert!(error.message().ends_with(&format!("the nearest known key is {}", key.name)), "{error}");
    }
}

#[test]
fn required_keys_are_named_when_missing() {
    let base = text("", "");
    let cases = [
        ("format = 1\n", "format"),
        ("name = \"main\"\n", "cluster.name"),
        ("protocol = \"hotstuff\"\n", "cluster.protocol"),
        ("name = \"n0\"\n", "member[0].name"),
        ("peer = \"127.0.0.1:7100\"", "member[0].addresses.peer"),
    ];
    for (line, key) in cases {
        let error = refusal(&base.replacen(line, "", 1));
        assert_eq!(error.message(), format!("genesis.toml: {key} is missing"));
    }
    let key = format!("ed25519 = \"{}\"\n", hex(&public(2).0));
    assert_eq!(refusal(&base.replacen(&key, "", 1)).message(), "genesis.toml: member[2].ed25519 is missing");
}

#[test]
fn members_that_share_anything_are_refused_by_name() {
    let base = text("", "");
    let (first, second) = (hex(&public(0).0), hex(&public(1).0));
    let cases = [
        (base.replace("\"n1\"", "\"n0\""), "share the name n0"),
        (base.replace("7110", "7100"), "n0 and n1 share the address 127.0.0.1:7100"),
        (base.replace(&second, &first), "n0 and n1 share the key"),
        (base.replace("127.0.0.1:7130", "127.0.0.1:0"), "the peer address of n3 has port 0"),
        (base.replace(&second, &"00".repeat(32)), "the ed25519 key of n1 is refused"),
        (format!("{base}bls = \"{}\"\n", "11".repeat(48)), "n3 states one of bls and pop"),
        (format!("{base}[[operator]]\nname = \"o\"\ned25519 = \"{first}\"\n"), "n0 and o share the key"),
    ];
    for (text, problem) in cases {
        let error = refusal(&text);
        assert_eq!(error.code(), code::GENESIS_INVALID, "{error}");
        assert!(error.message().contains(problem), "{error}");
    }
}

#[test]
fn a_cluster_has_1_to_128_members_and_a_file_at_most_1_mib() {
    let built = |count: u8| {
        let parameters =
            Parameters { scheme: Scheme::Ed25519, ..Parameters::defaults(Rules::Chain2, usize::from(count)) };
        Genesis::build(cluster(), parameters, members(count), Vec::new())
    };
    for (count, fits) in [(0, false), (1, true), (128, true), (129, false)] {
        match built(count) {
            Ok(genesis) => assert!(fits && parse(&genesis.to_toml()).as_ref() == Ok(&genesis)),
            Err(error) => assert!(!fits && error.code() == code::GENESIS_INVALID, "{error}"),
        }
    }
    let list = "[[member]]\n".repeat(129);
    assert_eq!(
        refusal(&format!("format = 1\n[cluster]\nname = \"m\"\nprotocol = \"hotstuff\"\n{list}")).code(),
        code::BAD_VALUE
    );
    let long = text("", "") + "#" + &"x".repeat(1 << 20);
    assert_eq!(refusal(&long).code(), code::CONFIG_UNREADABLE);
}

#[test]
fn aggregate_signatures_are_refused_even_with_keys_since_nothing_verifies_them() {
    let mut members = members(4);
    for (number, member) in (1_u8..).zip(&mut members) {
        (member.bls, member.pop) = (Some([number; 48]), Some([number; 96]));
    }
    let parameters = |scheme| Parameters { scheme, ..Parameters::defaults(Rules::Chain2, 4) };
    let build = |scheme| Genesis::build(cluster(), parameters(scheme), members.clone(), Vec::new());
    let error = build(Scheme::Bls).expect_err("nothing verifies the proofs");
    assert_eq!(error.code(), code::BAD_VALUE);
    assert!(error.message().starts_with("genesis.toml: protocol.scheme is bls"), "{error}");
    let stated = build(Scheme::Ed25519).expect("unused keys may be stated");
    assert_eq!(parse(&stated.to_toml()), Ok(stated));
}

#[test]
fn a_newer_format_is_refused_as_newer_even_with_keys_nobody_knows() {
    let error = refusal(&(text("", "").replacen("format = 1", "format = 2\nlater = 1", 1)));
    assert_eq!(error.code(), code::FORMAT_NEWER);
    assert_eq!(error.message(), "genesis.toml has format 2; this program reads up to 1");
}

fn node(text: &str) -> crate::node::NodeConfig {
    let none: [(String, String); 0] = [];
    Effective::load(Some(("node.toml", text)), none.clone(), none)
        .and_then(|effective| effective.config())
        .expect("it is valid on its own")
}

#[test]
fn a_node_finds_itself_in_the_genesis_by_name_and_key() {
    let genesis = genesis(4);
    let config = node("[node]\nname = \"n2\"\n");
    assert_eq!(config.check(&genesis, &public(2)), Ok(NodeId(2)));
    let error = config.check(&genesis, &public(1)).expect_err("the key is another member's");
    assert_eq!(error.code(), code::KEY_NOT_IN_GENESIS);
    assert_eq!(error.causes(), ["the genesis gives this key to n1"]);
    let stranger = node("[node]\nname = \"n7\"\n");
    let error = stranger.check(&genesis, &public(77)).expect_err("nobody has this name or key");
    assert_eq!((error.code(), error.causes().len()), (code::KEY_NOT_IN_GENESIS, 0));
}

#[test]
fn a_node_may_not_exceed_its_genesis() {
    let genesis = genesis(4);
    let cases: [(&str, &str, &str); 3] = [
        ("[protocol]\nbatch_max = 16385\n", "protocol.batch_max", "protocol.block_items"),
        ("[limits]\nframe_max = \"1Mi\"\n", "limits.frame_max", "protocol.block_bytes"),
        ("[limits]\nrequest_max = \"2Mi\"\n", "limits.request_max", "protocol.block_bytes"),
    ];
    for (text, first, second) in cases {
        let config = node(&format!("[node]\nname = \"n0\"\n{text}"));
        let error = config.check(&genesis, &public(0)).expect_err("the genesis does not allow it");
        assert_eq!(error.code(), code::RELATION_BROKEN);
        assert!(error.message().starts_with(&format!("{first} and {second} do not fit together")), "{error}");
    }
    let fits = node("[node]\nname = \"n0\"\n[protocol]\nbatch_max = 16384\n[limits]\nframe_max = \"2Mi\"\n");
    assert_eq!(fits.check(&genesis, &public(0)), Ok(NodeId(0)));
}

#[test]
fn random_genesis_files_never_panic_and_accepted_ones_are_stable() {
    let seed = genesis(4).to_toml();
    let mut random = crate::random::Random::new(4);
    let known = [1101, 1102, 1103, 1105, 1106, 1110].map(Code::new);
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..2_000 {
        match parse(&random.mutated(&seed)) {
            Ok(genesis) => {
                accepted += 1;
                assert_eq!(parse(&genesis.to_toml()), Ok(genesis));
            }
            Err(error) => {
                refused += 1;
                assert!(known.contains(&error.code()), "{error}");
            }
        }
    }
    assert!(accepted > 20 && refused > 500, "{accepted} accepted, {refused} refused");
}
