//! The four layers and the origin of each value.

use super::KEYS;
use super::config::NodeConfig;
use crate::errors::SynError;
use crate::table::{Key, Section, Value, bad_value, nearest, unknown_key};
use crate::{Address, files};
use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Largest `node.toml` in bytes.
const FILE_BYTES_MAX: usize = 64 << 10;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// No layer set it.
    Default,
    /// The file of this name.
    File(String),
    /// The environment variable of this name.
    Environment(String),
    /// The command line.
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(name) => write!(f, "file {name}"),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Flag => f.write_str("flag"),
        }
    }
}

/// A line of `synod config show --effective`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Section and name.
    pub key: &'static str,
    /// The value as the file would hold it.
    pub value: String,
    /// Its layer.
    pub origin: Origin,
}

/// All values after the layers were joined, each in its range.
#[derive(Clone, Debug)]
pub struct Effective {
    values: BTreeMap<&'static str, (Value, Origin)>,
}

impl Effective {
    /// Joins the layers: defaults, then the file (its name for messages, its text), then every variable
    /// `SYNOD_SECTION__KEY` of the environment, then flags given as (`section.key`, value). Variables without
    /// the prefix or without the double underscore are not ours and are left alone.
    ///
    /// # Errors
    /// SYN-1101 for text that is not TOML or is too long, SYN-1102 for unknown keys, SYN-1103 for bad values.
    pub fn load(
        file: Option<(&str, &str)>,
        environment: impl IntoIterator<Item = (String, String)>,
        flags: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, SynError> {
        let mut values = BTreeMap::new();
        for key in KEYS {
            // The one key without a default is checked when the typed configuration is built.
            let value = if key.default.is_empty() { Value::Text(String::new()) } else { default_of(key) };
            values.insert(key.name, (value, Origin::Default));
        }
        let mut effective = Self { values };
        if let Some((name, text)) = file {
            effective.apply_file(name, text)?;
        }
        for (variable, text) in environment {
            if let Some(name) = key_of_variable(&variable) {
                effective.set(&variable, &name, &text, Origin::Environment(variable.clone()))?;
            }
        }
        for (name, text) in flags {
            effective.set("command line", &name, &text, Origin::Flag)?;
        }
        Ok(effective)
    }

    /// Reads the file at `path` (at most 64 KiB) and joins the layers.
    ///
    /// # Errors
    /// Those of [`Self::load`], and SYN-1101 if the file cannot be read.
    pub fn read(
        path: &Path,
        environment: impl IntoIterator<Item = (String, String)>,
        flags: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, SynError> {
        let text = files::read_text(path, FILE_BYTES_MAX)?;
        Self::load(Some((&files::shown(path), &text)), environment, flags)
    }

    fn apply_file(&mut self, name: &str, text: &str) -> Result<(), SynError> {
        let mut top = Section::top(name, text, KEYS, FILE_BYTES_MAX)?;
        for path in sections() {
            let section = top.section(path, path)?;
            for leaf in section.given() {
                let value = section.value(leaf)?;
                let key = KEYS.iter().find(|key| key.name.split_once('.') == Some((path, leaf)));
                if let (Some(key), Some(value)) = (key, value) {
                    self.values.insert(key.name, (value, Origin::File(name.to_owned())));
                }
            }
        }
        Ok(())
    }

    fn set(&mut self, source: &str, name: &str, text: &str, origin: Origin) -> Result<(), SynError> {
        let Some(key) = KEYS.iter().find(|key| key.name == name) else {
            let bounded: String = name.chars().take(64).collect();
            return Err(unknown_key(source, name, nearest(&bounded, KEYS)));
        };
        let value = key.kind.read_text(text).map_err(|problem| bad_value(source, name, &problem))?;
        self.values.insert(key.name, (value, origin));
        Ok(())
    }

    /// The values in the order of [`KEYS`], with their origins. None of them is a secret: secrets stay in the
    /// files they name.
    pub fn rows(&self) -> impl Iterator<Item = Row> {
        KEYS.iter().map(|key| {
            let (value, origin) = self.entry(key.name);
            Row { key: key.name, value: key.kind.show(value), origin: origin.clone() }
        })
    }

    /// The typed configuration.
    ///
    /// # Errors
    /// SYN-1103 if node.name is missing, SYN-1106 if two keys do not fit together, SYN-1111 for a listener that
    /// other machines reach without the credentials it needs.
    pub fn config(&self) -> Result<NodeConfig, SynError> {
        NodeConfig::build(self)
    }

    /// The text of a `node.toml` that sets exactly the values that are not defaults, whatever their layer.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        for path in sections() {
            let of_section =
                |key: &&Key| key.name.split_once('.').is_some_and(|(section, _)| section == path);
            let mut open = false;
            for key in KEYS.iter().filter(of_section) {
                let (value, origin) = self.entry(key.name);
                if *origin == Origin::Default {
                    continue;
                }
                if !open {
                    let gap = if text.is_empty() { "" } else { "\n" };
                    let _infallible = writeln!(text, "{gap}[{path}]");
                    open = true;
                }
                let leaf = key.name.split_once('.').map_or(key.name, |(_, leaf)| leaf);
                let _infallible = writeln!(text, "{leaf} = {}", key.kind.show(value));
            }
        }
        text
    }

