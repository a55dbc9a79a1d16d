//! Refusals (C-L2): what an honest broker sends, an honest store takes, and it waits for the directory it lacks.

use std::collections::BTreeMap;

use synod_crypto::Hash;
use synod_machine::{Span, Time};

use super::Facts;
use crate::oracle::{Verdict, breach};

/// Why a store does not witness a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It has no room, or the batch is not of this time: a correct broker meets that too.
    NotNow,
    /// It knows too few clients.
    Directory,
    /// The batch breaks a rule.
    Unsound,
}

/// What honest stores refused.
#[derive(Clone, Debug)]
pub struct Refusals {
    patience: Span,
    /// When a store was asked for a batch first, in this life.
    asked: BTreeMap<(u32, Hash), Time>,
}

impl Refusals {
    /// Of stores that wait so long for the directory that a batch needs.
    #[must_use]
    pub const fn new(patience: Span) -> Self {
        Self { patience, asked: BTreeMap::new() }
    }

    /// A store begins a life.
    pub fn open(&mut self, node: u32) {
        self.asked.retain(|(store, _), _| *store != node);
    }

    /// A store is asked to witness a batch.
    pub fn ask(&mut self, node: u32, digest: Hash, now: Time) {
        self.asked.entry((node, digest)).or_insert(now);
    }

    /// An honest store refuses a batch.
    ///
    /// # Errors
    /// C-L2: an honest broker made it, and nothing is wrong with it; or the store did not wait.
    pub fn refuse(
        &self,
        facts: &Facts,
        (node, broker): (u32, u32),
        (digest, why): (&Hash, Why),
        now: Time,
    ) -> Verdict {
        if !facts.honest(broker) {
            return Ok(());
        }
        // Its clock may run a little faster than the world's.
        let shortest = Span(self.patience.0 - self.patience.0 / 64);
        match (why, self.asked.get(&(node, *digest))) {
            (Why::Unsound, _) => {
                breach("C-L2", format!("store {node} calls {digest:?} of honest broker {broker} unsound"))
            }
            (Why::Directory, Some(asked)) if now < *asked + shortest => breach(
                "C-L2",
                format!("store {node} refuses {digest:?} for its directory, asked since {asked} alone"),
            ),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use synod_crypto::Hash;
    use synod_machine::{Span, Time};

    use super::{Refusals, Why};
    use crate::oracle::chopchop::Facts;

    const DIGEST: Hash = Hash([7; 32]);

    #[test]
    fn an_honest_brokers_batch_is_neither_unsound_nor_refused_before_its_time() {
        let mut facts = Facts::default();
        facts.fault(130);
        let mut refusals = Refusals::new(Span::secs(1));
        refusals.ask(2, DIGEST, Time(5));
        refusals.ask(2, DIGEST, Time(900_000_000));
        let refuse = |broker, why, at| refusals.refuse(&facts, (2, broker), (&DIGEST, why), Time(at));
        assert!(refuse(128, Why::Unsound, 10).is_err());
        assert!(refuse(130, Why::Unsound, 10).is_ok(), "a faulty one may send anything");
        assert!(refuse(128, Why::Directory, 900_000_000).is_err());
        assert!(refuse(128, Why::Directory, 1_000_000_000).is_ok());
        assert!(refuse(128, Why::NotNow, 10).is_ok());
        refusals.open(2);
        let again = refusals.refuse(&facts, (2, 128), (&DIGEST, Why::Directory), Time(10));
        assert!(again.is_ok(), "it does not know since when");
    }
}
