//! Scenarios as text: a small, fixed part of TOML, written and read without a library.
//!
//! One `key = value` per line; values are integers, quoted strings without escapes, and lists of integers. Tables
//! are `[options]` and any number of `[[incident]]`. Unknown keys are errors. At most a mebibyte is read.

use core::fmt::{self, Write as _};
use std::collections::BTreeMap;

use synod_machine::Span;

use super::{Family, Incident, Scenario};
use crate::network::{Latency, Mode};
use crate::toy::Crypto;

const BYTES_MAX: usize = 1 << 20;

/// Why a text is no scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The line, from 1; 0 for the whole.
    pub line: usize,
    /// What is wrong with it.
    pub why: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "scenario line {}: {}", self.line, self.why)
    }
}

impl core::error::Error for Unreadable {}

enum Value {
    Number(i64),
    Text(String),
    List(Vec<u32>),
}

/// The table a line belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Table {
    Top,
    Options,
    Incident,
}

impl Scenario {
    /// Writes the scenario as TOML.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        let mut line = |key: &str, value: String| {
            let _ = writeln!(out, "{key} = {value}");
        };
        line("schema", "1".to_owned());
        line("system", format!("\"{}\"", self.system));
        line("seed", format!("\"{:016x}\"", self.seed));
        line("nodes", self.nodes.to_string());
        line("guests", self.guests.to_string());
        line("requests", self.requests.to_string());
        line("crypto", format!("\"{}\"", if self.crypto == Crypto::Toy { "toy" } else { "real" }));
        line("mode", format!("\"{}\"", if self.mode == Mode::Datagram { "datagram" } else { "connection" }));
        let (name, ns) = latency_name(self.latency);
        line("latency", format!("\"{name}\""));
        line("latency_ns", ns.to_string());
        line("jitter_ns", self.jitter.0.to_string());
        line("horizon_ns", self.horizon.0.to_string());
        if let Some(heard) = &self.heard {
            line("heard", format!("{heard:?}"));
        }
        if !self.options.is_empty() {
            out.push_str("\n[options]\n");
            for (key, value) in &self.options {
                let _ = writeln!(out, "{key} = {value}");
            }
        }
        for incident in &self.incidents {
            let Incident { id, family, at, lasts, nodes, amount } = incident;
            let _ = write!(
                out,
                "\n[[incident]]\nid = {id}\nfamily = \"{}\"\nat_ns = {}\nlasts_ns = {}\nnodes = {nodes:?}\namount = {amount}\n",
                family.name(),
                at.0,
                lasts.0
            );
        }
        out
    }

    /// Reads a scenario.
    ///
    /// # Errors
    /// [`Unreadable`] with the first line that is not understood.
    pub fn from_toml(text: &str) -> Result<Self, Unreadable> {
        if text.len() > BYTES_MAX {
            return Err(Unreadable { line: 0, why: "longer than a mebibyte".to_owned() });
        }
        let mut scenario = Self::quiet("", 0);
        let mut table = Table::Top;
        let (mut latency, mut latency_ns) = ("lan".to_owned(), 0);
        for (number, raw) in (1..).zip(text.lines()) {
            let refuse = |why: String| Unreadable { line: number, why };
            let line = raw.trim();
            match line {
                "" => {}
                "[options]" => table = Table::Options,
                "[[incident]]" => {
                    table = Table::Incident;
                    scenario.incidents.push(blank());
                }
                _ if line.starts_with('#') => {}
                _ => {
                    let (key, value) = line.split_once('=').ok_or_else(|| refuse("no `=`".to_owned()))?;
                    let (key, value) = (key.trim(), parse(value.trim()).map_err(refuse)?);
                    match (table, key) {
                        (Table::Top, "latency") => latency = text_of(value).map_err(refuse)?,
                        (Table::Top, "latency_ns") => latency_ns = unsigned(value).map_err(refuse)?,
                        (Table::Top, _) => scenario.set(key, value).map_err(refuse)?,
                        (Table::Options, _) => {
                            let number = signed(value).map_err(refuse)?;
                            scenario.options.insert(key.to_owned(), number);
                        }
                        (Table::Incident, _) => {
                            if let Some(last) = scenario.incidents.last_mut() {
                                last.set(key, value).map_err(refuse)?;
                            }
                        }
                    }
                }
            }
        }
        scenario.latency = latency_named(&latency, latency_ns)
            .ok_or_else(|| Unreadable { line: 0, why: format!("no latency preset is called {latency}") })?;
        scenario.check()
    }

    fn set(&mut self, key: &str, value: Value) -> Result<(), String> {
        match key {
            "schema" => match unsigned(value)? {
                1 => {}
                other => return Err(format!("schema {other}; this build reads 1")),
            },
            "system" => self.system = text_of(value)?,
            "seed" => {
                let text = text_of(value)?;
                self.seed =
                    u64::from_str_radix(&text, 16).map_err(|_| format!("seed {text} is not hexadecimal"))?;
            }
            "nodes" => self.nodes = small(value)?,
            "guests" => self.guests = small(value)?,
            "requests" => self.requests = small(value)?,
            "crypto" => {
                self.crypto = match text_of(value)?.as_str() {
                    "toy" => Crypto::Toy,
                    "real" => Crypto::Real,
                    other => return Err(format!("crypto {other}; toy or real")),
                };
            }
            "mode" => {
                self.mode = match text_of(value)?.as_str() {
                    "connection" => Mode::Connection,
                    "datagram" => Mode::Datagram,
                    other => return Err(format!("mode {other}; connection or datagram")),
                };
            }
            "heard" => match value {
                Value::List(heard) => self.heard = Some(heard),
                _ => return Err("heard is a list".to_owned()),
            },
            "jitter_ns" => self.jitter = Span(unsigned(value)?),
            "horizon_ns" => self.horizon = Span(unsigned(value)?),
            _ => return Err(format!("unknown key {key}")),
        }
        Ok(())
    }

    fn check(self) -> Result<Self, Unreadable> {
        let refuse = |why: &str| Unreadable { line: 0, why: why.to_owned() };
        let mut ids: BTreeMap<u32, ()> = BTreeMap::new();
        if self.nodes + self.guests > 1_024 {
            return Err(refuse("more than 1,024 nodes"));
        }
        for incident in &self.incidents {
            if ids.insert(incident.id, ()).is_some() {
                return Err(refuse(&format!("two incidents have the id {}", incident.id)));
            }
        }
        Ok(self)
    }
}

