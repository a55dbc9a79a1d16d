//! Tables of keys, and the one reader of TOML files: whatever a table does not name is refused with the nearest
//! name, whatever is out of its range is refused by its own.

use crate::address::Address;
use crate::errors::{SynError, code};
use crate::units::{format_duration, format_size, parse_duration, parse_size};
use std::time::Duration;

/// Longest text value in bytes.
const TEXT_BYTES_MAX: usize = 1_024;

/// What a key takes.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A name: letters, digits, `.`, `_` and `-`, at most so many bytes, not empty.
    Name(usize),
    /// A path, relative to the directory of the file.
    Path,
    /// A path, or empty for none.
    PathOrNone,
    /// `HOST:PORT`.
    Address,
    /// `HOST:PORT`, or empty for off.
    AddressOrOff,
    /// A list of so many `HOST:PORT` at most.
    Addresses(usize),
    /// So many bytes as lower-case hex digits.
    Hex(usize),
    /// An integer in the inclusive range.
    Count(u64, u64),
    /// A size in bytes in the inclusive range, as an integer or like `64Mi`.
    Size(u64, u64),
    /// A duration in the inclusive range of nanoseconds, like `100ms`.
    Span(u64, u64),
    /// `true` or `false`.
    Flag,
    /// One of the words.
    Choice(&'static [&'static str]),
}

/// One documented key of a file.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Section and name with dots between.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// The default as it stands in documents; for `node.toml` also the value that is read.
    pub default: &'static str,
    /// What it does, one or two sentences.
    pub meaning: &'static str,
}

impl Key {
    /// The row of a table.
    pub(crate) const fn new(
        name: &'static str,
        kind: Kind,
        default: &'static str,
        meaning: &'static str,
    ) -> Self {
        Self { name, kind, default, meaning }
    }

    /// The values it takes, in words.
    #[must_use]
    pub fn range(&self) -> String {
        self.kind.range()
    }
}

/// A value that was read and is within its range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// Names, paths, addresses, hex and words.
    Text(String),
    /// Counts, and sizes in bytes.
    Number(u64),
    /// Durations.
    Span(Duration),
    /// Flags.
    Flag(bool),
}

impl Kind {
    /// The values it takes, in words.
    #[must_use]
    pub fn range(self) -> String {
        match self {
            Self::Name(max) => format!("letters, digits, `.`, `_`, `-`; 1 to {max} bytes"),
            Self::Path => "a path".to_owned(),
            Self::PathOrNone => "a path, or \"\" for none".to_owned(),
            Self::Address => "HOST:PORT".to_owned(),
            Self::AddressOrOff => "HOST:PORT, or \"\" for off".to_owned(),
            Self::Addresses(max) => format!("a list of at most {max} HOST:PORT"),
            Self::Hex(bytes) => format!("{} hex digits", bytes.saturating_mul(2)),
            Self::Count(min, max) => format!("{min} to {max}"),
            Self::Size(min, max) => format!("{} to {}", format_size(min), format_size(max)),
            Self::Span(min, max) => format!("{} to {}", span_text(min), span_text(max)),
            Self::Flag => "true or false".to_owned(),
            Self::Choice(words) => words.join(", "),
        }
    }

