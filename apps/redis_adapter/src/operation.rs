//! What a request carries: one command, or a burst that is executed as one.

use synod_wire::{Blob, Bytes, List, wire};

/// Longest word of a command, in bytes.
pub const WORD_MAX: usize = 1 << 20;
/// Most words of a command.
pub const WORDS_MAX: usize = 1_024;
/// Most commands of a burst.
pub const COMMANDS_MAX: usize = 128;

wire! {
    /// A command of Redis: its name and its arguments.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Command(pub List<Blob<WORD_MAX>, WORDS_MAX>);

    /// What a request carries.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Operation {
        /// One command.
        0 = One(Command),
        /// A pipelined burst: nothing is executed between two of them. As many are executed as have room for their replies, and at least
        /// one; the reply is an array of as many, and who asked asks for the rest again.
        1 = Burst(List<Command, COMMANDS_MAX>),
        /// MULTI to EXEC: all of them, however long their replies are.
        2 = Whole(List<Command, COMMANDS_MAX>),
    }
}

impl Command {
    /// The command of these words; `None` beyond a bound.
    #[must_use]
    pub fn of(words: &[&[u8]]) -> Option<Self> {
        let words = words.iter().map(|word| Blob::try_from(Bytes::copy_from_slice(word)).ok());
        List::try_from(words.collect::<Option<Vec<_>>>()?).ok().map(Self)
    }

    /// The words.
    pub(crate) fn words(&self) -> Vec<Bytes> {
        self.0.iter().map(|word| word.bytes().clone()).collect()
    }
}
