//! The fourteen bad identities against a node of this process, and the controls beside them.

use std::net::SocketAddr;

use synod_chaos::identity::{Target, admitted, run};
use synod_machine::Link;
use synod_quorum::NodeId;

use crate::rig::{Rig, Told, free, secret};

/// Member 0 under attack, member 1 beside it, member 2 away.
fn cluster() -> (Rig, Rig, SocketAddr) {
    let (node, live, absent_at) = (Rig::start(0, "n1"), Rig::start(1, "n1"), free());
    node.dial(1, live.peers);
    node.dial(2, absent_at);
    node.wait_for(&Told::Link(NodeId(1), Link::Up));
    live.wait_for(&Told::Link(NodeId(0), Link::Up));
    (node, live, absent_at)
}

fn target(node: &Rig, absent_at: SocketAddr) -> Target {
    Target { peers: node.peers, guests: node.guests, absent: secret(2), absent_at, live: secret(1) }
}

#[test]
fn all_fourteen_bad_identities_are_refused_by_name_and_members_talk_on() {
    let (node, live, absent_at) = cluster();
    let target = target(&node, absent_at);
    let mut told = 0;
    let findings = run(&target, &node, |_| told += 1).expect("the node listens and counts");
    let wrong: Vec<_> = findings.iter().filter(|finding| !finding.refused).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!((findings.len(), told), (14, 14));
    assert!(findings.iter().map(|finding| finding.attempts).sum::<usize>() >= 25);
    assert!(admitted(&target).expect("the node listens"), "the same harness comes in with its own key");
    // The link that was there before is the one that carries the next word.
    node.say(1, 77);
    live.wait_for(&Told::Heard(NodeId(0), 77));
    assert!(node.only(|told| !matches!(told, Told::Link(NodeId(1), _) | Told::Heard(..))));
}
