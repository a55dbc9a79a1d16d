//! Refuses denied crates, versions below their floor and duplicates in `Cargo.lock`.
//!
//! *Baselines.* The rule is for what ships. A baseline ships nothing and is linked by nothing, so its lock file may hold
//! what is denied here; it must have one, in a workspace of its own that the main one leaves out, and take nothing from git.

use toml::{Table, Value};

use crate::finding::Finding;
use crate::manifest::{Manifest, lookup};
use crate::rule::edges::{Layer, layer};
use crate::rule::table::{DENIED, LISTED_ONLY, LOCK_FLOORS, SINGLE, at_least};
use crate::tree::Tree;

const RULE: &str = "lock";
const FILE: &str = "Cargo.lock";
const DENY_FILE: &str = "deny.toml";

/// Checks the resolved versions and that `deny.toml` denies the same crates.
///
/// A workspace without a lock file is refused.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = resolved(tree);
    let baselines = tree.manifests.iter().filter(|manifest| layer(&manifest.dir) == Some(Layer::Baselines));
    findings.extend(baselines.flat_map(|manifest| apart(tree, manifest)));
    if let Some(text) = tree.texts.get(DENY_FILE) {
        let table = text.parse::<Table>().unwrap_or_default();
        let listed = lookup(&table, &["bans", "deny"]).and_then(Value::as_array).cloned().unwrap_or_default();
        let plain: Vec<&str> = listed.iter().filter_map(Value::as_str).collect();
        if plain != DENIED {
            findings.push(Finding::refuse(RULE, DENY_FILE, 0, "its denied crates differ from tidy's table"));
        }
    }
    findings
}

fn resolved(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.texts.get(FILE) else {
        let missing = tree.texts.contains_key("Cargo.toml");
        return if missing { vec![refuse("the lock file is not committed")] } else { Vec::new() };
    };
    let Ok(table) = text.parse::<Table>() else { return vec![refuse("not TOML")] };
    let packages = table.get("package").and_then(Value::as_array).cloned().unwrap_or_default();
    let text = |p: &Value, key: &str| p.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut findings = Vec::new();
    for package in &packages {
        let (name, version, source) =
            (text(package, "name"), text(package, "version"), text(package, "source"));
        if DENIED.contains(&name.as_str()) && !listed_only(&packages, &name) {
            findings.push(refuse(format!("`{name}` is denied")));
        }
        if source.starts_with("git") {
            findings.push(refuse(format!("`{name}` comes from git")));
        }
        let floors = LOCK_FLOORS.iter().filter(|(n, floor)| *n == name && !at_least(&version, floor));
        findings.extend(floors.map(|(_, floor)| refuse(format!("`{name}` {version} is below {floor}"))));
    }
    for single in SINGLE {
        let count = packages.iter().filter(|p| text(p, "name") == *single).count();
        if count > 1 {
            findings.push(refuse(format!("{count} versions of `{single}`")));
        }
    }
    findings
}

/// Says what keeps a baseline from standing apart.
fn apart(tree: &Tree, manifest: &Manifest) -> Vec<Finding> {
    let root = tree.texts.get("Cargo.toml").and_then(|text| text.parse::<Table>().ok()).unwrap_or_default();
    let left_out = lookup(&root, &["workspace", "exclude"]).and_then(Value::as_array);
    let left_out = left_out.is_some_and(|all| all.iter().any(|path| path.as_str() == Some("baselines")));
    let file = format!("{}/{FILE}", manifest.dir);
    let lock = tree.texts.get(&file).and_then(|text| text.parse::<Table>().ok());
    let packages = lock.as_ref().and_then(|lock| lock.get("package")).and_then(Value::as_array);
    let from_git = |package: &Value| {
        package.get("source").and_then(Value::as_str).is_some_and(|source| source.starts_with("git"))
    };
    let wrong = [
        (!left_out, "Cargo.toml", "workspace.exclude does not name `baselines`"),
        (!manifest.table.contains_key("workspace"), &*manifest.path, "a baseline is a workspace of its own"),
        (packages.is_none(), &*file, "the lock file of a baseline is not committed"),
        (packages.is_some_and(|all| all.iter().any(from_git)), &*file, "a crate comes from git"),
    ];
    let found = wrong.into_iter().filter(|(is_wrong, ..)| *is_wrong);
    found.map(|(_, path, what)| Finding::refuse(RULE, path, 0, what)).collect()
}

