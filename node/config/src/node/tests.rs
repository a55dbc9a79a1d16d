//! Tests of node.toml: every key, every layer, every relation.

use super::*;
use crate::address::Address;
use crate::errors::{SynError, code};
use crate::table::Kind;
use crate::units::parse_duration;
use std::time::Duration;

const NONE: [(String, String); 0] = [];

fn pair(key: &str, value: &str) -> [(String, String); 1] {
    [(key.to_owned(), value.to_owned())]
}

fn file(text: &str) -> Result<Effective, SynError> {
    Effective::load(Some(("node.toml", text)), NONE, NONE)
}

fn named(text: &str) -> Result<NodeConfig, SynError> {
    Effective::load(Some(("node.toml", text)), NONE, pair("node.name", "n0"))?.config()
}

fn row(effective: &Effective, key: &str) -> Row {
    effective.rows().find(|row| row.key == key).expect("every key has a row")
}

/// `section.key = literal` as a file.
fn one(key: &str, literal: &str) -> String {
    let (section, leaf) = key.split_once('.').expect("keys have a section");
    format!("[{section}]\n{leaf} = {literal}\n")
}

#[test]
fn there_are_45_keys_of_every_node_and_17_of_chop_chop_and_their_defaults_are_valid() {
    assert_eq!(KEYS.len(), 45 + 17);
    let mut sections: Vec<&str> = KEYS.iter().filter_map(|key| key.name.split('.').next()).collect();
    sections.dedup();
    let expected = [
        "node", "listen", "protocol", "storage", "limits", "runtime", "metrics", "access", "log", "chop",
        "broker", "webhook",
    ];
    assert_eq!(sections, expected);
    let effective = Effective::load(None, NONE, NONE).expect("defaults are valid");
    assert_eq!(effective.rows().count(), 45 + 17);
    assert!(effective.rows().all(|row| row.origin == Origin::Default));
    let missing = effective.config().expect_err("a name is required");
    assert_eq!((missing.code(), missing.message()), (code::BAD_VALUE, "node.toml: node.name is missing"));
}

#[test]
fn the_defaults_are_those_of_the_surface() {
    let config = named("").expect("only the name is required");
    assert_eq!(config.node.key_file.to_str(), Some("keys/node.key"));
    assert_eq!(config.listen.resp, Some(Address::loopback(7104)));
    assert_eq!((config.listen.grpc.as_ref(), config.listen.datagram.as_ref()), (None, None));
    assert_eq!(config.protocol.batch_max, None);
    assert_eq!(config.protocol.timeout_base, Duration::from_millis(100));
    assert_eq!(config.protocol.timeout_max, Duration::from_secs(10));
    assert_eq!((config.storage.sync, config.storage.retain_bytes), (Sync::Group, 2 << 30));
    assert_eq!((config.limits.frame_max, config.limits.request_max), (16 << 20, 768 << 10));
    assert_eq!((config.limits.mempool_bytes, config.limits.gateway_bytes), (64 << 20, 128 << 20));
    assert_eq!((config.limits.clients_max, config.limits.inflight_per_client), (1024, 64));
    assert_eq!((config.runtime.jobs, config.runtime.pin, config.runtime.simd), (1, false, Simd::Auto));
    assert_eq!((config.log.level, config.log.format), (Level::Info, Format::Text));
}

/// Four ways to misspell a word.
fn typos(leaf: &str) -> Vec<String> {
    let letters: Vec<char> = leaf.chars().collect();
    let middle = letters.len() / 2;
    let doubled: String = letters
        .iter()
        .enumerate()
        .flat_map(|(at, letter)| vec![*letter; if at == middle { 2 } else { 1 }])
        .collect();
    let mut swapped = letters.clone();
    swapped.swap(middle - 1, middle);
    let short: String = letters[..letters.len() - 1].iter().collect();
    let headless: String = letters[1..].iter().collect();
    vec![doubled, swapped.into_iter().collect(), short, headless]
}

#[test]
fn every_misspelt_key_suggests_its_own_in_each_layer() {
    let mut tried = 0;
    for key in KEYS {
        let (section, leaf) = key.name.split_once('.').expect("keys have a section");
        for typo in typos(leaf) {
            let wrong = format!("{section}.{typo}");
            if KEYS.iter().any(|known| known.name == wrong) || typo == leaf {
                continue;
            }
            let variable = format!("SYNOD_{}__{}", section.to_uppercase(), typo.to_uppercase());
            let refusals = [
                file(&one(&wrong, "1")).map(drop),
                Effective::load(None, pair(&variable, "1"), NONE).map(drop),
                Effective::load(None, NONE, pair(&wrong, "1")).map(drop),
            ];
            for refusal in refusals {
                let refusal = refusal.expect_err("the key is unknown");
                assert_eq!(refusal.code(), code::UNKNOWN_KEY, "{wrong}");
                let suggestion = format!("unknown key {wrong}; the nearest known key is {}", key.name);
                assert!(refusal.message().ends_with(&suggestion), "{refusal}");
            }
            tried += 1;
        }
    }
    assert!(tried >= 55 * 3, "{tried} misspelt keys were tried");
}

