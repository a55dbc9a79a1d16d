//! Three honest members over links that lose and reorder between peers, and a fourth that has real keys and says whatever the
//! input says.

use core::any::Any;
use std::collections::{BTreeMap, VecDeque};

use synod_machine::host::{HostConfig, Hosted, LaneLog};
use synod_machine::{Link, Message, Queue, Span, To, Unrecoverable};
use synod_quorum::NodeId;
use synod_wire::Bytes;

use super::super::keys;
use super::super::seat::Seat;
use crate::tape::Tape;

/// The member that lies.
pub(super) const LIAR: NodeId = NodeId(3);
/// Members that do not.
pub(super) const HONEST: usize = 3;
/// Messages kept to be copied by the liar.
const HEARD_MAX: usize = 48;
/// Messages in flight on one link; more are lost.
const LINK_MAX: usize = 256;

/// Opens a member's machine from its lane.
pub(super) type Open<H> = Box<dyn Fn(LaneLog) -> H>;

/// Opens a member's machine in its place.
///
/// # Panics
/// When the machine cannot read its own records.
pub(super) fn opened<H>(
    at: usize,
    open: impl Fn(HostConfig, LaneLog) -> Result<H, Unrecoverable> + 'static,
) -> Open<H> {
    let (own, seed) = (member(at), u64::from(member(at).0));
    let place = move || HostConfig { own, machine: 0, seed, jobs_max: 64, checked: true };
    Box::new(move |log| match open(place(), log) {
        Ok(host) => host,
        Err(why) => unreachable!("a machine reads its own records: {}", why.0),
    })
}

/// The members and what is between them.
pub(super) struct Flock<H> {
    pub(super) seats: Vec<Seat<H>>,
    links: BTreeMap<(usize, usize, Queue), VecDeque<Bytes>>,
    heard: VecDeque<Bytes>,
}

/// The name of an honest member.
pub(super) fn member(at: usize) -> NodeId {
    NodeId(u32::try_from(at).unwrap_or(0))
}

/// A message as it travels.
pub(super) fn framed<M: Message>(message: &M) -> (Queue, Vec<u8>) {
    let mut body = vec![M::VERSION];
    body.extend_from_slice(&message.encode());
    (message.queue(), body)
}

impl<H: Hosted> Flock<H> {
    /// Members that start from nothing.
    pub(super) fn new(open: impl Fn(usize) -> Open<H>) -> Self {
        let seat = |at: usize| Seat::open(keys(member(at).0.to_le_bytes()[0] + 1), open(at));
        Self { seats: (0..HONEST).map(seat).collect(), links: BTreeMap::new(), heard: VecDeque::new() }
    }

    /// What the liar heard, one of the last messages.
    pub(super) fn heard(&self, tape: &mut Tape<'_>) -> Option<Bytes> {
        self.heard.get(tape.below(self.heard.len())).cloned()
    }

    /// The liar says something to one member, now and then with a few bytes changed.
    pub(super) fn lie(&mut self, at: usize, (queue, mut body): (Queue, Vec<u8>), tape: &mut Tape<'_>) {
        for _ in 0..tape.below(8).saturating_sub(5) {
            let place = usize::from(tape.word()) % body.len().max(1);
            if let Some(byte) = body.get_mut(place) {
                *byte ^= tape.byte();
            }
        }
        self.seats[at].frame(LIAR, queue, Bytes::from(body));
    }

    /// A member's user asks something.
    pub(super) fn ask<I: Any + Send>(&mut self, at: usize, input: I) {
        self.seats[at].input(Box::new(input));
    }

    /// A member works and hears the next message on its way to it, if there is one.
    pub(super) fn carry(&mut self, at: usize) -> bool {
        let next = self.links.iter_mut().find(|((_, to, _), link)| *to == at && !link.is_empty());
        let Some((&(from, _, queue), link)) = next else { return false };
        let Some(body) = link.pop_front() else { return false };
        self.seats[at].frame(member(from), queue, body);
        self.seats[at].work(4);
        self.seats[at].sync();
        true
    }

    /// A member works off what it has, and a moment passes.
    pub(super) fn go_on(&mut self, at: usize) {
        self.seats[at].work(64);
        self.seats[at].sync();
        self.seats[at].wait(Span::millis(20));
    }

