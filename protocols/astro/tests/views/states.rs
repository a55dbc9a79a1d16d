//! What members kept, as others pass it on.

use synod_astro::views::{Message, Output, Roll, SignedState, Step, Sworn, View};
use synod_machine::testing::effects;
use synod_machine::{Condition, Effect, Event, Job as _, Log, Recover as _, Span, Time};
use synod_quorum::NodeId;
use synod_wire::Bytes;

use crate::crew::{Crew, Machine, Views, founding, join, keys, state};
use crate::lies::{agreed, endorsements, signature, steps};

/// A node that joins, and knows that its view is installed.
fn joiner() -> Machine {
    let founding = founding(4);
    let config = synod_astro::views::Config {
        me: NodeId(4),
        founding: founding.clone(),
        resend: Span::millis(500),
        resend_max: Span::secs(10),
    };
    let log = Log { condition: Condition::Clean, records: &mut std::iter::empty() };
    let mut machine = Machine::recover(config, log).expect("a sound configuration");
    let first = Roll::of(&founding, &View::default()).expect("the genesis");
    let views = steps(first.view(), &[&[join(4)]]);
    let agreed = agreed(&first, &views, Step::Converged, &[0, 1, 2]);
    let install = Message::Install { agreed, endorsements: endorsements(&founding, &views.rest()) };
    let mut jobs = hear(&mut machine, install);
    done(&mut machine, &mut jobs);
    machine
}

fn hear(machine: &mut Machine, message: Message) -> Vec<Effect<Machine>> {
    effects(machine, Event::Message { from: NodeId(0), message }, Time::ZERO)
}

/// Runs what is to be computed, and gives what came of it.
fn done(machine: &mut Machine, all: &mut Vec<Effect<Machine>>) -> Vec<Effect<Machine>> {
    let jobs = all.drain(..).filter_map(|effect| match effect {
        Effect::Compute(job) => Some(job),
        _ => None,
    });
    let jobs: Vec<_> = jobs.collect();
    jobs.into_iter().flat_map(|job| effects(machine, Event::Done(job.run(&keys(4))), Time::ZERO)).collect()
}

fn signed(member: u8, bytes: Bytes) -> Message {
    let first = Roll::of(&founding(4), &View::default()).expect("the genesis");
    let sworn = Sworn::Stated { context: first.context(), state: SignedState::digest(&bytes) };
    let signature = signature(&first, u32::from(member), sworn);
    let state = bytes.try_into().expect("short");
    Message::State(SignedState { view: first.id(), member, state, signature })
}

#[test]
fn states_of_several_members_that_one_passes_on_are_checked_together() {
    let mut machine = joiner();
    let view = View::default().id();
    let mut all = Vec::new();
    for member in [1, 2, 3] {
        let said = hear(&mut machine, signed(member, state(member, view)));
        assert!(said.iter().any(|effect| matches!(effect, Effect::Compute(_))), "member {member}");
        // The same once more waits for the first.
        assert!(hear(&mut machine, signed(member, state(member, view))).is_empty());
        all.extend(said);
    }
    let came = done(&mut machine, &mut all);
    assert!(came.iter().any(|effect| matches!(effect, Effect::Output(Output::Merge { .. }))));
}

#[test]
fn whoever_passes_a_state_on_that_is_none_is_blamed_for_that() {
    let mut machine = joiner();
    let mut said = hear(&mut machine, signed(1, Bytes::from_static(b"no state")));
    let blamed = done(&mut machine, &mut said);
    let is_it = |effect: &Effect<Machine>| matches!(effect, Effect::Blame { fault, .. } if fault.name == "views_bad_state");
    assert!(blamed.iter().any(is_it));
}

/// A member that hears of two views at once is one of the first view's too: with another that fell silent the second would wait for
/// its state for ever.
#[test]
fn a_member_that_hears_of_two_views_at_once_gives_its_state_of_both() {
    for seed in 0..20 {
        let mut all = Views::new(4, 6, seed);
        let founding = all.users.founding.clone();
        all.deaf = vec![NodeId(3)];
        all.request(4, join(4));
        let runs = |all: &synod_machine::testing::World<Crew>, id: usize| {
            all.users.told[id].running.as_ref().is_some_and(|view| view.number() == 1)
        };
        assert!(all.until(|all| [0, 1, 2, 4].iter().all(|id| runs(all, *id))), "seed {seed}");
        // One more goes silent for good once the second view is agreed on.
        let second = all.seats[0].machine.current().clone();
        let views = steps(second.view(), &[&[join(5)]]);
        let agreed = agreed(&second, &views, Step::Converged, &[0, 1, 2, 4]);
        all.deaf = vec![NodeId(2)];
        let message = Message::Install { agreed, endorsements: endorsements(&founding, &views.rest()) };
        all.say(NodeId(0), NodeId(1), message);
        let last = View::of([join(4), join(5)]).expect("few");
        let ends = |all: &synod_machine::testing::World<Crew>| {
            [0, 1, 3, 4, 5].iter().all(|id| all.users.told[*id].running.as_ref() == Some(&last))
        };
        assert!(all.until(ends), "seed {seed}");
        assert_eq!(all.users.told[2].resumed.len(), 2, "it stayed in the second");
    }
}
