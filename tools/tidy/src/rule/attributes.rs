//! Refuses silenced lints, skipped tests and tests that wait.

use crate::finding::Finding;
use crate::items;
use crate::scan::words;
use crate::tree::Tree;

const RULE: &str = "attributes";

/// Where a test must not sleep: everything that runs on virtual time or on none.
const SLEEPLESS: &[&str] =
    &["core/", "protocols/", "apps/", "runtimes/sim/", "tools/trial/", "tests/scenarios/"];

/// Checks attributes and doc tests of every source, and sleeps of unit and simulator tests.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, rust) in &tree.sources {
        for attribute in items::attributes(&rust.source) {
            if let Some(what) = refusal(&attribute.text) {
                findings.push(Finding::refuse(RULE, path, rust.source.line(attribute.start), what));
            }
        }
        let fence = concat!("```", "ignore");
        let skipped = rust.source.comments.match_indices(fence);
        findings.extend(skipped.map(|(at, _)| {
            Finding::refuse(
                RULE,
                path,
                rust.source.line(at),
                "a doc test is skipped: quote it as text, or run it",
            )
        }));
        if SLEEPLESS.iter().any(|dir| path.starts_with(dir)) {
            let sleeps = words(&rust.source.code, "sleep(").into_iter().filter(|at| rust.is_test(*at));
            findings.extend(sleeps.map(|at| {
                Finding::refuse(RULE, path, rust.source.line(at), "a test sleeps: advance virtual time")
            }));
        }
    }
    findings
}

fn refusal(attribute: &str) -> Option<&'static str> {
    let list = |word: &str| !words(attribute, &format!("{word}(")).is_empty();
    if list("allow") {
        return Some("a lint is allowed: use expect(lint, reason = \"...\")");
    }
    if list("expect") && attribute.starts_with(['e', 'c']) && words(attribute, "reason").is_empty() {
        let should_panic = attribute.starts_with("should_panic");
        return (!should_panic).then_some("an expected lint gives no reason");
    }
    let ignored = attribute == "ignore" || attribute.starts_with("ignore=");
    ignored.then_some("a test is skipped: run it or delete it")
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tree::Tree;

    fn found(path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn silenced_lints_and_skipped_tests_are_refused() {
        for text in [
            "#[allow(dead_code)]\nfn a() {}\n",
            "#![allow(clippy::all)]\n",
            "#[cfg_attr(test, allow(x))]\nfn a() {}\n",
            "#[expect(dead_code)]\nfn a() {}\n",
            "#[test]\n#[ignore]\nfn a() {}\n",
            "#[test]\n#[ignore = \"slow\"]\nfn a() {}\n",
            "/// ```ignore\n/// a()\n/// ```\nfn a() {}\n",
        ] {
            assert_eq!(found("core/a/src/a.rs", text), 1, "{text}");
        }
    }

    #[test]
    fn reasons_comments_and_strings_pass() {
        for text in [
            "#[expect(dead_code, reason = \"why\")]\nfn a() {}\n",
            "#![expect(dead_code, reason = \"why\")]\n",
            "#[should_panic(expected = \"x\")]\nfn a() {}\n",
            "// #[allow(x)]\nconst A: &str = \"#[ignore]\";\n",
            "#[allowed(x)]\nfn a() {}\n",
        ] {
            assert_eq!(found("core/a/src/a.rs", text), 0, "{text}");
        }
    }

    #[test]
    fn a_sleep_in_a_unit_or_simulator_test_is_refused() {
        let test = "#[test]\nfn a() { std::thread::sleep(b); }\n";
        assert_eq!(found("core/a/src/a.rs", test), 1);
        assert_eq!(found("tests/scenarios/tests/a.rs", test), 1);
        assert_eq!(found("runtimes/sim/tests/a.rs", "fn a() { sleep(b) }\n"), 1);
        assert_eq!(found("runtimes/net/src/a.rs", test), 0);
        assert_eq!(found("core/a/src/a.rs", "#[test]\nfn a() { asleep(b); }\n"), 0);
    }
}
