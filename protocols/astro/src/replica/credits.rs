//! Profile II's money on its way (Listings 7 to 10): members vouch for what settled, and whoever represents those who were paid puts
//! f + 1 words together to a dependency, which goes with the beneficiary's next entry.
//!
//! Words travel by themselves once; what did not arrive is asked for payment by payment, so a representative that lost its memory
//! has all of it again.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use synod_crypto::Hash;
use synod_ledger::{AccountId, Entry, EntryId, Kind, Total};
use synod_machine::broadcast::{Except, Lot};
use synod_machine::{Turn, planted};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{List, Wire};

use super::{Carrier, Replica, compute, keep, say};
use crate::batch::{Line, Opened, proofs, root};
use crate::credits::Owed;
use crate::dependency::{
    Credit, DEPENDENCIES_MAX, Dependency, Sub, Vouch, With, Withs, backed, paid_to, payees,
};
use crate::fault::Fault;
use crate::job::Work;
use crate::owing::Owing;
use crate::spoken::{Recalled, Words};
use crate::trace::Rule;
use crate::words::{ASKED_MAX, Promise, Word};

/// Words of one member that may come before the batch that they are about.
const EARLY_MAX: usize = 256;

/// Payments of a batch to accounts of one registrar, while somebody represented here waits for words on them.
#[derive(Clone, Debug)]
pub(super) struct Group {
    root: Hash,
    pub(super) ids: Vec<EntryId>,
    pub(super) digests: Vec<Hash>,
}

/// A payment to an account that is represented here, until enough members vouch for it.
#[derive(Clone, Debug)]
struct Collect {
    to: AccountId,
    /// Whether it waited already when words were asked for the last time: those under way come by themselves.
    is_late: bool,
    said: BTreeMap<Hash, BTreeMap<u8, Vouch>>,
}

/// A payment that can be spent.
#[derive(Clone, Debug)]
struct Ready {
    dependency: Arc<Dependency>,
    /// Bytes of its encoding.
    length: usize,
    /// The entry that it went with (E17).
    entry: Option<EntryId>,
}

/// What settled and paid somebody.
#[derive(Clone, Debug)]
struct Paid {
    entry: Arc<Entry>,
    digest: Hash,
    /// A batch that certified it.
    lot: Option<Lot>,
}

/// What this replica collects for the accounts that it represents.
#[derive(Clone, Debug, Default)]
pub(super) struct Claims {
    early: BTreeMap<(Lot, u32, u8), Credit>,
    groups: BTreeMap<(Lot, u32), Arc<Group>>,
    /// Groups whose own word is being signed.
    signing: BTreeSet<(Lot, u32)>,
    collecting: BTreeMap<EntryId, Collect>,
    ready: Owing<Ready>,
    /// What settled and paid in this step.
    paid: BTreeMap<EntryId, Paid>,
    /// The last payment that was asked for.
    asked: Option<EntryId>,
    /// Words in others' dependencies.
    pub(super) said: Words,
}

impl Claims {
    /// Bytes held: as many as there are payments to accounts represented here that they did not spend.
    pub(super) fn bytes(&self) -> u64 {
        let vouch = 2 * (size_of::<Vouch>() + size_of::<(Hash, u8)>());
        let said = self.collecting.values().flat_map(|collect| collect.said.values()).map(BTreeMap::len);
        let early = self.early.values().map(|credit| size_of_val(credit.vouch.open.items()));
        let groups = self.groups.values().map(|group| group.ids.len() * size_of::<(EntryId, Hash)>());
        let ready = self.ready.iter().map(|(_, ready)| ready.dependency.bytes());
        let small = self.collecting.len() * 2 * size_of::<(EntryId, Collect)>()
            + self.signing.len() * 2 * size_of::<(Lot, u32)>()
            + self.early.len() * 2 * size_of::<((Lot, u32, u8), Credit)>()
            + self.groups.len() * 2 * size_of::<((Lot, u32), Group)>();
        (small + said.sum::<usize>() * vouch + early.sum::<usize>() + groups.sum::<usize>()) as u64
            + ready.sum::<u64>()
            + self.ready.bytes()
            + self.said.bytes()
    }

