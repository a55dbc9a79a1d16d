//! Members that change their views under drawn schedules, and a judge who counts for itself.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use synod_astro::views::{
    Change, Config, Endorsement, Founding, Input, Operator, Output, Reconfig, Roll, SignedState, Transfer,
    View, ViewId,
};
use synod_crypto::{Hash, Keys, Seed};
use synod_machine::Span;
use synod_machine::testing::{Users, World};
use synod_quorum::{NodeId, PublicKey};
use synod_wire::{Bytes, Drawn};

/// Operators.
const OPERATORS: u8 = 4;

/// States of this test: who stopped in which view.
#[derive(Clone, Debug)]
pub(crate) struct Names;

impl Transfer for Names {
    fn is_state(of: &[Arc<Roll>], state: &Bytes, _: &Keys) -> bool {
        let number = of.last().map_or(0, |roll| roll.id().number);
        state.len() == 5 && state[1..] == number.to_be_bytes()
    }
}

pub(crate) type Machine = Reconfig<Names>;

pub(crate) fn state(member: u8, view: ViewId) -> Bytes {
    let mut out = vec![member];
    out.extend(view.number.to_be_bytes());
    Bytes::from(out)
}

pub(crate) fn seed(id: u32) -> Seed {
    Seed::new([u8::try_from(id).expect("few") + 1; 32])
}

pub(crate) fn keys(id: u32) -> Keys {
    Keys::ed25519(&seed(id), [9; 32])
}

fn operator(at: u8) -> Keys {
    Keys::ed25519(&Seed::new([at + 200; 32]), [9; 32])
}

pub(crate) fn join(member: u8) -> Change {
    Change::Join { member, key: seed(u32::from(member)).public() }
}

pub(crate) const fn leave(member: u8) -> Change {
    Change::Leave { member }
}

pub(crate) fn founding(members: u8) -> Arc<Founding> {
    let members: BTreeMap<u8, PublicKey> =
        (0..members).map(|id| (id, seed(u32::from(id)).public())).collect();
    let operators = (0..OPERATORS).map(|at| operator(at).public()).collect();
    Arc::new(Founding { cluster: Hash([7; 32]), shard: 3, members, operators })
}

/// What three of four operators sign.
pub(crate) fn endorsed(founding: &Founding, change: Change) -> Endorsement {
    let sign = |at: u8| {
        let (scope, sworn) = founding.endorsed(change);
        let signature = operator(at).sign(scope, NodeId(u32::from(at)), sworn).signature;
        Operator { operator: at, signature }
    };
    let signed = [0, 1, 3].map(sign).to_vec();
    Endorsement { change, signed: signed.try_into().expect("few") }
}

/// Of how many members how many must say the same, written out.
pub(crate) fn quorum(members: usize) -> usize {
    [0, 1, 2, 2, 3, 4, 4, 5, 6, 6, 7, 8, 8, 9, 10, 10, 11][members]
}

/// Who is in a view, reckoned anew.
pub(crate) fn members(founding: &Founding, view: &View) -> BTreeSet<u8> {
    let mut all: BTreeSet<u8> = founding.members.keys().copied().collect();
    let gone = |change: &Change| match change {
        Change::Leave { member } => Some(*member),
        Change::Join { .. } => None,
    };
    for change in view.changes() {
        if let Change::Join { member, .. } = change {
            all.insert(*member);
        }
    }
    let gone: BTreeSet<u8> = view.changes().filter_map(gone).collect();
    all.difference(&gone).copied().collect()
}

/// What one member's user was told.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) resumed: Vec<View>,
    pub(crate) installed: Vec<View>,
    pub(crate) running: Option<View>,
    pub(crate) left: bool,
    pub(crate) confirmed: Vec<Change>,
    pub(crate) refused: usize,
    pub(crate) contradictions: usize,
}

/// The users, who stop, merge and resume when they are told to.
pub(crate) struct Crew {
    pub(crate) founding: Arc<Founding>,
    pub(crate) told: Vec<Told>,
    pub(crate) liars: BTreeSet<u8>,
    /// Every view that somebody resumed in.
    resumed: BTreeSet<View>,
}

impl Crew {
    /// A-S9: of all views, a quorum can run in one at most, whatever liars say; and views that resume are ordered.
    fn judge(&self) {
        let all: Vec<&View> = self.resumed.iter().collect();
        for one in &all {
            for other in &all {
                assert!(
                    one.within(other) || other.within(one),
                    "resumed views are no chain: {one:?} {other:?}"
                );
            }
        }
        let alive = all.iter().filter(|view| {
            let members = members(&self.founding, view);
            let runs = |id: &&u8| {
                self.liars.contains(id) || self.told[usize::from(**id)].running.as_ref() == Some(**view)
            };
            members.iter().filter(runs).count() >= quorum(members.len())
        });
        let alive: Vec<_> = alive.collect();
        assert!(alive.len() <= 1, "quorums run in two views: {alive:?}");
    }

