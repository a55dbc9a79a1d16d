//! Every machine state and frame that was ever reached, and what became of each state at each event.
//!
//! A machine is deterministic, so a state of the whole cluster is five numbers and the frames in flight, and a step that
//! any run took before is looked up. Two states of one seat are the same entry exactly if their digests are equal.
//!
//! Bounds: [`MACHINES_MAX`] machine states of about 30 KB; an exploration that reaches more is cut off there.

use std::collections::{BTreeMap, HashMap};

use synod_crypto::{Hash, Scope};
use synod_hotstuff::{Header, Message, Proof, Statement};
use synod_machine::To;
use synod_quorum::{Epoch, NodeId};

use super::instance::{Cast, Instance, MEMBERS, SEATS, SECOND};
use super::judge::{self, Judge};
use super::member::{Member, Told};
use crate::oracle::{Blocks, Breach, Seen, Sighting};
use crate::strategy::sealed;

/// Most machine states of one exploration.
const MACHINES_MAX: usize = 100_000;

/// A machine state, by its place in the table.
pub(super) type Local = u32;
/// A frame, by its place in the table.
pub(super) type Frame = u32;

/// What happens to a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stimulus {
    /// A frame arrives.
    Frame(Frame),
    /// Its view timer fires.
    Expire,
}

/// What a machine became, and what it said: seats as a bit set, and the frame.
#[derive(Clone)]
pub(super) struct Outcome {
    pub(super) next: Local,
    pub(super) said: Vec<(u8, Frame)>,
    /// The number of a breach, from 1; 0 for none.
    pub(super) breach: u32,
    /// Whether it committed or delivered.
    pub(super) moved: bool,
}

pub(super) struct Table {
    instance: Instance,
    cast: Cast,
    members: Vec<Member>,
    locals: HashMap<Hash, Local>,
    frames: Vec<(NodeId, Message)>,
    names: HashMap<Hash, Frame>,
    outcomes: HashMap<(Local, Stimulus), Outcome>,
    verdicts: HashMap<[Local; SEATS], u32>,
    breaches: Vec<Breach>,
    /// Headers by digest, for a proposer that builds on an older one.
    headers: BTreeMap<Hash, Header>,
    sighted: Vec<Sighting>,
    blocks: Blocks,
    text: String,
}

impl Table {
    /// An empty table, and the cluster's first state with what its machines said.
    pub(super) fn begin(instance: Instance) -> (Self, [Outcome; SEATS]) {
        let mut table = Self {
            instance,
            cast: Cast::new(),
            members: Vec::new(),
            locals: HashMap::new(),
            frames: Vec::new(),
            names: HashMap::new(),
            outcomes: HashMap::new(),
            verdicts: HashMap::new(),
            breaches: Vec::new(),
            headers: BTreeMap::new(),
            sighted: Vec::new(),
            blocks: judge::headers(),
            text: String::new(),
        };
        let first = [0, 1, 2, 3, SECOND].map(|seat| {
            let mut member = Member::new(&instance, &table.cast, seat);
            let told = member.begin(&instance, &table.cast, &mut table.blocks);
            table.settle(seat, member, told)
        });
        (table, first)
    }

    /// What becomes of the machine of `seat` in state `local`.
    pub(super) fn step(&mut self, seat: u8, local: Local, stimulus: Stimulus) -> Outcome {
        if let Some(known) = self.outcomes.get(&(local, stimulus)) {
            return known.clone();
        }
        let mut member = self.member(local).clone();
        let (instance, cast) = (self.instance, &self.cast);
        let told = match stimulus {
            Stimulus::Frame(frame) => {
                let (from, message) = self.frame(frame).clone();
                member.hear((&instance, cast), &mut self.blocks, from, message)
            }
            Stimulus::Expire => member.expire(&instance, cast, &mut self.blocks),
        };
        let outcome = self.settle(seat, member, told);
        self.outcomes.insert((local, stimulus), outcome.clone());
        outcome
    }

    /// Whether a view timer of the instance is armed and has not fired for its view.
    pub(super) fn may_expire(&self, local: Local) -> bool {
        self.member(local).expirable(self.instance.views).is_some()
    }

    /// What the oracles that compare machines say of these states: the number of a breach, or 0.
    pub(super) fn compared(&mut self, seats: [Local; SEATS]) -> u32 {
        if let Some(known) = self.verdicts.get(&seats) {
            return *known;
        }
        let judges: Vec<&Judge> =
            seats.iter().filter_map(|local| self.member(*local).judge.as_ref()).collect();
        let verdict = match judge::together(&self.instance, &judges, &self.sighted) {
            Ok(()) => 0,
            Err(breach) => self.note(breach),
        };
        self.verdicts.insert(seats, verdict);
        verdict
    }