    /// Every payment that can be spent, once.
    pub(super) fn ready(&self) -> impl Iterator<Item = &Dependency> {
        let mut told = BTreeSet::new();
        let all = self.ready.iter().filter(move |((_, id), _)| told.insert(*id));
        all.map(|(_, ready)| &*ready.dependency)
    }

    fn has_early_room(&self, member: u8) -> bool {
        self.early.keys().filter(|(_, _, of)| *of == member).count() < EARLY_MAX
    }

    /// Whether this member's word on a payment under a root is missing.
    fn lacks(&self, id: EntryId, root: Hash, member: u8) -> bool {
        self.collecting
            .get(&id)
            .is_some_and(|collect| collect.said.get(&root).is_none_or(|said| !said.contains_key(&member)))
    }
}

impl<B: Carrier> Replica<B> {
    /// What has settled and was not collected by those who were paid, all of it together; nothing but in profile II.
    #[must_use]
    pub fn unspent(&self) -> Total {
        let each = self.ledger.all_unspent();
        let sums = each.map(|((to, _), unspent)| crate::dependency::paid_to(&unspent.entry, to));
        sums.fold(Total::ZERO, |all, sum| all.checked_add(sum).expect("2^96 payments are none"))
    }

    /// What is known of the words that entries of a batch are backed with.
    pub(super) fn recall(&self, opened: &Opened) -> Recalled {
        self.claims.said.recall(opened)
    }

    fn has_credits(&self) -> bool {
        self.config.parameters.profile.credits()
    }

    fn represents(&self, account: AccountId) -> bool {
        self.ledger.is_carried_by(EntryId { spender: account, n: 0 }, self.me())
    }

    /// Members that represent accounts.
    fn carriers(&self, accounts: impl Iterator<Item = AccountId>) -> NodeSet {
        let lanes: Vec<u8> = self.lanes.keys().copied().collect();
        let mut all = NodeSet::EMPTY;
        for account in accounts.collect::<BTreeSet<_>>() {
            let of = |lane: &&u8| self.ledger.is_carried_by(EntryId { spender: account, n: 0 }, **lane);
            if let Some(lane) = lanes.iter().find(of) {
                all.insert(NodeId(u32::from(*lane)));
            }
        }
        all
    }

    /// An entry settled. What its spender claimed is spent, or free for its next entry; whom it paid can collect.
    pub(super) fn on_spent(&mut self, entry: &Arc<Entry>, digest: Hash, (is_paid, lot): (bool, Option<Lot>)) {
        if !self.has_credits() {
            return;
        }
        let id = entry.id;
        let claimed: Vec<Owed> =
            self.claims.ready.of(id.spender).map(|(paid, _)| (id.spender, paid)).collect();
        for owed in claimed {
            if self.ledger.unspent(owed).is_none() {
                self.claims.ready.remove(owed);
            } else if let Some(ready) = self.claims.ready.get_mut(owed)
                && ready.entry == Some(id)
            {
                ready.entry = None;
            }
        }
        if !is_paid {
            return;
        }
        self.claims.paid.insert(id, Paid { entry: Arc::clone(entry), digest, lot });
        self.collect(entry);
        if matches!(entry.kind, Kind::Move(_) | Kind::Rekey(_)) && self.represents(id.spender) {
            let all: Vec<Arc<Entry>> =
                self.ledger.unspent_of(id.spender).map(|(_, unspent)| Arc::clone(&unspent.entry)).collect();
            all.iter().for_each(|entry| self.collect(entry));
        }
    }

    /// Words are collected for a payment to somebody represented here.
    fn collect(&mut self, entry: &Entry) {
        let id = entry.id;
        let to = payees(entry).find(|to| {
            let owed = (*to, id);
            self.ledger.unspent(owed).is_some()
                && self.represents(*to)
                && self.claims.ready.get(owed).is_none()
        });
        if let Some(to) = to {
            self.claims.collecting.entry(id).or_insert_with(|| Collect {
                to,
                is_late: false,
                said: BTreeMap::new(),
            });
        }
    }

