//! Finds attributes, functions, imports and test regions in the code view of a file.
//!
//! Why not a parser: the rules need names, places and extents, and a scanner of a few hundred lines
//! gives them without a dependency. Macros are seen as the tokens they are written with.

use crate::scan::{Source, closing, words};

/// An attribute such as `#[test]` or `#![forbid(x)]`.
#[derive(Clone, Debug)]
pub struct Attribute {
    /// Offset of the `#`.
    pub start: usize,
    /// Offset behind the closing bracket.
    pub end: usize,
    /// True for `#![...]`.
    pub inner: bool,
    /// What stands between the brackets, blanks removed, literals missing.
    pub text: String,
}

/// A function with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name as written.
    pub name: String,
    /// Line of the keyword `fn`, from 1.
    pub line: usize,
    /// Lines of code strictly between the braces; blank lines and comments do not count.
    pub body_lines: usize,
    /// Offset of the keyword `fn`.
    pub start: usize,
    /// Offset behind the closing brace.
    pub end: usize,
}

/// One imported or named path, flattened out of its braces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// Line of the keyword `use`, from 1.
    pub line: usize,
    /// The full path without blanks and without `as` names.
    pub path: String,
}

/// Lists all attributes in order.
pub fn attributes(source: &Source) -> Vec<Attribute> {
    let code = &source.code;
    let mut found = Vec::new();
    for (start, _) in code.match_indices('#') {
        let rest = code[start + 1..].trim_start();
        let inner = rest.starts_with('!');
        let rest = rest.trim_start_matches('!').trim_start();
        if !rest.starts_with('[') {
            continue;
        }
        let open = code.len() - rest.len();
        let end = closing(code, open);
        let body = code[open..end].trim_start_matches('[').trim_end_matches(']');
        let text = body.chars().filter(|c| !c.is_whitespace()).collect();
        found.push(Attribute { start, end, inner, text });
    }
    found
}

/// Lists all functions that have a body, also those written inside macros.
pub fn functions(source: &Source) -> Vec<Function> {
    let code = &source.code;
    let mut found = Vec::new();
    for start in words(code, "fn") {
        let rest = code[start + 2..].trim_start();
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || "_$#".contains(*c)).collect();
        let Some(open) = body_of(code, start) else { continue };
        if name.is_empty() {
            continue;
        }
        let end = closing(code, open);
        let body_lines = body_lines(code.get(open + 1..end.saturating_sub(1)).unwrap_or_default());
        found.push(Function { name, line: source.line(start), body_lines, start, end });
    }
    found
}

fn body_lines(body: &str) -> usize {
    body.lines().filter(|line| !line.trim().is_empty()).count()
}

