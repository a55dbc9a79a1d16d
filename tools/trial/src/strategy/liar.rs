//! A liar: an honest machine inside, and moves that edit what it says.

use std::collections::VecDeque;

use synod_crypto::{Hash, Scope, Signature};
use synod_hotstuff::{Header, Kind, Message, Pack, Proof, Qc, Statement, Tc, View};
use synod_machine::{Message as _, Queue, To};
use synod_quorum::{Epoch, NodeId};
use synod_sim::{Act, Deed, Family, Incident, Mutate, PPM, Seen, Strategy, generic};
use synod_wire::{Bytes, Wire, Writer};

use super::ballots::Ballots;
use super::undercutting::{Turns, Undercut};
use super::{asking, flooding, forging, hiding, leading, levers, serving, voting};
use crate::oracle::{faults, quorum};
use crate::sight::{REPLICA, opened};

/// What liars know of their cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Secrets {
    /// The cluster they sign for.
    pub(crate) cluster: Hash,
    /// Its rule pack.
    pub(crate) pack: Pack,
    /// Its members.
    pub(crate) members: u32,
    /// More members are faulty than allowed: what clients believe is not judged, so nobody lies to them.
    pub(crate) over_budget: bool,
    /// Who leads when, where blocks are bound to what complaints show.
    pub(crate) turns: Option<Turns>,
}

/// Most certificates and headers a liar remembers.
const MEMORY_MAX: usize = 32;

/// What a liar has seen.
#[derive(Default)]
pub(super) struct Memory {
    pub(super) qcs: VecDeque<Qc>,
    pub(super) tcs: VecDeque<Tc>,
    pub(super) headers: VecDeque<Header>,
}

fn keep<T: Clone + PartialEq>(list: &mut VecDeque<T>, value: &T) {
    if !list.contains(value) {
        if list.len() == MEMORY_MAX {
            list.pop_front();
        }
        list.push_back(value.clone());
    }
}

impl Memory {
    fn qc(&mut self, qc: &Qc) {
        if qc.view != View::GENESIS {
            keep(&mut self.qcs, qc);
        }
    }

    fn learn(&mut self, message: &Message) {
        match message {
            Message::Propose { header, .. } => {
                self.qc(&header.justify);
                keep(&mut self.headers, header);
                header.tc.iter().for_each(|tc| keep(&mut self.tcs, tc));
            }
            Message::Phase(qc) | Message::NewView { high: qc, .. } | Message::Complain { high: qc, .. } => {
                self.qc(qc)
            }
            Message::Advance(Proof::Qc(qc)) => self.qc(qc),
            Message::Advance(Proof::Tc(tc)) => keep(&mut self.tcs, tc),
            Message::Advance(Proof::Commit(proof)) => keep(&mut self.headers, &proof.header),
            Message::Status(status) => self.qc(&status.high),
            Message::Body { .. }
            | Message::Vote { .. }
            | Message::Order { .. }
            | Message::Fetch(_)
            | Message::Blocks(_)
            | Message::Forward(_)
            | Message::Attest { .. } => {}
        }
    }
}

/// One call of a corrupted replica, with what the liar knows.
pub(super) struct Lie<'a, 'b> {
    pub(super) act: &'a mut Act<'b>,
    pub(super) secrets: Secrets,
    pub(super) memory: &'a Memory,
    /// The message that arrived, if one did.
    pub(super) heard: Option<&'a Message>,
}

/// One way to lie. True when it changed anything.
pub(super) trait Move {
    fn play(&mut self, lie: &mut Lie<'_, '_>) -> bool;
}

impl Lie<'_, '_> {
    pub(super) fn sign(&self, statement: Statement) -> Option<Signature> {
        signed(self.secrets, self.act, statement)
    }

    pub(super) fn faults(&self) -> u32 {
        faults(self.secrets.members)
    }

    pub(super) fn peers(&self) -> Vec<NodeId> {
        self.act.peers.iter().copied().filter(|peer| peer.is_member()).collect()
    }

    /// Adds a message to one peer.
    pub(super) fn say(&mut self, to: NodeId, message: &Message) {
        let queue = message.queue();
        self.act.inject(to, queue, sealed(message));
    }

    pub(super) fn say_all(&mut self, message: &Message) {
        for peer in self.peers() {
            self.say(peer, message);
        }
    }

