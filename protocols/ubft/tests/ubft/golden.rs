//! The golden conversation: one request of one client on the fast path, written down word by word and compared with `tests/golden`.

use std::path::Path;

use synod_machine::Span;
use synod_ubft::message::{Message, Replied};
use synod_ubft::replica::Word;
use synod_ubft::{Body, ctb};
use synod_wire::{Limits, Wire as _};

use crate::town::Town;

fn body(body: &synod_wire::Bytes) -> String {
    match Body::decode(body.clone(), &Limits::default()) {
        Ok(Body::Prepare { view, slot, batch }) => {
            format!("PREPARE v{} s{} of {} requests", view.0, slot.0, batch.requests.len())
        }
        Ok(other) => format!("{other:?}"),
        Err(_) => "no message".to_owned(),
    }
}

fn word(word: &Word) -> String {
    match word {
        Word::Ctb { broadcaster, word: ctb::Message::Lock { k, body: said } } => {
            format!("LOCK n{broadcaster} k{k} {}", body(said.bytes()))
        }
        Word::Ctb { broadcaster, word: ctb::Message::Locked { k, .. } } => {
            format!("LOCKED n{broadcaster} k{k}")
        }
        Word::Ctb { broadcaster, .. } => format!("other word of n{broadcaster}"),
        Word::WillCertify { view, slot, .. } => format!("WILL_CERTIFY v{} s{}", view.0, slot.0),
        Word::WillCommit { view, slot, .. } => format!("WILL_COMMIT v{} s{}", view.0, slot.0),
        other => format!("{other:?}"),
    }
}

/// What a line says of a message.
pub(crate) fn line(message: &Message) -> String {
    match message {
        Message::Word { word: said, .. } => word(said),
        Message::Echo { session, id, .. } => format!("ECHO session {session} id {id}"),
        Message::Ask { session, id, signature, .. } => {
            let how = if signature.is_some() { "SIGNED_REQ" } else { "REQ" };
            format!("{how} session {session} id {id}")
        }
        Message::Reply { session, id, result, .. } => {
            let what = if matches!(result, Replied::Full(_)) { "result" } else { "digest" };
            format!("REPLY session {session} id {id} {what}")
        }
        Message::Register { .. } => "REGISTER".to_owned(),
        Message::Registered { session, .. } => format!("REGISTERED {session:?}"),
        Message::Attach { session, .. } => format!("ATTACH session {session}"),
        other => format!("{other:?}"),
    }
}

#[expect(clippy::disallowed_methods, reason = "golden files are read and, on purpose, written by tests")]
fn assert_golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name);
    if std::env::var("SYNOD_BLESS").is_ok_and(|bless| bless == "1") {
        std::fs::write(&path, text).expect("the golden file can be written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == text, "{name} differs; SYNOD_BLESS=1 writes it anew; read the difference\n{text}");
}

#[test]
fn ubft_fast() {
    let mut town = Town::new(3, 1, 1, |_| {});
    town.open();
    town.lines = Some(Vec::new());
    town.ask(0, "hello", Span::millis(5));
    let lines = town.lines.take().expect("they were written down");
    // 22 messages (specification, 4.18): 3 requests, 2 echoes, 2 LOCK, 2 LOCKED, 4 WILL_CERTIFY, 6 WILL_COMMIT, 3 replies.
    assert_eq!(lines.len(), 22, "{lines:#?}");
    let head = "# uBFT, n = 3: one request of client c0 on the fast path; no signature is made or checked for it.\n\n";
    assert_golden("ubft_fast.txt", &format!("{head}{}\n", lines.join("\n")));
}
