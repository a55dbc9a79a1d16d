//! Sign-up through a broker (2.2): cards are checked, batched, ordered like messages, and answered with their ids.
//!
//! *Bounds.* 1,024 cards wait for their check, as many for their batch.

use std::collections::BTreeSet;

use synod_machine::Span;
use synod_quorum::NodeId;

use super::follow::ids_of;
use super::job::Task;
use super::open::{Batch, Cards, Content, Phase};
use super::{Broker, Step};
use crate::card::Card;
use crate::fault::Fault;
use crate::message::{ClientMessage, Nack, Signed};
use crate::trace::Rule;
use crate::tree::Tree;

/// Cards that wait, and cards of one batch.
const CARDS_MAX: usize = 1_024;
/// Cards that need not wait for more.
const CARDS_MANY: usize = 512;
/// When to come again while too many wait.
const FULL: Span = Span::secs(1);
/// Bytes of a leaf over assigned ids: the hash of a card and its id.
const LEAF: usize = 36;

/// Cards that are not in a batch yet, each with the link it came on.
#[derive(Clone, Debug, Default)]
pub(super) struct Desk {
    unchecked: Vec<(Card, NodeId)>,
    checking: usize,
    sound: Vec<(Card, NodeId)>,
    /// Batches of cards, open and kept.
    pub(super) batches: BTreeSet<u64>,
}

impl Desk {
    /// Whether no card waits for its check.
    pub(super) const fn is_checked(&self) -> bool {
        self.unchecked.is_empty()
    }

    pub(super) const BYTES_MAX: u64 = 3 * CARDS_MAX as u64 * 256;

    pub(super) fn bytes(&self) -> u64 {
        (self.unchecked.len() + self.checking + self.sound.len()) as u64 * 256
    }
}

impl Broker {
    pub(super) fn on_card(&mut self, link: NodeId, card: Card, turn: &mut Step<'_>) {
        let now = turn.now();
        let total = self.desk.unchecked.len() + self.desk.checking + self.desk.sound.len();
        if self.links.is_refused(link, now) || total >= CARDS_MAX {
            Self::nack(link, Nack::Busy, FULL, turn);
            return;
        }
        for waiting in [&mut self.desk.unchecked, &mut self.desk.sound] {
            if let Some(known) = waiting.iter_mut().find(|(known, _)| *known == card) {
                known.1 = link;
                return;
            }
        }
        for number in self.desk.batches.clone() {
            let Some(Content::Cards(of)) = self.batches.get_mut(&number).map(|batch| &mut batch.content)
            else {
                continue;
            };
            if let Some(at) = of.cards.iter().position(|(known, _)| *known == card) {
                of.cards[at].1 = link;
                self.answer_card(number, at, turn);
                return;
            }
        }
        self.arm_flush(turn);
        self.desk.unchecked.push((card, link));
    }

    pub(super) fn flush_cards(&mut self, turn: &mut Step<'_>) {
        let cards = core::mem::take(&mut self.desk.unchecked);
        if !cards.is_empty() {
            self.desk.checking += cards.len();
            self.compute(turn, Task::Cards(cards));
        }
    }

    pub(super) fn cards_checked(&mut self, cards: Vec<(Card, NodeId, bool)>, turn: &mut Step<'_>) {
        self.desk.checking = self.desk.checking.saturating_sub(cards.len());
        for (card, link, sound) in cards {
            if sound {
                self.desk.sound.push((card, link));
            } else {
                self.links.strike(link, turn.now());
                turn.blame(link, Fault::UnsoundCard);
                Self::nack(link, Nack::Refused, Span::ZERO, turn);
            }
        }
        if self.desk.sound.len() >= CARDS_MANY.min(self.config.cards_max()) {
            self.close_cards(turn);
        }
    }