    fn entry(&self, key: &'static str) -> &(Value, Origin) {
        self.values.get(key).expect("load inserted every key of the table")
    }

    /// Whether some layer set the key.
    pub(super) fn is_set(&self, key: &'static str) -> bool {
        self.entry(key).1 != Origin::Default
    }

    pub(super) fn text(&self, key: &'static str) -> String {
        match &self.entry(key).0 {
            Value::Text(text) => text.clone(),
            other => unreachable!("{key} is text by its table, not {other:?}"),
        }
    }

    pub(super) fn number(&self, key: &'static str) -> u64 {
        match &self.entry(key).0 {
            Value::Number(number) => *number,
            other => unreachable!("{key} is a number by its table, not {other:?}"),
        }
    }

    pub(super) fn number_u32(&self, key: &'static str) -> u32 {
        u32::try_from(self.number(key)).expect("the range of the key ends below 2^32")
    }

    pub(super) fn span(&self, key: &'static str) -> Duration {
        match &self.entry(key).0 {
            Value::Span(span) => *span,
            other => unreachable!("{key} is a duration by its table, not {other:?}"),
        }
    }

    pub(super) fn flag(&self, key: &'static str) -> bool {
        matches!(self.entry(key).0, Value::Flag(true))
    }

    pub(super) fn choice<T: crate::choice::Choice>(&self, key: &'static str) -> T {
        T::named(&self.text(key)).expect("the value was checked against the same words")
    }

    pub(super) fn path(&self, key: &'static str) -> Option<PathBuf> {
        Some(self.text(key)).filter(|text| !text.is_empty()).map(PathBuf::from)
    }

    pub(super) fn address(&self, key: &'static str) -> Option<Address> {
        Address::parse(&self.text(key))
    }
}

fn default_of(key: &Key) -> Value {
    key.kind.read_text(key.default).expect("defaults are within their own ranges")
}

/// The sections in the order of the table.
fn sections() -> impl Iterator<Item = &'static str> {
    let mut last = "";
    KEYS.iter().filter_map(|key| key.name.split_once('.')).filter_map(move |(section, _)| {
        let new = section != last;
        last = section;
        new.then_some(section)
    })
}

/// `SYNOD_STORAGE__DISK_RESERVE_BYTES` names `storage.disk_reserve_bytes`.
fn key_of_variable(variable: &str) -> Option<String> {
    let (section, leaf) = variable.strip_prefix("SYNOD_")?.split_once("__")?;
    Some(format!("{}.{}", section.to_ascii_lowercase(), leaf.to_ascii_lowercase()))
}
