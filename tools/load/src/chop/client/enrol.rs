//! Signing members up: so many cards at a time, each with its proof of possession.

use synod_chopchop::card::Card;
use synod_chopchop::directory::NO_ID;
use synod_chopchop::message::{ClientMessage, Signed};

use super::job::Task;
use super::machine::{LoadClient, Step};
use super::member::Stage;

/// Cards that one job makes.
const TOGETHER: usize = 32;

impl LoadClient {
    pub(super) fn sign_up(&mut self) {
        let strangers = (0_u32..).zip(&self.members).filter(|(_, member)| member.stage == Stage::Stranger);
        self.strangers = strangers.map(|(at, _)| at).collect();
    }

    /// Has cards made for those whose turn it is, as long as few are on their way.
    pub(super) fn make_cards(&mut self, turn: &mut Step<'_>) {
        while self.cards.len() < self.crowd.pace.cards as usize && !self.strangers.is_empty() {
            let count = self.strangers.len().min(TOGETHER);
            let members: Vec<u32> = self.strangers.drain(..count).collect();
            for at in &members {
                self.cards.insert(*at, None);
                if let Some(member) = self.members.get_mut(*at as usize) {
                    member.stage = Stage::Enrolling;
                }
            }
            let signs = members.len();
            self.compute(Task::Cards(self.next_nonce(), members), signs, turn);
        }
    }

    pub(super) fn cards_made(&mut self, cards: Vec<(u32, Option<Box<Card>>)>, turn: &mut Step<'_>) {
        for (at, card) in cards {
            self.cards.insert(at, card);
            self.send_card(at, turn);
        }
    }

    fn send_card(&mut self, at: u32, turn: &mut Step<'_>) {
        let (Some(Some(card)), Some(member)) = (self.cards.get(&at), self.members.get(at as usize)) else {
            return;
        };
        let (card, broker) = (card.clone(), member.broker);
        self.say(at, broker, ClientMessage::SignUp(card), turn);
        self.set_due(at, Some(turn.now() + self.crowd.pace.submit));
    }

    pub(super) fn card_due(&mut self, at: u32, turn: &mut Step<'_>) {
        self.next_broker(at);
        self.send_card(at, turn);
    }

    pub(super) fn on_signed(&mut self, at: u32, signed: &Signed) {
        let Some(member) = self.members.get_mut(at as usize) else { return };
        if member.stage != Stage::Enrolling {
            return;
        }
        self.cards.remove(&at);
        if signed.id == NO_ID {
            member.stage = Stage::Stranger;
            self.stats.refused += 1;
        } else {
            (member.id, member.stage) = (signed.id, Stage::Idle);
            (member.broker, member.rounds) = (0, 0);
            self.stats.enrolled += 1;
            if member.begun < self.goal {
                self.ready.push_back(at);
            }
        }
        self.height = self.height.max(signed.height);
        self.set_due(at, None);
    }
}
