//! The kept events of a run: the last 200 always, all of them on request.

use std::collections::{BTreeMap, VecDeque};

use synod_quorum::NodeId;

use super::line::Line;
use super::step::{Aside, Step};
use super::words::{Plain, Words};
use crate::deed::Deed;

/// Events the ring holds.
pub const LAST: usize = 200;
/// Most steps of a full trace; the oldest go.
pub const STEPS_MAX: usize = 400_000;
/// Most asides of a full trace; the oldest go.
const ASIDES_MAX: usize = 65_536;

/// Every event of a run, in words.
#[derive(Default)]
struct All {
    steps: VecDeque<Step>,
    asides: VecDeque<Aside>,
    dropped: u64,
}

/// The kept events of a run.
pub struct Trace {
    words: Box<dyn Words>,
    ring: VecDeque<Line>,
    all: Option<All>,
    durable: BTreeMap<(NodeId, u8, u8), u64>,
}

impl Trace {
    /// A trace; `full` keeps every event.
    #[must_use]
    pub fn new(full: bool) -> Self {
        Self {
            words: Box::new(Plain),
            ring: VecDeque::new(),
            all: full.then(All::default),
            durable: BTreeMap::new(),
        }
    }

    /// As it is, in the words of a system.
    #[must_use]
    pub fn in_words(self, words: Box<dyn Words>) -> Self {
        Self { words, ..self }
    }

    /// Whether every event is kept.
    pub(crate) const fn is_full(&self) -> bool {
        self.all.is_some()
    }

    /// The words of the system.
    pub(crate) fn words(&self) -> &dyn Words {
        &*self.words
    }

    /// Notes how far a machine's lane is durable; gives what is known of it.
    pub(crate) fn durable(&mut self, of: (NodeId, u8, u8), moved: Option<u64>) -> u64 {
        let known = self.durable.entry(of).or_insert(0);
        *known = moved.unwrap_or(*known);
        *known
    }

    /// Keeps an event of a full trace.
    pub(crate) fn keep(&mut self, step: Step) {
        let Some(all) = &mut self.all else { return };
        if all.steps.len() == STEPS_MAX {
            all.steps.pop_front();
            all.dropped += 1;
        }
        all.steps.push_back(step);
    }

    /// Keeps what happened beside the events.
    pub(crate) fn aside(&mut self, aside: impl FnOnce() -> Aside) {
        let Some(all) = &mut self.all else { return };
        if all.asides.len() == ASIDES_MAX {
            all.asides.pop_front();
        }
        all.asides.push_back(aside());
    }

    /// Keeps an event in the ring; gives back an empty vector to write the next effects into.
    pub(crate) fn push(&mut self, line: Line) -> Vec<Deed> {
        self.ring.push_back(line);
        if self.ring.len() <= LAST {
            return Vec::new();
        }
        let mut deeds = self.ring.pop_front().map_or_else(Vec::new, |line| line.deeds);
        deeds.clear();
        deeds
    }

    /// The last events, oldest first.
    pub fn last(&self) -> impl Iterator<Item = &Line> {
        self.ring.iter()
    }

    /// Every event that is kept, oldest first; none unless the options asked for them.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.all.iter().flat_map(|all| &all.steps)
    }

    /// What happened beside the events of a full trace, oldest first.
    pub fn asides(&self) -> impl Iterator<Item = &Aside> {
        self.all.iter().flat_map(|all| &all.asides)
    }

    /// Events of a full trace that gave way to later ones.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.all.as_ref().map_or(0, |all| all.dropped)
    }

    /// The last events as text: one line per event, one column per node.
    #[must_use]
    pub fn columns(&self) -> String {
        let steps: Vec<Step> = self.ring.iter().map(|line| line.step(&*self.words, 0)).collect();
        let rows: Vec<super::Row<'_>> = steps.iter().map(super::Row::alone).collect();
        super::columns(&rows, &[], &[], &|id| self.words.node(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deed::Seen;

    fn line(event: u64, node: u32) -> Line {
        Line {
            event,
            cause: 0,
            time: event * 1_000,
            node: NodeId(node),
            twin: 0,
            incarnation: 1,
            honest: true,
            machine: 0,
            seen: Seen::Timers(vec!["A\"B".into()]),
            deeds: vec![Deed::Compact],
            crashed: event == 7,
        }
    }

    #[test]
    fn the_ring_holds_the_last_two_hundred() {
        let mut trace = Trace::new(false);
        (1..=1_000).for_each(|event| drop(trace.push(line(event, 0))));
        let kept: Vec<u64> = trace.last().map(|line| line.event).collect();
        assert_eq!(kept, (801..=1_000).collect::<Vec<_>>());
        assert_eq!((trace.steps().count(), trace.dropped()), (0, 0), "nobody asked for all");
    }

    #[test]
    fn a_full_trace_lets_the_oldest_go_and_says_how_many() {
        let mut trace = Trace::new(true);
        let step = line(1, 0).step(&Plain, 0);
        (0..STEPS_MAX as u64 + 3).for_each(|event| trace.keep(Step { event, ..step.clone() }));
        assert_eq!((trace.dropped(), trace.steps().next().map(|step| step.event)), (3, Some(3)));
    }

    #[test]
    fn what_is_durable_is_remembered_per_lane() {
        let mut trace = Trace::new(true);
        let (a, b) = ((NodeId(1), 0, 0), (NodeId(1), 0, 1));
        assert_eq!((trace.durable(a, Some(7)), trace.durable(b, None), trace.durable(a, None)), (7, 0, 7));
    }

    #[test]
    fn the_last_events_have_one_column_per_node() {
        let mut trace = Trace::new(false);
        trace.push(line(1, 0));
        trace.push(line(7, 5));
        let text = trace.columns();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("n0") && lines[0].contains("n5"), "{text}");
        assert!(lines[2].contains("CRASH") && !lines[1].contains("CRASH"), "{text}");
    }
}
