//! Replicas and memory nodes that lost what they knew, and come back with the next epoch.

use synod_crypto::Hash;
use synod_machine::{Condition, Effect, Event, Log, Recover as _, Span, Time, testing};
use synod_quorum::{Epoch, NodeId};
use synod_ubft::batch::{Slot, View};
use synod_ubft::certificate::{Certificate, Checkpoint};
use synod_ubft::epoch::{Change, Configuration};
use synod_ubft::message::{Message, Standing};
use synod_ubft::replica::{Incarnation, Replica, Want, Word};
use synod_ubft::{Body, Statement, ctb};
use synod_wire::{Limits, Wire as _};

use crate::net::seeds;
use crate::town::Town;
use crate::world::signature_by;

const SOON: Span = Span::millis(50);
const LONG: Span = Span::secs(20);

fn plain(_: &mut synod_ubft::replica::ReplicaConfig) {}

/// U-S13: from now on a replica says nothing in an epoch before `epoch` but what asks for something.
fn is_silent_before(town: &mut Town, id: u32, epoch: u32) {
    let lie = move |_: NodeId, message: &Message| {
        let promises = matches!(message, Message::Word { word, epoch: of } if of.0 < epoch && !matches!(word, Word::Fetch(_)));
        assert!(!promises, "U-S13: {message:?}");
        Some(message.clone())
    };
    town.net.lies.insert(NodeId(id), Box::new(lie));
}

/// A replica asks to be listed, signed by itself, or by replica 1.
fn rejoin(node: u8, incarnation: u64) -> Message {
    signed_rejoin(node, incarnation, NodeId(u32::from(node)))
}

fn forged(node: u8, incarnation: u64) -> Message {
    signed_rejoin(node, incarnation, NodeId(1))
}

fn signed_rejoin(node: u8, incarnation: u64, signer: NodeId) -> Message {
    let signature = signature_by(signer, Statement::Rejoin { signer: node, incarnation });
    Message::Change(Box::new(Change::Rejoin { node, incarnation, signature }))
}

fn epoch(town: &Town, id: u32) -> Epoch {
    town.of(id).configuration().epoch
}

#[test]
fn t37_a_replica_that_was_killed_is_silent_until_an_epoch_lists_it_and_then_takes_part() {
    for seed in seeds(6) {
        for victim in 0..3 {
            let mut town = Town::new(3, 1, seed, plain);
            town.open();
            for round in 0..seed % 6 * 4 {
                town.ask(0, &format!("before {round}"), LONG);
            }
            town.net.stop(NodeId(victim));
            town.pass(Span::millis(seed % 20));
            is_silent_before(&mut town, victim, 1);
            town.restart(victim);
            assert_eq!(town.of(victim).incarnation(), 2);
            assert!(!town.takes_part(victim));
            let took = town.rejoined(victim, LONG);
            assert!(took <= Span::secs(2), "it took {took}");
            assert!((0..3).all(|id| epoch(&town, id) == Epoch(1)), "{}", town.describe());
            assert_eq!(town.of(victim).configuration().incarnation(NodeId(victim)), Some(2));
            for round in 0..40 {
                town.ask(0, &format!("after {round}"), LONG);
            }
            town.pass(SOON);
            let (one, all) = (town.chains(0), (0..3).map(|id| town.chains(id)));
            assert!(all.into_iter().all(|chains| chains == one), "{}", town.describe());
            assert!(town.net.blamed.is_empty(), "{:?}", town.net.blamed);
        }
    }
}

#[test]
fn a_replica_whose_journal_is_damaged_takes_a_life_of_the_clock_and_comes_back() {
    for seed in seeds(4) {
        let mut town = Town::new(3, 1, seed, plain);
        town.open();
        town.ask(0, "before", LONG);
        town.net.stop(NodeId(1));
        is_silent_before(&mut town, 1, 1);
        town.restart_damaged(1);
        assert_eq!(town.of(1).incarnation(), town.net.now.0 / 1_000_000);
        town.rejoined(1, LONG);
        town.ask(0, "after", LONG);
        // The next life of it is counted from there, and too early: it waits for its ten seconds, and nobody else does.
        town.net.stop(NodeId(1));
        is_silent_before(&mut town, 1, 2);
        town.restart(1);
        for round in 0..20 {
            town.ask(0, &format!("without it {round}"), LONG);
        }
        assert!(!town.takes_part(1) && epoch(&town, 0) == Epoch(1), "{}", town.describe());
        let took = town.rejoined(1, LONG);
        assert!(took >= Span::secs(7) && took <= Span::secs(12), "it took {took}");
        assert!((0..3).all(|id| epoch(&town, id) == Epoch(2)));
        town.ask(0, "last", LONG);
    }
}

