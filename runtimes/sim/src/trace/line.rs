//! One call as the ring keeps it: as it happened, not yet in words.

use synod_machine::To;
use synod_machine::register::{Place, Said as Answer};
use synod_quorum::NodeId;

use super::step::{Effect, EffectKind, Step, StepKind};
use super::words::{Mark, Plain, Said, Words, timer};
use crate::deed::{Deed, Seen};

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
    /// Whether the node follows its protocol on an intact disk.
    pub honest: bool,
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
    /// What happened, in a few words of no system.
    #[must_use]
    pub fn what(&self) -> String {
        let what = what(&self.seen, self.machine, &Plain).text;
        match &self.seen {
            Seen::Frame(frame) => format!("from {} {what}", frame.from.0),
            Seen::Registered { from, .. } => format!("from {} {what}", from.0),
            _ => what,
        }
    }

    /// The event in words. `durable` is how far the machine's journal is durable behind it.
    #[must_use]
    pub fn step(&self, words: &dyn Words, durable: u64) -> Step {
        Step {
            event: self.event,
            cause: self.cause,
            time: self.time,
            node: self.node,
            twin: self.twin,
            incarnation: self.incarnation,
            honest: self.honest,
            machine: self.machine,
            kind: kind(&self.seen),
            from: match &self.seen {
                Seen::Frame(frame) => Some(frame.from),
                Seen::Registered { from, .. } => Some(*from),
                _ => None,
            },
            what: what(&self.seen, self.machine, words),
            lie: None,
            frame: None,
            effects: self.deeds.iter().map(|deed| effect(deed, self.machine, words)).collect(),
            durable,
            crashed: self.crashed,
        }
    }
}

const fn kind(seen: &Seen) -> StepKind {
    match seen {
        Seen::Opened { .. } => StepKind::Opened,
        Seen::Start => StepKind::Start,
        Seen::Input => StepKind::Input,
        Seen::Frame(_) | Seen::Registered { .. } => StepKind::Frame,
        Seen::Timers(_) => StepKind::Timer,
        Seen::Done => StepKind::Done,
        Seen::Loaded { .. } => StepKind::Loaded,
        Seen::Link { .. } => StepKind::Link,
        Seen::Durable(_) => StepKind::Durable,
        Seen::Strategy => StepKind::Strategy,
    }
}

fn what(seen: &Seen, machine: u8, words: &dyn Words) -> Said {
    Said::plain(match seen {
        Seen::Opened { condition, records } => {
            let found = match records.len() {
                0 => "an empty journal".to_owned(),
                1 => "one record".to_owned(),
                many => format!("{many} records"),
            };
            format!("opens {found}, {}", format!("{condition:?}").to_lowercase())
        }
        Seen::Start => "starts".to_owned(),
        Seen::Input => "is asked by its user".to_owned(),
        Seen::Frame(frame) => {
            let named = words.frame(machine, &frame.body);
            return named.unwrap_or_else(|| Said::plain(format!("q{} {}B", frame.queue.0, frame.body.len())));
        }
        Seen::Registered { reply, .. } => {
            let Place { region, index } = reply.place;
            format!("register {index} of {} in epoch {}: {}", region.owner, region.epoch.0, said(reply.said))
        }
        Seen::Timers(names) => {
            let names: Vec<String> = names.iter().map(|name| timer(name)).collect();
            format!("timer {}", names.join(", "))
        }
        Seen::Done => "job done".to_owned(),
        Seen::Loaded { name, found } => {
            format!("blob {name:?} {}", if *found { "is read" } else { "is missing or damaged" })
        }
        Seen::Link { peer, link } => {
            format!("link {} {}", words.node(*peer), format!("{link:?}").to_lowercase())
        }
        Seen::Durable(lsn) => format!("durable to #{lsn}"),
        Seen::Strategy => "the liar speaks".to_owned(),
    })
}

/// What a memory node says, without the bytes.
fn said(said: Answer) -> String {
    match said {
        Answer::Value(held) => {
            held.map_or_else(|| "nothing".to_owned(), |held| format!("stamp {}", held.stamp))
        }
        other => format!("{other:?}").to_lowercase(),
    }
}

fn effect(deed: &Deed, machine: u8, words: &dyn Words) -> Effect {
    let sized = |bytes: usize| Said::plain(format!("{bytes}B"));
    let (kind, said) = match deed {
        Deed::Send { body, .. } => {
            (EffectKind::Send, words.frame(machine, body).unwrap_or_else(|| sized(body.len())))
        }
        Deed::Register { to, .. } => {
            (EffectKind::Register, Said::plain(format!("register of {}", words.node(*to))))
        }
        Deed::Append { record, .. } => {
            (EffectKind::Persist, words.record(machine, record).unwrap_or_else(|| sized(record.len())))
        }
        Deed::Store { name, bytes, .. } => {
            (EffectKind::Store, Said::plain(format!("blob {name:?} {}B", bytes.len())))
        }
        Deed::Erase { name, .. } => (EffectKind::Erase, Said::plain(format!("blob {name:?}"))),
        Deed::Load(name) => (EffectKind::Load, Said::plain(format!("blob {name:?}"))),
        Deed::Compact => (EffectKind::Compact, Said::plain("journal")),
        Deed::Submit { peer, .. } => {
            let whose = peer.map_or_else(String::new, |peer| format!(" for {}", words.node(peer)));
            (EffectKind::Submit, Said::plain(format!("job{whose}")))
        }
        Deed::Output(output) => {
            (EffectKind::Output, words.output(machine, &**output).unwrap_or_else(|| Said::plain("output")))
        }
        Deed::Blame { peer, fault } => {
            let text = format!("{} {}", words.node(*peer), fault.name.replace('_', " "));
            (EffectKind::Blame, Said::marked(text, Mark::Promise))
        }
        Deed::Applied(rule) => (EffectKind::Rule, Said::plain(rule.name)),
        Deed::Note(note) => {
            let values: Vec<String> = note.values.iter().map(u64::to_string).collect();
            (
                EffectKind::Note,
                Said::plain(format!("{} {}", note.name, values.join(" ")).trim_end().to_owned()),
            )
        }
        Deed::Timer { name, at: Some(_) } => (EffectKind::Arm, Said::plain(timer(name))),
        Deed::Timer { name, at: None } => (EffectKind::Disarm, Said::plain(timer(name))),
    };
    let to = match deed {
        Deed::Send { to: To::Node(id), .. } => vec![*id],
        Deed::Send { to: To::Set(set), .. } => set.iter().collect(),
        _ => Vec::new(),
    };
    let lsn = match deed {
        Deed::Append { lsn, .. } | Deed::Store { lsn, .. } | Deed::Erase { lsn, .. } => Some(*lsn),
        _ => None,
    };
    Effect { kind, to, said, lie: None, lsn }
}
