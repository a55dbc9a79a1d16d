//! The signed broadcast in a view that is not the first.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_broadcast::Lot;
use synod_broadcast::signed::{Ack, Acked, Certificate, Except, Message, Record, Said, Setup, Timer, View};
use synod_crypto::Hash;
use synod_machine::broadcast::{Begun, Broadcast, Offer};
use synod_machine::testing::effects;
use synod_machine::{Condition, Effect, Event, Job as _, Log, Recover, Span, Time};
use synod_quorum::{Epoch, Member, NodeId, Roster};
use synod_wire::Bytes;

use crate::signed::{Signed, ack, certificate, config, view};
use crate::world::{keys, seed};

const ME: u32 = 3;

fn lot(sequence: u64) -> Lot {
    Lot { source: 3, sequence }
}

fn text(sequence: u64) -> Bytes {
    Bytes::from(format!("payload {sequence}").into_bytes())
}

fn digest(sequence: u64) -> Hash {
    Hash::of(&[b"text ", &text(sequence)[..]].concat())
}

/// The view behind the first one, of the same members.
fn second() -> Arc<View> {
    let members = (0..4).map(|id| Member { key: seed(id).public(), power: 1 });
    let roster = Roster::new(Epoch(8), members.collect()).expect("distinct members");
    Arc::new(View { roster: Arc::new(roster), ..(*view(4)).clone() })
}

fn said(by: u32, of: &View, sequence: u64) -> Said {
    let acked = Acked {
        context: of.context,
        lot: lot(sequence),
        digest: digest(sequence),
        except: Hash::ZERO,
        authorized: true,
    };
    let signature = keys(by).sign(of.scope(), NodeId(by), acked).signature;
    Said { member: u8::try_from(by).expect("few"), except: Except::default(), authorized: true, signature }
}

/// Steps, runs what is computed, and gives what is told. Nothing is read from the disk.
fn step(broadcast: &mut Signed, event: Event<Signed>) -> Vec<Broadcast> {
    let (mut told, mut events) = (Vec::new(), vec![event]);
    while let Some(event) = events.pop() {
        for effect in effects(broadcast, event, Time::ZERO) {
            match effect {
                Effect::Compute(job) => events.push(Event::Done(job.run(&keys(ME)))),
                Effect::Output(output) => told.push(output),
                _ => {}
            }
        }
    }
    told
}

/// It signs its payload in the new view before it was read from the disk.
#[test]
fn what_an_older_view_certified_of_its_own_is_told_to_whoever_signs_it_again() {
    let second = second();
    let begun = Begun {
        older: vec![view(4)],
        sources: second.roster.all(),
        tips: BTreeMap::new(),
        slots: BTreeMap::from([(lot(1), Some(digest(1)))]),
    };
    let setup = Setup { config: config(4, ME), view: second, begun, settled: BTreeMap::new() };
    let held = Record::Held { lot: lot(1), digest: digest(1), name: Hash::of(&text(1)) };
    let signers = [0, 1, 2].map(|by| said(by, &view(4), 1)).to_vec();
    let committed = Record::Committed(certificate(lot(1), "payload 1", signers));
    let log = Log { condition: Condition::Clean, records: &mut [held, committed].into_iter() };
    let mut broadcast: Signed = Recover::recover(setup, log).expect("a sound log");
    let mut told = step(&mut broadcast, Event::Start);
    let offer = Offer::Broadcast { sequence: 1, payload: text(1) };
    told.extend(step(&mut broadcast, Event::Input(offer)));
    let loaded = Event::Loaded { name: Hash::of(&text(1)), bytes: Some(text(1)) };
    told.extend(step(&mut broadcast, loaded));
    assert!(matches!(told[..], [Broadcast::Delivered { .. }]), "{told:?}");
    assert_eq!(broadcast.certified(NodeId(ME)), 1);
}

/// Steps likewise, and gives the slots whose signed payload goes out to the others.
fn signs(broadcast: &mut Signed, event: Event<Signed>) -> Vec<Lot> {
    let (mut signed, mut events) = (Vec::new(), vec![event]);
    while let Some(event) = events.pop() {
        for effect in effects(broadcast, event, Time::ZERO) {
            match effect {
                Effect::Compute(job) => events.push(Event::Done(job.run(&keys(ME)))),
                Effect::Send { message: Message::Prepare { lot, .. }, .. } => signed.push(lot),
                _ => {}
            }
        }
    }
    signed
}

