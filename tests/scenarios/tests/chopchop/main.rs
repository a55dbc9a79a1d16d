//! Attacks of the written design by their numbers (chopchop 7.1), each over the ideal order and over HotStuff: whole runs with
//! clients, brokers, stores and servers, under every oracle. Attacks on single machines are beside those.

mod far;
mod leaders;
mod lost_messages;
mod shares;

use std::collections::BTreeMap;

use synod_machine::{Never, Span};
use synod_quorum::NodeId;
use synod_scenarios::with;
use synod_sim::Scenario;
use synod_trial::report::RunReport;
use synod_trial::systems::chopchop::plan::{BROKERS, CLIENTS};
use synod_trial::systems::chopchop::stage::Stage;

/// A message of Chop Chop.
type Message = synod_chopchop::vocabulary::Message<Never>;

/// The broker that the even clients ask first.
const FIRST: NodeId = NodeId(BROKERS);
/// The one that the odd ones do.
const SECOND: NodeId = NodeId(BROKERS + 1);

/// So many servers, two brokers and so many clients in one data centre, and 80 groups of broadcasts in 4 s.
fn calm(system: &str, servers: u32, clients: u32) -> Scenario {
    let mut scenario = Scenario::quiet(system, 7);
    (scenario.nodes, scenario.guests, scenario.requests) = (servers, 2 + clients, 80);
    scenario.horizon = Span::secs(4);
    let numbers = [
        ("brokers", 2),
        ("datagrams", 0),
        ("checkpoint_every", 16),
        ("window_min_ms", 5),
        ("window_max_ms", 20),
        ("distil_min", 2),
        ("distil_max_ms", 50),
        ("submit_ms", 400),
        ("submit_max_ms", 1_600),
        ("retransmit_ms", 50),
        ("burst", 1),
        ("timeout_base_ms", 50),
        ("timeout_max_ms", 800),
    ];
    with(scenario, &numbers)
}

/// A world in which these messages get through.
fn stage(scenario: &Scenario, passes: impl FnMut(NodeId, NodeId, &Message) -> bool + 'static) -> Stage {
    Stage::new(scenario, passes).expect("a scenario of Chop Chop")
}

/// Whether a node is an even client, whose first broker is [`FIRST`].
fn is_even(id: NodeId) -> bool {
    id.0 >= CLIENTS && (id.0 - CLIENTS).is_multiple_of(2)
}

/// Heals the world; nothing may be wrong, and every broadcast is delivered.
fn settles(stage: Stage) -> RunReport {
    let report = stage.settle();
    assert!(report.passed(), "{}\n{}\n{}", report.token, report.what, report.columns);
    assert!(report.executed > 0 && report.accepted > 0, "{}: nothing happened", report.token);
    report
}

/// Broadcasts that each client was told are delivered.
fn told(stage: &Stage) -> BTreeMap<u32, u64> {
    stage.book(|book| {
        let told = book.asked.iter().filter(|asked| asked.told.is_some());
        told.fold(BTreeMap::new(), |mut sum, asked| {
            *sum.entry(asked.node).or_insert(0) += 1;
            sum
        })
    })
}