const fn blank() -> Incident {
    Incident {
        id: 0,
        family: Family::NetReset,
        at: Span::ZERO,
        lasts: Span::ZERO,
        nodes: Vec::new(),
        amount: 0,
    }
}

impl Incident {
    fn set(&mut self, key: &str, value: Value) -> Result<(), String> {
        match key {
            "id" => self.id = small(value)?,
            "family" => {
                let name = text_of(value)?;
                self.family = Family::named(&name).ok_or_else(|| format!("unknown family {name}"))?;
            }
            "at_ns" => self.at = Span(unsigned(value)?),
            "lasts_ns" => self.lasts = Span(unsigned(value)?),
            "nodes" => match value {
                Value::List(nodes) => self.nodes = nodes,
                _ => return Err("nodes are a list".to_owned()),
            },
            "amount" => self.amount = signed(value)?,
            _ => return Err(format!("unknown key {key} of an incident")),
        }
        Ok(())
    }
}

fn parse(text: &str) -> Result<Value, String> {
    if let Some(rest) = text.strip_prefix('"') {
        let inner = rest.strip_suffix('"').filter(|inner| !inner.contains(['"', '\\']));
        return inner.map(|inner| Value::Text(inner.to_owned())).ok_or_else(|| format!("bad string {text}"));
    }
    if let Some(rest) = text.strip_prefix('[') {
        let inner = rest.strip_suffix(']').ok_or_else(|| format!("bad list {text}"))?;
        let items = inner.split(',').map(str::trim).filter(|item| !item.is_empty());
        let numbers: Result<Vec<u32>, String> =
            items.map(|item| item.parse().map_err(|_| format!("bad number {item}"))).collect();
        return numbers.map(Value::List);
    }
    text.replace('_', "").parse().map(Value::Number).map_err(|_| format!("bad value {text}"))
}

fn text_of(value: Value) -> Result<String, String> {
    match value {
        Value::Text(text) => Ok(text),
        _ => Err("a string is needed here".to_owned()),
    }
}

fn signed(value: Value) -> Result<i64, String> {
    match value {
        Value::Number(number) => Ok(number),
        _ => Err("a number is needed here".to_owned()),
    }
}

fn unsigned(value: Value) -> Result<u64, String> {
    u64::try_from(signed(value)?).map_err(|_| "a number of at least 0 is needed here".to_owned())
}

fn small(value: Value) -> Result<u32, String> {
    u32::try_from(signed(value)?).map_err(|_| "a number from 0 to 2^32 - 1 is needed here".to_owned())
}

const fn latency_name(latency: Latency) -> (&'static str, u64) {
    match latency {
        Latency::Constant(span) => ("constant", span.0),
        Latency::Lan => ("lan", 0),
        Latency::Europe => ("europe", 0),
        Latency::World => ("world", 0),
        Latency::Two(span) => ("two", span.0),
    }
}

fn latency_named(name: &str, ns: u64) -> Option<Latency> {
    Some(match name {
        "constant" => Latency::Constant(Span(ns)),
        "lan" => Latency::Lan,
        "europe" => Latency::Europe,
        "world" => Latency::World,
        "two" => Latency::Two(Span(ns)),
        _ => return None,
    })
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
