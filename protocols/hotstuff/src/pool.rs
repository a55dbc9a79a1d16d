//! Pending items: accepted here or forwarded by members, held until committed.
//!
//! *Fairness.* What was accepted here and what each member forwarded are accounts of their own; in each, items are
//! grouped by session where the payload is a client's frame. A batch is filled by turns of the accounts, and in each by
//! deficit round robin over its groups, oldest first within one. So neither the sessions that a member invents nor
//! those that it names take more than that member's share.
//!
//! *Bounds.* Bytes and number of all items and of one session in one account; from half of the byte budget on, a session
//! may hold no more than its fair share. A member may use what is free, but only its quota is its own: above it, its
//! newest items make room for others. It holds them still, and forwards them again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use synod_crypto::Hash;
use synod_machine::broadcast::{Refusal, Ticket};
use synod_quorum::NodeId;

use crate::block::Item;

mod account;

use account::{Account, Group, Origin, Session};

/// Bytes a session gains per round.
const QUANTUM: u64 = 16 << 10;
/// Ids of committed items remembered, so that a late copy is not ordered again.
pub(crate) const RECENT_IDS_MAX: usize = 65_536;
/// Bytes one pending item costs beyond its payload.
pub(crate) const PENDING_BYTES: u64 = 320;

/// Where a pending item came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Submitted here.
    Local(Ticket),
    /// Made here to move the chain.
    Own,
    /// Forwarded by this member.
    Member(NodeId),
}

/// The budgets of the pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// Bytes of all items.
    pub(crate) bytes: u64,
    /// Number of all items.
    pub(crate) items: u64,
    /// Bytes of one session.
    pub(crate) session_bytes: u64,
    /// Number of items of one session.
    pub(crate) session_items: u64,
    /// Members that may forward, this one not counted.
    pub(crate) members: u64,
}

/// One pending item.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    /// The item.
    pub(crate) item: Item,
    /// Where it came from.
    pub(crate) source: Source,
    group: Group,
    marked: bool,
}

/// The pending items.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    budget: Budget,
    next: u64,
    by_age: BTreeMap<u64, Pending>,
    by_id: BTreeMap<Hash, u64>,
    sessions: BTreeMap<Group, Session>,
    accounts: BTreeMap<Origin, Account>,
    served: u64,
    bytes: u64,
    eligible_items: u64,
    eligible_bytes: u64,
    recent: BTreeSet<Hash>,
    recent_order: VecDeque<Hash>,
}

impl Pool {
    /// An empty pool.
    pub(crate) const fn new(budget: Budget) -> Self {
        Self {
            budget,
            next: 0,
            by_age: BTreeMap::new(),
            by_id: BTreeMap::new(),
            sessions: BTreeMap::new(),
            accounts: BTreeMap::new(),
            served: 0,
            bytes: 0,
            eligible_items: 0,
            eligible_bytes: 0,
            recent: BTreeSet::new(),
            recent_order: VecDeque::new(),
        }
    }

    /// Takes an item in; whether it is new here, or was only forwarded before and is now this node's own. An item
    /// pending already is not taken twice: it becomes one entry.
    ///
    /// # Errors
    /// [`Refusal::Busy`] over a budget; the time to wait grows with what is queued.
    pub(crate) fn add(&mut self, item: Item, source: Source) -> Result<bool, Refusal> {
        if let Some(age) = self.by_id.get(&item.id).copied() {
            return self.adopt(age, source);
        }
        if matches!(source, Source::Member(_)) && self.recent.contains(&item.id) {
            return Ok(false);
        }
        let group = Group::of(&item, source);
        let cost = cost(&item);
        if source != Source::Own && (self.is_over(group, cost) || !self.make_room(group.origin, cost)) {
            return Err(Refusal::Busy { retry_ms: self.retry_ms() });
        }
        let item = if matches!(source, Source::Member(_)) { item.detached() } else { item };
        let age = self.next;
        self.next += 1;
        self.bytes += cost;
        self.eligible_items += 1;
        self.eligible_bytes += item.cost() as u64;
        self.by_id.insert(item.id, age);
        self.charge(group, age, cost, true);
        self.by_age.insert(age, Pending { item, source, group, marked: false });
        Ok(true)
    }

