//! Consensus of a few replicas, with a user each who vouches for all and executes by hashing, and a judge who believes none of it: the
//! properties of uBFT are checked here from what is said and told alone.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use synod_crypto::Hash;
use synod_machine::{Span, Time, Wall};
use synod_quorum::{Epoch, NodeId};
use synod_ubft::batch::{Auth, Batch, Op, Request, Slot, View};
use synod_ubft::certificate::{Certificate, Checkpoint, Subject};
use synod_ubft::replica::{Ask, Consensus, Told, Word};
use synod_ubft::stream::Low;
use synod_ubft::{Body, Config, Parameters, ctb};
use synod_wire::{Bytes, Limits, Wire as _};

use crate::net::{Lie, Net, Seen, seeds};
use crate::world::{TAIL, config as base, keys};

pub(crate) const WINDOW: u32 = 32;
pub(crate) const HALF: u64 = 16;

pub(crate) fn config(me: NodeId, n: u32) -> Config {
    config_of(me, n, false)
}

/// The same, with or without promises that go with what is locked.
pub(crate) fn config_of(me: NodeId, n: u32, merge_promises: bool) -> Config {
    let parameters = Parameters {
        tail: TAIL,
        window: WINDOW,
        batch_bytes_max: 1 << 10,
        request_inline_max: 512,
        merge_promises,
        ..Parameters::default()
    };
    Config { parameters, ..base(me, n) }
}

/// What a user does.
#[derive(Clone, Debug, Default)]
struct User {
    executed: u64,
    chain: Hash,
    log: Vec<Hash>,
    judged: Vec<(View, Slot, Hash)>,
    /// Vouches for nothing.
    is_deaf: bool,
    transferring: Option<u64>,
}

/// A correct replica's open promises, as others see them.
#[derive(Clone, Debug, Default)]
struct Promises {
    certify: BTreeSet<(View, Slot)>,
    commit: BTreeSet<(View, Slot)>,
    /// Signed, and shown, whether that was promised or not.
    signed: BTreeSet<(View, Slot)>,
    shown: BTreeSet<(View, Slot)>,
    last_k: u64,
    view: View,
}

/// See the module.
pub(crate) struct Group {
    pub(crate) n: u32,
    pub(crate) net: Net<Consensus>,
    users: BTreeMap<NodeId, User>,
    pub(crate) liars: BTreeSet<NodeId>,
    promises: BTreeMap<NodeId, Promises>,
    /// What was decided first, and in which view its decider was bound to it.
    pub(crate) decided: BTreeMap<Slot, (Hash, View)>,
    pub(crate) slow: u64,
    summaries: BTreeMap<(u8, u64), Hash>,
    chains: BTreeMap<Slot, Checkpoint>,
    /// Batches that are to be proposed.
    pub(crate) wanted: u64,
    next_request: u64,
    known: BTreeMap<Hash, Batch>,
    /// Whether the user reports what it waits for.
    pub(crate) is_pressing: bool,
    since: Option<Time>,
    is_pressed: bool,
    /// Who was leaving which view when all that was said before had been judged.
    leaving: BTreeMap<NodeId, View>,
    /// Whose users vouch for nothing.
    deaf: Rc<RefCell<BTreeSet<NodeId>>>,
    /// What replicas promised with what they locked, by slot and view.
    early: BTreeMap<NodeId, BTreeMap<(View, Slot), Hash>>,
}

/// For each of some seeds three replicas, without promises that go with what is locked, and with them.
pub(crate) fn threes(few: u64) -> impl Iterator<Item = (u64, Group)> {
    seeds(few).flat_map(|seed| [false, true].map(|is_merged| (seed, Group::with(3, seed, is_merged))))
}

impl Group {
    pub(crate) fn new(n: u32, seed: u64) -> Self {
        Self::with(n, seed, false)
    }

    /// Three whose followers promise with what they lock, where their users vouch for it.
    pub(crate) fn merged(seed: u64) -> Self {
        Self::with(3, seed, true)
    }

