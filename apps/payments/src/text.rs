//! Payments as people write them: `pay TO AMOUNT`, `balance CLIENT`.

use synod_service::lanes::text::{NotUnderstood, Words, common};

use crate::operation;

/// Reads `pay TO AMOUNT`.
///
/// # Errors
/// [`NotUnderstood`] says what is expected.
pub fn parse(text: &str) -> Result<u64, NotUnderstood> {
    let mut words = Words::new(text, "pay TO AMOUNT: a client below 268435456 and a sum below 4294967296");
    if words.word()? != "pay" {
        return Err(words.wrong());
    }
    let (recipient, amount) = (words.number()?, words.number()?);
    words.end(operation(recipient, amount))
}

/// Writes an operation as [`parse`] reads it; `None` when its bits are malformed.
#[must_use]
pub fn show(asked: u64) -> Option<String> {
    let (recipient, amount) = (asked & 0xffff_ffff, asked >> 32);
    (recipient >> 28 == 0).then(|| format!("pay {recipient} {amount}"))
}

/// Reads `balance CLIENT`: the question that [`PaymentLanes`](crate::PaymentLanes) answers.
///
/// # Errors
/// [`NotUnderstood`] says what is expected.
pub fn question(text: &str) -> Result<Vec<u8>, NotUnderstood> {
    let mut words = Words::new(text, "balance CLIENT");
    if words.word()? != "balance" {
        return Err(words.wrong());
    }
    let client: u32 = words.number()?;
    words.end(Some(client.to_le_bytes().to_vec()))
}

/// The balance in an answer; `None` without an account, or when it is no answer.
#[must_use]
pub fn answer(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_le_bytes)
}

/// What a code says.
#[must_use]
pub const fn code(byte: u8) -> &'static str {
    match byte {
        0 => "paid",
        1 => "malformed",
        2 => "no such account",
        3 => "no amount",
        4 => "the balance is lower",
        other => match common(other) {
            Some(words) => words,
            None => "unknown",
        },
    }
}
