//! Refuses dependencies that go upward or sideways between layers (architecture, section 1.2).

use crate::finding::Finding;
use crate::manifest::Kind;
use crate::tree::Tree;

const RULE: &str = "edges";

/// A layer of the workspace, named by its top directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Pure building blocks, ordered by the table `CORE`.
    Core,
    /// Protocol machines.
    Protocols,
    /// The only crates with threads and files.
    Runtimes,
    /// Deterministic applications.
    Apps,
    /// Composition, ordered by the table `NODE`.
    Node,
    /// Programs and their libraries.
    Tools,
    /// Test crates.
    Tests,
    /// Fuzz targets.
    Fuzz,
    /// Systems of others that ours are measured beside, each a workspace of its own.
    Baselines,
}

/// Core crates and their rank: a crate uses lower ranks alone.
const CORE: &[(&str, u8)] = &[
    ("core/wire", 0),
    ("core/quorum", 1),
    ("core/crypto", 2),
    ("core/tail", 3),
    ("core/machine", 4),
    ("core/service", 5),
    ("core/link", 5),
    ("core/ledger", 5),
];

/// Node crates and their rank: a crate uses lower ranks alone.
const NODE: &[(&str, u8)] =
    &[("node/config", 0), ("node/host", 1), ("node/gateway", 2), ("node/adapters", 2)];

/// Core crates an application sees.
const FOR_APPS: &[&str] = &["core/wire", "core/crypto", "core/service", "core/link", "core/ledger"];

/// Runtimes built over another runtime: (user, used).
const RUNTIME_PAIRS: &[(&str, &str)] = &[
    ("runtimes/sim", "runtimes/journal"),
    ("runtimes/net", "runtimes/journal"),
    ("runtimes/shm", "runtimes/journal"),
];

/// Gives the layer of a crate directory.
pub fn layer(dir: &str) -> Option<Layer> {
    Some(match dir.split('/').next()? {
        "core" => Layer::Core,
        "protocols" => Layer::Protocols,
        "runtimes" => Layer::Runtimes,
        "apps" => Layer::Apps,
        "node" => Layer::Node,
        "tools" => Layer::Tools,
        "tests" => Layer::Tests,
        "fuzz" => Layer::Fuzz,
        "baselines" => Layer::Baselines,
        _ => return None,
    })
}

/// Checks every edge between crates of the workspace, and every crate's name.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for manifest in &tree.manifests {
        let directory = manifest.dir.rsplit('/').next().unwrap_or_default();
        if manifest.name != format!("synod-{directory}") {
            let what = format!("package `{}` must be named synod-{directory}", manifest.name);
            findings.push(Finding::refuse(RULE, &manifest.path, 0, what));
        }
        if layer(&manifest.dir).is_none() {
            findings.push(Finding::refuse(RULE, &manifest.path, 0, "a crate outside the layers"));
        }
        for need in manifest.needs.iter().filter(|n| n.name.starts_with("synod-")) {
            let Some(target) = tree.manifests.iter().find(|m| m.name == need.name) else {
                let what = format!("`{}` is no crate of this workspace", need.name);
                findings.push(Finding::refuse(RULE, &manifest.path, 0, what));
                continue;
            };
            if let Some(why) = refusal(&manifest.dir, &target.dir, need.kind) {
                let what = format!("edge to {}: {why}", target.dir);
                findings.push(Finding::refuse(RULE, &manifest.path, 0, what));
            }
        }
    }
    findings
}

fn rank(table: &[(&str, u8)], dir: &str) -> Option<u8> {
    table.iter().find(|(name, _)| *name == dir).map(|(_, rank)| *rank)
}

/// Gives the reason to refuse an edge.
fn refusal(from: &str, to: &str, kind: Kind) -> Option<&'static str> {
    if to == "core/simd" || from == "core/simd" {
        return (from != "core/crypto").then_some("core/simd stands alone and serves core/crypto only");
    }
    let (source, target) = (layer(from)?, layer(to)?);
    if target == Layer::Baselines {
        return Some("nothing links a baseline: it is a program that is run");
    }
    let core = target == Layer::Core;
    let (allowed, why) = match source {
        Layer::Core => (
            core && matches!((rank(CORE, from), rank(CORE, to)), (Some(a), Some(b)) if b < a),
            "core uses core below it: wire < quorum < crypto < tail < machine < service, link, ledger",
        ),
        Layer::Protocols => {
            let in_tests = kind == Kind::Dev && (target == Layer::Protocols || to == "runtimes/sim");
            (core || in_tests, "protocols use core; another protocol or runtimes/sim only in tests")
        }
        Layer::Runtimes => {
            let pair = RUNTIME_PAIRS.iter().any(|(user, used)| *user == from && *used == to);
            (
                core || pair,
                "runtimes use core and never name a protocol, an app or a sibling outside the table",
            )
        }
        Layer::Apps => (FOR_APPS.contains(&to), "apps use core/{wire,crypto,service,link,ledger}"),
        Layer::Node => {
            let sibling = matches!((rank(NODE, from), rank(NODE, to)), (Some(a), Some(b)) if b < a);
            let above = matches!(target, Layer::Protocols | Layer::Runtimes | Layer::Apps);
            (core || above || sibling, "node uses the layers above it and, inside, config < host < gateway")
        }
        Layer::Tools | Layer::Tests | Layer::Fuzz => (true, ""),
        Layer::Baselines => {
            (core || matches!(target, Layer::Runtimes | Layer::Apps), "baselines use core, runtimes and apps")
        }
    };
    (!allowed).then_some(why)
}

