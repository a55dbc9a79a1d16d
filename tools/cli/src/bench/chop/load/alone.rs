//! What an application executes on one core that has nothing else to do: no order, no signatures, one lane on this thread.
//!
//! Each batch is of clients drawn from equal shares of the directory, with operations as the load broker makes them, and none is
//! sent twice: a bid is above those of the batches before. Making a batch is not part of the time.

use super::plan::{App, LoadPlan, TOKENS};
use super::report::per_s;
use super::rig::GRANT;
use crate::bench::chop::report::{float, rounded};
use crate::exit::bug;
use serde_json::{Map, Value, json};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};
use synod_auction::AuctionLanes;
use synod_config::SynError;
use synod_crypto::Hash;
use synod_machine::Rng;
use synod_payments::PaymentLanes;
use synod_pixels::PixelLanes;
use synod_quorum::NodeId;
use synod_service::lanes::{Batch, LaneApp, State};
use synod_service::{At, Position, Wall};

/// Batches that are executed before the time counts.
const WARM: u64 = 16;

/// What one application did.
#[derive(Clone, Copy, Debug, Default)]
struct Did {
    messages: u64,
    /// Those that changed something.
    done: u64,
    took: Duration,
}

/// Messages per second of every application alone, in turn, as often as the plan repeats: the middle of each, its spread, and the
/// share of messages that changed something.
///
/// # Errors
/// An application that refuses what it opens with.
pub(super) fn measure(plan: &LoadPlan) -> Result<Map<String, Value>, SynError> {
    let mut all: Vec<(App, Vec<Did>)> = App::ALL.map(|app| (app, Vec::new())).into();
    for _ in 0..plan.repeat {
        for (app, did) in &mut all {
            did.push(one(&LoadPlan { app: *app, ..plan.clone() })?);
        }
    }
    let row = |(app, mut did): (App, Vec<Did>)| {
        let rate = |did: &Did| per_s(did.messages, did.took);
        did.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
        let middle = did.get(did.len() / 2).copied().unwrap_or_default();
        let spread = [did.first(), did.last()].map(|one| rounded(one.map_or(0.0, rate)));
        let row = json!({
            "messages_per_s": rounded(rate(&middle)), "messages_per_s_spread": spread,
            "changed_something": rounded(share(middle.done, middle.messages)), "batches": middle.messages / u64::from(plan.batch),
        });
        (app.name().to_owned(), row)
    };
    Ok(all.into_iter().map(row).collect())
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { float(part) / float(whole) }
}

fn one(plan: &LoadPlan) -> Result<Did, SynError> {
    let refused = || bug("bench", &"an application that refuses what it opens with");
    let grant = u64::from(GRANT);
    Ok(match plan.app {
        App::Payments => execute(PaymentLanes::new(grant).ok_or_else(refused)?, plan, 0..=0),
        App::Auction => execute(AuctionLanes::new(grant, TOKENS).ok_or_else(refused)?, plan, 0..=1),
        App::Pixels => execute(PixelLanes, plan, 0..=0),
    })
}

/// Executes batches for the time of another way, and asserts what must hold of the state then. These codes are of operations that
/// changed something.
fn execute<P: LaneApp>(app: P, plan: &LoadPlan, changed: RangeInclusive<u8>) -> Did {
    let mut rng = Rng::new(7, NodeId(0), 0);
    let (mut state, mut did) = (State::new(app, 1, plan.clients), Did::default());
    for height in 1.. {
        let batch = batch(plan, height, &mut rng);
        let begin = Instant::now();
        let codes = state.execute(&batch);
        let took = begin.elapsed();
        if height > WARM {
            did.took += took;
            did.messages += codes.len() as u64;
            did.done += codes.iter().filter(|code| changed.contains(*code)).count() as u64;
        }
        if did.took >= plan.aside() {
            break;
        }
    }
    state.invariants();
    did
}

fn batch(plan: &LoadPlan, height: u64, rng: &mut Rng) -> Batch {
    let share = plan.clients / plan.batch.max(1);
    let mut drawn = || u32::try_from(rng.below(u64::from(share))).unwrap_or(0);
    let ids = (0..plan.batch).map(|at| at * share + drawn()).collect();
    let operations = plan.source().operations.messages(plan.batch as usize, height, rng);
    let at = At { position: Position(height), time: Wall(0), draw: Hash::of(&height.to_le_bytes()) };
    Batch { height, at, directory: plan.clients, ids, operations, skipped: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::super::plan::tests::plan;
    use super::*;

    #[test]
    fn every_application_executes_alone_what_the_load_broker_asks_for() {
        let small = LoadPlan { span: Duration::from_millis(2), repeat: 1, ..plan() };
        let all = measure(&small).expect("sound applications");
        for app in ["payments", "pixels", "auction"] {
            let row = &all[app];
            let [least, most] = [0, 1].map(|at| row["messages_per_s_spread"][at].as_f64());
            let middle = row["messages_per_s"].as_f64();
            assert!(least > Some(0.0) && least <= middle && middle <= most, "{app}: {row}");
            // Of bids on one token in one batch the first alone is above the best one.
            assert!(row["changed_something"].as_f64() > Some(0.5), "{app}: {row}");
        }
    }

    #[test]
    fn batches_are_of_distinct_clients_and_no_bid_comes_again() {
        let mut rng = Rng::new(7, NodeId(0), 0);
        let plan = LoadPlan { app: App::Auction, ..plan() };
        let [one, next] = [1, 2].map(|height| batch(&plan, height, &mut rng));
        assert!(one.ids.is_sorted_by(|a, b| a < b) && one.ids.len() == 100 && one.is_readable());
        let amount =
            |batch: &Batch| u32::from_le_bytes(batch.operations[4..8].try_into().expect("four bytes"));
        assert!(amount(&next) > amount(&one), "{} and {}", amount(&next), amount(&one));
    }
}