    /// A link to a member loses what is on it.
    pub(super) fn lose(&mut self, at: usize, tape: &mut Tape<'_>) {
        let from = tape.below(HONEST);
        for ((sender, to, _), link) in &mut self.links {
            if *sender == from && *to == at {
                link.clear();
            }
        }
        if from != at {
            self.seats[at].link(member(from), Link::Down);
            self.seats[at].link(member(from), Link::Up);
        }
    }

    /// Cuts a member's power and starts it from what was durable.
    pub(super) fn restart(&mut self, at: usize, open: Open<H>) {
        let old = self.seats.remove(at);
        self.seats.insert(at, old.restart(open));
        self.links.retain(|(from, to, _), _| *from != at && *to != at);
    }

    /// Puts what a member said on its links; gives what it told its user.
    pub(super) fn take(&mut self, at: usize) -> Vec<Box<dyn Any + Send>> {
        for (to, queue, body) in core::mem::take(&mut self.seats[at].desk.sent) {
            let nodes: Vec<NodeId> = match to {
                To::Node(node) => vec![node],
                To::Set(set) => set.iter().collect(),
            };
            for node in nodes.into_iter().filter(|node| *node != member(at)) {
                if node == LIAR {
                    self.heard.push_back(body.clone());
                    continue;
                }
                let to = usize::try_from(node.0).unwrap_or(0);
                let link = self.links.entry((at, to, queue)).or_default();
                if link.len() < LINK_MAX {
                    link.push_back(body.clone());
                }
            }
        }
        while self.heard.len() > HEARD_MAX {
            self.heard.pop_front();
        }
        for (peer, fault) in self.seats[at].desk.blamed.drain(..) {
            assert!(peer == LIAR, "honest member {} is blamed for {}", peer.0, fault.name);
        }
        core::mem::take(&mut self.seats[at].desk.outputs)
    }
}

/// A role of three members and a liar.
pub(super) trait Play {
    /// What is hosted.
    type Host: Hosted;

    /// The members.
    fn flock(&mut self) -> &mut Flock<Self::Host>;
    /// Opens a member as its user now knows it.
    fn open(&self, at: usize) -> Open<Self::Host>;
    /// A member's user is told something.
    fn told(&mut self, at: usize, output: Box<dyn Any + Send>);
    /// A member's user wants something.
    fn ask(&mut self, at: usize, tape: &mut Tape<'_>);
    /// The liar says something to one member.
    fn lie(&mut self, at: usize, tape: &mut Tape<'_>);
    /// A member came back from a crash.
    fn came_back(&mut self, at: usize);

    /// Plays the whole input.
    fn play(&mut self, tape: &mut Tape<'_>) {
        (0..HONEST).for_each(|at| self.take(at));
        while !tape.is_over() {
            self.step(tape);
        }
    }

    fn step(&mut self, tape: &mut Tape<'_>) {
        let at = tape.below(HONEST);
        match tape.below(16) {
            0..=2 => self.ask(at, tape),
            3..=6 => {
                for _ in 0..=tape.below(24) {
                    if !self.flock().carry(at) {
                        break;
                    }
                    self.take(at);
                }
            }
            7..=9 => self.round(),
            10 => self.flock().seats[at].wait(Span::millis(u64::from(tape.byte()))),
            11 => self.flock().lose(at, tape),
            12 if tape.below(4) == 0 => {
                let open = self.open(at);
                self.flock().restart(at, open);
                self.came_back(at);
            }
            _ => self.lie(at, tape),
        }
        (0..HONEST).for_each(|at| self.take(at));
    }

    /// Everybody works and hears what is on its way.
    fn round(&mut self) {
        for at in 0..HONEST {
            self.flock().go_on(at);
            self.take(at);
            for _ in 0..16 {
                if !self.flock().carry(at) {
                    break;
                }
                self.take(at);
            }
        }
    }

    /// Takes what a member's effects left, and what its user answers.
    fn take(&mut self, at: usize) {
        loop {
            let outputs = self.flock().take(at);
            if outputs.is_empty() {
                return;
            }
            for output in outputs {
                self.told(at, output);
            }
        }
    }
}
