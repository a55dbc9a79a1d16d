//! Who is charged for what is pending: this node, and each member that forwards; in each account, each session.

use std::collections::BTreeSet;

use super::{Pool, QUANTUM, Source};
use crate::block::Item;

/// Whose account: accepted here or made here, or forwarded by a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    /// This node.
    Here,
    /// The member of this number.
    Member(u32),
}

/// A session in one account: of the client's frame that an item is, or none for what is no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Group {
    pub(super) origin: Origin,
    session: Option<u64>,
}

impl Group {
    pub(super) fn of(item: &Item, source: Source) -> Self {
        let origin = match source {
            Source::Local(_) | Source::Own => Origin::Here,
            Source::Member(id) => Origin::Member(id.0),
        };
        Self { origin, session: synod_service::session_of(item.payload.bytes()) }
    }
}

/// What one session has pending in one account.
#[derive(Clone, Debug, Default)]
pub(super) struct Session {
    pub(super) eligible: BTreeSet<u64>,
    pub(super) deficit: u64,
    items: u64,
    bytes: u64,
}

/// What is charged to one origin.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    ages: BTreeSet<u64>,
    bytes: u64,
    sessions: u64,
}

impl Account {
    /// The items charged to it, oldest first.
    pub(super) fn ages(&self) -> impl Iterator<Item = &u64> {
        self.ages.iter()
    }
}

impl Pool {
    pub(super) fn charge(&mut self, group: Group, age: u64, cost: u64, eligible: bool) {
        let account = self.accounts.entry(group.origin).or_default();
        account.ages.insert(age);
        account.bytes += cost;
        let session = self.sessions.entry(group).or_default();
        account.sessions += u64::from(session.items == 0);
        session.items += 1;
        session.bytes += cost;
        if eligible {
            session.eligible.insert(age);
        }
    }

    pub(super) fn discharge(&mut self, group: Group, age: u64, cost: u64) {
        let Some(account) = self.accounts.get_mut(&group.origin) else { return };
        account.ages.remove(&age);
        account.bytes -= cost;
        if let Some(session) = self.sessions.get_mut(&group) {
            session.eligible.remove(&age);
            session.items -= 1;
            session.bytes -= cost;
            if session.items == 0 {
                self.sessions.remove(&group);
                account.sessions -= 1;
            }
        }
        if account.ages.is_empty() {
            self.accounts.remove(&group.origin);
        }
    }

    /// Whether `cost` bytes more would be too much for the session, of what its account may hold. What others charged
    /// to the same session does not count, and what members forwarded makes nothing scarce for what is accepted here.
    pub(super) fn is_over(&self, group: Group, cost: u64) -> bool {
        let Some(account) = self.accounts.get(&group.origin) else { return false };
        let Some(session) = self.sessions.get(&group).filter(|_| group.session.is_some()) else {
            return false;
        };
        let (used, budget) = match group.origin {
            Origin::Here => (account.bytes, self.budget.bytes),
            Origin::Member(_) => (self.bytes, self.quota().0),
        };
        let scarce = used.saturating_mul(2) > self.budget.bytes;
        let fair = (budget / account.sessions.max(1)).max(QUANTUM);
        let bytes = if scarce { self.budget.session_bytes.min(fair) } else { self.budget.session_bytes };
        session.bytes + cost > bytes || session.items >= self.budget.session_items
    }

    /// Whether an account is, or with `cost` bytes more would be, above what is its own.
    pub(super) fn is_greedy(&self, origin: Origin, cost: u64) -> bool {
        let Some(account) = self.accounts.get(&origin).filter(|_| origin != Origin::Here) else {
            return false;
        };
        let (bytes, items) = self.quota();
        account.bytes + cost > bytes || account.ages.len() as u64 + u64::from(cost > 0) > items
    }

    /// What of the pool is each member's own, in bytes and items: half of the pool, shared equally.
    fn quota(&self) -> (u64, u64) {
        let shares = 2 * self.budget.members.max(1);
        (self.budget.bytes / shares, self.budget.items / shares)
    }