    /// An item that is pending comes from another source. A submission here makes it this node's own, whoever forwarded
    /// it before; another member takes the charge over from one that is above its quota.
    fn adopt(&mut self, age: u64, source: Source) -> Result<bool, Refusal> {
        let Some(pending) = self.by_age.get(&age) else { return Ok(false) };
        let Source::Member(before) = pending.source else { return Ok(false) };
        let (from, to) = (pending.group, Group::of(&pending.item, source));
        let (cost, eligible) = (cost(&pending.item), !pending.marked);
        let own = match source {
            Source::Own => return Ok(false),
            Source::Local(_) => true,
            Source::Member(member) => {
                let relieved = self.is_greedy(from.origin, 0) && !self.is_greedy(to.origin, cost);
                if member == before || !relieved {
                    return Ok(false);
                }
                false
            }
        };
        if self.is_over(to, cost) {
            return if own { Err(Refusal::Busy { retry_ms: self.retry_ms() }) } else { Ok(false) };
        }
        self.discharge(from, age, cost);
        self.charge(to, age, cost, eligible);
        if let Some(pending) = self.by_age.get_mut(&age) {
            (pending.source, pending.group) = (source, to);
        }
        Ok(own)
    }

    fn retry_ms(&self) -> u32 {
        u32::try_from(10 + self.bytes / (64 << 10)).unwrap_or(u32::MAX).min(5_000)
    }

    /// Items that may still be taken.
    pub(crate) fn room(&self) -> u32 {
        let left = self.budget.items.saturating_sub(self.by_age.len() as u64);
        u32::try_from(left).unwrap_or(u32::MAX)
    }

    /// Fills a batch of at most `bytes` and `items`: the accounts take turns, in each its sessions by deficit round
    /// robin. The items stay in the pool.
    pub(crate) fn batch(&mut self, bytes: usize, items: usize) -> Vec<Item> {
        let mut batch = Vec::new();
        let mut left = bytes as u64;
        let mut heads: BTreeMap<Group, u64> = BTreeMap::new();
        let mut rounds = self.rounds();
        while let Some(mut round) = rounds.pop_front().filter(|_| batch.len() < items) {
            if let Some(taken) = self.turn(&mut round, &mut heads, left, items - batch.len()) {
                left -= taken.iter().map(|item| item.cost() as u64).sum::<u64>();
                batch.extend(taken);
                rounds.push_back(round);
            }
        }
        self.served = self.served.wrapping_add(1);
        batch
    }

    /// Per account the sessions with something eligible, beginning behind those that began last time.
    fn rounds(&self) -> VecDeque<VecDeque<Group>> {
        let mut rounds: BTreeMap<Origin, VecDeque<Group>> = BTreeMap::new();
        for (group, _) in self.sessions.iter().filter(|(_, session)| !session.eligible.is_empty()) {
            rounds.entry(group.origin).or_default().push_back(*group);
        }
        let begin = |length: usize| usize::try_from(self.served % (length as u64).max(1)).unwrap_or(0);
        let mut rounds: VecDeque<_> = rounds.into_values().collect();
        rounds.iter_mut().for_each(|round| round.rotate_left(begin(round.len())));
        rounds.rotate_left(begin(rounds.len()));
        rounds
    }

    /// One turn of one account: that of its next session with something that fits.
    fn turn(
        &mut self,
        round: &mut VecDeque<Group>,
        heads: &mut BTreeMap<Group, u64>,
        left: u64,
        items: usize,
    ) -> Option<Vec<Item>> {
        while let Some(group) = round.pop_front() {
            if let Some(taken) = self.serve(group, heads, left, items) {
                round.push_back(group);
                return Some(taken);
            }
        }
        None
    }

