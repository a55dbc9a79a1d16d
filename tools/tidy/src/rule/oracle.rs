//! Keeps the oracles independent of what they judge (style, line 43).

use crate::finding::Finding;
use crate::items;
use crate::scan::words;
use crate::tree::Tree;

const RULE: &str = "oracle";
const DIR: &str = "tools/trial/src/oracle";

/// What an oracle may take from the quorum crate: names of members, no arithmetic.
const PLAIN: &[&str] = &["synod_quorum::NodeId", "synod_quorum::NodeSet"];

/// Checks the oracles' imports and the paths they name.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let inside = |path: &str| path.strip_prefix(DIR).is_some_and(|rest| rest.starts_with(['/', '.']));
    for (path, rust) in tree.sources.iter().filter(|(path, _)| inside(path)) {
        let code = &rust.source.code;
        let mut lines: Vec<(usize, String)> = Vec::new();
        for import in items::imports(&rust.source) {
            let names = |module| import.path.split("::").any(|part| part == module);
            let quorum = names("synod_quorum") && !PLAIN.contains(&import.path.as_str());
            if quorum || names("rules") {
                lines.push((import.line, import.path));
            }
        }
        for at in words(code, "synod_quorum::") {
            let rest = &code[at..];
            let plain = PLAIN.iter().any(|p| words(rest, p).first() == Some(&0));
            if !plain && !rest["synod_quorum::".len()..].starts_with('{') {
                lines.push((rust.source.line(at), "synod_quorum".to_owned()));
            }
        }
        lines.extend(words(code, "rules::").iter().map(|at| (rust.source.line(*at), "rules".to_owned())));
        lines.sort();
        lines.dedup_by_key(|(line, _)| *line);
        findings.extend(lines.into_iter().map(|(line, name)| {
            Finding::refuse(RULE, path, line, format!("an oracle uses `{name}`: write the predicate again"))
        }));
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
    fn production_predicates_are_refused_in_oracles() {
        for text in [
            "use synod_quorum::Quorums;\n",
            "use synod_quorum::{NodeId, Quorums};\n",
            "use synod_quorum as q;\n",
            "use synod_quorum::*;\n",
            "fn a() { synod_quorum::Quorums::new() }\n",
            "use synod_hotstuff::rules;\n",
            "use synod_hotstuff::{rules::chain3, Vote};\n",
            "fn a() { synod_hotstuff::rules::safe() }\n",
        ] {
            assert_eq!(found("tools/trial/src/oracle/a.rs", text), 1, "{text}");
            assert_eq!(found("tools/trial/src/oracle.rs", text), 1, "{text}");
            assert_eq!(found("tools/trial/src/strategy/a.rs", text), 0, "{text}");
        }
    }

    #[test]
    fn member_names_and_messages_pass() {
        let text = "use synod_quorum::{NodeId, NodeSet};\nuse synod_hotstuff::message::Vote;\n\
            fn a(x: synod_quorum::NodeId) { let ground_rules = 1; }\n";
        assert_eq!(found("tools/trial/src/oracle/a.rs", text), 0);
    }
}
