//! Several shards of institutions and their customers, and a bookkeeper who adds by hand.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use synod_astro::{Batches, Config, Draft, Input, Neighbour, Output, Refusal, Setup, Shards};
use synod_broadcast::SignedBroadcast;
use synod_broadcast::signed::{self, Certificate, Context, View};
use synod_crypto::{Hash, Keys, Seed};
use synod_ledger::{AccountId, Entry, EntryId, Kind, Leg, Opening, Owner, Total, Units};
use synod_machine::testing::{Users, World as Members};
use synod_quorum::{Member, NodeId, Roster};
use synod_wire::List;

use super::placed::{Passes, Place, Placed, abroad};
use crate::bank::{self, CLUSTER, EPOCH, LIMIT, draft, opening};

/// Members of each shard.
pub(super) const MEMBERS: u32 = 4;

pub(super) type World = Members<Country>;

fn seed(global: u32) -> Seed {
    Seed::new([u8::try_from(global).expect("few") + 101; 32])
}

pub(super) fn keys(global: u32) -> Keys {
    Keys::ed25519(&seed(global), [9; 32])
}

pub(super) fn context(shard: u32) -> Context {
    let [low, ..] = shard.to_le_bytes();
    Context { shard: u16::from(low), view: Hash([50 + low; 32]) }
}

pub(super) fn view(shard: u32) -> Arc<View> {
    let first = shard * MEMBERS;
    let members = (first..first + MEMBERS).map(|id| Member { key: seed(id).public(), power: 1 });
    let roster = Roster::new(EPOCH, members.collect()).expect("distinct members");
    Arc::new(View { cluster: CLUSTER, roster: Arc::new(roster), context: context(shard) })
}

pub(super) fn account(shard: u32, registrar: u32, local: u64) -> AccountId {
    AccountId { shard: context(shard).shard, registrar, local }
}

pub(super) fn issuer(shard: u32, registrar: u32) -> AccountId {
    account(shard, registrar, 1)
}

pub(super) fn customer(shard: u32, registrar: u32) -> AccountId {
    account(shard, registrar, 2)
}

pub(super) fn signing(shard: u32, registrar: u32) -> AccountId {
    account(shard, registrar, 3)
}

fn genesis(shard: u32) -> Vec<Opening> {
    let all = (0..MEMBERS).flat_map(|registrar| {
        let institution = Owner::Custodial(u8::try_from(registrar).expect("few"));
        let own = Owner::SelfSigned(bank::owner(signing(shard, registrar)).public());
        [
            opening(issuer(shard, registrar), institution, LIMIT),
            opening(customer(shard, registrar), institution, 0),
            opening(signing(shard, registrar), own, 0),
        ]
    });
    all.collect()
}

/// A member of one of so many shards, which know each other.
pub(super) fn setup(shards: u32, shard: u32, me: NodeId) -> Setup<SignedBroadcast<Batches>> {
    let others = (0..shards).filter(|other| *other != shard).map(|other| {
        let nodes = (0..MEMBERS).map(|member| abroad(other, member)).collect();
        (context(other).shard, Neighbour { view: view(other), nodes })
    });
    let config = Config {
        me,
        view: view(shard),
        genesis: genesis(shard),
        shards: Shards::new::<Certificate>(others.collect()),
        ..bank::config(MEMBERS, me).config
    };
    let channel = signed::Setup::under(me, view(shard), config.parameters.bounds());
    Setup { config, channel: Box::new(channel) }
}

/// The users of all members.
pub(super) struct Country {
    shards: u32,
    pub(super) passes: Passes,
    /// What settled in each shard, whoever said so; all say the same.
    pub(super) settled: BTreeMap<EntryId, Entry>,
    /// What settled at each member.
    pub(super) at: Vec<BTreeSet<EntryId>>,
    /// What was credited at each member from other shards.
    pub(super) came: Vec<BTreeSet<EntryId>>,
    /// What each member told by its position: what settled there, and what was credited.
    told: Vec<BTreeMap<u64, EntryId>>,
    pub(super) accepted: BTreeMap<u64, EntryId>,
    pub(super) refused: BTreeMap<u64, Refusal>,
}

