//! A liar with a memory, against three honest replicas: it keeps every vote, complaint and block it hears, makes
//! certificates of them, hides them, shows them to some, votes for everything and proposes beside everything.

use std::collections::{BTreeMap, BTreeSet};

use synod_crypto::{Hash, Signature};
use synod_hotstuff::{
    Body, Complaint, Header, Kind, Message, Pack, Parameters, Proof, Qc, Statement, Tc, View,
};
use synod_machine::{Rng, Span};
use synod_quorum::{Epoch, NodeId};
use synod_wire::List;

use crate::promises::terms_of_four;
use crate::world::{Made, Setup, World, one_view};

/// The member that lies; the others are replicas.
const LIAR: u32 = 3;

type Slot = (Kind, View, Hash);

/// What the liar heard, and what it can make of it.
struct Memory {
    headers: BTreeMap<Hash, Header>,
    votes: BTreeMap<Slot, BTreeMap<NodeId, Signature>>,
    complaints: BTreeMap<View, BTreeMap<u8, (Signature, Qc)>>,
    qcs: BTreeMap<Slot, Qc>,
    rng: Rng,
    views: u64,
    made: u64,
    heard: usize,
}

impl Memory {
    fn new(world: &World, seed: u64) -> Self {
        let genesis = world.genesis();
        let qc = world.genesis_qc();
        Self {
            headers: BTreeMap::from([(genesis.digest(), genesis.header)]),
            votes: BTreeMap::new(),
            complaints: BTreeMap::new(),
            qcs: BTreeMap::from([((qc.kind, qc.view, qc.digest), qc)]),
            rng: Rng::new(seed, NodeId(LIAR), 0),
            views: 1,
            made: 0,
            heard: 0,
        }
    }

    fn learn_qc(&mut self, qc: &Qc) {
        self.views = self.views.max(qc.view.0 + 1);
        self.qcs.insert((qc.kind, qc.view, qc.digest), qc.clone());
    }

    /// Takes a message in, and what is inside it.
    fn hear(&mut self, from: u32, message: &Message) {
        match message {
            Message::Propose { header, .. } => {
                self.learn_qc(&header.justify);
                self.headers.insert(header.digest(), header.clone());
            }
            Message::Vote { kind, view, digest, signature } => {
                self.votes.entry((*kind, *view, *digest)).or_default().insert(NodeId(from), *signature);
            }
            Message::Order { view, digest, signature } => {
                self.votes.entry((Kind::Order, *view, *digest)).or_default().insert(NodeId(from), *signature);
            }
            Message::Complain { view, high, signature } => {
                self.learn_qc(high);
                let member = u8::try_from(from).expect("a member");
                self.complaints.entry(*view).or_default().insert(member, (*signature, high.clone()));
            }
            Message::Phase(qc) | Message::NewView { high: qc, .. } | Message::Advance(Proof::Qc(qc)) => {
                self.learn_qc(qc)
            }
            Message::Advance(Proof::Tc(tc)) => self.views = self.views.max(tc.view.0 + 1),
            _ => {}
        }
    }

    /// Certificates that two honest votes and its own make.
    fn certify(&mut self, world: &World) {
        let slots: Vec<Slot> = self.votes.keys().copied().collect();
        for (kind, view, digest) in slots {
            let votes = self.votes.entry((kind, view, digest)).or_default();
            let own = world.sign(LIAR, Statement::vote(kind, view, digest));
            votes.insert(NodeId(LIAR), own);
            if votes.len() >= 3 && kind != Kind::Order {
                let qc = Qc::assemble(Epoch(0), (kind, view, digest), votes.clone());
                self.learn_qc(&qc);
            }
        }
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        let at = self.rng.below(from.len().max(1) as u64);
        from.get(usize::try_from(at).unwrap_or(0)).cloned()
    }

    /// A certificate that headers may carry, mostly a recent one.
    fn any_qc(&mut self, kind: Kind) -> Qc {
        let mut known: Vec<Qc> = self.qcs.values().filter(|qc| qc.kind == kind).cloned().collect();
        known.sort_by_key(|qc| qc.view);
        let recent = known.len().saturating_sub(3);
        let all = self.rng.below(4) == 0;
        let chosen = if all { known.clone() } else { known[recent..].to_vec() };
        self.pick(&chosen).expect("the genesis is certified")
    }

