//! Configuration: genesis, node.toml, contexts, cards, ports, key files, addresses, units, codes.

use std::cell::RefCell;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::PathBuf;

use synod_config::{
    Address, Card, Code, Contexts, Effective, Genesis, KEYS, Member, NodeKey, Ports, format_duration,
    format_size, parse_duration, parse_size,
};
use synod_crypto::Seed;
use synod_wire::Drawn;

use super::one_of;
use crate::check::{accept, bounded};
use crate::{Kind, Target};

/// The targets of this module.
pub(crate) const TARGETS: &[Target] = &[
    Target::new("config-genesis", Kind::Slow, genesis, geneses),
    Target::new("config-node", Kind::Slow, node, nodes),
    Target::new("config-contexts", Kind::Slow, contexts, contexts_files),
    Target::new("config-card", Kind::Slow, card, cards),
    Target::new("config-ports", Kind::Slow, ports, ports_files),
    Target::new("config-key-file", Kind::Slow, key_file, key_files),
    Target::new("config-address", Kind::Decoder, address, addresses),
    Target::new("config-size", Kind::Decoder, size, sizes),
    Target::new("config-duration", Kind::Decoder, duration, durations),
    Target::new("config-code", Kind::Decoder, code, codes),
];

/// What the TOML reader sets aside for a document of any size: its tables grow in steps of their own. Files are the
/// operator's own, so the bound is a multiple, not the one for peers.
const fn document(length: usize) -> usize {
    16 * length + (64 << 10)
}

fn seed(n: u8) -> Seed {
    Seed::new([n.max(1); 32])
}

fn member(n: u8) -> Member {
    let address = Address::loopback(7_100 + 10 * u16::from(n));
    Member::new(&format!("n{n}"), address, seed(n + 1).public())
}

/// Reads a genesis.
///
/// # Panics
/// When an accepted genesis does not come back from its own text, with the same id.
pub fn genesis(bytes: &[u8]) {
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    let Ok(read) = bounded(document(bytes.len()), || Genesis::parse("genesis.toml", text)) else { return };
    accept();
    let again = Genesis::parse("genesis.toml", &read.to_toml());
    assert_eq!(again.as_ref(), Ok(&read), "roundtrip: a genesis");
    let again = again.unwrap_or_else(|_| read.clone());
    assert_eq!((again.id(), again.first_difference(&read)), (read.id(), None));
    assert!(read.f() * 3 < read.roster().weights().total());
}

fn geneses(from: &mut Drawn) -> Vec<u8> {
    let count = one_of(from, &[&1_u8, &2, &4, &5]);
    let rules = one_of(from, &["chain2+order", "chain2", "chain3", "basic"]);
    let mut text = format!(
        "format = 1\n[cluster]\nname = \"c{}\"\nprotocol = \"hotstuff\"\n[protocol]\nrules = \"{rules}\"\n{}",
        from.below(9),
        one_of(from, &["", "block_bytes = \"1Mi\"\n", "checkpoint_every = 7\n", "votes = \"broadcast\"\n"])
    );
    for n in 0..*count {
        let key: String = seed(n + 1).public().0.iter().map(|byte| format!("{byte:02x}")).collect();
        text += &format!(
            "[[member]]\nname = \"n{n}\"\naddresses = {{ peer = \"127.0.0.1:{}\" }}\ned25519 = \"{key}\"\n",
            7_100 + u32::from(n)
        );
        text += one_of(from, &["", "stake = 2\n", "stake = 1\n"]);
    }
    text.into_bytes()
}

/// Reads a node.toml.
///
/// # Panics
/// When an accepted file has other values after it was written and read again.
pub fn node(bytes: &[u8]) {
    const NONE: [(String, String); 0] = [];
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    let read = bounded(document(bytes.len()), || Effective::load(Some(("node.toml", text)), NONE, NONE));
    let Ok(read) = read else { return };
    accept();
    let written = read.to_toml();
    let again = Effective::load(Some(("node.toml", &written)), NONE, NONE);
    assert!(again.is_ok(), "roundtrip: {written:?} is refused: {:?}", again.err());
    let again = again.unwrap_or_else(|_| read.clone());
    assert!(again.rows().eq(read.rows()), "roundtrip: {written:?}");
    let _sound_or_not = read.config().map(|config| config.node.name.len());
}

