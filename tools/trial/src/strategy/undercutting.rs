//! Members that keep blocks from their commit, and build below the certificate that a given-up term names.

use std::collections::BTreeSet;

use synod_crypto::Hash;
use synod_hotstuff::{Body, Header, Leaders, Message, Proof, Qc, Statement, Tc, Terms, View};
use synod_quorum::Weights;

use super::liar::{Edited, Lie, Move, Secrets};

/// Most blocks whose withheld votes are remembered.
const WITHHELD_MAX: usize = 64;

/// How a cluster chooses its leaders, as far as its members know it beforehand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turns {
    /// Views of a term.
    pub(crate) views: u64,
    /// Whether leaders of given-up terms are benched.
    pub(crate) reputation: bool,
}

/// Votes for no two blocks of consecutive views, orders none and proves no commit, so that what is certified stays
/// uncommitted wherever its vote is needed. Once a term is given up and the next is its own, it proposes beside the
/// block whose certificate the complaints show, on that block's parent.
pub(super) struct Undercut {
    leaders: Leaders,
    /// The last view it voted in, if it did.
    voted: Option<View>,
    /// The last view it proposed in by itself.
    told: View,
    /// Blocks it gave no vote: certificates of them that its machine makes with its own vote are not shown.
    withheld: BTreeSet<(View, Hash)>,
}

impl Undercut {
    pub(super) fn new(secrets: Secrets, turns: Turns) -> Self {
        let Turns { views, reputation } = turns;
        Self {
            leaders: Leaders::new(&Weights::equal(secrets.members), Terms::new(views), reputation),
            voted: None,
            told: View::GENESIS,
            withheld: BTreeSet::new(),
        }
    }

    /// The header beside the block that `tc` names as the highest certified one, if both it and its parent are known.
    fn beside(&self, lie: &Lie<'_, '_>, tc: &Tc) -> Option<Header> {
        let known = |digest: &Hash| lie.memory.headers.iter().find(|header| header.digest() == *digest);
        let highest = known(&tc.high.digest)?;
        let view = tc.view.next();
        let genesis = Header::genesis(highest.epoch, highest.justify.kind);
        let parent = match highest.justify.view {
            View::GENESIS => &genesis,
            _ => known(&highest.parent)?,
        };
        Some(Header {
            view,
            tc: Some(tc.clone()),
            root: Body::empty().root,
            bytes: 0,
            count: 0,
            proposer: lie.act.node.member()?,
            list: self.leaders.list(parent, view, true),
            ..highest.clone()
        })
    }

    /// Its proposal, once in each view that a given-up term makes its own.
    fn proposal(&mut self, lie: &Lie<'_, '_>) -> Option<Message> {
        let own = lie.act.node;
        let is_due = |tc: &&Tc| tc.view.next() > self.told && self.leaders.after_tc(tc.view.next()) == own;
        let tc = lie.memory.tcs.iter().filter(is_due).max_by_key(|tc| tc.view)?;
        let header = self.beside(lie, tc)?;
        let (view, digest) = (header.view, header.digest());
        let signature = lie.sign(Statement::Proposal { view, digest })?;
        self.told = view;
        Some(Message::Propose { header, signature })
    }

    /// Whether to give a block of `view` its vote; asked once per recipient.
    fn votes(&mut self, view: View, digest: Hash) -> bool {
        let follows = self.voted.is_some_and(|voted| voted.precedes(view));
        if !follows && !self.withheld.contains(&(view, digest)) {
            self.voted = self.voted.max(Some(view));
            return true;
        }
        self.withheld.insert((view, digest));
        while self.withheld.len() > WITHHELD_MAX {
            self.withheld.pop_first();
        }
        false
    }

    fn hides(&self, qc: &Qc) -> bool {
        self.withheld.contains(&(qc.view, qc.digest))
    }

    /// A complaint shows no certificate that is hidden, but the one its block stands on.
    fn complaint(&self, lie: &Lie<'_, '_>, view: View, high: &Qc) -> Edited {
        if !self.hides(high) {
            return Edited::Same;
        }
        let block = lie.memory.headers.iter().find(|header| header.digest() == high.digest);
        let said = block.and_then(|header| {
            let high = header.justify.clone();
            let signature = lie.sign(Statement::Complain { view, high: high.view })?;
            Some(Message::Complain { view, high, signature })
        });
        said.map_or(Edited::Nothing, |said| Edited::Other(vec![said]))
    }
}

