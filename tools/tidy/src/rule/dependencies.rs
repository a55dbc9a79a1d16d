//! Refuses third-party crates that the dependency table does not allow where they are used.

use toml::{Table, Value};

use crate::finding::Finding;
use crate::manifest::{Kind, Need, lookup, needs};
use crate::rule::edges::{Layer, layer};
use crate::rule::table::{Allowed, BASELINES, FEATURES_OFF, TABLE, WIDENED, at_least};
use crate::tree::Tree;

const RULE: &str = "dependencies";

/// Checks the workspace's own table and every crate's manifest.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(text) = tree.texts.get("Cargo.toml") {
        let shared = text.parse::<Table>().unwrap_or_default();
        let shared = lookup(&shared, &["workspace", "dependencies"]).and_then(Value::as_table).cloned();
        for need in needs(&shared.unwrap_or_default(), Kind::Normal) {
            findings.extend(declared(&need).map(|what| Finding::refuse(RULE, "Cargo.toml", 0, what)));
        }
    }
    for manifest in &tree.manifests {
        let is_baseline = layer(&manifest.dir) == Some(Layer::Baselines);
        for need in &manifest.needs {
            if is_baseline {
                let wrong = of_baseline(need);
                findings.extend(wrong.map(|what| Finding::refuse(RULE, &manifest.path, 0, what)));
                continue;
            }
            let wrong = if need.inherited { None } else { declared(need) };
            let wrong = wrong.or_else(|| placed(&manifest.dir, need));
            findings.extend(wrong.map(|what| Finding::refuse(RULE, &manifest.path, 0, what)));
        }
    }
    findings
}

fn row(name: &str) -> Option<&'static Allowed> {
    TABLE.iter().find(|row| row.name == name)
}

/// Says what is wrong with a declaration: source, version, features.
fn declared(need: &Need) -> Option<String> {
    let name = &need.name;
    if need.git {
        return Some(format!("`{name}` comes from git"));
    }
    if name.starts_with("synod-") {
        return (!need.path && !need.inherited).then(|| format!("`{name}` has neither path nor workspace"));
    }
    if need.path {
        return Some(format!("`{name}` is third-party code inside the tree"));
    }
    let Some(row) = row(name) else { return Some(format!("`{name}` is not in the dependency table")) };
    let version = need.version.as_deref().unwrap_or("*");
    if version.contains('*') || version.contains('<') {
        return Some(format!("`{name}` has an open version `{version}`"));
    }
    if row.exact && version != format!("={}", row.floor) {
        return Some(format!("`{name}` must be ={}, not `{version}`", row.floor));
    }
    if !at_least(version, row.floor) {
        return Some(format!("`{name}` {version} is below its floor {}", row.floor));
    }
    features(need)
}

/// Says what is wrong with a crate that a baseline wants: one of its own in the version that was looked at, or one that
/// tools may use.
fn of_baseline(need: &Need) -> Option<String> {
    let name = &need.name;
    let own = BASELINES.iter().find(|(own, _)| own == name);
    let Some((_, version)) = own.filter(|_| !need.git && !need.path) else {
        return declared(need).or_else(|| placed("tools", need));
    };
    let exact = format!("={version}");
    (need.version.as_deref() != Some(&exact)).then(|| format!("`{name}` must be {exact}"))
}

fn features(need: &Need) -> Option<String> {
    let off = |f: &&String| FEATURES_OFF.iter().any(|(name, feature)| *name == need.name && feature == f);
    need.features.iter().find(off).map(|feature| format!("feature `{feature}` of `{}` stays off", need.name))
}