#[test]
fn a_replica_that_is_killed_on_its_way_back_comes_back_in_the_life_after() {
    for seed in seeds(12) {
        let mut town = Town::new(3, 1, seed, plain);
        town.open();
        town.ask(0, "before", LONG);
        town.net.stop(NodeId(2));
        is_silent_before(&mut town, 2, 1);
        town.restart(2);
        town.pass(Span::micros(seed % 40 * 300));
        let was_back = town.takes_part(2);
        town.net.stop(NodeId(2));
        town.net.lies.clear();
        town.restart(2);
        assert_eq!(town.of(2).incarnation(), 3);
        town.rejoined(2, LONG);
        assert!(!was_back || epoch(&town, 2) == Epoch(2), "{}", town.describe());
        assert_eq!(town.of(2).configuration().incarnation(NodeId(2)), Some(3));
        town.net.stop(NodeId(0));
        town.liars.insert(NodeId(0));
        town.ask(0, "without the first", LONG);
    }
}

/// Found by `ubft/smr:895887`: a link was down when a peer said that it lived anew, and what it said as the configuration lists it was
/// taken for what a stranger says.
#[test]
fn a_replica_whose_last_greeting_was_lost_is_heard_as_the_configuration_lists_it() {
    for seed in seeds(4) {
        let mut town = Town::new(3, 1, seed, plain);
        town.open();
        town.ask(0, "before", LONG);
        for life in [2, 3] {
            town.net.stop(NodeId(1));
            let lie = move |to: NodeId, message: &Message| {
                let is_lost = matches!(message, Message::Hello { incarnation: 3, .. }) && to == NodeId(2);
                (!is_lost).then(|| message.clone())
            };
            town.net.lies.insert(NodeId(1), Box::new(lie));
            town.restart(1);
            town.rejoined(1, LONG);
            assert_eq!(town.of(2).configuration().incarnation(NodeId(1)), Some(life), "{}", town.describe());
            town.ask(0, &format!("in life {life}"), LONG);
        }
        town.net.stop(NodeId(0));
        town.liars.insert(NodeId(0));
        town.ask(0, "without the first", LONG);
    }
}

#[test]
fn of_five_two_are_killed_at_once_and_both_come_back() {
    for seed in seeds(3) {
        let mut town = Town::new(5, 1, seed, plain);
        town.open();
        town.ask(0, "before", LONG);
        for victim in [0, 3] {
            town.net.stop(NodeId(victim));
        }
        for victim in [0, 3] {
            is_silent_before(&mut town, victim, 1);
            town.restart(victim);
        }
        for victim in [0, 3] {
            town.rejoined(victim, LONG);
        }
        for round in 0..20 {
            town.ask(0, &format!("after {round}"), LONG);
        }
        town.pass(SOON);
        assert!((0..5).all(|id| town.chains(id) == town.chains(1)), "{}", town.describe());
        assert!(town.net.blamed.is_empty(), "{:?}", town.net.blamed);
    }
}

#[test]
fn a_replica_that_was_killed_when_its_state_is_in_nobodys_archive_takes_a_snapshot_and_comes_back() {
    for seed in seeds(4) {
        let mut town = Town::new(3, 1, seed, |settings| {
            settings.config.parameters.snapshot_slots = 32;
            settings.archive_bytes_max = 2 << 10;
        });
        town.open();
        for round in 0..90 {
            town.ask(0, &format!("before {round}"), LONG);
        }
        town.net.stop(NodeId(1));
        is_silent_before(&mut town, 1, 1);
        town.restart(1);
        town.rejoined(1, LONG);
        for round in 0..20 {
            town.ask(0, &format!("after {round}"), LONG);
        }
        town.pass(Span::secs(1));
        assert!(town.installed(1) > 0, "{}", town.describe());
        assert!((0..3).all(|id| town.chains(id) == town.chains(0)), "{}", town.describe());
    }
}

