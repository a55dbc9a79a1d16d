//! Tests of contexts: selection, bounds, round trips, bad files.

use super::*;
use crate::files::scratch::Scratch;
use std::os::unix::fs::PermissionsExt as _;

fn context(name: &str) -> Context {
    Context {
        name: name.to_owned(),
        genesis: PathBuf::from("a \"quoted\" place/genesis.toml"),
        addresses: vec![Address::loopback(7101), Address::loopback(7111)],
        directory: Some(PathBuf::from("here")),
        resp: Some(Address::loopback(7104)),
        http: None,
        member: None,
        token_file: None,
        managed: false,
    }
}

fn three() -> Contexts {
    let mut contexts = Contexts::default();
    for name in ["alpha", "beta", "gamma"] {
        contexts.add(context(name)).expect("the name is free");
    }
    contexts
}

#[test]
fn contexts_are_read_back_as_written_with_mode_0600() {
    let scratch = Scratch::new();
    let directory = scratch.path().join("synod");
    assert_eq!(Contexts::read(&directory), Ok(Contexts::default()));
    let mut contexts = three();
    let (member, token_file) = (Some("n0".to_owned()), Some(PathBuf::from("/keys/token")));
    contexts.add(Context { member, token_file, ..context("delta") }).expect("the name is free");
    contexts.select("beta").expect("it exists");
    contexts.select("gamma").expect("it exists");
    contexts.write(&directory).expect("the directory is writable");
    assert_eq!(Contexts::read(&directory), Ok(contexts));
    let mode = std::fs::metadata(directory.join("contexts.toml")).expect("it exists").permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
}

#[test]
fn selecting_back_and_forth_swaps_current_and_previous() {
    let mut contexts = three();
    assert_eq!(contexts.select_previous().map_err(|error| error.code()), Err(code::BAD_VALUE));
    contexts.select("alpha").expect("it exists");
    contexts.select("beta").expect("it exists");
    contexts.select("beta").expect("selecting it again changes nothing");
    for expected in ["alpha", "beta", "alpha"] {
        assert_eq!(contexts.select_previous().map(|context| context.name.clone()), Ok(expected.to_owned()));
    }
    assert_eq!(contexts.previous().map(|context| context.name.as_str()), Some("beta"));
}

#[test]
fn removing_the_selected_context_selects_none() {
    let mut contexts = three();
    contexts.select("alpha").expect("it exists");
    contexts.select("beta").expect("it exists");
    assert_eq!(contexts.remove("beta").map(|context| context.name), Ok("beta".to_owned()));
    assert!(contexts.current().is_none());
    assert_eq!(contexts.previous().map(|context| context.name.as_str()), Some("alpha"));
    assert_eq!(contexts.list().len(), 2);
}

#[test]
fn managed_contexts_go_with_their_directory_and_others_stay() {
    let scratch = Scratch::new();
    let (there, gone) = (scratch.path().join("there"), scratch.path().join("gone"));
    std::fs::create_dir(&there).expect("the directory is writable");
    let mut contexts = Contexts::default();
    let cases =
        [("kept", &there, true), ("byhand", &gone, false), ("old", &gone, true), ("new", &gone, true)];
    for (name, directory, managed) in cases {
        let directory = Some(directory.clone());
        contexts.add(Context { directory, managed, ..context(name) }).expect("the name is free");
    }
    contexts.add(Context { directory: None, managed: true, ..context("nowhere") }).expect("the name is free");
    contexts.select("byhand").expect("it exists");
    contexts.select("new").expect("it exists");
    assert_eq!(Contexts::parse("contexts.toml", &contexts.to_toml()).as_ref(), Ok(&contexts));

    let names = |list: &[Context]| list.iter().map(|context| context.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&contexts.forget_gone()), ["old", "new"]);
    assert_eq!(names(contexts.list()), ["kept", "byhand", "nowhere"]);
    assert_eq!(contexts.current().map(|context| context.name.as_str()), Some("byhand"));
    assert_eq!(contexts.previous(), None);
    let before = contexts.clone();
    assert_eq!(contexts.forget_gone(), [], "once is enough");
    assert_eq!(contexts, before);
}

#[test]
fn an_unknown_context_suggests_the_nearest() {
    let refusal = three().show("gama").expect_err("it does not exist");
    assert_eq!(refusal.code(), code::BAD_VALUE);
    assert!(refusal.message().contains("nearest is \"gamma\""), "{refusal}");
    assert!(Contexts::default().select("x").expect_err("there is none").message().contains("no contexts"));
}

#[test]
fn names_are_unique_addresses_bounded_and_the_list_is_full_at_64() {
    let mut contexts = three();
    assert_eq!(contexts.add(context("beta")).map_err(|error| error.code()), Err(code::ALREADY_INITIALISED));
    assert_eq!(contexts.add(context("a/b")).map_err(|error| error.code()), Err(code::BAD_VALUE));
    let with = |name: &str, count: usize| {
        let addresses = vec![Address::loopback(1); count];
        Context { addresses, ..context(name) }
    };
    let refusal = contexts.add(with("delta", ADDRESSES_MAX + 1)).map_err(|error| error.code());
    assert_eq!(refusal, Err(code::BAD_VALUE));
    for (name, count) in [("none", 0), ("most", ADDRESSES_MAX)] {
        contexts.add(with(name, count)).expect("so many are allowed");
    }
    for number in contexts.list().len()..CONTEXTS_MAX {
        contexts.add(context(&format!("c{number}"))).expect("there is room");
    }
    assert_eq!(contexts.add(context("more")).map_err(|error| error.code()), Err(code::BAD_VALUE));
    let text = contexts.to_toml();
    assert_eq!(Contexts::parse("contexts.toml", &text), Ok(contexts));
    let more =
        text.clone() + &text[text.rfind("\n[[context]]").expect("there is one")..].replace("c63", "c64");
    assert_eq!(Contexts::parse("contexts.toml", &more).map_err(|error| error.code()), Err(code::BAD_VALUE));
}

#[test]
fn bad_files_are_refused_with_their_codes() {
    let mut contexts = three();
    contexts.select("alpha").expect("it exists");
    let good = contexts.to_toml();
    let cases = [
        (good.replacen("current = \"alpha\"", "current = \"nobody\"", 1), code::BAD_VALUE),
        (good.replacen("genesis = ", "genesys = ", 1), code::UNKNOWN_KEY),
        (good.replacen("format = 1", "format = 2", 1), code::FORMAT_NEWER),
        (good.replacen("format = 1\n", "", 1), code::BAD_VALUE),
        (good.replacen("\"127.0.0.1:7101\"", "7101", 1), code::BAD_VALUE),
        (good.replacen("[[context]]", "[context]", 1), code::CONFIG_UNREADABLE),
        ("[[".to_owned(), code::CONFIG_UNREADABLE),
    ];
    for (text, expected) in cases {
        assert_eq!(
            Contexts::parse("contexts.toml", &text).map_err(|error| error.code()),
            Err(expected),
            "{text}"
        );
    }
}
