//! What a wallet promises its owner, whatever replicas say and whenever it crashes.

use std::collections::{BTreeMap, BTreeSet};

use synod_astro::wallet::{Answer, Log, Output, Record, Refusal, Stop, Word};
use synod_astro::{Input, Level, Line, Rule};
use synod_crypto::Hash;
use synod_ledger::{AccountId, EntryId, genesis};
use synod_machine::Span;
use synod_machine::testing::pick;
use synod_quorum::NodeId;
use synod_wire::{Drawn, List};

use crate::bank::{
    Bank, World, account, agrees, custodial, digest, draft, equal_books, first, issuer, order, pay, settle,
    signed, signing, told,
};
use crate::forge::LIAR;
use crate::purse::{Purse, live, until};

const OWNER: AccountId = AccountId { shard: 0, registrar: 0, local: 3 };

/// Four members, and an owner with 100.
fn begun(seed: u64) -> (World, Purse, Drawn) {
    let mut world = Bank::world(4, seed);
    order(&mut world, 1, issuer(0), OWNER, 100);
    assert!(settle(&mut world, 1));
    let purse = Purse::fresh(4, OWNER, world.now());
    (world, purse, Drawn::new(seed ^ 0x5eed))
}

/// What settled of the owner's log at members that do not lie.
fn settled(world: &World) -> Vec<BTreeMap<u64, Hash>> {
    let of = |(id, (_, hash)): (&EntryId, &(synod_ledger::Entry, Hash))| {
        (id.spender == OWNER).then_some((id.n, *hash))
    };
    told(world).map(|told| told.settled.iter().filter_map(of).collect()).collect()
}

fn has_settled(world: &World, n: u64) -> bool {
    settled(world).iter().all(|log| log.contains_key(&n))
}

fn payment(ticket: u64, amount: u128) -> synod_astro::Draft {
    draft(OWNER, pay(custodial(1), amount), u128::from(ticket))
}

#[test]
fn an_entry_is_signed_once_enough_would_endorse_it_and_is_told_as_sure_as_it_is() {
    let (mut world, mut purse, mut drawn) = begun(1);
    purse.pay(10, payment(10, 60), Span::secs(60), world.now());
    purse.pay(11, payment(11, 41), Span::secs(60), world.now());
    purse.pay(12, payment(12, 40), Span::secs(60), world.now());
    let is_over = |_: &World, purse: &Purse| {
        purse.levels() == BTreeMap::from([(1, Level::Stable), (2, Level::Stable)])
            && purse.refused().len() == 1
    };
    assert!(until(&mut world, &mut purse, &mut drawn, is_over), "{:?}", purse.told);
    assert_eq!(purse.refused(), BTreeMap::from([(11, Refusal::Denied(3115))]));
    assert!(
        purse
            .told
            .iter()
            .any(|output| matches!(output, Output::Signed { ticket: 12, line } if line.entry.id.n == 2))
    );
    assert!(purse.left.values().all(|entries| entries.len() == 1));
    assert_eq!(purse.file.len(), 1, "what is stable is kept as one place: {:?}", purse.file);
    assert!(settled(&world).iter().filter(|log| log.len() == 2).count() >= 3);
}

/// T50: one replica lies that it would endorse what is not funded, or goes to nobody.
#[test]
fn one_lying_replica_gets_nothing_signed() {
    for seed in 0..10 {
        let (mut world, mut purse, mut drawn) = begun(seed);
        world.liar = Some(LIAR);
        purse.lies = |_, word| match word {
            Word::Check { entry, .. } => vec![Word::Checked { digest: digest(&entry), answer: Answer::Yes }],
            _ => Vec::new(),
        };
        purse.pay(10, payment(10, 101), Span::secs(30), world.now());
        purse.pay(11, draft(OWNER, pay(account(1, 77), 1), 11), Span::secs(30), world.now());
        purse.pay(12, draft(OWNER, pay(custodial(1), 0), 12), Span::secs(30), world.now());
        assert!(until(&mut world, &mut purse, &mut drawn, |_, purse| purse.refused().len() == 3));
        let why = |code| Refusal::Denied(code);
        assert_eq!(purse.refused(), BTreeMap::from([(10, why(3115)), (11, why(3106)), (12, why(3107))]));
        assert!(purse.left.is_empty() && purse.file.len() == 1, "nothing is signed, seed {seed}");
    }
}

