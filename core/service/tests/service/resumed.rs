//! A client that starts again to ask what came of its requests.

use synod_machine::Span;
use synod_service::Outcome;
use synod_service::client::Doubt;

use crate::world::{Setup, World};

/// A world whose first client has counted up once and ended.
fn counted(setup: Setup) -> (World, u64, Outcome) {
    let mut world = World::new(setup);
    let tags = world.submit(0, &["inc n"]);
    world.run_until("the answer", |world| world.all_answered(0, &tags));
    let session = world.guests[0].machine.session().expect("it is open");
    let outcome = world.guests[0].outcomes[&tags[0]].clone();
    (world, session, outcome)
}

#[test]
fn what_is_asked_again_is_answered_again_and_not_done_again() {
    let (mut world, session, first) = counted(Setup::default());
    world.resume(0, session);
    let again = world.submit(0, &["inc n"]);
    world.run_until("the answer", |world| world.all_answered(0, &again));
    assert!(matches!(&first, Outcome::Accepted { .. }));
    match (&first, &world.guests[0].outcomes[&again[0]]) {
        (Outcome::Accepted { value, position, .. }, Outcome::Accepted { value: told, position: at, .. }) => {
            assert_eq!((value, position), (told, at))
        }
        other => unreachable!("{other:?}"),
    }
    assert_eq!(world.guests[0].machine.session(), Some(session));
    let reads = world.submit(0, &["get n"]);
    world.run_until("the value", |world| world.all_answered(0, &reads));
    assert_eq!(world.value(0, reads[0]).as_deref(), Some("1"));
    world.check_exactly_once();
}

#[test]
fn a_later_run_goes_on_behind_the_numbers_of_an_earlier_one_and_asks_for_none_of_them() {
    for first in [2, 3, 60] {
        let (mut world, session, _) = counted(Setup::default());
        world.resume_behind(0, session, first);
        let more = world.submit(0, &["inc n"]);
        world.run_until("the answer", |world| world.all_answered(0, &more));
        assert_eq!(world.value(0, more[0]).as_deref(), Some("2"), "first number {first}");
        let Outcome::Accepted { .. } = &world.guests[0].outcomes[&more[0]] else { unreachable!("accepted") };
        let again = world.submit(0, &["inc n"]);
        world.run_until("the answer", |world| world.all_answered(0, &again));
        assert_eq!(world.value(0, again[0]).as_deref(), Some("3"), "first number {first}");
        world.check_exactly_once();
    }
}

#[test]
fn a_number_that_an_earlier_run_gave_out_is_answered_as_it_was_then() {
    let (mut world, session, first) = counted(Setup::default());
    world.resume_behind(0, session, 2);
    let more = world.submit(0, &["inc n"]);
    world.run_until("the answer", |world| world.all_answered(0, &more));
    // A run that lost count would ask for another command under the same number: it is not executed.
    world.resume_behind(0, session, 2);
    let other = world.submit(0, &["put n 77"]);
    world.run_until("an outcome", |world| world.all_answered(0, &other));
    assert!(matches!(first, Outcome::Accepted { .. }));
    let reads = world.submit(0, &["get n"]);
    world.run_until("the value", |world| world.all_answered(0, &reads));
    assert_eq!(world.value(0, reads[0]).as_deref(), Some("2"));
    world.check_exactly_once();
}

#[test]
fn nothing_is_sent_in_place_of_a_session_that_was_closed() {
    let mut setup = Setup { clients: 2, ..Setup::default() };
    setup.limits.sessions.sessions_max = 1;
    setup.limits.sessions.idle_ms = 1_000;
    let (mut world, session, _) = counted(setup);
    world.now = world.now + Span::secs(5);
    let other = world.submit(1, &["get n"]);
    world.run_until("the other's session", |world| world.all_answered(1, &other));
    world.now = world.now + Span::secs(5);
    world.resume(0, session);
    let again = world.submit(0, &["inc n"]);
    world.run_until("an outcome", |world| world.all_answered(0, &again));
    let outcome = &world.guests[0].outcomes[&again[0]];
    assert!(
        matches!(outcome, Outcome::Unknown(id, Doubt::SessionClosed) if (id.session, id.sequence) == (session, 1)),
        "{outcome:?}"
    );
    // The other's session gave way to the new one in turn, so its first answer is no answer.
    let mut told = None;
    for _ in 0..2 {
        world.now = world.now + Span::secs(5);
        let value = world.submit(1, &["get n"]);
        world.run_until("the value", |world| world.all_answered(1, &value));
        told = world.value(1, value[0]);
    }
    assert_eq!(told.as_deref(), Some("1"), "it was done once");
    world.check_exactly_once();
}
