//! One member, driven by hand.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_astro::member::{Message, Output};
use synod_astro::views::{self, Agreed, Roll, Sequence, Step, View};
use synod_broadcast::Lot;
use synod_broadcast::signed::{self, Acked, Certificate, Except, Said};
use synod_crypto::{Certificate as Signed, Hash};
use synod_machine::broadcast::{Begun, View as BroadcastView};
use synod_machine::testing::effects;
use synod_machine::{Condition, Effect, Event, Job as _, Log, Machine as _, Recover, Time};
use synod_quorum::NodeId;
use synod_wire::Bytes;

use crate::crew::{Broadcast, Machine, config, founding, join, keys};

fn none<R>() -> Vec<R> {
    Vec::new()
}

fn recovered<M: Recover>(config: M::Config) -> M {
    let log = Log { condition: Condition::Clean, records: &mut none().into_iter() };
    M::recover(config, log).expect("a sound configuration")
}

pub(crate) fn first() -> Arc<Roll> {
    Roll::of(&founding(), &View::default()).expect("the genesis")
}

/// What three of four members signed to have somebody join.
pub(crate) fn agreed() -> Agreed {
    let (roll, view) = (first(), View::of([join(4)]).expect("few"));
    let views = Sequence::above(roll.view(), &[view]).expect("above");
    let sworn = Step::Converged.sworn(&roll, &views);
    let sign = |id: u32| (NodeId(id), keys(id).sign(roll.scope(), NodeId(id), sworn).signature);
    let certificate = Signed::assemble(sworn, [0, 1, 2].map(sign));
    Agreed { base: roll.id(), views, certificate }
}

fn install() -> views::Message {
    views::Message::Install { agreed: agreed(), endorsements: Default::default() }
}

fn hear(machine: &mut Machine, message: Message<signed::Message>) -> Vec<Effect<Machine>> {
    let mut all = Vec::new();
    let mut events = vec![Event::Message { from: NodeId(1), message }];
    while let Some(event) = events.pop() {
        for effect in effects(machine, event, Time::ZERO) {
            match effect {
                Effect::Compute(job @ synod_astro::member::Job::Views(_)) => {
                    events.push(Event::Done(job.run(&keys(0))));
                }
                effect => all.push(effect),
            }
        }
    }
    all
}

fn prepare(view: u32) -> Message<signed::Message> {
    let (lot, payload) =
        (Lot { source: 1, sequence: 1 }, Bytes::from_static(b"anything").try_into().expect("short"));
    let signature = synod_crypto::Signature([1; 64]);
    let message = synod_astro::Message::Broadcast(signed::Message::Prepare { lot, payload, signature });
    Message::In { view, message }
}

/// A15.
#[test]
fn a_member_that_stopped_answers_nothing_of_its_view() {
    let mut machine: Machine = recovered(config(NodeId(0), 64));
    drop(effects(&mut machine, Event::Start, Time::ZERO));
    assert!(matches!(hear(&mut machine, prepare(0))[..], [Effect::Compute(_)]), "it looks at what came");
    let said = hear(&mut machine, Message::Views(install()));
    assert!(said.iter().any(|effect| matches!(effect, Effect::Output(Output::Stopped(_)))));
    assert!(!machine.runs() && machine.room() == 0);
    assert!(hear(&mut machine, prepare(0)).is_empty(), "it stopped");
    assert!(hear(&mut machine, prepare(3)).len() < 3, "what led to a newer view is asked for");
    assert!(hear(&mut machine, prepare(3)).is_empty(), "once");
}

pub(crate) fn certificate(view: &BroadcastView, lot: Lot, digest: Hash) -> Certificate {
    let context = view.context;
    let said = |id: u32| {
        let acked = Acked { context, lot, digest, except: Hash::ZERO, authorized: true };
        let signature = keys(id).sign(view.scope(), NodeId(id), acked).signature;
        Said {
            member: u8::try_from(id).expect("few"),
            except: Except::default(),
            authorized: true,
            signature,
        }
    };
    let said = [0, 1, 2].map(said).to_vec().try_into().expect("few");
    Certificate { context, epoch: view.roster.epoch(), lot, digest, said }
}

/// A29: certificates of an older view stand up to the tip of their lane, and decide between two payloads above it. Nothing settles by
/// them there.
#[test]
fn certificates_of_older_views_settle_nothing_above_the_tip() {
    let second = Roll::of(&founding(), &View::of([join(4)]).expect("few")).expect("a view");
    let (old, view) = (first().broadcasts(), second.broadcasts());
    let lot = |sequence| Lot { source: 1, sequence };
    let begun = Begun {
        older: vec![Arc::clone(&old)],
        sources: view.roster.all(),
        tips: BTreeMap::from([(1, 1)]),
        slots: BTreeMap::from([(lot(2), Some(Hash([2; 32]))), (lot(3), None)]),
    };
    let bounds = config(NodeId(0), 64).parameters.bounds();
    let setup = signed::Setup::begun(NodeId(0), Arc::clone(&view), begun, bounds)(BTreeMap::new());
    let mut broadcast: Broadcast = recovered(setup);
    let mut commit = |view: &BroadcastView, sequence: u64| {
        let certificate = certificate(view, lot(sequence), Hash([2; 32]));
        let event = Event::Message { from: NodeId(1), message: signed::Message::Commit(certificate) };
        let mut all = Vec::new();
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            for effect in effects(&mut broadcast, event, Time::ZERO) {
                match effect {
                    Effect::Compute(job) => events.push(Event::Done(job.run(&keys(0)))),
                    effect => all.push(effect),
                }
            }
        }
        let is_kept =
            |effect: &Effect<Broadcast>| matches!(effect, Effect::Persist(signed::Record::Committed(_)));
        let decides =
            |effect: &Effect<Broadcast>| matches!(effect, Effect::Applied(rule) if rule.name == "decide");
        assert!(all.iter().all(|effect| !matches!(effect, Effect::Blame { .. })), "nobody lies");
        (all.iter().any(is_kept), all.iter().any(decides))
    };
    assert_eq!(commit(&old, 1), (true, false), "up to the tip it stands");
    assert_eq!(commit(&old, 2), (false, false), "one payload was shown");
    assert_eq!(commit(&old, 3), (false, true), "two were shown");
    assert_eq!(commit(&old, 4), (false, false), "none was shown");
    assert_eq!(commit(&old, 3), (false, false), "once");
}