    /// Cards are few: they wait up to a second for company.
    pub(super) fn close_cards(&mut self, turn: &mut Step<'_>) {
        let full = self.open() >= 2 * self.config.parameters.pipeline_max as usize;
        if self.desk.sound.is_empty() || full {
            self.cards_delivered(turn);
            return;
        }
        let count = self.desk.sound.len().min(self.config.cards_max());
        let cards = self.desk.sound.drain(..count).collect();
        turn.applied(Rule::Directory);
        self.last_batch += 1;
        let number = self.last_batch;
        let content = Content::Cards(Cards { cards, assigned: None });
        self.batches.insert(number, Batch::new(Phase::Sealing, content));
        self.desk.batches.insert(number);
        self.seal(number, turn);
        self.cards_delivered(turn);
    }

    /// Answers the cards of certified batches whose ids are in the directory here.
    pub(super) fn cards_delivered(&mut self, turn: &mut Step<'_>) {
        let waits = |number: &&u64| {
            let proof = self.batches.get(number).and_then(|batch| batch.proof.as_ref());
            proof.is_some_and(|proof| proof.rounds == 0)
        };
        let waiting: Vec<u64> = self.desk.batches.iter().filter(waits).copied().collect();
        for number in &waiting {
            let count = self.batches.get(number).map_or(0, |batch| batch.count() as usize);
            let answered = (0..count).all(|at| self.answer_card(*number, at, turn));
            if answered && let Some(proof) = self.batches.get_mut(number).and_then(|b| b.proof.as_mut()) {
                proof.rounds = 1;
            }
        }
        if !waiting.is_empty() {
            // How long the directory is now, stores say with where they stand.
            self.ask_standing(turn);
            self.follow_directory(turn);
        }
    }

    /// Whether certified cards wait for the directory that has them.
    pub(super) fn cards_wait(&self) -> bool {
        let waits = |number: &u64| {
            let proof = self.batches.get(number).and_then(|batch| batch.proof.as_ref());
            proof.is_some_and(|proof| proof.rounds == 0)
        };
        self.desk.batches.iter().any(waits)
    }

    /// Sends a client the id that f + 1 servers gave its card; false when the directory here is too short to know it.
    fn answer_card(&mut self, number: u64, at: usize, turn: &mut Step<'_>) -> bool {
        let Some(batch) = self.batches.get_mut(&number) else { return true };
        let count = batch.count();
        let (Content::Cards(of), Some(proof)) = (&mut batch.content, &batch.proof) else { return true };
        let domains = self.config.cluster.domains();
        if of.assigned.is_none() {
            let ids = ids_of(&self.directory, &of.cards);
            let leaves: Vec<u8> =
                of.cards.iter().zip(&ids).flat_map(|((card, _), id)| leaf(card, *id)).collect();
            let mut hashed = Vec::new();
            domains.ids_leaf.hash_many(&leaves, LEAF, &mut hashed);
            let tree = Tree::grow(&domains.ids_node, hashed);
            of.assigned = (tree.root() == proof.statement.exceptions_root).then_some((ids, tree));
        }
        let Some((ids, tree)) = &of.assigned else { return false };
        let (Ok(index), Some((_, link)), Some(id)) = (u32::try_from(at), of.cards.get(at), ids.get(at))
        else {
            return true;
        };
        let signed = Signed {
            height: proof.statement.height,
            digest: proof.statement.digest,
            index,
            count,
            id: *id,
            path: tree.path(index).unwrap_or_default(),
            exc_count: proof.statement.exc_count,
            aggregate: proof.aggregate.clone(),
        };
        Self::tell(*link, ClientMessage::Signed(Box::new(signed)), turn);
        true
    }
}

fn leaf(card: &Card, id: u32) -> [u8; LEAF] {
    let mut out = [0; LEAF];
    let (name, place) = out.split_at_mut(32);
    name.copy_from_slice(&synod_crypto::Hash::of(&card.to_bytes()).0);
    place.copy_from_slice(&id.to_le_bytes());
    out
}