    /// One turn of one session: what its deficit pays for. `None` when it has nothing that fits.
    fn serve(
        &mut self,
        session: Group,
        heads: &mut BTreeMap<Group, u64>,
        left: u64,
        items: usize,
    ) -> Option<Vec<Item>> {
        let group = self.sessions.get_mut(&session)?;
        let from = heads.get(&session).copied().unwrap_or(0);
        let next = group.eligible.range(from..).next().copied();
        let first = next.and_then(|age| self.by_age.get(&age))?;
        if first.item.cost() as u64 > left {
            return None;
        }
        group.deficit = group.deficit.saturating_add(QUANTUM);
        let (mut taken, mut left, mut head) = (Vec::new(), left, from);
        for age in group.eligible.range(from..) {
            let Some(pending) = self.by_age.get(age) else { continue };
            let cost = pending.item.cost() as u64;
            if cost > left || cost > group.deficit || taken.len() >= items {
                break;
            }
            group.deficit -= cost;
            left -= cost;
            taken.push(pending.item.clone());
            head = age + 1;
        }
        if group.eligible.range(head..).next().is_none() {
            group.deficit = 0;
        }
        heads.insert(session, head);
        Some(taken)
    }

    /// Takes an item out of what is eligible: it stands in an uncommitted ancestor.
    pub(crate) fn mark(&mut self, id: &Hash) {
        self.set_marked(id, true);
    }

    /// Makes an item eligible again, at its old place; whether it was marked.
    pub(crate) fn unmark(&mut self, id: &Hash) -> bool {
        self.set_marked(id, false)
    }

    fn set_marked(&mut self, id: &Hash, marked: bool) -> bool {
        let Some(age) = self.by_id.get(id).copied() else { return false };
        let Some(pending) = self.by_age.get_mut(&age).filter(|p| p.marked != marked) else { return false };
        pending.marked = marked;
        let cost = pending.item.cost() as u64;
        let Some(group) = self.sessions.get_mut(&pending.group) else { return false };
        if marked {
            group.eligible.remove(&age);
            self.eligible_items -= 1;
            self.eligible_bytes -= cost;
        } else {
            group.eligible.insert(age);
            self.eligible_items += 1;
            self.eligible_bytes += cost;
        }
        true
    }

    /// Removes a committed item; gives it if it was pending here.
    pub(crate) fn commit(&mut self, id: &Hash) -> Option<Source> {
        if self.recent.insert(*id) {
            self.recent_order.push_back(*id);
        }
        if self.recent_order.len() > RECENT_IDS_MAX
            && let Some(old) = self.recent_order.pop_front()
        {
            self.recent.remove(&old);
        }
        self.take(id).map(|pending| pending.source)
    }

    /// Takes an item out.
    fn take(&mut self, id: &Hash) -> Option<Pending> {
        self.unmark(id);
        let age = self.by_id.remove(id)?;
        let pending = self.by_age.remove(&age)?;
        let cost = cost(&pending.item);
        self.bytes -= cost;
        self.eligible_items -= 1;
        self.eligible_bytes -= pending.item.cost() as u64;
        self.discharge(pending.group, age, cost);
        Some(pending)
    }

    /// The oldest items accepted or made here, of at most `bytes` together.
    pub(crate) fn oldest(&self, bytes: u64, items: usize) -> Vec<Item> {
        let mut left = bytes;
        let mut oldest = Vec::new();
        let own = self.accounts.get(&Origin::Here).into_iter().flat_map(Account::ages);
        for pending in own.filter_map(|age| self.by_age.get(age)) {
            let cost = pending.item.cost() as u64;
            if cost > left || oldest.len() >= items {
                break;
            }
            left -= cost;
            oldest.push(pending.item.clone());
        }
        oldest
    }

