//! Proposing (R1, R8, 4.5): when a leader may, what its block carries, and that it says so once per view.

use std::sync::Arc;

use synod_machine::{Time, Turn, Wall, planted};
use synod_wire::Blob;

use super::state::Core;
use crate::batch::Caps;
use crate::block::{Body, Header, Item};
use crate::filter::Filter;
use crate::pacemaker::Reason;
use crate::record::Mark;
use crate::tree::{Block, FULL_MAX};
use crate::{Kind, Message, Qc, Rule, Statement, Tc, Timer, View};

/// The evidence a block stands on.
#[derive(Clone, Debug)]
pub(crate) struct Basis {
    /// The parent's certificate.
    pub(crate) justify: Arc<Qc>,
    /// Why it is not of the view before, if it is not.
    pub(crate) tc: Option<Arc<Tc>>,
}

/// What a leader does now.
enum Decision {
    Propose(Vec<Item>),
    Wait(Time),
    Nothing,
}

impl Core {
    /// R1: proposes if this member leads the current view, its need is met, and there is a reason to.
    pub(crate) fn try_propose(&mut self, turn: &mut Turn<'_, Self>) {
        let view = self.view;
        let spent = view <= self.safety.proposed.view || view <= self.safety.complained;
        if spent || !self.may_act() || self.is_lagging() {
            return;
        }
        let Some(basis) = self.basis() else { return };
        let Some(parent) = self.tree.get(&basis.justify.digest).map(|block| Arc::clone(&block.header)) else {
            return;
        };
        let leader = match &basis.tc {
            Some(_) => self.leaders.after_tc(view),
            None => self.leaders.after(&parent, view),
        };
        if leader != self.own() || self.tree.branch(basis.justify.digest).is_none() {
            return;
        }
        match self.decide(&basis, turn) {
            Decision::Propose(items) => self.propose(&basis, &parent, items, turn),
            Decision::Wait(due) if self.linger_due != Some((view, due)) => {
                self.linger_due = Some((view, due));
                turn.arm(Timer::Linger(view), due.since(turn.now()));
            }
            Decision::Wait(_) | Decision::Nothing => {}
        }
    }

    /// The evidence for a block in the current view, if the leader's need is met.
    pub(crate) fn basis(&self) -> Option<Basis> {
        let justify = Arc::clone(&self.high);
        let tc = self.tc.as_ref().filter(|tc| tc.view.precedes(self.view));
        let covered = tc.filter(|tc| justify.view >= (self.rules.next_view_needs)(tc).justify).cloned();
        if self.rules.pack.is_basic() {
            return self.basic_basis(justify, covered);
        }
        if planted!(H24) {
            return Some(Basis { justify, tc: None });
        }
        match (justify.view.precedes(self.view), covered) {
            (true, _) => Some(Basis { justify, tc: None }),
            (false, Some(_)) if planted!(H28) => Some(Basis { justify, tc: None }),
            (false, Some(tc)) => Some(Basis { justify, tc: Some(tc) }),
            (false, None) => None,
        }
    }

    fn caps(&self) -> Caps {
        let bytes = usize::try_from(self.config.parameters().block_bytes).unwrap_or(0).saturating_sub(8);
        Caps { bytes, items: self.config.items_max() }
    }

    fn decide(&mut self, basis: &Basis, turn: &mut Turn<'_, Self>) -> Decision {
        let parent = basis.justify.digest;
        let policy = self.config.parameters().filter;
        let followed = self.filter.follow(policy, parent, &self.tree, &mut self.pool);
        if followed.fell > 0 {
            turn.applied(Rule::MarksFall);
        }
        let room = self.tree.full(parent).len() + 8 < FULL_MAX;
        let eligible = if followed.complete && room { self.pool.eligible() } else { (0, 0) };
        let due = match eligible.0 {
            0 => self.empty_due(basis),
            _ => Some(self.full_due(eligible, turn)),
        };
        let due = due.map(|due| due.max(self.wait_for_slow(basis)));
        match due {
            None => Decision::Nothing,
            Some(due) if due > turn.now() => Decision::Wait(due),
            Some(_) if eligible.0 == 0 => Decision::Propose(Vec::new()),
            Some(_) => {
                let caps = self.caps();
                turn.applied(Rule::Filter);
                Decision::Propose(self.pool.batch(caps.bytes, caps.items))
            }
        }
    }

    /// (a) the caps are reached, or (b) linger has run out.
    fn full_due(&self, eligible: (u64, u64), turn: &Turn<'_, Self>) -> Time {
        let parameters = self.config.parameters();
        let full = self.caps().are_reached(eligible) || eligible.0 >= u64::from(parameters.batch_max);
        if full {
            return Time::ZERO;
        }
        let wait = self.linger.wait(self.tree.count() > 0, parameters.batch_wait);
        match self.linger_due {
            Some((view, due)) if view == self.view => due.min(turn.now() + wait),
            _ => turn.now() + wait,
        }
    }

    /// R8: an empty block moves a certified block to its commit; with order votes only when those fail to.
    fn empty_due(&self, basis: &Basis) -> Option<Time> {
        let branch = self.tree.full(basis.justify.digest);
        let newest = branch.first().and_then(|digest| self.tree.get(digest))?;
        let grace = match self.rules.pack.has_orders() {
            true => synod_machine::Span(self.config.parameters().timeout_base.0 / 4),
            false => synod_machine::Span::ZERO,
        };
        Some(newest.certified_at + grace)
    }

