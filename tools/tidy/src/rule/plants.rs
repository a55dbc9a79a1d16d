//! Keeps the planted bugs in code and their registry equal, and out of every build that does not ask for them.

use std::collections::BTreeMap;

use toml::{Table, Value};

use crate::finding::Finding;
use crate::scan::{closing, words};
use crate::tree::Tree;

const RULE: &str = "plants";
const REGISTRY: &str = "tests/plants.toml";
/// The compiler's condition of a build with planted bugs. In two parts, so that this file does not name it.
const CONDITION: [&str; 2] = ["synod_", "plant"];
/// The only production code that asks for it: the macro, and the search.
const ASKING: &[&str] = &["core/simd/src/planted.rs", "tools/trial/src/plants.rs"];
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
    leaks(tree, &mut findings);
    findings
}

/// Refuses what could put planted bugs into a release: a manifest or a configuration of cargo that sets the condition,
/// or production code that asks for it behind the macro's back.
fn leaks(tree: &Tree, findings: &mut Vec<Finding>) {
    let condition = CONDITION.concat();
    for (path, text) in tree.texts.iter().filter(|(path, _)| path.ends_with(".toml")) {
        let setting = |line: &str| line.contains(&condition) && !line.contains("check-cfg");
        for (line, _) in (1..).zip(text.lines()).filter(|(_, line)| setting(line) && !line.starts_with('#')) {
            findings.push(Finding::refuse(RULE, path, line, "sets the condition of plant builds".to_owned()));
        }
    }
    for (path, rust) in tree.sources.iter().filter(|(path, _)| !ASKING.contains(&path.as_str())) {
        let code = rust.production();
        for at in words(&code, &condition) {
            let line = rust.source.line(at);
            findings.push(Finding::refuse(RULE, path, line, "asks for plant builds itself".to_owned()));
        }
    }
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
    fn no_manifest_and_no_code_turns_plants_on() {
        let cfg = super::CONDITION.concat();
        let files = |path: &str, text: &str| {
            let tree = Tree::of(&[(path, text), ("tests/plants.toml", "# none\n")]);
            check(&tree).len()
        };
        let lint = format!("unexpected_cfgs = {{ level = \"deny\", check-cfg = [\"cfg({cfg})\"] }}\n");
        assert_eq!(files("Cargo.toml", &lint), 0);
        assert_eq!(files(".cargo/config.toml", &format!("[build]\nrustflags = [\"--cfg\", \"{cfg}\"]\n")), 1);
        let code = format!("#[cfg({cfg})]\nfn a() {{}}\nfn b() -> bool {{ cfg!({cfg}) }}\n");
        assert_eq!(files("protocols/a/src/a.rs", &code), 2);
        assert_eq!(files("core/simd/src/planted.rs", &code), 0);
        assert_eq!(files("protocols/a/src/a.rs", &format!("#[cfg(not({cfg}))]\nfn a() {{}}\n")), 1);
    }

    #[test]
    fn an_entry_is_complete_and_alone() {
        let code = "fn a() -> bool { planted!(H1) }\n";
        assert_eq!(found(code, "[[plant]]\nid = \"H1\"\nbug = \"b\"\nsystem = \"-\"\n"), 1);
        assert_eq!(found(code, &format!("{ENTRY}{ENTRY}")), 1);
        assert_eq!(found(code, "[[plant"), 2, "not TOML, and therefore H1 is not registered");
    }
}