#[test]
fn a_refusal_by_one_replica_stops_nobody() {
    let (mut world, mut purse, mut drawn) = begun(3);
    world.liar = Some(LIAR);
    purse.lies = |_, word| match word {
        Word::Check { entry, .. } => vec![Word::Checked { digest: digest(&entry), answer: Answer::No(3118) }],
        Word::Submit(line) => vec![Word::Submitted { digest: digest(&line.entry), answer: Answer::No(3104) }],
        Word::Read(account) => vec![Purse::stated(account, 9, Hash([9; 32]))],
        _ => Vec::new(),
    };
    purse.pay(10, payment(10, 100), Span::secs(60), world.now());
    let is_over = |_: &World, purse: &Purse| purse.levels().get(&1) == Some(&Level::Stable);
    assert!(until(&mut world, &mut purse, &mut drawn, is_over), "{:?}", purse.told);
}

/// T40, T18: the representative is away. The caller is told that the outcome is unknown, and another replica settles the same bytes.
#[test]
fn behind_a_silent_representative_the_outcome_is_unknown_until_another_replica_settles_the_same_bytes() {
    for seed in 0..10 {
        let (mut world, mut purse, mut drawn) = begun(seed);
        purse.silent.insert(NodeId(0));
        purse.pay(10, payment(10, 60), Span::millis(350), world.now());
        let is_unknown = |_: &World, purse: &Purse| {
            purse.told.iter().any(|output| matches!(output, Output::Unknown { ticket: 10, .. }))
        };
        assert!(until(&mut world, &mut purse, &mut drawn, is_unknown), "{:?}", purse.told);
        assert_eq!(purse.refused(), BTreeMap::new(), "what is signed is never refused");
        let is_over = |world: &World, purse: &Purse| {
            purse.levels().get(&1).is_some_and(|level| *level >= Level::Settled) && has_settled(world, 1)
        };
        assert!(until(&mut world, &mut purse, &mut drawn, is_over), "seed {seed}: {:?}", purse.told);
        assert!(purse.rules.contains(Rule::Elsewhere.name()), "the representative took nothing");
        // The next order, with another caller.
        purse.pay(11, payment(11, 40), Span::secs(60), world.now());
        let is_over =
            |_: &World, purse: &Purse| purse.levels().get(&2).is_some_and(|level| *level >= Level::Settled);
        assert!(until(&mut world, &mut purse, &mut drawn, is_over), "seed {seed}: {:?}", purse.told);
        assert!(purse.left.values().all(|entries| entries.len() == 1), "one entry per place");
    }
}

/// What one member of four answers that lies as it likes.
fn any_lie(drawn: &mut Drawn, word: Word) -> Vec<Word> {
    let any = |drawn: &mut Drawn| match drawn.below(3) {
        0 => Answer::Yes,
        1 => Answer::No(u16::try_from(3_100 + drawn.below(30)).expect("small")),
        _ => Answer::Busy(1),
    };
    match word {
        _ if drawn.below(5) == 0 => Vec::new(),
        Word::Check { entry, .. } => vec![Word::Checked { digest: digest(&entry), answer: any(drawn) }],
        Word::Submit(line) => vec![Word::Submitted { digest: digest(&line.entry), answer: any(drawn) }],
        Word::Read(of) => {
            let forged = first(signing(1), pay(custodial(2), 1), 3);
            let entry = synod_ledger::Entry {
                id: EntryId { spender: of, n: 1 + drawn.below(9) },
                ..(*forged.entry).clone()
            };
            let forged = synod_astro::Line { entry: entry.into(), ..forged };
            let log = synod_astro::wallet::Log {
                account: of,
                sequence: drawn.below(9),
                head: Hash([u8::try_from(drawn.below(9)).expect("small"); 32]),
                open: vec![forged].try_into().expect("one"),
            };
            vec![Word::Here(Box::new(log))]
        }
        other => vec![other],
    }
}

/// Eight orders of one owner, with what happens to wallet and network between; gives the names of those that cannot be paid, and how
/// often the wallet crashed.
fn troubled(world: &mut World, purse: &mut Purse, drawn: &mut Drawn) -> (BTreeSet<u128>, usize) {
    let (mut never, mut crashes) = (BTreeSet::new(), 0);
    for ticket in 10..18 {
        let amount = [1, 5, 9, 400][pick(drawn, 4)];
        if amount == 400 {
            never.insert(u128::from(ticket));
        }
        let within = Span::millis([50, 500, 5_000][pick(drawn, 3)]);
        purse.pay(ticket, payment(ticket, amount), within, world.now());
        let steps = u32::try_from(drawn.below(400)).expect("small");
        live(world, purse, drawn, steps);
        match drawn.below(8) {
            0 => {
                purse.restart(world.now());
                crashes += 1;
            }
            1 => drop(purse.silent.insert(NodeId(0))),
            2 => purse.silent.clear(),
            3 => order(world, ticket, issuer(1), custodial(2), 1),
            _ => {}
        }
    }
    purse.silent.clear();
    purse.loss = 0;
    (never, crashes)
}