#[cfg(test)]
mod tests {
    use super::{check, refusal};
    use crate::manifest::Kind;
    use crate::tree::Tree;

    #[test]
    fn edges_of_the_layer_table_pass() {
        let allowed = [
            ("core/quorum", "core/wire", Kind::Normal),
            ("core/service", "core/machine", Kind::Normal),
            ("core/crypto", "core/simd", Kind::Normal),
            ("protocols/hotstuff", "core/service", Kind::Normal),
            ("protocols/hotstuff", "runtimes/sim", Kind::Dev),
            ("protocols/astro", "protocols/broadcast", Kind::Dev),
            ("runtimes/sim", "runtimes/journal", Kind::Normal),
            ("runtimes/net", "core/machine", Kind::Normal),
            ("apps/kv", "core/service", Kind::Normal),
            ("node/gateway", "node/host", Kind::Normal),
            ("node/host", "protocols/hotstuff", Kind::Normal),
            ("tools/trial", "runtimes/sim", Kind::Normal),
            ("tests/parity", "tools/trial", Kind::Normal),
            ("baselines/minbft", "core/machine", Kind::Normal),
            ("baselines/minbft", "runtimes/shm", Kind::Normal),
            ("baselines/minbft", "apps/flip", Kind::Normal),
        ];
        for (from, to, kind) in allowed {
            assert_eq!(refusal(from, to, kind), None, "{from} -> {to}");
        }
    }

    #[test]
    fn upward_and_sideways_edges_are_refused() {
        let refused = [
            ("core/wire", "core/quorum", Kind::Normal),
            ("core/link", "core/ledger", Kind::Normal),
            ("core/machine", "runtimes/sim", Kind::Dev),
            ("core/machine", "core/simd", Kind::Normal),
            ("core/simd", "core/wire", Kind::Normal),
            ("protocols/hotstuff", "runtimes/sim", Kind::Normal),
            ("protocols/astro", "protocols/broadcast", Kind::Normal),
            ("protocols/hotstuff", "runtimes/net", Kind::Dev),
            ("protocols/hotstuff", "apps/kv", Kind::Dev),
            ("runtimes/sim", "protocols/hotstuff", Kind::Normal),
            ("runtimes/journal", "runtimes/sim", Kind::Normal),
            ("runtimes/net", "apps/kv", Kind::Dev),
            ("apps/kv", "core/machine", Kind::Normal),
            ("node/config", "node/host", Kind::Normal),
            ("node/host", "tools/load", Kind::Dev),
            ("baselines/minbft", "protocols/ubft", Kind::Normal),
            ("baselines/minbft", "tools/cli", Kind::Dev),
            ("tools/cli", "baselines/minbft", Kind::Normal),
            ("tests/parity", "baselines/minbft", Kind::Dev),
        ];
        for (from, to, kind) in refused {
            assert!(refusal(from, to, kind).is_some(), "{from} -> {to}");
        }
    }

    #[test]
    fn a_manifest_with_a_bad_edge_a_bad_name_or_an_unknown_crate_is_refused() {
        let wire = "[package]\nname = \"synod-wire\"\n[dependencies]\nsynod-kv.workspace = true\nsynod-gone.workspace = true\n";
        let kv = "[package]\nname = \"kv\"\n";
        let kv_named = "[package]\nname = \"synod-kv\"\n";
        let of = |kv| check(&Tree::of(&[("core/wire/Cargo.toml", wire), ("apps/kv/Cargo.toml", kv)]));
        assert_eq!(of(kv_named).len(), 2, "the edge to kv, the unknown crate");
        assert_eq!(of(kv).len(), 3, "two unknown crates, the name");
        let outside = Tree::of(&[("extra/a/Cargo.toml", "[package]\nname = \"synod-a\"\n")]);
        assert_eq!(check(&outside).len(), 1);
    }
}
