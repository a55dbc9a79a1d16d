//! What verbs print on standard output: a table, one JSON object or CSV, all from one [`Report`].
//!
//! Standard output carries data only. It has no escape sequences unless it is a terminal, and even there only
//! the header of a table is emphasised.

use clap::ValueEnum;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{ErrorKind, IsTerminal as _, Write};
use synod_config::{SynError, code};

/// The form of the data on standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// One object.
    Json,
    /// The list of the report, or its fields as one line.
    Csv,
}

/// Rows under names. The names are the keys in JSON.
#[derive(Debug)]
struct List {
    name: &'static str,
    columns: Vec<&'static str>,
    rows: Vec<Vec<Value>>,
}

/// An answer: named fields, then at most one list, or a page of text.
#[derive(Debug)]
pub(crate) struct Report {
    schema: &'static str,
    fields: Vec<(Cow<'static, str>, Value)>,
    list: Option<List>,
    page: Option<String>,
}

impl Report {
    /// An empty answer. The schema, such as `synod-keys/1`, is part of the JSON object.
    pub(crate) fn new(schema: &'static str) -> Self {
        Self { schema, fields: Vec::new(), list: None, page: None }
    }

    /// Adds a field.
    pub(crate) fn field(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Value>) -> Self {
        self.fields.push((name.into(), value.into()));
        self
    }

    /// Sets the list.
    pub(crate) fn list(
        mut self,
        name: &'static str,
        columns: &[&'static str],
        rows: Vec<Vec<Value>>,
    ) -> Self {
        assert!(rows.iter().all(|row| row.len() == columns.len()), "each row has one value per column");
        self.list = Some(List { name, columns: columns.to_vec(), rows });
        self
    }

    /// Sets the page that stands for fields and list where people read.
    pub(crate) fn page(mut self, text: impl Into<String>) -> Self {
        self.page = Some(text.into());
        self
    }

    /// The answer as one JSON object on one line.
    pub(crate) fn to_json(&self) -> String {
        let mut object = Map::new();
        object.insert("schema".to_owned(), Value::from(self.schema));
        for (name, value) in &self.fields {
            object.insert(name.to_string(), value.clone());
        }
        if let Some(list) = &self.list {
            let rows = list.rows.iter().map(|row| {
                let cells = list.columns.iter().zip(row);
                Value::Object(cells.map(|(name, cell)| ((*name).to_owned(), cell.clone())).collect())
            });
            object.insert(list.name.to_owned(), rows.collect());
        }
        format!("{}\n", Value::Object(object))
    }

    fn to_csv(&self) -> String {
        let line = |cells: Vec<String>| cells.join(",") + "\n";
        let quoted = |cell: &Value| csv_cell(&shown(cell));
        if let Some(list) = &self.list {
            let mut text = line(list.columns.iter().map(|name| (*name).to_owned()).collect());
            text.extend(list.rows.iter().map(|row| line(row.iter().map(quoted).collect())));
            return text;
        }
        let names = self.fields.iter().map(|(name, _)| name.to_string()).collect();
        line(names) + &line(self.fields.iter().map(|(_, value)| quoted(value)).collect())
    }

    fn to_table(&self, styled: bool) -> String {
        if let Some(page) = &self.page {
            return page.clone();
        }
        let mut text = String::new();
        let width = self.fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, value) in &self.fields {
            let _infallible = writeln!(text, "{name:width$}  {}", shown(value));
        }
        if let Some(list) = &self.list {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&aligned(list, styled));
        }
        text
    }
}

fn aligned(list: &List, styled: bool) -> String {
    let cells: Vec<Vec<String>> = list.rows.iter().map(|row| row.iter().map(shown).collect()).collect();
    let mut widths: Vec<usize> = list.columns.iter().map(|name| name.chars().count()).collect();
    for row in &cells {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |row: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<String> =
            row.zip(&widths).map(|(cell, width)| format!("{cell:width$}", width = *width)).collect();
        padded.join("  ").trim_end().to_owned()
    };
    let header = line(&mut list.columns.iter().copied());
    let mut text = if styled { format!("\u{1b}[1m{header}\u{1b}[0m\n") } else { header + "\n" };
    for row in &cells {
        text.push_str(&line(&mut row.iter().map(String::as_str)));
        text.push('\n');
    }
    text
}