    /// Vouches for what settled in this step: for payments of a batch together, also where they settled later than others of it, and for
    /// what is left one by one.
    pub(super) fn vouch(&mut self, opened: Option<&Opened>, turn: &mut Turn<'_, Self>) {
        let mut paid = std::mem::take(&mut self.claims.paid);
        if paid.is_empty() {
            return;
        }
        if let Some(opened) = opened {
            self.vouch_for(opened, &mut paid, turn);
        }
        let mut late: BTreeMap<Lot, usize> = BTreeMap::new();
        paid.values().filter_map(|paid| paid.lot).for_each(|lot| *late.entry(lot).or_default() += 1);
        for (lot, _) in late.into_iter().filter(|(_, count)| *count > 1) {
            let batch = self.lanes.get(&lot.source).and_then(|lane| lane.batches.get(&lot.sequence));
            let batch = batch.filter(|batch| batch.certified.is_some());
            if let Some(opened) = batch.and_then(|batch| batch.opened.clone()) {
                self.vouch_for(&opened, &mut paid, turn);
            }
        }
        for Paid { entry, digest, .. } in paid.into_values() {
            let to = self.carriers(payees(&entry));
            self.vouch_alone(&entry, digest, to, turn);
        }
    }

    /// Takes out what stands in a batch, and vouches for it.
    fn vouch_for(&mut self, opened: &Opened, paid: &mut BTreeMap<EntryId, Paid>, turn: &mut Turn<'_, Self>) {
        let mut registrars = BTreeSet::new();
        for (_, line, digest) in opened.lines() {
            if paid.get(&line.entry.id).is_some_and(|paid| paid.digest == digest) {
                paid.remove(&line.entry.id);
                registrars.extend(payees(&line.entry).map(|to| to.registrar));
            }
        }
        for registrar in registrars {
            self.vouch_together(opened, registrar, turn);
        }
    }

    fn vouch_together(&mut self, opened: &Opened, registrar: u32, turn: &mut Turn<'_, Self>) {
        let (mut ids, mut digests, mut open, mut paid) =
            (Vec::new(), Vec::new(), Vec::new(), BTreeSet::new());
        for (_, line, digest) in opened.lines() {
            let id = line.entry.id;
            let to: Vec<AccountId> = payees(&line.entry).filter(|to| to.registrar == registrar).collect();
            if to.is_empty() {
                continue;
            }
            let has = |to: &AccountId| self.ledger.unspent((*to, id)).is_some_and(|of| of.digest == digest);
            match (to.iter().any(has), u32::try_from(ids.len())) {
                (true, _) => paid.extend(to),
                (false, Ok(at)) => open.push(at),
                (false, Err(_)) => {}
            }
            ids.push(id);
            digests.push(digest);
        }
        let to = self.carriers(paid.into_iter());
        if to.contains(self.config.me) {
            self.claims.signing.insert((opened.lot(), registrar));
        }
        let open = if planted!(A23) { Vec::new() } else { open };
        let open = Except::new(open).expect("indexes rise");
        let (view, of) = (Arc::clone(&self.config.view), Sub::Batch { lot: opened.lot(), registrar });
        compute(turn, Work::Vouch { view, me: self.config.me, of, ids, digests, open, to });
    }

    fn vouch_alone(&self, entry: &Entry, digest: Hash, to: NodeSet, turn: &mut Turn<'_, Self>) {
        let (view, of) = (Arc::clone(&self.config.view), Sub::Entry(entry.id));
        let (ids, digests, open) = (vec![entry.id], vec![digest], Except::default());
        compute(turn, Work::Vouch { view, me: self.config.me, of, ids, digests, open, to });
    }