    /// Whether `cost` bytes more of an account fit. In a full pool the newest items of whoever is furthest above its
    /// quota make room, for what stands below its own and for what is accepted here.
    pub(super) fn make_room(&mut self, origin: Origin, cost: u64) -> bool {
        while self.bytes + cost > self.budget.bytes || self.by_age.len() as u64 >= self.budget.items {
            if self.is_greedy(origin, cost) {
                return false;
            }
            let greedy = self.accounts.iter().filter(|(other, _)| self.is_greedy(**other, 0));
            let greediest = greedy.max_by_key(|(_, account)| (account.bytes, account.ages.len()));
            let newest = greediest.and_then(|(_, account)| account.ages.last());
            let Some(id) = newest.and_then(|age| self.by_age.get(age)).map(|pending| pending.item.id) else {
                return false;
            };
            self.take(&id);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Budget, Pool, QUANTUM, Source};
    use crate::block::Item;
    use synod_machine::broadcast::{Refusal, Ticket};
    use synod_quorum::NodeId;
    use synod_service::{self as service, ClientFrame};
    use synod_wire::{Blob, Bytes, List};

    const BUDGET: Budget =
        Budget { bytes: 1 << 20, items: 1_000, session_bytes: 256 << 10, session_items: 64, members: 3 };
    const HERE: Source = Source::Local(Ticket(1));
    const LIAR: Source = Source::Member(NodeId(3));
    const HONEST: Source = Source::Member(NodeId(1));

    fn frame(session: u64, first: u64, size: usize) -> Item {
        let command = Blob::try_from(Bytes::from(vec![7; size])).expect("short");
        let commands = List::try_from(vec![command]).expect("short");
        let signature = service::UNSIGNED;
        let frame = ClientFrame { session, first, acked: 1, full: 0, commands, signature };
        Item::new(service::Item::Frame(frame).payload()).expect("not empty")
    }

    fn give(pool: &mut Pool, item: Item, source: Source) {
        // Whether it fits is not asked.
        let _fits = pool.add(item, source);
    }

    /// A pool that a member filled with frames of `sessions` sessions.
    fn flooded(size: usize, session: impl Fn(u64) -> u64) -> Pool {
        let mut pool = Pool::new(BUDGET);
        (0..4_000).for_each(|n| give(&mut pool, frame(session(n), 1 + n, size), LIAR));
        assert!(matches!(pool.add(frame(9_999_999, 1, size), LIAR), Err(Refusal::Busy { .. })), "it is full");
        pool
    }

    fn account(pool: &Pool, origin: super::Origin) -> (u64, usize) {
        pool.accounts.get(&origin).map_or((0, 0), |account| (account.bytes, account.ages.len()))
    }

    #[test]
    fn what_a_member_forwarded_makes_room_for_what_is_accepted_here_and_for_other_members() {
        for size in [100, 20_000] {
            let mut pool = flooded(size, |n| n);
            for n in 0..20 {
                assert_eq!(pool.add(frame(70_000 + n, 1, 5_000), HERE), Ok(true), "{n}");
                assert_eq!(pool.add(frame(80_000 + n, 1, 5_000), HONEST), Ok(true), "{n}");
            }
            assert!(pool.memory() <= BUDGET.bytes && pool.count() <= BUDGET.items);
        }
    }

    #[test]
    fn a_member_keeps_its_quota_whatever_others_forward() {
        let mut pool = flooded(1_000, |n| n);
        (0..4_000).for_each(|n| give(&mut pool, frame(100_000 + n, 1, 1_000), HONEST));
        let (liar, honest) =
            (account(&pool, super::Origin::Member(3)), account(&pool, super::Origin::Member(1)));
        let quota = pool.quota();
        for (bytes, items) in [liar, honest] {
            assert!(bytes + 2_000 > quota.0 || items as u64 + 1 > quota.1, "{bytes} bytes, {items} items");
        }
    }

    #[test]
    fn what_is_accepted_here_is_never_evicted() {
        let mut pool = Pool::new(BUDGET);
        let own: Vec<Item> = (0..500).map(|n| frame(n, 1, 1_500)).collect();
        own.iter().for_each(|item| assert_eq!(pool.add(item.clone(), HERE), Ok(true)));
        (0..4_000).for_each(|n| give(&mut pool, frame(10_000 + n, 1, 900), LIAR));
        (0..4_000).for_each(|n| give(&mut pool, frame(20_000 + n, 1, 900), HONEST));
        let kept = pool.oldest(u64::MAX, usize::MAX);
        assert_eq!(kept, own);
    }

    #[test]
    fn a_session_that_a_member_names_is_not_used_up_for_its_client() {
        let mut pool = Pool::new(BUDGET);
        (0..200).for_each(|n| give(&mut pool, frame(5, 1_000 + n, 1_000), LIAR));
        assert_eq!(pool.count(), BUDGET.session_items, "the member's own share of the session is bounded");
        for n in 1..=BUDGET.session_items {
            assert_eq!(pool.add(frame(5, n, 1_000), HERE), Ok(true), "{n}");
            assert_eq!(pool.add(frame(5, 500 + n, 1_000), HONEST), Ok(true), "{n}");
        }
        assert!(matches!(pool.add(frame(5, 99, 1_000), HERE), Err(Refusal::Busy { .. })), "its own share");
    }

    #[test]
    fn a_batch_is_shared_by_members_not_by_the_sessions_they_name() {
        let mut pool = flooded(1_000, |n| n);
        let honest: Vec<Item> = (1..=20).map(|n| frame(70_000, n, 1_000)).collect();
        let other: Vec<Item> = (1..=20).map(|n| frame(80_000, n, 1_000)).collect();
        honest.iter().for_each(|item| assert_eq!(pool.add(item.clone(), HERE), Ok(true)));
        other.iter().for_each(|item| assert_eq!(pool.add(item.clone(), HONEST), Ok(true)));
        let size = 6 * usize::try_from(QUANTUM).expect("small");
        let batch = pool.batch(size, 1_000);
        assert!(honest.iter().chain(&other).all(|item| batch.contains(item)), "{} items", batch.len());
        assert!(batch.len() > honest.len() + other.len(), "the rest of the block is not wasted");
        assert!(batch.iter().map(Item::cost).sum::<usize>() <= size);
    }

    #[test]
    fn an_item_forwarded_by_a_greedy_member_is_charged_to_the_next_that_brings_it() {
        let mut pool = Pool::new(BUDGET);
        let item = frame(7, 1, 1_000);
        assert_eq!(pool.add(item.clone(), LIAR), Ok(true));
        assert_eq!(pool.add(item.clone(), HONEST), Ok(false));
        assert_eq!(account(&pool, super::Origin::Member(1)).1, 0, "nobody is above its quota");
        (0..4_000).for_each(|n| give(&mut pool, frame(n, 1, 1_000), LIAR));
        assert_eq!(pool.add(item.clone(), HONEST), Ok(false));
        assert_eq!(account(&pool, super::Origin::Member(1)).1, 1);
        let (bytes, count) = (pool.memory(), pool.count());
        assert_eq!(pool.add(item.clone(), Source::Local(Ticket(4))), Ok(true));
        assert_eq!(
            (account(&pool, super::Origin::Member(1)).1, account(&pool, super::Origin::Here).1),
            (0, 1)
        );
        assert_eq!((pool.memory(), pool.count()), (bytes, count));
        assert_eq!(pool.commit(&item.id), Some(Source::Local(Ticket(4))));
    }
}
