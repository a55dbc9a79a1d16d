//! Tests of key files, cards and exported keys.

use super::file::{parse, unsafe_because};
use super::*;
use crate::address::Address;
use crate::errors::{Code, code};
use crate::files::scratch::Scratch;
use crate::genesis::{Broker, Member};
use crate::hex;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use synod_crypto::{Seed, check_key};

fn key() -> NodeKey {
    NodeKey::from_seed(Seed::new([7; 32]))
}

fn key_file(scratch: &Scratch) -> PathBuf {
    let path = scratch.path().join("node.key");
    key().write_new(&path).expect("nothing stands there");
    path
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("it exists").permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
}

fn refusal(path: &Path) -> Code {
    NodeKey::read(path).expect_err("the file is refused").code()
}

#[test]
fn a_key_is_read_back_from_a_file_of_mode_0600() {
    let scratch = Scratch::new();
    let path = key_file(&scratch);
    assert_eq!(mode(&path), 0o600);
    assert_eq!(NodeKey::read(&path).expect("it was just written").public(), key().public());
    let text = std::fs::read_to_string(&path).expect("it is text");
    assert_eq!(text, format!("synod-key-1 ed25519 {}\n", "07".repeat(32)));
}

#[test]
fn a_key_file_is_never_overwritten() {
    let scratch = Scratch::new();
    let path = key_file(&scratch);
    let other = NodeKey::from_seed(Seed::new([8; 32]));
    assert_eq!(other.write_new(&path).map_err(|error| error.code()), Err(code::ALREADY_INITIALISED));
    assert_eq!(NodeKey::read(&path).expect("it is intact").public(), key().public());
}

#[test]
fn a_key_file_that_others_may_touch_is_refused() {
    let scratch = Scratch::new();
    let path = key_file(&scratch);
    for wrong in [0o640, 0o604, 0o660, 0o644, 0o700, 0o400, 0o4600] {
        set_mode(&path, wrong);
        assert_eq!(refusal(&path), code::KEY_FILE_UNSAFE, "{wrong:o}");
    }
    set_mode(&path, 0o600);
    NodeKey::read(&path).expect("the mode is right again");
}

#[test]
fn a_key_file_of_another_user_is_refused() {
    let scratch = Scratch::new();
    let path = key_file(&scratch);
    let file = std::fs::File::open(&path).expect("it exists");
    let stat = rustix::fs::fstat(&file).expect("it is open");
    assert_eq!(unsafe_because(&stat, stat.st_uid), None);
    let problem = unsafe_because(&stat, stat.st_uid + 1).expect("it belongs to another user");
    assert!(problem.starts_with(&format!("it belongs to user {}", stat.st_uid)), "{problem}");
}

#[test]
fn a_link_to_a_good_key_file_is_refused() {
    let scratch = Scratch::new();
    let (path, link) = (key_file(&scratch), scratch.path().join("link"));
    symlink(&path, &link).expect("links can be made");
    assert_eq!(refusal(&link), code::KEY_FILE_UNSAFE);
}

#[test]
fn a_directory_and_a_pipe_are_refused_at_once() {
    let scratch = Scratch::new();
    let (directory, pipe) = (scratch.path().join("d"), scratch.path().join("p"));
    std::fs::create_dir(&directory).expect("it can be made");
    set_mode(&directory, 0o600);
    assert_eq!(refusal(&directory), code::KEY_FILE_UNSAFE);
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0)
        .expect("pipes can be made");
    assert_eq!(refusal(&pipe), code::KEY_FILE_UNSAFE);
}

#[test]
fn a_missing_key_file_is_unreadable() {
    let scratch = Scratch::new();
    let error = NodeKey::read(&scratch.path().join("absent")).expect_err("it does not exist");
    assert_eq!((error.code(), error.causes().len()), (code::CONFIG_UNREADABLE, 1));
}

