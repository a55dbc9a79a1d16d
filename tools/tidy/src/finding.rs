//! What a rule reports: one place, one rule, one sentence.

use std::fmt;

/// Whether a finding fails the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Fails `cargo test --workspace`.
    Refuse,
    /// Printed, never fails.
    Warn,
}

/// A place in the tree that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Refused or only warned about.
    pub level: Level,
    /// Path relative to the root of the checkout, with forward slashes.
    pub path: String,
    /// Line number from 1; 0 when the finding is about the whole file.
    pub line: usize,
    /// Name of the rule.
    pub rule: &'static str,
    /// What is wrong and, where it is not obvious, what to do.
    pub what: String,
}

impl Finding {
    /// Builds a finding that fails the gate.
    pub fn refuse(rule: &'static str, path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { level: Level::Refuse, path: path.to_owned(), line, rule, what: what.into() }
    }

    /// Builds a finding that is printed and passes.
    pub fn warn(rule: &'static str, path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { level: Level::Warn, path: path.to_owned(), line, rule, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Refuse => "refused",
            Level::Warn => "warning",
        };
        write!(f, "{level} [{}] {}:{}: {}", self.rule, self.path, self.line, self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::Finding;

    #[test]
    fn a_finding_names_its_level_rule_place_and_reason() {
        let shown = Finding::refuse("sizes", "core/wire/src/a.rs", 7, "too long").to_string();
        assert_eq!(shown, "refused [sizes] core/wire/src/a.rs:7: too long");
        let shown = Finding::warn("sizes", "a.rs", 0, "long").to_string();
        assert_eq!(shown, "warning [sizes] a.rs:0: long");
    }
}
