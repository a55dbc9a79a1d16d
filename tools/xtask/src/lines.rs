//! Sorts the lines of a source file into code, documentation, comments and tests.

use synod_tidy::Rust;

/// Counts of one or many files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lines {
    /// All lines.
    pub(crate) all: usize,
    /// Lines of test code, of any kind.
    pub(crate) tests: usize,
    /// Production lines with code on them.
    pub(crate) code: usize,
    /// Production lines of documentation alone.
    pub(crate) docs: usize,
    /// Production lines of other comments alone.
    pub(crate) comments: usize,
}

impl Lines {
    /// Counts one file.
    pub(crate) fn of(rust: &Rust) -> Self {
        let mut counts = Self::default();
        let source = &rust.source;
        let views = source.code.split('\n').zip(source.literals.split('\n')).zip(source.comments.split('\n'));
        let mut at = 0;
        for ((code, literals), comments) in views.take(source.lines()) {
            counts.all += 1;
            let comment = comments.trim();
            if rust.is_test(at) {
                counts.tests += 1;
            } else if !code.trim().is_empty() || !literals.trim().is_empty() {
                counts.code += 1;
            } else if comment.starts_with("///") || comment.starts_with("//!") {
                counts.docs += 1;
            } else if !comment.is_empty() {
                counts.comments += 1;
            }
            at += code.len() + 1;
        }
        counts
    }

    /// Counts production lines, blank ones included.
    pub(crate) const fn production(&self) -> usize {
        self.all - self.tests
    }

    /// Adds the counts of another file.
    pub(crate) const fn add(&mut self, other: &Self) {
        self.all += other.all;
        self.tests += other.tests;
        self.code += other.code;
        self.docs += other.docs;
        self.comments += other.comments;
    }
}

#[cfg(test)]
mod tests {
    use super::Lines;
    use synod_tidy::Tree;

    #[test]
    fn every_line_is_of_one_kind() {
        let text = "//! A.\n\n/// B.\nfn b() { // c\n    // d\n    e(\"//\n    f\");\n}\n#[cfg(test)]\nmod tests {\n    fn t() {}\n}\n";
        let tree = Tree::of(&[("core/a/src/a.rs", text)]);
        let lines = Lines::of(&tree.sources["core/a/src/a.rs"]);
        assert_eq!(lines, Lines { all: 12, tests: 4, code: 4, docs: 2, comments: 1 });
        assert_eq!(lines.production(), 8);
        let mut twice = lines;
        twice.add(&lines);
        assert_eq!(twice.all, 24);
    }
}
