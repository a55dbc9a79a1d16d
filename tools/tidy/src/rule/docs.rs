//! Refuses modules that do not say what they are.

use crate::finding::Finding;
use crate::tree::Tree;

const RULE: &str = "docs";

/// Checks that every Rust file starts with its module documentation.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let undocumented = tree.sources.iter().filter(|(_, rust)| {
        let first = rust.source.text.lines().find(|line| !line.trim().is_empty());
        first.and_then(|line| line.strip_prefix("//!")).is_none_or(|rest| rest.trim().len() < 2)
    });
    undocumented
        .map(|(path, _)| Finding::refuse(RULE, path, 1, "starts without `//!` documentation"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tree::Tree;

    #[test]
    fn a_module_without_documentation_is_refused() {
        let found = |text| check(&Tree::of(&[("core/a/src/a.rs", text)])).len();
        assert_eq!(found("//! Holds a.\nfn a() {}\n"), 0);
        for text in ["fn a() {}\n", "", "//!\n", "/// Not the module.\nfn a() {}\n", "use a;\n//! Late.\n"] {
            assert_eq!(found(text), 1, "{text}");
        }
    }
}
