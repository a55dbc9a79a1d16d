//! Keeps the planted bugs in code and their registry equal.

use std::collections::BTreeMap;

use toml::{Table, Value};

use crate::finding::Finding;
use crate::scan::{closing, words};
use crate::tree::Tree;

const RULE: &str = "plants";
const REGISTRY: &str = "tests/plants.toml";
const FIELDS: &[&str] = &["id", "bug", "system", "checker"];

/// Checks that every `planted!(ID)` of production code is registered once and every entry is planted.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let registered = registry(tree, &mut findings);
    let planted = planted(tree);
    for (id, (path, line)) in &planted {
        if !registered.contains(id) {
            let what = format!("plant {id} is not in {REGISTRY}");
            findings.push(Finding::refuse(RULE, path, *line, what));
        }
    }
    for id in registered.iter().filter(|id| !planted.contains_key(*id)) {
        findings.push(Finding::refuse(RULE, REGISTRY, 0, format!("plant {id} is nowhere in code")));
    }
    findings
}

/// Reads the registry; each entry has four filled fields and an id of its own.
fn registry(tree: &Tree, findings: &mut Vec<Finding>) -> Vec<String> {
    let mut refuse = |what: String| findings.push(Finding::refuse(RULE, REGISTRY, 0, what));
    let mut ids = Vec::new();
    let Some(text) = tree.texts.get(REGISTRY) else { return ids };
    let table = match text.parse::<Table>() {
        Ok(table) => table,
        Err(why) => {
            refuse(format!("not TOML: {why}"));
            return ids;
        }
    };
    for plant in table.get("plant").and_then(Value::as_array).into_iter().flatten() {
        let field =
            |name: &str| plant.get(name).and_then(Value::as_str).unwrap_or_default().trim().to_owned();
        let id = field("id");
        for missing in FIELDS.iter().filter(|name| field(name).is_empty()) {
            refuse(format!("plant `{id}` has no {missing}"));
        }
        if ids.contains(&id) {
            refuse(format!("plant {id} is registered twice"));
        }
        ids.push(id);
    }
    ids
}

/// Finds the plants of production code with the first place of each.
fn planted(tree: &Tree) -> BTreeMap<String, (String, usize)> {
    let mut found = BTreeMap::new();
    for (path, rust) in &tree.sources {
        let code = rust.production();
        for at in words(&code, "planted!(") {
            let open = at + "planted!".len();
            let id = code[open + 1..closing(&code, open).saturating_sub(1).max(open + 1)].trim().to_owned();
            // A macro's own pattern and forwarding name no plant.
            if !id.contains('$') && !id.is_empty() {
                found.entry(id).or_insert_with(|| (path.clone(), rust.source.line(at)));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tree::Tree;

    const ENTRY: &str = "[[plant]]\nid = \"H1\"\nbug = \"b\"\nsystem = \"-\"\nchecker = \"H-S9\"\n";

    fn found(code: &str, registry: &str) -> usize {
        check(&Tree::of(&[("protocols/a/src/a.rs", code), ("tests/plants.toml", registry)])).len()
    }

    #[test]
    fn equal_sets_pass() {
        assert_eq!(found("fn a() -> bool { planted!(H1) || b() }\n", ENTRY), 0);
        assert_eq!(found("macro_rules! planted { ($id:ident) => { planted!($id) } }\n", "# none\n"), 0);
        assert_eq!(found("// planted!(H9)\n#[test]\nfn t() { planted!(H8); }\n", ""), 0);
    }

    #[test]
    fn a_plant_on_one_side_alone_is_refused() {
        assert_eq!(found("fn a() -> bool { planted!(H2) || b() }\n", ""), 1);
        assert_eq!(found("fn a() {}\n", ENTRY), 1);
        assert_eq!(found("fn a() -> bool { planted!(H2) || b() }\n", ENTRY), 2);
    }

    #[test]
    fn an_entry_is_complete_and_alone() {
        let code = "fn a() -> bool { planted!(H1) }\n";
        assert_eq!(found(code, "[[plant]]\nid = \"H1\"\nbug = \"b\"\nsystem = \"-\"\n"), 1);
        assert_eq!(found(code, &format!("{ENTRY}{ENTRY}")), 1);
        assert_eq!(found(code, "[[plant"), 2, "not TOML, and therefore H1 is not registered");
    }
}
