//! Advisories about crates of `Cargo.lock`, from a local copy of an advisory database.
//!
//! The database is a folder with `crates/NAME/ID.md`; each file begins with a block of TOML that says which versions
//! are patched or were never affected. Nothing is fetched. Requirements are lists of comparisons divided by commas;
//! one that cannot be read matches nothing, so that its advisory stays open.

use std::cmp::Ordering;
use std::path::Path;

use anyhow::Context as _;
use toml::{Table, Value};

/// Largest file of the database that is read, in bytes.
const BYTES_MAX: u64 = 1 << 20;

/// What a database says of the lock file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Advisories {
    /// Open ones: id, crate, version.
    pub(crate) open: Vec<(String, String, String)>,
    /// Notices that name no defect: unmaintained crates and the like.
    pub(crate) notices: Vec<(String, String, String)>,
    /// Crates that were looked up.
    pub(crate) crates: usize,
    /// Advisories in the database.
    pub(crate) known: usize,
}

/// Looks up every crate of a lock file.
///
/// # Errors
/// The folder is no database, or the lock file cannot be read.
pub(crate) fn of(database: &Path, lock: &str) -> anyhow::Result<Advisories> {
    let crates = database.join("crates");
    anyhow::ensure!(
        crates.is_dir(),
        "{} has no folder crates/: it is no advisory database",
        database.display()
    );
    let lock: Table = lock.parse().context("the lock file is not TOML")?;
    let mut found = Advisories::default();
    for package in lock.get("package").and_then(Value::as_array).into_iter().flatten() {
        let text = |key: &str| package.get(key).and_then(Value::as_str);
        let (Some(name), Some(version), Some(_)) = (text("name"), text("version"), text("source")) else {
            continue;
        };
        found.crates += 1;
        for entry in std::fs::read_dir(crates.join(name)).into_iter().flatten().flatten() {
            if entry.path().extension().is_some_and(|extension| extension == "md") {
                look(&entry.path(), (name, version), &mut found)?;
            }
        }
    }
    for entry in std::fs::read_dir(&crates)?.flatten() {
        found.known += std::fs::read_dir(entry.path()).into_iter().flatten().flatten().count();
    }
    anyhow::ensure!(found.known > 0, "{} holds no advisory", database.display());
    Ok(found)
}

fn look(file: &Path, (name, version): (&str, &str), found: &mut Advisories) -> anyhow::Result<()> {
    anyhow::ensure!(file.metadata()?.len() <= BYTES_MAX, "{} is too large", file.display());
    let text = std::fs::read_to_string(file)?;
    let Some(advisory) = Advisory::read(&text) else {
        anyhow::bail!("{} does not begin with a block of TOML that names an advisory", file.display());
    };
    if advisory.withdrawn || advisory.spares(version) {
        return Ok(());
    }
    let row = (advisory.id, name.to_owned(), version.to_owned());
    if advisory.informational {
        found.notices.push(row)
    } else {
        found.open.push(row)
    }
    Ok(())
}

struct Advisory {
    id: String,
    withdrawn: bool,
    informational: bool,
    /// Requirements of versions that it does not concern.
    spared: Vec<String>,
}

impl Advisory {
    fn read(text: &str) -> Option<Self> {
        let (_, rest) = text.split_once("```toml")?;
        let (block, _) = rest.split_once("```")?;
        let table: Table = block.parse().ok()?;
        let advisory = table.get("advisory")?;
        let list = |key: &str| {
            let list = table.get("versions").and_then(|versions| versions.get(key)?.as_array());
            list.into_iter()
                .flatten()
                .filter_map(|one| Some(one.as_str()?.to_owned()))
                .collect::<Vec<String>>()
        };
        // A notice of unsound code is a defect of that code.
        let kind = advisory.get("informational").and_then(Value::as_str);
        Some(Self {
            id: advisory.get("id")?.as_str()?.to_owned(),
            withdrawn: advisory.get("withdrawn").is_some(),
            informational: kind.is_some_and(|kind| kind != "unsound"),
            spared: [list("patched"), list("unaffected")].concat(),
        })
    }

    fn spares(&self, version: &str) -> bool {
        self.spared.iter().any(|requirement| matches(requirement, version))
    }
}

/// Numbers of a version, and what follows a hyphen.
type Version<'a> = ([u64; 3], &'a str);

fn version(text: &str) -> Option<(Version<'_>, usize)> {
    let plain = text.split('+').next()?;
    let (numbers, rest) = plain.split_once('-').unwrap_or((plain, ""));
    let mut version = [0; 3];
    let parts: Vec<&str> = numbers.split('.').collect();
    for (place, part) in version.iter_mut().zip(&parts) {
        *place = part.parse().ok()?;
    }
    (parts.len() <= 3).then_some(((version, rest), parts.len()))
}