#[test]
fn a_misspelt_section_suggests_the_key_meant() {
    let refusal = file("[storag]\nsync = \"group\"\n").expect_err("no such section");
    assert!(
        refusal.message().ends_with("unknown key storag.sync; the nearest known key is storage.sync"),
        "{refusal}"
    );
    let refusal = file("[lmits]\n").expect_err("no such section");
    assert!(refusal.message().ends_with("unknown key lmits; the nearest known key is limits"), "{refusal}");
    let moved = file(&one("node.sync", "1")).expect_err("it stands in the wrong section");
    assert!(moved.message().ends_with("the nearest known key is storage.sync"), "{moved}");
}

/// A literal that no value of this kind may have, besides one of the wrong type.
fn out_of_range(kind: Kind) -> Vec<String> {
    match kind {
        Kind::Name(max) => {
            vec!["\"\"".to_owned(), "\"a b\"".to_owned(), format!("\"{}\"", "x".repeat(max + 1))]
        }
        Kind::Path => vec!["\"\"".to_owned(), "\"a\\u0000b\"".to_owned()],
        Kind::PathOrNone => vec!["\"a\\u0000b\"".to_owned(), format!("\"{}\"", "x".repeat(2_000))],
        Kind::Address => vec!["\"\"".to_owned(), "\"host\"".to_owned()],
        Kind::AddressOrOff => vec!["\"host\"".to_owned(), "\"host:99999\"".to_owned(), "7100".to_owned()],
        Kind::Count(min, max) => {
            let low = min.checked_sub(1).map_or("-1".to_owned(), |low| low.to_string());
            vec![low, (max + 1).to_string(), "1.5".to_owned(), "\"1\"".to_owned()]
        }
        Kind::Size(min, max) => {
            let low = min.checked_sub(1).map_or("-1".to_owned(), |low| low.to_string());
            vec![low, (max + 1).to_string(), "\"64M\"".to_owned(), "\"-1\"".to_owned()]
        }
        Kind::Span(min, max) => {
            let low = min.checked_sub(1).map_or("\"-1ms\"".to_owned(), |low| format!("\"{low}ns\""));
            vec![low, format!("\"{}ns\"", max + 1), "100".to_owned(), "\"100\"".to_owned()]
        }
        Kind::Flag => vec!["\"true\"".to_owned(), "1".to_owned()],
        Kind::Choice(_) => vec!["\"\"".to_owned(), "\"other\"".to_owned(), "true".to_owned()],
        Kind::Hex(_) | Kind::Addresses(_) => unreachable!("node.toml has no such key"),
    }
}

#[test]
fn every_bad_value_is_refused_by_the_name_of_its_key() {
    for key in KEYS {
        for literal in out_of_range(key.kind).into_iter().chain(["[1]".to_owned(), "{ a = 1 }".to_owned()]) {
            let refusal =
                file(&one(key.name, &literal)).expect_err(&format!("{} = {literal} is refused", key.name));
            assert_eq!(refusal.code(), code::BAD_VALUE, "{refusal}");
            assert!(refusal.message().starts_with(&format!("node.toml: {} is ", key.name)), "{refusal}");
        }
    }
}

#[test]
fn both_ends_of_every_range_are_accepted() {
    for key in KEYS {
        let ends = match key.kind {
            Kind::Count(min, max) => vec![min.to_string(), max.to_string()],
            Kind::Size(min, max) => vec![min.to_string(), max.to_string()],
            Kind::Span(min, max) => vec![format!("\"{min}ns\""), format!("\"{max}ns\"")],
            Kind::Choice(words) => words.iter().map(|word| format!("\"{word}\"")).collect(),
            _ => continue,
        };
        for literal in ends {
            file(&one(key.name, &literal)).expect("the ends of a range belong to it");
        }
    }
}

