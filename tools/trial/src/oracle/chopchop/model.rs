//! Deduplication as the paper states it: by whole messages, one entry after the other.

use std::collections::BTreeMap;

use super::{EntrySeen, How};

/// What becomes of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Delivered.
    Delivered,
    /// The last message again.
    Same,
    /// Its number is taken.
    Stale,
    /// Nobody vouches for it.
    Void,
}

#[derive(Clone, Debug, Default)]
struct Standing {
    free: u64,
    last: Option<(Vec<u8>, bool)>,
}

/// Where every client stands.
#[derive(Clone, Debug, Default)]
pub struct Model {
    clients: BTreeMap<u32, Standing>,
}

impl Model {
    /// What becomes of the next entry.
    pub fn take(&mut self, entry: &EntrySeen) -> Outcome {
        let standing = self.clients.entry(entry.id).or_default();
        if entry.how == How::Void {
            return Outcome::Void;
        }
        let content = (entry.message.clone(), entry.parity);
        if standing.last.as_ref() == Some(&content) {
            standing.free = standing.free.max(entry.k + 1);
            return Outcome::Same;
        }
        if entry.k < standing.free {
            return Outcome::Stale;
        }
        standing.free = entry.k + 1;
        standing.last = Some(content);
        Outcome::Delivered
    }
}

#[cfg(test)]
mod tests {
    use super::{Model, Outcome};
    use crate::oracle::chopchop::{EntrySeen, How};

    fn entry(word: u8, parity: bool, k: u64) -> EntrySeen {
        EntrySeen { id: 1, message: vec![word], parity, k, how: How::Together }
    }

    #[test]
    fn equal_messages_in_a_row_are_two_and_retries_are_none() {
        let mut model = Model::default();
        let outcomes =
            [(7, false, 3), (7, false, 1), (7, true, 2), (7, true, 9), (7, false, 9), (7, false, 10)]
                .map(|(word, parity, k)| model.take(&entry(word, parity, k)));
        use Outcome::{Delivered, Same, Stale};
        assert_eq!(outcomes, [Delivered, Same, Stale, Delivered, Stale, Delivered]);
        let void = EntrySeen { how: How::Void, ..entry(8, true, 90) };
        assert_eq!((model.take(&void), model.take(&entry(8, true, 11))), (Outcome::Void, Delivered));
    }
}