/// Whether a message tells its receiver that epoch 0 is over.
fn tells_the_end(message: &Message) -> bool {
    match message {
        Message::Word { epoch, word } => {
            let is_share = |checkpoint: &Checkpoint| checkpoint.is_last();
            epoch.0 > 0
                || match word {
                    Word::CertifyCheckpoint { checkpoint, .. } => is_share(checkpoint),
                    Word::Checkpoint(certificate) => is_share(&certificate.subject),
                    Word::Ctb { word: ctb::Message::Lock { body, .. }, .. } => {
                        let read = Body::decode(body.bytes().clone(), &Limits::default());
                        matches!(read, Ok(Body::Checkpoint(certificate)) if is_share(&certificate.subject))
                    }
                    _ => false,
                }
        }
        Message::Hello { epoch, .. } => epoch.0 > 0,
        Message::Standing(standing) => {
            standing.start.is_some()
                || standing.newest.as_ref().is_some_and(|newest| newest.subject.is_last())
        }
        _ => false,
    }
}

/// Replica 2 was killed and is listed by the next epoch, in which it is with replica 0; nobody tells replica 1.
fn left_behind(seed: u64) -> Town {
    let mut town = Town::new(3, 1, seed, plain);
    town.open();
    town.ask(0, "before", LONG);
    town.net.stop(NodeId(2));
    for id in [0, 2] {
        let lie = |to: NodeId, message: &Message| {
            (to != NodeId(1) || !tells_the_end(message)).then(|| message.clone())
        };
        town.net.lies.insert(NodeId(id), Box::new(lie));
    }
    town.restart(2);
    town.rejoined(2, LONG);
    town.liars.insert(NodeId(1));
    for round in 0..20 {
        town.ask(0, &format!("of two {round}"), LONG);
    }
    assert_eq!(epoch(&town, 1), Epoch(0), "{}", town.describe());
    town
}

#[test]
fn two_members_retire_an_epoch_and_the_third_follows_with_all_that_it_missed() {
    for seed in seeds(6) {
        let mut town = left_behind(seed);
        town.net.lies.clear();
        town.liars.clear();
        for round in 0..20 {
            town.ask(0, &format!("after {round}"), LONG);
        }
        town.pass(Span::secs(1));
        assert!((0..3).all(|id| epoch(&town, id) == Epoch(1) && town.takes_part(id)), "{}", town.describe());
        assert!((0..3).all(|id| town.chains(id) == town.chains(0)), "{}", town.describe());
        assert!(town.net.blamed.is_empty(), "{:?}", town.net.blamed);
    }
}

#[test]
fn t46_registers_of_an_epoch_that_is_over_deliver_nothing_to_whoever_lags_in_it() {
    for seed in seeds(6) {
        let mut town = left_behind(seed);
        // The leader lies: it signs one message more of the epoch that is over, for the replica that lags there.
        let consensus = town.of(1).consensus().expect("it is in its epoch");
        let k = consensus.stream(NodeId(0)).expect("a stream").next_k();
        let body = Body::SealView(View(3)).encode();
        let digest = Hash::of(&body);
        let signature = signature_by(NodeId(0), Statement::Broadcast { signer: 0, k, digest });
        let body = Some(body.try_into().expect("short"));
        let word = ctb::Message::Signed { broadcaster: 0, k, digest, signature: Box::new(signature), body };
        let slow = town.count("A1.37_deliver_slow");
        let word = Word::Ctb { broadcaster: 0, word };
        town.say(NodeId(0), 1, Message::Word { epoch: Epoch(0), word });
        town.pass(Span::millis(500));
        assert!(town.count("E37_retired") > 0, "{}", town.describe());
        assert_eq!(town.count("A1.37_deliver_slow"), slow, "nothing is delivered");
        assert_eq!(town.of(1).consensus().expect("still").stream(NodeId(0)).expect("a stream").next_k(), k);
        // It is told at last, and takes what it missed.
        town.net.lies.clear();
        town.pass(Span::secs(1));
        assert!(epoch(&town, 1) == Epoch(1) && town.takes_part(1), "{}", town.describe());
        town.liars.clear();
        for round in 0..20 {
            town.ask(0, &format!("after {round}"), LONG);
        }
        assert_eq!(town.chains(1), town.chains(2));
    }
}