#[test]
fn content_that_is_no_ed25519_key_is_refused_without_quoting_it() {
    let digits = "5a".repeat(32);
    let cases = [
        (format!("synod-key-1 ed25519 {}\n", &digits[..62]), "digits long"),
        (format!("synod-key-1 ed25519 {digits}5a\n"), "digits long"),
        (format!("synod-key-1 ed25519 {}zz\n", &digits[..62]), "lower-case hex"),
        (format!("synod-key-1 ed25519 {}\n", digits.to_uppercase()), "lower-case hex"),
        (format!("synod-key-1 x25519 {digits}\n"), "another kind"),
        (format!("synod-key-1 rsa {digits}\n"), "unknown kind"),
        (format!("synod-key-2 ed25519 {digits}\n"), "format"),
        (format!("synod-key-1 ed25519 {digits} more\n"), "three words"),
        ("synod-key-1 ed25519\n".to_owned(), "three words"),
        (String::new(), "format"),
        (format!("synod-key-1 ed25519 {digits}\n\n"), "digits long"),
    ];
    let scratch = Scratch::new();
    let path = key_file(&scratch);
    for (content, why) in cases {
        std::fs::write(&path, &content).expect("it is ours");
        let error = NodeKey::read(&path).expect_err("the content is refused");
        assert_eq!(error.code(), code::BAD_VALUE, "{content:?}");
        assert!(error.message().contains(why), "{error}");
        assert!(!error.to_text().contains("5a5a"), "{error}");
    }
    std::fs::write(&path, [0xff; 40]).expect("it is ours");
    assert_eq!(refusal(&path), code::BAD_VALUE);
    std::fs::write(&path, vec![b'a'; 257]).expect("it is ours");
    assert_eq!(refusal(&path), code::CONFIG_UNREADABLE);
}

#[test]
fn random_key_files_never_panic() {
    let good = format!("synod-key-1 ed25519 {}\n", "5a".repeat(32));
    let mut random = crate::random::Random::new(3);
    let accepted =
        (0..5_000).filter(|_| parse(random.mutated(&good).as_bytes(), KeyKind::Ed25519).is_ok()).count();
    assert!(accepted < 2_500, "{accepted} accepted");
}

#[test]
fn printing_a_key_shows_its_public_part_only() {
    assert_eq!(format!("{:?}", key()), format!("NodeKey({:?})", key().public()));
}

#[test]
fn drawn_keys_are_distinct_and_fit_a_roster() {
    let keys: Vec<NodeKey> =
        (0..4).map(|_| NodeKey::generate().expect("the system gives randomness")).collect();
    for (at, key) in keys.iter().enumerate() {
        assert_eq!(check_key(&key.public()), Ok(()));
        assert!(keys[..at].iter().all(|other| other.public() != key.public()));
    }
}

fn member() -> Member {
    let mut member = Member::new("n0", Address::loopback(7100), key().public());
    member.client = Some(Address::loopback(7101));
    member
}

#[test]
fn a_card_is_read_back_and_introduces_its_member() {
    let scratch = Scratch::new();
    let path = scratch.path().join("n0.card");
    let card = Card::sign(member(), &key()).expect("the key is the member's");
    card.write_new(&path).expect("nothing stands there");
    assert_eq!(Card::read(&path), Ok(card.clone()));
    assert_eq!(card.subject(), &Subject::Member(Box::new(member())));
    assert!(!card.to_toml().contains(&"07".repeat(32)), "no secret is in a card");
}

#[test]
fn a_card_changed_anywhere_is_refused() {
    let good = Card::sign(member(), &key()).expect("the key is the member's").to_toml();
    let other = hex(&NodeKey::from_seed(Seed::new([8; 32])).public().0);
    let mine = hex(&key().public().0);
    let proof = good.lines().last().expect("the proof is last").to_owned();
    let cases = [
        (good.replace("\"n0\"", "\"n1\""), code::GENESIS_INVALID),
        (good.replace("7100", "7200"), code::GENESIS_INVALID),
        (good.replace("client", "http"), code::GENESIS_INVALID),
        (good.replace(&mine, &other), code::GENESIS_INVALID),
        (good.replace(&mine, &"00".repeat(32)), code::GENESIS_INVALID),
        (good.replace(&proof, &format!("proof = \"{}\"", "00".repeat(64))), code::GENESIS_INVALID),
        (good.replace(&proof, "proof = \"00\""), code::BAD_VALUE),
        (good.replace("format = 1", "format = 2"), code::FORMAT_NEWER),
        (good.replace("format = 1\n", ""), code::BAD_VALUE),
        (good.replace("name =", "nmae ="), code::UNKNOWN_KEY),
        (good.replace("peer = ", "pear = "), code::UNKNOWN_KEY),
        ("=".to_owned(), code::CONFIG_UNREADABLE),
    ];
    for (text, expected) in cases {
        assert_eq!(Card::parse("n0.card", &text).map_err(|error| error.code()), Err(expected), "{text}");
    }
}

