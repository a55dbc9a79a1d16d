//! Refuses words that stand for work not done and names that say nothing (style, lines 2 and 55).

use crate::finding::Finding;
use crate::scan::words;
use crate::tree::Tree;

const RULE: &str = "words";

/// Words refused as written. Spelled in two parts, so that this file passes its own rule.
const MARKS: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("to", "do!("),
    concat!("unimple", "mented!("),
];

/// Phrases refused in any case.
const PHRASES: &[&str] =
    &[concat!("for ", "now"), concat!("in a real ", "implementation"), concat!("simpli", "fied")];

/// Module and file names that say nothing.
const NAMES: &[&str] = &[
    concat!("ut", "il"),
    concat!("ut", "ils"),
    concat!("hel", "per"),
    concat!("hel", "pers"),
    concat!("com", "mon"),
    concat!("mana", "ger"),
];

/// Checks the words of sources, documents and scripts, and the names of files and modules.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts.iter().filter(|(path, _)| !path.ends_with(".lock")) {
        let shown = if path.ends_with(".md") { prose(text) } else { text.clone() };
        for (index, line) in shown.lines().enumerate() {
            let lower = line.to_lowercase();
            let marks = MARKS.iter().filter(|word| !words(line, word).is_empty());
            let phrases = PHRASES.iter().filter(|word| !words(&lower, word).is_empty());
            findings.extend(marks.chain(phrases).map(|word| {
                Finding::refuse(
                    RULE,
                    path,
                    index + 1,
                    format!("`{word}`: finish it, or write it down as a gap"),
                )
            }));
        }
    }
    for path in tree.paths.iter().filter(|path| path.ends_with(".rs")) {
        let stem = path.trim_end_matches(".rs");
        if let Some(name) = stem.split('/').find(|part| NAMES.contains(part)) {
            findings.push(Finding::refuse(
                RULE,
                path,
                0,
                format!("`{name}` says nothing: name what it holds"),
            ));
        }
    }
    for (path, rust) in &tree.sources {
        let code = &rust.source.code;
        for at in words(code, "mod") {
            let name: String = code[at + 3..]
                .trim_start()
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            if NAMES.contains(&name.as_str()) {
                let what = format!("`mod {name}` says nothing: name what it holds");
                findings.push(Finding::refuse(RULE, path, rust.source.line(at), what));
            }
        }
    }
    findings
}

/// Blanks code spans and code blocks of a document: they quote, they do not speak.
pub fn prose(text: &str) -> String {
    let mut fenced = false;
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            let parts: Vec<&str> = line.split('`').collect();
            // An odd backtick quotes nothing; what follows it is prose again.
            let paired = parts.len() % 2 == 1;
            for (i, part) in parts.iter().enumerate() {
                let quoted = i % 2 == 1 && (paired || i + 1 < parts.len());
                out.push_str(if quoted { "" } else { part });
            }
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{MARKS, NAMES, PHRASES, check, prose};
    use crate::tree::Tree;

    fn found(path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn every_banned_word_is_refused_in_sources_and_documents() {
        for word in MARKS.iter().chain(PHRASES) {
            assert_eq!(found("core/a/src/a.rs", &format!("// {word} x)\n")), 1, "{word}");
            assert_eq!(found("docs/a.md", &format!("Say {word} x\n")), 1, "{word}");
        }
        assert_eq!(found("core/a/src/a.rs", "// known for nowhere, todos and a oversimplification\n"), 0);
    }

    #[test]
    fn empty_names_are_refused_for_files_directories_and_modules() {
        for name in NAMES {
            assert_eq!(found(&format!("core/a/src/{name}.rs"), ""), 1, "{name}");
            assert_eq!(found(&format!("core/a/src/{name}/mod.rs"), ""), 1, "{name}");
            assert_eq!(found("core/a/src/a.rs", &format!("mod {name} {{}}\n")), 1, "{name}");
        }
        assert_eq!(found("core/a/src/commonware.rs", "mod common_ground;\n"), 0);
    }

    #[test]
    fn documents_may_quote_what_they_forbid() {
        let mark = MARKS[0];
        assert_eq!(found("STYLE.md", &format!("Never `{mark}`.\n```\n{mark}\n```\n")), 0);
        assert_eq!(prose("a `b` c\n"), "a  c\n");
        assert_eq!(prose("it`s b\n"), "its b\n");
    }
}