    /// Pack hs2: a leader without the certificate of the view before waits two delays for slow replicas.
    fn wait_for_slow(&self, basis: &Basis) -> Time {
        let waits = self.rules.pack == crate::Pack::Hs2 && !basis.justify.view.precedes(self.view);
        let two_delays = synod_machine::Span(self.config.parameters().timeout_base.0 / 2);
        if waits { self.entered_at + two_delays } else { Time::ZERO }
    }

    fn propose(&mut self, basis: &Basis, parent: &Header, items: Vec<Item>, turn: &mut Turn<'_, Self>) {
        let view = self.view;
        let body = Arc::new(if items.is_empty() { Body::empty() } else { Body::pack(items) });
        let header = Arc::new(self.build(basis, parent, &body, turn.wall()));
        let digest = header.digest();
        assert!(body.fits(&header), "a leader proposes the body that its header binds");
        if !header.is_empty()
            && let Ok(bytes) = Blob::try_from(body.bytes.clone())
        {
            turn.send(self.others(), Message::Body { view, root: body.root, bytes });
        }
        turn.applied(if self.rules.pack.is_basic() { Rule::BasicPropose } else { Rule::Propose });
        if header.is_empty() {
            turn.applied(Rule::ProposeEmpty);
        }
        let mut block = Block::new(Arc::clone(&header));
        block.body = Some(Arc::clone(&body));
        if !self.plant_block(digest, block) {
            return;
        }
        turn.note(crate::trace::Note::taken(&header, digest));
        let policy = self.config.parameters().filter;
        self.filter.follow(policy, digest, &self.tree, &mut self.pool);
        Filter::see(policy, &body, &mut self.pool);
        self.safety.proposed = Mark { view, digest };
        self.store_block(digest);
        self.out.promise(Statement::Proposal { view, digest });
        self.consider_vote(digest, turn);
    }

    fn build(&self, basis: &Basis, parent: &Header, body: &Body, wall: Wall) -> Header {
        let by_tc = basis.tc.is_some();
        let empty = body.items.is_empty();
        Header {
            epoch: self.safety.epoch,
            view: self.view,
            height: parent.height + 1,
            parent: basis.justify.digest,
            justify: Qc::clone(&basis.justify),
            tc: basis.tc.as_deref().cloned(),
            root: body.root,
            bytes: if empty { 0 } else { u32::try_from(body.bytes.len()).unwrap_or(u32::MAX) },
            count: u32::try_from(body.items.len()).unwrap_or(u32::MAX),
            proposer: self.own().member().unwrap_or_default(),
            time: self.proposed_time(parent, wall),
            list: self.leaders.list(parent, self.view, by_tc),
        }
    }

    /// 4.9: the own clock, but the parent's time after many given-up terms, so that a skewed clock halts nobody.
    fn proposed_time(&self, parent: &Header, wall: Wall) -> Wall {
        let failures = u64::from(self.pacemaker.get().failures());
        let many = failures > self.config.roster().weights().faulty() + 1;
        if many { parent.time } else { parent.time.max(wall) }
    }

    /// The own proposal is signed: the header follows its body.
    pub(crate) fn on_signed_proposal(
        &mut self,
        view: View,
        digest: synod_crypto::Hash,
        signature: synod_crypto::Signature,
        turn: &mut Turn<'_, Self>,
    ) {
        let own = self.own();
        let current = self.safety.proposed == Mark { view, digest } && view > self.safety.complained;
        let Some(block) = self.tree.get(&digest).filter(|_| current) else { return };
        self.proposals.insert((view, own), (digest, signature));
        let header = Header::clone(&block.header);
        turn.send(self.others(), Message::Propose { header, signature });
    }

    /// After a restart in the very view of its last proposal, the leader sends that proposal again.
    pub(crate) fn propose_again(&mut self, turn: &mut Turn<'_, Self>) {
        let Mark { view, digest } = self.safety.proposed;
        let due = view == self.view && view > self.safety.complained && view > View::GENESIS;
        let Some(block) = self.tree.get(&digest).filter(|_| due) else { return };
        let (header, body) = (Arc::clone(&block.header), block.body.clone());
        if let Some(body) = body.filter(|_| !header.is_empty())
            && let Ok(bytes) = Blob::try_from(body.bytes.clone())
        {
            turn.send(self.others(), Message::Body { view, root: body.root, bytes });
        }
        self.out.promise(Statement::Proposal { view, digest });
    }

    /// Basic pack: a quorum entered the view, or its complaints stand for new-views.
    fn basic_basis(&self, justify: Arc<Qc>, covered: Option<Arc<Tc>>) -> Option<Basis> {
        // A certificate does not end its view here: who knows a higher one than its own view has nothing to propose.
        if justify.view >= self.view {
            return None;
        }
        if covered.is_some() {
            return Some(Basis { justify, tc: covered });
        }
        let first = self.view == View(1) && justify.view == View::GENESIS;
        let entered = self.newviews.iter().filter(|(_, view)| **view == self.view).map(|(id, _)| *id);
        let met = self.config.roster().weights().is_quorum(entered.collect());
        let direct = justify.view.precedes(self.view) && self.reason != Reason::Tc;
        let sound = justify.kind == Kind::Prepare;
        (sound && direct && (met || first)).then_some(Basis { justify, tc: None })
    }
}
