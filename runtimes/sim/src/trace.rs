//! What happened, for people: the last 200 events always, all of them on request.

use core::fmt::Write as _;
use std::collections::{BTreeSet, VecDeque};

use synod_quorum::NodeId;

use crate::deed::{Deed, Seen};

/// Events the ring holds.
pub const LAST: usize = 200;

/// One event in the trace.
#[derive(Debug)]
pub struct Line {
    /// Number of the event.
    pub event: u64,
    /// Number of the event that caused it; 0 for none.
    pub cause: u64,
    /// Virtual nanoseconds.
    pub time: u64,
    /// The node.
    pub node: NodeId,
    /// 0, or 1 for the second of two twins.
    pub twin: u8,
    /// The node's start, from 1.
    pub incarnation: u32,
    /// The machine's number.
    pub machine: u8,
    /// What happened.
    pub seen: Seen,
    /// What the machine did.
    pub deeds: Vec<Deed>,
    /// Whether the node crashed at the end of `deeds`.
    pub crashed: bool,
}

impl Line {
    /// The event as one JSON object, without a line end.
    #[must_use]
    pub fn json(&self) -> String {
        let mut out = format!(
            r#"{{"event":{},"cause":{},"ns":{},"node":{},"twin":{},"incarnation":{},"machine":{},"crashed":{},"seen":"{}","effects":["#,
            self.event,
            self.cause,
            self.time,
            self.node.0,
            self.twin,
            self.incarnation,
            self.machine,
            self.crashed,
            escape(&self.what()),
        );
        for (at, deed) in self.deeds.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            let _ = write!(out, "{comma}\"{}\"", escape(&format!("{deed:?}")));
        }
        out.push_str("]}");
        out
    }

    /// What happened, in a few words.
    #[must_use]
    pub fn what(&self) -> String {
        match &self.seen {
            Seen::Opened { condition, records } => format!("opened {condition:?} {} records", records.len()),
            Seen::Start => "start".to_owned(),
            Seen::Input => "input".to_owned(),
            Seen::Frame(frame) => format!("from {} q{} {}B", frame.from.0, frame.queue.0, frame.body.len()),
            Seen::Timers(names) => format!("timer {}", names.join(" ")),
            Seen::Done => "done".to_owned(),
            Seen::Loaded { name, found } => format!("loaded {name:?} {found}"),
            Seen::Link { peer, link } => format!("link {} {link:?}", peer.0),
            Seen::Durable(lsn) => format!("durable #{lsn}"),
            Seen::Strategy => "strategy".to_owned(),
        }
    }
}

/// The kept events of a run.
pub struct Trace {
    ring: VecDeque<Line>,
    all: Option<Vec<String>>,
}

impl Trace {
    /// A trace; `full` keeps every event as a JSON line.
    #[must_use]
    pub const fn new(full: bool) -> Self {
        Self { ring: VecDeque::new(), all: if full { Some(Vec::new()) } else { None } }
    }

    /// Keeps an event; gives back an empty vector to write the next effects into.
    pub(crate) fn push(&mut self, line: Line) -> Vec<Deed> {
        if let Some(all) = &mut self.all {
            all.push(line.json());
        }
        self.ring.push_back(line);
        if self.ring.len() <= LAST {
            return Vec::new();
        }
        let mut deeds = self.ring.pop_front().map_or_else(Vec::new, |line| line.deeds);
        deeds.clear();
        deeds
    }

    /// The last events, oldest first.
    pub fn last(&self) -> impl Iterator<Item = &Line> {
        self.ring.iter()
    }

    /// Every event as a JSON line; `None` unless the options asked for it.
    #[must_use]
    pub fn lines(&self) -> Option<&[String]> {
        self.all.as_deref()
    }

    /// The last events as text: one line per event, one column per node.
    #[must_use]
    pub fn columns(&self) -> String {
        const WIDTH: usize = 26;
        let nodes: Vec<(NodeId, u8)> = self
            .ring
            .iter()
            .map(|line| (line.node, line.twin))
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        let mut out = format!("{:>14} ", "ms");
        for (node, twin) in &nodes {
            let name = format!("node {}{}", node.0, if *twin > 0 { "'" } else { "" });
            let _ = write!(out, "{name:<WIDTH$}");
        }
        out.push('\n');
        for line in &self.ring {
            let column = nodes.iter().position(|node| *node == (line.node, line.twin)).unwrap_or(0);
            let (ms, ns) = (line.time / 1_000_000, line.time % 1_000_000);
            let _ = write!(out, "{ms:>7}.{ns:06} {:1$}{2}", "", column * WIDTH, line.what());
            for deed in &line.deeds {
                let _ = write!(out, "; {deed:?}");
            }
            out.push_str(if line.crashed { "; CRASH\n" } else { "\n" });
        }
        out
    }
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(event: u64, node: u32) -> Line {
        Line {
            event,
            cause: 0,
            time: event * 1_000,
            node: NodeId(node),
            twin: 0,
            incarnation: 1,
            machine: 0,
            seen: Seen::Timers(vec!["A\"B".into()]),
            deeds: vec![Deed::Compact],
            crashed: event == 7,
        }
    }

    #[test]
    fn the_ring_holds_the_last_two_hundred() {
        let mut trace = Trace::new(false);
        (1..=1_000).for_each(|event| drop(trace.push(line(event, 0))));
        let kept: Vec<u64> = trace.last().map(|line| line.event).collect();
        assert_eq!(kept, (801..=1_000).collect::<Vec<_>>());
        assert!(trace.lines().is_none());
    }

    #[test]
    fn a_full_trace_is_one_escaped_json_object_per_event() {
        let mut trace = Trace::new(true);
        trace.push(line(7, 2));
        assert_eq!(
            trace.lines().expect("a full trace"),
            [
                r#"{"event":7,"cause":0,"ns":7000,"node":2,"twin":0,"incarnation":1,"machine":0,"crashed":true,"seen":"timer A\"B","effects":["compact"]}"#
            ]
        );
    }

    #[test]
    fn the_text_view_has_one_column_per_node() {
        let mut trace = Trace::new(false);
        trace.push(line(1, 0));
        trace.push(line(7, 5));
        let text = trace.columns();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("node 0") && lines[0].contains("node 5"));
        assert_eq!(lines[0].find("node 5"), lines[2].find("timer"));
        assert!(lines[2].ends_with("CRASH") && !lines[1].contains("CRASH"));
    }
}
