//! Counts of whole runs in which nothing depends on a clock: stations are polled in turn, and a round takes 10 us.

use super::super::plan::Placement;
use super::super::tally::Counts;
use super::*;
use synod_machine::{Span, Time};
use synod_shm::Polled as _;

fn plan() -> UbftBench {
    UbftBench {
        is_suite: false,
        placement: Placement::Cooperative,
        part: None,
        apps: vec![App::Flip],
        baseline: None,
        systems: vec![System::Synod],
        size: 32,
        closed: 1,
        rate: None,
        batch: 1,
        samples: 60,
        warmup: 30,
        tail: 256,
        window: 512,
        fast_path: true,
        is_merged: false,
        has_crypto_thread: false,
        out: None,
    }
}

/// Runs without threads. A session opens by retries, so time goes on; a request takes a few rounds, and no timer of the fast path is near.
fn polled(plan: &UbftBench, system: System, app: App) -> Taken {
    let (near, far) = (Doorbell::new().expect("a bell"), Doorbell::new().expect("a bell"));
    let first = Arc::new(Tally::default());
    let watch = |me| {
        let tally = if me == 0 { first.clone() } else { Arc::new(Tally::default()) };
        (tally.clone() as Arc<dyn Observer>, Some(tally))
    };
    let ropes = (near.ropes(), far.ropes());
    let mut all = assemble(plan, (system, app), watch, ropes).expect("a sound plan");
    let mut now = Time(1);
    for _ in 0..100_000 {
        now = now + Span::micros(10);
        all.calling.tick(now);
        for station in &mut all.serving {
            station.tick(now);
        }
        if let Ok(taken) = all.taken.try_recv() {
            assert_eq!((taken.wrong, taken.unknown), (0, 0));
            assert_eq!(u32::try_from(taken.waited.len()), Ok(plan.samples));
            return taken;
        }
    }
    unreachable!("{system:?} answers {app:?}: {:?}", first.counts())
}

fn counts(plan: &UbftBench, system: System) -> Counts {
    polled(plan, system, App::Flip).spent.counts
}

#[test]
fn a_request_of_the_fast_path_takes_twenty_two_messages_and_no_signature() {
    let expected = Counts { messages: 22 * 60, slots: 60, ..Counts::default() };
    assert_eq!(counts(&plan(), System::Synod), expected);
    // Promises go with what is locked: 2 LOCKED more, 4 WILL_CERTIFY less.
    let merged = Counts { messages: 20 * 60, slots: 60, ..Counts::default() };
    assert_eq!(counts(&UbftBench { is_merged: true, ..plan() }, System::Synod), merged);
    let two = Counts { messages: 2 * 60, ..Counts::default() };
    assert_eq!(counts(&plan(), System::Unreplicated), two);
}

#[test]
fn requests_that_wait_while_a_leader_may_say_nothing_share_slots_up_to_the_batch() {
    // A leader whose tail is full waits for a summary.
    let flight =
        |batch| counts(&UbftBench { closed: 64, batch, tail: 16, samples: 600, ..plan() }, System::Synod);
    let (one, sixteen) = (flight(1), flight(16));
    assert!(one.slots >= 500, "each request has a slot: {one:?}");
    assert!(sixteen.slots < one.slots / 2, "{sixteen:?} {one:?}");
}

#[test]
fn every_application_and_size_is_answered_and_every_answer_compared() {
    for (app, size, closed) in
        [(App::Flip, 2, 4), (App::Flip, 8_192, 4), (App::Kv, 8_192, 4), (App::Noop, 2, 4), (App::Book, 32, 1)]
    {
        for batch in [1, 16] {
            let plan = UbftBench { size, closed, batch, ..plan() };
            assert_eq!(polled(&plan, System::Synod, app).spent.counts.signs, 0, "{app:?} {size}");
            polled(&plan, System::Unreplicated, app);
        }
    }
}

#[test]
fn requests_of_an_open_loop_count_from_when_they_were_due_also_those_that_waited_for_room() {
    // Far more than can be answered: nearly all of them wait until one of those in flight ends.
    let plan = UbftBench { rate: Some(10_000_000), samples: 300, ..plan() };
    for system in [System::Unreplicated, System::Synod] {
        let mut from = polled(&plan, system, App::Flip).from;
        from.sort_unstable();
        let gaps: Vec<u128> = from.windows(2).map(|pair| (pair[1] - pair[0]).as_nanos()).collect();
        assert_eq!(gaps, vec![100; 299], "{system:?}");
    }
}