#[test]
fn words_that_are_lost_while_an_epoch_begins_are_said_again() {
    for seed in seeds(8) {
        let mut town = Town::new(3, 1, seed, plain);
        town.open();
        town.ask(0, "before", LONG);
        town.net.stop(NodeId(1));
        town.net.loss = 50;
        is_silent_before(&mut town, 1, 1);
        town.restart(1);
        town.rejoined(1, LONG);
        for round in 0..10 {
            town.ask(0, &format!("after {round}"), LONG);
        }
        town.net.loss = 0;
        town.pass(Span::secs(2));
        assert!((0..3).all(|id| epoch(&town, id) == Epoch(1)), "{}", town.describe());
        assert!((0..3).all(|id| town.chains(id) == town.chains(0)), "{}", town.describe());
    }
}

#[test]
fn t45_a_live_replica_that_asks_for_epoch_after_epoch_gets_one_in_ten_seconds() {
    let mut town = Town::new(3, 1, 3, plain);
    town.open();
    town.liars.insert(NodeId(2));
    let start = town.net.now;
    for round in 0..60_u64 {
        for to in 0..2 {
            town.say(NodeId(2), to, rejoin(2, 2 + round));
        }
        town.ask(0, &format!("{round}"), LONG);
        town.pass(Span::millis(250));
    }
    let spans = town.net.now.since(start).0 / Span::secs(10).0 + 1;
    let epochs = u64::from(epoch(&town, 0).0);
    assert!(epochs >= 1 && epochs <= spans, "{epochs} epochs in {spans} spans of ten seconds");
    assert!(town.net.blamed.is_empty(), "{:?}", town.net.blamed);
    // One whose signature is another's gets none, and is blamed.
    town.say(NodeId(1), 0, forged(0, 1_000));
    town.pass(SOON);
    assert!(town.net.blamed.contains(&(NodeId(0), NodeId(1), "bad_signature")));
}

#[test]
fn t11_a_memory_node_that_came_back_empty_is_nobodys_until_the_next_epoch_lists_its_boot() {
    for seed in seeds(4) {
        let mut town = Town::new(3, 1, seed, plain);
        town.open();
        town.ask(0, "before", LONG);
        town.net.stop_memory(1);
        town.net.start_memory(1);
        let end = town.net.after(LONG);
        while (0..3).any(|id| epoch(&town, id) == Epoch(0)) {
            assert!(town.net.now < end, "{}", town.describe());
            town.pass(Span::millis(20));
        }
        assert!((0..3).all(|id| *town.of(id).configuration().boots == [1, 2, 1]), "{}", town.describe());
        assert!((0..3).all(|id| town.takes_part(id)), "all go on");
        // It counts: with another one gone, what is slow is still decided.
        town.net.stop_memory(0);
        town.net.stop(NodeId(2));
        town.liars.insert(NodeId(2));
        for round in 0..10 {
            town.ask(0, &format!("slow {round}"), LONG);
        }
    }
}

#[test]
fn a_life_is_in_the_journal_before_anything_is_said_and_wherever_it_is_cut_none_is_lived_twice() {
    let recover = |records: &[Incarnation], condition| {
        let settings = Town::settings(NodeId(1), 3);
        let log = Log { condition, records: &mut records.iter().copied() };
        Replica::recover(settings, log).expect("sound")
    };
    let mut journal: Vec<Incarnation> = Vec::new();
    for life in 1..6_u64 {
        let mut replica = recover(&journal, Condition::Clean);
        assert_eq!(replica.incarnation(), life);
        let effects = testing::effects(&mut replica, Event::Start, Time(5));
        assert!(
            matches!(effects.first(), Some(Effect::Persist(Incarnation(of))) if *of == life),
            "{effects:?}"
        );
        let records = effects.iter().filter(|effect| matches!(effect, Effect::Persist(_))).count();
        assert_eq!(records, 1, "it is one record, so no crash leaves half of it");
        // A crash before it is durable is one in which nothing was said: the life is lived for the first time again.
        assert_eq!(recover(&journal, Condition::Clean).incarnation(), life);
        journal.push(Incarnation(life));
        // What a compacted journal keeps is worth as much as the whole.
        let mut kept = Vec::new();
        replica.snapshot(&mut |record| kept.push(record));
        assert_eq!(recover(&kept, Condition::Clean).incarnation(), life + 1);
        assert!(recover(&kept, Condition::Clean).consensus().is_none(), "no epoch lists it");
    }
    // Of a damaged one no record counts: not even the first life may be lived as if nothing had been said.
    for cut in 0..journal.len() {
        let replica = recover(&journal[..cut], Condition::Damaged);
        assert!(replica.incarnation() > 1 && replica.consensus().is_none());
    }
}

