//! Profile II: what settles is spent by what f + 1 members say of it, and what is not funded then is rejected.

use std::sync::Arc;

use synod_astro::{
    BackedBatches, Credited, Dependency, EntryProof, Input, Level, Opened, Output, Profile, Refusal, Rule,
    Setup, Vouch, With, Withs,
};
use synod_broadcast::signed::{self, Except};
use synod_broadcast::{Lot, SignedBroadcast};
use synod_crypto::{Hash, Keys, Scope, merkle};
use synod_ledger::{AccountId, Book, Code, Entry, EntryId, Flags, Kind, Total, genesis};
use synod_machine::testing::{Users, World as Members, pick};
use synod_quorum::NodeId;
use synod_wire::{Drawn, List};

use crate::bank::{
    CLUSTER, CONTEXT, EPOCH, LIMIT, Tells, Told, agrees, custodial, digest, draft, equal_books, issuer, keys,
    numbers, order, pay, settle, signing, told, view,
};
use crate::forge::{LIAR, carried, prepare};

type Replica = synod_astro::Replica<SignedBroadcast<BackedBatches>>;
type World = Members<Clerks>;

/// The users of all members.
struct Clerks {
    n: u32,
    told: Vec<Told>,
}

fn world(n: u32, seed: u64) -> World {
    let told = (0..n).map(|_| Told::backed());
    Members::new(n, seed, Clerks { n, told: told.collect() })
}

impl Users for Clerks {
    type Machine = Replica;

    fn config(&self, id: NodeId) -> Setup<SignedBroadcast<BackedBatches>> {
        let mut config = numbers(self.n, id);
        config.parameters.profile = Profile::II;
        (config.parameters.batch_max, config.parameters.window) = (256, 256);
        config.parameters.batch_bytes = 64 << 10;
        let channel = signed::Setup::under(id, view(self.n), config.parameters.bounds());
        Setup { config, channel: Box::new(channel) }
    }

    fn keys(&self, id: NodeId) -> Keys {
        keys(id.0)
    }

    fn told(&mut self, id: NodeId, output: Output) -> Vec<Input> {
        self.told[id.0 as usize].hear(output)
    }
}

impl Tells for Clerks {
    fn told(&self) -> &[Told] {
        &self.told
    }

    fn book(machine: &Replica) -> &Book {
        machine.book()
    }
}

/// What an account has and what waits for it, at a member.
fn look(world: &mut World, member: u32, account: AccountId) -> (u128, u128) {
    world.ask(NodeId(member), Input::Look { ticket: 77, from: account, count: 1 });
    let seen = &world.users.told[member as usize].looked[&77][0];
    let units = |total: Total| total.to_string().parse().expect("small");
    (units(seen.available), units(seen.incoming))
}

/// A-S5 at a member: what all have less what issuers owe, and what is under way, is nothing.
fn conserved(world: &mut World, member: u32) -> bool {
    let n = world.users.n;
    let accounts = (0..n).flat_map(|lane| [issuer(lane), custodial(lane), signing(lane)]);
    let sums = accounts.map(|account| look(world, member, account));
    sums.fold(0, |sum, (available, incoming)| sum + available + incoming) == LIMIT * u128::from(n)
}

/// Orders until the representative takes it: money that is on its way comes.
fn insist(world: &mut World, ticket: u64, spender: AccountId, to: AccountId, amount: u128) -> bool {
    (0..300).any(|_| {
        order(world, ticket, spender, to, amount);
        let is_taken = world.users.told[spender.registrar as usize].accepted.contains_key(&ticket);
        if !is_taken {
            world.go_on(100);
        }
        is_taken
    })
}

#[test]
fn what_came_can_be_spent_once_enough_members_say_so_and_never_twice() {
    let mut world = world(4, 1);
    order(&mut world, 1, issuer(0), custodial(1), 500);
    assert!(settle(&mut world, 1));
    assert_eq!(look(&mut world, 2, custodial(1)), (0, 500), "it waits for its beneficiary (E30)");
    assert!(insist(&mut world, 2, custodial(1), custodial(2), 300));
    order(&mut world, 3, custodial(1), custodial(2), 201);
    assert_eq!(world.users.told[1].refused[&3], Refusal::Ledger(Code::InsufficientFunds));
    order(&mut world, 4, custodial(1), custodial(3), 200);
    assert!(world.users.told[1].accepted.contains_key(&4), "what is left can be spent as well");
    assert!(settle(&mut world, 3));
    for member in 0..4 {
        assert_eq!(look(&mut world, member, custodial(1)), (0, 0));
        assert_eq!(look(&mut world, member, custodial(2)), (0, 300));
        assert!(conserved(&mut world, member));
    }
    let rules = &world.seats[1].rules;
    assert!(rules.contains(Rule::Credit.name()) && rules.contains(Rule::Depend.name()));
    assert!(told(&world).all(|told| told.rejected.is_empty()));
    equal_books(&world);
}

