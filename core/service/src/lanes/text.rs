//! Operations of lane applications as people write them: words between spaces.

use core::fmt;
use core::str::{FromStr, SplitAsciiWhitespace};

/// Why a text is no operation or no question: what is expected instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotUnderstood(pub &'static str);

impl fmt::Display for NotUnderstood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}", self.0)
    }
}

impl core::error::Error for NotUnderstood {}

/// The words of a text, read one after another.
#[derive(Clone, Debug)]
pub struct Words<'a> {
    rest: SplitAsciiWhitespace<'a>,
    form: &'static str,
}

impl<'a> Words<'a> {
    /// The words of `text`, which is expected to be like `form`.
    #[must_use]
    pub fn new(text: &'a str, form: &'static str) -> Self {
        Self { rest: text.split_ascii_whitespace(), form }
    }

    /// The next word.
    ///
    /// # Errors
    /// [`NotUnderstood`] with the form, when there is none.
    pub fn word(&mut self) -> Result<&'a str, NotUnderstood> {
        self.rest.next().ok_or(NotUnderstood(self.form))
    }

    /// The next word, a number.
    ///
    /// # Errors
    /// [`NotUnderstood`] with the form, when there is none or it is none of its type.
    pub fn number<N: FromStr>(&mut self) -> Result<N, NotUnderstood> {
        self.word()?.parse().map_err(|_| NotUnderstood(self.form))
    }

    /// Gives `value` if every word was read.
    ///
    /// # Errors
    /// [`NotUnderstood`] with the form, when words are left or there is no value.
    pub fn end<V>(mut self, value: Option<V>) -> Result<V, NotUnderstood> {
        value.filter(|_| self.rest.next().is_none()).ok_or(NotUnderstood(self.form))
    }

    /// The error that names the form.
    #[must_use]
    pub const fn wrong(&self) -> NotUnderstood {
        NotUnderstood(self.form)
    }
}

/// The words for codes that every lane application has: `None` for one of its own.
#[must_use]
pub const fn common(code: u8) -> Option<&'static str> {
    match code {
        super::NOT_DELIVERED => Some("not delivered"),
        super::UNREADABLE => Some("not an operation"),
        _ => None,
    }
}