/// Says why a crate may not stand in this section of this manifest.
fn placed(dir: &str, need: &Need) -> Option<String> {
    let name = &need.name;
    if name.starts_with("synod-") {
        return None;
    }
    let Some(row) = row(name) else { return Some(format!("`{name}` is not in the dependency table")) };
    let inside =
        |place: &str| dir == place || dir.strip_prefix(place).is_some_and(|rest| rest.starts_with('/'));
    let widened = WIDENED.iter().any(|(widened, place)| widened == name && inside(place));
    if row.places.iter().any(|place| inside(place)) || widened {
        return features(need);
    }
    if row.dev && need.kind == Kind::Dev {
        return features(need);
    }
    let why = if row.dev { "is for tests: use [dev-dependencies]" } else { "has no place here" };
    Some(format!("`{name}` {why} (places: {})", row.places.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tree::Tree;

    fn found(dir: &str, needs: &str) -> usize {
        let manifest = format!("[package]\nname = \"synod-a\"\n{needs}");
        check(&Tree::of(&[(&format!("{dir}/Cargo.toml"), &manifest)])).len()
    }

    #[test]
    fn crates_in_their_places_pass() {
        assert_eq!(
            found("core/wire", "[dependencies]\ncommonware-codec.workspace = true\nbytes = \"1.11.1\"\n"),
            0
        );
        assert_eq!(found("core/machine", "[dev-dependencies]\nproptest.workspace = true\n"), 0);
        assert_eq!(found("fuzz", "[dependencies]\narbitrary = \"1.5\"\n"), 0);
        assert_eq!(found("tools/trial", "[dependencies]\narbitrary = \"1.5\"\n"), 0);
        assert_eq!(found("tools/cli", "[dependencies]\nclap = { version = \"4.6.7\" }\n"), 0);
        assert_eq!(found("runtimes/journal", "[dependencies]\nblake3.workspace = true\n"), 0);
    }

    #[test]
    fn unknown_misplaced_and_open_crates_are_refused() {
        for (dir, needs) in [
            ("core/wire", "[dependencies]\nleftpad = \"1\"\n"),
            ("core/quorum", "[dependencies]\ncommonware-codec.workspace = true\n"),
            ("protocols/hotstuff", "[dependencies]\ntokio.workspace = true\n"),
            ("core/machine", "[dependencies]\nproptest.workspace = true\n"),
            ("core/machine", "[dev-dependencies]\nserde_json.workspace = true\n"),
            ("core/wire", "[dependencies]\ncommonware-codec = \"2026.10.0\"\n"),
            ("core/wire", "[dependencies]\nbytes = \"1.10\"\n"),
            ("core/wire", "[dependencies]\nbytes = \"*\"\n"),
            ("core/wire", "[dependencies]\nbytes = \">=1.11.1, <2\"\n"),
            ("core/wire", "[dependencies]\nbytes = { git = \"x\" }\n"),
            ("core/wire", "[dependencies]\nbytes = { path = \"../../vendor/bytes\" }\n"),
            ("core/crypto", "[dependencies]\nblake3 = { version = \"1.8.7\", features = [\"rayon\"] }\n"),
            ("core/wire", "[dependencies]\nb = { package = \"leftpad\", version = \"1\" }\n"),
            ("core/quorum", "[dependencies]\nsynod-wire = \"1\"\n"),
        ] {
            assert_eq!(found(dir, needs), 1, "{dir}: {needs}");
        }
    }

    #[test]
    fn a_baseline_has_crates_of_its_own_in_one_version_and_no_other_crate_has_them() {
        let of = |need: &str| found("baselines/a", &format!("[dependencies]\n{need}\n"));
        for need in [
            "minbft = \"=1.0.3\"",
            "bincode = { version = \"=1.3.3\" }",
            "serde_json = \"1\"",
            "synod-shm = { path = \"../../runtimes/shm\" }",
        ] {
            assert_eq!(of(need), 0, "{need}");
        }
        for need in [
            "minbft = \"1.0.3\"",
            "minbft = \"=1.0.2\"",
            "bincode = { git = \"x\" }",
            "bincode = { path = \"x\" }",
            "leftpad = \"=1.0.0\"",
            "redb = \"4.4\"",
        ] {
            assert_eq!(of(need), 1, "{need}");
        }
        assert_eq!(found("tools/lab", "[dependencies]\nminbft = \"=1.0.3\"\n"), 1);
    }

    #[test]
    fn the_shared_table_of_the_workspace_is_checked() {
        let of = |line: &str| {
            let text = format!("[workspace.dependencies]\n{line}\n");
            check(&Tree::of(&[("Cargo.toml", &text)])).len()
        };
        assert_eq!(of("redb = \"4.4\"\nsynod-wire = { path = \"core/wire\" }"), 0);
        assert_eq!(of("redb = \"4.3\""), 1);
        assert_eq!(of("leftpad = \"1\""), 1);
        assert_eq!(of("rustls = { version = \"*\" }"), 1);
    }
}