    /// This node's own word is signed.
    pub(super) fn on_vouched(
        &mut self,
        credit: &Credit,
        (ids, digests): (Vec<EntryId>, Vec<Hash>),
        to: NodeSet,
        turn: &mut Turn<'_, Self>,
    ) {
        turn.applied(Rule::Credit);
        let others = to.without(self.config.me);
        if !others.is_empty() {
            say(turn, others, Word::Credit(credit.clone()));
        }
        if !to.contains(self.config.me) {
            return;
        }
        let Sub::Batch { lot, registrar } = credit.of else { return self.count_credit(credit, turn) };
        self.claims.signing.remove(&(lot, registrar));
        let group = Arc::new(Group { root: credit.root, ids, digests });
        self.claims.groups.insert((lot, registrar), group);
        self.count_credit(credit, turn);
        let early = self.claims.early.range((lot, registrar, 0)..=(lot, registrar, u8::MAX));
        for key in early.map(|(key, _)| *key).collect::<Vec<_>>() {
            if let Some(credit) = self.claims.early.remove(&key) {
                self.on_credit(NodeId(u32::from(credit.vouch.member)), credit, turn);
            }
        }
    }

    /// A member's word, unchecked. One that comes before its batch waits for it.
    pub(super) fn on_credit(&mut self, from: NodeId, credit: Credit, turn: &mut Turn<'_, Self>) {
        let member = credit.vouch.member;
        if from.member() != Some(member) || !self.has_credits() {
            return turn.blame(from, Fault::BadCredit);
        }
        let is_news = match credit.of {
            Sub::Entry(id) => {
                self.claims.lacks(id, credit.root, member) && credit.vouch.open.items().is_empty()
            }
            Sub::Batch { lot, registrar } => match self.claims.groups.get(&(lot, registrar)) {
                Some(group) => {
                    let told = (0_u32..).zip(&group.ids);
                    let mut told =
                        told.filter(|(at, _)| credit.vouch.open.items().binary_search(at).is_err());
                    group.root == credit.root
                        && told.any(|(_, id)| self.claims.lacks(*id, credit.root, member))
                }
                None => return self.keep_early((lot, registrar, member), credit),
            },
        };
        if is_news {
            compute(turn, Work::Credit { view: Arc::clone(&self.config.view), from, credit });
        }
    }

    fn keep_early(&mut self, key: (Lot, u32, u8), credit: Credit) {
        let window = self.config.parameters.lane_window;
        let Some(frontier) = self.lanes.get(&key.0.source).map(|lane| lane.frontier) else { return };
        let lane = &self.lanes[&key.0.source];
        let is_to_come = |(lot, registrar, _): &(Lot, u32, u8)| {
            let known = lane.batches.get(&lot.sequence);
            lot.sequence > frontier && known.is_none_or(|batch| batch.certified.is_none())
                || self.claims.signing.contains(&(*lot, *registrar))
        };
        let early = self.claims.early.keys().filter(|of| of.0.source == key.0.source);
        let old: Vec<_> = early.filter(|of| !is_to_come(of)).copied().collect();
        let is_near = is_to_come(&key) && key.0.sequence <= frontier.saturating_add(2 * window);
        for old in old {
            self.claims.early.remove(&old);
        }
        if is_near && self.claims.has_early_room(key.2) {
            self.claims.early.insert(key, credit);
        }
    }

