//! A member that equivocates: it signs two headers for each view it leads, tells each to one half of its peers, and
//! votes for both.
//!
//! The second header, the twin, differs from the first in its agreed time only: it keeps every rule that a header
//! alone can break, and its body is the same. The machine inside stays honest and knows one of the two.
//!
//! *Bounds.* [`TWINS_MAX`] pairs are remembered, the newest ones.

use std::collections::VecDeque;

use bytes::Bytes;
use synod_crypto::{Hash, Keys, Scope, Signature};
use synod_hotstuff::{Header, Message, Statement, View};
use synod_machine::{Message as _, To};
use synod_quorum::{NodeId, NodeSet};
use synod_wire::{Limits, Wire, Writer};

/// Most pairs of headers remembered: two terms of a leader.
const TWINS_MAX: usize = 64;

/// The key that signs twice. Nobody but a drill makes one.
pub(crate) struct Signer {
    keys: Keys,
    cluster: Hash,
    own: NodeId,
}

impl Signer {
    pub(crate) const fn new(keys: Keys, cluster: Hash, own: NodeId) -> Self {
        Self { keys, cluster, own }
    }

    fn sign(&self, header: &Header, statement: Statement) -> Signature {
        let scope = Scope { cluster: self.cluster, epoch: header.epoch };
        self.keys.sign(scope, self.own, statement).into_inner().signature
    }
}

/// What a replica says twice.
pub(super) struct Double {
    signer: Signer,
    /// Pairs of headers of one view, both of this member.
    twins: VecDeque<(Header, Header)>,
}

impl Double {
    pub(super) const fn new(signer: Signer) -> Self {
        Self { signer, twins: VecDeque::new() }
    }

    /// What leaves instead of `body`, if something else does.
    pub(super) fn said(&mut self, to: To, body: &Bytes) -> Option<Vec<(To, Bytes)>> {
        match Message::decode(body.slice(1..), &Limits { frame_max: 4 << 20 }).ok()? {
            Message::Propose { header, .. } if header.proposer() == self.signer.own => {
                Some(self.propose(header, to, body))
            }
            Message::Vote { kind, view, digest, .. } => {
                let header = self.other(view, digest)?;
                let digest = header.digest();
                let signature = self.signer.sign(header, Statement::vote(kind, view, digest));
                let second = Message::Vote { kind, view, digest, signature };
                Some(vec![(to, body.clone()), (to, sealed(&second))])
            }
            Message::Order { view, digest, .. } => {
                let header = self.other(view, digest)?;
                let digest = header.digest();
                let signature = self.signer.sign(header, Statement::Order { view, digest });
                let second = Message::Order { view, digest, signature };
                Some(vec![(to, body.clone()), (to, sealed(&second))])
            }
            _ => None,
        }
    }

    fn propose(&mut self, header: Header, to: To, body: &Bytes) -> Vec<(To, Bytes)> {
        let view = header.view;
        let mut twin = header.clone();
        twin.time.0 += 1;
        let signature = self.signer.sign(&twin, Statement::Proposal { view, digest: twin.digest() });
        let second = sealed(&Message::Propose { header: twin.clone(), signature });
        if self.other(view, header.digest()).is_none() {
            if self.twins.len() == TWINS_MAX {
                self.twins.pop_front();
            }
            self.twins.push_back((header, twin));
        }
        let told = halves(to, view).into_iter().zip([body.clone(), second]);
        told.filter(|(half, _)| !half.is_empty()).map(|(half, said)| (To::Set(half), said)).collect()
    }

    /// The other header of the pair.
    fn other(&self, view: View, digest: Hash) -> Option<&Header> {
        let (one, two) = self.twins.iter().find(|(one, _)| one.view == view)?;
        if digest == one.digest() { Some(two) } else { (digest == two.digest()).then_some(one) }
    }
}

/// One half of the receivers and the other: by parity, and turned about with every view. A half may be empty.
fn halves(to: To, view: View) -> [NodeSet; 2] {
    let set = match to {
        To::Node(id) => NodeSet::only(id),
        To::Set(set) => set,
    };
    let odd: NodeSet = set.iter().filter(|id| (u64::from(id.0) + view.0) % 2 == 1).collect();
    [set.minus(odd), odd]
}

fn sealed(message: &Message) -> Bytes {
    let mut out = Writer::with_capacity(1 + message.size_hint());
    out.byte(Message::VERSION);
    message.write(&mut out);
    out.freeze()
}

#[cfg(test)]
mod tests {
    use std::any::Any;
    use std::sync::Arc;

    use super::*;
    use synod_crypto::{Claim, Seed};
    use synod_hotstuff::{Config, Identity, Kind, Pack, Parameters, Replica};
    use synod_machine::broadcast::{Position, Submit, Ticket};
    use synod_machine::host::{At, ErasedJob, Host, HostConfig, Hosted, LaneLog, Lsn, Platform};
    use synod_machine::register::RegisterOp;
    use synod_machine::{Condition, Fault, Keep, Note, Queue, Rule, Time, Wall};
    use synod_quorum::{Epoch, Member, Roster};

    use crate::drill::{Drill, Drilled};

    const CLUSTER: Hash = Hash([9; 32]);
    /// Who leads view 1.
    const LEADER: NodeId = NodeId(0);

    fn keys(id: u8) -> Keys {
        Keys::ed25519(&Seed::new([id + 1; 32]), [0; 32])
    }

