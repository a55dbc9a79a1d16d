//! What puppets say: statements, certificates and blocks made by hand, good ones and bad ones.

use synod_crypto::{Hash, Scope, Signature};
use synod_hotstuff::{
    Attested, Body, Complaint, Header, Item, Kind, Message, Proof, Qc, Statement, Tc, View,
};
use synod_machine::Wall;
use synod_quorum::{Epoch, NodeId};
use synod_wire::{Blob, Bytes, List};

use super::World;

/// A block made by hand.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    /// Its header.
    pub(crate) header: Header,
    /// Its items.
    pub(crate) body: Body,
}

impl Made {
    /// The digest that names it.
    pub(crate) fn digest(&self) -> Hash {
        self.header.digest()
    }

    /// Its view.
    pub(crate) fn view(&self) -> u64 {
        self.header.view.0
    }
}

/// An item around a text.
pub(crate) fn item(text: &str) -> Item {
    Item::new(Bytes::copy_from_slice(text.as_bytes())).expect("a text that is not empty")
}

impl World {
    /// What is signed here is signed for this cluster and epoch.
    pub(crate) fn scope(&self) -> Scope {
        Scope { cluster: self.cluster, epoch: Epoch(0) }
    }

    /// A statement signed by a member.
    pub(crate) fn sign(&self, member: u32, statement: Statement) -> Signature {
        self.sign_in(self.scope(), member, statement)
    }

    /// A statement signed by a member for another scope.
    pub(crate) fn sign_in(&self, scope: Scope, member: u32, statement: Statement) -> Signature {
        self.seat(member).keys.sign(scope, NodeId(member), statement).into_inner().signature
    }

    /// The kind of the certificates that headers carry.
    pub(crate) fn kind(&self) -> Kind {
        self.setup.pack.kind()
    }

    /// The block every chain begins with.
    pub(crate) fn genesis(&self) -> Made {
        Made { header: Header::genesis(Epoch(0), self.kind()), body: Body::empty() }
    }

    /// The constant certificate of the genesis.
    pub(crate) fn genesis_qc(&self) -> Qc {
        Qc::empty(Epoch(0), self.kind(), self.genesis().digest())
    }

    /// The member whose turn the term of `view` is.
    pub(crate) fn plain(&self, view: u64) -> u32 {
        let term = view / self.parameters.term_views;
        u32::try_from(term % u64::from(self.setup.n)).expect("a member")
    }

    /// A block of `view` on `parent`, justified by `justify`, by the member whose turn it is.
    pub(crate) fn block(&self, view: u64, parent: &Made, justify: Qc, items: &[&str]) -> Made {
        let items: Vec<Item> = items.iter().map(|text| item(text)).collect();
        let body = if items.is_empty() { Body::empty() } else { Body::pack(items) };
        let empty = body.items.is_empty();
        let header = Header {
            epoch: Epoch(0),
            view: View(view),
            height: parent.header.height + 1,
            parent: justify.digest,
            justify,
            tc: None,
            root: body.root,
            bytes: if empty { 0 } else { u32::try_from(body.bytes.len()).expect("a short body") },
            count: u32::try_from(body.items.len()).expect("few items"),
            proposer: u8::try_from(self.plain(view)).expect("a member"),
            time: parent.header.time.max(Wall(self.now.0 / 1_000_000)),
            list: List::default(),
        };
        Made { header, body }
    }

    /// The same with the TC that the view needs: complaints of `complainers` who all held `justify`.
    pub(crate) fn block_after_tc(&self, view: u64, parent: &Made, justify: Qc, items: &[&str]) -> Made {
        let mut made = self.block(view, parent, justify.clone(), items);
        let all: Vec<(u32, &Qc)> = self.a_quorum().into_iter().map(|id| (id, &justify)).collect();
        made.header.tc = Some(self.tc(view - 1, &all));
        made
    }

    /// Members of quorum power, the highest ones.
    pub(crate) fn a_quorum(&self) -> Vec<u32> {
        let n = self.setup.n;
        let f = (n - 1) / 3;
        (f..n).collect()
    }

    /// A certificate of `kind`, signed by `voters` in rising order.
    pub(crate) fn qc_as(&self, kind: Kind, view: u64, digest: Hash, voters: &[u32]) -> Qc {
        let votes =
            voters.iter().map(|id| (NodeId(*id), self.sign(*id, Statement::vote(kind, View(view), digest))));
        Qc::assemble(Epoch(0), (kind, View(view), digest), votes)
    }

    /// The certificate of a block, signed by a quorum.
    pub(crate) fn qc(&self, made: &Made) -> Qc {
        if made.view() == 0 {
            return self.genesis_qc();
        }
        self.qc_as(self.kind(), made.view(), made.digest(), &self.a_quorum())
    }

    /// A TC from the complaints of members and the certificates they held.
    pub(crate) fn tc(&self, view: u64, held: &[(u32, &Qc)]) -> Tc {
        let complaints: Vec<Complaint> =
            held.iter().map(|(id, qc)| self.complaint(*id, view, qc.view.0)).collect();
        let high = held.iter().map(|(_, qc)| *qc).max_by_key(|qc| qc.view).expect("complaints").clone();
        let complaints = List::try_from(complaints).expect("few complaints");
        Tc { epoch: Epoch(0), view: View(view), complaints, high }
    }

    /// One complaint.
    pub(crate) fn complaint(&self, member: u32, view: u64, high: u64) -> Complaint {
        let statement = Statement::Complain { view: View(view), high: View(high) };
        Complaint {
            member: u8::try_from(member).expect("a member"),
            high: View(high),
            signature: self.sign(member, statement),
        }
    }

    /// A header signed by its proposer.
    pub(crate) fn propose(&self, made: &Made) -> Message {
        let statement = Statement::Proposal { view: made.header.view, digest: made.digest() };
        let signature = self.sign(u32::from(made.header.proposer), statement);
        Message::Propose { header: made.header.clone(), signature }
    }

    /// The body of a block.
    pub(crate) fn body(&self, made: &Made) -> Message {
        let bytes = Blob::try_from(made.body.bytes.clone()).expect("a short body");
        Message::Body { view: made.header.view, root: made.body.root, bytes }
    }

    /// A vote.
    pub(crate) fn vote(&self, member: u32, kind: Kind, made: &Made) -> Message {
        let (view, digest) = (made.header.view, made.digest());
        Message::Vote {
            kind,
            view,
            digest,
            signature: self.sign(member, Statement::vote(kind, view, digest)),
        }
    }

    /// An order vote.
    pub(crate) fn order(&self, member: u32, made: &Made) -> Message {
        let (view, digest) = (made.header.view, made.digest());
        Message::Order { view, digest, signature: self.sign(member, Statement::Order { view, digest }) }
    }

    /// A complaint with the certificate beside it.
    pub(crate) fn complain(&self, member: u32, view: u64, high: &Qc) -> Message {
        let statement = Statement::Complain { view: View(view), high: high.view };
        Message::Complain { view: View(view), high: high.clone(), signature: self.sign(member, statement) }
    }

    /// A certificate that moves whoever lacks it.
    pub(crate) fn advance(&self, qc: &Qc) -> Message {
        Message::Advance(Proof::Qc(qc.clone()))
    }

    /// A TC that moves whoever lacks it.
    pub(crate) fn advance_tc(&self, tc: &Tc) -> Message {
        Message::Advance(Proof::Tc(tc.clone()))
    }

    /// An attestation.
    pub(crate) fn attest(&self, member: u32, state: Attested) -> Message {
        Message::Attest { state, signature: self.sign(member, Statement::Checkpoint(state)) }
    }
}