/// A member with a key for multi-signatures.
fn server() -> Member {
    let (bls, pop) = key().bls_card().expect("the system has randomness");
    Member { bls: Some(bls), pop: Some(pop), ..member() }
}

#[test]
fn a_card_carries_the_key_for_multi_signatures_whose_possession_is_proved() {
    let good = Card::sign(server(), &key()).expect("the key is the member's");
    assert_eq!(Card::parse("n0.card", &good.to_toml()), Ok(good.clone()));
    let stranger = NodeKey::from_seed(Seed::new([8; 32])).bls_card().expect("the system has randomness");
    let own = server();
    let told = |member: Member| {
        // The proof of the card holds in every case: only possession does not.
        let card = Card::sign(member, &key()).expect("the key is the member's");
        Card::parse("n0.card", &card.to_toml()).map_err(|error| error.code()).map(drop)
    };
    assert_eq!(told(Member { bls: Some(stranger.0), ..own.clone() }), Err(code::GENESIS_INVALID));
    assert_eq!(told(Member { pop: Some([0; 96]), ..own.clone() }), Err(code::GENESIS_INVALID));
    assert_eq!(told(Member { bls: Some(stranger.0), pop: Some(stranger.1), ..own }), Ok(()));
    let text = good.to_toml();
    let without: String =
        text.lines().filter(|line| !line.starts_with("pop")).map(|l| format!("{l}\n")).collect();
    assert_eq!(Card::parse("n0.card", &without).map_err(|error| error.code()), Err(code::BAD_VALUE));
    let plain: String = text
        .lines()
        .filter(|l| !l.starts_with("pop") && !l.starts_with("bls"))
        .map(|l| format!("{l}\n"))
        .collect();
    assert_eq!(Card::parse("n0.card", &plain).map_err(|error| error.code()), Err(code::GENESIS_INVALID));
}

#[test]
fn a_card_with_an_address_for_datagrams_is_a_brokers() {
    let datagram = Address::parse("127.0.0.1:7148").expect("an address");
    let broker = Broker { name: "b0".to_owned(), datagram, ed25519: key().public() };
    let good = Card::sign_broker(broker.clone(), &key()).expect("the key is the broker's");
    assert_eq!(good.subject(), &Subject::Broker(broker));
    let text = good.to_toml();
    assert_eq!(Card::parse("b0.card", &text), Ok(good));
    for (from, to, expected) in [
        ("7148", "7158", code::GENESIS_INVALID),
        ("datagram", "peer", code::GENESIS_INVALID),
        ("datagram =", "client = \"h:1\", datagram =", code::BAD_VALUE),
    ] {
        let refused = Card::parse("b0.card", &text.replace(from, to)).map_err(|error| error.code());
        assert_eq!(refused, Err(expected), "{from}");
    }
}

#[test]
fn a_card_for_a_foreign_key_cannot_be_made() {
    let other = NodeKey::from_seed(Seed::new([8; 32]));
    assert_eq!(Card::sign(member(), &other).map_err(|error| error.code()), Err(code::GENESIS_INVALID));
}

#[test]
fn base64_follows_the_vectors_of_rfc_4648() {
    let vectors = [
        ("", ""),
        ("f", "Zg=="),
        ("fo", "Zm8="),
        ("foo", "Zm9v"),
        ("foob", "Zm9vYg=="),
        ("foobar", "Zm9vYmFy"),
    ];
    for (plain, encoded) in vectors {
        assert_eq!(spki::base64(plain.as_bytes()), encoded);
    }
}

#[test]
fn the_exported_key_is_the_example_of_rfc_8410() {
    let bytes =
        from_hex("19bf44096984cdfe8541bac167dc3b96c85086aa30b6b6cb0c5c38ad703166e1").expect("64 digits");
    let pem = spki_pem(&synod_crypto::PublicKey(bytes));
    let expected = "-----BEGIN PUBLIC KEY-----\n\
                    MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n\
                    -----END PUBLIC KEY-----\n";
    assert_eq!(pem, expected);
}

#[test]
fn hex_is_read_as_it_is_written_and_nothing_else_is() {
    let bytes: [u8; 4] = [0, 9, 0xab, 0xff];
    assert_eq!(from_hex(&hex(&bytes)), Some(bytes));
    for bad in ["", "0009abf", "0009abfff", "0009ABff", "0009abfg", "00 9abff", "+009abff", "\u{e9}09abff"] {
        assert_eq!(from_hex::<4>(bad), None, "{bad}");
    }
}