impl Move for Undercut {
    fn play(&mut self, lie: &mut Lie<'_, '_>) -> bool {
        // What its machine proposes in that view does not leave.
        let proposal = self.proposal(lie);
        let edited = lie.edit(|lie, _, message| {
            let gone = match &message {
                Message::Vote { view, digest, .. } => !self.votes(*view, *digest),
                Message::Order { .. } | Message::Blocks(_) | Message::Advance(Proof::Commit(_)) => true,
                Message::Propose { header, .. } => header.view <= self.told || self.hides(&header.justify),
                Message::NewView { high: qc, .. } | Message::Advance(Proof::Qc(qc)) => self.hides(qc),
                Message::Status(status) => self.hides(&status.high),
                Message::Complain { view, high, .. } => return self.complaint(lie, *view, high),
                Message::Body { .. }
                | Message::Phase(_)
                | Message::Advance(Proof::Tc(_))
                | Message::Fetch(_)
                | Message::Forward(_)
                | Message::Attest { .. } => false,
            };
            if gone { Edited::Nothing } else { Edited::Same }
        });
        proposal.iter().for_each(|proposal| lie.say_all(proposal));
        proposal.is_some() || edited
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use synod_crypto::{Hash, Signature};
    use synod_hotstuff::{Header, Kind, Message, Pack, Proof, Qc, Tc, View};
    use synod_machine::{Queue, Time, To};
    use synod_quorum::{Epoch, NodeId};
    use synod_sim::{Act, Board, Crypto, Deed, Draws, Keyring, Seen};
    use synod_wire::List;

    use super::{Turns, Undercut};
    use crate::sight::opened;
    use crate::strategy::liar::{Lie, Memory, Move as _, Secrets, sealed};

    fn certificate(of: &Header) -> Qc {
        match of.view {
            View::GENESIS => Qc::empty(Epoch(0), Kind::Generic, of.digest()),
            view => Qc::assemble(Epoch(0), (Kind::Generic, view, of.digest()), []),
        }
    }

    fn on(parent: &Header, view: u64) -> Header {
        let (justify, parent, height) = (certificate(parent), parent.digest(), parent.height + 1);
        Header { view: View(view), height, parent, justify, ..Header::genesis(Epoch(0), Kind::Generic) }
    }

    /// What member 1 of four says to member 2 instead of these messages.
    fn said(liar: &mut Undercut, memory: &Memory, messages: &[Message]) -> Vec<Message> {
        let secrets = secrets();
        let keys = BTreeMap::from([(NodeId(1), Keyring::new(Crypto::Toy, 1).keys(1))]);
        let send = |message: &Message| Deed::Send {
            to: To::Node(NodeId(2)),
            queue: Queue::CONTROL,
            body: sealed(message),
        };
        let mut deeds: Vec<Deed> = messages.iter().map(send).collect();
        let mut act = Act {
            now: Time(0),
            node: NodeId(1),
            machine: 0,
            seen: &Seen::Start,
            deeds: &mut deeds,
            peers: &[NodeId(2)],
            later: &mut Vec::new(),
            crash_after: &mut None,
            draws: &mut Draws::new(1).stream("undercut", 0),
            board: &mut Board::default(),
            keys: &keys,
        };
        liar.play(&mut Lie { act: &mut act, secrets, memory, heard: None });
        let bodies = deeds.iter().filter_map(|deed| match deed {
            Deed::Send { body, .. } => opened(body),
            _ => None,
        });
        bodies.collect()
    }

    fn secrets() -> Secrets {
        Secrets { cluster: Hash::ZERO, pack: Pack::Chain2Order, members: 4, over_budget: false, turns: None }
    }

    fn liar() -> Undercut {
        Undercut::new(secrets(), Turns { views: 2, reputation: true })
    }

    #[test]
    fn in_a_view_that_complaints_gave_it_it_builds_beside_the_block_they_show() {
        let genesis = Header::genesis(Epoch(0), Kind::Generic);
        let first = on(&genesis, 1);
        let second = on(&first, 5);
        let given_up = |view, high: &Header| Tc {
            epoch: Epoch(0),
            view: View(view),
            complaints: List::default(),
            high: certificate(high),
        };
        let mut liar = liar();
        let mut memory = Memory::default();
        memory.headers.extend([first.clone(), second.clone()]);
        // The views 2 and 3, and 10 and 11, are of member 1.
        memory.tcs.extend([given_up(7, &second), given_up(9, &second)]);
        let told = said(&mut liar, &memory, &[]);
        let [Message::Propose { header, .. }] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!((header.view, header.parent, header.height), (View(10), first.digest(), 2));
        assert_eq!(header.justify, second.justify);
        assert!(header.list.iter().any(|standing| standing.strikes > 0), "leaders that were given up");
        assert_eq!(header.tc.as_ref().map(|tc| tc.high.view), Some(View(5)));
        assert!(said(&mut liar, &memory, &[]).is_empty(), "once in a view");
    }

    #[test]
    fn no_two_blocks_in_a_row_get_its_vote_and_none_its_order() {
        let (mut liar, mut memory) = (liar(), Memory::default());
        let first = on(&Header::genesis(Epoch(0), Kind::Generic), 1);
        let second = on(&first, 2);
        memory.headers.extend([first.clone(), second.clone()]);
        let signature = Signature([7; 64]);
        let vote = |of: &Header| Message::Vote {
            kind: Kind::Generic,
            view: of.view,
            digest: of.digest(),
            signature,
        };
        let order = Message::Order { view: View(1), digest: first.digest(), signature };
        let all = [vote(&first), order, vote(&second), vote(&on(&second, 3))];
        assert_eq!(said(&mut liar, &memory, &all), [vote(&first), vote(&on(&second, 3))]);
        // Its machine counts its own vote and may hold a certificate that others lack.
        let shown = Message::Advance(Proof::Qc(certificate(&second)));
        let complaint = Message::Complain { view: View(3), high: certificate(&second), signature };
        let told = said(&mut liar, &memory, &[shown, complaint]);
        let [Message::Complain { view: View(3), high, .. }] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!(*high, second.justify);
    }
}