/// The last place that the wallet's file names.
fn last_kept(purse: &Purse) -> u64 {
    let places = purse.file.iter().map(|record| match record {
        Record::Based { n, .. } => *n,
        Record::Signed(line) => line.entry.id.n,
    });
    places.max().unwrap_or(0)
}

/// What an owner may rely on: one entry per place, nothing that cannot be paid or was refused, no level that is not so.
fn keeps_its_word(world: &World, purse: &Purse, never: &BTreeSet<u128>) {
    assert!(purse.left.values().all(|entries| entries.len() == 1), "two entries for one place");
    assert!(agrees(world));
    assert!(!purse.told.iter().any(|output| matches!(output, Output::Stopped(_))));
    for (n, hash) in settled(world).into_iter().flatten() {
        assert!(purse.left[&n].contains(&hash.0), "what settled was signed");
    }
    let names: BTreeSet<u128> = told(world)
        .flat_map(|told| told.settled.values())
        .filter(|(entry, _)| entry.id.spender == OWNER)
        .map(|(entry, _)| entry.transfer)
        .collect();
    assert!(names.is_disjoint(never), "what cannot be paid is not signed");
    assert!(
        purse.refused().keys().all(|ticket| !names.contains(&u128::from(*ticket))),
        "what was refused happened"
    );
    for (n, level) in purse.levels() {
        assert!(level < Level::Settled || settled(world).iter().any(|log| log.contains_key(&n)));
    }
}

/// A32 is found here: whoever signs a new entry once a caller's deadline passed shows two for one place.
#[test]
fn one_entry_is_signed_per_place_and_settles_whatever_replicas_say_and_whenever_the_wallet_crashes() {
    let (mut unknown, mut refused, mut signed, mut crashed) = (0, 0, 0, 0);
    for seed in 0..80 {
        let (mut world, mut purse, mut drawn) = begun(seed);
        world.liar = (drawn.below(4) > 0).then_some(LIAR);
        (purse.lies, purse.loss) = (any_lie, drawn.below(300));
        let (never, crashes) = troubled(&mut world, &mut purse, &mut drawn);
        // An order of which nothing is signed is refused at its deadline at the latest.
        let is_over = |world: &World, purse: &Purse| {
            let last = last_kept(purse);
            last == 0 || has_settled(world, last) && purse.file.len() == 1 && purse.told.len() >= 8
        };
        assert!(until(&mut world, &mut purse, &mut drawn, is_over), "seed {seed}: {:?}", purse.told);
        keeps_its_word(&world, &purse, &never);
        let count = |wanted: fn(&Output) -> bool| purse.told.iter().filter(|output| wanted(output)).count();
        unknown += count(|output| matches!(output, Output::Unknown { .. }));
        refused += count(|output| matches!(output, Output::Refused { .. }));
        (signed, crashed) = (signed + purse.left.len(), crashed + crashes);
        if world.liar.is_none() {
            equal_books(&world);
        }
    }
    assert!(
        unknown > 20 && refused > 50 && signed > 150 && crashed > 20,
        "{unknown} {refused} {signed} {crashed}"
    );
}

/// What a member shows of the owner's log, in which nothing has settled.
fn shows(open: Vec<Line>) -> Word {
    let open = List::try_from(open).expect("few");
    Word::Here(Box::new(Log { account: OWNER, sequence: 0, head: genesis(OWNER), open }))
}

