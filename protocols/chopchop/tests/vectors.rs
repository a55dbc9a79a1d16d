//! Frozen vectors: encodings, digests, roots and tags of fixed inputs, so that no format and no hash moves unnoticed
//! and other languages have something to compare with. `SYNOD_BLESS=1` writes them anew, a change of its own.

use std::fmt::Write as _;
use std::path::Path;

use synod_chopchop::Domains;
use synod_chopchop::batch::{Batch, OwnedEntry, Plan, Seal, Sealed};
use synod_chopchop::card::Card;
use synod_chopchop::columns::Straggler;
use synod_chopchop::dedup::{Exceptions, Reason, tag};
use synod_chopchop::directory::Directory;
use synod_chopchop::ids::{IdCodec, encode_as};
use synod_chopchop::signup::SealedSignUp;
use synod_chopchop::statement::{
    BlsSignatureBytes, Delivered, Height, Kind, LinkClaim, Root, State, Submission, Witness,
};
use synod_chopchop::tree::EntryTree;
use synod_crypto::{Hash, PublicKey, Scope, Signature, Statement};
use synod_quorum::Epoch;
use synod_wire::{Bytes, Draw, Drawn, Wire};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        write!(out, "{byte:02x}").expect("a string takes all");
        out
    })
}

fn domains() -> Domains {
    Domains::of(&Hash::of(b"vectors"))
}

fn entries(count: u32, size: usize) -> Vec<OwnedEntry> {
    let message = |i: u32| {
        let length = if size == 0 { 1 + i as usize % 5 } else { size };
        Bytes::from(i.to_le_bytes().repeat(size.max(5))[..length].to_vec())
    };
    (0..count).map(|i| OwnedEntry { id: 2 * i + i % 2, message: message(i), parity: i % 3 == 1 }).collect()
}

fn batch(msg_size: u16, directory: u32) -> Sealed {
    let plan = Plan { broker: 1, msg_size, epoch: Epoch(2), k: 77, expiry: 900, directory };
    let straggler = |index, k| Straggler { index, k, t: Signature([0x51; 64]) };
    Seal::new(plan, entries(11, usize::from(msg_size)))
        .with_stragglers(vec![straggler(2, 70), straggler(9, 77)])
        .with_voids(vec![4])
        .seal(&domains(), Some(BlsSignatureBytes([0x52; 96])))
        .expect("it is sound")
}

fn id_lines(out: &mut Vec<(String, String)>) {
    let ids: Vec<u32> = (0..12).map(|i| 7 * i + i % 4).collect();
    for (name, codec) in
        [("packed", IdCodec::Packed(9)), ("elias-fano", IdCodec::EliasFano), ("range", IdCodec::Range)]
    {
        let bytes = encode_as(codec, &ids, 400).expect("they rise below 400");
        out.push((format!("ids {name}"), hex(&bytes)));
    }
}

fn batch_lines(out: &mut Vec<(String, String)>) {
    let domains = domains();
    for (name, msg_size, directory) in [("8", 8, 30), ("20", 20, 5_000_000), ("variable", 0, 4_000_000_000)] {
        let sealed = batch(msg_size, directory);
        let opened = Batch::open(&sealed).expect("it is sound");
        assert_eq!(opened.check().and_then(|()| opened.check_root(&domains)), Ok(()));
        let owned = entries(11, usize::from(msg_size));
        let shape = sealed.header.tree_shape();
        let tree = EntryTree::grow(&domains, shape, owned.iter().map(OwnedEntry::as_entry));
        let proof = tree.prove(10, |i| owned.get(i as usize).map(OwnedEntry::as_entry)).expect("it is there");
        let path: Vec<u8> = proof.path.iter().flat_map(|digest| digest.0).collect();
        out.push((format!("batch {name} bytes"), hex(&sealed.encode())));
        out.push((format!("batch {name} digest"), hex(&sealed.digest(&domains).0)));
        out.push((format!("batch {name} root"), hex(&sealed.header.root.0)));
        out.push((format!("batch {name} root_commit"), hex(&opened.root_commit(&domains).0)));
        out.push((format!("batch {name} neighbours of 10"), hex(&proof.neighbours)));
        out.push((format!("batch {name} path of 10"), hex(&path)));
    }
    let exceptions = Exceptions::new(600, vec![(3, Reason::Same), (255, Reason::Stale), (599, Reason::Void)]);
    out.push(("exceptions vector".to_owned(), hex(&exceptions.vector())));
    out.push(("exceptions root".to_owned(), hex(&exceptions.root(&domains).0)));
    for message in [&b""[..], b"a", b"12345678", b"123456789"] {
        out.push((format!("tag {}", hex(message)), format!("{:016x}", tag(message, true))));
    }
}