    /// Whether an honest machine delivered the command.
    pub(super) fn delivers(&self, seats: [Local; SEATS]) -> bool {
        let judges = seats.iter().filter_map(|local| self.member(*local).judge.as_ref());
        judges.into_iter().any(Judge::has_delivered)
    }

    /// The breach of this number.
    pub(super) fn breach(&self, number: u32) -> Option<&Breach> {
        self.breaches.get(usize::try_from(number).ok()?.checked_sub(1)?)
    }

    /// Whether it has no place for further machine states.
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

    fn frame(&self, frame: Frame) -> &(NodeId, Message) {
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

    fn settle(&mut self, seat: u8, member: Member, told: Told) -> Outcome {
        let digest = member.digest(&mut self.text);
        let next = match self.locals.get(&digest) {
            Some(known) => *known,
            None => {
                let fresh = number(self.members.len());
                self.members.push(member);
                self.locals.insert(digest, fresh);
                fresh
            }
        };
        let breach = told.breach.map_or(0, |breach| self.note(breach));
        let said = told.said.into_iter().filter_map(|(to, message)| self.sent(seat, to, message)).collect();
        Outcome { next, said, breach, moved: told.moved }
    }

    /// The frame of a message and the seats it is for; none if the instance has no place for it.
    fn sent(&mut self, seat: u8, to: To, message: Message) -> Option<(u8, Frame)> {
        if !self.travels(&message) {
            return None;
        }
        let own = self.instance.member(seat);
        let mut seats = 0;
        for member in (0..MEMBERS).filter(|member| *member != own) {
            let id = Cast::id(member);
            let meant = match to {
                To::Node(node) => node == id,
                To::Set(set) => set.contains(id),
            };
            seats |= if meant { self.instance.seats(member) } else { 0 };
        }
        let message = if seat == SECOND && self.instance.stale { self.older(message) } else { message };
        (seats != 0).then(|| (seats, self.name(own, message)))
    }

    /// Views beyond the instance do not happen; what only helps a member along is lost, as any network may lose it.
    fn travels(&self, message: &Message) -> bool {
        let last = self.instance.views;
        match message {
            Message::Propose { header, .. } => header.view.0 <= last,
            Message::Body { view, .. }
            | Message::Vote { view, .. }
            | Message::Order { view, .. }
            | Message::NewView { view, .. }
            | Message::Complain { view, .. } => view.0 <= last,
            Message::Phase(qc) | Message::Advance(Proof::Qc(qc)) => qc.view.0 <= last,
            Message::Advance(Proof::Tc(tc)) => tc.view.0 < last,
            Message::Advance(Proof::Commit(_)) | Message::Fetch(_) | Message::Blocks(_) => true,
            Message::Forward(_) | Message::Status(_) | Message::Attest { .. } => false,
        }
    }

    /// A proposal that stands on a timeout certificate, moved to the certificate below the one it stands on.
    fn older(&self, message: Message) -> Message {
        let Message::Propose { header, .. } = &message else { return message };
        let parent = header.tc.as_ref().and_then(|_| self.headers.get(&header.parent));
        let Some(parent) = parent else { return message };
        let header = Header {
            justify: parent.justify.clone(),
            parent: parent.parent,
            height: parent.height,
            ..header.clone()
        };
        let scope = Scope { cluster: self.cast.cluster, epoch: Epoch(0) };
        let statement = Statement::Proposal { view: header.view, digest: header.digest() };
        let keys = self.cast.keyring.keys(u64::from(self.instance.twin));
        let signature = keys.sign(scope, Cast::id(self.instance.twin), statement).into_inner().signature;
        Message::Propose { header, signature }
    }

    fn name(&mut self, own: u8, message: Message) -> Frame {
        let body = sealed(&message);
        let mut named = synod_crypto::Hasher::new("synod model frame");
        named.add(&[own]).add(&body);
        let name = named.finish();
        if let Some(known) = self.names.get(&name) {
            return *known;
        }
        if let Message::Propose { header, .. } = &message {
            self.headers.insert(header.digest(), header.clone());
            for sighting in judge::headers_in(body) {
                self.learn(sighting);
            }
        }
        let frame = number(self.frames.len());
        self.frames.push((Cast::id(own), message));
        self.names.insert(name, frame);
        frame
    }

    fn learn(&mut self, sighting: Sighting) {
        let Seen::Header(header) = sighting.seen else { return };
        let short = header.own.digest.0.first_chunk::<4>();
        for other in &self.sighted {
            let Seen::Header(other) = other.seen else { continue };
            if other.own.digest == header.own.digest {
                return;
            }
            // The text of a machine shows this much of each digest.
            assert!(other.own.digest.0.first_chunk::<4>() != short, "blocks differ in what their text shows");
        }
        self.blocks.learn(&sighting);
        self.sighted.push(sighting);
    }
}

fn number(at: usize) -> u32 {
    match u32::try_from(at) {
        Ok(number) => number,
        Err(_) => unreachable!("memory ends long before 2^32 machines"),
    }
}