#[test]
fn what_the_owner_signed_for_another_account_stops_no_wallet() {
    let (mut world, mut purse, mut drawn) = begun(7);
    assert!(until(&mut world, &mut purse, &mut drawn, |_, purse| purse.told.contains(&Output::Ready(0))));
    // Keys of the same number in two shards are one.
    let other = AccountId { shard: 1, ..OWNER };
    let elsewhere = first(other, pay(custodial(1), 1), 5);
    let made_up = Line { auth: elsewhere.auth, ..first(OWNER, pay(custodial(1), 2), 6) };
    for _ in 0..3 {
        purse.hear(LIAR, shows(vec![made_up.clone(), elsewhere.clone()]), world.now());
    }
    assert!(!purse.told.iter().any(|output| matches!(output, Output::Stopped(_))), "{:?}", purse.told);
    purse.pay(10, payment(10, 60), Span::secs(60), world.now());
    assert!(until(&mut world, &mut purse, &mut drawn, |world, _| has_settled(world, 1)));
}

#[test]
fn what_was_being_signed_when_a_wallet_stopped_goes_nowhere() {
    let (mut world, mut purse, mut drawn) = begun(8);
    purse.is_slow = true;
    purse.pay(10, payment(10, 60), Span::secs(60), world.now());
    assert!(until(&mut world, &mut purse, &mut drawn, |_, purse| purse.is_signing()));
    let elsewhere = first(OWNER, pay(custodial(1), 2), 6);
    purse.hear(LIAR, shows(vec![elsewhere]), world.now());
    assert_eq!(
        purse.told.last(),
        Some(&Output::Stopped(Stop::Foreign(1))),
        "another wallet signed for its place"
    );
    purse.sign(world.now());
    assert_eq!(purse.refused(), BTreeMap::from([(10, Refusal::Stopped(Stop::Foreign(1)))]));
    assert!(purse.left.is_empty() && purse.file.len() == 1, "nothing is kept and nothing leaves");
}

/// Three members hold entry 1 open, and nothing of it gets further.
fn held_open(seed: u64) -> (World, Purse, Drawn) {
    let (mut world, mut purse, mut drawn) = begun(seed);
    let all = [NodeId(0), NodeId(1), NodeId(2), NodeId(3)];
    assert!(until(&mut world, &mut purse, &mut drawn, |_, purse| !purse.told.is_empty()));
    purse.pay(10, payment(10, 60), Span::secs(60), world.now());
    // Questions are answered at once, so that nothing else happens until it is signed.
    assert!((0..1_000).any(|_| purse.file.len() == 2 || {
        purse.happen(&mut world, &mut drawn);
        false
    }));
    let Some(Record::Signed(line)) = purse.file.last().cloned() else { unreachable!("signed") };
    world.deaf = all.to_vec();
    for (ticket, member) in [(90, 0), (91, 1), (92, 2)] {
        world.ask(NodeId(member), Input::Signed { ticket, line: line.clone() });
    }
    world.go_on(60);
    (world, purse, drawn)
}

#[test]
fn without_its_file_a_wallet_takes_over_what_a_quorum_shows_if_somebody_accepts_the_risk() {
    for seed in 0..10 {
        let (mut world, before, mut drawn) = held_open(seed);
        let stopped = Purse::new(4, OWNER, Vec::new(), false, world.now());
        assert_eq!(stopped.told, [Output::Stopped(Stop::NoFile)], "nobody accepted the risk");
        let mut purse = Purse::new(4, OWNER, Vec::new(), true, world.now());
        purse.silent.insert(NodeId(3));
        let is_ready = |_: &World, purse: &Purse| purse.told.contains(&Output::Ready(1));
        assert!(until(&mut world, &mut purse, &mut drawn, is_ready), "seed {seed}: {:?}", purse.told);
        assert!(before.file.last().is_some_and(|record| purse.file.contains(record)), "the entry is adopted");
        assert!(purse.rules.contains(Rule::TakeOver.name()));
        world.deaf.clear();
        purse.pay(11, payment(11, 40), Span::secs(60), world.now());
        assert!(until(&mut world, &mut purse, &mut drawn, |world, _| has_settled(world, 2)), "seed {seed}");
        assert!(agrees(&world));
    }
}

/// Three members hold nothing open, and one shows what the owner signed long ago behind a place that nobody shows.
#[test]
fn one_member_that_shows_an_entry_behind_a_gap_keeps_no_wallet_without_its_file_reading() {
    for seed in 0..10 {
        let (mut world, _, mut drawn) = begun(seed);
        world.liar = Some(LIAR);
        let mut purse = Purse::new(4, OWNER, Vec::new(), true, world.now());
        // The quorum has the liar in it.
        purse.silent.insert(NodeId(0));
        purse.lies = |_, word| match word {
            Word::Read(_) => {
                let behind = EntryId { spender: OWNER, n: 2 };
                vec![shows(vec![signed(behind, Hash([9; 32]), pay(custodial(1), 1), 5)])]
            }
            _ => Vec::new(),
        };
        let is_ready = |_: &World, purse: &Purse| purse.told.contains(&Output::Ready(0));
        assert!(until(&mut world, &mut purse, &mut drawn, is_ready), "seed {seed}: {:?}", purse.told);
        assert!(purse.reads >= 8, "all were asked again before it was let go of");
    }
}

