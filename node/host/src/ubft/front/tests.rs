//! Tests of what waits in front of a client machine.

use bytes::Bytes;

use super::*;
use crate::backend::Mode;

const WINDOW: usize = 2;

fn shared() -> Shared {
    let shared =
        Shared { state: Mutex::default(), changed: Condvar::new(), cluster: Hash::ZERO, window: WINDOW };
    shared.hear(Output::Ready(9));
    shared
}

fn call(shared: &Shared, names: &[&'static str], deadline: Duration) -> oneshot::Receiver<Vec<Outcome>> {
    let (reply, answer) = oneshot::channel();
    let operation =
        |name: &&'static str| Operation { body: Bytes::from_static(name.as_bytes()), mode: Mode::Ordered };
    let job = Job {
        operations: names.iter().map(operation).collect(),
        outcomes: Vec::new(),
        until: Instant::now() + deadline,
        reply,
    };
    shared.state().waiting.push_back(job);
    answer
}

const LONG: Duration = Duration::from_secs(600);

/// The tickets and operations that the machine is asked now.
fn asked(shared: &Shared) -> Vec<(u64, Bytes)> {
    let inputs = shared.pump().into_iter().map(|input| match input {
        Input::Call { ticket, op } => (ticket, op),
        Input::Read { ticket, question } => (ticket, question),
    });
    inputs.collect()
}

fn done(shared: &Shared, ticket: u64, result: &'static str) {
    shared.hear(Output::Done { ticket, result: Bytes::from_static(result.as_bytes()) });
}

fn accepted(value: &'static str) -> Outcome {
    Outcome::Accepted { value: Bytes::from_static(value.as_bytes()), position: 0 }
}

#[test]
fn operations_of_a_call_go_one_after_the_other_and_calls_side_by_side() {
    let shared = shared();
    let mut first = call(&shared, &["a", "b"], LONG);
    let mut second = call(&shared, &["c"], LONG);
    let _third = call(&shared, &["d"], LONG);
    assert_eq!(asked(&shared), [(1, "a".into()), (2, "c".into())], "the window is two");
    assert_eq!(asked(&shared), []);
    done(&shared, 1, "A");
    assert_eq!(asked(&shared), [(3, "b".into())], "before calls that came later");
    done(&shared, 2, "C");
    assert_eq!(second.try_recv(), Ok(vec![accepted("C")]));
    assert_eq!(asked(&shared), [(4, "d".into())]);
    done(&shared, 3, "B");
    assert_eq!(first.try_recv(), Ok(vec![accepted("A"), accepted("B")]));
    done(&shared, 3, "twice");
}

#[test]
fn nothing_is_asked_before_the_session_is_open() {
    let shared = shared();
    shared.state().session = None;
    let _call = call(&shared, &["a"], LONG);
    assert_eq!(asked(&shared), []);
    shared.hear(Output::Ready(9));
    assert_eq!(asked(&shared).len(), 1);
}

#[test]
fn what_the_machine_refuses_is_asked_again_once_something_came_back() {
    let shared = shared();
    let (_first, mut second) = (call(&shared, &["a"], LONG), call(&shared, &["b"], LONG));
    assert_eq!(asked(&shared).len(), 2);
    shared.hear(Output::Refused { ticket: 2 });
    assert_eq!(asked(&shared), [], "it had no room a moment ago");
    done(&shared, 1, "A");
    assert_eq!(asked(&shared), [(3, "b".into())]);
    done(&shared, 3, "B");
    assert_eq!(second.try_recv(), Ok(vec![accepted("B")]));
}

#[test]
fn what_the_machine_refused_is_looked_at_long_before_its_deadline() {
    let shared = shared();
    let _call = call(&shared, &["a"], LONG);
    let now = Instant::now();
    assert_eq!(shared.next_look(&shared.state(), now), Some(now), "it can be asked at once");
    assert_eq!(asked(&shared).len(), 1);
    assert!(
        shared.next_look(&shared.state(), now) > Some(now + LONG / 2),
        "its deadline is all that is left"
    );
    shared.hear(Output::Refused { ticket: 1 });
    let refused = Instant::now();
    let next = shared.next_look(&shared.state(), refused).expect("something waits");
    assert!(next <= refused + STALLED, "the machine has room again soon");
    assert_eq!(shared.next_look(&shared.state(), next), Some(next), "then it can be asked");
}

#[test]
fn a_read_is_asked_of_all_and_what_changes_something_is_ordered() {
    let operation = |mode| Operation { body: Bytes::from_static(b"x"), mode };
    assert_eq!(input(1, &operation(Mode::Ordered)), Input::Call { ticket: 1, op: "x".into() });
    for mode in [Mode::Quorum, Mode::Local] {
        assert_eq!(input(2, &operation(mode)), Input::Read { ticket: 2, question: "x".into() });
    }
}

#[test]
fn a_call_ends_at_its_deadline_and_with_the_session_whether_it_was_sent_or_not() {
    let shared = shared();
    let (mut sent, mut other) = (call(&shared, &["a", "b"], LONG), call(&shared, &["x"], LONG * 3));
    assert_eq!(asked(&shared).len(), 2);
    let (mut waits, now) = (call(&shared, &["c"], LONG), Instant::now());
    assert!(!shared.expire(now));
    assert!(!shared.expire(now + LONG * 2));
    assert!(shared.next_look(&shared.state(), now) > Some(now + LONG * 2), "one is left");
    assert_eq!(sent.try_recv(), Ok(vec![Outcome::Unknown(None); 2]));
    assert_eq!(waits.try_recv(), Ok(vec![Outcome::Unknown(None)]));
    // Its answer is nobody's any more.
    done(&shared, 1, "late");
    assert!(other.try_recv().is_err(), "it still waits");
    shared.state().is_over = true;
    assert!(shared.expire(now));
    assert_eq!(other.try_recv(), Ok(vec![Outcome::Unknown(None)]));
}

#[test]
fn what_the_machine_gave_up_has_a_name_and_what_follows_it_was_not_sent() {
    let shared = shared();
    let mut answer = call(&shared, &["a", "b"], LONG);
    assert_eq!(asked(&shared).len(), 1);
    shared.hear(Output::Unknown { ticket: 1, id: 17 });
    let name = RequestId { cluster: Hash::ZERO, session: 9, sequence: 17 };
    assert_eq!(answer.try_recv(), Ok(vec![Outcome::Unknown(Some(name)), Outcome::Unknown(None)]));
    assert_eq!(asked(&shared), []);
}