/// Everybody pays everybody, with crashes or without; what was paid can be spent in the end (A-L3).
#[test]
fn everybody_pays_everybody_nothing_is_lost_and_all_of_it_can_be_spent() {
    let mut crashed = 0;
    for (seed, n) in (0..16).zip([4, 5, 4, 7].into_iter().cycle()) {
        let mut world = world(n, seed);
        let mut drawn = Drawn::new(seed ^ 0x22);
        world.loss = [0, 50, 150][pick(&mut drawn, 3)];
        let accounts: Vec<AccountId> = (0..n).flat_map(|lane| [issuer(lane), custodial(lane)]).collect();
        for ticket in 1..=50 {
            let from = accounts[pick(&mut drawn, accounts.len())];
            let to = accounts[pick(&mut drawn, accounts.len())];
            order(&mut world, ticket, from, to, u128::from(1 + drawn.below(300)));
            world.go_on(drawn.below(80));
            if seed % 2 == 1 && ticket % 5 == 0 {
                let id = NodeId(u32::try_from(drawn.below(u64::from(n))).expect("few"));
                world.restart(id, drawn.below(2) == 0);
                crashed += 1;
            }
        }
        let certified = |world: &World| {
            let all = told(world).map(|told| &told.levels);
            all.map(|all| all.values().filter(|of| of.contains(&Level::Certified)).count()).sum::<usize>()
        };
        let count = certified(&world);
        assert!(settle(&mut world, count), "seed {seed}");
        for lane in 0..n {
            let spends = |world: &mut World| {
                let (available, incoming) = look(world, lane, custodial(lane));
                let (all, ticket) = (available + incoming, 1_000 + u64::from(lane));
                if all > 0 {
                    order(world, ticket, custodial(lane), issuer(lane), all);
                }
                all == 0 || world.users.told[lane as usize].accepted.contains_key(&ticket)
            };
            let is_spent = (0..300).any(|_| {
                let is_spent = spends(&mut world);
                world.go_on(if is_spent { 0 } else { 100 });
                is_spent
            });
            assert!(is_spent, "seed {seed}: all that {lane} has can be spent");
        }
        world.loss = 0;
        let count = certified(&world);
        assert!(settle(&mut world, count), "seed {seed}");
        world.go_on(20_000);
        assert!(settle(&mut world, count), "seed {seed}");
        assert!(world.correct().all(|(_, seat)| seat.blamed.is_empty()), "seed {seed}");
        assert!(told(&world).all(|told| told.rejected.is_empty()), "who keeps to the rules is not rejected");
        assert!((0..n).all(|member| conserved(&mut world, member)), "seed {seed}");
        assert!(told(&world).all(Told::is_solvent), "seed {seed}");
        assert!(agrees(&world));
        equal_books(&world);
    }
    assert!(crashed >= 50);
}

/// T5: whoever represents the beneficiary heard nothing, or forgot all of it.
#[test]
fn words_that_did_not_arrive_are_asked_for() {
    for is_restarted in [false, true] {
        let mut world = world(4, 5);
        world.deaf = vec![NodeId(1)];
        order(&mut world, 1, issuer(0), custodial(1), 50);
        assert!(world.until(|world| world.users.told[2].settled.len() == 1));
        world.go_on(2_000);
        world.deaf.clear();
        assert!(settle(&mut world, 1));
        if is_restarted {
            world.restart(NodeId(1), true);
        }
        assert!(insist(&mut world, 2, custodial(1), custodial(2), 50));
        assert!(settle(&mut world, 2));
        equal_books(&world);
    }
}

/// T13.
#[test]
fn a_whole_balance_that_goes_to_its_owner_comes_back_by_its_own_credit() {
    let mut world = world(4, 2);
    order(&mut world, 1, issuer(0), custodial(0), 50);
    assert!(settle(&mut world, 1));
    for _ in 0..300 {
        let mut itself = draft(custodial(0), pay(custodial(0), 50), 2);
        itself.flags = Flags::ALLOW_SELF;
        world.ask(NodeId(0), Input::Order { ticket: 2, draft: itself });
        world.go_on(100);
    }
    assert!(world.users.told[0].accepted.contains_key(&2));
    assert!(insist(&mut world, 3, custodial(0), custodial(1), 50));
    assert!(settle(&mut world, 3));
    assert!((0..4).all(|member| conserved(&mut world, member)));
    equal_books(&world);
}