    /// Whether nothing is pending.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_age.is_empty()
    }

    /// Number of pending items.
    pub(crate) fn count(&self) -> u64 {
        self.by_age.len() as u64
    }

    /// Number of eligible items, and the bytes they would take in a body.
    pub(crate) const fn eligible(&self) -> (u64, u64) {
        (self.eligible_items, self.eligible_bytes)
    }

    /// Bytes held.
    pub(crate) fn memory(&self) -> u64 {
        self.bytes + 96 * self.recent_order.len() as u64
    }
}

fn cost(item: &Item) -> u64 {
    item.payload.len() as u64 + PENDING_BYTES
}

#[cfg(test)]
mod tests {
    use super::{Budget, Pool, Source};
    use crate::block::Item;
    use synod_machine::broadcast::{Refusal, Ticket};
    use synod_service::{self as service, ClientFrame};
    use synod_wire::{Blob, Bytes, List};

    const BUDGET: Budget =
        Budget { bytes: 1 << 20, items: 1_000, session_bytes: 600 << 10, session_items: 20, members: 3 };

    fn item(session: u8, number: u8, size: usize) -> Item {
        let head = [synod_service::ITEM_VERSION, 1, session, number];
        let mut payload = head.to_vec();
        payload.resize(size.max(head.len()), 7);
        Item::new(Bytes::from(payload)).expect("not empty")
    }

    fn add(pool: &mut Pool, item: Item) -> Result<bool, Refusal> {
        pool.add(item, Source::Local(Ticket(1)))
    }

    #[test]
    fn a_batch_is_shared_between_a_flooding_session_and_a_modest_one() {
        let mut pool = Pool::new(BUDGET);
        (0..20).for_each(|n| assert_eq!(add(&mut pool, item(1, n, 10_000)), Ok(true)));
        (0..2).for_each(|n| assert_eq!(add(&mut pool, item(2, n, 10_000)), Ok(true)));
        let sessions: Vec<u8> = pool.batch(60_000, 100).iter().map(|i| i.payload[2]).collect();
        assert_eq!(sessions.iter().filter(|s| **s == 2).count(), 2, "{sessions:?}");
    }

    #[test]
    fn room_is_what_the_budget_leaves() {
        let mut pool = Pool::new(Budget { items: 3, session_items: 3, ..BUDGET });
        for left in [3, 2, 1] {
            assert_eq!(pool.room(), left);
            assert_eq!(add(&mut pool, item(1, u8::try_from(left).expect("small"), 10)), Ok(true));
        }
        assert_eq!(pool.room(), 0);
    }

    #[test]
    fn the_frames_of_a_client_are_one_group_and_another_clients_are_not() {
        let frame = |session: u64, first: u64| {
            let command = Blob::try_from(Bytes::from(vec![7; 10_000])).expect("short");
            let commands = List::try_from(vec![command]).expect("short");
            let signature = synod_service::UNSIGNED;
            let frame = ClientFrame { session, first, acked: 1, full: 0, commands, signature };
            Item::new(service::Item::Frame(frame).payload()).expect("not empty")
        };
        let mut pool = Pool::new(BUDGET);
        (1..=20).for_each(|first| assert_eq!(add(&mut pool, frame(300, first)), Ok(true)));
        assert!(
            matches!(add(&mut pool, frame(300, 21)), Err(Refusal::Busy { .. })),
            "a session has its budget"
        );
        let modest: Vec<Item> = (1..=2).map(|first| frame(70_000, first)).collect();
        modest.iter().for_each(|item| assert_eq!(add(&mut pool, item.clone()), Ok(true)));
        let batch = pool.batch(60_000, 100);
        assert!(modest.iter().all(|item| batch.contains(item)), "and its share of a batch");
    }