impl Country {
    pub(super) fn world(shards: u32, seed: u64) -> World {
        let count = shards * MEMBERS;
        let passes: Passes = Rc::new(RefCell::new(Box::new(|_, _, _| true)));
        let users = Self {
            shards,
            passes,
            settled: BTreeMap::new(),
            at: (0..count).map(|_| BTreeSet::new()).collect(),
            came: (0..count).map(|_| BTreeSet::new()).collect(),
            told: (0..count).map(|_| BTreeMap::new()).collect(),
            accepted: BTreeMap::new(),
            refused: BTreeMap::new(),
        };
        Members::new(count, seed, users)
    }
}

impl Country {
    /// Every position is of one entry and every entry has one position, whatever is told again; gives the last of these.
    fn count(&mut self, id: NodeId, first: u64, entries: &[(Arc<Entry>, Hash)]) -> u64 {
        let told = &mut self.told[id.0 as usize];
        for (position, (entry, _)) in (first..).zip(entries) {
            assert!(position <= told.len() as u64 + 1, "positions follow one another");
            let known = told.entry(position).or_insert(entry.id);
            assert_eq!(*known, entry.id, "member {} tells two entries of position {position}", id.0);
        }
        let all: BTreeSet<EntryId> = told.values().copied().collect();
        assert_eq!(all.len(), told.len(), "member {} tells an entry twice", id.0);
        first + entries.len() as u64 - 1
    }
}

impl Users for Country {
    type Machine = Placed;

    fn config(&self, NodeId(id): NodeId) -> (Place, Setup<SignedBroadcast<Batches>>) {
        let (shard, me) = (id / MEMBERS, NodeId(id % MEMBERS));
        let place = Place { shard, member: me.0, members: MEMBERS, passes: Rc::clone(&self.passes) };
        (place, setup(self.shards, shard, me))
    }

    fn keys(&self, id: NodeId) -> Keys {
        keys(id.0)
    }

    fn told(&mut self, id: NodeId, output: Output) -> Vec<Input> {
        match output {
            Output::Accepted { ticket, entry, .. } => drop(self.accepted.insert(ticket, entry.id)),
            Output::Refused { ticket, why } => drop(self.refused.insert(ticket, why)),
            Output::Settled { first, entries } => {
                let last = self.count(id, first, &entries);
                for (entry, _) in entries {
                    assert_eq!(u32::from(entry.id.spender.shard), id.0 / MEMBERS, "its own shard's");
                    let known = self.settled.entry(entry.id).or_insert_with(|| (*entry).clone());
                    assert_eq!(*known, *entry, "one entry settles in one place");
                    self.at[id.0 as usize].insert(entry.id);
                }
                return vec![Input::Kept(last)];
            }
            Output::Imported { first, entries } => {
                let last = self.count(id, first, &entries);
                for (entry, _) in entries {
                    let own = u16::try_from(id.0 / MEMBERS).expect("few");
                    assert!(entry.id.spender.shard != own && entry.legs_into(own).next().is_some());
                    self.came[id.0 as usize].insert(entry.id);
                }
                return vec![Input::Kept(last)];
            }
            Output::Contradiction { id, .. } => unreachable!("{id:?} contradicts"),
            _ => {}
        }
        Vec::new()
    }
}

/// Orders a payment at the institution of its payer.
pub(super) fn order(world: &mut World, ticket: u64, spender: AccountId, legs: &[(AccountId, u128)]) {
    let legs = legs.iter().map(|(to, amount)| Leg { to: *to, amount: Units(*amount) });
    let legs: Vec<Leg> = legs.collect();
    let kind = match legs.as_slice() {
        [leg] => Kind::Pay(*leg),
        _ => Kind::MultiPay(List::try_from(legs).expect("few")),
    };
    let draft: Draft = draft(spender, kind, u128::from(ticket));
    world.ask(member(u32::from(spender.shard), spender.registrar), Input::Order { ticket, draft });
}

