//! The golden conversation: one request of one client on the fast path, written down word by word and compared with `tests/golden`.

use std::path::Path;

use synod_machine::Span;
use synod_quorum::{Epoch, NodeId};
use synod_ubft::epoch::Change;
use synod_ubft::message::{Message, Replied};
use synod_ubft::replica::Word;
use synod_ubft::{Body, CheckpointBy, ctb};
use synod_wire::{Limits, Wire as _};

use crate::town::Town;

fn body(body: &synod_wire::Bytes) -> String {
    match Body::decode(body.clone(), &Limits::default()) {
        Ok(Body::Prepare { view, slot, batch }) => {
            format!("PREPARE v{} s{} of {} requests", view.0, slot.0, batch.requests.len())
        }
        Ok(Body::Commit(certificate)) => format!("COMMIT s{}", certificate.subject.slot.0),
        Ok(Body::Checkpoint(certificate)) => format!("CHECKPOINT low s{}", certificate.subject.low.0),
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
        Word::CertifyCheckpoint { checkpoint, .. } => {
            let end = checkpoint.end.map_or(String::new(), |end| format!(" end s{}", end.0));
            format!("CERTIFY_CP low s{}{end}", checkpoint.low.0)
        }
        Word::Checkpoint(certificate) => format!("CHECKPOINT low s{}", certificate.subject.low.0),
        Word::CertifySummary { summarized, .. } => {
            format!("CERTIFY_SUMMARY n{} k{}", summarized.about, summarized.k)
        }
        Word::Summary(summary) => {
            let summarized = summary.certificate.subject;
            format!("SUMMARY n{} k{}", summarized.about, summarized.k)
        }
        Word::Certify { view, slot, .. } => format!("CERTIFY v{} s{}", view.0, slot.0),
        Word::Hint { view, slot } => format!("HINT v{} s{}", view.0, slot.0),
        Word::Fetch(want) => format!("FETCH {want:?}"),
        other => format!("{other:?}"),
    }
}

/// What a line says of a message.
pub(crate) fn line(message: &Message) -> String {
    match message {
        Message::Word { epoch: Epoch(0), word: said } => word(said),
        Message::Word { epoch, word: said } => format!("e{} {}", epoch.0, word(said)),
        Message::Hello { incarnation, epoch } => format!("HELLO life {incarnation} e{}", epoch.0),
        Message::Change(change) => match &**change {
            Change::Rejoin { node, incarnation, .. } => format!("REJOIN n{node} life {incarnation}"),
            Change::Readmit { .. } => format!("{message:?}"),
        },
        Message::FetchStanding => "FETCH standing".to_owned(),
        Message::Standing(standing) => {
            let low = |certificate: &Option<CheckpointBy>| {
                certificate.as_ref().map_or("none".to_owned(), |one| format!("s{}", one.subject.low.0))
            };
            let (start, newest) = (low(&standing.start), low(&standing.newest));
            let lives = &*standing.configuration.incarnations;
            let epoch = standing.configuration.epoch.0;
            format!("STANDING e{epoch} lives {lives:?} since {start}, newest {newest}")
        }
        Message::FetchLog { from } => format!("FETCH log from s{}", from.0),
        Message::Log { from, batches } => format!("LOG from s{} of {} batches", from.0, batches.len()),
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

#[test]
fn ubft_rejoin() {
    let mut town = Town::new(3, 1, 1, |_| {});
    town.open();
    town.ask(0, "before", Span::millis(5));
    town.net.stop(NodeId(2));
    town.pass(Span::millis(5));
    town.lines = Some(Vec::new());
    town.restart(2);
    town.rejoined(2, Span::secs(2));
    // What is said in each slot of the old epoch is said in `ubft_slow` and `ubft_fast`; here are the words that make an epoch.
    let lines = town.lines.take().expect("they were written down");
    let is_of_slots = |line: &String| {
        let slots =
            ["LOCK", "CERTIFY v", "WILL_", "HINT", "COMMIT", "other word", "SUMMARY", "FETCH Message"];
        slots.iter().any(|slot| line.contains(slot))
            && !line.contains("CHECKPOINT")
            && !line.contains("PREPARE")
    };
    let mut kept: Vec<String> = Vec::new();
    for line in lines.into_iter().filter(|line| !is_of_slots(line)) {
        // A message to several is one line.
        if kept.last() != Some(&line) {
            kept.push(line);
        }
    }
    let head = "# uBFT, n = 3: replica n2 was killed and is started again over its journal; what makes the epoch that lists it. Words \
                that only fill\n# slots up to the end of the old epoch are left out.\n\n";
    assert_golden("ubft_rejoin.txt", &format!("{head}{}\n", kept.join("\n")));
}