fn sign_up_lines(out: &mut Vec<(String, String)>) {
    let domains = domains();
    let mut from = Drawn::new(4);
    let cards: Vec<Card> = (0..3).map(|_| Card::draw(&mut from)).collect();
    let sealed = SealedSignUp::seal(1, Epoch(2), 900, &cards).expect("three cards");
    let mut directory = Directory::default();
    let assigned = directory.deliver(&cards);
    out.push(("sign-up bytes".to_owned(), hex(&sealed.encode())));
    out.push(("sign-up digest".to_owned(), hex(&sealed.digest(&domains).0)));
    out.push(("sign-up ids".to_owned(), format!("{:?}", assigned.ids())));
    out.push(("sign-up ids root".to_owned(), hex(&assigned.root(&domains).0)));
    out.push(("directory root".to_owned(), hex(&directory.view().root(&domains).0)));
}

fn statement_lines(out: &mut Vec<(String, String)>) {
    let scope = Scope { cluster: Hash::of(b"vectors"), epoch: Epoch(2) };
    let (digest, root) = (Hash([0xd1; 32]), Hash([0xe1; 32]));
    let card = Card::draw(&mut Drawn::new(4));
    let mut line = |name: &str, bytes: Vec<u8>| out.push((format!("signed {name}"), hex(&bytes)));
    line("1 sign-up", card.sign_up().signed_bytes(&scope));
    line("2 possession", card.possession().signed_bytes(&scope));
    let message = domains().msg.hash(b"a message");
    line("3 submission", Submission { id: 5, k0: 6, parity: true, message }.signed_bytes(&scope));
    line("4 root", Root { root_commit: root }.signed_bytes(&scope));
    let witness = Witness { kind: Kind::Messages, digest, expiry: 900, count: 11, body_len: 432 };
    line("5 witness", witness.signed_bytes(&scope));
    let delivered = Delivered {
        height: 8,
        kind: Kind::Messages,
        digest,
        root_commit: root,
        exceptions_root: Hash::ZERO,
        exc_count: 0,
    };
    line("6 delivered", delivered.signed_bytes(&scope));
    line("7 height", Height { height: 8 }.signed_bytes(&scope));
    line("8 state", State { nonce: 9, id: 5, next_k: 78, tag: 3 }.signed_bytes(&scope));
    let claim = LinkClaim { nonce: [0xc1; 16], broker: PublicKey([0xb1; 32]), id: 5 };
    line("9 claim", claim.signed_bytes(&scope));
}

#[expect(clippy::disallowed_methods, reason = "frozen vectors are read and, on purpose, written by tests")]
#[test]
fn encodings_digests_roots_and_tags_are_the_frozen_ones() {
    let mut lines = Vec::new();
    id_lines(&mut lines);
    batch_lines(&mut lines);
    sign_up_lines(&mut lines);
    statement_lines(&mut lines);
    let text: String = lines.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/formats.txt");
    if std::env::var_os("SYNOD_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folder is made");
        std::fs::write(&path, &text).expect("the vectors are written");
    }
    let stored = std::fs::read_to_string(&path).expect("the vectors are there");
    for (stored, now) in stored.lines().zip(text.lines()) {
        assert_eq!(stored, now, "a format or a hash moved");
    }
    assert_eq!(stored.lines().count(), text.lines().count());
    assert!(lines.len() > 30, "{} vectors", lines.len());
}
