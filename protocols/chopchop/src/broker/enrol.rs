//! Sign-up through a broker (2.2): cards are checked, batched, ordered like messages, and answered with their ids.
//!
//! *Bounds.* 1,024 cards wait for their check, as many for their batch.

use synod_machine::Span;
use synod_quorum::NodeId;

use super::follow::ids_of;
use super::job::Task;
use super::open::{Batch, Cards, Content, Phase};
use super::{Broker, FLUSH, Step, Timer};
use crate::card::Card;
use crate::fault::Fault;
use crate::message::{ClientMessage, Nack, Signed};
use crate::trace::Rule;
use crate::tree::Tree;

/// Cards that wait, and cards of one batch.
const CARDS_MAX: usize = 1_024;
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
    /// Certified batches whose ids are not known here yet.
    waiting: Vec<u64>,
}

impl Desk {
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
        let mut found = None;
        for (number, batch) in &mut self.batches {
            if let Content::Cards(cards) = &mut batch.content
                && let Some(at) = cards.cards.iter().position(|(known, _)| *known == card)
            {
                cards.cards[at].1 = link;
                found = Some((*number, at));
            }
        }
        match found {
            Some((number, at)) => {
                self.answer_card(number, at, turn);
            }
            None => {
                turn.arm(Timer::Flush, FLUSH);
                self.desk.unchecked.push((card, link));
            }
        }
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
    }

    /// Cards are few: they wait up to a second for company.
    pub(super) fn close_cards(&mut self, turn: &mut Step<'_>) {
        let full = self.open() >= 2 * self.config.parameters.pipeline_max as usize;
        let most = self.config.cluster.rules().batch_max as usize;
        let fits = self.config.cluster.rules().body_bytes_max as usize / crate::card::CARD_BYTES;
        if self.desk.sound.is_empty() || full {
            self.cards_delivered(turn);
            return;
        }
        let count = self.desk.sound.len().min(most).min(fits.max(1));
        let cards = self.desk.sound.drain(..count).collect();
        turn.applied(Rule::Directory);
        self.last_batch += 1;
        let number = self.last_batch;
        self.batches.insert(number, Batch::new(Phase::Sealing, Content::Cards(Cards { cards })));
        self.seal(number, turn);
        self.cards_delivered(turn);
    }

    /// Answers the cards of certified batches whose ids are in the directory here.
    pub(super) fn cards_delivered(&mut self, turn: &mut Step<'_>) {
        let delivered = self.kept.iter().filter(|number| {
            let batch = self.batches.get(number);
            batch.is_some_and(|batch| {
                matches!(batch.content, Content::Cards(_))
                    && batch.proof.as_ref().is_some_and(|proof| proof.rounds == 0)
            })
        });
        self.desk.waiting = delivered.copied().collect();
        for number in self.desk.waiting.clone() {
            let Some(Content::Cards(of)) = self.batches.get(&number).map(|batch| &batch.content) else {
                continue;
            };
            let answered = (0..of.cards.len()).all(|at| self.answer_card(number, at, turn));
            if answered && let Some(proof) = self.batches.get_mut(&number).and_then(|b| b.proof.as_mut()) {
                proof.rounds = 1;
            }
        }
        if !self.desk.waiting.is_empty() {
            self.follow_directory(turn);
        }
    }

    /// Sends a client the id that f + 1 servers gave its card; false when the directory here is too short to know it.
    fn answer_card(&self, number: u64, at: usize, turn: &mut Step<'_>) -> bool {
        let Some(batch) = self.batches.get(&number) else { return true };
        let (Content::Cards(of), Some(proof)) = (&batch.content, &batch.proof) else { return true };
        let domains = self.config.cluster.domains();
        let ids = ids_of(&self.directory, &of.cards);
        let leaves: Vec<u8> = of.cards.iter().zip(&ids).flat_map(|((card, _), id)| leaf(card, *id)).collect();
        let mut hashed = Vec::new();
        domains.ids_leaf.hash_many(&leaves, LEAF, &mut hashed);
        let tree = Tree::grow(&domains.ids_node, hashed);
        if tree.root() != proof.statement.exceptions_root {
            return false;
        }
        let (Ok(index), Some((_, link)), Some(id)) = (u32::try_from(at), of.cards.get(at), ids.get(at))
        else {
            return true;
        };
        let signed = Signed {
            height: proof.statement.height,
            digest: proof.statement.digest,
            index,
            count: batch.count(),
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
