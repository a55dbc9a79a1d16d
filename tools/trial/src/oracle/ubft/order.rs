//! U-S7 and U-S14: correct replicas execute the same in each slot, each request once, and only what somebody asked.

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::Hash;
use synod_wire::Bytes;

use crate::oracle::{Verdict, breach};

/// A request that was executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowSeen {
    /// Whose.
    pub session: u64,
    /// Its number within the session.
    pub id: u64,
    /// What was asked.
    pub op: Bytes,
}

/// What a replica executes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executed {
    /// The slot.
    pub slot: u64,
    /// The agreed time.
    pub time: u64,
    /// Of the batch.
    pub digest: Hash,
    /// The requests that take effect, in order.
    pub rows: Vec<RowSeen>,
}

/// Where one replica is.
#[derive(Clone, Copy, Debug, Default)]
struct At {
    next: u64,
    time: u64,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Order {
    /// What the first correct replica executed in each slot, and how many requests took effect up to its end.
    slots: BTreeMap<u64, (Executed, usize)>,
    /// All requests that took effect, in order.
    rows: Vec<RowSeen>,
    once: BTreeSet<(u64, u64)>,
    at: BTreeMap<u32, At>,
}

impl Order {
    /// A replica begins a life before the first slot.
    pub fn open(&mut self, node: u32) {
        self.at.insert(node, At::default());
    }

    /// A replica's application has the state behind all slots below `low`.
    pub fn install(&mut self, node: u32, low: u64) {
        self.at.insert(node, At { next: low, time: 0 });
    }

    /// Requests that took effect in slots below one, as far as any replica is.
    #[must_use]
    pub fn below(&self, slot: u64) -> usize {
        self.slots.range(..slot).next_back().map_or(0, |(_, (_, end))| *end)
    }

    /// A request by its count.
    #[must_use]
    pub fn row(&self, count: u64) -> Option<&RowSeen> {
        self.rows.get(usize::try_from(count.checked_sub(1)?).ok()?)
    }

    /// How many requests took effect.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.rows.len() as u64
    }

    /// The digest of the batch that was executed in a slot.
    #[must_use]
    pub fn digest(&self, slot: u64) -> Option<Hash> {
        self.slots.get(&slot).map(|(executed, _)| executed.digest)
    }

    /// A correct replica executes a slot. Whether it is the first.
    ///
    /// # Errors
    /// U-S7 if another executed something else, or slots are left out; U-S14 if a request takes effect twice.
    pub fn execute(&mut self, node: u32, executed: Executed) -> Result<bool, crate::oracle::Breach> {
        let (slot, at) = (executed.slot, self.at.entry(node).or_default());
        // Slots in which nothing takes effect are not executed.
        let is_back = slot < at.next;
        if let Some(left_out) =
            self.slots.range(at.next..slot.max(at.next)).next().map(|(left_out, _)| left_out)
        {
            breach("U-S7", format!("replica {node} executes slot {slot}, and leaves out {left_out}"))?;
        }
        if is_back {
            breach("U-S7", format!("replica {node} executes slot {slot} behind {} slots", at.next))?;
        }
        if executed.time < at.time {
            breach("U-S7", format!("time falls at slot {slot}: {} behind {}", executed.time, at.time))?;
        }
        *at = At { next: slot + 1, time: executed.time };
        if let Some((first, _)) = self.slots.get(&slot) {
            if *first != executed {
                breach(
                    "U-S7",
                    format!("two batches are executed in slot {slot}: {first:?}, and {executed:?}"),
                )?;
            }
            return Ok(false);
        }
        for row in &executed.rows {
            if !self.once.insert((row.session, row.id)) {
                breach("U-S14", format!("request {} of session {} takes effect twice", row.id, row.session))?;
            }
        }
        if let Some((later, _)) = self.slots.range(slot..).next() {
            breach(
                "U-S7",
                format!("replica {node} executes slot {slot}, which whoever executed {later} left out"),
            )?;
        }
        self.rows.extend(executed.rows.iter().cloned());
        self.slots.insert(slot, (executed, self.rows.len()));
        Ok(true)
    }
}

/// Whether everything that was said of an application's state agrees with what was executed.
///
/// # Errors
/// U-S7 if it does not.
pub fn same_state(order: &Order, node: u32, slot: u64, (rows, last): (usize, Option<&RowSeen>)) -> Verdict {
    let wanted = order.below(slot);
    let same = rows == wanted && last == order.row(wanted as u64);
    if same {
        return Ok(());
    }
    breach(
        "U-S7",
        format!("the state of replica {node} before slot {slot} has {rows} requests, not {wanted}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(slot: u64, ids: &[u64]) -> Executed {
        let row = |id: &u64| RowSeen { session: 7, id: *id, op: Bytes::from_static(b"op") };
        let digest = Hash([u8::try_from(ids.len()).expect("few"); 32]);
        Executed { slot, time: slot, digest, rows: ids.iter().map(row).collect() }
    }

    fn checker(verdict: Result<bool, crate::oracle::Breach>) -> &'static str {
        verdict.err().map_or("", |breach| breach.checker)
    }

    #[test]
    fn replicas_that_execute_the_same_are_left_alone_and_others_are_not() {
        let mut order = Order::default();
        assert_eq!(order.execute(0, slot(0, &[1, 2])), Ok(true));
        assert_eq!(order.execute(1, slot(0, &[1, 2])), Ok(false));
        assert_eq!(order.execute(0, slot(1, &[3])), Ok(true));
        assert_eq!((order.count(), order.below(1), order.below(3)), (3, 2, 3));
        assert_eq!(checker(order.clone().execute(1, slot(1, &[]))), "U-S7", "another batch");
        assert_eq!(checker(order.clone().execute(1, slot(2, &[]))), "U-S7", "a slot is left out");
        assert_eq!(order.clone().execute(0, slot(3, &[4])), Ok(true), "nothing took effect in between");
        let mut late = order.clone();
        assert_eq!((late.execute(0, slot(3, &[4])), late.execute(1, slot(1, &[3]))), (Ok(true), Ok(false)));
        assert_eq!(checker(late.execute(1, slot(2, &[5]))), "U-S7", "whoever executed slot 3 left it out");
        assert_eq!(checker(order.clone().execute(0, slot(2, &[3]))), "U-S14");
        order.install(2, 2);
        assert_eq!(order.execute(2, slot(2, &[])), Ok(true));
        let row = order.row(3).cloned();
        assert_eq!(same_state(&order, 2, 3, (3, row.as_ref())), Ok(()));
        assert!(same_state(&order, 2, 3, (2, row.as_ref())).is_err());
    }
}
