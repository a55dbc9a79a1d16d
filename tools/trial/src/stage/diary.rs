//! What members did, event by event.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use synod_hotstuff::{Message, Record};
use synod_machine::broadcast::Delivered;
use synod_machine::{Note, Span, Time, To};
use synod_quorum::{NodeId, NodeSet};
use synod_service::{ClientOutput, Outcome};
use synod_sim::{Checker, Deed, Moment, Seen, Violation};
use synod_wire::Bytes;

use crate::sight::{REPLICA, opened, recalled, view_of};

/// How often replicas arm their status timer again.
const STATUS_EVERY: Span = Span::secs(1);

/// Something a replica did.
#[derive(Clone, Debug)]
pub struct Event {
    /// When.
    pub at: Time,
    /// Who.
    pub node: NodeId,
    /// In which life, from 1.
    pub life: u32,
    /// What.
    pub what: What,
}

impl Event {
    /// Whether it is this rule's application.
    #[must_use]
    pub fn what_is(&self, rule: &str) -> bool {
        matches!(self.what, What::Rule(name) if name == rule)
    }
}

/// Why a view was entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The replica started in it.
    Start,
    /// The view before was certified.
    Qc,
    /// The term before was given up.
    Tc,
}

/// A view as one replica entered it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The view.
    pub view: u64,
    /// Why.
    pub why: Why,
    /// Its leader, if the replica knew.
    pub leader: Option<NodeId>,
}