    /// A TC of a view, from true complaints and its own, which shows the certificate it likes.
    fn tc(&mut self, world: &World, view: View) -> Option<Tc> {
        let heard = self.complaints.get(&view).cloned().unwrap_or_default();
        let mut all: Vec<(u8, View, Signature, Qc)> = heard
            .into_iter()
            .map(|(member, (signature, high))| (member, high.view, signature, high))
            .collect();
        if all.len() < 2 {
            return None;
        }
        let own = self.any_qc(world.kind());
        if all.len() < 3 || self.rng.below(2) == 0 {
            if own.view > view {
                return None;
            }
            let dropped = usize::try_from(self.rng.below(all.len() as u64)).unwrap_or(0);
            if all.len() > 2 {
                all.remove(dropped);
            }
            let complaint = world.complaint(LIAR, view.0, own.view.0);
            all.push((complaint.member, own.view, complaint.signature, own));
        }
        let high = all.iter().map(|(_, _, _, qc)| qc).max_by_key(|qc| qc.view)?.clone();
        let complaints =
            all.into_iter().map(|(member, high, signature, _)| Complaint { member, high, signature });
        let complaints = List::try_from(complaints.collect::<Vec<_>>()).ok()?;
        Some(Tc { epoch: Epoch(0), view, complaints, high })
    }

    /// A block of a view that the liar leads, on a certificate it likes, with the TC that it needs.
    fn block(&mut self, world: &World) -> Option<Made> {
        let view = (self.views.saturating_sub(2)..self.views + 3)
            .find(|view| *view > 0 && world.plain(*view) == LIAR)?;
        let justify = self.any_qc(world.kind());
        let parent = self.headers.get(&justify.digest).filter(|_| justify.view.0 < view)?.clone();
        let direct = justify.view.0 + 1 == view;
        let tc = if direct { None } else { Some(self.tc(world, View(view - 1))?) };
        self.made += 1;
        let text = format!("lie {}", self.made);
        let parent = Made { header: parent, body: Body::empty() };
        let items: &[&str] = if self.rng.below(3) == 0 { &[] } else { &[&text] };
        let mut made = world.block(view, &parent, justify, items);
        made.header.tc = tc;
        self.headers.insert(made.digest(), made.header.clone());
        Some(made)
    }

    /// Some of the honest members.
    fn some(&mut self) -> Vec<u32> {
        let mask = 1 + self.rng.below(7);
        (0..3).filter(|id| mask >> id & 1 == 1).collect()
    }

    /// One lie.
    fn act(&mut self, world: &mut World) {
        self.certify(world);
        let to = self.some();
        match self.rng.below(6) {
            0 => {
                let kinds: Vec<Kind> = self.qcs.keys().map(|(kind, ..)| *kind).collect();
                let kind = self.pick(&kinds).expect("the genesis is certified");
                let qc = self.any_qc(kind);
                let phased = kind != Kind::Generic;
                let message = if phased { Message::Phase(qc) } else { Message::Advance(Proof::Qc(qc)) };
                to.iter().for_each(|id| world.say(LIAR, *id, message.clone()));
            }
            1 => {
                let views: Vec<View> = self.complaints.keys().copied().collect();
                if let Some(tc) = self.pick(&views).and_then(|view| self.tc(world, view)) {
                    to.iter().for_each(|id| world.say(LIAR, *id, Message::Advance(Proof::Tc(tc.clone()))));
                }
            }
            2 => {
                let view = View(self.views.saturating_sub(1) + self.rng.below(3));
                let high = self.any_qc(world.kind());
                let message = world.complain(LIAR, view.0, &high);
                to.iter().for_each(|id| world.say(LIAR, *id, message.clone()));
            }
            3 => {
                let known: Vec<Header> = self.headers.values().cloned().collect();
                let header = self.pick(&known).expect("the genesis is known");
                let made = Made { header, body: Body::empty() };
                let kinds = [Kind::Prepare, Kind::Precommit, Kind::Commit, Kind::Generic];
                let kind =
                    if world.setup.pack.is_basic() { kinds[0..3].to_vec() } else { vec![Kind::Generic] };
                let kind = self.pick(&kind).expect("a kind");
                let message = match self.rng.below(2) {
                    0 if world.setup.pack.has_orders() => world.order(LIAR, &made),
                    _ => world.vote(LIAR, kind, &made),
                };
                to.iter().for_each(|id| world.say(LIAR, *id, message.clone()));
            }
            _ => {
                if let Some(made) = self.block(world) {
                    to.iter().for_each(|id| world.show(*id, &made));
                }
            }
        }
    }
}