/// Who shows the entry behind a gap is not alone here: what stands between comes with the second look.
#[test]
fn an_entry_behind_a_gap_is_adopted_where_the_second_look_shows_what_stands_between() {
    let (world, _, _) = begun(5);
    let one = first(OWNER, pay(custodial(1), 1), 5);
    let two = signed(EntryId { spender: OWNER, n: 2 }, digest(&one.entry), pay(custodial(1), 2), 6);
    let mut purse = Purse::new(4, OWNER, Vec::new(), true, world.now());
    for member in 0..3 {
        purse.hear(NodeId(member), shows(vec![two.clone()]), world.now());
    }
    assert_eq!(purse.told, [], "it asks again");
    for member in 0..2 {
        purse.hear(NodeId(member), shows(vec![two.clone()]), world.now());
    }
    purse.hear(NodeId(2), shows(vec![one.clone(), two.clone()]), world.now());
    assert_eq!(purse.told, [Output::Ready(2)]);
    assert_eq!(purse.file[1..], [Record::Signed(one), Record::Signed(two)]);
}

#[test]
fn who_says_again_and_again_that_it_took_an_entry_makes_nobody_ask_all_members_again() {
    let (mut world, mut purse, mut drawn) = begun(6);
    assert!(until(&mut world, &mut purse, &mut drawn, |_, purse| !purse.told.is_empty()));
    purse.pay(10, payment(10, 60), Span::secs(60), world.now());
    assert!((0..1_000).any(|_| purse.file.len() == 2 || {
        purse.happen(&mut world, &mut drawn);
        false
    }));
    let Some(Record::Signed(line)) = purse.file.last().cloned() else { unreachable!("signed") };
    let yes = Word::Submitted { digest: digest(&line.entry), answer: Answer::Yes };
    let before = purse.reads;
    for _ in 0..100 {
        purse.hear(NodeId(0), yes.clone(), world.now());
    }
    assert_eq!(purse.reads, before + 4, "each of four is asked once");
}

#[test]
fn a_wallet_with_an_old_copy_of_its_file_signs_nothing() {
    let mut seen = 0;
    for seed in 0..10 {
        let (mut world, mut purse, mut drawn) = begun(seed);
        let copy = purse.file.clone();
        purse.pay(10, payment(10, 60), Span::secs(60), world.now());
        let is_over =
            |_: &World, purse: &Purse| purse.levels().get(&1).is_some_and(|level| *level >= Level::Settled);
        assert!(until(&mut world, &mut purse, &mut drawn, is_over));
        let mut other = Purse::new(4, OWNER, copy, false, world.now());
        other.pay(11, payment(11, 40), Span::secs(5), world.now());
        let is_stopped = |_: &World, other: &Purse| {
            other.told.iter().any(|output| matches!(output, Output::Stopped(Stop::Foreign(1))))
        };
        if until(&mut world, &mut other, &mut drawn, is_stopped) {
            seen += 1;
        }
        assert!(other.left.is_empty(), "seed {seed}: a second entry for place 1");
        assert!(matches!(
            other.refused()[&11],
            Refusal::Stopped(_) | Refusal::Denied(_) | Refusal::Unanswered
        ));
    }
    assert!(seen > 5, "{seen} of 10 wallets said that another one signs");
}

#[test]
fn behind_an_entry_that_names_another_key_the_old_one_signs_nothing() {
    let (mut world, mut purse, mut drawn) = begun(4);
    let key = crate::bank::owner(signing(2)).public();
    let rekey = synod_ledger::Kind::Rekey(synod_ledger::Owner::SelfSigned(key));
    purse.pay(10, draft(OWNER, rekey, 10), Span::secs(60), world.now());
    purse.pay(11, payment(11, 1), Span::secs(60), world.now());
    assert!(until(&mut world, &mut purse, &mut drawn, |_, purse| purse.refused().len() == 1));
    assert_eq!(purse.refused(), BTreeMap::from([(11, Refusal::Rekeyed)]));
    assert_eq!(purse.left.len(), 1);
}