/// A member's number in the world.
pub(super) fn member(shard: u32, member: u32) -> NodeId {
    NodeId(shard * MEMBERS + member)
}

pub(super) fn number(total: Total) -> i128 {
    total.to_string().parse().expect("small")
}

/// What an account was paid at a member.
pub(super) fn credits(world: &World, at: NodeId, account: AccountId) -> i128 {
    let book = world.seats[at.0 as usize].machine.replica.book();
    book.account(account).map_or(-1, |account| number(account.credits_posted()))
}

/// Whether every order that was taken settled at all members of its shard, and nothing is on its way.
pub(super) fn is_quiet(world: &World) -> bool {
    let users = &world.users;
    let all = || users.accepted.values().chain(users.settled.keys());
    let has_settled = (0_u32..).zip(&users.at).all(|(id, at)| {
        all().all(|entry| u32::from(entry.spender.shard) != id / MEMBERS || at.contains(entry))
    });
    let is_here = |id: u32| {
        let book = world.seats[id as usize].machine.replica.book();
        let into = u16::try_from(id / MEMBERS).expect("few");
        users.settled.values().all(|entry| {
            entry.id.spender.shard == into
                || entry.legs_into(into).next().is_none()
                || book.is_used(entry.id) && users.came[id as usize].contains(&entry.id)
        })
    };
    has_settled
        && (0..users.shards * MEMBERS).all(is_here)
        && world.seats.iter().all(|seat| seat.machine.replica.unconfirmed() == 0)
}

/// In each ledger of a shard, at any time: what was credited less what was debited is what came less what left.
pub(super) fn adds_up(world: &World) {
    for seat in &world.seats {
        let book = seat.machine.replica.book();
        let sum = |totals: &mut dyn Iterator<Item = Total>| totals.map(number).sum::<i128>();
        let credits = sum(&mut book.accounts().map(|(_, account)| account.credits_posted()));
        let debits = sum(&mut book.accounts().map(|(_, account)| account.debits_posted()));
        let came = sum(&mut book.imported().map(|(_, total)| *total));
        let left = sum(&mut book.exported().map(|(_, total)| *total));
        assert_eq!(credits - debits, came - left);
    }
}

/// In the end: every book is what the entries of all shards make of it, each leg credited once, and what left came.
pub(super) fn balances(world: &World) {
    adds_up(world);
    let mut by_hand: BTreeMap<AccountId, (i128, i128)> = BTreeMap::new();
    let mut crossed: BTreeMap<(u16, u16), i128> = BTreeMap::new();
    for entry in world.users.settled.values() {
        for leg in entry.legs() {
            let amount = i128::try_from(leg.amount.0).expect("small");
            by_hand.entry(entry.id.spender).or_default().1 += amount;
            by_hand.entry(leg.to).or_default().0 += amount;
            if leg.to.shard != entry.id.spender.shard {
                *crossed.entry((entry.id.spender.shard, leg.to.shard)).or_default() += amount;
            }
        }
    }
    for seat in &world.seats {
        let book = seat.machine.replica.book();
        for (id, account) in book.accounts() {
            let (credits, debits) = by_hand.get(&id).copied().unwrap_or_default();
            assert_eq!(number(account.credits_posted()), credits, "{id} is credited each leg once");
            assert_eq!(number(account.debits_posted()), debits, "{id}");
        }
        let own = book.shard();
        let left: BTreeMap<u16, i128> =
            book.exported().map(|(to, total)| (to.shard, number(*total))).collect();
        let came: BTreeMap<u16, i128> =
            book.imported().map(|(of, total)| (of.shard, number(*total))).collect();
        let of = |pick: &dyn Fn(&(u16, u16)) -> Option<u16>| {
            crossed
                .iter()
                .filter_map(|(pair, sum)| Some((pick(pair)?, *sum)))
                .collect::<BTreeMap<u16, i128>>()
        };
        assert_eq!(left, of(&|(from, to)| (*from == own).then_some(*to)), "exported");
        assert_eq!(came, of(&|(from, to)| (*to == own).then_some(*from)), "imported");
    }
}