#[test]
fn later_layers_win_and_each_value_keeps_its_origin() {
    let text = "[log]\nlevel = \"warn\"\n[runtime]\njobs = 2\npin = true\n";
    let environment = [
        ("SYNOD_LOG__LEVEL".to_owned(), "debug".to_owned()),
        ("SYNOD_RUNTIME__JOBS".to_owned(), "3".to_owned()),
        ("SYNOD_SEED".to_owned(), "7".to_owned()),
        ("PATH".to_owned(), "x__y".to_owned()),
    ];
    let effective = Effective::load(Some(("node.toml", text)), environment, pair("log.level", "trace"))
        .expect("all layers are valid");
    let origins = [
        ("log.level", "\"trace\"", Origin::Flag),
        ("runtime.jobs", "3", Origin::Environment("SYNOD_RUNTIME__JOBS".to_owned())),
        ("runtime.pin", "true", Origin::File("node.toml".to_owned())),
        ("runtime.poll", "\"yield\"", Origin::Default),
    ];
    for (key, value, origin) in origins {
        assert_eq!(row(&effective, key), Row { key, value: value.to_owned(), origin });
    }
    assert_eq!(row(&effective, "runtime.jobs").origin.to_string(), "environment SYNOD_RUNTIME__JOBS");
}

#[test]
fn what_is_written_is_read_back_with_equal_values() {
    let text = "[node]\nname = \"n0\"\n[limits]\nframe_max = \"8Mi\"\n[protocol]\nbatch_wait = \"2ms\"\nbatch_max = 9\n";
    let effective = file(text).expect("it is valid");
    let written = effective.to_toml();
    assert_eq!(written.lines().filter(|line| line.contains('=')).count(), 4);
    let again = file(&written).expect("what is written is valid");
    assert!(effective.rows().eq(again.rows()));
    assert_eq!(effective.config(), again.config());
}

#[test]
fn keys_that_do_not_fit_together_are_both_named() {
    let cases = [
        ("[protocol]\ntimeout_base = \"20s\"\n", "protocol.timeout_base", "protocol.timeout_max"),
        ("[limits]\nframe_max = \"512Ki\"\n", "limits.request_max", "limits.frame_max"),
        (
            "[limits]\nrequest_max = \"2Mi\"\nmempool_bytes = \"1Mi\"\n",
            "limits.request_max",
            "limits.mempool_bytes",
        ),
        (
            "[limits]\nrequest_max = \"2Mi\"\ngateway_bytes = \"1Mi\"\n",
            "limits.request_max",
            "limits.gateway_bytes",
        ),
        ("[access]\nhttps_cert = \"c\"\n", "access.https_cert", "access.https_key"),
    ];
    for (text, first, second) in cases {
        let refusal = named(text).expect_err("the relation is broken");
        assert_eq!(refusal.code(), code::RELATION_BROKEN, "{refusal}");
        assert!(
            refusal.message().starts_with(&format!("{first} and {second} do not fit together")),
            "{refusal}"
        );
    }
}

#[test]
fn a_listener_off_loopback_needs_its_credentials_and_tls() {
    let tls = "https_cert = \"c\"\nhttps_key = \"k\"\n";
    let cases = [
        (
            "http",
            "access.http_token_file",
            String::new(),
            format!("[access]\nhttp_token_file = \"t\"\n{tls}"),
        ),
        (
            "http",
            "access.https_cert and access.https_key",
            "[access]\nhttp_token_file = \"t\"\n".to_owned(),
            format!("[access]\nhttp_token_file = \"t\"\n{tls}"),
        ),
        (
            "grpc",
            "access.http_token_file",
            String::new(),
            format!("[access]\nhttp_token_file = \"t\"\n{tls}"),
        ),
        (
            "resp",
            "access.resp_password_file",
            format!("[access]\n{tls}"),
            format!("[access]\nresp_password_file = \"p\"\n{tls}"),
        ),
        ("metrics", "metrics.token_file", String::new(), "[metrics]\ntoken_file = \"t\"\n".to_owned()),
    ];
    for (listener, missing, too_little, enough) in cases {
        let open = format!("[listen]\n{listener} = \"0.0.0.0:9000\"\n");
        let refusal = named(&(open.clone() + &too_little)).expect_err("it is open to others");
        assert_eq!(refusal.code(), code::INSECURE_LISTENER);
        let expected =
            format!("listen.{listener} = 0.0.0.0:9000 is reachable from other machines without {missing}");
        assert_eq!(refusal.message(), expected);
        let guarded = named(&(open + &enough)).map_err(|refusal| refusal.code()).err();
        assert_eq!(guarded, (listener == "grpc").then_some(code::FEATURE_MISSING), "{listener} is guarded");
    }
    named("[listen]\nhttp = \"\"\nresp = \"\"\nmetrics = \"\"\n").expect("listeners can be off");
}

