//! Every machine state and message that was ever reached, and what became of each state at each event.
//!
//! Bounds: [`MACHINES_MAX`] machine states of some 20 KB; an exploration that reaches more is cut off there.

use std::collections::HashMap;

use synod_astro::views::{Message, View};
use synod_crypto::{Hash, Hasher};
use synod_machine::To;
use synod_quorum::NodeId;
use synod_wire::Wire as _;

use super::cast::{Cast, FOUNDERS, LIAR, Lie, NODES};
use super::member::Member;
use crate::oracle::astro::quorum;
use crate::oracle::{Breach, Verdict, breach};

/// Most machine states of one exploration.
const MACHINES_MAX: usize = 50_000;

/// A machine state, by its place in the table.
pub(super) type Local = u32;
/// A message and who says it, by its place in the table.
pub(super) type Frame = u32;

/// What happens to a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stimulus {
    Frame(Frame),
    Expire,
}

/// What a machine became, and what it said to whom.
#[derive(Clone)]
pub(super) struct Outcome {
    pub(super) next: Local,
    pub(super) said: Vec<(u8, Frame)>,
}

pub(super) struct Table {
    cast: Cast,
    lies: bool,
    members: Vec<Member>,
    locals: HashMap<Hash, Local>,
    frames: Vec<(u8, Message)>,
    names: HashMap<Hash, Frame>,
    outcomes: HashMap<(Local, Stimulus), Outcome>,
    breaches: Vec<Breach>,
}

impl Table {
    /// An empty table, and the first state of all nodes with what they said.
    pub(super) fn begin(lies: bool) -> (Self, Vec<Outcome>) {
        let mut table = Self {
            cast: Cast::new(),
            lies,
            members: Vec::new(),
            locals: HashMap::new(),
            frames: Vec::new(),
            names: HashMap::new(),
            outcomes: HashMap::new(),
            breaches: Vec::new(),
        };
        let begin = |node| {
            let mut member = Member::new(&table.cast, node);
            let said = member.begin(&table.cast, node >= FOUNDERS);
            (node, member, if table.is_honest(node) { said } else { Vec::new() })
        };
        let begun: Vec<_> = (0..NODES).map(begin).collect();
        let first = begun.into_iter().map(|(node, member, said)| table.settle(node, member, said)).collect();
        (table, first)
    }

    pub(super) const fn is_honest(&self, node: u8) -> bool {
        !self.lies || node != LIAR
    }

    pub(super) fn lies(&self) -> impl Iterator<Item = Lie> + use<> {
        self.cast.lies()
    }

    /// The frame of a lie.
    pub(super) fn lie(&mut self, lie: Lie, number: u64) -> Frame {
        let message = self.cast.say(lie, number);
        self.name(LIAR, message)
    }

    /// What becomes of a node in a state.
    pub(super) fn step(&mut self, node: u8, local: Local, stimulus: Stimulus) -> Outcome {
        if !self.is_honest(node) {
            return Outcome { next: local, said: Vec::new() };
        }
        if let Some(known) = self.outcomes.get(&(local, stimulus)) {
            return known.clone();
        }
        let mut member = self.member(local).clone();
        let said = match stimulus {
            Stimulus::Frame(frame) => {
                let (from, message) = self.frame(frame).clone();
                member.hear(&self.cast, from, message)
            }
            Stimulus::Expire => member.expire(&self.cast),
        };
        let outcome = self.settle(node, member, said);
        self.outcomes.insert((local, stimulus), outcome.clone());
        outcome
    }

    pub(super) fn may_expire(&self, node: u8, local: Local) -> bool {
        self.is_honest(node) && self.member(local).may_expire()
    }

    /// Whether all who do not lie run in the view with both.
    pub(super) fn is_complete(&self, seats: &[Local]) -> bool {
        let last = self.cast.last();
        self.honest(seats).all(|(_, member)| member.running.as_ref() == Some(&last))
    }