/// Orders versions; what has a suffix comes before what has none.
fn order(one: Version<'_>, other: Version<'_>) -> Ordering {
    let suffix = match (one.1.is_empty(), other.1.is_empty()) {
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        _ => one.1.cmp(other.1),
    };
    one.0.cmp(&other.0).then(suffix)
}

fn matches(requirement: &str, wanted: &str) -> bool {
    let Some((wanted, _)) = version(wanted) else { return false };
    requirement.split(',').all(|one| is_met(one.trim(), wanted).unwrap_or(false))
}

fn is_met(comparison: &str, wanted: Version<'_>) -> Option<bool> {
    let digits = comparison.find(|c: char| c.is_ascii_digit())?;
    let (operator, text) = comparison.split_at(digits);
    let (bound, parts) = version(text.trim())?;
    let ordering = order(wanted, bound);
    // The leading numbers that must stay: the first that is not zero for `^`, all but the last for `~`.
    let kept = match operator.trim() {
        "^" | "" => bound.0.iter().position(|number| *number > 0).map_or(parts, |at| at + 1),
        "~" => 2.min(parts),
        _ => 0,
    };
    Some(match operator.trim() {
        ">=" => ordering.is_ge(),
        ">" => ordering.is_gt(),
        "<=" => ordering.is_le(),
        "<" => ordering.is_lt(),
        "=" => wanted.0[..parts.min(3)] == bound.0[..parts.min(3)],
        "^" | "" | "~" => ordering.is_ge() && wanted.0[..kept.min(3)] == bound.0[..kept.min(3)],
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{matches, of};

    #[test]
    fn requirements_are_read_as_cargo_reads_them() {
        for (requirement, version, met) in [
            (">= 1.11.1", "1.11.1", true),
            (">= 1.11.1", "1.9.0", false),
            (">= 0.5.1, < 0.6", "0.5.9", true),
            (">= 0.5.1, < 0.6", "0.6.0", false),
            ("^0.5.1", "0.5.2", true),
            ("^0.5.1", "0.6.0", false),
            ("^1.2", "1.9.0", true),
            ("^1.2", "2.0.0", false),
            ("~1.2.3", "1.2.9", true),
            ("~1.2.3", "1.3.0", false),
            ("=1.2.3", "1.2.3", true),
            ("1.2", "1.4.0", true),
            (">= 1.0.0", "1.0.0-rc.1", false),
            ("nonsense", "1.0.0", false),
            (">=", "1.0.0", false),
        ] {
            assert_eq!(matches(requirement, version), met, "{requirement} {version}");
        }
    }

    #[test]
    fn a_crate_below_the_patched_version_is_found_and_others_are_not() {
        let folder = std::env::temp_dir().join(format!("synod-advisories-{}", std::process::id()));
        let advisory = |name: &str, id: &str, rest: &str| {
            std::fs::create_dir_all(folder.join("crates").join(name)).expect("made");
            let text =
                format!("```toml\n[advisory]\nid = \"{id}\"\npackage = \"{name}\"\n{rest}\n```\n\n# About\n");
            std::fs::write(folder.join("crates").join(name).join(format!("{id}.md")), text).expect("written");
        };
        advisory("bytes", "A-1", "[versions]\npatched = [\">= 1.11.1\"]");
        advisory("bytes", "A-2", "[versions]\npatched = [\">= 1.0.0\"]");
        advisory("bytes", "A-3", "withdrawn = \"2020-01-01\"\n[versions]\npatched = []");
        advisory("bytes", "A-4", "informational = \"unmaintained\"\n[versions]\npatched = []");
        advisory("other", "A-5", "[versions]\npatched = []");
        let source = "source = \"registry\"";
        let lock = format!(
            "[[package]]\nname = \"bytes\"\nversion = \"1.10.0\"\n{source}\n[[package]]\nname = \"other\"\nversion = \"1.0.0\"\n"
        );
        let found = of(&folder, &lock);
        let none = of(&folder.join("crates"), &lock);
        std::fs::remove_dir_all(&folder).expect("removed");
        let found = found.expect("a database");
        let row = |id: &str| vec![(id.to_owned(), "bytes".to_owned(), "1.10.0".to_owned())];
        assert_eq!(
            (found.open, found.notices),
            (row("A-1"), row("A-4")),
            "crates of this workspace are not looked up"
        );
        assert_eq!((found.crates, found.known), (1, 5));
        assert!(none.is_err(), "an empty database would call everything safe");
    }
}
