//! A client's session and its links: it is opened once, and put on each link that is made, by a statement with a larger number than the
//! last one, so that nobody who repeats an old one gets the replies.

use synod_machine::{Link, Turn};
use synod_quorum::{NodeId, NodeSet};

use super::{Client, Output};
use crate::message::{ClientStatement, Message, Registration};

impl Client {
    pub(super) fn register(&self, replicas: NodeSet, turn: &mut Turn<'_, Self>) {
        let registration = Registration { key: self.config.key, nonce: self.config.nonce };
        if let Some(signature) = self.registration {
            Self::send_to(
                replicas,
                &Message::Register { registration, signature: Box::new(signature) },
                turn,
            );
        }
    }

    /// The session that f + 1 replicas name. One that names it later could not put it on its link before.
    pub(super) fn on_registered(&mut self, from: NodeId, session: u64, turn: &mut Turn<'_, Self>) {
        self.registered.insert(from, session);
        if let (true, Some(replica)) = (self.session == Some(session), from.member()) {
            self.attach(replica, turn);
            self.send_calls(from, turn);
        }
        let same: NodeSet = self
            .registered
            .iter()
            .filter(|(_, other)| **other == session)
            .fold(NodeSet::EMPTY, |set, (id, _)| set.with(*id));
        if self.session.is_none() && self.quorums.has_correct(same) {
            self.session = Some(session);
            turn.output(Output::Ready(session));
            self.all().iter().filter_map(|id| id.member()).for_each(|id| self.sign_attachment(id, turn));
        }
    }

    pub(super) fn sequence(&self, replica: u8) -> u64 {
        self.sequences.get(&replica).copied().unwrap_or(self.config.nonce)
    }

    fn sign_attachment(&self, replica: u8, turn: &mut Turn<'_, Self>) {
        if let Some(session) = self.session {
            let sequence = self.sequence(replica);
            self.sign(ClientStatement::Attach { session, replica, sequence }, turn);
        }
    }

    pub(super) fn on_link(&mut self, peer: NodeId, link: Link, turn: &mut Turn<'_, Self>) {
        let Some(replica) = peer.member().filter(|_| self.all().contains(peer)) else { return };
        if link == Link::Down {
            self.down = self.down.with(peer);
            return;
        }
        self.down.remove(peer);
        self.sequences.insert(replica, self.sequence(replica).saturating_add(1));
        if self.session.is_some() {
            self.sign_attachment(replica, turn);
        } else {
            self.register(NodeSet::only(peer), turn);
        }
    }

    pub(super) fn attach(&self, replica: u8, turn: &mut Turn<'_, Self>) {
        let signed = self.attachments.get(&replica).copied();
        if let (Some(session), Some((sequence, signature))) = (self.session, signed) {
            turn.send(
                NodeId(u32::from(replica)),
                Message::Attach { session, sequence, signature: Box::new(signature) },
            );
        }
    }
}