#[test]
pub(crate) fn money_cannot_be_set_aside() {
    let mut world = world(4, 3);
    let hold = Kind::Hold {
        to: custodial(1),
        amount: synod_ledger::Units(5),
        resolver: custodial(2),
        expires_at: 0,
    };
    world.ask(NodeId(0), Input::Order { ticket: 1, draft: draft(issuer(0), hold, 1) });
    assert_eq!(world.users.told[0].refused[&1], Refusal::Ledger(Code::Unsupported));
    assert_eq!(Code::Unsupported.number(), 3_003);
}

/// A dependency on one payment, as these members sign it.
fn dependency(entry: &Entry, by: &[u32]) -> Dependency {
    let root = merkle::DigestTree::new(&[digest(entry)]).root();
    let said = by.iter().map(|by| {
        let open = Except::default();
        let statement = Credited { context: CONTEXT, root, open: open.digest() };
        let scope = Scope { cluster: CLUSTER, epoch: EPOCH };
        let signature = keys(*by).sign(scope, NodeId(*by), statement).signature;
        Vouch { member: u8::try_from(*by).expect("few"), open, signature }
    });
    let proof = EntryProof { index: 0, count: 1, path: List::default() };
    let said = List::try_from(said.collect::<Vec<_>>()).expect("few");
    Dependency { entry: Arc::new(entry.clone()), with: Hash::ZERO, proof, root, said }
}

/// A batch of the liar's, of payments of its own customers with what each is backed with, to all.
fn broadcast(
    world: &mut World,
    (sequence, prev): (u64, Hash),
    entries: Vec<(AccountId, AccountId, u128, Vec<Dependency>)>,
) -> Opened {
    let mut heads: std::collections::BTreeMap<AccountId, (u64, Hash)> = std::collections::BTreeMap::new();
    let (mut lines, mut withs) = (Vec::new(), Vec::new());
    for (at, (spender, to, amount, with)) in (1_u128..).zip(entries) {
        let (n, prev) = heads.get(&spender).copied().unwrap_or_else(|| (0, genesis(spender)));
        let line = carried(spender, n + 1, prev, pay(to, amount), 1_000 * u128::from(sequence) + at);
        let with = (!with.is_empty()).then(|| With::new(Withs::new(with)));
        // The digest of a backed entry is that of a batch of it alone.
        let alone = Opened::new_backed(
            0,
            Lot { source: 3, sequence },
            Hash::ZERO,
            Vec::new(),
            (vec![line.clone()], vec![with.clone()]),
        );
        heads.insert(spender, (n + 1, alone.digests[0]));
        lines.push(line);
        withs.push(with);
    }
    let opened = Opened::new_backed(0, Lot { source: 3, sequence }, prev, Vec::new(), (lines, withs));
    for to in 0..3 {
        world.say(LIAR, NodeId(to), prepare(&opened));
    }
    opened
}

/// The liar's customer was paid 50.
fn paid_to_the_liar(seed: u64) -> (World, Entry) {
    let mut world = world(4, seed);
    world.liar = Some(LIAR);
    order(&mut world, 1, issuer(0), custodial(3), 50);
    assert!(settle(&mut world, 1));
    let id = EntryId { spender: issuer(0), n: 1 };
    let entry = world.users.told[0].settled[&id].0.clone();
    (world, entry)
}

/// T9 and T10 (E19): the place is used, what it depended on stays credited, and the log goes on.
#[test]
fn an_entry_without_money_is_rejected_and_the_next_one_settles() {
    let (mut world, payment) = paid_to_the_liar(4);
    let with = vec![dependency(&payment, &[0, 1])];
    let own = custodial(3);
    broadcast(
        &mut world,
        (1, Hash::ZERO),
        vec![(own, custodial(0), 60, with), (own, custodial(0), 10, vec![])],
    );
    assert!(settle(&mut world, 3));
    for told in told(&world) {
        assert!(told.rejected.iter().eq([&EntryId { spender: own, n: 1 }]) && told.is_solvent());
    }
    for member in 0..3 {
        assert_eq!(look(&mut world, member, own), (40, 0));
        assert_eq!(look(&mut world, member, custodial(0)), (0, 10));
    }
    assert!(world.seats[0].rules.contains(Rule::Reject.name()));
    assert!(insist(&mut world, 9, custodial(0), custodial(1), 10), "what was paid can be spent");
    assert!(settle(&mut world, 4));
    assert!((0..3).all(|member| conserved(&mut world, member)));
    equal_books(&world);
}

/// What an order without money is told, and whether a liar's entry without money takes its place and moves nothing.
pub(crate) fn is_rejected_without_money() -> (Refusal, bool) {
    let (mut world, payment) = paid_to_the_liar(5);
    order(&mut world, 7, custodial(1), custodial(2), 5);
    let why = world.users.told[1].refused[&7];
    let with = vec![dependency(&payment, &[0, 1])];
    broadcast(&mut world, (1, Hash::ZERO), vec![(custodial(3), custodial(0), 60, with)]);
    assert!(settle(&mut world, 2));
    let id = EntryId { spender: custodial(3), n: 1 };
    let is_rejected = told(&world).all(|told| told.rejected.iter().eq([&id]));
    (why, is_rejected && look(&mut world, 1, custodial(3)) == (50, 0))
}

