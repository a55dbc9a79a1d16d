//! Owners' signatures that witnesses check for the others: what is taken on their word, and what never is.

use std::collections::BTreeSet;

use synod_astro::{
    Auth, FalseWitness, Input, Line, Looked, Opened, Output, Profile, Signer, Witnessed, Word, Work,
};
use synod_crypto::{Hash, Scope, Signature};
use synod_ledger::{EntryId, genesis};
use synod_machine::Event;
use synod_quorum::NodeId;
use synod_wire::{Drawn, Limits, Wire as _};

use crate::alone::{Alone, Timer};
use crate::bank::{
    Bank, CLUSTER, CONTEXT, EPOCH, Message, World, agrees, custodial, digest, equal_books, first, issuer,
    keys, order, owner, pay, settle, signed, signing, told, view,
};
use crate::forge::{LIAR, ack, batch, carried, prepare};

/// The keys of a batch's owners, as every member knows them.
fn wanted(opened: &Opened) -> Vec<Option<Signer>> {
    let lines = opened.batch.lines.iter();
    let of = |line: &Line| {
        let single = owner(line.entry.id.spender).public();
        matches!(line.auth, Auth::Owner(_)).then_some(Signer { single, multi: None })
    };
    lines.map(of).collect()
}

/// What a member says of a batch's signatures under these keys.
fn word(by: u32, opened: &Opened, of: &[Option<Signer>], is_good: bool) -> Witnessed {
    let (lot, digest, of) = (opened.lot(), opened.digest, Looked::over_keys(of));
    let statement = Looked { context: CONTEXT, lot, digest, keys: of, is_good };
    let signature = keys(by).sign(Scope { cluster: CLUSTER, epoch: EPOCH }, NodeId(by), statement).signature;
    Witnessed { lot, digest, keys: of, is_good, member: u8::try_from(by).expect("few"), signature }
}

fn said(word: Witnessed) -> Message {
    Message::Own(Word::Witnessed(word))
}

/// An entry with a signature that is its owner's on something else.
fn garbage(line: &Line) -> Line {
    let other = first(line.entry.id.spender, pay(custodial(2), 99), 99);
    Line { auth: other.auth, ..line.clone() }
}

/// Member 0 of four, which takes the word of witnesses; member 3's customer has 100, and `sequence - 1` batches of its lane are settled.
fn relying(sequence: u64) -> (Alone, Hash) {
    let mut alone = Alone::witnessing(0);
    let funds = carried(issuer(3), 1, genesis(issuer(3)), pay(signing(3), 100), 1);
    let mut last = batch(1, Hash::ZERO, Vec::new(), vec![funds.clone()]);
    alone.certify_whole(&last);
    let mut head = digest(&funds.entry);
    for at in 2..sequence {
        let line = carried(issuer(3), at, head, pay(custodial(1), 1), u128::from(at));
        head = digest(&line.entry);
        last = batch(at, last.digest, Vec::new(), vec![line]);
        alone.certify_whole(&last);
    }
    alone.works.clear();
    (alone, last.digest)
}

/// How often it checked owners' signatures of batches.
fn checks(alone: &Alone) -> usize {
    let is_check = |work: &&Work| matches!(work, Work::Check { .. } | Work::Witness { .. });
    alone.works.iter().filter(is_check).count()
}

/// Words that it said of its own.
fn words(alone: &Alone) -> Vec<Witnessed> {
    let said = alone.sent.iter().filter_map(|message| match message {
        Message::Own(Word::Witnessed(word)) => Some(*word),
        _ => None,
    });
    said.collect()
}

/// Whom it shows with a word that is not so, and whether what it shows proves that.
fn convicted(told: &[Output]) -> Vec<(NodeId, bool)> {
    let shown = told.iter().filter_map(|output| match output {
        Output::FalseWitness { member, evidence, .. } => {
            let evidence = FalseWitness::decode(evidence.clone(), &Limits::default()).expect("evidence");
            Some((*member, evidence.proves(Profile::Funded, &view(4), &keys(0))))
        }
        _ => None,
    });
    shown.collect()
}