    /// Edits each message that is about to leave, one recipient at a time; `None` withholds it.
    pub(super) fn edit(&mut self, mut edit: impl FnMut(&Self, NodeId, Message) -> Edited) -> bool {
        self.act.split_sends();
        let mut changed = false;
        let deeds = core::mem::take(self.act.deeds);
        let mut kept = Vec::with_capacity(deeds.len());
        for deed in deeds {
            let Deed::Send { to: To::Node(to), queue, body } = &deed else {
                kept.push(deed);
                continue;
            };
            let Some(message) = opened(body) else {
                kept.push(deed);
                continue;
            };
            match edit(self, *to, message) {
                Edited::Same => kept.push(deed),
                Edited::Nothing => changed = true,
                Edited::Other(messages) => {
                    changed = true;
                    let send = |m: &Message| Deed::Send { to: To::Node(*to), queue: *queue, body: sealed(m) };
                    kept.extend(messages.iter().map(send));
                }
            }
        }
        *self.act.deeds = kept;
        changed
    }
}

/// What becomes of a message.
pub(super) enum Edited {
    Same,
    Nothing,
    Other(Vec<Message>),
}

/// What liars sign for.
pub(super) const fn scope(secrets: Secrets) -> Scope {
    Scope { cluster: secrets.cluster, epoch: Epoch(0) }
}

pub(crate) fn signed(secrets: Secrets, act: &Act<'_>, statement: Statement) -> Option<Signature> {
    Some(act.keys.get(&act.node)?.sign(scope(secrets), act.node, statement).into_inner().signature)
}

pub(crate) fn sealed(message: &Message) -> Bytes {
    let mut out = Writer::with_capacity(1 + message.size_hint());
    out.byte(Message::VERSION);
    message.write(&mut out);
    out.freeze()
}

/// The kinds of votes of a pack.
pub(super) const fn kinds(pack: Pack) -> &'static [Kind] {
    match pack {
        Pack::Basic => &[Kind::Prepare, Kind::Precommit, Kind::Commit],
        Pack::Chain2Order => &[Kind::Generic, Kind::Order],
        Pack::Chain3 | Pack::Chain2 | Pack::Hs2 | Pack::Naive2 | Pack::Paper => &[Kind::Generic],
    }
}

/// A member that plays moves.
struct Liar {
    name: &'static str,
    secrets: Secrets,
    memory: Memory,
    moves: Vec<Box<dyn Move>>,
    /// Whether its executor lies to those who read alone.
    readers_only: bool,
    /// The votes it heard, if it makes certificates of them.
    ballots: Option<Ballots>,
    /// Share of calls in which each move is played.
    share_ppm: u32,
}

impl Liar {
    /// Learns what leaves, as it leaves.
    fn learn_own(&mut self, act: &Act<'_>) {
        for deed in act.deeds.iter() {
            if let Deed::Send { body, queue, .. } = deed
                && *queue != Queue::BULK
                && let Some(message) = opened(body)
            {
                self.memory.learn(&message);
            }
        }
    }

    /// Makes a certificate of what it heard, if that is now enough for one.
    fn certify(&mut self, from: NodeId, message: &Message, act: &Act<'_>) {
        let Some(ballots) = &mut self.ballots else { return };
        let Some(digest) = ballots.hear(from, message) else { return };
        let Some(header) = self.memory.headers.iter().find(|header| header.digest() == digest) else {
            return;
        };
        if !self.memory.qcs.iter().any(|qc| qc.digest == digest)
            && let Some(qc) = ballots.certified(header, self.secrets, act)
        {
            self.memory.qc(&qc);
        }
    }
}

impl Strategy for Liar {
    fn name(&self) -> &'static str {
        self.name
    }

    fn act(&mut self, act: &mut Act<'_>) -> bool {
        if act.machine != REPLICA {
            return !self.secrets.over_budget && serving::lie(act, self.name, self.readers_only);
        }
        let heard = match act.seen {
            Seen::Frame(frame) => opened(&frame.body),
            _ => None,
        };
        heard.iter().for_each(|message| self.memory.learn(message));
        self.learn_own(act);
        if let (Seen::Frame(frame), Some(message)) = (act.seen, &heard) {
            self.certify(frame.from, message, act);
        }
        let mut changed = false;
        for played in &mut self.moves {
            if act.draws.chance(self.share_ppm) {
                let mut lie = Lie { act, secrets: self.secrets, memory: &self.memory, heard: heard.as_ref() };
                changed |= played.play(&mut lie);
            }
        }
        if changed && self.ballots.is_some() {
            self.learn_own(act);
        }
        changed
    }
}

