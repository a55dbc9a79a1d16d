//! Auctions as people write them: `bid TOKEN AMOUNT`, `take TOKEN`; `money CLIENT`, `token TOKEN`.

use synod_service::lanes::text::{NotUnderstood, Words, common};

use crate::{bid, take};

/// Reads `bid TOKEN AMOUNT` or `take TOKEN`.
///
/// # Errors
/// [`NotUnderstood`] says what is expected.
pub fn parse(text: &str) -> Result<u64, NotUnderstood> {
    let mut words = Words::new(text, "bid TOKEN AMOUNT or take TOKEN, a token below 2147483648");
    match words.word()? {
        "bid" => {
            let (token, amount) = (words.number()?, words.number()?);
            words.end(bid(token, amount))
        }
        "take" => {
            let token = words.number()?;
            words.end(take(token))
        }
        _ => Err(words.wrong()),
    }
}

/// Writes an operation as [`parse`] reads it; `None` for a take with an amount.
#[must_use]
pub fn show(asked: u64) -> Option<String> {
    let (token, amount) = (asked >> 1 & 0x7fff_ffff, asked >> 32);
    match (asked & 1, amount) {
        (0, _) => Some(format!("bid {token} {amount}")),
        (_, 0) => Some(format!("take {token}")),
        (_, _) => None,
    }
}

/// Reads `money CLIENT` or `token TOKEN`: the questions that [`AuctionLanes`](crate::AuctionLanes) answers.
///
/// # Errors
/// [`NotUnderstood`] says what is expected.
pub fn question(text: &str) -> Result<Vec<u8>, NotUnderstood> {
    let mut words = Words::new(text, "money CLIENT or token TOKEN");
    let kind = match words.word()? {
        "money" => 0,
        "token" => 1,
        _ => return Err(words.wrong()),
    };
    let number: u32 = words.number()?;
    words.end(Some(core::iter::once(kind).chain(number.to_le_bytes()).collect()))
}

/// What is known of a client or a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// The money of a client.
    Money {
        /// To be bid.
        available: u64,
        /// In its best bids.
        locked: u64,
    },
    /// A token.
    Token {
        /// Its owner.
        owner: u64,
        /// The best bidder and the bid.
        best: Option<(u64, u64)>,
    },
}

/// What an answer says; `None` when there is no such client or token, or when it is no answer.
#[must_use]
pub fn answer(bytes: &[u8]) -> Option<Known> {
    let (words, []) = bytes.as_chunks::<8>() else { return None };
    let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    match words.as_slice() {
        [available, locked] => Some(Known::Money { available: *available, locked: *locked }),
        [owner, bidder, amount] => {
            let best = (*bidder != u64::from(u32::MAX)).then_some((*bidder, *amount));
            Some(Known::Token { owner: *owner, best })
        }
        _ => None,
    }
}

/// What a code says.
#[must_use]
pub const fn code(byte: u8) -> &'static str {
    match byte {
        0 => "the bid is the best one",
        1 => "sold",
        2 => "malformed",
        3 => "no such account",
        4 => "no such token",
        5 => "the token is your own",
        6 => "the best bid is not lower",
        7 => "less is available",
        8 => "the token is not your own",
        9 => "there is no bid",
        other => match common(other) {
            Some(words) => words,
            None => "unknown",
        },
    }
}
