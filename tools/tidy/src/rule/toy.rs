//! Keeps simulation keys out of everything but the simulator.

use crate::finding::Finding;
use crate::items;
use crate::tree::Tree;

const RULE: &str = "toy";
const MODULE: &str = "synod_crypto::toy";

/// Checks that the toy scheme of core/crypto is named by runtimes/sim alone.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let sources = tree.sources.iter();
    for (path, rust) in
        sources.filter(|(path, _)| !path.starts_with("runtimes/sim/") && !path.starts_with("core/crypto/"))
    {
        let code: String = rust.source.code.clone();
        let mut lines: Vec<usize> = code.match_indices(MODULE).map(|(at, _)| rust.source.line(at)).collect();
        let imports = items::imports(&rust.source);
        lines.extend(imports.iter().filter(|i| i.path.starts_with(MODULE)).map(|i| i.line));
        lines.sort_unstable();
        lines.dedup();
        findings.extend(
            lines
                .into_iter()
                .map(|line| Finding::refuse(RULE, path, line, "simulation keys outside the simulator")),
        );
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tree::Tree;

    #[test]
    fn only_the_simulator_names_the_toy_scheme() {
        let found = |path: &str, text: &str| check(&Tree::of(&[(path, text)])).len();
        for text in [
            "use synod_crypto::toy::Key;\n",
            "use synod_crypto::{Hash, toy};\n",
            "fn a() { synod_crypto::toy::k() }\n",
        ] {
            assert_eq!(found("tools/trial/src/a.rs", text), 1, "{text}");
            assert_eq!(found("protocols/a/tests/a.rs", text), 1, "{text}");
            assert_eq!(found("runtimes/sim/src/a.rs", text), 0, "{text}");
            assert_eq!(found("core/crypto/tests/a.rs", text), 0, "{text}");
        }
        assert_eq!(
            found("tools/trial/src/a.rs", "use synod_crypto::{Hash, Keys};\n// synod_crypto::toy\n"),
            0
        );
    }
}
