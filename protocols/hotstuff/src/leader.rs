//! Who leads: terms, plain slots, and the reputation list that benches leaders whose terms are given up.
//!
//! The leader of a view follows from the evidence in its block alone (specification 4.1), so replicas with different
//! committed prefixes cannot disagree.

use synod_quorum::{NodeId, NodeSet, Weights};
use synod_wire::List;

use crate::block::Standing;
use crate::view::Terms;
use crate::{Header, View};

/// A member given up twice is benched.
const STRIKES_MAX: u8 = 2;
/// A bench grows to n x 2^6 terms at most.
const BENCH_EXPONENT_MAX: u8 = 6;

/// The order in which members lead, and the rules of the bench.
#[derive(Clone, Debug)]
pub struct Leaders {
    slots: Vec<NodeId>,
    weights: Weights,
    terms: Terms,
    reputation: bool,
}

impl Leaders {
    /// The order in which members of these weights lead: one period of smooth weighted round robin.
    #[must_use]
    pub fn new(weights: &Weights, terms: Terms, reputation: bool) -> Self {
        Self { slots: slots(weights), weights: weights.clone(), terms, reputation }
    }

    fn slot(&self, at: u64) -> NodeId {
        let period = self.slots.len() as u64;
        let index = usize::try_from(at % period).unwrap_or(0);
        self.slots.get(index).copied().unwrap_or_default()
    }

    /// The member whose turn `term` is, benched or not.
    pub(crate) fn plain(&self, term: u64) -> NodeId {
        self.slot(term)
    }

    /// The leader of `view` when the certificate of the view before, of `parent`, is the evidence.
    pub(crate) fn after(&self, parent: &Header, view: View) -> NodeId {
        let term = self.terms.of(view);
        if !self.reputation || parent.view == View::GENESIS {
            return self.plain(term);
        }
        if !self.terms.is_first(view) {
            return parent.proposer();
        }
        let benched =
            |id: &NodeId| parent.list.iter().any(|s| NodeId::from(s.member) == *id && s.until > term);
        let period = self.slots.len() as u64;
        (0..period)
            .map(|step| self.slot(term + step))
            .find(|id| !benched(id))
            .unwrap_or_else(|| self.plain(term))
    }

    /// The leader of a block's view by the evidence in the block; `parent` is the block its justify certifies.
    pub(crate) fn of(&self, header: &Header, parent: &Header) -> NodeId {
        match &header.tc {
            Some(_) => self.plain(self.terms.of(header.view)),
            None => self.after(parent, header.view),
        }
    }

    /// The leader of `view` when a TC is the evidence.
    #[must_use]
    pub fn after_tc(&self, view: View) -> NodeId {
        self.plain(self.terms.of(view))
    }

    /// The reputation list of a block in `view` on `parent`; `by_tc` when terms were given up between them.
    #[must_use]
    pub fn list(&self, parent: &Header, view: View, by_tc: bool) -> List<Standing, 128> {
        if !self.reputation {
            return List::default();
        }
        let mut list: Vec<Standing> = parent.list.to_vec();
        if parent.view != View::GENESIS {
            list.retain(|s| s.member != parent.proposer);
        }
        if by_tc {
            for leader in self.given_up(parent, view) {
                self.strike(&mut list, leader, self.terms.of(view));
            }
        }
        self.unbench(&mut list, self.terms.of(view));
        List::try_from(list).unwrap_or_default()
    }

    /// The leaders of the terms given up between `parent` and `view`: the last n of them, the first by the table.
    fn given_up(&self, parent: &Header, view: View) -> Vec<NodeId> {
        let first = parent.view.next();
        let (from, to) = (self.terms.of(first), self.terms.of(view));
        let n = u64::from(self.weights.size());
        let start = from.max(to.saturating_sub(n));
        (start..to)
            .map(|term| if term == from { self.after(parent, first) } else { self.plain(term) })
            .collect()
    }

    fn strike(&self, list: &mut Vec<Standing>, leader: NodeId, term: u64) {
        let Some(member) = leader.member() else { return };
        let at = match list.binary_search_by_key(&member, |s| s.member) {
            Ok(at) => at,
            Err(at) => {
                list.insert(at, Standing { member, strikes: 0, benchings: 0, until: 0 });
                at
            }
        };
        let Some(standing) = list.get_mut(at) else { return };
        standing.strikes += 1;
        if standing.strikes >= STRIKES_MAX {
            let factor = 1_u64 << standing.benchings.min(BENCH_EXPONENT_MAX);
            standing.until = term + u64::from(self.weights.size()) * factor;
            standing.strikes = 0;
            standing.benchings = standing.benchings.saturating_add(1);
        }
    }

    /// At most the faulty power is benched; beyond it the earliest end leaves.
    fn unbench(&self, list: &mut [Standing], term: u64) {
        loop {
            let benched: NodeSet =
                list.iter().filter(|s| s.until > term).map(|s| NodeId::from(s.member)).collect();
            if self.weights.sum(benched) <= self.weights.faulty() {
                return;
            }
            let earliest = list.iter_mut().filter(|s| s.until > term).min_by_key(|s| (s.until, s.member));
            match earliest {
                Some(standing) => standing.until = term,
                None => return,
            }
        }
    }
}

