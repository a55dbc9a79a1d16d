//! Row 13 of the written design (8.4): how long a message takes where servers, brokers and clients stand around the world. Times
//! are virtual, so the figures are the same on every machine; `--nocapture` prints them.

use std::collections::BTreeMap;

use synod_machine::{Span, Time};
use synod_scenarios::with;
use synod_sim::{Latency, Scenario};
use synod_trial::systems::chopchop::SYSTEMS;
use synod_trial::systems::chopchop::book::Book;

use crate::{settles, stage};

/// What half of the messages may take with a broker in every region, as the paper has them, and with one for the world.
const MINIMA: [(i64, Span); 2] = [(14, Span::millis(1_300)), (1, Span::secs(2))];

/// One server and one broker in each of fourteen regions, two clients in each, whose first broker stands in another region;
/// windows and patience as brokers have them.
fn world(system: &str, brokers: i64) -> Scenario {
    let mut scenario = Scenario::quiet(system, 7);
    (scenario.nodes, scenario.guests, scenario.requests) =
        (14, u32::try_from(brokers).unwrap_or(1) + 28, 280);
    (scenario.latency, scenario.horizon) = (Latency::World, Span::secs(60));
    let numbers = [
        ("brokers", brokers),
        ("window_min_ms", 10),
        ("window_max_ms", 1_000),
        ("distil_min", 2),
        ("distil_max_ms", 1_000),
        ("submit_ms", 6_000),
        ("submit_max_ms", 12_000),
        ("retransmit_ms", 1_000),
        ("burst", 1),
        ("timeout_base_ms", 1_000),
        ("timeout_max_ms", 8_000),
    ];
    with(scenario, &numbers)
}

/// What messages took whose client had nothing else in flight, in order.
fn taken(book: &Book) -> Vec<Span> {
    let mut free: BTreeMap<u32, Time> = BTreeMap::new();
    let mut taken = Vec::new();
    for asked in &book.asked {
        let Some(told) = asked.told else { continue };
        let since = free.get(&asked.node).copied().unwrap_or(Time::ZERO);
        if since <= asked.at {
            taken.push(told.since(asked.at));
        }
        free.insert(asked.node, since.max(told));
    }
    taken.sort_unstable();
    taken
}

#[test]
fn half_of_the_messages_around_the_world_are_delivered_within_the_bound() {
    let cases = || SYSTEMS.iter().flat_map(|system| MINIMA.map(|(brokers, most)| (system, brokers, most)));
    for (system, brokers, most) in cases() {
        let mut stage = stage(&world(system, brokers), |_, _, _| true);
        stage.run(Span::secs(75));
        let taken = stage.book(taken);
        settles(stage);
        let of = |share: usize| taken.get(taken.len() * share / 100).copied().unwrap_or(Span::ZERO);
        let (p50, p90, p99) = (of(50), of(90), of(99));
        println!(
            "{system}, 14 servers, {brokers} brokers: p50 {} ms, p90 {} ms, p99 {} ms of {} messages",
            p50.as_millis(),
            p90.as_millis(),
            p99.as_millis(),
            taken.len()
        );
        assert!(taken.len() > 100, "{system}: only {} messages", taken.len());
        assert!(p50 > Latency::World.largest() && p50 <= most, "{system}: {} ms", p50.as_millis());
    }
}
