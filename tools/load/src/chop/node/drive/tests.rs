//! What a server delivers and refuses under the load broker.

use super::{Replay, ServerPlan, serve};
use crate::chop::{BatchPlan, Forged, IdDraw, KeyFamily, Members, cluster};
use std::time::Duration;
use synod_crypto::Seed;

fn members() -> Members {
    KeyFamily::new(&Seed::new([9; 32])).members(2_048, 2_048).expect("whole chunks")
}

#[test]
fn a_server_delivers_what_is_replayed_once_and_witnesses_its_share() {
    let cluster = cluster();
    let members = members();
    for (ids, cohorts, vectors, share) in [
        (IdDraw::Uniform, true, true, (26, 64)),
        (IdDraw::Cohort(5), true, true, (1, 1)),
        (IdDraw::Cohort(5), false, false, (0, 1)),
    ] {
        let plan = BatchPlan { ids, count: 600, msg_size: 8, distilled: 1_000 };
        let replay = Replay::new(&cluster, &members, plan, 3).expect("a pool");
        let span = Duration::from_millis(300);
        let plan =
            ServerPlan { window: 8, share, cohorts, vectors, together: 4, warmup: Duration::ZERO, span };
        let served = serve(&cluster, &members, &replay, &plan).expect("it runs");
        assert!(served.sound(), "{served:?}");
        assert!(served.delivered > 8, "more than a window: {served:?}");
        let share_of = served.batches * u64::from(share.0) / u64::from(share.1);
        assert!(served.witnessed.abs_diff(share_of) <= 9, "{served:?}");
    }
}

/// A server that is asked to witness every other batch.
fn plan(window: usize, span: Duration) -> ServerPlan {
    let warmup = Duration::ZERO;
    ServerPlan { window, share: (1, 2), cohorts: true, vectors: true, together: 4, warmup, span }
}

#[test]
fn stragglers_are_sent_once_and_the_clock_stops_when_none_are_left() {
    let (cluster, members) = (cluster(), members());
    let long = Duration::from_secs(600);
    let long = ServerPlan { warmup: long, ..plan(4, long) };
    for (ids, distilled, stragglers) in [(IdDraw::Uniform, 0, 300), (IdDraw::Cohort(5), 900, 30)] {
        let batch = BatchPlan { ids, count: 300, msg_size: 8, distilled };
        let replay = Replay::new(&cluster, &members, batch, 24).expect("a series");
        assert_eq!((replay.len(), replay.most()), (24, Some(24)));
        let header = &replay.first().expect("a batch").header;
        assert_eq!((header.k, header.stragglers), (1, stragglers), "{ids} {distilled}");
        assert!(replay.send(24, true).is_some() && replay.send(25, true).is_none());
        // A server begins anew each time, and so do the numbers.
        for _ in 0..2 {
            let served = serve(&cluster, &members, &replay, &long).expect("it runs");
            assert!(served.sound() && served.used_up, "{served:?}");
            assert!((20..=24).contains(&served.sent), "a window that cannot be filled: {served:?}");
            assert!((1..=19).contains(&served.batches) && served.messages == 300 * served.batches);
            assert!(served.witnessed > 0 && !served.wall.is_zero(), "{served:?}");
        }
    }
}

#[test]
fn the_clock_stops_at_its_time_where_batches_are_left() {
    let (cluster, members) = (cluster(), members());
    let batch = BatchPlan { ids: IdDraw::Uniform, count: 64, msg_size: 8, distilled: 0 };
    let replay = Replay::new(&cluster, &members, batch, 400).expect("a series");
    let served = serve(&cluster, &members, &replay, &plan(4, Duration::ZERO)).expect("it runs");
    assert!(
        !served.used_up && served.sent == 0 && served.faults == 0,
        "no time, so nothing is sent: {served:?}"
    );
}

#[test]
fn a_wrong_signature_of_one_straggler_is_found_by_the_server_that_is_asked() {
    let (cluster, members) = (cluster(), members());
    let every = ServerPlan { share: (1, 1), ..plan(2, Duration::from_secs(600)) };
    for distilled in [0, 900] {
        let batch = BatchPlan { ids: IdDraw::Uniform, count: 300, msg_size: 8, distilled };
        let replay = Replay::new(&cluster, &members, batch, 8).expect("a series");
        let genuine = serve(&cluster, &members, &replay, &every).expect("it runs");
        assert!(genuine.sound() && genuine.delivered > 6, "{genuine:?}");
        let forged = replay.first().and_then(|first| Forged::of(&cluster, first, 7));
        let replay = replay.beginning_with(forged.and_then(|all| all.resigned).expect("a straggler"));
        let served = serve(&cluster, &members, &replay, &every).expect("it stops");
        assert!(!served.sound() && served.faults > 0 && served.delivered == 0, "{served:?}");
    }
}
