//! A server whose bodies the others collected looks for a certified state itself (section 4.9).
//!
//! Stores of f + 1 servers that say GONE below a certified checkpoint count a correct one, so there is such a checkpoint. Which
//! one it is, f + 1 servers must say alike: a correct one among them holds it, durable and certified. What was decided behind it
//! stays here, for the ordering layer does not say it again.
//!
//! *Bounds.* A position, a root and a list of names per server, of as many clients at most as are here and on their way in what
//! is accepted ([`Behind::bytes_max`]): a state that claims more is refused. Names are kept while this server is stuck alone. The
//! batches that are gone are among those that wait.

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::Hash;
use synod_machine::Turn;
use synod_machine::broadcast::{AtomicBroadcast, Position};
use synod_quorum::{NodeId, NodeSet};

use super::transfer::{Loading, PATIENCE};
use super::{BACKLOG_MAX, Mark, Server, ServerTimer};
use crate::fault::Fault;
use crate::message::{ServerMessage, TransferMessage};
use crate::statement::Kind;
use crate::trace::{Note, NoteName};

/// A position and its root.
type Place = (Position, Hash);

/// What a server knows of being behind.
#[derive(Clone, Debug, Default)]
pub(super) struct Behind {
    /// Batches that the store gave up.
    gone: BTreeSet<Hash>,
    /// Whether the others are being asked.
    asking: bool,
    /// What each of them said last.
    said: BTreeMap<NodeId, Place>,
    /// The names of what was said.
    named: BTreeMap<Place, Mark>,
    /// Others were asked for chunks of a state in this life, so that parts of that may come late.
    pub(super) fetched: bool,
}

impl Behind {
    /// Takes what a server said; the names that f + 1 say alike, and who named another root for that position.
    fn hear(
        &mut self,
        from: NodeId,
        root: Hash,
        mark: Mark,
        enough: impl Fn(NodeSet) -> bool,
    ) -> Option<(Mark, NodeSet)> {
        let place = (mark.position, root);
        self.said.insert(from, place);
        self.named.entry(place).or_insert(mark);
        let said = &self.said;
        self.named.retain(|place, _| said.values().any(|known| known == place));
        let equal = said.iter().filter(|(_, known)| **known == place).map(|(id, _)| *id).collect();
        if !enough(equal) {
            return None;
        }
        let liars = said.iter().filter(|(_, known)| known.0 == place.0 && known.1 != root);
        let liars = liars.map(|(id, _)| *id).collect();
        let mark = self.named.remove(&place)?;
        self.stop();
        Some((mark, liars))
    }

    /// Nobody is asked any more.
    pub(super) fn stop(&mut self) {
        self.asking = false;
        self.said.clear();
        self.named.clear();
    }

    /// Forgets what is not waited for any more.
    pub(super) fn forget(&mut self, waits: impl Fn(&Hash) -> bool) {
        self.gone.retain(|digest| waits(digest));
    }

    pub(super) const fn is_asking(&self) -> bool {
        self.asking
    }

    pub(super) fn bytes(&self) -> u64 {
        let names: usize = self.named.values().map(Mark::chunks).sum();
        (32 * names + 128 * (self.said.len() + self.named.len() + self.gone.len())) as u64
    }

    /// Most bytes of what so many others say of states of so many chunks.
    pub(super) const fn bytes_max(others: u64, chunks: u64) -> u64 {
        others * (32 * chunks + 256) + 128 * BACKLOG_MAX as u64
    }
}

impl<A: AtomicBroadcast> Server<A> {
    /// A batch that is needed was collected by those who had it.
    pub(super) fn on_gone(&mut self, digest: &Hash, turn: &mut Turn<'_, Self>) {
        if let Some(accepted) = self.backlog.iter().find(|accepted| accepted.statement.digest == *digest) {
            turn.note(Note::of(NoteName::Behind, [accepted.position.0, self.delivered, 0], *digest));
            let backlog = &self.backlog;
            let waits = |digest: &Hash| backlog.iter().any(|accepted| accepted.statement.digest == *digest);
            self.behind.forget(waits);
            self.behind.gone.insert(*digest);
        }
    }

    /// Most clients that a state up to here can have: those of this one, and the cards of what waits to be delivered.
    pub(super) fn clients_max(&self) -> u64 {
        let cards = self.backlog.iter().filter(|accepted| accepted.statement.kind == Kind::SignUp);
        let cards: u64 = cards.map(|accepted| u64::from(accepted.statement.count)).sum();
        u64::from(self.directory.len()) + cards
    }

