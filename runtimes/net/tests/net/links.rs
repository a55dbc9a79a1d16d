//! Links between nodes: order, loss, reconnection, bounded queues.

use crate::rig::{Act, Plan, Script, cluster, config};
use synod_quorum::{NodeId, NodeSet};

#[test]
fn two_members_link_up_over_tls_and_echo() {
    let rigs = cluster(2, |own| {
        let echo = (own == 1).then_some(1_000);
        Plan::new(config(own, 2)).script(Script { echo, ..Script::default() })
    });
    let to = NodeSet::only(NodeId(1));
    rigs[0].act((0..100).map(|tag| Act::Send { to, queue: 0, tag, size: 10 }).collect());
    assert_eq!(rigs[1].hear(100), (0..100).collect::<Vec<u64>>());
    assert_eq!(rigs[0].hear(100), (1_000..1_100).collect::<Vec<u64>>());
    let counters = rigs[0].handle().counters();
    assert_eq!(counters.peer(NodeId(1)).sent_frames[0].get(), 100);
    assert_eq!(counters.peer(NodeId(1)).received_frames[0].get(), 100);
}
