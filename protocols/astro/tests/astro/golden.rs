//! Golden conversations: short runs written down line by line, compared with `tests/golden`.

use std::path::Path;

use synod_astro::Input;

use crate::bank::{custodial, draft, issuer, pay};
use crate::conversation::{Conversation, is_commit};

const COLUMNS: &str = "Columns: virtual milliseconds, who does what. Replicas are r0 to r3; an account is SHARD-REGISTRAR-LOCAL, its entries #1, #2.";

/// Compares text with a golden file, or writes it when `SYNOD_BLESS` is 1.
#[expect(clippy::disallowed_methods, reason = "golden files are read and, on purpose, written by tests")]
fn compare(file: &str, head: &str, lines: &[String]) {
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

fn order(all: &mut Conversation, ticket: u64, by: u32, to: u32, amount: u128) {
    let (spender, to) = (if ticket == 1 { issuer(by) } else { custodial(by) }, custodial(to));
    let draft = draft(spender, pay(to, amount), u128::from(ticket));
    all.ask(by, &format!("{spender} pays {to} {amount}"), Input::Order { ticket, draft });
}

fn payment() -> Vec<String> {
    let mut all = Conversation::new(|_, _, _, _| true);
    order(&mut all, 1, 0, 1, 50);
    all.until(1_100);
    all.lines
}

fn exception() -> Vec<String> {
    // The first certificate does not reach r2 and r3: they do not know of the money that the second payment is of.
    let mut all = Conversation::new(|now, from, to, message| {
        !(is_commit(message) && from == 0 && to >= 2 && now.0 < 1_040_000_000)
    });
    order(&mut all, 1, 0, 1, 50);
    all.until(1_035);
    order(&mut all, 2, 1, 2, 30);
    all.until(1_115);
    all.lines
}

/// Figure 1.
#[test]
fn a_payment_is_made_as_written_down() {
    let lines = payment();
    assert!(lines.iter().filter(|line| line.contains("settles as number 1")).count() == 4);
    assert!(lines.iter().any(|line| line.ends_with("0-0-1#1 is Stable")));
    compare(
        "astro_payment.txt",
        "An issuer pays a customer of another institution: one batch, one certificate, receipts.",
        &lines,
    );
}

/// Specification, section 4.4.
#[test]
fn a_payment_that_is_not_funded_everywhere_is_excepted_and_certified_later_as_written_down() {
    let lines = exception();
    assert!(lines.iter().any(|line| line.contains("-> r1  ACK batch 1 of r1, all but [0]")));
    assert!(lines.iter().filter(|line| line.contains("settles as number 2")).count() == 4);
    let head = "Two replicas do not know of the money yet, and leave the second payment out; they endorse it once the money has come.";
    compare("astro_exception.txt", head, &lines);
}

/// The same run twice gives the same lines.
#[test]
fn a_conversation_is_the_same_each_time() {
    for run in [payment as fn() -> Vec<String>, exception] {
        assert_eq!(run(), run());
    }
}
