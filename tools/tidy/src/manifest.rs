//! What the rules need of a crate's `Cargo.toml`.

use toml::{Table, Value};

/// When a dependency is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `[dependencies]`
    Normal,
    /// `[dev-dependencies]`
    Dev,
    /// `[build-dependencies]`
    Build,
}

/// One dependency as declared.
#[derive(Clone, Debug)]
pub struct Need {
    /// Name of the package, also when it is renamed.
    pub name: String,
    /// Section it stands in.
    pub kind: Kind,
    /// Version requirement, none when inherited or by path alone.
    pub version: Option<String>,
    /// True for `workspace = true`.
    pub inherited: bool,
    /// True when it names a git repository.
    pub git: bool,
    /// True when it names a path.
    pub path: bool,
    /// Cargo features it asks for here.
    pub features: Vec<String>,
}

/// A crate's manifest.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// Path of the file.
    pub path: String,
    /// Directory of the crate.
    pub dir: String,
    /// Package name.
    pub name: String,
    /// Dependencies of all kinds and targets.
    pub needs: Vec<Need>,
    /// The whole file.
    pub table: Table,
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// A sentence saying what is wrong: not TOML, or no package name.
    pub fn parse(path: &str, text: &str) -> Result<Self, String> {
        let table: Table = text.parse().map_err(|why| format!("not TOML: {why}"))?;
        let name = lookup(&table, &["package", "name"]).and_then(Value::as_str);
        let name = name.ok_or("no package name")?.to_owned();
        let mut needs = sections(&table);
        if let Some(Value::Table(targets)) = table.get("target") {
            needs.extend(targets.values().filter_map(Value::as_table).flat_map(sections));
        }
        let dir = path.trim_end_matches("Cargo.toml").trim_end_matches('/').to_owned();
        Ok(Self { path: path.to_owned(), dir, name, needs, table })
    }
}

/// Follows keys through nested tables.
pub fn lookup<'t>(table: &'t Table, keys: &[&str]) -> Option<&'t Value> {
    let (last, first) = keys.split_last()?;
    let mut at = table;
    for key in first {
        at = at.get(*key)?.as_table()?;
    }
    at.get(*last)
}

/// Reads one table of dependencies.
pub fn needs(table: &Table, kind: Kind) -> Vec<Need> {
    table.iter().map(|(key, value)| need(key, value, kind)).collect()
}

fn sections(table: &Table) -> Vec<Need> {
    let kinds = [
        ("dependencies", Kind::Normal),
        ("dev-dependencies", Kind::Dev),
        ("build-dependencies", Kind::Build),
    ];
    let of = |(key, kind)| table.get(key).and_then(Value::as_table).map(|t| needs(t, kind));
    kinds.into_iter().filter_map(of).flatten().collect()
}

fn need(key: &str, value: &Value, kind: Kind) -> Need {
    let text = |field: &str| value.get(field).and_then(Value::as_str).map(str::to_owned);
    let features = value.get("features").and_then(Value::as_array);
    let names = |list: &Vec<Value>| list.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    Need {
        name: text("package").unwrap_or_else(|| key.to_owned()),
        kind,
        version: value.as_str().map(str::to_owned).or_else(|| text("version")),
        inherited: value.get("workspace").and_then(Value::as_bool) == Some(true),
        git: value.get("git").is_some(),
        path: value.get("path").is_some(),
        features: features.map(names).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, Manifest};

    #[test]
    fn dependencies_of_all_kinds_targets_and_spellings_are_read() {
        let text = "[package]\nname = \"synod-a\"\n[dependencies]\nb.workspace = true\nc = \"1.2\"\n\
            d = { package = \"e\", git = \"x\", features = [\"f\"] }\n[dev-dependencies]\ng = \"1\"\n\
            [target.'cfg(unix)'.dependencies]\nh = { path = \"../h\" }\n";
        let manifest = Manifest::parse("core/a/Cargo.toml", text).expect("the sample is valid");
        assert_eq!((manifest.dir.as_str(), manifest.name.as_str()), ("core/a", "synod-a"));
        let of = |name: &str| manifest.needs.iter().find(|n| n.name == name).expect("declared").clone();
        assert!(of("b").inherited);
        assert_eq!(of("c").version.as_deref(), Some("1.2"));
        assert!(of("e").git);
        assert_eq!(of("e").features, ["f"]);
        assert_eq!(of("g").kind, Kind::Dev);
        assert!(of("h").path);
        assert!(Manifest::parse("a/Cargo.toml", "[lints]\n").is_err());
    }
}