    /// Whether the next batch to deliver is one that nobody has any more.
    fn is_stuck(&self) -> bool {
        let gone = |digest: &Hash| self.behind.gone.contains(digest);
        let next = self.backlog.front().filter(|next| next.batch.is_none());
        self.work.is_none() && next.is_some_and(|next| gone(&next.statement.digest))
    }

    /// Asks the others for their newest certified state, once nothing else leads on.
    pub(super) fn seek(&mut self, turn: &mut Turn<'_, Self>) {
        let stuck = self.loading.is_none() && !self.halted && self.is_stuck();
        if !self.behind.asking && stuck {
            self.behind.asking = true;
            self.ask_newest(turn);
        } else if self.behind.asking && !stuck {
            self.behind.stop();
        }
    }

    /// Asks for a state that lies before what is decided here: only behind such a one everything is known.
    pub(super) fn ask_newest(&mut self, turn: &mut Turn<'_, Self>) {
        if !self.is_stuck() {
            return self.behind.stop();
        }
        let wanted = TransferMessage::NewestWanted(self.checkpoints.decided());
        let others = self.settings.cluster.roster().others(self.settings.own);
        turn.send(others, ServerMessage::Transfer(wanted).into());
        turn.arm(ServerTimer::Fetch, PATIENCE);
    }

    /// The newest certified checkpoint here at or below a position.
    pub(super) fn newest(&self, until: Position) -> Option<&Mark> {
        let (marks, stable) = (&self.checkpoints.marks, self.checkpoints.stable);
        marks.iter().rev().find(|mark| mark.position <= until && mark.height <= stable)
    }

    /// What another server says is its newest certified state.
    pub(super) fn on_newest(&mut self, from: NodeId, mark: Mark, turn: &mut Turn<'_, Self>) {
        let cluster = self.settings.cluster.clone();
        if !mark.is_whole(cluster.rules().horizon) || u64::from(mark.length) > self.clients_max() {
            return turn.blame(from, Fault::WrongStatePart);
        }
        if mark.height <= self.delivered || mark.position > self.checkpoints.decided() {
            return;
        }
        let (root, quorums) = (mark.root(cluster.domains()), cluster.quorums());
        let heard = self.behind.hear(from, root, mark, |set| quorums.has_correct(set));
        let Some((mark, liars)) = heard else { return };
        liars.iter().for_each(|liar| turn.blame(liar, Fault::WrongStatePart));
        self.work = None;
        self.loading = Some(Loading::behind(mark.position, root, self.behind.fetched));
        self.take_names(mark, turn);
    }
}

#[cfg(test)]
mod tests {
    use super::Behind;
    use crate::server::Mark;
    use synod_crypto::Hash;
    use synod_machine::broadcast::Position;
    use synod_quorum::NodeId;
    use synod_wire::{Draw, Drawn};

    #[test]
    fn names_count_together_only_when_position_and_root_are_equal() {
        let mark = |at: u64| Mark { position: Position(at), ..Mark::draw(&mut Drawn::new(at)) };
        let [one, two] = [8, 16].map(mark);
        let mut behind = Behind::default();
        let [root, other] = [Hash([1; 32]), Hash([2; 32])];
        let two_of = |set: synod_quorum::NodeSet| set.count() >= 2;
        assert!(behind.hear(NodeId(0), root, one.clone(), two_of).is_none());
        assert!(behind.hear(NodeId(0), root, one.clone(), two_of).is_none(), "one server counts once");
        assert!(behind.hear(NodeId(1), other, one.clone(), two_of).is_none(), "another root");
        assert!(behind.hear(NodeId(2), root, two.clone(), two_of).is_none(), "another position");
        assert_eq!(behind.named.len(), 3);
        // The newest word of a server counts.
        assert!(behind.hear(NodeId(0), root, two.clone(), |set| set.count() >= 3).is_none());
        assert_eq!(behind.named.len(), 2, "what nobody says any more is forgotten");
        assert!(behind.hear(NodeId(3), other, two.clone(), two_of).is_none());
        let (mark, liars) = behind.hear(NodeId(1), root, two.clone(), two_of).expect("two of the same");
        assert_eq!((mark, liars.iter().collect::<Vec<_>>()), (two, vec![NodeId(3)]));
        assert!(behind.bytes() == 0 && !behind.is_asking());
    }
}
