//! What a run did and used: counts of stations, processor time, and time that the machine did not get.
//!
//! *Counts* are exact. Each station has a [`Tally`] that its poller alone writes; whoever reads it between two ticks misses nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use synod_machine::{Cost, Rule};
use synod_shm::Observer;

use crate::processor::{own_ns, threads_ns};

/// Counts of one station.
#[derive(Default)]
pub(super) struct Tally {
    messages: AtomicU64,
    signs: AtomicU64,
    checks: AtomicU64,
    slots: AtomicU64,
    signed_slots: AtomicU64,
    views: AtomicU64,
}

/// Who writes is one thread, so nothing is lost between load and store.
fn add(counter: &AtomicU64, by: u32) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(u64::from(by)), Ordering::Relaxed);
}

impl Observer for Tally {
    fn sent(&self, _: u8, peers: u32) {
        add(&self.messages, peers);
    }

    fn asked(&self, _: u8, cost: &Cost) {
        add(&self.signs, cost.sign);
        add(&self.checks, cost.verify.saturating_add(cost.batch_verify));
    }

    fn applied(&self, _: u8, rule: Rule) {
        match rule.name {
            "A2.44_execute" => add(&self.slots, 1),
            "A2.41_decide_slow" => add(&self.signed_slots, 1),
            "A3.06_seal" => add(&self.views, 1),
            _ => {}
        }
    }
}

impl Tally {
    /// What was counted so far.
    pub(super) fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            messages: read(&self.messages),
            signs: read(&self.signs),
            checks: read(&self.checks),
            slots: read(&self.slots),
            signed_slots: read(&self.signed_slots),
            views: read(&self.views),
        }
    }
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Messages sent, one for each receiver.
    pub(super) messages: u64,
    /// Signatures made.
    pub(super) signs: u64,
    /// Signatures checked.
    pub(super) checks: u64,
    /// Slots that were executed.
    pub(super) slots: u64,
    /// Slots of a view of which f + 1 streams showed a certificate, whether or not they were decided before.
    pub(super) signed_slots: u64,
    /// Views that were left.
    pub(super) views: u64,
}

impl Counts {
    /// Those of two stations: sums, and of slots, which all have alike, the most.
    pub(super) fn beside(self, other: Self) -> Self {
        Self {
            messages: self.messages + other.messages,
            signs: self.signs + other.signs,
            checks: self.checks + other.checks,
            slots: self.slots.max(other.slots),
            signed_slots: self.signed_slots.max(other.signed_slots),
            views: self.views.max(other.views),
        }
    }

    /// What came since.
    pub(super) fn since(self, earlier: Self) -> Self {
        Self {
            messages: self.messages.saturating_sub(earlier.messages),
            signs: self.signs.saturating_sub(earlier.signs),
            checks: self.checks.saturating_sub(earlier.checks),
            slots: self.slots.saturating_sub(earlier.slots),
            signed_slots: self.signed_slots.saturating_sub(earlier.signed_slots),
            views: self.views.saturating_sub(earlier.views),
        }
    }

    fn read(said: &Value) -> Option<Self> {
        let number = |key: &str| said[key].as_u64();
        Some(Self {
            messages: number("messages")?,
            signs: number("signs")?,
            checks: number("checks")?,
            slots: number("slots")?,
            signed_slots: number("signed_slots")?,
            views: number("views")?,
        })
    }
}

/// What was used until a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Used {
    pub(super) counts: Counts,
    /// Nanoseconds of whoever answers.
    pub(super) serving_ns: u64,
    /// Nanoseconds of the client's poller.
    pub(super) calling_ns: u64,
    pub(super) machine: Option<Machine>,
}

impl Used {
    /// Of a run in this process, asked for by the client's poller: what is not its own is of whoever answers.
    pub(super) fn here<'a>(tallies: impl Iterator<Item = &'a Arc<Tally>>) -> Self {
        let counts = tallies.fold(Counts::default(), |sum, tally| sum.beside(tally.counts()));
        let (process, own) = (threads_ns(), own_ns());
        Self { counts, serving_ns: process.saturating_sub(own), calling_ns: own, machine: Machine::now() }
    }

    /// What a process of a run says of itself.
    pub(super) fn said(counts: Counts) -> Value {
        json!({
            "messages": counts.messages,
            "signs": counts.signs,
            "checks": counts.checks,
            "slots": counts.slots,
            "signed_slots": counts.signed_slots,
            "views": counts.views,
            "serving_ns": threads_ns(),
        })
    }

    /// Of a run of several processes, asked for by the client's poller.
    pub(super) fn of(client: Counts, parts: impl Iterator<Item = Value>) -> Self {
        let calling_ns = own_ns();
        let start = Self { counts: client, serving_ns: 0, calling_ns, machine: Machine::now() };
        parts.fold(start, |sum, said| {
            let counts = Counts::read(&said).unwrap_or_default();
            let serving_ns = sum.serving_ns + said["serving_ns"].as_u64().unwrap_or(0);
            Self { counts: sum.counts.beside(counts), serving_ns, ..sum }
        })
    }

    /// What was used since.
    pub(super) fn since(&self, earlier: &Self) -> Spent {
        let steal = self.machine.zip(earlier.machine).and_then(|(later, earlier)| later.steal(earlier));
        Spent {
            counts: self.counts.since(earlier.counts),
            serving_ns: self.serving_ns.saturating_sub(earlier.serving_ns),
            calling_ns: self.calling_ns.saturating_sub(earlier.calling_ns),
            steal_per_million: steal,
        }
    }
}

