//! What one executor does with the order: skipping, waiting, results, checkpoints (TK7, 3.5).

use synod_machine::broadcast::{Delivered, Entry, Origin, Position, Submit};
use synod_machine::{Effect, Event, Machine, Wall, testing};
use synod_quorum::NodeId;
use synod_service::executor::ExecutorRecord;
use synod_service::{CommandResult, Executor, ExecutorInput, ExecutorLimits, ExecutorOutput};
use synod_wire::Bytes;

use crate::alone::{Alone, GUEST, faults, frame, item, opening, results, signed, submits};
use crate::board::Board;
use crate::world::Setup;

/// TK7.
#[test]
fn a_forgery_that_a_member_proposes_is_skipped_and_counts_against_it() {
    let mut alone = Alone::open(Setup::default());
    let before = alone.executor.sessions().get(1).cloned();
    let effects = alone.entry(&signed(frame(1, 0, &["inc n"]), 101));
    assert_eq!(faults(&effects), [(NodeId(2), "suspected_forgery")]);
    assert_eq!(submits(&effects), [Submit::Applied { position: Position(2), root: None }]);
    assert_eq!(alone.executor.sessions().get(1).cloned(), before, "nothing of it was acknowledged");
    assert_eq!(alone.executor.app().values.len(), 0);
    let effects = alone.entry(&Bytes::from_static(b"\x01no item"));
    assert_eq!(faults(&effects), [(NodeId(2), "suspected_forgery")]);
    let effects = alone.entry(&Bytes::new());
    assert_eq!((faults(&effects), alone.executor.executed()), (Vec::new(), Position(4)));
    assert_eq!(
        results(&{
            alone.say(GUEST, item(&signed(frame(1, 0, &["inc n"]), 100)));
            alone.entry(&signed(frame(1, 0, &["inc n"]), 100))
        })
        .position,
        Position(5)
    );
}

#[test]
fn a_frame_of_a_session_opened_just_before_it_waits_for_the_opening() {
    let mut alone = Alone::new(Setup::default());
    alone.entry_of(&opening(), false);
    let effects = alone.entry(&signed(frame(1, 0, &["put a 1"]), 100));
    assert_eq!(alone.executor.app().executed, [(1, 1)]);
    assert_eq!(submits(&effects), [Submit::Applied { position: Position(2), root: None }]);
    let mut late = Alone::new(Setup::default());
    late.entry(&signed(frame(1, 0, &["put a 1"]), 100));
    assert_eq!((late.executor.app().executed.len(), late.executor.executed()), (0, Position(1)));
}

#[test]
fn results_that_do_not_fit_a_body_are_marked_and_the_frame_still_executes() {
    let mut alone = Alone::open(Setup::default());
    let payload = signed(frame(1, 0, &["big 2000000", "big 2000000", "inc n"]), 100);
    alone.say(GUEST, item(&payload));
    let results = results(&alone.entry(&payload)).results.into_vec();
    assert!(matches!(
        &results[..],
        [CommandResult::Value(_), CommandResult::Oversize, CommandResult::Value(_)]
    ));
    assert_eq!(alone.executor.app().executed.len(), 3);
}

#[test]
fn a_root_leaves_after_the_snapshot_behind_it() {
    let mut alone = Alone::open(Setup::default());
    for _ in 2..16 {
        let effects = alone.entry(&Bytes::new());
        assert!(matches!(submits(&effects)[..], [Submit::Applied { root: None, .. }]));
    }
    let effects = alone.entry_of(&Bytes::new(), false);
    let place = |of: &dyn Fn(&Effect<Executor<Board>>) -> bool| effects.iter().position(of).expect("there");
    let stored = effects.iter().rposition(|effect| matches!(effect, Effect::Store { .. })).expect("there");
    let record = place(&|effect| matches!(effect, Effect::Persist(ExecutorRecord::Taken(_))));
    let root = place(&|effect| {
        matches!(effect, Effect::Output(ExecutorOutput::Submit(Submit::Applied { root: Some(_), .. })))
    });
    assert!(stored < record && record < root, "blobs, record, root: {effects:?}");
    assert_eq!(alone.executor.resume_position(), Position(16));
}

#[test]
fn a_slow_executor_takes_no_more_than_its_lag() {
    let limits = ExecutorLimits { lag_bytes: 2_000, ..Setup::default().limits };
    let mut alone = Alone::open(Setup { limits, ..Setup::default() });
    assert_eq!(alone.executor.room(), u32::MAX);
    // Signatures that are never checked keep what is delivered waiting.
    let mut held = 0;
    while alone.executor.room() > 0 {
        held += 1;
        let entry = Entry {
            position: Position(alone.position + held),
            time: Wall(1_000),
            last: true,
            origin: Origin::Member(NodeId(2)),
            payload: signed(frame(held, 0, &["inc n"]), 100),
            proof: None,
        };
        let event = Event::Input(ExecutorInput::Delivered(Delivered::Entry(entry)));
        testing::effects(&mut alone.executor, event, synod_machine::Time(5));
    }
    assert!((3..10).contains(&held), "{held} frames of some 400 bytes");
}

#[test]
fn status_and_proofs_pass_through() {
    let mut alone = Alone::open(Setup::default());
    let prove = alone.step(Event::Input(ExecutorInput::Prove(Position(1))));
    assert_eq!(submits(&prove), [Submit::Prove(Position(1))]);
    let proof = Delivered::Proof { position: Position(1), proof: None };
    let answered = alone.step(Event::Input(ExecutorInput::Delivered(proof)));
    assert!(matches!(
        answered[..],
        [Effect::Output(ExecutorOutput::Proof { position: Position(1), proof: None })]
    ));
    let status = alone.step(Event::Input(ExecutorInput::Status));
    let [Effect::Output(ExecutorOutput::Status(status))] = &status[..] else { unreachable!("{status:?}") };
    assert_eq!((status.executed, status.sessions, status.pool_items, status.lag), (Position(1), 1, 0, 0));
}
