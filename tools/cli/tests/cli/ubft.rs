//! Clusters of uBFT: what none can be made of.

use crate::rig::Rig;
use serde_json::Value;

/// Verbs that need a memory node.
pub(crate) const OF_UBFT: &[&str] = &["memnode", "memnode run", "memnode status"];

fn rows<'a>(status: &'a Value, list: &str) -> &'a [Value] {
    status[list].as_array().expect("a list")
}

#[test]
fn what_no_cluster_of_ubft_can_be_made_of_is_refused() {
    let rig = Rig::new();
    for line in [
        "up --kind ubft --nodes 4 --dir cluster",
        "up --kind ubft --nodes 1 --dir cluster",
        "up --kind ubft --memory-nodes 2 --dir cluster",
        "up --memory-nodes 3 --dir cluster",
        "init --name x --kind ubft --nodes 2 --out made",
        "init --name x --kind ubft --member a=127.0.0.1:9000 --out made",
    ] {
        rig.refused(line, "SYN-1001", 2);
    }
    rig.refused("up --placement network --dir cluster", "SYN-1001", 2);
    for placement in ["isolated", "dedicated", "cooperative"] {
        rig.refused(&format!("up --kind ubft --placement {placement} --dir cluster"), "SYN-3003", 5);
    }
    assert!(!rig.path("cluster").exists(), "nothing was made");
    let made = rig.json("init --name x --kind ubft --nodes 5 --memory-nodes 1 --out made");
    assert_eq!((&made["f"], rows(&made, "memory_nodes").len()), (&2.into(), 1));
    // Each serves in its own role.
    rig.refused("node run --data made/m0", "SYN-1107", 3);
    rig.refused("memnode run --data made/n0", "SYN-1107", 3);
    rig.refused("broker run --data made/m0", "SYN-1107", 3);
}