/// What was used between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spent {
    pub(super) counts: Counts,
    pub(super) serving_ns: u64,
    pub(super) calling_ns: u64,
    /// Of a million parts of the processors' time, those that went to other machines; none where the system does not say.
    pub(super) steal_per_million: Option<u64>,
}

/// Ticks of all processors since the machine was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Machine {
    total: u64,
    stolen: u64,
}

impl Machine {
    fn now() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    /// The first line: user, nice, system, idle, iowait, irq, softirq, steal. What guests use is in the first two already.
    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Result<Vec<u64>, _> = line.split_whitespace().take(8).map(str::parse).collect();
        let ticks = ticks.ok()?;
        Some(Self { total: ticks.iter().sum(), stolen: *ticks.get(7)? })
    }

    fn steal(self, earlier: Self) -> Option<u64> {
        let total = self.total.saturating_sub(earlier.total);
        self.stolen.saturating_sub(earlier.stolen).saturating_mul(1_000_000).checked_div(total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(name: &'static str) -> Rule {
        Rule { protocol: "ubft", name }
    }

    #[test]
    fn a_station_counts_receivers_signatures_and_slots_and_nothing_else() {
        let tally = Tally::default();
        for peers in [2, 1, 0] {
            tally.sent(0, peers);
        }
        tally.asked(0, &Cost { sign: 1, ..Cost::default() });
        tally.asked(0, &Cost { verify: 2, batch_verify: 3, hashed: 9, ..Cost::default() });
        for name in ["A2.44_execute", "A2.41_decide_slow", "A2.31_decide_fast", "A2.44_execute", "A3.06_seal"]
        {
            tally.applied(0, rule(name));
        }
        let counts = Counts { messages: 3, signs: 1, checks: 5, slots: 2, signed_slots: 1, views: 1 };
        assert_eq!(tally.counts(), counts);
        let both = counts.beside(counts);
        assert_eq!(both, Counts { messages: 6, signs: 2, checks: 10, ..counts });
        assert_eq!(both.since(counts), Counts { messages: 3, signs: 1, checks: 5, ..Counts::default() });
        assert_eq!(Counts::read(&Used::said(counts)), Some(counts));
    }

    #[test]
    fn stolen_time_is_the_eighth_number_as_a_share_of_all_but_guests() {
        let at = |line: &str| Machine::parse(line);
        let earlier = at("cpu  10 0 10 70 0 0 0 10 99 99\ncpu0 1 1\n").expect("a line");
        let later = at("cpu  20 0 20 140 0 0 0 20 99 99\n").expect("a line");
        assert_eq!((earlier.total, earlier.stolen, later.steal(earlier)), (100, 10, Some(100_000)));
        assert_eq!(later.steal(later), None, "no time went by");
        for wrong in ["", "cpu 1 2 3", "cpu0 1 2 3 4 5 6 7 8", "cpu  1 2 3 4 5 6 7 x"] {
            assert_eq!(at(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn processes_are_summed_and_the_client_is_counted_apart() {
        let counts = Counts { messages: 10, signs: 1, checks: 2, slots: 3, ..Counts::default() };
        let part = |ns: u64| {
            let mut said = Used::said(counts);
            said["serving_ns"] = json!(ns);
            said
        };
        let client = Counts { messages: 3, ..Counts::default() };
        let used = Used::of(client, [part(100), part(50)].into_iter());
        assert_eq!((used.serving_ns, used.counts.messages, used.counts.slots), (150, 23, 3));
        let later = Used { serving_ns: 250, calling_ns: used.calling_ns + 7, ..used };
        let spent = later.since(&used);
        assert_eq!((spent.serving_ns, spent.calling_ns, spent.counts), (100, 7, Counts::default()));
    }
}