fn nodes(from: &mut Drawn) -> Vec<u8> {
    let mut lines: Vec<(&str, String)> = vec![("node", "name = \"n0\"".to_owned())];
    for _ in 0..from.below(5) {
        let key = &KEYS[usize::try_from(from.below(KEYS.len() as u64)).unwrap_or(0)];
        let Some((section, leaf)) = key.name.split_once('.') else { continue };
        let words =
            ["true", "\"64Mi\"", "\"100ms\"", "7", "\"off\"", "\"info\"", "\"127.0.0.1:7104\"", "\"group\""];
        let value = if key.default.is_empty() || from.below(3) == 0 {
            (*one_of(from, &words)).to_owned()
        } else if key.default.bytes().all(|byte| byte.is_ascii_digit())
            || key.default == "true"
            || key.default == "false"
        {
            key.default.to_owned()
        } else {
            format!("\"{}\"", key.default)
        };
        if !lines.iter().any(|(s, line)| *s == section && line.starts_with(leaf)) {
            lines.push((section, format!("{leaf} = {value}")));
        }
    }
    lines.sort();
    let mut text = String::new();
    let mut open = "";
    for (section, line) in lines {
        if section != open {
            text += &format!("[{section}]\n");
            open = section;
        }
        text += &format!("{line}\n");
    }
    text.into_bytes()
}

/// Reads the contexts of the command line.
///
/// # Panics
/// When accepted contexts do not come back from their own text.
pub fn contexts(bytes: &[u8]) {
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    let read = bounded(document(bytes.len()), || Contexts::parse("contexts.toml", text));
    let Ok(read) = read else { return };
    accept();
    let again = Contexts::parse("contexts.toml", &read.to_toml());
    assert_eq!(again.as_ref(), Ok(&read), "roundtrip: {:?}", read.to_toml());
}

fn contexts_files(from: &mut Drawn) -> Vec<u8> {
    let mut text = "format = 1\n".to_owned();
    let count = from.below(4);
    if count > 0 {
        text += one_of(from, &["current = \"c0\"\n", "current = \"c0\"\nprevious = \"c0\"\n", ""]);
    }
    for n in 0..count {
        let more = one_of(
            from,
            &["", "directory = \"/tmp/x y\"\n", "resp = \"[::1]:7104\"\nhttp = \"localhost:7102\"\n"],
        );
        text += &format!(
            "[[context]]\naddresses = [\"127.0.0.1:7101\"]\nname = \"c{n}\"\ngenesis = \"/a\\\"b\"\n{more}"
        );
    }
    text.into_bytes()
}

/// Reads the card of a member.
///
/// # Panics
/// When an accepted card does not come back from its own text.
pub fn card(bytes: &[u8]) {
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    let Ok(read) = bounded(document(bytes.len()), || Card::parse("n.card", text)) else { return };
    accept();
    let again = Card::parse("n.card", &read.to_toml());
    assert_eq!(again.as_ref().map(Card::subject), Ok(read.subject()), "roundtrip: {:?}", read.to_toml());
}

fn cards(from: &mut Drawn) -> Vec<u8> {
    // Few members, so that their proofs are signed once.
    thread_local! {
        static CARDS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }
    CARDS.with_borrow_mut(|cards| {
        if cards.is_empty() {
            for n in 0..3 {
                let mut member = member(n);
                member.http = (n > 0).then(|| Address::loopback(80));
                let signed = Card::sign(member, &NodeKey::from_seed(seed(n + 1)));
                cards.extend(signed.map(|card| card.to_toml()));
            }
        }
        let at = usize::try_from(from.below(cards.len() as u64)).unwrap_or(0);
        cards.get(at).cloned().unwrap_or_default().into_bytes()
    })
}

/// Reads the ports of a cluster.
///
/// # Panics
/// When accepted ports do not come back from their own text.
pub fn ports(bytes: &[u8]) {
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    let Ok(read) = bounded(document(bytes.len()), || Ports::parse("ports.json", text)) else { return };
    accept();
    assert_eq!(
        Ports::parse("ports.json", &read.to_json()).as_ref(),
        Ok(&read),
        "roundtrip: {}",
        read.to_json()
    );
}

fn ports_files(from: &mut Drawn) -> Vec<u8> {
    let node = |from: &mut Drawn| {
        let ports = one_of(from, &["", "\"peer\":7100", "\"peer\":7100,\"resp\":65535,\"metrics\":1"]);
        format!("{{\"cluster\":\"c\",\"name\":\"n\",\"index\":{},\"ports\":{{{ports}}}}}", from.below(70_000))
    };
    let nodes: Vec<String> = (0..from.below(4)).map(|_| node(from)).collect();
    format!("{{\"schema\":\"synod-ports/1\",\"nodes\":[{}]}}", nodes.join(",")).into_bytes()
}

/// A private file that takes one key after the other.
struct Drawer {
    folder: PathBuf,
}