/// A value as people read it. Control characters are escaped: a name may come from a peer.
fn shown(value: &Value) -> String {
    let text = match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(shown).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    };
    if text.chars().any(char::is_control) { text.escape_default().to_string() } else { text }
}

fn csv_cell(text: &str) -> String {
    let special = text.contains([',', '"', '\n', '\r']);
    if special { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

/// Where and how a verb prints.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    format: Format,
    styled: bool,
}

impl Output {
    /// Whether standard output carries one JSON object.
    pub(crate) fn is_json(self) -> bool {
        self.format == Format::Json
    }

    /// `plain` forbids escape sequences; `NO_COLOR` and a standard output that is no terminal do as well.
    pub(crate) fn new(format: Format, plain: bool) -> Self {
        let asked = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { format, styled: !plain && !asked && std::io::stdout().is_terminal() }
    }

    /// Prints an answer.
    pub(crate) fn print(self, report: &Report) -> Result<(), SynError> {
        self.raw(&match self.format {
            Format::Table => report.to_table(self.styled),
            Format::Json => report.to_json(),
            Format::Csv => report.to_csv(),
        })
    }

    /// Prints text whose form is not ours to choose: completions, a manual page, a public key in PEM.
    pub(crate) fn raw(self, text: &str) -> Result<(), SynError> {
        let mut out = std::io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            // The reader has what it wanted, as in `synod explain | head`.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            Err(error) => {
                let message = "standard output cannot be written";
                Err(SynError::with_message(code::DISK_RESERVE, message).because(error))
            }
            Ok(()) => Ok(()),
        }
    }
}

/// A line of progress on standard error. A closed standard error leaves nobody to tell.
pub(crate) fn progress(line: &str) {
    drop(writeln!(std::io::stderr(), "{line}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sample() -> Report {
        Report::new("synod-sample/1").field("name", "shop").field("f", 1).list(
            "nodes",
            &["node", "note"],
            vec![vec![json!("n0"), json!("a, \"b\"")], vec![json!("node-ten"), Value::Null]],
        )
    }

    #[test]
    fn one_report_has_three_forms() {
        let table = "name  shop\nf     1\n\nnode      note\nn0        a, \"b\"\nnode-ten  -\n";
        assert_eq!(sample().to_table(false), table);
        assert_eq!(sample().to_csv(), "node,note\nn0,\"a, \"\"b\"\"\"\nnode-ten,-\n");
        let json: Value = serde_json::from_str(&sample().to_json()).expect("one object");
        let nodes = json!([{"node": "n0", "note": "a, \"b\""}, {"node": "node-ten", "note": null}]);
        assert_eq!(json, json!({"schema": "synod-sample/1", "name": "shop", "f": 1, "nodes": nodes}));
    }

    #[test]
    fn only_the_header_is_emphasised_and_only_when_asked() {
        let styled = sample().to_table(true);
        assert_eq!(styled.matches('\u{1b}').count(), 2);
        assert_eq!(styled.replace("\u{1b}[1m", "").replace("\u{1b}[0m", ""), sample().to_table(false));
    }

    #[test]
    fn fields_alone_are_one_line_of_csv_and_a_page_is_for_people() {
        let report = Report::new("synod-sample/1").field("a", 1).field("b", "x").page("all about it\n");
        assert_eq!(report.to_csv(), "a,b\n1,x\n");
        assert_eq!(report.to_table(false), "all about it\n");
        assert!(!report.to_json().contains("about"));
    }

    #[test]
    fn a_value_cannot_move_the_cursor_or_forge_a_line() {
        assert_eq!(shown(&json!("a\u{1b}[2J\nb")), "a\\u{1b}[2J\\nb");
    }
}