    /// A good word. With f + 1 of distinct members on one root, a payment can be spent; what comes later finds nobody who waits (E25).
    pub(super) fn count_credit(&mut self, credit: &Credit, turn: &mut Turn<'_, Self>) {
        let (enough, root) = (self.quorums.one_correct(), credit.root);
        let group = match credit.of {
            Sub::Entry(id) => {
                let unspent = self.claims.collecting.get(&id).and_then(|of| self.ledger.unspent((of.to, id)));
                let Some(digest) = unspent.map(|unspent| unspent.digest) else { return };
                Arc::new(Group { root: self::root(&[digest]), ids: vec![id], digests: vec![digest] })
            }
            Sub::Batch { lot, registrar } => match self.claims.groups.get(&(lot, registrar)) {
                Some(group) => Arc::clone(group),
                None => return,
            },
        };
        if group.root != root {
            return;
        }
        let mut formed = Vec::new();
        for (at, id) in (0_u32..).zip(&group.ids) {
            let Some(collect) = self.claims.collecting.get_mut(id) else { continue };
            if credit.vouch.open.items().binary_search(&at).is_ok() {
                continue;
            }
            let said = collect.said.entry(root).or_default();
            said.insert(credit.vouch.member, credit.vouch.clone());
            if u32::try_from(said.len()).is_ok_and(|count| count >= enough) {
                formed.push(at);
            }
        }
        if formed.is_empty() {
            return;
        }
        for (at, proof) in proofs(&group.digests, &formed) {
            let id = usize::try_from(at).ok().and_then(|at| group.ids.get(at).copied());
            let all = &mut self.claims.collecting;
            let mut taken = |id| if planted!(A22) { all.get(&id).cloned() } else { all.remove(&id) };
            let Some((id, collect)) = id.and_then(|id| Some((id, taken(id)?))) else { continue };
            let said = collect.said.get(&root).into_iter().flat_map(BTreeMap::values).cloned();
            let Some(unspent) = self.ledger.unspent((collect.to, id)) else { continue };
            let (entry, with) = (Arc::clone(&unspent.entry), unspent.with);
            let said = List::try_from(said.collect::<Vec<_>>()).expect("members are 128 at most");
            let dependency = Dependency { entry, with, proof, root, said };
            turn.applied(Rule::Depend);
            keep(turn, Promise::Collected(dependency.clone()));
            self.take_dependency(Arc::new(dependency));
        }
        let Claims { groups, collecting, .. } = &mut self.claims;
        groups.retain(|_, group| group.ids.iter().any(|id| collecting.contains_key(id)));
    }

    /// A payment can be spent by those whom it paid.
    pub(super) fn take_dependency(&mut self, dependency: Arc<Dependency>) {
        let (id, length) = (dependency.entry.id, dependency.encode().len());
        if !planted!(A22) {
            self.claims.collecting.remove(&id);
        }
        for to in payees(&dependency.entry) {
            if self.ledger.unspent((to, id)).is_some() && self.represents(to) {
                match self.claims.ready.get_mut((to, id)) {
                    Some(known) => known.entry = known.entry.filter(|_| !planted!(A22)),
                    None => {
                        let ready = Ready { dependency: Arc::clone(&dependency), length, entry: None };
                        self.claims.ready.insert((to, id), ready);
                    }
                }
            }
        }
    }

    /// The digest of an order, with what it is backed with: all that its spender can spend and that fits (4.6, rule 3).
    pub(super) fn back(&self, line: &Line, plain: Hash) -> (Hash, Option<With>) {
        let id = line.entry.id;
        if !self.has_credits() {
            return (plain, None);
        }
        if let Some(slot) = self.ledger.slot(id).filter(|slot| slot.line.entry == line.entry) {
            return (slot.digest, self.ledger.backing(id, slot.digest).cloned());
        }
        let most = usize::try_from(self.config.parameters.batch_bytes / 2).unwrap_or(usize::MAX);
        let (mut with, mut bytes) = (Vec::new(), 0);
        let free = self.claims.ready.of(id.spender).filter(|(_, ready)| ready.entry.is_none());
        let mut free: Vec<&Ready> = free.map(|(_, ready)| ready).collect();
        // The largest first: whatever comes beside them, an entry that they pay for is paid.
        free.sort_by_key(|ready| core::cmp::Reverse(paid_to(&ready.dependency.entry, id.spender)));
        for ready in free.into_iter().take(DEPENDENCIES_MAX) {
            bytes += ready.length;
            if bytes > most {
                break;
            }
            with.push((*ready.dependency).clone());
        }
        let with = (!with.is_empty()).then(|| With::new(Withs::new(with)));
        let root = with.as_ref().map_or(Hash::ZERO, |with| with.root());
        (backed(plain, root), with)
    }