impl Drawer {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(format!(
            "synod-fuzz-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        let made = fs::create_dir_all(&folder)
            .and_then(|()| fs::set_permissions(&folder, Permissions::from_mode(0o700)));
        assert!(made.is_ok(), "the target has a folder for its file");
        Self { folder }
    }

    fn put(&self, bytes: &[u8]) -> PathBuf {
        let path = self.folder.join("key");
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
        let written = file.and_then(|mut file: File| file.write_all(bytes));
        assert!(written.is_ok(), "the target writes its file");
        path
    }
}

impl Drop for Drawer {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.folder));
    }
}

/// Reads a private key file, through a file.
///
/// # Panics
/// When an accepted key is not the one its own file gives back.
pub fn key_file(bytes: &[u8]) {
    thread_local! {
        static DRAWER: Drawer = Drawer::new();
    }
    DRAWER.with(|drawer| {
        let path = drawer.put(bytes);
        let native = bounded(bytes.len(), || NodeKey::read(&path));
        let foreign = bounded(bytes.len(), || NodeKey::read_pkcs8(&path));
        assert!(native.is_err() || foreign.is_err(), "one file is a key in two formats");
        let Some(key) = native.ok().or(foreign.ok()) else { return };
        accept();
        let hex: String = key.seed().expose().iter().map(|byte| format!("{byte:02x}")).collect();
        let path = drawer.put(format!("synod-key-1 ed25519 {hex}\n").as_bytes());
        let again = NodeKey::read(&path).map(|again| again.public());
        assert_eq!(again, Ok(key.public()), "roundtrip: a key");
    });
}

fn key_files(from: &mut Drawn) -> Vec<u8> {
    let secret: Vec<u8> = (0..4).flat_map(|_| from.next().to_le_bytes()).collect();
    if from.below(3) == 0 {
        let mut pkcs8 = vec![0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
        pkcs8.extend_from_slice(&secret);
        return format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", base64(&pkcs8))
            .into_bytes();
    }
    let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("synod-key-1 ed25519 {hex}{}", one_of(from, &["\n", "", " \n"])).into_bytes()
}

fn base64(bytes: &[u8]) -> String {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |group: &[u8]| {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        (0..4)
            .map(move |place| match place > group.len() {
                true => '=',
                false => char::from(alphabet[(bits >> (18 - 6 * place) & 63) as usize]),
            })
            .collect::<String>()
    };
    bytes.chunks(3).map(group).collect()
}

/// Reads an address.
///
/// # Panics
/// When an accepted address is not written as it stood.
pub fn address(bytes: &[u8]) {
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    let Some(read) = bounded(bytes.len(), || Address::parse(text)) else { return };
    accept();
    assert_eq!(read.to_string(), text, "roundtrip: an address");
    assert!(!read.host().is_empty() && text.contains(&read.port().to_string()));
}

fn addresses(from: &mut Drawn) -> Vec<u8> {
    let host =
        one_of(from, &["localhost", "127.0.0.1", "[::1]", "[fe80::1%1]", "a-b.example", "1.2.3", "::1", ""]);
    format!("{host}:{}", from.below(70_000)).into_bytes()
}

/// Reads a size.
///
/// # Panics
/// When an accepted size does not come back from how it is shown.
pub fn size(bytes: &[u8]) {
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    let Some(read) = parse_size(text) else { return };
    accept();
    assert_eq!(parse_size(&format_size(read)), Some(read), "roundtrip: {text}");
}

fn sizes(from: &mut Drawn) -> Vec<u8> {
    format!("{}{}", from.next() >> from.below(64), one_of(from, &["", "Ki", "Mi", "Gi"])).into_bytes()
}

/// Reads a duration.
///
/// # Panics
/// When an accepted duration does not come back from how it is shown.
pub fn duration(bytes: &[u8]) {
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    let Some(read) = parse_duration(text) else { return };
    accept();
    assert_eq!(parse_duration(&format_duration(read)), Some(read), "roundtrip: {text}");
}

fn durations(from: &mut Drawn) -> Vec<u8> {
    format!("{}{}", from.next() >> from.below(64), one_of(from, &["ns", "us", "ms", "s", "m", ""]))
        .into_bytes()
}

/// Reads the code of an error.
///
/// # Panics
/// When an accepted code does not come back from how it is shown.
pub fn code(bytes: &[u8]) {
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    let Some(read) = Code::parse(text) else { return };
    accept();
    assert_eq!(Code::parse(&read.to_string()), Some(read), "roundtrip: {text}");
}

fn codes(from: &mut Drawn) -> Vec<u8> {
    format!("{}{:04}", one_of(from, &["SYN-", "syn-", ""]), from.below(10_000)).into_bytes()
}
