//! How long this node waits for what witnesses of one lane say, before it checks owners' signatures by itself.
//!
//! A witness that has a queue says late what it says, and whoever checks meanwhile makes the queues longer. So it is waited for twice as
//! long as its last word took. Who owes a word is waited for as long as usual and no longer: silence earns nothing. So nobody who is
//! silent delays others for longer than before, and who lies by speaking late does by [`LONGEST`] times as much at most.

use std::collections::BTreeMap;

use synod_machine::{Span, Time};
use synod_quorum::NodeSet;

/// How much longer than usual somebody is waited for at most.
const LONGEST: u64 = 8;

/// See the module. Bounds: two entries per member.
#[derive(Clone, Debug, Default)]
pub(super) struct Patience {
    /// Twice what the last word took.
    earned: BTreeMap<u8, Span>,
    /// Words that nobody waits for any more: of which batch, and since when they were waited for.
    owed: BTreeMap<u8, (u64, Time)>,
}

impl Patience {
    /// How long to wait where so many of these witnesses have to speak, and the usual is `usual`.
    pub(super) fn span(&self, witnesses: NodeSet, wanted: u32, usual: Span) -> Span {
        let of = |member: u8| match self.owed.contains_key(&member) {
            true => usual,
            false => self.earned.get(&member).copied().unwrap_or(usual).clamp(usual, usual.times(LONGEST)),
        };
        let mut all: Vec<Span> = witnesses.iter().filter_map(|id| id.member()).map(of).collect();
        all.sort_unstable();
        let last = wanted.checked_sub(1).and_then(|last| usize::try_from(last).ok());
        last.and_then(|last| all.get(last)).copied().unwrap_or(usual)
    }

    /// Nobody waits any more for these members' words on a batch.
    pub(super) fn give_up(&mut self, silent: NodeSet, (sequence, since): (u64, Time)) {
        for member in silent.iter().filter_map(|id| id.member()) {
            self.owed.entry(member).or_insert((sequence, since));
        }
    }

    /// A member speaks of a batch, of which its word was waited for since then if it is.
    pub(super) fn hear(&mut self, member: u8, sequence: u64, awaited: Option<Time>, now: Time) {
        let owed = self.owed.get(&member).copied().filter(|(owed, _)| *owed <= sequence);
        if owed.is_some() {
            // What is behind it on the same link was not said, or lost.
            self.owed.remove(&member);
        }
        let owed = owed.filter(|(owed, _)| *owed == sequence).map(|(_, since)| since);
        if let Some(since) = awaited.or(owed) {
            self.earned.insert(member, now.since(since).times(2));
        }
    }

    pub(super) const fn bytes_max(members: u64) -> u64 {
        members * 2 * (size_of::<(u8, Span)>() + size_of::<(u8, (u64, Time))>()) as u64
    }

    pub(super) fn bytes(&self) -> u64 {
        let earned = self.earned.len() * 2 * size_of::<(u8, Span)>();
        (earned + self.owed.len() * 2 * size_of::<(u8, (u64, Time))>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, Patience};
    use synod_machine::{Span, Time};
    use synod_quorum::{NodeId, NodeSet};

    const USUAL: Span = Span::millis(500);

    fn at(ms: u64) -> Time {
        Time(ms * 1_000_000)
    }

    fn only(member: u32) -> NodeSet {
        NodeSet::only(NodeId(member))
    }

    #[test]
    fn who_speaks_late_is_waited_for_twice_as_long_and_who_is_silent_as_long_as_usual() {
        let mut patience = Patience::default();
        assert_eq!(patience.span(only(1), 1, USUAL), USUAL);
        patience.give_up(only(1), (4, at(1_000)));
        patience.hear(1, 3, None, at(1_100));
        assert_eq!(patience.span(only(1), 1, USUAL), USUAL, "that is an older one");
        patience.hear(1, 4, None, at(1_700));
        assert_eq!(patience.span(only(1), 1, USUAL), Span::millis(1_400));
        assert_eq!(patience.span(only(2), 1, USUAL), USUAL, "of another nothing is known");
        patience.give_up(only(1), (7, at(2_000)));
        assert_eq!(patience.span(only(1), 1, USUAL), USUAL, "it owes a word");
        patience.give_up(only(1), (10, at(4_000)));
        patience.hear(1, 10, None, at(4_400));
        assert_eq!(patience.span(only(1), 1, USUAL), Span::millis(1_400), "it never said the first");
        patience.give_up(only(1), (13, at(5_000)));
        patience.hear(1, 13, None, at(99_000));
        assert_eq!(patience.span(only(1), 1, USUAL), USUAL.times(LONGEST));
        // In time, and sooner than before.
        patience.hear(1, 16, Some(at(100_000)), at(100_300));
        assert_eq!(patience.span(only(1), 1, USUAL), Span::millis(600));
        patience.hear(1, 19, Some(at(100_000)), at(100_001));
        assert_eq!(patience.span(only(1), 1, USUAL), USUAL);
    }

    #[test]
    fn it_is_waited_for_as_many_as_have_to_speak() {
        let mut patience = Patience::default();
        patience.hear(1, 1, Some(at(0)), at(1_000));
        let two = only(1).iter().chain([NodeId(2)]).collect::<NodeSet>();
        let spans = [0, 1, 2, 3].map(|wanted| patience.span(two, wanted, USUAL));
        assert_eq!(spans, [USUAL, USUAL, Span::secs(2), USUAL]);
        assert!(patience.bytes() <= Patience::bytes_max(2));
    }
}
