//! Refuses what a merge left undecided.

use crate::finding::Finding;
use crate::tree::Tree;

/// How a line begins that parts two sides, and how often.
const MARKS: [char; 2] = ['<', '>'];
const TIMES: usize = 7;

/// Checks every text for the lines that open and close a conflict.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in &tree.texts {
        for (number, line) in (1..).zip(text.lines()) {
            let is_mark = |mark: char| {
                let marks = line.chars().take_while(|c| *c == mark).count();
                marks == TIMES && line[TIMES..].starts_with(' ')
            };
            if MARKS.into_iter().any(is_mark) {
                findings.push(Finding::refuse("merge", path, number, "a conflict that nobody decided"));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{TIMES, check};
    use crate::tree::Tree;

    #[test]
    fn both_ends_of_a_conflict_are_refused_in_any_text() {
        let (open, close) = ("<".repeat(TIMES), ">".repeat(TIMES));
        let text = format!("one\n{open} HEAD\ntwo\n=======\nthree\n{close} other\n");
        let tree = Tree::of(&[("CHANGELOG.md", &text), ("core/a/src/lib.rs", &text)]);
        let lines: Vec<_> = check(&tree).into_iter().map(|found| found.line).collect();
        assert_eq!(lines, [2, 6, 2, 6]);
    }

    #[test]
    fn underlined_titles_and_quotes_are_none() {
        let text = "Title\n=======\n> quoted\n>>>>>>>> deep\n<<<<<<<\n";
        assert_eq!(check(&Tree::of(&[("a.md", text)])), []);
    }
}
