//! Applies every rule to this repository.

use std::path::Path;

use synod_tidy::{Level, Tree, check};

fn here() -> Tree {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    Tree::load(&root).expect("the checkout that built this test can be read")
}

#[test]
fn this_repository_breaks_no_rule() {
    let findings = check(&here());
    let refused: Vec<String> =
        findings.iter().filter(|f| f.level == Level::Refuse).map(ToString::to_string).collect();
    assert!(refused.is_empty(), "{} findings:\n{}", refused.len(), refused.join("\n"));
}

#[test]
fn the_rules_see_this_repository() {
    let tree = here();
    for dir in ["core/wire", "core/machine", "protocols/hotstuff", "tools/tidy", "fuzz"] {
        assert!(tree.manifests.iter().any(|m| m.dir == dir), "{dir} is not seen");
    }
    assert!(tree.texts.contains_key("Cargo.toml") && tree.texts.contains_key("Cargo.lock"));
    assert!(tree.texts.contains_key(".ci/run") && tree.texts.contains_key("STYLE.md"));
    let own = &tree.sources["tools/tidy/src/scan.rs"];
    let last = own.source.text.len() - 2;
    assert!(own.is_test(last) && !own.is_test(0), "inline tests are told from production code");
    assert!(!tree.paths.iter().any(|path| path.starts_with("target/") || path.starts_with(".git/")));
}
