//! Members of the directory, for brokers that follow it (3.3).
//!
//! *Bounds.* To give as many members as fit at once takes as long as hundreds of votes, and a question is 14 bytes: so each broker has
//! its ration of members a second, and those outside the genesis one together. Of the questions that wait for a root half are others'.

use synod_crypto::Hash;
use synod_machine::Turn;
use synod_machine::broadcast::AtomicBroadcast;
use synod_quorum::NodeId;

use super::super::{Server, ServerTask};
use super::WAITERS;
use crate::message::{CARDS_MAX, Cards, ServerMessage};
use crate::rations::Share;

/// A question is a unit, and so are so many members.
const UNIT: u32 = 1_024;
/// Full answers have nine units.
pub(super) const PULLS: Share = Share { named: 1_024, other: 256, others: 512 };

impl<A: AtomicBroadcast> Server<A> {
    /// A broker follows the directory. What is beyond its ration it asks again, or somebody else.
    pub(in crate::server) fn on_dir_pull(&mut self, from: NodeId, first: u32, turn: &mut Turn<'_, Self>) {
        let brokers = &self.settings.brokers;
        let is_named = |broker: &NodeId| brokers.contains(broker);
        let named = is_named(&from);
        let answers = &mut self.answers;
        let others = answers.pulls.iter().filter(|(broker, _)| !is_named(broker)).count();
        let full = answers.pulls.len() >= WAITERS || (!named && others >= WAITERS / 2);
        if full || answers.pulls.contains(&(from, first)) {
            return;
        }
        let members = (self.directory.len().saturating_sub(first) as usize).min(CARDS_MAX);
        let units = u32::try_from(members).unwrap_or(u32::MAX) / UNIT + 1;
        if answers.pulled.take((from, named), units, &PULLS, turn.now()) {
            answers.pulls.push((from, first));
            self.answer_pulls(turn);
        }
    }

    /// The root of the directory at a length.
    pub(in crate::server) fn on_root(&mut self, length: u32, root: Hash, turn: &mut Turn<'_, Self>) {
        self.answers.rooting = false;
        self.answers.root = Some((length, root));
        self.answer_pulls(turn);
    }

    fn answer_pulls(&mut self, turn: &mut Turn<'_, Self>) {
        if self.answers.pulls.is_empty() {
            return;
        }
        let length = self.directory.len();
        match self.answers.root {
            Some((of, root)) if of == length => {
                let view = self.directory.view();
                for (to, from) in core::mem::take(&mut self.answers.pulls) {
                    let ids = (from..length).take(CARDS_MAX);
                    let members = ids.map_while(|id| view.member(id).cloned()).collect();
                    turn.send(to, ServerMessage::Cards(Cards { from, members, length, root }).into());
                }
            }
            _ if self.answers.rooting => {}
            _ => {
                self.answers.rooting = true;
                self.job(ServerTask::Root(self.directory.view()), turn);
            }
        }
    }
}
