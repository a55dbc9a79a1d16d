//! The text view: one line per row, one column per node, at most [`WIDTH`] characters.

use std::collections::BTreeSet;

use synod_quorum::NodeId;

use super::past::Row;
use super::step::{Aside, AsideKind, Effect, EffectKind, Step, StepKind};
use super::words::Mark;

/// The longest line; what does not fit ends with an ellipsis.
pub(super) const WIDTH: usize = 160;
/// The widest column of a node.
const LANE: usize = 5;

/// A node's instance.
pub(super) type Place = (NodeId, u8);

/// The name of a node's instance.
pub(super) fn called((node, twin): Place, name: &dyn Fn(NodeId) -> String) -> String {
    format!("{}{}", name(node), if twin > 0 { "'" } else { "" })
}

/// The instances that rows are about, in order.
pub(super) fn places(rows: &[Row<'_>]) -> Vec<Place> {
    rows.iter().map(|row| row.head().place()).collect::<BTreeSet<_>>().into_iter().collect()
}

/// What a row is about, without the name of its node.
pub(super) fn about(row: &Row<'_>, name: &dyn Fn(NodeId) -> String) -> String {
    let head = row.head();
    let lie = head.lie.map_or_else(String::new, |by| format!(" [{by}]"));
    match head.from {
        Some(from) => format!("hears {}: {}{lie}", name(from), head.what.text),
        None => format!("{}{lie}", head.what.text),
    }
}

/// What a row did, effect by effect, as far as others can see it.
pub(super) fn deeds(row: &Row<'_>, name: &dyn Fn(NodeId) -> String) -> Vec<(String, Mark)> {
    let mut out: Vec<(String, Mark)> = Vec::new();
    let mut sent: Option<(Vec<NodeId>, Effect)> = None;
    let flush = |sent: &mut Option<(Vec<NodeId>, Effect)>, out: &mut Vec<(String, Mark)>| {
        if let Some((to, effect)) = sent.take() {
            out.push((sending(&effect, &to, name), effect.said.mark));
        }
    };
    for step in &row.parts {
        if step.kind == StepKind::Durable && step.effects.iter().any(Effect::is_visible) {
            flush(&mut sent, &mut out);
            out.push((step.what.text.clone(), Mark::Plain));
        }
        for effect in step.effects.iter().filter(|effect| effect.is_visible()) {
            match &mut sent {
                Some((to, first))
                    if effect.kind == EffectKind::Send
                        && effect.said == first.said
                        && effect.lie == first.lie =>
                {
                    to.extend(&effect.to);
                    continue;
                }
                _ => flush(&mut sent, &mut out),
            }
            match effect.kind {
                EffectKind::Send => sent = Some((effect.to.clone(), effect.clone())),
                EffectKind::Output if effect.said.mark == Mark::Plain => {}
                EffectKind::Output => out.push((effect.said.text.clone(), effect.said.mark)),
                EffectKind::Persist => out.push((format!("writes {}", effect.said.text), effect.said.mark)),
                kind => out.push((format!("{} {}", verb(kind), effect.said.text), effect.said.mark)),
            }
        }
        if step.crashed {
            flush(&mut sent, &mut out);
            out.push(("CRASH".to_owned(), Mark::Plain));
        }
    }
    flush(&mut sent, &mut out);
    out
}

/// Everything that others can see of what a row did.
pub(super) fn said(row: &Row<'_>, name: &dyn Fn(NodeId) -> String) -> Vec<String> {
    deeds(row, name).into_iter().map(|(text, _)| text).collect()
}

/// The same for a line that must be short: records by their names, and only those that are promises, certificates or
/// commits.
fn brief(row: &Row<'_>, name: &dyn Fn(NodeId) -> String) -> Vec<String> {
    let shown = |(text, mark): (String, Mark)| {
        let written = text.starts_with("writes ") || text.starts_with("erases ");
        let short =
            if mark == Mark::Promise { text.split('(').next().unwrap_or(&text) } else { text.as_str() };
        match (written, mark) {
            (true, Mark::Plain) => None,
            (true, _) => Some(short.to_owned()),
            _ => Some(text),
        }
    };
    deeds(row, name).into_iter().filter_map(shown).collect()
}

/// What a row did, the observation first.
fn observed(row: &Row<'_>, evidence: &[u64], name: &dyn Fn(NodeId) -> String) -> Vec<String> {
    let parts: Vec<&Step> = row.parts.iter().copied().filter(|step| evidence.contains(&step.event)).collect();
    let seen = deeds(&Row { parts }, name).into_iter().filter(|(_, mark)| *mark > Mark::Plain);
    let mut out: Vec<String> = seen.map(|(text, _)| text).collect();
    out.reverse();
    let rest: Vec<String> = brief(row, name).into_iter().filter(|text| !out.contains(text)).collect();
    out.extend(rest);
    out
}

fn verb(kind: EffectKind) -> &'static str {
    match kind {
        EffectKind::Store => "writes",
        EffectKind::Erase => "erases",
        EffectKind::Blame => "blames",
        kind => kind.name(),
    }
}