/// The amount of a silent member that withholds the votes which would finish a view.
pub(crate) const UNFINISHED: u64 = 1 << 40;

/// The strategy of a Byzantine incident.
#[must_use]
pub(crate) fn of(incident: &Incident, secrets: Secrets) -> Option<Box<dyn Strategy>> {
    let amount = incident.amount.unsigned_abs();
    let mut moves: Vec<Box<dyn Move>> = Vec::new();
    let turns = secrets.turns.filter(|_| undercuts(incident.family, amount));
    match incident.family {
        _ if turns.is_some() => {
            moves.extend(turns.map(|turns| Box::new(Undercut::new(secrets, turns)) as Box<dyn Move>));
        }
        Family::ByzSilent if amount == UNFINISHED => moves.push(Box::new(hiding::Unfinished)),
        Family::ByzSilent if amount.is_multiple_of(2) => {
            moves.push(Box::new(hiding::Withhold::drawn(amount)))
        }
        family if has_two_bodies(family, amount) => {
            moves.push(Box::new(leading::TwoBodies::default()));
        }
        Family::ByzEquivocate => {
            moves.push(Box::new(leading::Equivocate::default()));
            moves.push(Box::new(voting::VoteAll));
        }
        Family::ByzMutate => {
            let mutator = Box::new(levers::Open { secrets });
            return Some(Box::new(Mutate { share_ppm: PPM / 8, mutator: Some(mutator) }));
        }
        Family::ByzAcks => moves.push(Box::new(voting::FalseComplaint)),
        Family::ByzFlood if amount.is_multiple_of(2) => {
            moves.push(Box::new(flooding::Ahead { messages: amount.min(20) }));
        }
        Family::ByzForge => moves.push(Box::new(forging::Forge)),
        Family::ByzShave => moves.push(Box::new(hiding::Shave { to: shave(amount, secrets.members) })),
        Family::ByzCollude => {
            moves.push(Box::new(leading::Equivocate { honest_halves: true, ..Default::default() }));
            moves.push(Box::new(leading::Fork { older_ppm: PPM / 4 }));
            moves.push(Box::new(voting::VoteAll));
            moves.push(Box::new(voting::FalseComplaint));
            moves.push(Box::new(hiding::Shave { to: shave(amount, secrets.members) }));
        }
        Family::ByzBatches => {
            moves.push(Box::new(leading::Fork { older_ppm: PPM }));
            moves.push(Box::new(voting::VoteAll));
        }
        Family::ByzSync => moves.push(Box::new(serving::FalseBlocks)),
        _ => return asking::of(incident).or_else(|| generic(incident)),
    }
    // A body and the header that fits it are told one after the other: who changes one changes both.
    let always = has_two_bodies(incident.family, amount) || turns.is_some() || amount == UNFINISHED;
    let share = if always { 0 } else { usize::try_from(amount / 2 % 3).unwrap_or(0) };
    let share_ppm = [PPM, PPM / 2, PPM / 5][share];
    Some(Box::new(Liar {
        name: incident.family.name(),
        secrets,
        memory: Memory::default(),
        moves,
        readers_only: amount / 4 % 2 == 1,
        ballots: (incident.family == Family::ByzCollude).then(Ballots::default),
        share_ppm,
    }))
}

/// Whether a liar builds below what complaints show: two in three of those that build on old certificates, one in three
/// of those that complain falsely.
#[must_use]
pub(crate) const fn undercuts(family: Family, amount: u64) -> bool {
    match family {
        Family::ByzBatches => !amount.is_multiple_of(3),
        Family::ByzAcks => amount.is_multiple_of(3),
        _ => false,
    }
}

/// Whether a liar shows two bodies of one root: two in five of those that equivocate.
const fn has_two_bodies(family: Family, amount: u64) -> bool {
    matches!(family, Family::ByzEquivocate) && amount % 5 >= 3
}

/// How many members hear a shaved message: one, f + 1, one less than a quorum, or a quorum without the sender.
fn shave(amount: u64, members: u32) -> u32 {
    match amount / 6 % 4 {
        0 => 1,
        1 => faults(members),
        2 => quorum(members).saturating_sub(2),
        _ => quorum(members).saturating_sub(1),
    }
}