    /// Reads the text of an environment variable or a flag.
    pub(crate) fn read_text(self, text: &str) -> Result<Value, String> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(format!("{} bytes long; at most {TEXT_BYTES_MAX} are allowed", text.len()));
        }
        let wrong = || format!("{text:?}; it takes {}", self.range());
        let within = |number: u64, min: u64, max: u64| (min..=max).contains(&number).then_some(number);
        let value = match self {
            Self::Name(max) => is_name(text, max).then(|| Value::Text(text.to_owned())),
            Self::Path => is_path(text).then(|| Value::Text(text.to_owned())),
            Self::PathOrNone => (text.is_empty() || is_path(text)).then(|| Value::Text(text.to_owned())),
            Self::Address | Self::Addresses(_) => Address::parse(text).map(|_| Value::Text(text.to_owned())),
            Self::AddressOrOff => {
                (text.is_empty() || Address::parse(text).is_some()).then(|| Value::Text(text.to_owned()))
            }
            Self::Hex(bytes) => is_hex(text, bytes).then(|| Value::Text(text.to_owned())),
            Self::Count(min, max) => {
                text.parse().ok().and_then(|number| within(number, min, max)).map(Value::Number)
            }
            Self::Size(min, max) => {
                parse_size(text).and_then(|bytes| within(bytes, min, max)).map(Value::Number)
            }
            Self::Span(min, max) => parse_duration(text)
                .filter(|span| (u128::from(min)..=u128::from(max)).contains(&span.as_nanos()))
                .map(Value::Span),
            Self::Flag => text.parse().ok().map(Value::Flag),
            Self::Choice(words) => words.contains(&text).then(|| Value::Text(text.to_owned())),
        };
        value.ok_or_else(wrong)
    }

    /// Reads a value of a TOML file. Types are strict: `"5"` is no count and `5` no word.
    pub(crate) fn read(self, value: &toml::Value) -> Result<Value, String> {
        match (self, value) {
            (Self::Count(..) | Self::Size(..), toml::Value::Integer(number)) => {
                self.read_text(&number.to_string())
            }
            (Self::Flag, toml::Value::Boolean(flag)) => Ok(Value::Flag(*flag)),
            (Self::Count(..) | Self::Flag | Self::Addresses(_), _) => {
                Err(format!("of type {}; it takes {}", value.type_str(), self.range()))
            }
            (_, toml::Value::String(text)) => self.read_text(text),
            _ => Err(format!("of type {}; it takes {}", value.type_str(), self.range())),
        }
    }

    /// Writes a value as the file holds it.
    pub(crate) fn show(self, value: &Value) -> String {
        match value {
            Value::Text(text) => toml::Value::String(text.clone()).to_string(),
            Value::Number(bytes) if matches!(self, Self::Size(..)) => format!("\"{}\"", format_size(*bytes)),
            Value::Number(number) => number.to_string(),
            Value::Span(span) => format!("\"{}\"", format_duration(*span)),
            Value::Flag(flag) => flag.to_string(),
        }
    }
}

fn span_text(nanos: u64) -> String {
    format_duration(Duration::from_nanos(nanos))
}

fn is_name(text: &str, max: usize) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    !text.is_empty() && text.len() <= max && text.bytes().all(plain) && !text.starts_with(['.', '-'])
}

fn is_path(text: &str) -> bool {
    !text.is_empty() && !text.contains('\0')
}