/// T6 (E20): by other signers, in other entries, one payment is credited once.
#[test]
pub(crate) fn a_payment_that_is_shown_again_is_credited_once() {
    let (mut world, payment) = paid_to_the_liar(6);
    let own = custodial(3);
    let entries = vec![
        (own, custodial(0), 30, vec![dependency(&payment, &[0, 1])]),
        (own, custodial(1), 30, vec![dependency(&payment, &[1, 2])]),
        (own, custodial(2), 20, vec![dependency(&payment, &[0, 2])]),
    ];
    broadcast(&mut world, (1, Hash::ZERO), entries);
    assert!(settle(&mut world, 4));
    for told in told(&world) {
        let own = EntryId { spender: own, n: 2 };
        assert!(told.rejected.iter().eq([&own]) && told.is_solvent(), "50 are 50");
    }
    assert!((0..3).all(|member| conserved(&mut world, member)));
    equal_books(&world);
}

/// T6 to T8 (E21, E22, E24): too few members, another's payment, a word that is not theirs, the same one twice.
#[test]
pub(crate) fn a_dependency_that_proves_nothing_is_not_endorsed_and_holds_no_other_entry_up() {
    let (mut world, payment) = paid_to_the_liar(7);
    let mut never = payment.clone();
    never.kind = pay(custodial(3), 1_000);
    let mut garbage = dependency(&payment, &[0, 1]);
    let strange = dependency(&never, &[0, 1]);
    garbage.said = strange.said;
    let good = dependency(&payment, &[0, 1]);
    let bad = [
        vec![dependency(&payment, &[3])],
        vec![dependency(&payment, &[3, 3])],
        vec![garbage],
        vec![good.clone(), good.clone()],
    ];
    let mut entries: Vec<_> = bad.map(|with| (custodial(3), custodial(0), 10, with)).into_iter().collect();
    // Another's payment.
    entries.push((issuer(3), custodial(1), 5, vec![good]));
    let mut head = Hash::ZERO;
    for (sequence, entry) in (1..).zip(entries) {
        head = broadcast(&mut world, (sequence, head), vec![entry]).digest;
        world.go_on(1_500);
    }
    assert!(told(&world).all(|told| told.settled.len() == 1), "nothing of it is certified");
    let excluded = world.correct().all(|(_, seat)| seat.rules.contains(Rule::Exclude.name()));
    assert!(excluded, "and all looked at it");
    order(&mut world, 9, issuer(1), custodial(1), 5);
    assert!(settle(&mut world, 2));
    equal_books(&world);
}

/// T36 (E27).
#[test]
fn one_entry_without_money_among_two_hundred_keeps_no_other_from_being_spent() {
    let mut world = world(4, 8);
    world.liar = Some(LIAR);
    let mut entries: Vec<_> = (0..199).map(|_| (issuer(3), custodial(0), 1, vec![])).collect();
    entries.insert(77, (custodial(3), custodial(0), 1, vec![]));
    broadcast(&mut world, (1, Hash::ZERO), entries);
    assert!(settle(&mut world, 200));
    assert!(told(&world).all(|told| told.rejected.len() == 1));
    assert_eq!(look(&mut world, 1, custodial(0)), (0, 199));
    // So many words go with several entries.
    let mut spent = 0;
    for ticket in 1..=20 {
        let (available, incoming) = look(&mut world, 0, custodial(0));
        let next = (199 - spent).min(40);
        if available + incoming == 0 || next == 0 {
            break;
        }
        if insist(&mut world, ticket, custodial(0), custodial(1), next) {
            spent += next;
        }
        let count = 200 + usize::try_from(ticket).expect("few");
        assert!(settle(&mut world, count));
    }
    assert_eq!(spent, 199);
    assert!((0..3).all(|member| conserved(&mut world, member)));
    equal_books(&world);
}

/// Found by `astro/ii`: of more payments than go with one entry the first ones went, whatever they were worth.
#[test]
fn many_small_payments_keep_no_entry_from_being_paid_by_a_large_one() {
    let mut world = world(4, 9);
    for ticket in 1..=70 {
        order(&mut world, ticket, issuer(0), custodial(1), 1);
    }
    order(&mut world, 71, issuer(3), custodial(1), 500);
    assert!(settle(&mut world, 71));
    assert!(insist(&mut world, 72, custodial(1), custodial(2), 500));
    assert!(settle(&mut world, 72));
    assert!(told(&world).all(|told| told.rejected.is_empty()));
    assert!((0..4).all(|member| conserved(&mut world, member)));
    equal_books(&world);
}