    /// Whether an order can be paid by what has settled, what it is backed with, and what the open entries before it are.
    pub(super) fn can_pay(&self, entry: &Entry, with: Option<&With>) -> bool {
        let spender = entry.id.spender;
        let with = with.into_iter().flat_map(|with| with.iter());
        let open = self.claims.ready.of(spender).filter(|(_, ready)| ready.entry.is_some());
        let backed = with.chain(open.map(|(_, ready)| &*ready.dependency));
        let sums = backed.map(|dependency| paid_to(&dependency.entry, spender));
        let sum = sums.fold(Total::ZERO, |sum, next| sum.checked_add(next).unwrap_or(Total::MAX));
        self.ledger.could_pay(entry, sum)
    }

    /// An order has its place: what it is backed with goes with it.
    pub(super) fn commit_backing(&mut self, id: EntryId, digest: Hash, with: Option<&With>) {
        for dependency in with.into_iter().flat_map(|with| with.iter()) {
            if let Some(ready) = self.claims.ready.get_mut((id.spender, dependency.entry.id)) {
                ready.entry = Some(id);
            }
        }
        self.ledger.back(id, digest, with);
    }

    /// Asks for words on payments that were not proven when this was done before, so many at a time.
    pub(super) fn ask_credits(&mut self, turn: &mut Turn<'_, Self>) {
        let from = self.claims.asked.map_or(Bound::Unbounded, Bound::Excluded);
        let late = self.claims.collecting.range((from, Bound::Unbounded));
        let all = late.filter(|(_, collect)| collect.is_late).take(ASKED_MAX);
        let asked: Vec<Owed> = all.map(|(id, collect)| (collect.to, *id)).collect();
        self.claims.asked = asked.last().map(|(_, id)| *id);
        self.claims.collecting.values_mut().for_each(|collect| collect.is_late = true);
        // Another representative may have spent it.
        let (asked, gone): (Vec<Owed>, Vec<Owed>) =
            asked.into_iter().partition(|owed| self.ledger.unspent(*owed).is_some());
        for (_, id) in gone {
            self.claims.collecting.remove(&id);
        }
        for owed in &asked {
            self.answer_credit(*owed, NodeSet::only(self.config.me), turn);
        }
        if let Some(asked) = List::try_from(asked).ok().filter(|asked| !asked.is_empty()) {
            say(turn, self.others(), Word::AskCredits(asked));
        }
    }

    /// A representative asks for this node's word.
    pub(super) fn on_ask_credits(&self, from: NodeId, asked: &[Owed], turn: &mut Turn<'_, Self>) {
        for owed in asked {
            let is_theirs = |lane| self.ledger.is_carried_by(EntryId { spender: owed.0, n: 0 }, lane);
            if from.member().is_some_and(is_theirs) {
                self.answer_credit(*owed, NodeSet::only(from), turn);
            }
        }
    }

    fn answer_credit(&self, owed: Owed, to: NodeSet, turn: &mut Turn<'_, Self>) {
        if let Some(unspent) = self.ledger.unspent(owed) {
            self.vouch_alone(&unspent.entry, unspent.digest, to, turn);
        }
    }

    /// After a restart: what went with open entries went, and words are collected for what is not proven (E17, T5).
    pub(super) fn claim_again(&mut self) {
        self.claims.paid.clear();
        if !self.has_credits() {
            return;
        }
        let mut open = Vec::new();
        for slot in self.ledger.open().flat_map(|(_, xlog)| xlog.slots()) {
            let id = slot.line.entry.id;
            let with = self.ledger.backing(id, slot.digest).into_iter().flat_map(|with| with.iter());
            open.extend(with.map(|dependency| ((id.spender, dependency.entry.id), id)));
        }
        for (owed, id) in open {
            if let Some(ready) = self.claims.ready.get_mut(owed) {
                ready.entry = Some(id);
            }
        }
        let all: Vec<Arc<Entry>> =
            self.ledger.all_unspent().map(|(_, unspent)| Arc::clone(&unspent.entry)).collect();
        all.iter().for_each(|entry| self.collect(entry));
        self.claims.collecting.values_mut().for_each(|collect| collect.is_late = true);
    }
}
