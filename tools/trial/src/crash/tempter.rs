//! The tempter: all other members in one hand, with their keys, after one member came back from a crash.
//!
//! For every view about which that member may have promised something it offers valid evidence for the view, then
//! another block than the one of the conversation, then that one; certificates of both; a second phase for both; and to
//! a leader something to propose. Then time runs out, the member complains, and the term it gave up goes on, as do later
//! ones. It is far beyond the budget of faults on purpose: promises of one member hold whatever the others do.

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::{Hash, Keys, Scope, Signature};
use synod_hotstuff::{
    Blocks, Body, Complaint, Header, Item, Kind, Message, Pack, Piece, Proof, Qc, Statement, Tc, Terms, View,
    Want,
};
use synod_machine::{Span, Wall};
use synod_quorum::{Epoch, NodeId};
use synod_wire::{Blob, Bytes, List};

use super::rig::Rig;
use super::tape::{CALLS, Lore};
use crate::systems::hotstuff::cluster;

/// How many views below the newest promise are offered again.
const BELOW: u64 = 5;
/// Longer than any view of the conversation lasts.
const PATIENCE: Span = Span::millis(450);

/// What the tempter knows and has.
pub(super) struct Tempter<'a> {
    own: NodeId,
    pack: Pack,
    term_views: u64,
    /// Keys of all members, by id.
    keys: &'a [Keys],
    lore: &'a Lore,
    /// Blocks of the conversation and those made here, one per view, as the chain that is offered.
    chain: BTreeMap<u64, Header>,
    /// Everything that can be fetched.
    pub(super) known: BTreeMap<Hash, Header>,
    bodies: BTreeMap<Hash, Bytes>,
    /// The last block offered.
    tip: Header,
    /// The newest view about which it may have promised something.
    newest: u64,
    steps: u32,
}

impl<'a> Tempter<'a> {
    /// A tempter of member `own`.
    pub(super) fn new(
        own: NodeId,
        (pack, term_views): (Pack, u64),
        keys: &'a [Keys],
        lore: &'a Lore,
    ) -> Self {
        let chain = lore.headers.values().map(|header| (header.view.0, header.clone())).collect();
        let tip = Header::genesis(Epoch(0), pack.kind());
        let (known, bodies) = (BTreeMap::new(), BTreeMap::new());
        Self { own, pack, term_views, keys, lore, chain, known, bodies, tip, newest: 0, steps: 0 }
    }

    /// Tempts a member that may have promised something about these views, 200 steps long.
    pub(super) fn tempt(&mut self, rig: &mut Rig, promised: &BTreeSet<u64>) {
        rig.start();
        self.ask(rig);
        let newest = promised.last().copied().unwrap_or(0);
        self.newest = newest;
        let mut next = newest.saturating_sub(BELOW).max(1);
        self.tip = self.below(next);
        while next <= newest + 1 {
            self.offer(rig, next);
            next += 1;
        }
        while self.steps < CALLS {
            self.ask(rig);
            // Nobody moves until the member gives the term up; then it is offered what it gave up.
            rig.pass(PATIENCE);
            self.answer(rig);
            let end = Terms::new(self.term_views).end(View(next)).0;
            while next <= end {
                self.offer(rig, next);
                next += 1;
            }
            self.complain(rig, end);
            self.offer(rig, next);
            next += 1;
        }
    }

    /// The newest block of the conversation below a view.
    fn below(&self, view: u64) -> Header {
        let found = self.chain.range(..view).next_back().map(|(_, header)| header.clone());
        found.unwrap_or_else(|| Header::genesis(Epoch(0), self.pack.kind()))
    }

    fn leader(&self, view: u64) -> u32 {
        u32::try_from(view / self.term_views % self.keys.len() as u64).unwrap_or(0)
    }

    /// Evidence for a view, two blocks of it, and certificates of both.
    fn offer(&mut self, rig: &mut Rig, view: u64) {
        let leader = self.leader(view);
        let mine = leader == self.own.0;
        let real = self.chain.get(&view).cloned();
        if mine && real.is_none() {
            return self.lead(rig, view);
        }
        let Some(block) = real.or_else(|| self.make(view)) else { return };
        self.show_evidence(rig, &block);
        if mine {
            // Its own block is certified; before that it may believe that it never proposed one.
            self.ask(rig);
            self.certify(rig, &block);
        } else {
            let other = Header { time: Wall(block.time.0 + 1), ..block.clone() };
            let from = NodeId(leader);
            for header in [&other, &block] {
                self.propose(rig, from, header);
            }
            if self.pack == Pack::Basic {
                return self.phases(rig, view, (other, block));
            }
            self.certify(rig, &other);
            self.certify(rig, &block);
        }
        self.chain.insert(view, block.clone());
        self.tip = block;
    }

