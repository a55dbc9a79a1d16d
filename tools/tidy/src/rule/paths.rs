//! Refuses paths of one machine: a checkout works anywhere.

use crate::finding::Finding;
use crate::tree::Tree;

const RULE: &str = "paths";

/// Absolute prefixes, each spelled in two parts so that this file passes its own rule.
const MACHINE: &[&str] =
    &[concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/tm", "p/"), concat!("/ho", "me/")];

/// A directory beside the checkout.
const BESIDE: &str = concat!("../sha", "red/");

/// Checks sources outside tests, documents, manifests and scripts.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts.iter().filter(|(path, _)| !path.ends_with(".lock")) {
        let rust = tree.sources.get(path);
        let mut from = 0;
        for (index, line) in text.split('\n').enumerate() {
            let is_test = rust.is_some_and(|rust| rust.is_test(from));
            if let Some(prefix) = named(line).filter(|_| !is_test) {
                let what = format!("`{prefix}` belongs to one machine");
                findings.push(Finding::refuse(RULE, path, index + 1, what));
            }
            from += line.len() + 1;
        }
    }
    findings
}

fn named(line: &str) -> Option<&'static str> {
    let rooted = |prefix: &&&str| {
        line.match_indices(**prefix).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            !before.is_some_and(|c| c.is_alphanumeric() || "._-~}*>/".contains(c))
        })
    };
    MACHINE.iter().find(rooted).copied().or_else(|| line.contains(BESIDE).then_some(BESIDE))
}

#[cfg(test)]
mod tests {
    use super::{BESIDE, MACHINE, check};
    use crate::tree::Tree;

    fn found(path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn a_machine_path_is_refused_outside_tests() {
        for prefix in MACHINE {
            let line = format!("const A: &str = \"{prefix}a\";\n");
            assert_eq!(found("core/a/src/a.rs", &line), 1, "{prefix}");
            assert_eq!(found("docs/a.md", &format!("See {prefix}a.\n")), 1, "{prefix}");
            assert_eq!(found(".ci/run", &format!("cd {prefix}a\n")), 1, "{prefix}");
            assert_eq!(found("core/a/tests/a.rs", &line), 0, "{prefix}");
            assert_eq!(
                found("core/a/src/a.rs", &format!("#[cfg(test)]\nmod t {{\n{line}}}\n")),
                0,
                "{prefix}"
            );
        }
        assert_eq!(found("docs/a.md", &format!("See {BESIDE}a.\n")), 1);
    }

    #[test]
    fn a_relative_path_or_an_address_passes() {
        let inner = MACHINE[1];
        assert_eq!(found("docs/a.md", &format!("See docs{inner}a and https://x.org{inner}a.\n")), 0);
    }
}
