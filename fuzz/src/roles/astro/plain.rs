//! Bracha's broadcast: each source's slots in order, once each, the same for all.

use core::any::Any;
use std::collections::BTreeMap;

use synod_broadcast::bracha::{Message, Setup, Vote};
use synod_broadcast::{Bracha, Lot};
use synod_crypto::Hash;
use synod_machine::broadcast::{Broadcast, Offer, Slot};
use synod_machine::host::Host;
use synod_wire::{Blob, Bytes, Draw, Drawn, Limits, List, Wire};

use super::flock::{Flock, HONEST, Open, Play, framed, member, opened};
use super::signed::config;
use super::users::Users;
use crate::check::accept;
use crate::tape::Tape;

type Hosting = Host<Bracha>;

fn open(at: usize, delivered: BTreeMap<u8, u64>) -> Open<Hosting> {
    opened(at, move |place, log| {
        Host::open(place, Setup { config: config(at), delivered: delivered.clone() }, log)
    })
}

/// Drives three members of Bracha's broadcast against a fourth.
///
/// # Panics
/// When an invariant breaks, memory is above its formula, a slot has two payloads or another one than its honest source gave, slots
/// are delivered out of order, or an honest member is blamed.
pub fn run(bytes: &[u8]) {
    let mut tape = Tape::new(bytes);
    let mut world = World::new();
    world.play(&mut tape);
    if world.users.were_told() {
        accept();
    }
}

struct World {
    flock: Flock<Hosting>,
    users: Users,
    /// How far each member's user is, by source.
    told: Vec<BTreeMap<u8, u64>>,
    /// Whether users endorse nothing at present.
    mood: bool,
}

impl World {
    fn new() -> Self {
        Self {
            flock: Flock::new(|at| open(at, BTreeMap::new())),
            users: Users::new(),
            told: vec![BTreeMap::new(); HONEST],
            mood: false,
        }
    }

    fn judge(&mut self, at: usize, slot: Slot, digest: Hash) {
        let except = if self.mood { vec![0] } else { Vec::new() };
        self.flock.ask(at, Offer::Judge { slot, digest, except });
    }
}

/// A message of another member, changed where the tape says so.
fn changed(message: Message, tape: &mut Tape<'_>) -> Message {
    let (shift, turn) = (u64::from(tape.byte() % 4), tape.below(4) == 0);
    let vote = |mut vote: Vote, tape: &mut Tape<'_>| {
        vote.lot = Lot { source: vote.lot.source ^ (tape.byte() % 2), ..vote.lot };
        if turn {
            vote.digest = Hash::of(&[tape.byte()]);
        }
        vote
    };
    match message {
        Message::Prepare { payload, .. } => Message::Prepare { sequence: 1 + shift, payload },
        Message::Echo(of) => Message::Ready(vote(of, tape)),
        Message::Ready(of) => Message::Echo(vote(of, tape)),
        Message::Pull(of) => Message::Pull(vote(of, tape)),
        Message::Pulled { lot, payload } => {
            let mut bytes = payload.bytes().to_vec();
            bytes.push(tape.byte());
            Message::Pulled { lot, payload: Blob::try_from(Bytes::from(bytes)).unwrap_or(payload) }
        }
        Message::Frontier(lots) => {
            let mut all = lots.into_vec();
            all.iter_mut().for_each(|lot| lot.sequence = lot.sequence.wrapping_add(shift));
            Message::Frontier(List::try_from(all).unwrap_or_default())
        }
        Message::Ask(lot) => Message::Ask(Lot { sequence: lot.sequence.wrapping_add(shift), ..lot }),
    }
}

impl Play for World {
    type Host = Hosting;

    fn flock(&mut self) -> &mut Flock<Hosting> {
        &mut self.flock
    }

    fn open(&self, at: usize) -> Open<Hosting> {
        open(at, self.told[at].clone())
    }

    fn told(&mut self, at: usize, output: Box<dyn Any + Send>) {
        let Ok(said) = output.downcast::<Broadcast>() else { unreachable!("what a broadcast says") };
        match *said {
            Broadcast::Proposed { slot, payload } => {
                let digest = self.users.proposed(at, slot, &payload);
                self.judge(at, slot, digest);
            }
            Broadcast::Delivered { slot, payload, open, proof } => {
                assert!(open.items().is_empty() && proof.is_none(), "a payload is delivered as a whole");
                let far = self.told[at].entry(slot.source.0.to_le_bytes()[0]).or_default();
                assert_eq!(slot.sequence, *far + 1, "slots are delivered in order, once each");
                *far += 1;
                self.users.delivered(slot, payload);
            }
            Broadcast::Conflict { .. } => unreachable!("nothing is signed"),
            Broadcast::Refused { .. } => {}
        }
    }

    fn ask(&mut self, at: usize, tape: &mut Tape<'_>) {
        if tape.below(4) == 0 {
            self.mood = tape.below(3) == 0;
            if let Some((slot, digest)) = self.users.judged(at, tape) {
                self.judge(at, slot, digest);
            }
            return;
        }
        let sequence = self.flock.seats[at].host.machine().mine() + 1;
        self.users.broadcast(at, sequence, &mut self.flock, tape);
    }

    fn lie(&mut self, at: usize, tape: &mut Tape<'_>) {
        let heard = self.flock.heard(tape);
        let copied = heard.and_then(|body| Message::decode(body.slice(1..), &Limits::default()).ok());
        let message = match (tape.below(6), copied) {
            (0, _) | (_, None) => Message::draw(&mut Drawn::new(u64::from(tape.word()))),
            (1, _) => {
                let payload = Bytes::copy_from_slice(tape.take(3));
                let sequence = 1 + u64::from(tape.byte() % 6);
                Message::Prepare { sequence, payload: Blob::try_from(payload).unwrap_or_default() }
            }
            (2, Some(message)) => message,
            (_, Some(message)) => changed(message, tape),
        };
        self.flock.lie(at, framed(&message), tape);
    }

    fn came_back(&mut self, at: usize) {
        let own = member(at).0.to_le_bytes()[0];
        let far = self.told[at].get(&own).copied().unwrap_or(0);
        self.users.broadcast_again(at, far + 1, &mut self.flock);
    }
}
