//! Three replicas of MinBFT and a client over the rings, polled in turn by one thread.

use std::time::Duration;

use synod_minbft::{Assembled, Measured, Plan, REPLICAS, assemble, row};
use synod_shm::{Doorbell, Rest, poller};

const REQUESTS: u32 = 1_000;
/// Passes after which whoever has not answered will not.
const PASSES_MAX: u32 = 2_000_000;

/// Runs until the client has all results and every replica executed every request.
fn ran(plan: &Plan) -> (Measured, Vec<[u64; 3]>) {
    let bell = Doorbell::new().expect("a bell");
    let Assembled { serving, calling, counts, taken } =
        assemble(plan, (bell.ropes(), bell.ropes()), true).expect("a rig");
    let mut poller = poller(serving.into_iter().chain([calling]).collect(), Rest::Yield, bell);
    let replicas = &counts[..REPLICAS as usize];
    let is_over = || replicas.iter().all(|counts| counts.executed() == u64::from(REQUESTS));
    let mut measured = None;
    for _ in 0..PASSES_MAX {
        poller.pass().expect("it polls");
        measured = measured.or_else(|| taken.now(&counts));
        if measured.is_some() && is_over() {
            break;
        }
    }
    let told = replicas.iter().map(|counts| [counts.executed(), counts.signs(), counts.checks()]);
    (measured.expect("the client has its results"), told.collect())
}

fn plan(each_use: Duration) -> Plan {
    Plan { size: 32, samples: REQUESTS - 200, warmup: 200, each_use }
}

#[test]
fn three_replicas_execute_every_request_once_and_the_client_has_each_result_once() {
    let plan = plan(Duration::ZERO);
    let (measured, told) = ran(&plan);
    assert_eq!((measured.waited.len(), measured.errors), (800, 0));
    for [executed, signs, checks] in told {
        assert_eq!(executed, u64::from(REQUESTS));
        // A PREPARE or a COMMIT for each request, and a checkpoint for each 256 of them.
        assert_eq!(signs, u64::from(REQUESTS) + u64::from(REQUESTS) / 256);
        assert!(checks >= u64::from(REQUESTS), "{checks}");
    }
    let row = row(&plan, &measured);
    assert_eq!(
        (&row["system"], &row["samples"], &row["errors"]),
        (&"minbft-raw".into(), &800.into(), &0.into())
    );
}

#[test]
fn a_use_of_the_counter_takes_as_long_as_it_is_told_to() {
    let plan = plan(Duration::from_micros(8));
    let (measured, _) = ran(&plan);
    // The primary signs, and a follower checks that and signs before it executes: three uses one after the other at least.
    let fastest = measured.waited.iter().min().copied().unwrap_or(0);
    assert!(fastest >= 24_000, "{fastest}");
    assert_eq!(row(&plan, &measured)["system"], "minbft-enclave");
}
