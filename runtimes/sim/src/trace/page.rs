//! The space-time diagram: one HTML file that needs nothing else.
//!
//! One vertical lane per node, time downwards, messages as arrows from send to receipt, and beside each row its words. The
//! observations that a violation rests on are ringed and led to the verdict at the bottom. Every row links to the full
//! text of its events below the diagram, so the page says everything without its script too.

use core::fmt::Write as _;
use std::collections::BTreeMap;

use synod_quorum::NodeId;

use super::columns::{Place, about, called, ms, places, said};
use super::past::Row;
use super::step::{Aside, AsideKind, EffectKind, Step, StepKind};
use super::words::Mark;

const LANE: usize = 92;
const LEFT: usize = 96;
const TOP: usize = 44;
const HIGH: usize = 26;
/// Characters of a row's words beside the diagram.
const BESIDE: usize = 150;

/// What a page says above and below its diagram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Story {
    /// The title.
    pub title: String,
    /// Headings with their sentences.
    pub facts: Vec<(String, String)>,
    /// What was broken, for the box at the bottom; empty when nothing was.
    pub verdict: String,
}

/// A text inside HTML.
pub(super) fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() => out.push('?'),
            c => out.push(c),
        }
    }
    out
}

/// One line of the diagram.
enum Line<'a> {
    Row(&'a Row<'a>),
    Aside(&'a Aside),
}

/// Where everything stands.
struct Sheet<'a> {
    lines: Vec<Line<'a>>,
    places: Vec<Place>,
    /// The line of every event.
    at: BTreeMap<u64, usize>,
    evidence: &'a [u64],
    name: &'a dyn Fn(NodeId) -> String,
}

impl<'a> Sheet<'a> {
    fn new(
        rows: &'a [Row<'a>],
        asides: &[&'a Aside],
        evidence: &'a [u64],
        name: &'a dyn Fn(NodeId) -> String,
    ) -> Self {
        let mut lines = Vec::new();
        let mut asides = asides.iter().copied().peekable();
        for row in rows {
            while let Some(aside) = asides.next_if(|aside| aside.after < row.head().event) {
                lines.push(Line::Aside(aside));
            }
            lines.push(Line::Row(row));
        }
        lines.extend(asides.map(Line::Aside));
        let mut at = BTreeMap::new();
        for (number, line) in lines.iter().enumerate() {
            if let Line::Row(row) = line {
                at.extend(row.parts.iter().map(|step| (step.event, number)));
            }
        }
        Self { lines, places: places(rows), at, evidence, name }
    }

    fn x(&self, place: Place) -> Option<usize> {
        self.places.iter().position(|other| *other == place).map(|lane| LEFT + lane * LANE + LANE / 2)
    }

    const fn y(line: usize) -> usize {
        TOP + line * HIGH + HIGH / 2
    }

    fn bottom(&self) -> usize {
        TOP + self.lines.len() * HIGH
    }

    fn row(&self, line: usize) -> Option<&'a Row<'a>> {
        match self.lines.get(line) {
            Some(Line::Row(row)) => Some(row),
            _ => None,
        }
    }

    fn is_marked(&self, row: &Row<'_>) -> bool {
        self.evidence.iter().any(|event| row.holds(*event))
    }