    fn on_merge(&self, id: NodeId, view: &Roll, from: &Roll, states: &[SignedState]) {
        let who: BTreeSet<u8> = states.iter().map(|state| state.member).collect();
        let of = members(&self.founding, from.view());
        assert!(who.is_subset(&of) && who.len() >= quorum(of.len()), "states of too few, or of strangers");
        assert!(view.view().is_above(from.view()), "views go up");
        for state in states {
            assert_eq!(state.view, from.id());
            let is_true = state.state.bytes() == &self::state(state.member, state.view);
            assert!(is_true || self.liars.contains(&state.member));
        }
        let stopped_there =
            self.told[id.0 as usize].installed.last().cloned().unwrap_or_default() == *from.view();
        let me = u8::try_from(id.0).expect("few");
        assert!(!stopped_there || !of.contains(&me) || who.contains(&me), "its own state is among them");
    }
}

impl Users for Crew {
    type Machine = Machine;

    fn config(&self, id: NodeId) -> Config {
        Config {
            me: id,
            founding: Arc::clone(&self.founding),
            resend: Span::millis(500),
            resend_max: Span::secs(10),
        }
    }

    fn keys(&self, id: NodeId) -> Keys {
        keys(id.0)
    }

    fn told(&mut self, id: NodeId, output: Output) -> Vec<Input> {
        let at = id.0 as usize;
        match output {
            Output::Confirmed(change) => self.told[at].confirmed.push(change),
            Output::Stop(view) => {
                self.told[at].running = None;
                return vec![Input::Stopped { view, state: state(u8::try_from(id.0).expect("few"), view) }];
            }
            Output::Merge { view, from, rolls, states } => {
                assert!(rolls.last() == Some(&view) && rolls.contains(&from));
                self.on_merge(id, &view, &from, &states);
                let digest = Hash::of(&[u8::try_from(states.len()).expect("few")]);
                return vec![Input::Merged { view: view.id(), state: digest }];
            }
            Output::Installed(view) => {
                let installed = &mut self.told[at].installed;
                assert!(installed.last().is_none_or(|last| view.view().is_above(last)), "views go up");
                installed.push(view.view().clone());
            }
            Output::Resume(view) => {
                let told = &mut self.told[at];
                assert!(told.resumed.last().is_none_or(|last| last.within(view.view())), "views go up");
                told.resumed.push(view.view().clone());
                told.running = Some(view.view().clone());
                self.resumed.insert(view.view().clone());
                self.judge();
            }
            Output::Left(_) => self.told[at].left = true,
            Output::Refused { .. } => self.told[at].refused += 1,
            Output::Contradiction { .. } => self.told[at].contradictions += 1,
        }
        Vec::new()
    }
}

/// Members under a drawn schedule.
pub(crate) struct Views {
    world: World<Crew>,
    pub(crate) drawn: Drawn,
}

impl Deref for Views {
    type Target = World<Crew>;
    fn deref(&self) -> &World<Crew> {
        &self.world
    }
}

impl DerefMut for Views {
    fn deref_mut(&mut self) -> &mut World<Crew> {
        &mut self.world
    }
}

impl Views {
    /// So many members of the first view, of so many nodes.
    pub(crate) fn new(members: u8, nodes: u8, seed: u64) -> Self {
        let told = (0..nodes).map(|_| Told::default()).collect();
        let crew =
            Crew { founding: founding(members), told, liars: BTreeSet::new(), resumed: BTreeSet::new() };
        Self { world: World::new(u32::from(nodes), seed, crew), drawn: Drawn::new(seed ^ 0x51ed) }
    }

    pub(crate) fn lies(&mut self, liar: u8) {
        self.liar = Some(NodeId(u32::from(liar)));
        self.users.liars.insert(liar);
    }

    /// Has a node ask for a change.
    pub(crate) fn request(&mut self, by: u8, change: Change) {
        let endorsement = endorsed(&self.users.founding, change);
        self.ask(NodeId(u32::from(by)), Input::Request(endorsement));
    }

    /// Whether all correct members of the view with these changes run in it.
    pub(crate) fn runs(&self, changes: &[Change]) -> bool {
        let view = View::of(changes.iter().copied()).expect("few");
        let runs = |id: &u8| {
            self.users.liars.contains(id) || self.users.told[usize::from(*id)].running.as_ref() == Some(&view)
        };
        members(&self.users.founding, &view).iter().all(runs)
    }

    /// Some steps, then a node that does not lie crashes and comes back.
    pub(crate) fn crash(&mut self) {
        let steps = 30 + self.drawn.below(150);
        self.world.go_on(steps);
        let nodes = self.world.seats.len() as u64;
        let id = NodeId(u32::try_from(self.drawn.below(nodes)).expect("few"));
        let compacted = self.drawn.below(2) == 0;
        if self.world.liar != Some(id) {
            self.world.restart(id, compacted);
        }
    }

    /// Goes on without loss until the view with these changes runs.
    pub(crate) fn until_runs(&mut self, changes: &[Change]) -> bool {
        self.world.loss = 0;
        (0..30_000).any(|_| self.runs(changes) || !self.world.happen()) && self.runs(changes)
    }
}
