//! Keeps logic out of `lib.rs` and `mod.rs` (style, line 11).

use crate::finding::Finding;
use crate::items;
use crate::tree::Tree;

const RULE: &str = "shape";

/// Checks that module roots hold documentation, modules, re-exports, traits and macros only.
///
/// A default body of one line inside a trait is a declaration, not logic.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let roots =
        tree.sources.iter().filter(|(path, _)| path.ends_with("/lib.rs") || path.ends_with("/mod.rs"));
    for (path, rust) in roots {
        let inside = |blocks: &[(usize, usize)], at| blocks.iter().any(|(a, b)| (*a..*b).contains(&at));
        let macros = items::blocks(&rust.source, "macro_rules!");
        let traits = items::blocks(&rust.source, "trait");
        for function in items::functions(&rust.source) {
            let default = function.body_lines <= 1 && inside(&traits, function.start);
            if !default && !inside(&macros, function.start) && !rust.is_test(function.start) {
                let what = format!("fn {} in a module root: give it a file", function.name);
                findings.push(Finding::refuse(RULE, path, function.line, what));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tree::Tree;

    fn found(path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn a_function_in_a_module_root_is_refused_and_elsewhere_passes() {
        assert_eq!(found("core/a/src/lib.rs", "fn a() { b() }\n"), 1);
        assert_eq!(found("core/a/src/x/mod.rs", "impl A { fn a() { b() } }\n"), 1);
        assert_eq!(found("core/a/src/x.rs", "fn a() { b() }\n"), 0);
    }

    #[test]
    fn macros_traits_and_tests_may_stand_in_a_module_root() {
        let text = "macro_rules! m { () => { fn a() { b() } } }\ntrait T { fn a(); fn c(&self) -> u32 { 7 } }\n\
            #[cfg(test)]\nmod tests { fn t() { b() } }\n";
        assert_eq!(found("core/a/src/lib.rs", text), 0);
        let logic = "trait T { fn a() {\n b();\n c();\n} }\n";
        assert_eq!(found("core/a/src/lib.rs", logic), 1);
    }
}