    fn honest<'a>(&'a self, seats: &'a [Local]) -> impl Iterator<Item = (u8, &'a Member)> {
        let all = (0..NODES).zip(seats).filter(|(node, _)| self.is_honest(*node));
        all.map(|(node, local)| (node, self.member(*local)))
    }

    /// A-S9 of these states: the number of a breach, or 0.
    pub(super) fn judge(&mut self, seats: &[Local]) -> u32 {
        match self.chained(seats) {
            Ok(()) => 0,
            Err(breach) => self.note(breach),
        }
    }

    fn chained(&self, seats: &[Local]) -> Verdict {
        let resumed: Vec<&View> = self.honest(seats).flat_map(|(_, member)| &member.resumed).collect();
        for one in &resumed {
            if let Some(other) = resumed.iter().find(|other| !one.within(other) && !other.within(one)) {
                let (one, other) = (one.id().digest, other.id().digest);
                return breach("A-S9", format!("views {one} and {other} resumed and are no chain"));
            }
            let runs = self.honest(seats).filter(|(_, member)| member.running.as_ref() == Some(*one));
            let running = u32::try_from(runs.count()).unwrap_or(0) + u32::from(self.lies);
            let is_other = |other: &&&View| {
                let runs = self.honest(seats).filter(|(_, member)| member.running.as_ref() == Some(**other));
                let of = u32::try_from(runs.count()).unwrap_or(0) + u32::from(self.lies);
                **other != *one && of >= quorum(u32::from(FOUNDERS) + other.number())
            };
            if running >= quorum(u32::from(FOUNDERS) + one.number())
                && resumed.iter().any(|view| is_other(&view))
            {
                return breach("A-S9", "quorums run in two views".to_owned());
            }
        }
        let passed =
            self.honest(seats).flat_map(|(node, member)| member.merged.iter().map(move |of| (node, of)));
        for (node, (from, to)) in passed {
            if resumed.iter().any(|view| view.is_above(from) && to.is_above(view)) {
                return breach("A-S9", format!("member {node} passed over a view in which somebody resumed"));
            }
        }
        Ok(())
    }

    /// T54: nothing more will happen, and not all have joined.
    pub(super) fn stuck(&mut self, seats: &[Local]) -> u32 {
        let last = self.cast.last();
        let late = self.honest(seats).filter(|(_, member)| member.running.as_ref() != Some(&last));
        let late: Vec<u8> = late.map(|(node, _)| node).collect();
        let note = breach("T54", format!("nodes {late:?} do not run in the view with both"));
        note.err().map_or(0, |breach| self.note(breach))
    }

    pub(super) fn breach(&self, number: u32) -> Option<&Breach> {
        self.breaches.get(usize::try_from(number).ok()?.checked_sub(1)?)
    }

    pub(super) fn is_full(&self) -> bool {
        self.members.len() >= MACHINES_MAX
    }

    /// Different machine states, and steps that were really taken.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.members.len(), self.outcomes.len())
    }

    fn member(&self, local: Local) -> &Member {
        match usize::try_from(local).ok().and_then(|at| self.members.get(at)) {
            Some(member) => member,
            None => unreachable!("machine states are named by the table"),
        }
    }

    fn frame(&self, frame: Frame) -> &(u8, Message) {
        match usize::try_from(frame).ok().and_then(|at| self.frames.get(at)) {
            Some(frame) => frame,
            None => unreachable!("frames are named by the table"),
        }
    }

    fn note(&mut self, breach: Breach) -> u32 {
        let known = self.breaches.iter().position(|known| *known == breach);
        let at = known.unwrap_or_else(|| {
            self.breaches.push(breach);
            self.breaches.len() - 1
        });
        number(at) + 1
    }

    fn settle(&mut self, node: u8, member: Member, said: Vec<(To, Message)>) -> Outcome {
        let digest = member.digest();
        let next = match self.locals.get(&digest) {
            Some(known) => *known,
            None => {
                let fresh = number(self.members.len());
                self.members.push(member);
                self.locals.insert(digest, fresh);
                fresh
            }
        };
        let all = |to: To| {
            let meant = |other: &u8| match to {
                To::Node(node) => node == NodeId(u32::from(*other)),
                To::Set(set) => set.contains(NodeId(u32::from(*other))),
            };
            (0..NODES)
                .filter(|other| *other != node && meant(other))
                .fold(0_u8, |all, other| all | 1 << other)
        };
        let said = said.into_iter().map(|(to, message)| (all(to), self.name(node, message))).collect();
        Outcome { next, said }
    }

    fn name(&mut self, from: u8, message: Message) -> Frame {
        let mut hasher = Hasher::new("synod model frame");
        hasher.add(&[from]).add(&message.encode());
        let name = hasher.finish();
        if let Some(known) = self.names.get(&name) {
            return *known;
        }
        let frame = number(self.frames.len());
        self.frames.push((from, message));
        self.names.insert(name, frame);
        frame
    }
}

fn number(at: usize) -> u32 {
    match u32::try_from(at) {
        Ok(number) => number,
        Err(_) => unreachable!("memory ends long before 2^32 machines"),
    }
}
