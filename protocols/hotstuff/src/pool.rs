//! Pending items: accepted here or forwarded by members, held until committed.
//!
//! *Fairness.* Items are grouped by session where the payload is a client's frame, else by origin; a batch is filled by
//! deficit round robin over the groups, oldest first within one.
//!
//! *Bounds.* Bytes and number of all items and of one session; from half of the byte budget on, a session may hold
//! no more than its fair share.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use synod_crypto::Hash;
use synod_machine::broadcast::{Refusal, Ticket};
use synod_quorum::NodeId;

use crate::block::Item;

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
}

/// One pending item.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    /// The item.
    pub(crate) item: Item,
    /// Where it came from.
    pub(crate) source: Source,
    session: u64,
    marked: bool,
}

#[derive(Clone, Debug, Default)]
struct Session {
    eligible: BTreeSet<u64>,
    items: u64,
    bytes: u64,
    deficit: u64,
}

/// The pending items.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    budget: Budget,
    next: u64,
    by_age: BTreeMap<u64, Pending>,
    by_id: BTreeMap<Hash, u64>,
    sessions: BTreeMap<u64, Session>,
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
            served: 0,
            bytes: 0,
            eligible_items: 0,
            eligible_bytes: 0,
            recent: BTreeSet::new(),
            recent_order: VecDeque::new(),
        }
    }

    /// Takes an item in. An item pending already is not taken twice: it becomes one entry.
    ///
    /// # Errors
    /// [`Refusal::Busy`] over a budget; the time to wait grows with what is queued.
    pub(crate) fn add(&mut self, item: Item, source: Source) -> Result<bool, Refusal> {
        let known = self.by_id.contains_key(&item.id);
        let late = matches!(source, Source::Member(_)) && self.recent.contains(&item.id);
        if known || late {
            self.adopt(&item.id, source);
            return Ok(false);
        }
        let session = session(&item, source);
        let cost = cost(&item);
        if self.is_over(session, cost, source) {
            return Err(Refusal::Busy { retry_ms: self.retry_ms() });
        }
        let item = if matches!(source, Source::Member(_)) { item.detached() } else { item };
        let age = self.next;
        self.next += 1;
        let group = self.sessions.entry(session).or_default();
        group.items += 1;
        group.bytes += cost;
        group.eligible.insert(age);
        self.bytes += cost;
        self.eligible_items += 1;
        self.eligible_bytes += item.cost() as u64;
        self.by_id.insert(item.id, age);
        self.by_age.insert(age, Pending { item, source, session, marked: false });
        Ok(true)
    }

    /// A local submission of an item known from a member takes over its ticket.
    fn adopt(&mut self, id: &Hash, source: Source) {
        let age = self.by_id.get(id).copied();
        if let Some(pending) = age.and_then(|age| self.by_age.get_mut(&age))
            && matches!((pending.source, source), (Source::Member(_), Source::Local(_)))
        {
            pending.source = source;
        }
    }

    fn is_over(&self, session: u64, cost: u64, source: Source) -> bool {
        if source == Source::Own {
            return false;
        }
        let full = self.bytes + cost > self.budget.bytes || self.by_age.len() as u64 >= self.budget.items;
        let sessions = (self.sessions.len() as u64).max(1);
        let crowded = self.bytes.saturating_mul(2) > self.budget.bytes;
        let (mut bytes, mut items) = (self.budget.session_bytes, self.budget.session_items);
        if is_anonymous(session) {
            (bytes, items) = (self.budget.bytes, self.budget.items);
        }
        if crowded {
            bytes = bytes.min((self.budget.bytes / sessions).max(QUANTUM));
        }
        let over = self.sessions.get(&session).is_some_and(|s| s.bytes + cost > bytes || s.items >= items);
        full || over
    }

    fn retry_ms(&self) -> u32 {
        u32::try_from(10 + self.bytes / (64 << 10)).unwrap_or(u32::MAX).min(5_000)
    }

    /// Items that may still be taken.
    pub(crate) fn room(&self) -> u32 {
        let left = self.budget.items.saturating_sub(self.by_age.len() as u64);
        u32::try_from(left).unwrap_or(u32::MAX)
    }

    /// Fills a batch of at most `bytes` and `items` by deficit round robin; the items stay in the pool.
    pub(crate) fn batch(&mut self, bytes: usize, items: usize) -> Vec<Item> {
        let mut batch = Vec::new();
        let mut left = bytes as u64;
        let mut heads: BTreeMap<u64, u64> = BTreeMap::new();
        let order: Vec<u64> = self.round();
        let mut idle = 0;
        while batch.len() < items && idle < order.len() {
            idle = 0;
            for session in &order {
                match self.serve(*session, &mut heads, left, items - batch.len()) {
                    Some(taken) => {
                        left -= taken.iter().map(|item| item.cost() as u64).sum::<u64>();
                        batch.extend(taken);
                    }
                    None => idle += 1,
                }
                if batch.len() >= items {
                    break;
                }
            }
        }
        self.served = self.served.wrapping_add(1);
        batch
    }

    /// The sessions with something eligible, beginning behind the one that began last time.
    fn round(&self) -> Vec<u64> {
        let mut order: Vec<u64> =
            self.sessions.iter().filter(|(_, s)| !s.eligible.is_empty()).map(|(id, _)| *id).collect();
        let turn = usize::try_from(self.served % (order.len() as u64).max(1)).unwrap_or(0);
        order.rotate_left(turn);
        order
    }

    /// One turn of one session: what its deficit pays for. `None` when it has nothing that fits.
    fn serve(
        &mut self,
        session: u64,
        heads: &mut BTreeMap<u64, u64>,
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
        let Some(group) = self.sessions.get_mut(&pending.session) else { return false };
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
        self.unmark(id);
        let age = self.by_id.remove(id)?;
        let pending = self.by_age.remove(&age)?;
        let cost = cost(&pending.item);
        self.bytes -= cost;
        self.eligible_items -= 1;
        self.eligible_bytes -= pending.item.cost() as u64;
        if let Some(group) = self.sessions.get_mut(&pending.session) {
            group.eligible.remove(&age);
            group.items -= 1;
            group.bytes -= cost;
            if group.items == 0 {
                self.sessions.remove(&pending.session);
            }
        }
        Some(pending.source)
    }

    /// The oldest items, of at most `bytes` together; with `own`, only those accepted here.
    pub(crate) fn oldest(&self, bytes: u64, items: usize, own: bool) -> Vec<Item> {
        let mut left = bytes;
        let mut oldest = Vec::new();
        for pending in self.by_age.values() {
            if own && matches!(pending.source, Source::Member(_)) {
                continue;
            }
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

/// The group an item is served in: the session of the client's frame that it is, else its origin.
fn session(item: &Item, source: Source) -> u64 {
    match (synod_service::session_of(item.payload.bytes()), source) {
        (Some(session), _) => session & !ANONYMOUS,
        (None, Source::Member(id)) => anonymous(u64::from(id.0) + 1),
        (None, Source::Local(_) | Source::Own) => anonymous(0),
    }
}

const ANONYMOUS: u64 = 1 << 63;

const fn anonymous(origin: u64) -> u64 {
    ANONYMOUS | origin
}

const fn is_anonymous(session: u64) -> bool {
    session & ANONYMOUS != 0
}

#[cfg(test)]
mod tests {
    use super::{Budget, Pool, Source};
    use crate::block::Item;
    use synod_machine::broadcast::{Refusal, Ticket};
    use synod_service::{self as service, ClientFrame};
    use synod_wire::{Blob, Bytes, List};

    const BUDGET: Budget =
        Budget { bytes: 1 << 20, items: 1_000, session_bytes: 600 << 10, session_items: 20 };

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
        let kept = pool.oldest(1 << 20, 1, false);
        assert_eq!(kept[0].payload.bytes(), &payload);
        assert!(!frame.as_ptr_range().contains(&kept[0].payload.as_ptr()));
    }

    #[test]
    fn an_item_pending_or_just_committed_is_not_taken_from_a_member_again() {
        let mut pool = Pool::new(BUDGET);
        let member = Source::Member(synod_quorum::NodeId(3));
        let one = item(1, 0, 50);
        assert_eq!(pool.add(one.clone(), member), Ok(true));
        assert_eq!(pool.add(one.clone(), Source::Local(Ticket(5))), Ok(false));
        assert_eq!(pool.commit(&one.id), Some(Source::Local(Ticket(5))));
        assert_eq!(pool.add(one.clone(), member), Ok(false));
        assert_eq!(pool.add(one, Source::Local(Ticket(6))), Ok(true));
    }
}