/// Gives the offset of the brace that opens the body of the item at `start`; none before a `;`.
fn body_of(code: &str, start: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(start) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' if depth == 0 => return None,
            b')' | b']' => depth -= 1,
            b'{' if depth == 0 => return Some(at),
            b';' | b'}' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// Gives the extents (start, end) of all blocks opened by `keyword NAME ... {`.
pub fn blocks(source: &Source, keyword: &str) -> Vec<(usize, usize)> {
    let code = &source.code;
    words(code, keyword)
        .into_iter()
        .filter_map(|start| body_of(code, start).map(|open| (start, closing(code, open))))
        .collect()
}

/// Lists the paths of all `use` declarations, braces flattened.
pub fn imports(source: &Source) -> Vec<Import> {
    let mut found = Vec::new();
    for start in words(&source.code, "use") {
        let rest = &source.code[start + 3..];
        let Some(end) = rest.find(';') else { continue };
        let tree = rest[..end].trim();
        if tree.starts_with('<') || tree.is_empty() {
            continue; // a capture list, not a declaration
        }
        let line = source.line(start);
        let mut paths = Vec::new();
        flatten("", tree, &mut paths);
        found.extend(paths.into_iter().map(|path| Import { line, path }));
    }
    found
}

fn flatten(prefix: &str, tree: &str, paths: &mut Vec<String>) {
    let tree = tree.trim();
    let Some(open) = tree.find('{') else {
        let path = tree.split_whitespace().next().unwrap_or_default();
        if !path.is_empty() {
            paths.push(format!("{prefix}{path}"));
        }
        return;
    };
    let prefix = format!("{prefix}{}", tree[..open].trim());
    let end = closing(tree, open).saturating_sub(1).max(open + 1);
    for part in split_top(&tree[open + 1..end]) {
        flatten(&prefix, part, paths);
    }
}

/// Splits at commas outside braces.
fn split_top(list: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut from) = (0_usize, 0);
    for (at, byte) in list.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                parts.push(&list[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[from..]);
    parts
}

/// Test code of one file.
#[derive(Clone, Debug, Default)]
pub struct Tests {
    /// Extents (start, end) of items under `#[test]` or `#[cfg(test)]`.
    pub extents: Vec<(usize, usize)>,
    /// Names of modules declared as `#[cfg(test)] mod NAME;`.
    pub modules: Vec<String>,
    /// True when the whole file is under `#![cfg(test)]`.
    pub whole: bool,
}

/// Finds the test code of a file.
pub fn tests(source: &Source) -> Tests {
    let mut tests = Tests::default();
    for attribute in attributes(source).iter().filter(|a| marks_test(&a.text)) {
        if attribute.inner {
            tests.whole = true;
            continue;
        }
        let start = item_start(&source.code, attribute.end);
        match body_of(&source.code, start) {
            Some(open) => tests.extents.push((attribute.start, closing(&source.code, open))),
            None => tests.modules.extend(module_name(&source.code[start..])),
        }
    }
    tests
}

fn marks_test(attribute: &str) -> bool {
    let is_test = attribute == "test" || attribute.ends_with("::test") || attribute.contains("::test(");
    let cfg = attribute.starts_with("cfg(") && !words(attribute, "test").is_empty();
    is_test || (cfg && !attribute.contains("not(test"))
}

/// Skips further attributes between an attribute and its item.
fn item_start(code: &str, from: usize) -> usize {
    let mut at = from;
    loop {
        let rest = code[at..].trim_start();
        at = code.len() - rest.len();
        if !rest.starts_with('#') {
            return at;
        }
        at = closing(code, at);
    }
}

fn module_name(item: &str) -> Option<String> {
    let declaration = item.split(';').next()?;
    let name = declaration.split_whitespace().last()?;
    words(declaration, "mod").first().map(|_| name.to_owned())
}

#[cfg(test)]
mod tests_of_items {
    use super::{attributes, blocks, functions, imports, tests};
    use crate::scan::Source;

    #[test]
    fn a_function_is_measured_without_blanks_comments_and_signature() {
        let source = Source::new(
            "fn a(x: [u8; 3])\n-> u8\n{\n    // why\n\n    let y = \"}\";\n    y\n}\nfn b();\nlet c: fn(u8) = d;\n",
        );
        let found = functions(&source);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].name.as_str(), found[0].line, found[0].body_lines), ("a", 1, 2));
    }

    #[test]
    fn a_function_on_one_line_has_one_body_line_and_an_empty_one_has_none() {
        let found = functions(&Source::new("fn a() { 1 }\nfn b() {}\n"));
        assert_eq!(found.iter().map(|f| f.body_lines).collect::<Vec<_>>(), [1, 0]);
    }

    #[test]
    fn imports_are_flattened_out_of_their_braces() {
        let source = Source::new(
            "use std::{fs::{self, File}, io as x};\npub use a::b;\nfn f() -> impl T + use<'a> {}",
        );
        let paths: Vec<_> = imports(&source).into_iter().map(|i| i.path).collect();
        assert_eq!(paths, ["std::fs::self", "std::fs::File", "std::io", "a::b"]);
    }

    #[test]
    fn attributes_are_read_without_blanks() {
        let source = Source::new("#![ forbid(x) ]\n# [test]\nlet s = \"#[no]\"; // #[no]\n");
        let found = attributes(&source);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].text.as_str(), found[0].inner), ("forbid(x)", true));
        assert_eq!((found[1].text.as_str(), found[1].inner), ("test", false));
    }

    #[test]
    fn test_items_and_test_modules_are_found() {
        let source = Source::new(
            "fn a() {}\n#[cfg(test)]\n#[expect(x)]\nmod tests { fn b() {} }\n#[cfg(test)]\nmod far;\n#[cfg(not(test))]\nfn c() {}\n#[test]\nfn d() {}\n",
        );
        let found = tests(&source);
        assert_eq!(found.extents.len(), 2);
        assert!(source.text[found.extents[0].0..found.extents[0].1].contains("fn b"));
        assert_eq!(found.modules, ["far"]);
        assert!(!found.whole);
        assert!(tests(&Source::new("#![cfg(test)]\n")).whole);
    }

    #[test]
    fn blocks_give_the_extent_of_a_trait() {
        let source = Source::new("trait A { fn a() {} }\nstruct B;\n");
        let found = blocks(&source, "trait");
        assert_eq!(found, [(0, 21)]);
    }
}
