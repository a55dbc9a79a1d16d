//! The words of a system: what its frames, records, outputs and timers are called.

use core::any::Any;

use synod_quorum::NodeId;
use synod_wire::Bytes;

/// What stands out in a diagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Mark {
    /// Nothing does.
    #[default]
    Plain,
    /// A promise: a vote, a proposal, a complaint, or the record that keeps one.
    Promise,
    /// A certificate.
    Certificate,
    /// A commit, or what was delivered or executed because of one.
    Commit,
}

impl Mark {
    /// Its name in JSON and in pages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Promise => "promise",
            Self::Certificate => "certificate",
            Self::Commit => "commit",
        }
    }
}

/// A text with its mark.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// A few words.
    pub text: String,
    /// What stands out.
    pub mark: Mark,
}

impl Said {
    /// Plain words.
    #[must_use]
    pub fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), mark: Mark::Plain }
    }

    /// Marked words.
    #[must_use]
    pub fn marked(text: impl Into<String>, mark: Mark) -> Self {
        Self { text: text.into(), mark }
    }
}

/// Names what a system's machines say, write and tell. `None` leaves it to sizes and debug texts.
pub trait Words {
    /// A frame for this machine of its receiver.
    fn frame(&self, _machine: u8, _body: &Bytes) -> Option<Said> {
        None
    }

    /// A record of this machine.
    fn record(&self, _machine: u8, _record: &Bytes) -> Option<Said> {
        None
    }

    /// An output of this machine.
    fn output(&self, _machine: u8, _output: &dyn Any) -> Option<Said> {
        None
    }

    /// A node's name; `n` and its id by default.
    fn node(&self, id: NodeId) -> String {
        format!("n{}", id.0)
    }
}

/// No system: sizes and debug texts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Words for Plain {}

/// The debug text of a timer as words: `View(View(12))` is `view 12`.
pub(crate) fn timer(debug: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for word in debug.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        let word = word.to_lowercase();
        if words.last() != Some(&word) {
            words.push(word);
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::timer;

    #[test]
    fn a_timer_is_named_in_words() {
        assert_eq!(timer("View(View(12))"), "view 12");
        assert_eq!(timer("Status"), "status");
        assert_eq!(timer("Fetch { id: 7 }"), "fetch id 7");
    }
}