fn sending(effect: &Effect, to: &[NodeId], name: &dyn Fn(NodeId) -> String) -> String {
    let to: Vec<String> = to.iter().map(|id| name(*id)).collect();
    let lie = effect.lie.map_or_else(String::new, |by| format!(" [{by}]"));
    format!("sends {} to {}{lie}", effect.said.text, to.join(" "))
}

/// Virtual nanoseconds as milliseconds with three places.
pub(super) fn ms(ns: u64) -> String {
    format!("{}.{:03}", ns / 1_000_000, ns / 1_000 % 1_000)
}

/// What is printed of rows: a header, one line per row, and lines for what happened beside them. Rows that hold an event
/// of `evidence` are marked.
#[must_use]
pub fn columns(
    rows: &[Row<'_>],
    asides: &[&Aside],
    evidence: &[u64],
    name: &dyn Fn(NodeId) -> String,
) -> String {
    let places = places(rows);
    let names: Vec<String> = places.iter().map(|place| called(*place, name)).collect();
    let lane = names.iter().map(|name| name.chars().count() + 2).max().unwrap_or(LANE).max(LANE);
    let mut out = line(&[
        format!("{:>11} {:>7} ", "ms", "event"),
        names.iter().map(|name| centred(name, lane)).collect(),
    ]);
    let mut asides = asides.iter().peekable();
    let mut down: BTreeSet<Place> = BTreeSet::new();
    for row in rows {
        let head = row.head();
        while let Some(aside) = asides.next_if(|aside| aside.after < head.event) {
            note(&mut down, aside);
            out.push_str(&beside(aside, (&places, &down, lane), name));
        }
        down.remove(&head.place());
        let marked = evidence.iter().any(|event| row.holds(*event));
        let deeds = if marked { observed(row, evidence, name) } else { brief(row, name) };
        let arrow = if deeds.is_empty() { "" } else { " -> " };
        let liar = if head.honest { "" } else { "LIAR " };
        let mark = if marked { "!! " } else { "" };
        let at = places.iter().position(|place| *place == head.place());
        let who = called(head.place(), name);
        let text = format!("{mark}{liar}{who} {}{arrow}{}", about(row, name), deeds.join("; "));
        let when = format!("{:>11} {:>7} ", ms(head.time), head.event);
        out.push_str(&line(&[when, lanes(&places, &down, lane, at), text]));
        if row.parts.iter().any(|step| step.crashed) {
            down.insert(head.place());
        }
    }
    for aside in asides {
        note(&mut down, aside);
        out.push_str(&beside(aside, (&places, &down, lane), name));
    }
    out
}

fn note(down: &mut BTreeSet<Place>, aside: &Aside) {
    if matches!(aside.kind, AsideKind::Crash | AsideKind::Halt) {
        down.extend(&aside.nodes);
    }
}

fn beside(
    aside: &Aside,
    (places, down, lane): (&[Place], &BTreeSet<Place>, usize),
    name: &dyn Fn(NodeId) -> String,
) -> String {
    let who: Vec<String> = aside.nodes.iter().map(|place| called(*place, name)).collect();
    let when = format!("{:>11} {:>7} ", ms(aside.time), "");
    let text = format!("-- {} {}", aside.what, who.join(" "));
    line(&[when, lanes(places, down, lane, None), text.trim_end().to_owned()])
}

fn lanes(places: &[Place], down: &BTreeSet<Place>, lane: usize, at: Option<usize>) -> String {
    let symbol = |(number, place): (usize, &Place)| {
        let symbol = if Some(number) == at {
            "*"
        } else if down.contains(place) {
            " "
        } else {
            "|"
        };
        centred(symbol, lane)
    };
    places.iter().enumerate().map(symbol).collect()
}

fn centred(text: &str, width: usize) -> String {
    format!("{text:^width$}")
}

/// One line of at most [`WIDTH`] characters; what is not printable becomes a question mark.
fn line(parts: &[String]) -> String {
    let text: String = parts.concat().chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    let text = text.trim_end();
    if text.chars().count() <= WIDTH {
        return format!("{text}\n");
    }
    let cut: String = text.chars().take(WIDTH - 1).collect();
    format!("{cut}\u{2026}\n")
}

#[cfg(test)]
#[path = "columns_tests.rs"]
mod tests;