/// One period of smooth weighted round robin over max(1, floor(1024 p / P)), divided by their gcd; ties go to the
/// lower member.
fn slots(weights: &Weights) -> Vec<NodeId> {
    let share = |id: u32| {
        let part = u128::from(weights.power(NodeId(id))) * 1_024 / u128::from(weights.total().max(1));
        i64::try_from(part).unwrap_or(1).max(1)
    };
    let shares: Vec<i64> = (0..weights.size()).map(share).collect();
    let divisor = shares.iter().copied().fold(0, gcd).max(1);
    let shares: Vec<i64> = shares.into_iter().map(|s| s / divisor).collect();
    let period: i64 = shares.iter().sum();
    let mut credit: Vec<i64> = shares.iter().map(|_| 0).collect();
    let mut slots = Vec::new();
    for _ in 0..period {
        credit.iter_mut().zip(&shares).for_each(|(have, gain)| *have += gain);
        let best = (0_u32..).zip(&credit).max_by_key(|(id, have)| (**have, core::cmp::Reverse(*id)));
        let id = best.map_or(0, |(id, _)| id);
        if let Some(have) = usize::try_from(id).ok().and_then(|at| credit.get_mut(at)) {
            *have -= period;
        }
        slots.push(NodeId(id));
    }
    slots
}

const fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::{Leaders, slots};
    use crate::block::Standing;
    use crate::view::Terms;
    use crate::{Header, Kind, View};
    use synod_quorum::{Epoch, NodeId, Weights};
    use synod_wire::List;

    fn parent(view: u64, proposer: u8, list: Vec<Standing>) -> Header {
        let genesis = Header::genesis(Epoch(0), Kind::Generic);
        let list = List::try_from(list).expect("short");
        Header { view: View(view), height: view, proposer, list, ..genesis }
    }

    fn leaders(n: u32, k: u64) -> Leaders {
        Leaders::new(&Weights::equal(n), Terms::new(k), true)
    }

    #[test]
    fn members_of_equal_power_lead_in_turn() {
        assert_eq!(slots(&Weights::equal(4)), [0, 1, 2, 3].map(NodeId));
        let plain = leaders(4, 1);
        assert_eq!((0..6).map(|t| plain.plain(t).0).collect::<Vec<_>>(), [0, 1, 2, 3, 0, 1]);
    }

    #[test]
    fn a_member_of_double_power_leads_twice_as_often_and_spread() {
        let weights = Weights::new(vec![1, 2, 1]).expect("powers above 0");
        let turns = slots(&weights);
        assert_eq!(turns.iter().filter(|id| id.0 == 1).count() * 2, turns.len());
        assert!(turns.windows(2).all(|pair| pair != [NodeId(0), NodeId(0)]));
    }

    #[test]
    fn inside_a_term_the_proposer_of_the_parent_leads_on() {
        let leaders = leaders(4, 4);
        assert_eq!(leaders.after(&parent(5, 3, vec![]), View(6)), NodeId(3));
        assert_eq!(leaders.after(&parent(0, 0, vec![]), View(1)), NodeId(0));
    }

    #[test]
    fn a_benched_member_is_passed_over_at_the_start_of_a_term_until_its_bench_ends() {
        let leaders = leaders(4, 4);
        let bench = |until| vec![Standing { member: 2, strikes: 0, benchings: 1, until }];
        assert_eq!(leaders.after(&parent(7, 1, bench(9)), View(8)), NodeId(3));
        assert_eq!(leaders.after(&parent(7, 1, bench(2)), View(8)), NodeId(2));
        assert_eq!(leaders.after_tc(View(8)), NodeId(2));
    }

    #[test]
    fn two_terms_given_up_bench_a_leader_and_a_block_of_its_own_clears_it() {
        let leaders = leaders(4, 4);
        let once = leaders.list(&parent(9, 0, vec![]), View(12), true);
        assert_eq!(once.iter().map(|s| (s.member, s.strikes)).collect::<Vec<_>>(), [(0, 1)]);
        let twice = leaders.list(&parent(13, 1, vec![once[0]]), View(20), true);
        let of = |m: u8| twice.iter().find(|s| s.member == m).copied();
        assert_eq!(of(0).map(|s| (s.strikes, s.benchings, s.until)), Some((0, 1, 5 + 4)));
        assert!(leaders.list(&parent(21, 0, vec![twice[0]]), View(22), false).is_empty());
    }

    #[test]
    fn no_more_than_the_faulty_power_is_benched() {
        let leaders = leaders(4, 1);
        let bench = |member, until| Standing { member, strikes: 0, benchings: 1, until };
        let list = leaders.list(&parent(4, 3, vec![bench(0, 20), bench(1, 30)]), View(5), false);
        assert_eq!(list.iter().filter(|s| s.until > 5).map(|s| s.member).collect::<Vec<_>>(), [1]);
    }
}