    fn with(n: u32, seed: u64, is_merged: bool) -> Self {
        let specs = {
            let config = config(NodeId(0), n);
            let mut specs = Word::queues(&config);
            specs.extend((0..n).map(|_| Word::locked_queue(TAIL)));
            specs
        };
        let mut net = Net::new(n, specs, (n - 1) * TAIL, seed);
        for id in (0..n).map(NodeId) {
            let start = Low { low: Slot(0), digest: Hash::ZERO, end: None };
            let config = config_of(id, n, is_merged);
            let consensus = Consensus::new(Arc::new(config), start).expect("a sound configuration");
            net.start(id, consensus, keys(id));
        }
        let deaf = Rc::new(RefCell::new(BTreeSet::new()));
        let is_deaf = Rc::clone(&deaf);
        net.before = Some(Box::new(move |to, one: &mut Consensus, from, word| {
            if one.weigh(from, word).is_some() && !is_deaf.borrow().contains(&to) {
                one.vouch();
            }
        }));
        Self {
            n,
            net,
            users: (0..n).map(|id| (NodeId(id), User::default())).collect(),
            liars: BTreeSet::new(),
            promises: BTreeMap::new(),
            decided: BTreeMap::new(),
            slow: 0,
            summaries: BTreeMap::new(),
            chains: BTreeMap::new(),
            wanted: 0,
            next_request: 0,
            known: BTreeMap::new(),
            is_pressing: true,
            since: None,
            is_pressed: false,
            leaving: BTreeMap::new(),
            deaf,
            early: BTreeMap::new(),
        }
    }

    /// From now on this replica says only what `lie` makes of its words.
    pub(crate) fn lie(&mut self, id: u32, lie: Lie<Consensus>) {
        self.liars.insert(NodeId(id));
        self.net.lies.insert(NodeId(id), lie);
    }

    pub(crate) fn of(&self, id: u32) -> &Consensus {
        &self.net.machines[&NodeId(id)]
    }

    pub(crate) fn deafen(&mut self, id: u32) {
        self.user(NodeId(id)).is_deaf = true;
        self.deaf.borrow_mut().insert(NodeId(id));
    }

    pub(crate) fn hear(&mut self, id: u32) {
        let user = self.user(NodeId(id));
        user.is_deaf = false;
        self.deaf.borrow_mut().remove(&NodeId(id));
        let user = self.user(NodeId(id));
        for (view, slot, digest) in std::mem::take(&mut user.judged) {
            self.net.input(NodeId(id), Ask::Endorse { view, slot, digest });
        }
        self.watch();
    }

    fn user(&mut self, id: NodeId) -> &mut User {
        self.users.get_mut(&id).expect("a replica")
    }

    /// Whether a replica said its certificate of a slot.
    pub(crate) fn is_shown(&self, id: u32, slot: u64) -> bool {
        self.promises.get(&NodeId(id)).is_some_and(|said| said.shown.iter().any(|(_, of)| of.0 == slot))
    }

    pub(crate) fn executed(&self, id: u32) -> u64 {
        self.users[&NodeId(id)].executed
    }

    pub(crate) fn count(&self, rule: &str) -> u64 {
        self.net.rules.get(rule).copied().unwrap_or(0)
    }

    fn correct(&self) -> Vec<NodeId> {
        self.net.machines.keys().copied().filter(|id| !self.liars.contains(id)).collect()
    }

    /// Leaders propose what is wanted; what a liar proposes may be for nothing, and stays wanted.
    pub(crate) fn propose(&mut self) {
        let leaders: Vec<NodeId> =
            self.net.machines.iter().filter(|(_, one)| one.may_propose()).map(|(id, _)| *id).collect();
        for id in leaders {
            let is_liar = self.liars.contains(&id);
            if self.wanted == 0 || (is_liar && self.next_request > 4 * self.decided.len() as u64 + 8) {
                continue;
            }
            self.wanted -= u64::from(!is_liar);
            self.since = None;
            self.next_request += 1;
            let op = self.next_request.to_le_bytes();
            let op = Op::Inline(Bytes::copy_from_slice(&op).try_into().expect("short"));
            let request = Request { session: 1, id: self.next_request, op, auth: Auth::Heard };
            let time = Wall(self.net.now.0 / 1_000_000);
            self.net.input(id, Ask::Propose { time, requests: vec![request].try_into().expect("few") });
            self.watch();
        }
    }

