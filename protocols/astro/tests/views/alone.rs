//! One member, driven by hand.

use synod_astro::views::{Config, Message, Record, Roll, Step, View};
use synod_machine::testing::effects;
use synod_machine::{Bounded as _, Condition, Effect, Event, Job as _, Log, Recover as _, Span, Time};
use synod_quorum::NodeId;

use crate::crew::{Machine, endorsed, founding, join, keys};
use crate::lies::{agreed, endorsements, signature, steps};

fn member() -> Machine {
    let config = Config {
        me: NodeId(0),
        founding: founding(4),
        resend: Span::millis(500),
        resend_max: Span::secs(10),
    };
    let log = Log { condition: Condition::Clean, records: &mut std::iter::empty() };
    Machine::recover(config, log).expect("a sound configuration")
}

/// Steps it, and runs its jobs at once.
fn step(machine: &mut Machine, event: Event<Machine>) -> Vec<Effect<Machine>> {
    let mut all = Vec::new();
    let mut events = vec![event];
    while let Some(event) = events.pop() {
        for effect in effects(machine, event, Time::ZERO) {
            match effect {
                Effect::Compute(job) => events.push(Event::Done(job.run(&keys(0)))),
                effect => all.push(effect),
            }
        }
    }
    all
}

fn hear(machine: &mut Machine, from: u32, message: Message) -> Vec<Effect<Machine>> {
    step(machine, Event::Message { from: NodeId(from), message })
}

fn at<'a>(effects: &'a [Effect<Machine>], is: impl Fn(&'a Effect<Machine>) -> bool) -> usize {
    effects.iter().position(is).expect("it happens")
}

#[test]
fn a_change_is_recorded_before_it_is_confirmed_and_a_list_before_it_is_proposed() {
    let (mut machine, founding) = (member(), founding(4));
    let view = machine.current().id();
    let endorsement = endorsed(&founding, join(4));
    let effects = hear(&mut machine, 4, Message::Reconfig { view, endorsement });
    let is_record = |record: fn(&Record) -> bool| move |effect: &Effect<Machine>| matches!(effect, Effect::Persist(one) if record(one));
    let is_sent = |message: fn(&Message) -> bool| move |effect: &Effect<Machine>| matches!(effect, Effect::Send { message: one, .. } if message(one));
    let recorded = at(&effects, is_record(|one| matches!(one, Record::Endorsed(_))));
    let confirmed = at(&effects, is_sent(|one| matches!(one, Message::ReconfigConfirm { .. })));
    let proposing = at(&effects, is_record(|one| matches!(one, Record::Proposed { .. })));
    let proposed = at(&effects, is_sent(|one| matches!(one, Message::Propose { .. })));
    assert!(recorded < confirmed && recorded < proposing && proposing < proposed);
}

/// Step 4: a member that knows of more than was accepted does not converge on less.
#[test]
fn a_member_converges_on_its_own_list_alone() {
    let founding = founding(4);
    let first = Roll::of(&founding, &View::default()).expect("the genesis");
    let views = steps(first.view(), &[&[join(4)]]);
    let accepted = Message::Accepted {
        agreed: agreed(&first, &views, Step::Proposed, &[1, 2, 3]),
        endorsements: endorsements(&founding, &views),
    };
    let converges = |effects: &[Effect<Machine>]| {
        effects.iter().any(|effect| matches!(effect, Effect::Persist(Record::Converged { .. })))
    };
    let mut knows_no_more = member();
    assert!(converges(&hear(&mut knows_no_more, 1, accepted.clone())));
    let mut knows_more = member();
    let endorsement = endorsed(&founding, join(5));
    hear(&mut knows_more, 5, Message::Reconfig { view: first.id(), endorsement });
    let effects = hear(&mut knows_more, 1, accepted);
    assert!(!converges(&effects));
    let own = steps(first.view(), &[&[join(4)], &[join(5)]]);
    let proposes = |effect: &Effect<Machine>| matches!(effect, Effect::Send { message: Message::Propose { proposal, .. }, .. } if proposal.views == own);
    assert!(effects.iter().any(proposes), "what was accepted stays, and its union stands above it");
}

#[test]
fn of_messages_for_views_that_are_not_installed_one_of_each_kind_is_kept_per_sender() {
    let founding = founding(4);
    let mut machine = member();
    let empty = machine.bytes();
    let mut kept = Vec::new();
    for number in 1..200_u8 {
        let base = View::of([join(number % 100 + 4)]).expect("few");
        let roll = Roll::of(&founding, &base).expect("a view");
        let views = steps(&base, &[&[join(120)]]);
        let signature = signature(&roll, 1, Step::Converged.sworn(&roll, &views));
        let proposal = synod_astro::views::Proposal { view: roll.id(), number: 1, views, signature };
        hear(&mut machine, 1, Message::Converged(proposal));
        kept.push(machine.bytes() - empty);
    }
    assert!(kept[0] > 0 && kept.iter().all(|bytes| *bytes == kept[0]));
}

#[test]
fn whoever_is_no_member_s_number_is_blamed() {
    let mut machine = member();
    let view = machine.current().id();
    let effects = hear(&mut machine, 300, Message::AskChain { view });
    assert!(matches!(effects[..], [Effect::Blame { peer: NodeId(300), .. }]));
}