    /// Heads and lines of the lanes; the time a node is down is left white.
    fn lanes(&self, out: &mut String) {
        for place in &self.places {
            let Some(x) = self.x(*place) else { continue };
            let steps = self.lines.iter().filter_map(|line| match line {
                Line::Row(row) => Some(*row),
                Line::Aside(_) => None,
            });
            let lies = steps.filter(|row| row.head().place() == *place).any(|row| !row.head().honest);
            let class = if lies { "lane liar" } else { "lane" };
            let who = html(&called(*place, self.name));
            let note = if lies { " (faulty)" } else { "" };
            let _ = write!(out, r#"<text class="{class}" x="{x}" y="20">{who}{note}</text>"#);
            let mut from = TOP - 12;
            for (number, line) in self.lines.iter().enumerate() {
                let y = Self::y(number);
                let falls = match line {
                    Line::Aside(aside) => {
                        matches!(aside.kind, AsideKind::Crash | AsideKind::Halt)
                            && aside.nodes.contains(place)
                    }
                    Line::Row(row) => {
                        row.head().place() == *place && row.parts.iter().any(|step| step.crashed)
                    }
                };
                let rises = matches!(line, Line::Row(row) if row.head().kind == StepKind::Opened && row.head().place() == *place);
                if falls {
                    let _ = write!(
                        out,
                        r#"<line class="{class}" x1="{x}" y1="{from}" x2="{x}" y2="{y}"/><text class="cross" x="{x}" y="{}">&#10005;</text>"#,
                        y + 5
                    );
                    from = self.bottom();
                } else if rises {
                    from = y;
                }
            }
            if from < self.bottom() {
                let _ = write!(
                    out,
                    r#"<line class="{class}" x1="{x}" y1="{from}" x2="{x}" y2="{}"/>"#,
                    self.bottom()
                );
            }
        }
    }

    /// The arrow of every frame that was heard.
    fn arrows(&self, out: &mut String) {
        for (number, line) in self.lines.iter().enumerate() {
            let Line::Row(row) = line else { continue };
            for step in row.parts.iter().filter(|step| step.kind == StepKind::Frame) {
                let Some(from) = self.at.get(&step.cause).copied() else { continue };
                let sender = self.row(from).map(|row| row.head().place());
                let (Some(a), Some(b)) = (sender.and_then(|place| self.x(place)), self.x(step.place()))
                else {
                    continue;
                };
                let class = if step.lie.is_some() { "msg lie" } else { step.what.mark.name() };
                let near = if a < b { b - 8 } else { b + 8 };
                let _ = write!(
                    out,
                    r#"<line class="msg {class}" x1="{a}" y1="{}" x2="{near}" y2="{}" marker-end="url(#head)"/>"#,
                    Self::y(from),
                    Self::y(number)
                );
            }
        }
    }

    /// The symbol of a row.
    fn dot(&self, row: &Row<'_>, (x, y): (usize, usize), out: &mut String) {
        if self.is_marked(row) {
            let _ = write!(out, r#"<circle class="ring" cx="{x}" cy="{y}" r="12"/>"#);
        }
        let marks = row.parts.iter().flat_map(|step| step.effects.iter().map(|effect| effect.said.mark));
        let _ = match marks.max().unwrap_or_default() {
            Mark::Commit => write!(out, r#"<circle class="commit" cx="{x}" cy="{y}" r="7"/>"#),
            Mark::Certificate => write!(
                out,
                r#"<polygon class="certificate" points="{x},{} {},{y} {x},{} {},{y}"/>"#,
                y - 8,
                x + 8,
                y + 8,
                x - 8
            ),
            Mark::Promise => {
                write!(out, r#"<rect class="promise" x="{}" y="{}" width="11" height="11"/>"#, x - 5, y - 5)
            }
            Mark::Plain => write!(out, r#"<circle class="plain" cx="{x}" cy="{y}" r="4"/>"#),
        };
        let writes =
            row.parts.iter().any(|step| step.effects.iter().any(|effect| effect.kind == EffectKind::Persist));
        if writes {
            let durable = row.parts.iter().any(|step| step.kind == StepKind::Durable);
            let class = if durable { "disk" } else { "disk open" };
            let _ =
                write!(out, r#"<rect class="{class}" x="{}" y="{}" width="16" height="3"/>"#, x - 8, y + 9);
        }
    }

    /// Every line with its time, its symbol and its words.
    fn rows(&self, out: &mut String) {
        let beside = LEFT + self.places.len() * LANE + 12;
        for (number, line) in self.lines.iter().enumerate() {
            let y = Self::y(number);
            match line {
                Line::Aside(aside) => {
                    let who: Vec<String> =
                        aside.nodes.iter().map(|place| called(*place, self.name)).collect();
                    let text = format!("{} {}", aside.what, who.join(" "));
                    let (time, text) = (ms(aside.time), html(text.trim_end()));
                    let _ = write!(
                        out,
                        r#"<text class="time" x="{}" y="{}">{time}</text><text class="aside" x="{beside}" y="{}">{text}</text>"#,
                        LEFT - 14,
                        y + 4,
                        y + 4
                    );
                }
                Line::Row(row) => {
                    let head = row.head();
                    let Some(x) = self.x(head.place()) else { continue };
                    let full = sentence(row, self.name);
                    let short: String = full.chars().take(BESIDE).collect();
                    let more = if full.chars().count() > BESIDE { "\u{2026}" } else { "" };
                    let class = if self.is_marked(row) { "say marked" } else { "say" };
                    let _ =
                        write!(out, r##"<a class="row" href="#t{number}"><title>{}</title>"##, html(&full));
                    let _ = write!(
                        out,
                        r#"<text class="time" x="{}" y="{}">{}</text>"#,
                        LEFT - 14,
                        y + 4,
                        ms(head.time)
                    );
                    self.dot(row, (x, y), out);
                    let _ = write!(
                        out,
                        r#"<text class="{class}" x="{beside}" y="{}">{}{more}</text></a>"#,
                        y + 4,
                        html(&short)
                    );
                }
            }
        }
    }

    /// The verdict at the bottom, with lines from what it rests on.
    fn verdict(&self, verdict: &str, width: usize, out: &mut String) {
        if verdict.is_empty() {
            return;
        }
        let top = self.bottom() + 26;
        let mut marked: Vec<usize> =
            self.evidence.iter().filter_map(|event| self.at.get(event)).copied().collect();
        marked.dedup();
        for (number, line) in (1..).zip(marked) {
            let place = self.row(line).map(|row| row.head().place());
            let Some(x) = place.and_then(|place| self.x(place)) else { continue };
            let y = Self::y(line);
            let _ = write!(
                out,
                r#"<polyline class="lead" points="{},{y} {},{y} {},{top}"/><text class="number" x="{}" y="{}">{number}</text>"#,
                x + 12,
                x + 22,
                x + 22,
                x + 15,
                y - 6
            );
        }
        let _ = write!(
            out,
            r#"<rect class="verdict" x="8" y="{top}" width="{}" height="34"/><text class="verdict" x="20" y="{}">{}</text>"#,
            width - 16,
            top + 22,
            html(verdict)
        );
    }

    /// The full text of every event.
    fn list(&self, out: &mut String) {
        out.push_str("<h2>Every event</h2><ol>");
        for (number, line) in self.lines.iter().enumerate() {
            let Line::Row(row) = line else { continue };
            let head = row.head();
            let class = if self.is_marked(row) { r#" class="marked""# } else { "" };
            let who = html(&called(head.place(), self.name));
            let _ = write!(
                out,
                r#"<li id="t{number}"{class}><b>{} ms, {who}</b>: {}<ul>"#,
                ms(head.time),
                html(&about(row, self.name))
            );
            for step in &row.parts {
                let _ = write!(out, r#"<li id="e{}">{}</li>"#, step.event, html(&whole(step, self.name)));
            }
            out.push_str("</ul></li>");
        }
        out.push_str("</ol>");
    }
}

/// A row as one sentence.
fn sentence(row: &Row<'_>, name: &dyn Fn(NodeId) -> String) -> String {
    let deeds = said(row, name);
    let arrow = if deeds.is_empty() { "" } else { " \u{2192} " };
    format!("{} {}{arrow}{}", called(row.head().place(), name), about(row, name), deeds.join("; "))
}

/// Everything about an event.
fn whole(step: &Step, name: &dyn Fn(NodeId) -> String) -> String {
    let from = step.from.map_or_else(String::new, |from| format!(" from {}", name(from)));
    let mut out = format!(
        "event {}, caused by {}, {} ms, life {}, machine {}: {}{from}: {}",
        step.event,
        step.cause,
        ms(step.time),
        step.incarnation,
        step.machine,
        step.kind.name(),
        step.what.text
    );
    for effect in &step.effects {
        let to: Vec<String> = effect.to.iter().map(|id| name(*id)).collect();
        let to = if to.is_empty() { String::new() } else { format!(" to {}", to.join(" ")) };
        let lsn = effect.lsn.map_or_else(String::new, |lsn| format!(" #{lsn}"));
        let lie = effect.lie.map_or_else(String::new, |by| format!(" [{by}]"));
        let _ = write!(out, " | {}{lsn} {}{to}{lie}", effect.kind.name(), effect.said.text);
    }
    let _ = write!(out, " | durable to #{}{}", step.durable, if step.crashed { " | CRASH" } else { "" });
    out
}

const STYLE: &str = "body{font:14px/1.5 system-ui,sans-serif;margin:24px;color:#1b1f24;background:#fff}h1{font-size:20px}dt{font-weight:600}dd{margin:0 0 8px 0}svg{display:block;margin:16px 0}svg text{font:12px ui-monospace,monospace;fill:#1b1f24}text.lane{text-anchor:middle;font-weight:700}text.time{text-anchor:end;fill:#6b7280}text.aside{font-style:italic;fill:#92400e}text.cross{text-anchor:middle;fill:#b91c1c;font-size:18px}line.lane{stroke:#c4c9d1;stroke-width:2}line.liar{stroke:#f59e0b}text.liar{fill:#b45309}.msg{stroke:#8b95a5;stroke-width:1.3}.msg.promise{stroke:#2563eb}.msg.certificate{stroke:#059669}.msg.commit{stroke:#7c3aed}.msg.lie{stroke:#d97706;stroke-dasharray:5 3}circle.plain{fill:#6b7280}rect.promise{fill:#2563eb}polygon.certificate{fill:#059669}circle.commit{fill:#7c3aed}rect.disk{fill:#1b1f24}rect.disk.open{fill:#fff;stroke:#1b1f24}circle.ring{fill:none;stroke:#dc2626;stroke-width:3}.lead{fill:none;stroke:#dc2626;stroke-width:2;stroke-dasharray:3 3}svg text.number{fill:#dc2626;font-weight:700}svg text.marked{fill:#b91c1c;font-weight:700}rect.verdict{fill:#fef2f2;stroke:#dc2626;stroke-width:2}svg text.verdict{fill:#991b1b;font-weight:700}a.row{text-decoration:none}a.row:hover text.say{text-decoration:underline}ol{font:12px/1.5 ui-monospace,monospace}li.marked>b{color:#b91c1c}li:target{background:#fff7d6}#show{position:fixed;left:0;right:0;bottom:0;background:#1b1f24;color:#fff;padding:8px 24px;font:12px/1.5 ui-monospace,monospace;max-height:30vh;overflow:auto;display:none}";

const SCRIPT: &str = "const show=document.getElementById('show');for(const row of document.querySelectorAll('a.row'))row.addEventListener('click',event=>{event.preventDefault();const text=document.getElementById(row.getAttribute('href').slice(1));show.textContent=text?text.innerText:'';show.style.display='block'});show.addEventListener('click',()=>{show.style.display='none'});";

const KEY: &str = "<p>Time runs downwards; an arrow is a message, from its sending to its receipt. A square is a promise (a vote, a proposal, a complaint), a diamond a certificate, a purple disc a commit or what follows from one; a bar below a symbol is a record in the journal, filled once it is durable. Orange lanes belong to nodes that do not follow the protocol or whose disk was tampered with, dashed arrows are messages a strategy made up or changed. A cross is a crash. Rows that the verdict rests on have a red ring. A click on a row, or its link, shows everything the event did.</p>";

/// The page of rows with what happened beside them; rows that hold an event of `evidence` are ringed.
#[must_use]
pub fn page(
    story: &Story,
    rows: &[Row<'_>],
    asides: &[&Aside],
    evidence: &[u64],
    name: &dyn Fn(NodeId) -> String,
) -> String {
    let sheet = Sheet::new(rows, asides, evidence, name);
    let width = LEFT + sheet.places.len() * LANE + 12 + BESIDE * 8;
    let height = sheet.bottom() + 80;
    let title = html(&story.title);
    let mut out = format!(
        r#"<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style></head><body><h1>{title}</h1><dl>"#
    );
    for (heading, text) in &story.facts {
        let _ = write!(out, "<dt>{}</dt><dd>{}</dd>", html(heading), html(text));
    }
    let _ = write!(
        out,
        r#"</dl>{KEY}<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img"><defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="context-stroke"/></marker></defs>"#
    );
    sheet.lanes(&mut out);
    sheet.arrows(&mut out);
    sheet.rows(&mut out);
    sheet.verdict(&story.verdict, width, &mut out);
    out.push_str("</svg>");
    sheet.list(&mut out);
    let _ = write!(out, r#"<div id="show"></div><script>{SCRIPT}</script></body></html>"#);
    out.push('\n');
    out
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