fn is_hex(text: &str, bytes: usize) -> bool {
    text.len() == bytes.saturating_mul(2)
        && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The known name nearest to an unknown one: the same key in another section, else the key or section with the
/// smallest edit distance.
pub(crate) fn nearest(unknown: &str, keys: &'static [Key]) -> &'static str {
    fn leaf(name: &str) -> &str {
        name.rsplit_once('.').map_or(name, |(_, leaf)| leaf)
    }
    let moved = keys.iter().map(|key| key.name).find(|name| leaf(name) == leaf(unknown));
    let sections = keys.iter().filter_map(|key| key.name.rsplit_once('.').map(|(section, _)| section));
    let close = || {
        let names = keys.iter().map(|key| key.name).chain(sections);
        names.min_by_key(|name| strsim::damerau_levenshtein(unknown, name))
    };
    moved.or_else(close).unwrap_or("")
}

/// The refusal of an unknown key.
pub(crate) fn unknown_key(file: &str, key: &str, nearest: &str) -> SynError {
    SynError::of(code::UNKNOWN_KEY, &[("file", file), ("key", key), ("nearest", nearest)])
}

/// The refusal of a value; `problem` continues "KEY is ...".
pub(crate) fn bad_value(file: &str, key: &str, problem: &str) -> SynError {
    SynError::of(code::BAD_VALUE, &[("file", file), ("key", key), ("problem", problem)])
}

/// Parses the text of a file of at most `max` bytes into its top-level table.
fn document(file: &str, text: &str, max: usize) -> Result<toml::Table, SynError> {
    let unreadable = || SynError::of(code::CONFIG_UNREADABLE, &[("file", file)]);
    if text.len() > max {
        return Err(unreadable().because(format!("it is longer than {max} bytes")));
    }
    text.parse::<toml::Table>().map_err(|error| unreadable().because(error.to_string().trim_end()))
}

/// One table of a file, all of whose names are known.
pub(crate) struct Section<'a> {
    file: &'a str,
    /// The name in the table of keys, `member`; empty at the top.
    path: &'static str,
    /// The name in messages, `member[2]`.
    shown: String,
    table: toml::Table,
    keys: &'static [Key],
}

impl<'a> Section<'a> {
    /// The top of a file of at most `max` bytes.
    pub(crate) fn top(file: &'a str, text: &str, keys: &'static [Key], max: usize) -> Result<Self, SynError> {
        let section = Self { file, path: "", shown: String::new(), table: document(file, text, max)?, keys };
        section.refuse_unknown()?;
        Ok(section)
    }

    /// The top of a file that states its format, which must be `known`. A newer format is refused as such before
    /// its keys are found unknown.
    pub(crate) fn top_of_format(
        file: &'a str,
        text: &str,
        keys: &'static [Key],
        (known, max): (i64, usize),
    ) -> Result<Self, SynError> {
        let section = Self { file, path: "", shown: String::new(), table: document(file, text, max)?, keys };
        let found = section.table.get("format").and_then(toml::Value::as_integer);
        if let Some(found) = found.filter(|found| *found > known) {
            let values = [("file", file), ("found", &*found.to_string()), ("known", &*known.to_string())];
            return Err(SynError::of(code::FORMAT_NEWER, &values));
        }
        section.refuse_unknown()?;
        match section.number("format")? {
            Some(_) => Ok(section),
            None => Err(section.refusal("format", "missing")),
        }
    }

    fn full(prefix: &str, leaf: &str) -> String {
        if prefix.is_empty() { leaf.to_owned() } else { format!("{prefix}.{leaf}") }
    }

    /// A name is known if it is a key or the beginning of one.
    fn refuse_unknown(&self) -> Result<(), SynError> {
        for (leaf, value) in &self.table {
            let name = Self::full(self.path, leaf);
            let known = |key: &&Key| {
                key.name == name || key.name.strip_prefix(&name).is_some_and(|rest| rest.starts_with('.'))
            };
            if !self.keys.iter().any(|key| known(&key)) {
                let inner = value.as_table().and_then(|table| table.keys().next());
                let guess = inner.map_or_else(|| name.clone(), |inner| Self::full(&name, inner));
                let nearest = nearest(&guess, self.keys);
                let shown = match inner {
                    Some(inner) => Self::full(&Self::full(&self.shown, leaf), inner),
                    None => Self::full(&self.shown, leaf),
                };
                return Err(unknown_key(self.file, &shown, nearest));
            }
        }
        Ok(())
    }

    fn child(
        &self,
        leaf: &'static str,
        path: &'static str,
        shown: String,
        value: toml::Value,
    ) -> Result<Self, SynError> {
        let toml::Value::Table(table) = value else {
            return Err(bad_value(
                self.file,
                &shown,
                &format!("of type {}, not a section", value.type_str()),
            ));
        };
        assert!(path.ends_with(leaf), "the path of a section ends with its own name");
        let section = Self { file: self.file, path, shown, table, keys: self.keys };
        section.refuse_unknown()?;
        Ok(section)
    }

    /// The section `leaf`, whose keys begin with `path`; an absent one is empty.
    pub(crate) fn section(&mut self, leaf: &'static str, path: &'static str) -> Result<Self, SynError> {
        let value = self.table.remove(leaf).unwrap_or_else(|| toml::Value::Table(toml::Table::new()));
        self.child(leaf, path, Self::full(&self.shown, leaf), value)
    }

    /// The repeated sections `[[leaf]]`, at most `max`.
    pub(crate) fn list(&mut self, leaf: &'static str, max: usize) -> Result<Vec<Self>, SynError> {
        let values = match self.table.remove(leaf) {
            None => Vec::new(),
            Some(toml::Value::Array(values)) => values,
            Some(other) => {
                return Err(self.refusal(leaf, &format!("of type {}, not a list", other.type_str())));
            }
        };
        if values.len() > max {
            return Err(
                self.refusal(leaf, &format!("given {} times; at most {max} are allowed", values.len()))
            );
        }
        values
            .into_iter()
            .enumerate()
            .map(|(at, value)| self.child(leaf, leaf, format!("{leaf}[{at}]"), value))
            .collect()
    }

    /// The refusal of the value of `leaf`.
    pub(crate) fn refusal(&self, leaf: &str, problem: &str) -> SynError {
        bad_value(self.file, &Self::full(&self.shown, leaf), problem)
    }

    /// The value of `leaf`, in its range, if given.
    pub(crate) fn value(&self, leaf: &str) -> Result<Option<Value>, SynError> {
        let name = Self::full(self.path, leaf);
        let key = self.keys.iter().find(|key| key.name == name);
        match (key, self.table.get(leaf)) {
            (Some(key), Some(value)) => {
                key.kind.read(value).map(Some).map_err(|why| self.refusal(leaf, &why))
            }
            (Some(_), None) => Ok(None),
            (None, _) => unreachable!("only keys of the table are read"),
        }
    }

    /// The text of `leaf`, if given.
    pub(crate) fn text(&self, leaf: &str) -> Result<Option<String>, SynError> {
        Ok(self.value(leaf)?.and_then(|value| if let Value::Text(text) = value { Some(text) } else { None }))
    }

    /// The text of `leaf`, which must be given.
    pub(crate) fn required(&self, leaf: &str) -> Result<String, SynError> {
        self.text(leaf)?.ok_or_else(|| self.refusal(leaf, "missing"))
    }

    /// The addresses of `leaf`, `max` at most.
    pub(crate) fn addresses(&self, leaf: &str, max: usize) -> Result<Vec<Address>, SynError> {
        let range = Kind::Addresses(max).range();
        let listed = self.table.get(leaf).ok_or_else(|| self.refusal(leaf, "missing"))?;
        let items = listed.as_array().filter(|items| items.len() <= max);
        let items = items.ok_or_else(|| self.refusal(leaf, &format!("not {range}")))?;
        let read = |item: &toml::Value| item.as_str().and_then(Address::parse);
        items
            .iter()
            .map(|item| read(item).ok_or_else(|| self.refusal(leaf, &format!("{item}, not {range}"))))
            .collect()
    }

    /// The number of `leaf`, if given.
    pub(crate) fn number(&self, leaf: &str) -> Result<Option<u64>, SynError> {
        Ok(self
            .value(leaf)?
            .and_then(|value| if let Value::Number(number) = value { Some(number) } else { None }))
    }

    /// The duration of `leaf`, if given.
    pub(crate) fn span(&self, leaf: &str) -> Result<Option<Duration>, SynError> {
        Ok(self.value(leaf)?.and_then(|value| if let Value::Span(span) = value { Some(span) } else { None }))
    }

    /// A number that its range keeps within 32 bits.
    pub(crate) fn number_u32(&self, leaf: &str) -> Result<Option<u32>, SynError> {
        let fits = |number: u64| u32::try_from(number).map_err(|_| self.refusal(leaf, "above 4294967295"));
        self.number(leaf)?.map(fits).transpose()
    }

    /// The flag of `leaf`, if given.
    pub(crate) fn flag(&self, leaf: &str) -> Result<Option<bool>, SynError> {
        Ok(self.value(leaf)?.and_then(|value| if let Value::Flag(flag) = value { Some(flag) } else { None }))
    }

    /// The word of `leaf` as its type, if given.
    pub(crate) fn choice<T: crate::choice::Choice>(&self, leaf: &str) -> Result<Option<T>, SynError> {
        Ok(self.text(leaf)?.and_then(|word| T::named(&word)))
    }

    /// The names given, in order.
    pub(crate) fn given(&self) -> impl Iterator<Item = &str> {
        self.table.keys().map(String::as_str)
    }
}
