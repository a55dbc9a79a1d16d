//! Golden conversations: short runs written down line by line, compared with `tests/golden`.

use std::path::Path;

use synod_chopchop::client::Input;
use synod_chopchop::message::ClientMessage;
use synod_chopchop::vocabulary::Message;
use synod_machine::Span;

use crate::whole::run::{Whole, link};
use crate::world::{Envelope, OTHER, Setup};

const COLUMNS: &str =
    "Columns: virtual milliseconds, who does what. Servers are s0 to s3, the broker is b0, clients are c.
# CREDIT and the questions of the ideal order are left out.";

/// Compares text with a golden file, or writes it when `SYNOD_BLESS` is 1.
#[expect(clippy::disallowed_methods, reason = "golden files are read and, on purpose, written by tests")]
fn compare(file: &str, head: &str, whole: &Whole) {
    let lines = whole.world.lines.clone().expect("the world is written down");
    assert!(lines.len() > 20, "{file}: {} lines", lines.len());
    let text = format!("# {head}\n# {COLUMNS}\n\n{}\n", lines.join("\n"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(file);
    if std::env::var("SYNOD_BLESS").is_ok_and(|bless| bless == "1") {
        std::fs::write(&path, &text).expect("the golden file can be written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    for (at, (kept, now)) in kept.lines().zip(text.lines()).enumerate() {
        assert_eq!(kept, now, "{file}, line {}; SYNOD_BLESS=1 writes it anew", at + 1);
    }
    assert_eq!(kept.lines().count(), text.lines().count(), "{file}");
}

/// One broker and these clients, from here on written down.
fn written(clients: u32) -> Whole {
    let mut whole = Whole::new(Setup::default());
    whole.brokers.remove(&OTHER);
    (0..clients).for_each(|id| whole.start_client(id, Some(id)));
    whole.pass(Span::secs(1));
    whole.world.lines = Some(Vec::new());
    whole
}

fn sign_up() -> Whole {
    let mut whole = written(0);
    whole.start_client(40, None);
    whole.input(40, Input::SignUp);
    whole.pass(Span::millis(2_500));
    assert_eq!(whole.world.server(0).directory().len(), crate::world::CLIENTS + 1);
    whole
}

fn distilled() -> Whole {
    let mut whole = written(3);
    for (id, word) in (0..).zip([5, 6, 7]) {
        whole.broadcast(id, word);
    }
    whole.pass(Span::millis(900));
    assert!((0..3).all(|id| whole.done(id) == 1) && whole.receipts() == 3);
    whole
}

fn straggling() -> Whole {
    let mut whole = written(3);
    whole.passes = Box::new(|envelope: &Envelope| {
        let signs = matches!(&envelope.message, Message::Client(ClientMessage::MultiSig { .. }));
        !(signs && envelope.from == link(2))
    });
    for (id, word) in (0..).zip([5, 6, 7]) {
        whole.broadcast(id, word);
    }
    whole.pass(Span::millis(2_500));
    assert!((0..3).all(|id| whole.done(id) == 1));
    whole
}

/// 2.2.
#[test]
fn a_client_signs_up_as_written_down() {
    let head = "A new client signs up: its card is witnessed, ordered and appended, and it hears its id.";
    compare("chopchop_signup.txt", head, &sign_up());
}

/// Figure 5.
#[test]
fn three_clients_broadcast_as_written_down() {
    let head = "Three clients broadcast one message each: one batch, one multi-signature, three receipts.";
    compare("chopchop_broadcast.txt", head, &distilled());
}

/// 4.2, fallback.
#[test]
fn a_client_that_cannot_be_heard_straggles_as_written_down() {
    let head = "The multi-signatures of client 2 are lost: it straggles, and the two others stay distilled.";
    compare("chopchop_straggler.txt", head, &straggling());
}

/// The same run twice gives the same lines.
#[test]
fn a_conversation_is_the_same_each_time() {
    for run in [sign_up as fn() -> Whole, distilled, straggling] {
        assert_eq!(run().world.lines, run().world.lines);
    }
}
