//! What an observation rests on.
//!
//! A call rests on the call that caused it (the send of a frame, the arming of a timer, the order of a job, the write that
//! became durable) and on everything its machine had seen before. Of that past, calls that only pass time are left out:
//! timers, links and inputs that wrote nothing, told nobody and caused nothing that is kept. What is left is closed under
//! causes.

use std::collections::{BTreeMap, BTreeSet};

use synod_quorum::NodeId;

use super::step::{EffectKind, Step, StepKind};

/// One thing that reached a node from outside, and all that followed inside the node.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    /// The calls, oldest first; never empty.
    pub parts: Vec<&'a Step>,
}

impl<'a> Row<'a> {
    /// A row of one call.
    #[must_use]
    pub fn alone(step: &'a Step) -> Self {
        Self { parts: vec![step] }
    }

    /// The call that began it.
    #[must_use]
    pub fn head(&self) -> &'a Step {
        match self.parts.first() {
            Some(step) => step,
            None => unreachable!("a row has at least one call"),
        }
    }

    /// Whether it holds this event.
    #[must_use]
    pub fn holds(&self, event: u64) -> bool {
        self.parts.iter().any(|step| step.event == event)
    }

    /// Whether it is a frame that its machine heard before from the same peer, and nothing came of it now.
    fn is_repeat(&self, heard: &mut BTreeSet<Heard<'a>>) -> bool {
        let head = self.head();
        if head.kind != StepKind::Frame {
            return false;
        }
        let where_to = (head.node, head.twin, head.incarnation, head.machine);
        let mut effects = self.parts.iter().flat_map(|step| &step.effects);
        let idle = effects.all(|effect| matches!(effect.kind, EffectKind::Rule | EffectKind::Note));
        !heard.insert((where_to, head.from, head.what.text.as_str())) && idle
    }

    /// Whether it is kept for itself: a frame, or something that others can come to know.
    fn matters(&self) -> bool {
        let lasting = |kind| {
            matches!(
                kind,
                EffectKind::Persist
                    | EffectKind::Output
                    | EffectKind::Blame
                    | EffectKind::Store
                    | EffectKind::Erase
                    | EffectKind::Register
            )
        };
        let acts = self.parts.iter().any(|step| step.effects.iter().any(|effect| lasting(effect.kind)));
        self.head().kind == StepKind::Frame || acts || self.parts.iter().any(|step| step.crashed)
    }
}

/// Which machine of which life heard what from whom.
type Heard<'a> = ((NodeId, u8, u32, u8), Option<NodeId>, &'a str);

/// Events with everything they rest on.
#[derive(Clone, Debug)]
pub struct Past<'a> {
    rows: Vec<Row<'a>>,
}

impl<'a> Past<'a> {
    /// Everything that was kept.
    #[must_use]
    pub fn whole(steps: impl Iterator<Item = &'a Step>) -> Self {
        let index: BTreeMap<u64, &Step> = steps.map(|step| (step.event, step)).collect();
        Self { rows: gathered(&index) }
    }

    /// What came of a run in which something did not happen: all but what only passed time and frames that a machine had
    /// heard before and that changed nothing.
    #[must_use]
    pub fn stalled(steps: impl Iterator<Item = &'a Step>) -> Self {
        let index: BTreeMap<u64, &Step> = steps.map(|step| (step.event, step)).collect();
        let mut heard = BTreeSet::new();
        let rows = gathered(&index).into_iter().filter(|row| !row.is_repeat(&mut heard)).collect();
        Self { rows: needed(rows, &[]) }
    }

    /// What the events `roots` rest on.
    #[must_use]
    pub fn of(steps: impl Iterator<Item = &'a Step>, roots: &[u64]) -> Self {
        let all: BTreeMap<u64, &Step> = steps.map(|step| (step.event, step)).collect();
        let mut before: BTreeMap<u64, u64> = BTreeMap::new();
        let mut last: BTreeMap<(NodeId, u8, u8), u64> = BTreeMap::new();
        for (event, step) in &all {
            if let Some(previous) = last.insert((step.node, step.twin, step.machine), *event) {
                before.insert(*event, previous);
            }
        }
        let mut found: BTreeMap<u64, &Step> = BTreeMap::new();
        let mut work: Vec<u64> = roots.to_vec();
        while let Some(event) = work.pop() {
            let Some(step) = all.get(&event) else { continue };
            if found.insert(event, step).is_none() {
                work.push(step.cause);
                work.extend(before.get(&event));
            }
        }
        Self { rows: needed(gathered(&found), roots) }
    }

    /// Its rows, in the order in which they began.
    #[must_use]
    pub fn rows(&self) -> &[Row<'a>] {
        &self.rows
    }

    /// Its events.
    #[must_use]
    pub fn events(&self) -> BTreeSet<u64> {
        self.rows.iter().flat_map(|row| row.parts.iter().map(|step| step.event)).collect()
    }

    /// The names of the frames that were heard in it.
    #[must_use]
    pub fn frames(&self) -> BTreeSet<u32> {
        self.rows.iter().flat_map(|row| row.parts.iter().filter_map(|step| step.frame)).collect()
    }
}

/// Whether a call goes on with what an earlier one of its node began.
fn goes_on(step: &Step, cause: &Step) -> bool {
    let inside =
        !matches!(step.kind, StepKind::Frame | StepKind::Timer | StepKind::Link | StepKind::Strategy);
    inside && step.place() == cause.place() && step.incarnation == cause.incarnation
}

/// Puts calls into rows.
fn gathered<'a>(steps: &BTreeMap<u64, &'a Step>) -> Vec<Row<'a>> {
    let mut heads: BTreeMap<u64, u64> = BTreeMap::new();
    let mut rows: BTreeMap<u64, Row<'a>> = BTreeMap::new();
    for (event, step) in steps {
        let begun = steps.get(&step.cause).filter(|cause| cause.event < *event && goes_on(step, cause));
        let head = begun.and_then(|cause| heads.get(&cause.event)).copied().unwrap_or(*event);
        heads.insert(*event, head);
        rows.entry(head).or_insert_with(|| Row { parts: Vec::new() }).parts.push(step);
    }
    rows.into_values().collect()
}

/// Drops rows that only pass time.
fn needed<'a>(rows: Vec<Row<'a>>, roots: &[u64]) -> Vec<Row<'a>> {
    let of: BTreeMap<u64, usize> = rows
        .iter()
        .enumerate()
        .flat_map(|(at, row)| row.parts.iter().map(move |step| (step.event, at)))
        .collect();
    let mut work: Vec<usize> = rows
        .iter()
        .enumerate()
        .filter(|(_, row)| row.matters() || roots.iter().any(|root| row.holds(*root)))
        .map(|(at, _)| at)
        .collect();
    let mut kept: BTreeSet<usize> = BTreeSet::new();
    while let Some(at) = work.pop() {
        if kept.insert(at) {
            work.extend(rows[at].parts.iter().filter_map(|step| of.get(&step.cause)));
        }
    }
    rows.into_iter().enumerate().filter(|(at, _)| kept.contains(at)).map(|(_, row)| row).collect()
}

#[cfg(test)]
#[path = "past_tests.rs"]
mod tests;