/// Of batch 2 of lane 3 member 2 is the witness, of batch 3 member 0.
#[test]
fn who_is_no_witness_takes_the_word_of_f_others_beside_the_representative() {
    for word_first in [true, false] {
        let (mut alone, head) = relying(2);
        let opened = batch(2, head, Vec::new(), vec![first(signing(3), pay(custodial(1), 60), 7)]);
        let good = said(word(2, &opened, &wanted(&opened), true));
        if word_first {
            alone.hear(2, good.clone());
        }
        alone.hear(3, prepare(&opened));
        // The representative is counted once, whatever else it says.
        alone.hear(3, said(word(3, &opened, &wanted(&opened), true)));
        assert_eq!(alone.lists(&opened).len(), usize::from(word_first), "nothing is promised before");
        alone.hear(2, good);
        assert_eq!((alone.lists(&opened), checks(&alone)), (vec![vec![]], 0), "it checked nothing");
        assert!(words(&alone).is_empty() && alone.blamed.is_empty(), "{:?}", alone.blamed);
    }
}

#[test]
fn a_witness_checks_and_says_what_it_found() {
    for is_good in [true, false] {
        let (mut alone, head) = relying(3);
        let line = first(signing(3), pay(custodial(1), 60), 7);
        let line = if is_good { line } else { garbage(&line) };
        let opened = batch(3, head, Vec::new(), vec![line]);
        alone.hear(3, prepare(&opened));
        let endorsed = if is_good { vec![vec![]] } else { vec![vec![0]] };
        assert_eq!((alone.lists(&opened), checks(&alone)), (endorsed, 1));
        assert_eq!(words(&alone), [word(0, &opened, &wanted(&opened), is_good)]);
    }
}

#[test]
fn a_word_that_finds_something_bad_or_speaks_of_other_keys_has_it_checked_here() {
    let (_, head) = relying(2);
    let opened = batch(2, head, Vec::new(), vec![first(signing(3), pay(custodial(1), 60), 7)]);
    let others = [Some(Signer { single: owner(signing(1)).public(), multi: None })];
    for (said_of, is_good, shown) in [
        (wanted(&opened), false, vec![(NodeId(2), true)]),
        (others.to_vec(), true, Vec::new()),
        (vec![None], true, Vec::new()),
    ] {
        let (mut alone, _) = relying(2);
        alone.hear(3, prepare(&opened));
        alone.hear(2, said(word(2, &opened, &said_of, is_good)));
        assert_eq!((alone.lists(&opened), checks(&alone)), (vec![vec![]], 1), "it is good, and was checked");
        assert_eq!(words(&alone), [word(0, &opened, &wanted(&opened), true)], "others hear of it");
        assert_eq!(convicted(&alone.told), shown);
    }
    // A word on another batch in this place is none on this one.
    let (mut alone, _) = relying(2);
    let other = batch(2, head, Vec::new(), vec![first(signing(3), pay(custodial(1), 61), 7)]);
    alone.hear(3, prepare(&opened));
    alone.hear(2, said(word(2, &other, &wanted(&other), true)));
    assert_eq!((alone.lists(&opened).len(), checks(&alone)), (0, 0));
}

/// T38: the word of a witness that signed garbage, before and after this one looked.
#[test]
fn a_witness_that_signs_garbage_is_convicted_by_its_word_beside_the_batch() {
    for word_first in [true, false] {
        let (mut alone, head) = relying(3);
        let line = garbage(&first(signing(3), pay(custodial(1), 60), 7));
        let opened = batch(3, head, Vec::new(), vec![line]);
        let lie = said(word(2, &opened, &wanted(&opened), true));
        if word_first {
            alone.hear(2, lie.clone());
        }
        alone.hear(3, prepare(&opened));
        alone.hear(1, said(word(1, &opened, &wanted(&opened), false)));
        alone.hear(2, lie.clone());
        alone.hear(2, lie);
        assert_eq!(convicted(&alone.told), [(NodeId(2), true)], "once, and nobody else");
        assert_eq!(alone.blamed, ["false_witness"]);
        assert_eq!(alone.lists(&opened), [vec![0]]);
        // What is made of it by changing a byte convicts nobody.
        let evidence = alone.told.iter().find_map(|output| match output {
            Output::FalseWitness { evidence, .. } => Some(evidence.to_vec()),
            _ => None,
        });
        let evidence = evidence.expect("shown");
        for at in 0..evidence.len() {
            let mut changed = evidence.clone();
            changed[at] ^= 1;
            let read = FalseWitness::decode(changed.into(), &Limits::default());
            let proves = read.is_ok_and(|read| read.proves(Profile::Funded, &view(4), &keys(0)));
            assert!(!proves, "byte {at}");
        }
    }
}

