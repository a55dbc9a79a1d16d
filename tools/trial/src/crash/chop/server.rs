//! A server that came back: it is asked about what it said, and told that other things were ordered.

use std::collections::BTreeSet;

use synod_chopchop::message::{Piece, Pull, ServerMessage, StateAsk, StoreMessage};
use synod_chopchop::statement::Height;
use synod_chopchop::vocabulary::Message;
use synod_crypto::{Hash, Keys};
use synod_machine::{Message as Spoken, Never, Span, To};
use synod_quorum::NodeId;
use synod_sim::Storage;
use synod_wire::{Blob, Wire};

use super::super::lone::{Did, Lone};
use super::frames::sealed;
use super::judge::Judge;
use super::order;
use super::talk::{Event, OF_SERVER, Talk};
use crate::systems::chopchop::plan::{BROKERS, Plan, SERVER, STORE};
use crate::systems::chopchop::sight;
use crate::systems::chopchop::world::connect;

/// Answers to questions that follow from answers.
const ROUNDS_MAX: u32 = 256;
/// Long enough for every timer of a server.
const PATIENCE: Span = Span::millis(1_200);
/// Bytes that another store asks for.
const TASTE: u32 = 64;

/// A server alone, and what is known of it.
pub(super) struct Visit<'a> {
    pub(super) talk: &'a Talk,
    pub(super) plan: &'a Plan,
    pub(super) servers: &'a [Keys],
    pub(super) own: NodeId,
    pub(super) lone: Lone,
    judge: Judge,
    handed_out: BTreeSet<Hash>,
}

/// Builds a server from its disk and visits it.
pub(super) fn visit(
    (talk, plan): (&Talk, &Plan),
    servers: &[Keys],
    (own, keys): (NodeId, Keys),
    storage: Box<dyn Storage>,
    before: &Judge,
) -> Result<Judge, String> {
    let build = |machine, log| plan.machine(own, machine, log, 2);
    let lone = Lone::open(keys, &OF_SERVER, connect, storage, build).map_err(|refusal| refusal.0)?;
    if lone.is_damaged() {
        return Err("J-S2: a crash alone made the log count as damaged".to_owned());
    }
    let mut judge = before.reborn();
    let records = OF_SERVER.iter().zip(&lone.found);
    judge.reopen(records.flat_map(|(machine, log)| log.records.iter().map(|record| (*machine, record))));
    let handed_out = BTreeSet::new();
    let mut visit = Visit { talk, plan, servers, own, lone, judge, handed_out };
    visit.lone.start();
    visit.rest();
    order::help(&mut visit);
    visit.ask(before);
    let Visit { judge, handed_out, .. } = &mut visit;
    judge.demand(before, handed_out);
    order::contradict(&mut visit);
    Ok(visit.judge)
}

impl Visit<'_> {
    /// Says something to a machine of the server.
    pub(super) fn say<A: Spoken + Wire>(&mut self, machine: u8, from: NodeId, message: &Message<A>) {
        let (queue, body) = sealed(message);
        self.lone.hear(machine, from, queue, body);
        self.settle();
    }

    /// Answers what it asks, until it asks nothing.
    pub(super) fn settle(&mut self) {
        for _ in 0..ROUNDS_MAX {
            let did = core::mem::take(&mut self.lone.did);
            if did.is_empty() {
                return;
            }
            for (machine, did) in did {
                let event = Event::Did(machine, did);
                self.judge.see(&event);
                if let Event::Did(_, Did::Said(to, body)) = &event {
                    match sight::opened(body) {
                        Some(Message::Store(StoreMessage::Pull(pull))) => self.hand(*to, &pull),
                        Some(Message::Store(StoreMessage::Piece(piece))) => {
                            self.handed_out.insert(piece.digest);
                        }
                        _ => order::answer(self, *to, body),
                    }
                }
            }
        }
    }

    /// Gives everything that needs time its time.
    pub(super) fn rest(&mut self) {
        self.settle();
        self.lone.pass(PATIENCE);
        self.settle();
    }

    /// Another store has what it asks for.
    fn hand(&mut self, to: To, pull: &Pull) {
        let (To::Node(peer), Some(batch)) = (to, self.talk.lore.batches.get(&pull.digest)) else { return };
        let bytes: Vec<u8> = batch.header.head().iter().chain(batch.body.iter()).copied().collect();
        let (from, length) = (pull.offset as usize, pull.length as usize);
        let Some(part) = bytes.get(from..from.saturating_add(length)) else { return };
        if let Ok(bytes) = Blob::try_from(synod_wire::Bytes::copy_from_slice(part)) {
            let piece = Piece { digest: pull.digest, offset: pull.offset, bytes };
            self.say::<Never>(STORE, peer, &StoreMessage::Piece(piece).into());
        }
    }

    /// Asks about everything it said before.
    fn ask(&mut self, before: &Judge) {
        let (broker, peer) = (NodeId(BROKERS), NodeId(u32::from(self.own.0 == 0)));
        let height = before.highest;
        if height > 1 {
            self.say::<Never>(SERVER, broker, &ServerMessage::HeightAsk(Height { height }).into());
        }
        for id in before.standing.keys() {
            let ask = StateAsk { nonce: 1, id: *id };
            self.say::<Never>(SERVER, broker, &ServerMessage::StateAsk(ask).into());
        }
        for digest in &before.witnessed {
            let pull = Pull { digest: *digest, offset: 0, length: TASTE };
            self.say::<Never>(STORE, peer, &StoreMessage::Pull(pull).into());
        }
        self.certify();
        self.rest();
    }

    /// Asks what it says of every batch of the conversation.
    pub(super) fn certify(&mut self) {
        let digests: Vec<Hash> = self.talk.lore.batches.keys().copied().collect();
        for digest in digests {
            self.say::<Never>(SERVER, NodeId(BROKERS), &ServerMessage::Certify(digest).into());
        }
    }
}