    /// Basic pack: each phase for both blocks. Who locks on the other one goes on with it.
    fn phases(&mut self, rig: &mut Rig, view: u64, (other, block): (Header, Header)) {
        let leader = NodeId(u32::from(block.proposer));
        let newest = view == self.newest;
        let second = newest.then_some((Kind::Precommit, &other));
        let first = [(Kind::Prepare, &other)].into_iter().chain(second);
        for (kind, of) in first.chain([(Kind::Prepare, &block), (Kind::Precommit, &block)]) {
            let qc = self.qc(kind, of);
            self.say(rig, leader, &Message::Phase(qc));
        }
        self.tip = block;
        if newest && rig.locked() == Some(other.digest()) {
            self.chain.split_off(&view);
            self.tip = other;
        }
        self.chain.insert(view, self.tip.clone());
    }

    /// It is the member's own view: it gets evidence and something to propose, and its block goes on.
    fn lead(&mut self, rig: &mut Rig, view: u64) {
        let justify = self.qc(self.pack.kind(), &self.tip);
        let tc = (self.tip.view.0 + 1 != view && view.is_multiple_of(self.term_views))
            .then(|| self.tc(view - 1, &justify));
        self.show(rig, justify.clone(), tc);
        for from in self.others() {
            self.say(rig, from, &Message::NewView { view: View(view), high: justify.clone() });
        }
        self.ask(rig);
        let proposed = self.known.values().find(|header| header.view.0 == view).cloned();
        if let Some(block) = proposed {
            self.certify(rig, &block);
            self.chain.insert(view, block.clone());
            self.tip = block;
        }
    }

    /// A block of a view that the conversation did not reach; none where there is no evidence for it.
    fn make(&mut self, view: u64) -> Option<Header> {
        let parent = self.tip.clone();
        let justify = self.qc(self.pack.kind(), &parent);
        let direct = parent.view.0 + 1 == view;
        let tc = (!direct && view.is_multiple_of(self.term_views)).then(|| self.tc(view - 1, &justify));
        if !direct && tc.is_none() {
            return None;
        }
        let item = Item::new(Bytes::from(format!("tempting {view}").into_bytes()))?;
        let body = Body::pack(vec![item]);
        self.bodies.insert(body.root, body.bytes.clone());
        Some(Header {
            epoch: Epoch(0),
            view: View(view),
            height: parent.height + 1,
            parent: justify.digest,
            justify,
            tc,
            root: body.root,
            bytes: u32::try_from(body.bytes.len()).unwrap_or(u32::MAX),
            count: 1,
            proposer: u8::try_from(self.leader(view)).unwrap_or(u8::MAX),
            time: Wall(parent.time.0.max(self.lore.latest)),
            list: List::default(),
        })
    }

    fn show_evidence(&mut self, rig: &mut Rig, block: &Header) {
        self.show(rig, block.justify.clone(), block.tc.clone());
        if self.pack == Pack::Basic && block.tc.is_none() && block.justify.view.0 > 0 {
            // The view before was decided.
            let Some(parent) = self.header(&block.parent) else { return };
            let decided = self.qc(Kind::Commit, &parent);
            self.say(rig, self.speaker(), &Message::Phase(decided));
        }
    }

    fn show(&mut self, rig: &mut Rig, justify: Qc, tc: Option<Tc>) {
        if justify.view.0 > 0 {
            self.say(rig, self.speaker(), &Message::Advance(Proof::Qc(justify)));
        }
        if let Some(tc) = tc {
            self.say(rig, self.speaker(), &Message::Advance(Proof::Tc(tc)));
        }
    }

    fn propose(&mut self, rig: &mut Rig, from: NodeId, header: &Header) {
        let statement = Statement::Proposal { view: header.view, digest: header.digest() };
        let Some(signature) = self.sign(from, statement) else { return };
        self.known.insert(header.digest(), header.clone());
        if let Some(bytes) = self.body(&header.root)
            && !header.is_empty()
        {
            self.say(rig, from, &Message::Body { view: header.view, root: header.root, bytes });
        }
        self.say(rig, from, &Message::Propose { header: header.clone(), signature });
    }

    /// Certificates of a block, in every phase of the pack.
    fn certify(&mut self, rig: &mut Rig, block: &Header) {
        self.known.insert(block.digest(), block.clone());
        let leader = NodeId(u32::from(block.proposer));
        if self.pack != Pack::Basic {
            let qc = self.qc(self.pack.kind(), block);
            return self.say(rig, self.speaker(), &Message::Advance(Proof::Qc(qc)));
        }
        if leader == self.own {
            return;
        }
        for kind in [Kind::Prepare, Kind::Precommit] {
            let qc = self.qc(kind, block);
            self.say(rig, leader, &Message::Phase(qc));
        }
    }