#[test]
fn behind_silent_witnesses_a_member_checks_by_itself() {
    let (mut alone, head) = relying(2);
    let opened = batch(2, head, Vec::new(), vec![first(signing(3), pay(custodial(1), 60), 7)]);
    alone.hear(3, prepare(&opened));
    let other = batch(3, opened.digest, Vec::new(), Vec::new()).lot();
    alone.run(Event::Timer(Timer::Witness(other)));
    assert_eq!((alone.lists(&opened).len(), checks(&alone)), (0, 0), "that is another batch");
    alone.run(Event::Timer(Timer::Witness(opened.lot())));
    assert_eq!((alone.lists(&opened), checks(&alone)), (vec![vec![]], 1));
    alone.run(Event::Timer(Timer::Witness(opened.lot())));
    assert_eq!(checks(&alone), 1, "once");
}

/// Batches 2, 5, 8 and 11 of lane 3 have member 2 as their witness, which is late, late again, silent, and silent.
#[test]
fn a_witness_that_comes_late_is_waited_for_longer_and_a_silent_one_is_not() {
    let (mut alone, mut last) = relying(2);
    let (usual, mut head, mut waits) = (alone.parameters.resend, genesis(signing(3)), Vec::new());
    for (n, late) in (1..=10).zip([3, 0, 0, 90, 0, 0, 0, 0, 0, 0]) {
        let line = signed(EntryId { spender: signing(3), n }, head, pay(custodial(1), 1), u128::from(n));
        head = digest(&line.entry);
        let opened = batch(n + 1, last, Vec::new(), vec![line]);
        last = opened.digest;
        alone.hear(3, prepare(&opened));
        let timer = Timer::Witness(opened.lot());
        // Of the others member 0 is a witness itself, and member 1 speaks at once.
        match (n + 1) % 3 {
            0 => assert!(!alone.armed.contains_key(&timer)),
            1 => alone.hear(1, said(word(1, &opened, &wanted(&opened), true))),
            _ => {
                waits.push(alone.armed[&timer]);
                alone.now = alone.now + alone.armed[&timer];
                alone.run(Event::Timer(timer));
                alone.now = alone.now + usual.times(late);
                if late > 0 {
                    alone.hear(2, said(word(2, &opened, &wanted(&opened), true)));
                }
            }
        }
        assert_eq!(alone.lists(&opened), [vec![]], "batch {} is endorsed", n + 1);
        alone.certify(&opened, crate::forge::ALL);
    }
    assert_eq!(waits, [usual, usual.times(8), usual.times(8), usual]);
    assert_eq!(checks(&alone), 4 + 3, "four alone, three as a witness");
}

#[test]
fn a_batch_that_others_certified_meanwhile_waits_for_no_witness() {
    let (mut alone, head) = relying(2);
    let line = first(signing(3), pay(custodial(1), 60), 7);
    let opened = batch(2, head, Vec::new(), vec![line.clone()]);
    alone.hear(3, prepare(&opened));
    alone.certify(&opened, crate::forge::ALL);
    let two = EntryId { spender: signing(3), n: 2 };
    let next = signed(two, digest(&line.entry), pay(custodial(1), 1), 8);
    let next = batch(3, opened.digest, Vec::new(), vec![next]);
    alone.hear(3, prepare(&next));
    assert_eq!(alone.lists(&next), [vec![]], "the lane goes on");
}

