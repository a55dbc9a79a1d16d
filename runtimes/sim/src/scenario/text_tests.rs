//! Scenarios survive being written and read, and bad ones are refused with their line.

use super::*;
use crate::scenario::{FAMILIES, Swarm};

#[test]
fn a_drawn_scenario_comes_back_as_it_was() {
    for seed in 0..50_u64 {
        let swarm = Swarm {
            system: "hotstuff/chain3".to_owned(),
            nodes: 4,
            guests: 2,
            requests: 9,
            faulty_max: 1,
            horizon: Span::secs(9),
            mode: if seed % 2 == 0 { Mode::Datagram } else { Mode::Connection },
            families: FAMILIES.to_vec(),
            incidents_max: 5,
        };
        let mut scenario = swarm.scenario(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        scenario.options.insert("term_views".to_owned(), -3);
        scenario.latency = if seed % 3 == 0 { Latency::Two(Span(66)) } else { scenario.latency };
        assert_eq!(Scenario::from_toml(&scenario.to_toml()), Ok(scenario));
    }
}

fn refused(text: &str) -> Unreadable {
    Scenario::from_toml(text).expect_err("the text is no scenario")
}

#[test]
fn what_is_not_understood_is_refused_with_its_line() {
    assert_eq!(refused("nodes = 4\nnodse = 4").line, 2);
    assert_eq!(refused("[[incident]]\nfamily = \"net.rain\"").line, 2);
    assert_eq!(refused("nodes = -1").line, 1);
    assert_eq!(refused("\n\nseed = 7").line, 3);
    assert_eq!(refused("system = \"a").line, 1);
    assert_eq!(refused("[[incident]]\nnodes = [1, x]").line, 2);
    assert_eq!(refused("what").line, 1);
    assert!(refused("schema = 2").why.contains("this build reads 1"));
    assert!(refused("latency = \"moon\"").why.contains("moon"));
}

#[test]
fn two_incidents_of_one_id_are_refused() {
    let incident = "[[incident]]\nid = 3\nfamily = \"net.reset\"\nat_ns = 1\n";
    assert!(refused(&format!("{incident}{incident}")).why.contains("the id 3"));
    assert!(Scenario::from_toml(incident).is_ok());
}

#[test]
fn comments_and_separators_are_allowed() {
    let read = Scenario::from_toml("# a run\nnodes = 1_0\n\n[options]\nx = 5\n").expect("a scenario");
    assert_eq!((read.nodes, read.options["x"]), (10, 5));
}
