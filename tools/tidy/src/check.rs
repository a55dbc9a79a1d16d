//! Applies every rule to a tree.

use crate::finding::Finding;
use crate::rule;
use crate::tree::Tree;

/// A rule: the whole tree in, what breaks it out.
pub type Rule = fn(&Tree) -> Vec<Finding>;

/// All rules by name.
pub const RULES: &[(&str, Rule)] = &[
    ("edges", rule::edges::check),
    ("dependencies", rule::dependencies::check),
    ("lock", rule::lock::check),
    ("sizes", rule::sizes::check),
    ("shape", rule::shape::check),
    ("words", rule::words::check),
    ("attributes", rule::attributes::check),
    ("paths", rule::paths::check),
    ("docs", rule::docs::check),
    ("links", rule::links::check),
    ("lints", rule::lints::check),
    ("merge", rule::merge::check),
    ("toy", rule::toy::check),
    ("purity", rule::purity::check),
    ("oracle", rule::oracle::check),
    ("plants", rule::plants::check),
    ("conformance", rule::conformance::check),
];

/// Gives what breaks any rule, refusals first, each list in path order.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = tree.broken.clone();
    findings.extend(RULES.iter().flat_map(|(_, rule)| rule(tree)));
    findings.sort();
    findings.dedup();
    findings
}

#[cfg(test)]
mod tests {
    use super::{RULES, check};
    use crate::finding::Level;
    use crate::tree::Tree;

    #[test]
    fn refusals_come_first_and_unreadable_manifests_are_among_them() {
        let long = format!("//! Long.\n{}", "// x\n".repeat(600));
        let tree = Tree::of(&[("core/wire/Cargo.toml", "["), ("core/wire/src/a.rs", &long)]);
        let findings = check(&tree);
        assert!(findings.iter().any(|f| f.rule == "tree" && f.level == Level::Refuse));
        assert_eq!(findings.last().map(|f| f.level), Some(Level::Warn));
    }

    #[test]
    fn every_rule_has_a_name_of_its_own() {
        let mut names: Vec<_> = RULES.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), RULES.len());
    }
}