/// A source whose first three slots were open in the older view, and whose third the others certified in this one before its user
/// offered any again.
fn overtaken() -> Signed {
    let second = second();
    let begun = Begun {
        older: vec![view(4)],
        sources: second.roster.all(),
        tips: BTreeMap::new(),
        slots: (1..=3).map(|sequence| (lot(sequence), Some(digest(sequence)))).collect(),
    };
    let setup = Setup { config: config(4, ME), view: Arc::clone(&second), begun, settled: BTreeMap::new() };
    let log = Log { condition: Condition::Clean, records: &mut std::iter::empty() };
    let mut broadcast: Signed = Recover::recover(setup, log).expect("an empty log");
    signs(&mut broadcast, Event::Start);
    let signers = [0, 1, 2].map(|by| said(by, &second, 3)).to_vec();
    let third = Certificate { epoch: Epoch(8), ..certificate(lot(3), "payload 3", signers) };
    signs(&mut broadcast, Event::Message { from: NodeId(0), message: Message::Commit(third) });
    assert_eq!(broadcast.mine(), 3, "the certificate counts");
    broadcast
}

fn offer(sequence: u64, payload: Bytes) -> Event<Signed> {
    Event::Input(Offer::Broadcast { sequence, payload })
}

#[test]
fn a_source_signs_what_is_open_before_a_slot_that_the_others_certified_again_first() {
    let mut broadcast = overtaken();
    for sequence in [2, 1] {
        assert_eq!(signs(&mut broadcast, offer(sequence, text(sequence))), [lot(sequence)]);
        assert_eq!(signs(&mut broadcast, offer(sequence, text(sequence))), [], "once");
    }
    assert_eq!(signs(&mut broadcast, offer(3, text(3))), [], "certified");
}

#[test]
fn a_source_that_was_overtaken_signs_no_payload_but_the_one_that_older_views_allow() {
    assert_eq!(signs(&mut overtaken(), offer(1, text(7))), []);
}

/// Found by drawn runs (`astro/views:363d83ce` and `363d8647`): an older view certified a part of a slot here, and all of it elsewhere. Its source
/// collects nothing more, and nobody's certificates of that view count: whoever lacks the rest collects it.
#[test]
fn what_older_views_certified_in_part_is_certified_as_a_whole_by_whoever_lacks_the_rest() {
    const LATE: u32 = 1;
    let (second, lot, name) = (second(), lot(1), Hash::of(&text(1)));
    let begun = Begun {
        older: vec![view(4)],
        sources: second.roster.all(),
        tips: BTreeMap::new(),
        slots: BTreeMap::from([(lot, Some(digest(1)))]),
    };
    let setup = Setup { config: config(4, LATE), view: Arc::clone(&second), begun, settled: BTreeMap::new() };
    let part = vec![ack(0, lot, "payload 1", &[0]).said, said(2, &view(4), 1), said(3, &view(4), 1)];
    let records = [
        Record::Held { lot, digest: digest(1), name },
        Record::Committed(certificate(lot, "payload 1", part)),
    ];
    let log = Log { condition: Condition::Clean, records: &mut records.into_iter() };
    let mut broadcast: Signed = Recover::recover(setup, log).expect("a sound log");
    let (mut told, mut asked, mut now) = (Vec::new(), 0, Time::ZERO);
    let mut step = |event: Event<Signed>, now: Time| {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            for effect in effects(&mut broadcast, event, now) {
                match effect {
                    Effect::Compute(job) => events.push(Event::Done(job.run(&keys(LATE)))),
                    Effect::Load(of) => {
                        events.push(Event::Loaded { name: of, bytes: (of == name).then(|| text(1)) });
                    }
                    Effect::Send { message: Message::Ask(of), .. } if of == lot => asked += 1,
                    Effect::Output(Broadcast::Delivered { open, .. }) => told.push(open),
                    Effect::Blame { fault, .. } => unreachable!("nobody lies: {fault:?}"),
                    _ => {}
                }
            }
        }
    };
    step(Event::Start, now);
    // A whole certificate of the older view does not count.
    let whole = [0, 2, 3].map(|by| said(by, &view(4), 1)).to_vec();
    let message = Message::Commit(certificate(lot, "payload 1", whole));
    step(Event::Message { from: NodeId(0), message }, now);
    for _ in 0..2 {
        now = now + Span::secs(20);
        step(Event::Timer(Timer::Resend(lot)), now);
    }
    for by in [0, 2, 3] {
        let ack = Ack { lot, digest: digest(1), said: said(by, &second, 1) };
        step(Event::Message { from: NodeId(by), message: Message::Ack(ack) }, now);
    }
    now = now + Span::secs(20);
    step(Event::Timer(Timer::Resend(lot)), now);
    let open: Vec<&[u32]> = told.iter().map(Except::items).collect();
    assert_eq!(open, [&[0][..], &[]], "the part first, then all of it");
    assert_eq!(asked, 1, "and nothing more once it is whole");
}