#[test]
fn words_that_nobody_signed_or_asks_for_are_blamed() {
    let (mut alone, head) = relying(2);
    let opened = batch(2, head, Vec::new(), vec![first(signing(3), pay(custodial(1), 60), 7)]);
    let good = word(2, &opened, &wanted(&opened), true);
    alone.hear(3, prepare(&opened));
    alone.hear(1, said(good));
    alone.hear(2, said(Witnessed { signature: Signature([7; 64]), ..good }));
    alone.hear(2, said(Witnessed { is_good: false, ..good }));
    assert_eq!(alone.blamed, ["bad_witness"; 3]);
    assert_eq!((alone.lists(&opened).len(), checks(&alone)), (0, 0), "none of them counts");
    let mut all = Alone::new();
    all.hear(2, said(good));
    assert_eq!(all.blamed, ["bad_witness"], "here everybody checks");
}

/// Owners at all institutions sign, members crash, one is silent in some runs.
#[test]
fn what_owners_sign_settles_everywhere_though_most_members_check_little() {
    let mut relied = 0;
    for seed in 0..30 {
        let margin = u8::try_from(seed % 2).expect("few");
        let mut world = Bank::witnessing(4, seed, margin);
        let mut drawn = Drawn::new(seed ^ 0x717);
        for registrar in 0..4 {
            order(&mut world, u64::from(registrar), issuer(registrar), signing(registrar), 100);
        }
        assert!(settle(&mut world, 4));
        let mut logs = [(0, Hash::ZERO); 4];
        for registrar in 0..4 {
            logs[registrar as usize] = (0, genesis(signing(registrar)));
        }
        for at in 0..12_u32 {
            let registrar = at % 4;
            let (n, head) = &mut logs[registrar as usize];
            let id = EntryId { spender: signing(registrar), n: *n + 1 };
            let line = signed(id, *head, pay(custodial((registrar + 1) % 4), 5), u128::from(at) + 50);
            (*n, *head) = (id.n, digest(&line.entry));
            world.ask(NodeId(registrar), Input::Signed { ticket: 100 + u64::from(at), line });
            world.go_on(drawn.below(150));
            if drawn.below(6) == 0 {
                let member = NodeId(u32::try_from(drawn.below(4)).expect("few"));
                world.restart(member, drawn.below(2) == 0);
            }
        }
        world.go_on(20_000);
        assert!(agrees(&world), "seed {seed}");
        equal_books(&world);
        relied += usize::from(world.seats.iter().any(|seat| seat.rules.contains("rely")));
        let settled: BTreeSet<usize> = told(&world).map(|told| told.settled.len()).collect();
        assert_eq!(settled.len(), 1, "what one settles all settle, seed {seed}");
    }
    assert!(relied > 20, "{relied} of 30 runs took somebody's word");
}

/// T37, T38: its representative carries what its owner did not sign, and says that it is good. A35 is found here.
#[test]
fn what_no_owner_signed_is_not_endorsed_on_the_word_of_a_lying_representative() {
    for seed in 0..20 {
        let mut world = lied_to(seed);
        let honest = first(signing(3), pay(custodial(1), 10), 7);
        let forged = garbage(&first(signing(0), pay(custodial(2), 90), 8));
        let opened = batch(1, Hash::ZERO, Vec::new(), vec![honest.clone(), forged.clone()]);
        for to in 0..3 {
            world.say(LIAR, NodeId(to), prepare(&opened));
            world.say(LIAR, NodeId(to), said(word(3, &opened, &wanted(&opened), true)));
            world.say(LIAR, NodeId(to), ack(3, opened.lot(), opened.digest, &[]));
        }
        world.go_on(4_000);
        assert!(told(&world).all(|told| !told.settled.contains_key(&forged.entry.id)), "seed {seed}");
        let endorsed = told(&world).filter(|told| !told.false_witnesses.is_empty()).count();
        assert!(endorsed > 0, "seed {seed}: the liar's word is shown");
    }
}

/// Two owners have 100, and member 3 lies from now on.
fn lied_to(seed: u64) -> World {
    let mut world = Bank::witnessing(4, seed, 0);
    order(&mut world, 1, issuer(0), signing(3), 100);
    order(&mut world, 2, issuer(0), signing(0), 100);
    assert!(settle(&mut world, 2));
    world.liar = Some(LIAR);
    world
}
