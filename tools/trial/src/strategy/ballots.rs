//! Certificates that colluders put together themselves, from the votes they hear and all the keys they share. Within the
//! budget they only know sooner what others know too; beyond it they certify two blocks of one view.

use std::collections::VecDeque;

use synod_crypto::{Hash, Signature};
use synod_hotstuff::{Header, Kind, Message, Qc, Statement};
use synod_quorum::NodeId;
use synod_sim::Act;

use super::liar::{Secrets, kinds, scope};
use crate::oracle::quorum;

/// Most votes that are remembered.
const VOTES_MAX: usize = 256;

/// One vote of a member: for which block, in which phase.
struct Ballot {
    kind: Kind,
    digest: Hash,
    from: NodeId,
    signature: Signature,
}

/// The votes that a colluder heard.
#[derive(Default)]
pub(super) struct Ballots {
    heard: VecDeque<Ballot>,
}

impl Ballots {
    /// Remembers a vote, and names the block it is for; of a proposal only the name.
    pub(super) fn hear(&mut self, from: NodeId, message: &Message) -> Option<Hash> {
        match message {
            Message::Vote { kind, digest, signature, .. } => {
                if self.heard.len() == VOTES_MAX {
                    self.heard.pop_front();
                }
                let (kind, digest, signature) = (*kind, *digest, *signature);
                self.heard.push_back(Ballot { kind, digest, from, signature });
                Some(digest)
            }
            Message::Propose { header, .. } => Some(header.digest()),
            _ => None,
        }
    }

    /// The certificate of a block's first phase by the members that voted for it and everybody whose key is known; `None`
    /// while these are too few.
    pub(super) fn certified(&self, header: &Header, secrets: Secrets, act: &Act<'_>) -> Option<Qc> {
        let (kind, digest) = (kinds(secrets.pack)[0], header.digest());
        let mut votes = Vec::new();
        for member in (0..secrets.members).map(NodeId) {
            let statement = Statement::vote(kind, header.view, digest);
            let own = act.keys.get(&member).map(|keys| keys.sign(scope(secrets), member, statement));
            let own = own.map(|claim| claim.into_inner().signature);
            let cast = || self.heard.iter().find(|b| (b.kind, b.digest, b.from) == (kind, digest, member));
            votes.extend(own.or_else(|| cast().map(|b| b.signature)).map(|signature| (member, signature)));
        }
        let enough = votes.len() >= quorum(secrets.members) as usize;
        enough.then(|| Qc::assemble(header.epoch, (kind, header.view, digest), votes))
    }
}

#[cfg(test)]
mod tests {
    use super::Ballots;
    use crate::strategy::liar::Secrets;
    use std::collections::BTreeMap;
    use synod_crypto::Hash;
    use synod_hotstuff::{Header, Kind, Message, Pack, Statement};
    use synod_machine::{Time, Wall};
    use synod_quorum::{Epoch, NodeId};
    use synod_sim::{Act, Board, Crypto, Draws, Keyring, Seen};

    /// How many of two blocks of one view are certified where one honest member voted for each, and the colluders hold
    /// the keys of these members.
    fn certified(known: &[u32]) -> usize {
        let secrets = Secrets {
            cluster: Hash::ZERO,
            pack: Pack::Chain3,
            members: 4,
            over_budget: known.len() > 1,
            turns: None,
        };
        let ring = Keyring::new(Crypto::Toy, 1);
        let keys = |id: u32| (NodeId(id), ring.keys(u64::from(id)));
        let blocks =
            [1, 2].map(|time| Header { time: Wall(time), ..Header::genesis(Epoch(0), Kind::Generic) });
        let mut ballots = Ballots::default();
        for (block, voter) in blocks.iter().zip([2, 3]) {
            let (view, digest) = (block.view, block.digest());
            let statement = Statement::vote(Kind::Generic, view, digest);
            let signed = keys(voter).1.sign(super::scope(secrets), NodeId(voter), statement);
            let signature = signed.into_inner().signature;
            let vote = Message::Vote { kind: Kind::Generic, view, digest, signature };
            assert_eq!(ballots.hear(NodeId(voter), &vote), Some(digest));
        }
        let held: BTreeMap<_, _> = known.iter().map(|id| keys(*id)).collect();
        let act = Act {
            now: Time(0),
            node: NodeId(0),
            machine: 0,
            seen: &Seen::Start,
            deeds: &mut Vec::new(),
            peers: &[],
            later: &mut Vec::new(),
            crash_after: &mut None,
            draws: &mut Draws::new(1).stream("ballots", 0),
            board: &mut Board::default(),
            keys: &held,
        };
        blocks.iter().filter_map(|block| ballots.certified(block, secrets, &act)).count()
    }

    #[test]
    fn only_beyond_the_budget_two_blocks_of_one_view_are_certified() {
        assert_eq!((certified(&[0]), certified(&[0, 1])), (0, 2));
    }
}
