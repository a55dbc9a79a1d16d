//! The signed broadcast: what one member delivers in a slot, no other delivers otherwise, and every delivery has its proof.

use core::any::Any;
use std::collections::{BTreeMap, BTreeSet};

use synod_broadcast::signed::{Certificate, Independent, Message, Setup};
use synod_broadcast::{Config, Lot, SignedBroadcast};
use synod_crypto::{Hash, verify_evidence};
use synod_machine::Span;
use synod_machine::broadcast::{Begun, Bounds, Broadcast, Offer, Slot};
use synod_machine::host::Host;
use synod_quorum::NodeSet;
use synod_wire::{Bytes, Draw, Drawn, Limits, Wire};

use super::super::{CLUSTER, keys};
use super::flock::{Flock, HONEST, LIAR, Open, Play, framed, member, opened};
use super::forge::{prepare, resigned, view};
use super::users::Users;
use crate::check::accept;
use crate::tape::Tape;

type Hosting = Host<SignedBroadcast<Independent>>;

/// How a broadcast of these roles is set up.
pub(super) fn config(at: usize) -> Config {
    Config {
        me: member(at),
        members: NodeSet::first(4),
        bounds: Bounds {
            window: 4,
            retain: 8,
            payload_max: 256,
            resend: Span::millis(100),
            resend_max: Span::millis(400),
            pull: Span::millis(50),
            pull_max: Span::millis(200),
            ..Bounds::default()
        },
    }
}

fn open(at: usize, settled: BTreeMap<u8, u64>) -> Open<Hosting> {
    opened(at, move |place, log| {
        let setup =
            Setup { config: config(at), view: view(), begun: Begun::default(), settled: settled.clone() };
        Host::open(place, setup, log)
    })
}

/// Drives three members of a signed broadcast against a fourth.
///
/// # Panics
/// When an invariant breaks, memory is above its formula, a slot has two payloads or another one than its honest source gave, a
/// delivery has no proof, or an honest member is blamed.
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
    /// Slots that each member's user was told of.
    told: Vec<BTreeSet<Slot>>,
    /// Items that users except at present.
    mood: u8,
}

impl World {
    fn new() -> Self {
        Self {
            flock: Flock::new(|at| open(at, BTreeMap::new())),
            users: Users::new(),
            told: vec![BTreeSet::new(); HONEST],
            mood: 0,
        }
    }

    /// How far a member's user took care of each source's slots.
    fn settled(&self, at: usize) -> BTreeMap<u8, u64> {
        let mut settled: BTreeMap<u8, u64> = BTreeMap::new();
        for slot in &self.told[at] {
            if let Ok(Lot { source, sequence }) = Lot::try_from(*slot) {
                let far = settled.entry(source).or_default();
                *far += u64::from(sequence == *far + 1);
            }
        }
        settled
    }

    fn judge(&mut self, at: usize, slot: Slot, digest: Hash) {
        let bits = self.mood.rotate_left(u32::try_from(at).unwrap_or(0));
        let except = (0..4).filter(|item| bits >> item & 1 == 1).collect();
        self.flock.ask(at, Offer::Judge { slot, digest, except });
    }

    fn delivered(&mut self, at: usize, slot: Slot, payload: Bytes, proof: Option<Bytes>) {
        let digest = Hash::of(&payload);
        let is_first = self.users.delivered(slot, payload);
        let proof = proof.and_then(|proof| Certificate::decode(proof, &Limits::default()).ok());
        let Some(certificate) = proof else { unreachable!("a delivery has a certificate") };
        assert_eq!((Slot::from(certificate.lot), certificate.digest), (slot, digest));
        self.told[at].insert(slot);
        if is_first {
            let good = verify_evidence(certificate, &keys(1), CLUSTER, &view().roster);
            assert!(good.is_ok(), "a certificate proves nothing");
        }
    }
}

impl Play for World {
    type Host = Hosting;

    fn flock(&mut self) -> &mut Flock<Hosting> {
        &mut self.flock
    }

    fn open(&self, at: usize) -> Open<Hosting> {
        open(at, self.settled(at))
    }

    fn told(&mut self, at: usize, output: Box<dyn Any + Send>) {
        let Ok(said) = output.downcast::<Broadcast>() else { unreachable!("what a broadcast says") };
        match *said {
            Broadcast::Proposed { slot, payload } => {
                let digest = self.users.proposed(at, slot, &payload);
                self.judge(at, slot, digest);
            }
            Broadcast::Delivered { slot, payload, open, proof } => {
                assert!(open.items().iter().all(|item| *item < 4), "open is what somebody excepts");
                self.delivered(at, slot, payload, proof);
            }
            Broadcast::Conflict { slot, .. } => {
                assert_eq!(slot.source, LIAR, "an honest source is shown with two payloads");
            }
            Broadcast::Refused { .. } => {}
        }
    }

    fn ask(&mut self, at: usize, tape: &mut Tape<'_>) {
        match tape.below(4) {
            0 => {
                self.mood = if tape.below(3) == 0 { tape.byte() } else { 0 };
                if let Some((slot, digest)) = self.users.judged(at, tape) {
                    self.judge(at, slot, digest);
                }
            }
            _ => {
                let sequence = self.flock.seats[at].host.machine().mine() + 1;
                self.users.broadcast(at, sequence, &mut self.flock, tape);
            }
        }
    }

    fn lie(&mut self, at: usize, tape: &mut Tape<'_>) {
        let digest = |payload: &Bytes| Some(Hash::of(payload));
        let heard = self.flock.heard(tape);
        let copied = heard.and_then(|body| Message::decode(body.slice(1..), &Limits::default()).ok());
        let seed = u64::from(tape.word());
        let own = || Message::draw(&mut Drawn::new(seed));
        let message = match (tape.below(6), copied) {
            (0, _) => own(),
            (1, _) => {
                let sequence = 1 + u64::from(tape.byte() % 6);
                let payload = Bytes::copy_from_slice(tape.take(3));
                prepare(sequence, payload, digest).unwrap_or_else(own)
            }
            (2, Some(message)) => message,
            (_, Some(message)) => resigned(message, digest, tape),
            (_, None) => own(),
        };
        self.flock.lie(at, framed(&message), tape);
    }

    fn came_back(&mut self, at: usize) {
        let far = self.settled(at).get(&member(at).0.to_le_bytes()[0]).copied().unwrap_or(0);
        self.users.broadcast_again(at, far + 1, &mut self.flock);
    }
}