    /// Whatever was said and told since is judged, and users answer.
    pub(crate) fn watch(&mut self) {
        let mut is_any = false;
        while !self.net.seen.is_empty() {
            for seen in std::mem::take(&mut self.net.seen) {
                match seen {
                    Seen::Sent { from, message, .. } => self.said(from, &message),
                    Seen::Told { id, output } => self.told(id, output),
                }
                is_any = true;
            }
        }
        if is_any {
            self.judge_proposals();
        }
        let sealing: Vec<_> = self.net.machines.iter().filter(|(_, one)| one.is_sealing()).collect();
        assert!(
            sealing.iter().all(|(_, one)| !one.may_propose()),
            "E13: nothing is proposed in a view that is left"
        );
        self.leaving = sealing.into_iter().map(|(id, one)| (*id, one.view())).collect();
    }

    /// E13: a view that is being left is promised nothing more; what is promised must be kept before it is left, which would never be.
    fn promised(&self, from: NodeId, view: View) {
        let is_leaving =
            self.net.machines.get(&from).is_some_and(|one| one.is_sealing() && one.view() == view);
        let was_leaving = self.leaving.get(&from) == Some(&view);
        assert!(!is_leaving || !was_leaving, "E13: {from} promises something in {view:?}, which it leaves");
    }

    /// U-S9: nobody accepts another proposal in this or a later view than that in which a slot was decided.
    fn judge_proposals(&self) {
        let last = self.decided.last_key_value().map_or(0, |(slot, _)| slot.0);
        let kept = Slot(last.saturating_sub(3 * u64::from(WINDOW)));
        for id in self.correct() {
            for (slot, (digest, view)) in self.decided.range(kept..) {
                if let Some((of, proposed)) = self.net.machines[&id].proposed(*slot) {
                    assert!(
                        of < *view || proposed == *digest,
                        "U-S9: {id} accepted another batch at {slot:?}"
                    );
                }
            }
        }
    }

    fn is_signed<T: Subject>(&self, certificate: &Certificate<T>) {
        let signers: BTreeSet<u8> = certificate.signed.iter().map(|(member, _)| *member).collect();
        assert!(signers.len() > usize::try_from(self.n / 2).expect("few"), "U-S12: f + 1 distinct signers");
        let config = config(NodeId(0), self.n);
        for (member, signature) in &certificate.signed {
            let claim = config.claim(certificate.subject.statement(*member), *signature).expect("a replica");
            assert!(claim.verify(&keys(NodeId(0))).is_ok(), "U-S12: a good signature");
        }
    }

    fn said(&mut self, from: NodeId, word: &Word) {
        if self.liars.contains(&from) {
            return;
        }
        if let Word::WillCertify { view, .. } | Word::WillCommit { view, .. } = word {
            self.promised(from, *view);
        }
        if let Word::Ctb { word: ctb::Message::Locked { told, promise: true, .. }, .. } = word {
            self.locked(from, told);
        }
        let promises = self.promises.entry(from).or_default();
        match word {
            Word::WillCertify { view, slot, .. } => {
                promises.certify.insert((*view, *slot));
            }
            Word::WillCommit { view, slot, .. } => {
                promises.commit.insert((*view, *slot));
            }
            Word::Certify { view, slot, .. } => {
                promises.signed.insert((*view, *slot));
            }
            Word::CertifySummary { summarized, .. } => {
                let key = (summarized.about, summarized.k);
                let state = *self.summaries.entry(key).or_insert(summarized.state);
                assert_eq!(state, summarized.state, "U-S15: {from} about {key:?}");
            }
            Word::Summary(summary) => self.is_signed(&summary.certificate),
            Word::Checkpoint(certificate) => self.is_signed(certificate),
            Word::Ctb { broadcaster, word: ctb::Message::Lock { k, body } }
                if u32::from(*broadcaster) == from.0 && *k > promises.last_k =>
            {
                promises.last_k = *k;
                let body = body.bytes().clone();
                let limits = Limits { frame_max: 1 << 20 };
                let body = Body::decode(body, &limits).expect("a correct replica says what can be read");
                self.streamed(from, &body);
            }
            _ => {}
        }
    }

