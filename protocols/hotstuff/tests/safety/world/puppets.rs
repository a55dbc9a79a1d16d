//! What puppets do to the subject of a test, in one call each, and what the subject said.

use std::collections::BTreeSet;

use synod_crypto::Hash;
use synod_hotstuff::{Blocks, Kind, Message, Timer, Want};
use synod_wire::List;

use super::{Made, World};

impl World {
    /// Shows the subject a block as its leader would: body, then header.
    pub(crate) fn show(&mut self, subject: u32, made: &Made) {
        let from = u32::from(made.header.proposer);
        let (body, header) = (self.body(made), self.propose(made));
        if !made.header.is_empty() {
            self.say(from, subject, body);
        }
        self.say(from, subject, header);
    }

    /// Shows the subject the certificate of a block.
    pub(crate) fn certify(&mut self, subject: u32, made: &Made) {
        let message = self.advance(&self.qc(made));
        let from = self.another(subject);
        self.say(from, subject, message);
    }

    /// A member that is not the subject.
    pub(crate) fn another(&self, subject: u32) -> u32 {
        if subject == 1 { 2 } else { 1 }
    }

    /// Certifies each block for the subject by showing the next one on it, as a run of good leaders would: blocks of the
    /// views `from` and up, one item each. The last one is shown and not certified.
    pub(crate) fn good_views(&mut self, subject: u32, from: u64, count: u64, on: &Made) -> Vec<Made> {
        let mut parent = on.clone();
        let mut all = Vec::new();
        for view in from..from + count {
            let text = format!("v{view}");
            let justify = self.qc(&parent);
            let made = match parent.view() + 1 == view {
                true => self.block(view, &parent, justify, &[&text]),
                false => self.block_after_tc(view, &parent, justify, &[&text]),
            };
            self.show(subject, &made);
            all.push(made.clone());
            parent = made;
        }
        all
    }

    /// Views and blocks the subject voted for, as far as its votes are still on their way.
    pub(crate) fn votes(&self, subject: u32) -> BTreeSet<(u64, Kind, Hash)> {
        let votes = self.flight.iter().filter(|envelope| envelope.from == subject);
        votes
            .filter_map(|envelope| match &envelope.message {
                Message::Vote { view, kind, digest, .. } => Some((view.0, *kind, *digest)),
                _ => None,
            })
            .collect()
    }

    /// Whether the subject voted for a block, in the first phase of its pack.
    pub(crate) fn voted(&self, subject: u32, made: &Made) -> bool {
        self.votes(subject).contains(&(made.view(), self.kind(), made.digest()))
    }

    /// Views and blocks the subject sent order votes for.
    pub(crate) fn orders(&self, subject: u32) -> BTreeSet<(u64, Hash)> {
        let orders = self.flight.iter().filter(|envelope| envelope.from == subject);
        orders
            .filter_map(|envelope| match &envelope.message {
                Message::Order { view, digest, .. } => Some((view.0, *digest)),
                _ => None,
            })
            .collect()
    }

    /// Views the subject complained about, with the view of the certificate it showed.
    pub(crate) fn complaints(&self, subject: u32) -> BTreeSet<(u64, u64)> {
        let complaints = self.flight.iter().filter(|envelope| envelope.from == subject);
        complaints
            .filter_map(|envelope| match &envelope.message {
                Message::Complain { view, high, .. } => Some((view.0, high.view.0)),
                _ => None,
            })
            .collect()
    }

    /// Digests and views of the headers the subject proposed.
    pub(crate) fn proposals(&self, subject: u32) -> BTreeSet<(u64, Hash)> {
        let proposals = self.flight.iter().filter(|envelope| envelope.from == subject);
        proposals
            .filter_map(|envelope| match &envelope.message {
                Message::Propose { header, .. } => Some((header.view.0, header.digest())),
                _ => None,
            })
            .collect()
    }

    /// The view timer of the subject runs out.
    pub(crate) fn expire(&mut self, subject: u32) -> bool {
        self.fire(subject, |timer| matches!(timer, Timer::View(_)))
    }

    /// Whoever the subject asks for one of these blocks answers with its header, and with nothing else.
    pub(crate) fn answer_fetches(&mut self, subject: u32, known: &[Made]) -> u32 {
        let mut answered = 0;
        let asked = |envelope: &super::Envelope| {
            envelope.from == subject && matches!(envelope.message, Message::Fetch(Want::Blocks(_)))
        };
        while let Some(at) = self.flight.iter().position(asked) {
            let envelope = self.flight.remove(at).expect("it was found there");
            let Message::Fetch(Want::Blocks(digests)) = envelope.message else { continue };
            let found = known.iter().filter(|made| digests.contains(&made.digest()));
            let headers: Vec<_> = found.map(|made| made.header.clone()).collect();
            if !headers.is_empty() {
                answered += 1;
                let headers = List::try_from(headers).expect("few headers");
                let blocks = Blocks { headers, bodies: List::default(), proof: None, anchor: None };
                self.say(envelope.to, subject, Message::Blocks(blocks));
            }
        }
        answered
    }
}