    /// All others give up the term that ends with `end`.
    fn complain(&mut self, rig: &mut Rig, end: u64) {
        let high = self.qc(self.pack.kind(), &self.tip);
        for from in self.others() {
            let statement = Statement::Complain { view: View(end), high: high.view };
            let Some(signature) = self.sign(from, statement) else { continue };
            self.say(rig, from, &Message::Complain { view: View(end), high: high.clone(), signature });
        }
    }

    /// Its user has something new to order.
    fn ask(&mut self, rig: &mut Rig) {
        self.steps += 1;
        rig.submit(Bytes::from(format!("tempted {}", self.steps).into_bytes()));
        self.answer(rig);
    }

    fn say(&mut self, rig: &mut Rig, from: NodeId, message: &Message) {
        self.steps += 1;
        rig.hear(from, message);
        self.answer(rig);
    }

    /// Learns what the member proposed, and answers its questions about blocks.
    fn answer(&mut self, rig: &mut Rig) {
        for _ in 0..4 {
            let said = core::mem::take(&mut rig.said);
            if said.is_empty() {
                return;
            }
            for message in said {
                match message {
                    Message::Propose { header, .. } => {
                        self.known.insert(header.digest(), header);
                    }
                    Message::Body { root, bytes, .. } => {
                        self.bodies.insert(root, Bytes::copy_from_slice(&bytes));
                    }
                    Message::Fetch(Want::Blocks(digests)) => self.serve(rig, &digests, &[]),
                    Message::Fetch(Want::Bodies(roots)) => self.serve(rig, &[], &roots),
                    _ => {}
                }
            }
        }
    }

    fn serve(&mut self, rig: &mut Rig, digests: &[Hash], roots: &[Hash]) {
        let headers: Vec<Header> = digests.iter().filter_map(|digest| self.header(digest)).collect();
        let roots = headers.iter().filter(|h| !h.is_empty()).map(|h| h.root).chain(roots.iter().copied());
        let piece = |root: Hash| Some(Piece { root, bytes: self.body(&root)? });
        let bodies: Vec<Piece> = roots.filter_map(piece).collect();
        let (Ok(headers), Ok(bodies)) = (List::try_from(headers), List::try_from(bodies)) else { return };
        if headers.is_empty() && bodies.is_empty() {
            return;
        }
        self.steps += 1;
        rig.hear(self.speaker(), &Message::Blocks(Blocks { headers, bodies, proof: None, anchor: None }));
    }

    fn header(&self, digest: &Hash) -> Option<Header> {
        self.known.get(digest).or_else(|| self.lore.headers.get(digest)).cloned()
    }

    fn body<const MAX: usize>(&self, root: &Hash) -> Option<Blob<MAX>> {
        let bytes = self.bodies.get(root).or_else(|| self.lore.bodies.get(root))?;
        Blob::try_from(bytes.clone()).ok()
    }

    fn others(&self) -> Vec<NodeId> {
        let all = (0_u32..).zip(self.keys).map(|(id, _)| NodeId(id));
        all.filter(|id| *id != self.own).collect()
    }

    /// Whoever passes certificates on.
    fn speaker(&self) -> NodeId {
        NodeId(u32::from(self.own.0 == 0))
    }

    fn sign(&self, member: NodeId, statement: Statement) -> Option<Signature> {
        let scope = Scope { cluster: cluster(), epoch: Epoch(0) };
        let keys = self.keys.get(usize::try_from(member.0).ok()?)?;
        Some(keys.sign(scope, member, statement).into_inner().signature)
    }

    /// The certificate of a block by all others; of the genesis the constant one.
    fn qc(&self, kind: Kind, block: &Header) -> Qc {
        let (view, digest) = (block.view, block.digest());
        if view == View::GENESIS {
            return Qc::empty(Epoch(0), self.pack.kind(), digest);
        }
        let vote = |id: NodeId| Some((id, self.sign(id, Statement::vote(kind, view, digest))?));
        Qc::assemble(Epoch(0), (kind, view, digest), self.others().into_iter().filter_map(vote))
    }

    fn tc(&self, end: u64, high: &Qc) -> Tc {
        let complaint = |id: NodeId| {
            let statement = Statement::Complain { view: View(end), high: high.view };
            let member = u8::try_from(id.0).ok()?;
            Some(Complaint { member, high: high.view, signature: self.sign(id, statement)? })
        };
        let complaints: Vec<Complaint> = self.others().into_iter().filter_map(complaint).collect();
        let complaints = List::try_from(complaints).unwrap_or_default();
        Tc { epoch: Epoch(0), view: View(end), complaints, high: high.clone() }
    }
}