/// Entries of the honest members agree as far as they go, nobody halts, and no honest member is accused.
fn assert_agreement(world: &World, case: &str) {
    let longest = (0..3).max_by_key(|id| world.seat(*id).entries.len()).expect("members");
    let longest: Vec<_> =
        world.seat(longest).entries.iter().map(|e| (e.position, e.payload.clone())).collect();
    for id in 0..3 {
        let seat = world.seat(id);
        let own: Vec<_> = seat.entries.iter().map(|e| (e.position, e.payload.clone())).collect();
        assert_eq!(own, longest[..own.len()], "{case}: n{id} disagrees");
        assert!(!seat.seen().halted, "{case}: n{id} halts: {:?}", seat.notes.last());
        let accused =
            seat.blamed.iter().find(|(peer, fault)| *peer != LIAR && !fault.starts_with("suspected"));
        assert_eq!(accused, None, "{case}: n{id} accuses an honest member");
    }
}

/// A member is killed and comes back over what a crash may leave of its journal.
fn restart(world: &mut World, memory: &mut Memory, member: u32) {
    let (synced, whole) = (world.seat(member).synced, world.seat(member).journal.len());
    let kept = synced as u64 + memory.rng.below((whole - synced) as u64 + 1);
    world.restart(member, usize::try_from(kept).unwrap_or(whole));
}

/// Three honest replicas and the liar for a while, then without it.
fn play(pack: Pack, tweak: fn(&mut Parameters), seed: u64) -> BTreeSet<&'static str> {
    let mut world = World::new(Setup { tweak, ..Setup::of(pack, &[0, 1, 2]) });
    let case = format!("{pack:?}, terms of {}, seed {seed}", world.parameters.term_views);
    let mut memory = Memory::new(&world, seed);
    for step in 0..160_u64 {
        let member = u32::try_from(memory.rng.below(3)).expect("small");
        match memory.rng.below(8) {
            0 if memory.rng.below(4) == 0 => restart(&mut world, &mut memory, member),
            0 => drop(world.submit(member, &format!("item {step}"))),
            1 => drop(world.expire(member)),
            2..=4 => memory.act(&mut world),
            _ => {
                let lost = memory.rng.below(12);
                world.lose(|e| e.to != LIAR && u64::from(e.from * 3 + e.to) == lost);
                world.run(Span::millis(1));
            }
        }
        for (from, message) in world.said.clone().into_iter().skip(memory.heard) {
            memory.heard += 1;
            memory.hear(from, &message);
        }
        assert_agreement(&world, &case);
    }
    // Terms given up in the bad time have stretched the timeouts to their maximum of ten seconds.
    let committed = |world: &World, text: &str| {
        (0..3).all(|id| world.seat(id).texts().iter().any(|delivered| delivered == text))
    };
    for at in 0..4 {
        let text = format!("after {at}");
        world.submit(at % 3, &text);
        let since = world.now;
        while !committed(&world, &text) {
            world.run(Span::secs(1));
            let seen: Vec<_> = (0..3).map(|id| world.seat(id).seen()).collect();
            assert!(world.now.since(since) < Span::secs(200), "{case}: {text} does not commit: {seen:?}");
        }
    }
    assert_agreement(&world, &case);
    for id in 0..3 {
        assert!(crate::rejoin::assert_no_promise_is_broken(&world, id, &case) > 0);
    }
    (0..3).flat_map(|id| world.seat(id).blamed.iter().map(|(_, fault)| *fault)).collect()
}

/// TS2, TS14: agreement, and progress once it is silent, whatever such a liar does and whoever restarts meanwhile.
#[test]
fn a_liar_that_remembers_everything_divides_nobody() {
    for pack in [Pack::Basic, Pack::Chain3, Pack::Chain2, Pack::Chain2Order] {
        let faults: BTreeSet<&str> = (0..30).flat_map(|seed| play(pack, one_view, seed)).collect();
        assert!(faults.contains("equivocated_proposal"), "{pack:?}: it showed two faces: {faults:?}");
    }
}

/// The same with terms of several views, in which the liar leads four views in a row.
#[test]
fn a_liar_that_leads_whole_terms_divides_nobody() {
    for pack in [Pack::Chain3, Pack::Chain2, Pack::Chain2Order] {
        let faults: BTreeSet<&str> = (0..30).flat_map(|seed| play(pack, terms_of_four, seed)).collect();
        assert!(faults.contains("equivocated_proposal"), "{pack:?}: it showed two faces: {faults:?}");
    }
}