#[test]
fn keys_of_parts_that_are_not_built_are_refused_instead_of_doing_nothing() {
    let cases = [
        ("listen.grpc", "[listen]\ngrpc = \"127.0.0.1:9000\"\n"),
        ("listen.link", "[listen]\nlink = \"127.0.0.1:9000\"\n"),
        ("runtime.pin", "[runtime]\npin = true\n"),
        ("runtime.poll", "[runtime]\npoll = \"park\"\n"),
    ];
    for (key, text) in cases {
        let refusal = named(text).expect_err("nothing would come of it");
        assert_eq!(refusal.code(), code::FEATURE_MISSING, "{refusal}");
        assert!(refusal.message().contains(key), "{refusal}");
    }
    named("[runtime]\npin = false\npoll = \"yield\"\n").expect("it is what happens anyway");
}

#[test]
fn every_key_is_explained_and_an_unknown_one_suggests_another() {
    for key in KEYS.iter().chain(crate::GENESIS_KEYS) {
        let page = explain_key(key.name).expect("the key is known");
        assert!(page.contains(key.meaning) && page.contains(&key.range()), "{page}");
    }
    let refusal = explain_key("storage.snyc").expect_err("there is no such key");
    assert!(refusal.message().ends_with("the nearest known key is storage.sync"), "{refusal}");
}

#[test]
fn a_file_above_its_limit_and_text_that_is_no_toml_are_refused() {
    let long = format!("#{}", "x".repeat(64 << 10));
    assert_eq!(file(&long).map_err(|error| error.code()).err(), Some(code::CONFIG_UNREADABLE));
    for text in ["[", "a = ", "a = 1\na = 2", "[log]\nlevel = \"info\"\n[log]\n", "\u{0}"] {
        let refusal = file(text).expect_err("it is no TOML");
        assert_eq!(refusal.code(), code::CONFIG_UNREADABLE, "{text}");
        assert_eq!(refusal.causes().len(), 1, "the place is named");
    }
}

#[test]
fn random_values_never_panic_and_accepted_ones_are_in_range() {
    let mut random = crate::random::Random::new(1);
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let key = &KEYS[random.below(KEYS.len())];
        let text = random.value();
        match Effective::load(None, NONE, pair(key.name, &text)) {
            Err(error) => {
                assert_eq!(error.code(), code::BAD_VALUE, "{error}");
                refused += 1;
            }
            Ok(effective) => {
                accepted += 1;
                let written = effective.to_toml();
                let again = file(&written).unwrap_or_else(|error| panic!("{written}{error}"));
                assert_eq!(row(&again, key.name).value, row(&effective, key.name).value);
                if let Kind::Span(min, max) = key.kind {
                    let nanos = parse_duration(&text).map_or(0, |span| span.as_nanos());
                    assert!((u128::from(min)..=u128::from(max)).contains(&nanos), "{text}");
                }
            }
        }
    }
    assert!(accepted > 500 && refused > 5_000, "{accepted} accepted, {refused} refused");
}

#[test]
fn random_files_never_panic() {
    let seed = "[node]\nname = \"n0\"\n[listen]\nresp = \"127.0.0.1:7104\"\n[limits]\nframe_max = \"16Mi\"\n";
    let mut random = crate::random::Random::new(2);
    let mut refused = 0;
    for _ in 0..5_000 {
        let text = random.mutated(seed);
        refused += usize::from(file(&text).and_then(|effective| effective.config()).is_err());
    }
    assert!(refused > 1_000, "{refused} refused");
}

#[test]
fn a_webhook_needs_a_path_of_http_a_secret_and_this_machine_unless_another_is_meant() {
    let read = |lines: &str| {
        let text = format!("[node]\nname = \"n0\"\n[webhook]\n{lines}");
        let config = file(&text).and_then(|effective| effective.config());
        config.map(|config| config.webhook.address.is_some()).map_err(|error| error.code())
    };
    let (here, there, secret) =
        ("address = \"127.0.0.1:9000\"\n", "address = \"10.0.0.1:9000\"\n", "secret_file = \"hook\"\n");
    assert_eq!(read(""), Ok(false), "it is off");
    assert_eq!(read(&format!("{here}{secret}path = \"/a/b?c=d\"")), Ok(true));
    assert_eq!(read(&format!("{there}{secret}plain = true")), Ok(true));
    for (lines, wrong) in [
        (here.to_owned(), code::RELATION_BROKEN),
        (format!("{there}{secret}"), code::RELATION_BROKEN),
        (format!("{here}{secret}path = \"a\""), code::BAD_VALUE),
        (format!("{here}{secret}path = \"/a b\""), code::BAD_VALUE),
        (format!("{here}{secret}path = \"/{}\"", "x".repeat(512)), code::BAD_VALUE),
    ] {
        assert_eq!(read(&lines), Err(wrong), "{lines}");
    }
}