/// Tells whether only crates that name a denied one without compiling it depend on it.
fn listed_only(packages: &[Value], denied: &str) -> bool {
    let names = |p: &&Value| {
        let needs = p.get("dependencies").and_then(Value::as_array).into_iter().flatten();
        // A dependency is written as "name" or "name version".
        needs.filter_map(Value::as_str).any(|need| need.split(' ').next() == Some(denied))
    };
    let users = packages.iter().filter(names).filter_map(|p| p.get("name").and_then(Value::as_str));
    let users: Vec<&str> = users.collect();
    !users.is_empty() && users.iter().all(|user| LISTED_ONLY.contains(&(denied, *user)))
}

fn refuse(what: impl Into<String>) -> Finding {
    Finding::refuse(RULE, FILE, 0, what)
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::rule::table::DENIED;
    use crate::tree::Tree;

    fn found(packages: &[(&str, &str, &str)]) -> usize {
        let entry = |(name, version, source): &(&str, &str, &str)| {
            format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\nsource = \"{source}\"\n")
        };
        let text: String = packages.iter().map(entry).collect();
        check(&Tree::of(&[("Cargo.lock", &text)])).len()
    }

    #[test]
    fn denied_old_doubled_and_git_crates_are_refused() {
        let registry = "registry+x";
        assert_eq!(found(&[("rustls", "0.23.46", registry), ("bytes", "1.12.0", registry)]), 0);
        assert_eq!(found(&[("openssl", "0.10.0", registry)]), 1);
        assert_eq!(found(&[("ring", "0.17.0", registry)]), 1);
        assert_eq!(found(&[("rustls-webpki", "0.103.12", registry)]), 1);
        assert_eq!(found(&[("rustls", "0.23.46", registry), ("rustls", "0.24.0", registry)]), 1);
        assert_eq!(found(&[("bytes", "1.12.0", "git+x")]), 1);
    }

    #[test]
    fn a_denied_crate_may_be_listed_by_a_weak_feature_and_by_nothing_else() {
        let user = |name: &str| {
            let ring = "[[package]]\nname = \"ring\"\nversion = \"0.17.0\"\n";
            let text = format!(
                "{ring}[[package]]\nname = \"{name}\"\nversion = \"9.0.0\"\ndependencies = [\"ring 0.17.0\"]\n"
            );
            check(&Tree::of(&[("Cargo.lock", &text)])).len()
        };
        assert_eq!(user("rustls-webpki"), 0);
        assert_eq!(user("rustls"), 1);
    }

    #[test]
    fn the_two_lists_of_denied_crates_are_one() {
        let list = |names: &[&str]| format!("[bans]\ndeny = [\"{}\"]\n", names.join("\", \""));
        let found = |text: &str| check(&Tree::of(&[("deny.toml", text)])).len();
        assert_eq!(found(&list(DENIED)), 0);
        assert_eq!(found(&list(&DENIED[1..])), 1);
        assert_eq!(found(""), 1);
    }

    #[test]
    fn a_baseline_may_lock_what_is_denied_and_stands_apart() {
        let locked = "[[package]]\nname = \"bincode\"\nversion = \"1.3.3\"\n";
        let from_git = format!("{locked}source = \"git+x\"\n");
        let own = "[workspace]\n[package]\nname = \"synod-a\"\n";
        let root = "[workspace]\nexclude = [\"baselines\"]\n";
        let found = |root: &str, own: &str, lock: Option<&str>| {
            let mut files = vec![("Cargo.toml", root), ("Cargo.lock", ""), ("baselines/a/Cargo.toml", own)];
            files.extend(lock.map(|text| ("baselines/a/Cargo.lock", text)));
            check(&Tree::of(&files)).len()
        };
        assert_eq!(found(root, own, Some(locked)), 0);
        assert_eq!(found("[workspace]\n", own, Some(locked)), 1, "not left out");
        assert_eq!(found(root, "[package]\nname = \"synod-a\"\n", Some(locked)), 1, "no workspace");
        assert_eq!(found(root, own, None), 1, "no lock file");
        assert_eq!(found(root, own, Some(&from_git)), 1, "from git");
    }

    #[test]
    fn a_workspace_without_a_lock_file_is_refused() {
        assert_eq!(check(&Tree::of(&[("Cargo.toml", "")])).len(), 1);
        assert_eq!(check(&Tree::of(&[("Cargo.lock", "[")])).len(), 1);
    }
}
