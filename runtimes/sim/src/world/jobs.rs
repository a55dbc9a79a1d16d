//! Jobs: real work, virtual cost.
//!
//! A worker takes up to 256 jobs of one machine as one batch, fairly over the peers whose data they check, runs them
//! with the node's keys, and answers once their price has passed. `job.delay` spreads the answers; a crash loses
//! them.

use std::collections::{BTreeMap, VecDeque};

use synod_machine::host::{ErasedDone, ErasedJob};
use synod_quorum::NodeId;

use super::node::Waiting;
use super::run::World;
use crate::happening::{Happening, Work};

/// Most jobs of one batch.
const BATCH_MAX: usize = 256;

impl World {
    /// Gives waiting jobs to free workers.
    pub(super) fn work(&mut self, place: u32, slot: u8) {
        let node = &mut self.nodes[place as usize];
        if node.slots[usize::from(slot)].jobs.is_empty() || node.working >= self.options.pool.max(1) {
            return;
        }
        let state = &mut node.slots[usize::from(slot)];
        let Some(runner) = state.hosted.as_ref().map(|hosted| hosted.runner()) else { return };
        let batch = take_fairly(&mut state.jobs);
        let cost = batch.iter().fold(0, |sum, waiting| sum + self.options.prices.of(&waiting.cost).0);
        let causes: Vec<u64> = batch.iter().map(|waiting| waiting.event).collect();
        let jobs =
            batch.into_iter().map(|Waiting { peer, cost, job, .. }| ErasedJob { job, peer, cost }).collect();
        let keys = &node.keys;
        let dones = match crate::panics::catch(|| runner(jobs, keys)) {
            Ok(dones) => dones,
            Err(text) => return self.panicked(place, &text),
        };
        assert_eq!(dones.len(), causes.len(), "every job is answered");
        let dones = causes.into_iter().zip(dones).collect();
        let start = if self.options.pool == 0 { node.busy_until.max(self.now) } else { self.now };
        if self.options.pool == 0 {
            node.charge(self.now, cost);
        }
        node.working += 1;
        let took = cost.saturating_mul(node.slow_percent) / 100;
        let (tie, life) = (node.ties.tie(), node.incarnation);
        self.plan.push(start + took, tie, 0, Happening::Jobs { place, life, slot, dones });
    }

    /// A batch is answered; the worker takes the next one.
    pub(super) fn answered(&mut self, place: u32, life: u32, slot: u8, dones: Vec<(u64, ErasedDone)>) {
        if !self.living(place, life) {
            return;
        }
        let node = &mut self.nodes[place as usize];
        node.working = node.working.saturating_sub(1);
        for (cause, done) in dones {
            let work = Work::Done(done);
            if node.job_delay > 0 {
                let at = self.now + node.lots.exponential(node.job_delay);
                let tie = node.ties.tie();
                self.plan.push(at, tie, cause, Happening::Work { place, life, slot, work });
            } else {
                node.backlog.push_back((cause, slot, work));
            }
        }
        // The machine that was served last waits longest for the next batch.
        let slots = self.slots(place);
        for next in slots.clone().map(|at| (at + slot + 1) % slots.end) {
            if self.living(place, life) {
                self.work(place, next);
            }
        }
        self.pump(place);
    }
}

/// Takes a batch: everything, or one job per peer in turn until it is full.
fn take_fairly(jobs: &mut VecDeque<Waiting>) -> Vec<Waiting> {
    if jobs.len() <= BATCH_MAX {
        return jobs.drain(..).collect();
    }
    let mut by_peer: BTreeMap<Option<NodeId>, VecDeque<usize>> = BTreeMap::new();
    for (at, waiting) in jobs.iter().enumerate() {
        by_peer.entry(waiting.peer).or_default().push_back(at);
    }
    let mut chosen = std::collections::BTreeSet::new();
    while chosen.len() < BATCH_MAX {
        for queue in by_peer.values_mut() {
            if chosen.len() < BATCH_MAX {
                chosen.extend(queue.pop_front());
            }
        }
    }
    let mut at = 0;
    let (batch, rest): (Vec<Waiting>, Vec<Waiting>) = jobs.drain(..).partition(|_| {
        at += 1;
        chosen.contains(&(at - 1))
    });
    jobs.extend(rest);
    batch
}

#[cfg(test)]
mod tests {
    use synod_machine::Cost;

    use super::*;

    #[test]
    fn a_flooding_peer_gets_its_share_of_a_batch_and_no_more() {
        let waiting = |peer: u32| Waiting {
            peer: Some(NodeId(peer)),
            cost: Cost::default(),
            event: 0,
            job: Box::new(()),
        };
        let mut jobs: VecDeque<Waiting> = (0..1_000).map(|_| waiting(0)).collect();
        jobs.extend((0..100).map(|_| waiting(1)));
        jobs.extend((0..20).map(|_| waiting(2)));
        let batch = take_fairly(&mut jobs);
        let of = |peer| batch.iter().filter(|w| w.peer == Some(NodeId(peer))).count();
        assert_eq!((of(0), of(1), of(2), jobs.len()), (136, 100, 20, 864));
    }
}