    #[test]
    fn within_a_session_the_oldest_comes_first_and_the_caps_hold() {
        let mut pool = Pool::new(BUDGET);
        (0..10).for_each(|n| assert_eq!(add(&mut pool, item(1, n, 100)), Ok(true)));
        let numbers: Vec<u8> = pool.batch(1 << 20, 4).iter().map(|i| i.payload[3]).collect();
        assert_eq!(numbers, [0, 1, 2, 3]);
        let small = pool.batch(300, 100);
        assert!(small.iter().map(Item::cost).sum::<usize>() <= 300 && small.len() == 2);
    }

    #[test]
    fn a_marked_item_is_not_eligible_until_its_mark_falls_and_then_keeps_its_place() {
        let mut pool = Pool::new(BUDGET);
        let items: Vec<Item> = (0..3).map(|n| item(1, n, 50)).collect();
        items.iter().for_each(|i| assert_eq!(add(&mut pool, i.clone()), Ok(true)));
        pool.mark(&items[0].id);
        assert_eq!(pool.batch(1_000, 9).iter().map(|i| i.payload[3]).collect::<Vec<_>>(), [1, 2]);
        pool.unmark(&items[0].id);
        assert_eq!(pool.batch(1_000, 9).iter().map(|i| i.payload[3]).collect::<Vec<_>>(), [0, 1, 2]);
        pool.mark(&items[1].id);
        assert_eq!(pool.commit(&items[1].id), Some(Source::Local(Ticket(1))));
        assert_eq!((pool.count(), pool.eligible().0), (2, 2));
    }

    #[test]
    fn a_session_over_its_budget_is_refused_and_another_is_not() {
        let mut pool = Pool::new(BUDGET);
        (0..20).for_each(|n| assert_eq!(add(&mut pool, item(1, n, 50)), Ok(true)));
        assert!(matches!(add(&mut pool, item(1, 99, 50)), Err(Refusal::Busy { .. })));
        assert_eq!(add(&mut pool, item(2, 0, 50)), Ok(true));
    }

    #[test]
    fn a_full_pool_refuses_and_loses_nothing() {
        let mut pool = Pool::new(Budget { session_items: 1_000, session_bytes: 1 << 20, ..BUDGET });
        let mut accepted = 0_u64;
        for n in 0..200 {
            accepted += u64::from(add(&mut pool, item(n, 0, 20_000)) == Ok(true));
        }
        assert!(accepted < 200 && pool.count() == accepted);
        assert!(pool.memory() <= BUDGET.bytes);
    }

    #[test]
    fn a_forwarded_item_does_not_keep_the_frame_it_came_in() {
        let frame = Bytes::from(vec![7; 1 << 20]);
        let payload = frame.slice(1_000..1_100);
        let mut pool = Pool::new(BUDGET);
        let member = Source::Member(synod_quorum::NodeId(3));
        assert_eq!(pool.add(Item::new(payload.clone()).expect("not empty"), member), Ok(true));
        let kept = pool.batch(1 << 20, 1);
        assert_eq!(kept[0].payload.bytes(), &payload);
        assert!(!frame.as_ptr_range().contains(&kept[0].payload.as_ptr()));
    }

    #[test]
    fn an_item_pending_or_just_committed_is_not_taken_from_a_member_again() {
        let mut pool = Pool::new(BUDGET);
        let member = Source::Member(synod_quorum::NodeId(3));
        let one = item(1, 0, 50);
        assert_eq!(pool.add(one.clone(), member), Ok(true));
        assert_eq!(pool.add(one.clone(), Source::Local(Ticket(5))), Ok(true), "it is this node's own now");
        assert_eq!(pool.add(one.clone(), Source::Local(Ticket(5))), Ok(false));
        assert_eq!(pool.commit(&one.id), Some(Source::Local(Ticket(5))));
        assert_eq!(pool.add(one.clone(), member), Ok(false));
        assert_eq!(pool.add(one, Source::Local(Ticket(6))), Ok(true));
    }
}