    /// Keeps what a machine asks for.
    #[derive(Default)]
    struct Kept {
        sent: Vec<(To, Bytes)>,
        jobs: Vec<ErasedJob>,
        lsn: Lsn,
    }

    impl Platform for Kept {
        fn send(&mut self, to: To, _: Queue, body: Bytes) {
            self.sent.push((to, body));
        }
        fn register(&mut self, _: NodeId, _: Queue, _: &RegisterOp) {}
        fn append(&mut self, _: Keep, _: Bytes) -> Lsn {
            self.lsn += 1;
            self.lsn
        }
        fn store(&mut self, _: Hash, _: Bytes) -> Lsn {
            self.lsn += 1;
            self.lsn
        }
        fn erase(&mut self, _: Hash) {}
        fn load(&mut self, _: Hash) {}
        fn compact(&mut self) {}
        fn submit(&mut self, job: ErasedJob) {
            self.jobs.push(job);
        }
        fn output(&mut self, _: Box<dyn Any + Send>) {}
        fn blame(&mut self, _: NodeId, _: Fault) {}
        fn applied(&mut self, _: Rule) {}
        fn note(&mut self, _: Note) {}
    }

    fn leader() -> Box<dyn Hosted> {
        let member = |id| Member { key: keys(id).public(), power: 1 };
        let roster = Roster::new(Epoch(0), (0..4).map(member).collect()).expect("four members");
        let identity = Identity { own: LEADER, cluster: CLUSTER, roster };
        let parameters = Parameters::of(Pack::Chain2Order, 4);
        let config = Config::new(identity, parameters, Position(0)).expect("sound parameters");
        let host = HostConfig { own: LEADER, machine: 0, seed: 1, jobs_max: 64, checked: true };
        let log = LaneLog { condition: Condition::Fresh, records: Vec::new() };
        Box::new(Host::<Replica>::open(host, config, log).expect("an empty log"))
    }

    /// What the leader of view 1 says once a payload is submitted to it.
    fn said(drill: &Arc<Drill>) -> Vec<(To, Message)> {
        let mut host = Drilled::wrap(leader(), drill, Some(Signer::new(keys(0), CLUSTER, LEADER)));
        let mut kept = Kept::default();
        let at = |ms: u64| At { now: Time(ms * 1_000_000), wall: Wall(1_000 + ms) };
        host.start(at(0), &mut kept);
        let payload = Bytes::from_static(b"a payload");
        host.input(Box::new(Submit::Payload { ticket: Ticket(1), payload }), at(1), &mut kept);
        for ms in 2..50 {
            let jobs = std::mem::take(&mut kept.jobs);
            for done in host.runner()(jobs, &keys(0)) {
                host.done(done, at(ms), &mut kept);
            }
            host.durable(kept.lsn, &mut kept);
            host.tick(at(ms), &mut kept);
        }
        let limits = Limits::default();
        let open = |body: Bytes| Message::decode(body.slice(1..), &limits).expect("a message");
        kept.sent.into_iter().map(|(to, body)| (to, open(body))).collect()
    }

    fn is_signed(statement: Statement, signature: Signature) -> bool {
        let scope = Scope { cluster: CLUSTER, epoch: Epoch(0) };
        let claim = Claim { statement, scope, signer: LEADER, key: keys(0).public(), signature };
        claim.verify(&keys(1)).is_ok()
    }

    fn proposals(said: &[(To, Message)]) -> Vec<(To, Header, Signature)> {
        let told = said.iter().filter_map(|(to, message)| match message {
            Message::Propose { header, signature } => Some((*to, header.clone(), *signature)),
            _ => None,
        });
        told.collect()
    }

    #[test]
    fn a_drilled_leader_signs_two_proposals_of_one_view_and_votes_for_both() {
        let drill = Arc::<Drill>::default();
        drill.equivocate(true);
        let said = said(&drill);
        let told = proposals(&said);
        let [(to, one, first), (others, two, second)] = told.as_slice() else {
            panic!("two proposals, not {told:?}")
        };
        assert_eq!(*to, To::Set(NodeSet::only(NodeId(1)).with(NodeId(3))));
        assert_eq!(*others, To::Set(NodeSet::only(NodeId(2))));
        assert_eq!((one.view, two.view, one.root), (View(1), View(1), two.root), "one view, one body");
        assert_ne!(one.digest(), two.digest());
        for (header, signature) in [(one, first), (two, second)] {
            let statement = Statement::Proposal { view: header.view, digest: header.digest() };
            assert!(is_signed(statement, *signature), "peers take it");
        }
        let mut voted = Vec::new();
        for (to, message) in &said {
            if let Message::Vote { kind, view, digest, signature } = message {
                assert_eq!(*to, To::Set(NodeSet::first(4).without(LEADER)));
                assert!(is_signed(Statement::vote(*kind, *view, *digest), *signature));
                assert_eq!((*kind, *view), (Kind::Generic, View(1)));
                voted.push(*digest);
            }
        }
        assert_eq!(voted, [one.digest(), two.digest()]);
    }

    #[test]
    fn a_leader_that_is_not_told_to_equivocate_signs_once() {
        let drill = Arc::<Drill>::default();
        let said = said(&drill);
        let told = proposals(&said);
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].0, To::Set(NodeSet::first(4).without(LEADER)));
        let votes = said.iter().filter(|(_, message)| matches!(message, Message::Vote { .. })).count();
        assert_eq!(votes, 1);
        drill.equivocate(true);
        drill.equivocate(false);
        assert_eq!(proposals(&self::said(&drill)).len(), 1, "healed");
    }
}
