//! U-S6, of what is read: a read gives the last write that was complete when it began, or one that came later.
//!
//! A correct replica says by its rule when an operation is complete. What it can have read is the newest of all answers that came to
//! it, so this asks no more than was promised: answers that it should not have believed are counted in its favour.

use std::collections::{BTreeMap, BTreeSet};

use synod_machine::register::{Held, Place, RegisterOp, RegisterReply, Said};

use crate::oracle::{Verdict, breach};

/// A read under way.
#[derive(Clone, Copy, Debug)]
struct Reading {
    /// The stamp of the last write that was complete when it began.
    least: u64,
    newest: Option<Held>,
}

/// One operation: who, where, and its tag.
type Operation = (u32, Place, u64);

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Reads {
    liars: BTreeSet<u32>,
    writing: BTreeMap<Operation, Held>,
    /// What was written under each stamp.
    written: BTreeMap<(Place, u64), Held>,
    /// The last complete write of each register.
    complete: BTreeMap<Place, u64>,
    reading: BTreeMap<Operation, Reading>,
    count: u64,
}

impl Reads {
    /// Reads that were complete.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// A replica lies: nothing is promised of its registers.
    pub fn fault(&mut self, node: u32) {
        self.liars.insert(node);
    }

    /// A correct replica says an operation to a memory node, for the first time or again.
    pub fn begin(&mut self, node: u32, op: &RegisterOp) {
        let (place, tag) = (op.place(), op.tag());
        match op {
            RegisterOp::Write { held, .. } => {
                self.writing.insert((node, place, tag), *held);
                self.written.insert((place, held.stamp), *held);
            }
            RegisterOp::Read { .. } => {
                let least = self.complete.get(&place).copied().unwrap_or(0);
                self.reading.entry((node, place, tag)).or_insert(Reading { least, newest: None });
            }
        }
    }

    /// A memory node answers, and with that answer the replica takes the operation to be complete or not.
    ///
    /// # Errors
    /// U-S6 if what was read is older, or was never written.
    pub fn answer(&mut self, node: u32, reply: &RegisterReply, is_complete: bool) -> Verdict {
        let operation = (node, reply.place, reply.tag);
        if let Some(reading) = self.reading.get_mut(&operation) {
            if let Said::Value(Some(held)) = reply.said
                && reading.newest.is_none_or(|newest| held.stamp > newest.stamp)
            {
                reading.newest = Some(held);
            }
            if !is_complete {
                return Ok(());
            }
            let done = *reading;
            self.reading.remove(&operation);
            return self.judge(node, reply.place, done);
        }
        if is_complete && let Some(held) = self.writing.remove(&operation) {
            let last = self.complete.entry(reply.place).or_default();
            *last = held.stamp.max(*last);
        }
        Ok(())
    }

    fn judge(&mut self, node: u32, place: Place, read: Reading) -> Verdict {
        self.count += 1;
        let owner = u32::from(place.region.owner);
        if self.liars.contains(&owner) {
            return Ok(());
        }
        let stamp = read.newest.map_or(0, |held| held.stamp);
        if stamp < read.least {
            let what = format!(
                "replica {node} reads stamp {stamp} of register {} of {owner}, which had {} before",
                place.index, read.least
            );
            breach("U-S6", what)?;
        }
        match read.newest {
            Some(held) if self.written.get(&(place, held.stamp)) != Some(&held) => breach(
                "U-S6",
                format!("replica {node} reads of register {} of {owner} what it never wrote", place.index),
            ),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use synod_machine::register::Region;

    use super::*;

    fn place() -> Place {
        Place { region: Region { epoch: Default::default(), owner: 1 }, index: 3 }
    }

    fn held(stamp: u64) -> Held {
        Held { stamp, value: [u8::try_from(stamp).unwrap_or(0); 96] }
    }

    fn reply(tag: u64, said: Said) -> RegisterReply {
        RegisterReply { tag, place: place(), boot: 1, said }
    }

    fn written() -> Reads {
        let mut reads = Reads::default();
        reads.begin(1, &RegisterOp::Write { tag: 1, place: place(), held: held(4) });
        assert_eq!(reads.answer(1, &reply(1, Said::Written), false), Ok(()));
        assert_eq!(reads.answer(1, &reply(1, Said::Written), true), Ok(()));
        reads.begin(1, &RegisterOp::Write { tag: 2, place: place(), held: held(20) });
        reads.begin(2, &RegisterOp::Read { tag: 7, place: place() });
        reads
    }

    #[test]
    fn the_last_complete_write_or_a_later_one_is_read() {
        for (first, second) in [(None, Some(4)), (Some(4), Some(20)), (Some(20), None)] {
            let mut reads = written();
            let said = |stamp: Option<u64>| Said::Value(stamp.map(held));
            assert_eq!(reads.answer(2, &reply(7, said(first)), false), Ok(()));
            assert_eq!(reads.answer(2, &reply(7, said(second)), true), Ok(()));
            assert_eq!(reads.count(), 1);
        }
    }

    #[test]
    fn nothing_older_is_read_and_nothing_that_was_never_written() {
        let mut reads = written();
        assert!(reads.clone().answer(2, &reply(7, Said::Value(None)), true).is_err());
        let other = Held { stamp: 20, value: [9; 96] };
        assert!(reads.clone().answer(2, &reply(7, Said::Value(Some(other))), true).is_err());
        reads.fault(1);
        assert_eq!(reads.answer(2, &reply(7, Said::Value(Some(other))), true), Ok(()));
    }
}
