//! Bounds files, functions and inline test modules (style, lines 9 to 12).

use crate::finding::Finding;
use crate::items;
use crate::tree::Tree;

const RULE: &str = "sizes";

/// Lines of a file beyond which it is refused.
pub const FILE_LINES_MAX: usize = 800;
/// Lines of a file beyond which it is warned about.
pub const FILE_LINES_WARN: usize = 500;
/// Lines of code in a function body beyond which it is refused.
pub const FUNCTION_LINES_MAX: usize = 70;
/// Lines of an inline test module beyond which it is warned about.
pub const INLINE_TEST_LINES_WARN: usize = 200;

const _: () = assert!(FILE_LINES_WARN < FILE_LINES_MAX);

/// Checks every Rust source, test code included.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, rust) in &tree.sources {
        let lines = rust.source.lines();
        if lines > FILE_LINES_MAX {
            let what = format!("{lines} lines, more than {FILE_LINES_MAX}");
            findings.push(Finding::refuse(RULE, path, 0, what));
        } else if lines > FILE_LINES_WARN {
            let what = format!("{lines} lines, more than {FILE_LINES_WARN}");
            findings.push(Finding::warn(RULE, path, 0, what));
        }
        for function in items::functions(&rust.source) {
            let lines = function.body_lines;
            if lines > FUNCTION_LINES_MAX {
                let what = format!("fn {} has {lines} lines, more than {FUNCTION_LINES_MAX}", function.name);
                findings.push(Finding::refuse(RULE, path, function.line, what));
            }
        }
        for (start, end) in &rust.tests {
            let first = rust.source.line(*start);
            let lines = rust.source.line(*end) - first;
            if *start > 0 && lines > INLINE_TEST_LINES_WARN {
                let what = format!("an inline test module of {lines} lines: give it a file");
                findings.push(Finding::warn(RULE, path, first, what));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::finding::Level;
    use crate::tree::Tree;

    fn levels(text: &str) -> Vec<Level> {
        check(&Tree::of(&[("core/a/src/a.rs", text)])).into_iter().map(|f| f.level).collect()
    }

    #[test]
    fn files_are_bounded_at_their_two_limits() {
        assert_eq!(levels(&"\n".repeat(500)), []);
        assert_eq!(levels(&"\n".repeat(501)), [Level::Warn]);
        assert_eq!(levels(&"\n".repeat(800)), [Level::Warn]);
        assert_eq!(levels(&"\n".repeat(801)), [Level::Refuse]);
    }

    #[test]
    fn a_function_of_seventy_lines_passes_and_one_more_is_refused() {
        let function = |lines: usize| format!("fn a() {{\n{}}}\n", "a();\n".repeat(lines));
        assert_eq!(levels(&function(70)), []);
        assert_eq!(levels(&function(71)), [Level::Refuse]);
        let commented = format!("fn a() {{\n{}{}}}\n", "a();\n".repeat(70), "// }\n\n".repeat(10));
        assert_eq!(levels(&commented), []);
    }

    #[test]
    fn a_long_inline_test_module_is_warned_about() {
        let module =
            |lines: usize| format!("fn a() {{}}\n#[cfg(test)]\nmod tests {{\n{}}}\n", "\n".repeat(lines));
        assert_eq!(levels(&module(190)), []);
        assert_eq!(levels(&module(201)), [Level::Warn]);
    }
}