    /// A promise to certify what is locked; all that is said here is short.
    fn locked(&mut self, from: NodeId, told: &ctb::Told) {
        let ctb::Told::Raw(body) = told else { unreachable!("it is short") };
        let body =
            Body::decode(body.bytes().clone(), &Limits::default()).expect("what is promised can be read");
        let Body::Prepare { view, slot, batch } = body else { unreachable!("proposals alone are promised") };
        self.early.entry(from).or_default().insert((view, slot), batch.digest());
    }

    /// Proposals that a replica promised with what it locked and that are delivered to it, as far as can be seen from outside: it has
    /// them as proposed.
    fn bound(&self, of: NodeId) -> BTreeSet<(View, Slot)> {
        let one = &self.net.machines[&of];
        let promised = self.early.get(&of).into_iter().flatten();
        let is_here =
            |((view, slot), digest): &(&(View, Slot), &Hash)| one.proposed(*slot) == Some((*view, **digest));
        promised.filter(is_here).map(|(place, _)| *place).collect()
    }

    /// U-S8: what was promised is kept before the view is left.
    fn streamed(&mut self, from: NodeId, body: &Body) {
        let bound = if matches!(body, Body::SealView(_)) { self.bound(from) } else { BTreeSet::new() };
        let promises = self.promises.entry(from).or_default();
        match body {
            Body::Prepare { view, slot, .. } => {
                promises.certify.insert((*view, *slot));
            }
            Body::Commit(certificate) => {
                promises.shown.insert((certificate.subject.view, certificate.subject.slot));
                self.is_signed(&certificate.clone());
            }
            Body::Checkpoint(certificate) => {
                let low = certificate.subject.low;
                promises.certify.retain(|(_, slot)| *slot >= low);
                promises.commit.retain(|(_, slot)| *slot >= low);
                self.is_signed(&certificate.clone());
            }
            Body::SealView(view) => {
                let older = |(of, _): &&(View, Slot)| of < view;
                promises.certify.extend(bound);
                let open: Vec<_> = promises.certify.difference(&promises.signed).filter(older).collect();
                assert!(open.is_empty(), "U-S8: {from} seals {view:?} without a signature for {open:?}");
                let open: Vec<_> = promises.commit.difference(&promises.shown).filter(older).collect();
                assert!(open.is_empty(), "U-S8: {from} seals {view:?} without a certificate for {open:?}");
                promises.view = *view;
            }
            Body::NewView { .. } | Body::Ref { .. } => {}
        }
    }

    fn told(&mut self, id: NodeId, told: Told) {
        match told {
            Told::Judge { view, slot, digest, batch } => {
                self.known.insert(digest, Batch::clone(&batch));
                let user = self.user(id);
                if user.is_deaf {
                    user.judged.push((view, slot, digest));
                } else {
                    self.net.input(id, Ask::Endorse { view, slot, digest });
                }
            }
            Told::Decided { slot, digest, batch, is_slow } => {
                self.slow += u64::from(is_slow);
                self.known.insert(digest, Batch::clone(&batch));
                let bound = self.net.machines[&id].proposed(slot).filter(|(_, proposed)| *proposed == digest);
                let view = bound.map_or(View(u64::MAX), |(view, _)| view);
                if !self.liars.contains(&id) {
                    let first = self.decided.entry(slot).or_insert((digest, view));
                    assert_eq!(first.0, digest, "U-S7: {id} decided another batch at {slot:?}");
                    first.1 = first.1.min(view);
                }
                self.execute(id, slot, digest);
            }
            Told::Behind { from, to } => {
                // What was told before it may have been fetched meanwhile.
                assert!(from.0 <= self.users[&id].executed);
                self.user(id).transferring = Some(to.0);
                self.transfer(id);
            }
            Told::Certified(certificate) => {
                self.is_signed(&certificate);
                let subject = certificate.subject;
                let first = *self.chains.entry(subject.low).or_insert(subject);
                assert_eq!(first, subject, "two checkpoints of one slot");
            }
            Told::Broken(slot) => unreachable!("{id} says that {slot:?} is decided twice"),
            Told::View(_) | Told::Slow(_) | Told::Retired | Told::Reborn { .. } => {}
        }
    }

