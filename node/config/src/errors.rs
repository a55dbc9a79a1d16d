//! The catalogue of SYN codes: what went wrong, why it may have, what to do, whether to retry.
//!
//! Codes are permanent and never reused. The rows stand in one file per layer that reports them; [`ERRORS`] is
//! all of them in ascending order. The ranges 31, 33 and 37 belong to protocols and applications that bring
//! their own rows; the ranges 41 to 46 hold one row per fault of a protocol and are joined by [`Catalogue`].

mod catalogue;
mod faults;
mod render;
mod requests;
mod setup;
mod state;
mod transport;

pub use catalogue::Catalogue;
pub use faults::peer_fault;
pub use render::SynError;

use crate::exits::Exit;
use std::fmt;

/// A SYN code. Written `SYN-1103`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(u16);

impl Code {
    /// Names a code; nothing says that a row for it exists.
    #[must_use]
    pub const fn new(number: u16) -> Self {
        Self(number)
    }

    /// The four digits.
    #[must_use]
    pub const fn number(self) -> u16 {
        self.0
    }

    /// Reads `SYN-1103`, `syn-1103` or `1103`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = match text.get(..4) {
            Some(prefix) if prefix.eq_ignore_ascii_case("SYN-") => text.get(4..)?,
            _ => text,
        };
        let four = digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_digit());
        four.then(|| digits.parse().ok().map(Self)).flatten()
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SYN-{:04}", self.0)
    }
}

/// What repeating the same bytes does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The same bytes never succeed; the rejection binds the request id.
    Permanent,
    /// The same bytes may succeed later; the rejection does not bind the request id.
    Temporary,
    /// It was done before; the result is the same.
    Done,
    /// Nobody knows; ask by request id.
    Unknown,
}

impl Retry {
    /// The letter of documents and JSON: P, T, D or U.
    #[must_use]
    pub fn letter(self) -> &'static str {
        match self {
            Self::Permanent => "P",
            Self::Temporary => "T",
            Self::Done => "D",
            Self::Unknown => "U",
        }
    }

    /// One sentence for `explain`.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Permanent => "the same bytes never succeed",
            Self::Temporary => "the same bytes may succeed later",
            Self::Done => "it was done before; the result is the same",
            Self::Unknown => "ask for the outcome by request id",
        }
    }
}

/// One row of the catalogue.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The permanent code.
    pub code: Code,
    /// The permanent name, in snake case.
    pub name: &'static str,
    /// The message; `{word}` stands for a value that [`SynError::of`] fills in.
    pub message: &'static str,
    /// What usually leads here, likeliest first.
    pub causes: &'static [&'static str],
    /// What to do about it.
    pub fix: &'static str,
    /// What a repetition does.
    pub retry: Retry,
    /// The exit code of a verb that ends with it. Peer faults end no verb; their rows say `Failure`.
    pub exit: Exit,
    /// The HTTP status, where the code can be the answer to a request.
    pub http: Option<u16>,
}

/// Declares the rows of one file and a constant per code.
macro_rules! rows {
    ($table:ident; $($number:literal $constant:ident $name:literal
        ($exit:ident, $http:expr, $retry:ident) $message:literal [$($cause:literal),+ $(,)?] $fix:literal;)+) => {
        $(
            #[doc = $name]
            #[doc = ": "]
            #[doc = $message]
            pub const $constant: crate::errors::Code = crate::errors::Code::new($number);
            const _: () = assert!(stringify!($constant).eq_ignore_ascii_case($name));
        )+
        pub(super) const $table: &[crate::errors::Entry] = &[$(
            crate::errors::Entry {
                code: $constant,
                name: $name,
                message: $message,
                causes: &[$($cause),+],
                fix: $fix,
                retry: crate::errors::Retry::$retry,
                exit: crate::exits::Exit::$exit,
                http: $http,
            },
        )+];
    };
}
use rows;

/// The constant of every code in the catalogue.
pub mod code {
    pub use super::faults::{
        FOREIGN_VERSION, FRAME_TOO_LARGE, QUOTA_EXCEEDED, RESERVED_FLAGS, UNDECODABLE_FRAME, UNKNOWN_MACHINE,
    };
    pub use super::requests::*;
    pub use super::setup::*;
    pub use super::state::*;
    pub use super::transport::*;
}

const PARTS: [&[Entry]; 5] =
    [setup::SETUP, transport::TRANSPORT, requests::REQUESTS, faults::FAULTS, state::STATE];

const fn total() -> usize {
    let (mut sum, mut part) = (0, 0);
    while part < PARTS.len() {
        sum += PARTS[part].len();
        part += 1;
    }
    sum
}

const fn joined() -> [Entry; total()] {
    let mut all = [setup::SETUP[0]; total()];
    let (mut next, mut part) = (0, 0);
    while part < PARTS.len() {
        let mut row = 0;
        while row < PARTS[part].len() {
            all[next] = PARTS[part][row];
            next += 1;
            row += 1;
        }
        part += 1;
    }
    all
}

/// Every code of the first release, in ascending order.
pub const ERRORS: &[Entry] = &joined();

/// The row of a code, if the catalogue has one.
#[must_use]
pub fn explain(code: Code) -> Option<&'static Entry> {
    let at = ERRORS.binary_search_by_key(&code, |entry| entry.code).ok()?;
    ERRORS.get(at)
}

#[cfg(test)]
mod tests;