#[test]
fn an_epoch_that_nobody_certified_is_entered_by_nobody_and_whoever_shows_it_is_blamed() {
    let mut town = Town::new(3, 1, 5, plain);
    town.open();
    town.ask(0, "before", LONG);
    let next = Configuration { epoch: Epoch(1), ..town.of(0).configuration().clone() };
    let last = |config: Hash| Checkpoint {
        epoch: Epoch(0),
        low: Slot(32),
        log_chain: Hash::ZERO,
        exec_chain: Hash::ZERO,
        config,
        end: Some(Slot(32)),
    };
    let signed = |subject: Checkpoint, signers: &[u8]| {
        let sign = |signer: &u8| {
            let statement = Statement::Checkpoint { signer: *signer, checkpoint: subject };
            (*signer, signature_by(NodeId(u32::from(*signer)), statement))
        };
        let signed: Vec<_> = signers.iter().map(sign).collect();
        Some(Certificate { subject, signed: signed.try_into().expect("few") })
    };
    let digest = next.digest();
    let not_last = Checkpoint { end: None, ..last(digest) };
    let bad = [
        None,
        // Of too few, of one twice, of another configuration, and not the last of its epoch.
        signed(last(digest), &[2]),
        signed(last(digest), &[2, 2]),
        signed(last(Hash::ZERO), &[0, 2]),
        signed(not_last, &[0, 2]),
    ];
    let count = bad.len();
    for start in bad {
        let standing = Standing { configuration: next.clone(), start, newest: None, snapshot: None };
        town.say(NodeId(2), 1, Message::Standing(Box::new(standing)));
        town.pass(SOON);
        assert_eq!(epoch(&town, 1), Epoch(0));
    }
    assert_eq!(town.net.blamed, vec![(NodeId(1), NodeId(2), "bad_certificate"); count]);
    town.ask(0, "after", LONG);
}

#[test]
fn a_memory_node_is_readmitted_by_exactly_f_plus_one_that_saw_one_boot() {
    let config = crate::group::config(NodeId(0), 3);
    let saw = |signer: u8, boot| {
        (signer, signature_by(NodeId(u32::from(signer)), Statement::Readmit { signer, memory: 1, boot }))
    };
    let is_good = |signed: Vec<_>| {
        let change = Change::Readmit { memory: 1, boot: 2, signed: signed.try_into().expect("few") };
        change.is_signed(&config, &crate::world::keys(NodeId(0)))
    };
    assert!(is_good(vec![saw(0, 2), saw(2, 2)]));
    assert!(!is_good(vec![saw(0, 2)]), "one may lie");
    assert!(!is_good(vec![saw(0, 2), saw(0, 2)]) && !is_good(vec![saw(2, 2), saw(0, 2)]));
    assert!(!is_good(vec![saw(0, 2), saw(1, 2), saw(2, 2)]), "exactly so many");
    assert!(!is_good(vec![saw(0, 2), saw(2, 3)]), "of another boot");
}

#[test]
fn an_epoch_that_is_over_answers_until_the_next_one_has_a_checkpoint_and_says_nothing_else() {
    let mut town = Town::new(3, 1, 2, plain);
    town.open();
    town.ask(0, "before", LONG);
    town.net.stop(NodeId(2));
    town.restart(2);
    town.rejoined(2, LONG);
    town.pass(SOON);
    let answers = |town: &mut Town, want: Want| {
        town.lines = Some(Vec::new());
        town.say(NodeId(2), 0, Message::Word { epoch: Epoch(0), word: Word::Fetch(want) });
        town.pass(Span::millis(1));
        let lines = town.lines.take().expect("they were written down");
        lines
            .into_iter()
            .filter(|line| line.starts_with("n0 says") && !line.contains(" e1 "))
            .collect::<Vec<_>>()
    };
    assert_eq!(answers(&mut town, Want::Checkpoint), ["n0 says CHECKPOINT low s32"]);
    // A promise of a slot below is covered by the checkpoint.
    let share = Want::Share { view: View(0), slot: Slot(2) };
    assert_eq!(answers(&mut town, share), ["n0 says CHECKPOINT low s32"]);
    for round in 0..20 {
        town.ask(0, &format!("after {round}"), LONG);
    }
    town.pass(SOON);
    assert!(town.of(0).consensus().expect("it takes part").low().low >= Slot(48));
    assert!(answers(&mut town, Want::Checkpoint).is_empty());
}