/// What a replica can do that tests ask about.
#[derive(Clone, Debug)]
pub enum What {
    /// It started.
    Started,
    /// A message left.
    Sent(NodeSet, Message),
    /// A message arrived.
    Heard(NodeId, Message),
    /// A record was appended.
    Kept(Record),
    /// The timer of a view was armed, to run so long.
    Armed(u64, Span),
    /// A view was entered.
    Entered(Entry),
    /// A rule was applied.
    Rule(&'static str),
    /// An operator was told something.
    Noted(&'static str, [u64; 4]),
    /// An entry was delivered at this position.
    Delivered(u64),
    /// A checkpoint of others was jumped to.
    Jumped(u64),
    /// A peer was blamed.
    Blamed(NodeId, &'static str),
}

/// Everything that happened, oldest first.
#[derive(Debug, Default)]
pub struct Diary {
    events: Vec<Event>,
    /// Per node, its own clock minus virtual time, as its status timer shows.
    clocks: BTreeMap<NodeId, u64>,
    /// What clients accepted, by tag.
    accepted: BTreeMap<u64, Bytes>,
}

impl Diary {
    /// All events.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// What a client accepted as the answer to what it asked under this tag.
    #[must_use]
    pub fn accepted(&self, tag: u64) -> Option<&Bytes> {
        self.accepted.get(&tag)
    }

    fn client(&mut self, moment: &Moment<'_>) {
        for deed in moment.deeds {
            let Deed::Output(output) = deed else { continue };
            if let Some(ClientOutput::Outcome { tag, outcome, .. }) = output.downcast_ref()
                && let Outcome::Accepted { value, .. } = outcome
            {
                self.accepted.insert(*tag, value.clone());
            }
        }
    }

    /// The events of one member.
    pub fn of(&self, node: NodeId) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(move |event| event.node == node)
    }

    /// When this member first applied this rule at or after `from`.
    #[must_use]
    pub fn rule_at(&self, node: NodeId, rule: &str, from: Time) -> Option<Time> {
        let found =
            |event: &&Event| event.at >= from && matches!(event.what, What::Rule(name) if name == rule);
        self.of(node).find(found).map(|event| event.at)
    }

    /// How often this rule was applied by anybody.
    #[must_use]
    pub fn rules(&self, rule: &str) -> usize {
        self.events.iter().filter(|event| matches!(event.what, What::Rule(name) if name == rule)).count()
    }

    /// The views a member entered, oldest first, and when.
    pub fn entries(&self, node: NodeId) -> impl Iterator<Item = (Time, Entry)> {
        self.of(node).filter_map(|event| match event.what {
            What::Entered(entry) => Some((event.at, entry)),
            _ => None,
        })
    }

    /// The view a member is in.
    #[must_use]
    pub fn entry(&self, node: NodeId) -> Option<Entry> {
        self.entries(node).last().map(|(_, entry)| entry)
    }

    /// Timers of views that a member armed: when, which view, and how long they run.
    #[must_use]
    pub fn timers(&self, node: NodeId) -> Vec<(Time, u64, Span)> {
        let armed = |event: &Event| match event.what {
            What::Armed(view, lasts) => Some((event.at, view, lasts)),
            _ => None,
        };
        self.of(node).filter_map(armed).collect()
    }

    /// The highest position a member delivered or jumped to.
    #[must_use]
    pub fn delivered(&self, node: NodeId) -> u64 {
        let position = |event: &Event| match event.what {
            What::Delivered(position) | What::Jumped(position) => Some(position),
            _ => None,
        };
        self.of(node).filter_map(position).max().unwrap_or(0)
    }

    /// When somebody first delivered beyond this position.
    #[must_use]
    pub fn beyond(&self, position: u64) -> Option<Time> {
        let found = |event: &&Event| matches!(event.what, What::Delivered(at) if at > position);
        self.events.iter().find(found).map(|event| event.at)
    }

    fn add(&mut self, moment: &Moment<'_>, what: What) {
        let Moment { time, node, incarnation, .. } = *moment;
        self.events.push(Event { at: time, node, life: incarnation, what });
    }

    fn see(&mut self, moment: &Moment<'_>) {
        match moment.seen {
            Seen::Start => self.add(moment, What::Started),
            Seen::Frame(frame) => {
                if let Some(message) = opened(&frame.body) {
                    self.add(moment, What::Heard(frame.from, message));
                }
            }
            _ => {}
        }
        for deed in moment.deeds {
            self.deed(moment, deed);
        }
    }

    fn deed(&mut self, moment: &Moment<'_>, deed: &Deed) {
        match deed {
            Deed::Send { to, body, .. } => {
                if let Some(message) = opened(body) {
                    self.add(moment, What::Sent(set(*to), message));
                }
            }
            Deed::Append { record, .. } => {
                if let Some(record) = recalled(record) {
                    self.add(moment, What::Kept(record));
                }
            }
            Deed::Timer { name, at: Some(at) } => self.timer(moment, name, *at),
            Deed::Applied(rule) => self.add(moment, What::Rule(rule.name)),
            Deed::Note(note) => self.note(moment, note),
            Deed::Blame { peer, fault } => self.add(moment, What::Blamed(*peer, fault.name)),
            Deed::Output(output) => match output.downcast_ref::<Delivered>() {
                Some(Delivered::Entry(entry)) => self.add(moment, What::Delivered(entry.position.0)),
                Some(Delivered::Jump(checkpoint)) => self.add(moment, What::Jumped(checkpoint.position.0)),
                _ => {}
            },
            _ => {}
        }
    }

    fn note(&mut self, moment: &Moment<'_>, note: &Note) {
        let [view, why, leader, _] = note.values;
        let why = match (note.name, why) {
            ("view_entered", 0) => Why::Start,
            ("view_entered", 1) => Why::Qc,
            ("view_entered", _) => Why::Tc,
            _ => return self.add(moment, What::Noted(note.name, note.values)),
        };
        let leader = u32::try_from(leader).ok().map(NodeId);
        self.add(moment, What::Entered(Entry { view, why, leader }));
    }

    /// Timers are due on the node's own clock, which differs from virtual time by a constant of its life.
    fn timer(&mut self, moment: &Moment<'_>, name: &str, at: Time) {
        if name == "Status" {
            let ahead = at.0.saturating_sub(STATUS_EVERY.0).saturating_sub(moment.time.0);
            self.clocks.insert(moment.node, ahead);
        } else if let Some(view) = view_of(name) {
            let now = moment.time.0 + self.clocks.get(&moment.node).copied().unwrap_or(0);
            self.add(moment, What::Armed(view, Span(at.0.saturating_sub(now))));
        }
    }
}

fn set(to: To) -> NodeSet {
    match to {
        To::Node(id) if id.is_member() => NodeSet::only(id),
        To::Node(_) => NodeSet::EMPTY,
        To::Set(set) => set,
    }
}

/// Writes the diary.
pub(super) struct Writer(pub(super) Rc<RefCell<Diary>>);

impl Checker for Writer {
    fn see(&mut self, moment: &Moment<'_>) -> Result<(), Violation> {
        let mut diary = self.0.borrow_mut();
        match (moment.node.is_member(), moment.machine) {
            (true, REPLICA) => diary.see(moment),
            (true, _) => {}
            (false, _) => diary.client(moment),
        }
        Ok(())
    }
}