    /// A user fetches what others executed.
    fn transfer(&mut self, id: NodeId) {
        let Some(to) = self.users[&id].transferring else { return };
        let have = self.users[&id].executed;
        let source =
            self.users.iter().find(|(other, user)| !self.liars.contains(other) && user.executed >= to);
        let Some(log) = source.map(|(_, user)| user.log.clone()) else { return };
        for slot in have..to {
            let digest = log[usize::try_from(slot).expect("few")];
            self.execute(id, Slot(slot), digest);
        }
        self.user(id).transferring = None;
        self.net.input(id, Ask::Resume(Slot(to)));
    }

    fn execute(&mut self, id: NodeId, slot: Slot, digest: Hash) {
        let user = self.user(id);
        assert_eq!(user.executed, slot.0, "{id}: slots come in order");
        user.executed += 1;
        user.log.push(digest);
        let mut hasher = synod_crypto::Hasher::new("test chain");
        hasher.add(&user.chain.0).add(&digest.0);
        user.chain = hasher.finish();
        let low = user.executed;
        if low.is_multiple_of(HALF) {
            let (log_chain, exec_chain) = (user.chain, user.chain);
            let checkpoint = Checkpoint {
                epoch: Epoch(0),
                low: Slot(low),
                log_chain,
                exec_chain,
                config: Hash::ZERO,
                end: None,
            };
            self.net.input(id, Ask::Executed(Box::new(checkpoint)));
        }
    }

    /// Lets so much time pass, with all that happens in it.
    pub(crate) fn pass(&mut self, span: Span) {
        let end = self.net.after(span);
        self.press();
        for _ in 0..2_000_000_u64 {
            self.propose();
            self.press();
            // Time may pass while messages are on their way.
            let is_late = self.net.drawn.below(40) == 0;
            let moved =
                if is_late { self.net.tick(self.net.now + Span::micros(50)) } else { self.net.turn() };
            self.watch();
            let waiting: Vec<NodeId> = self
                .users
                .iter()
                .filter(|(_, user)| user.transferring.is_some())
                .map(|(id, _)| *id)
                .collect();
            waiting.into_iter().for_each(|id| self.transfer(id));
            if !moved && !is_late && !self.net.tick(end) {
                self.watch();
                self.net.now = end;
                return;
            }
        }
        unreachable!("it never ends");
    }

    /// Users say since when something waits.
    pub(crate) fn press(&mut self) {
        let waits = self.is_pressing && self.wanted > 0;
        let since = waits.then(|| self.since.unwrap_or(self.net.now));
        if since == self.since && self.is_pressed == waits {
            return;
        }
        (self.since, self.is_pressed) = (since, waits);
        for id in self.correct() {
            self.net.input(id, Ask::Pressing(since));
        }
        self.watch();
    }

    /// Proposes so many batches and waits until all correct replicas executed them; says how long that took.
    pub(crate) fn order(&mut self, count: u64, most: Span) -> Span {
        let (start, end) = (self.net.now, self.net.after(most));
        let goal: u64 = self.correct().iter().map(|id| self.users[id].executed).max().unwrap_or(0) + count;
        self.wanted += count;
        let least =
            |group: &Self| group.correct().iter().map(|id| group.users[id].executed).min().unwrap_or(0);
        let mut progress = (least(self), self.net.now);
        while least(self) < goal {
            assert!(self.net.now < end, "U-L1: not ordered in {most}: {}", self.describe());
            self.pass(Span::millis(2));
            if least(self) > progress.0 || self.wanted > 0 {
                progress = (least(self), self.net.now);
            } else if self.net.now.since(progress.1) > Span::millis(80) {
                // What a leader that was replaced proposed may be lost; its clients ask again.
                self.wanted = 1;
            }
        }
        self.wanted = 0;
        self.net.now.since(start)
    }

    pub(crate) fn describe(&self) -> String {
        let one = |(id, one): (&NodeId, &Consensus)| {
            let applied = |of| one.stream(NodeId(of)).map_or(0, |stream| stream.next_k());
            let applied: Vec<u64> = (0..self.n).map(applied).collect();
            format!(
                "{id} {:?} sealing {} next {:?} low {:?} executed {} streams at {applied:?}; ",
                one.view(),
                one.is_sealing(),
                one.next(),
                one.low().low,
                self.users[id].executed
            )
        };
        self.net.machines.iter().map(one).collect::<String>() + &format!("wanted {}", self.wanted)
    }
}
