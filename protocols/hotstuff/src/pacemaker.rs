//! The pacemaker (paper 3.2.2, Alg. 2): when to give a term up, and how long to wait for a leader.
//!
//! A nested machine: the replica tells it views, work and complaints; it answers when to complain, whom to join, and
//! which complaints form a certificate. It signs, sends and stores nothing.
//!
//! *Bounds.* Two complaints per member (the current term's and the highest beyond), 64 samples per member.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use synod_crypto::Signature;
use synod_machine::{Event, Machine, Never, Span, Time, Turn, planted};
use synod_quorum::{Epoch, NodeId, NodeSet, Weights};
use synod_wire::List;

use crate::certificate::Complaint;
use crate::view::Terms;
use crate::{Qc, Rule, Tc, View};

/// Views of one leader that its median is taken over.
const SAMPLES_MAX: usize = 64;
/// The newest of them: where half of these came behind the timer, it is too short, and those alone say how long to wait. A
/// member that gives its leaders up too early adds one or two views per term, so the median of all would learn it too late.
const SAMPLES_NEW: usize = 8;

/// How long a view took, or how far its leader got.
#[derive(Clone, Copy, Debug)]
struct Sample {
    took: u64,
    /// Behind the timer.
    late: bool,
}

/// A complaint as it was received; its certificate is verified, its signature is not.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    /// Last view of the term it gives up.
    pub(crate) view: View,
    /// The highest certificate its sender held.
    pub(crate) high: Arc<Qc>,
    /// Over both views.
    pub(crate) signature: Signature,
}

/// Why a view was entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// After a start.
    Start,
    /// The view before was certified.
    Qc,
    /// The term before was given up.
    Tc,
}

/// What the replica tells.
#[derive(Clone, Debug)]
pub(crate) enum Pace {
    /// A view was entered; `led` proposed the block that ended the view before.
    Enter { view: View, reason: Reason, led: Option<NodeId> },
    /// Whether there is work to wait for.
    Work(bool),
    /// A certificate of the current view that does not end it: its leader got that far.
    Certified(NodeId),
    /// A proposal of the current view, by its leader.
    Proposed(NodeId),
    /// A block was committed.
    Committed,
    /// The replica gave up everything up to this view.
    GaveUp(View),
    /// A member complained.
    Complaint(NodeId, Held),
    /// Complaints about this view were forged by these members.
    Close(View, Vec<NodeId>),
}

/// What the replica is told.
#[derive(Clone, Debug)]
pub(crate) enum Paced {
    /// The timer of the current view ran out, for the `times`-th time.
    Expired { times: u32 },
    /// A weak quorum gave up everything up to this view: join it.
    Join(View),
    /// Complaints of quorum power, to be verified.
    Quorum(Arc<Tc>),
}

/// Which of the paper's rules and of the corrections to them are on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Temper {
    /// First duration.
    pub(crate) base: Span,
    /// Longest duration.
    pub(crate) max: Span,
    /// The duration follows the measured views and failures (M7); off in the paper's pack.
    pub(crate) adaptive: bool,
    /// A weak quorum is joined (M3) and complaints repeat (M2); off in the paper's pack.
    pub(crate) insistent: bool,
}

/// The pacemaker of one replica.
#[derive(Clone, Debug)]
pub(crate) struct Pacemaker {
    own: NodeId,
    epoch: Epoch,
    weights: Weights,
    terms: Terms,
    temper: Temper,
    view: View,
    gave_up: View,
    working: bool,
    /// When the timer of this view was armed first.
    armed_at: Option<Time>,
    /// How far the leader of this view got, and after how long.
    reached: Option<(NodeId, Sample)>,
    expiries: u32,
    failures: u32,
    complaints: BTreeMap<NodeId, Vec<Held>>,
    closed: BTreeMap<NodeId, View>,
    in_check: BTreeSet<View>,
    samples: BTreeMap<NodeId, VecDeque<Sample>>,
}

impl Pacemaker {
    /// A pacemaker at the start, in view 0.
    pub(crate) const fn new(
        own: NodeId,
        epoch: Epoch,
        weights: Weights,
        terms: Terms,
        temper: Temper,
    ) -> Self {
        Self {
            own,
            epoch,
            weights,
            terms,
            temper,
            view: View::GENESIS,
            gave_up: View::GENESIS,
            working: false,
            armed_at: None,
            reached: None,
            expiries: 0,
            failures: 0,
            complaints: BTreeMap::new(),
            closed: BTreeMap::new(),
            in_check: BTreeSet::new(),
            samples: BTreeMap::new(),
        }
    }

    /// Terms given up since the last commit.
    pub(crate) const fn failures(&self) -> u32 {
        self.failures
    }

    /// M7: how long the next timer runs.
    pub(crate) fn duration(&self) -> Span {
        if !self.temper.adaptive || planted!(H27) {
            return self.temper.base;
        }
        let mut duration = self.temper.base.0.max(self.median().saturating_mul(8));
        for _ in 0..self.failures.min(64) {
            duration = (duration / 2).saturating_mul(3).min(self.temper.max.0);
        }
        Span(duration.min(self.temper.max.0))
    }

    /// The power-weighted median over the members of each one's median view as leader.
    fn median(&self) -> u64 {
        let mut medians: Vec<(u64, u64)> = (0..self.weights.size())
            .map(NodeId)
            .map(|id| (self.samples.get(&id).map_or(0, middle), self.weights.power(id)))
            .collect();
        medians.sort_unstable();
        let mut power = 0;
        for (median, weight) in &medians {
            power += weight;
            if power.saturating_mul(2) >= self.weights.total() {
                return *median;
            }
        }
        0
    }

    /// M7: a commit forgets the failures. While less than half of the members led a measured view it only halves them:
    /// the measure does not say yet how long a view takes, and the same leaders would fail again, and stay unmeasured.
    fn recover(&mut self) {
        let unknown = self.failures > 0 && self.temper.adaptive && self.median() == 0;
        self.failures = if unknown { self.failures / 2 } else { 0 };
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        let complaints: usize = self.complaints.values().map(Vec::len).sum();
        let certificate = 128 + 64 * u64::from(self.weights.size());
        complaints as u64 * (certificate + 128) + self.samples.len() as u64 * 2_048
    }

    /// The complaints of a member, for whoever asks what it said last.
    pub(crate) fn newest(&self, from: NodeId) -> Option<&Held> {
        self.complaints.get(&from).and_then(|held| held.last())
    }

    /// The leader of this view got so far.
    fn reach(&mut self, leader: NodeId, late: bool, turn: &Turn<'_, Self>) {
        self.reached = self.armed_at.map(|at| (leader, Sample { took: turn.now().since(at).0, late }));
    }

    fn enter(&mut self, view: View, reason: Reason, led: Option<NodeId>, turn: &mut Turn<'_, Self>) {
        assert!(view > self.view, "views only rise");
        let ended = led.filter(|_| reason == Reason::Qc).zip(self.armed_at);
        let ended = ended.map(|(leader, at)| (leader, Sample { took: turn.now().since(at).0, late: false }));
        // A view given up behind its last certificate counts as far as that: a timeout below the real delay would never
        // learn better from the views that it ends itself.
        if let Some((leader, took)) = ended.or(self.reached.take()) {
            let samples = self.samples.entry(leader).or_default();
            samples.push_back(took);
            if samples.len() > SAMPLES_MAX {
                samples.pop_front();
            }
        }
        self.reached = None;
        if reason == Reason::Tc {
            self.failures = self.failures.saturating_add(1);
            turn.applied(Rule::TimeoutGrows);
        }
        if self.armed_at.take().is_some() {
            turn.disarm(self.view);
        }
        self.view = view;
        self.expiries = 0;
        self.trim();
        self.arm(turn);
    }

    /// M1: armed on entering a view if work is pending, else as soon as it is.
    fn arm(&mut self, turn: &mut Turn<'_, Self>) {
        if self.working && self.armed_at.is_none() && self.view > View::GENESIS {
            self.armed_at = Some(turn.now());
            turn.arm(self.view, self.duration());
            turn.applied(Rule::ArmTimer);
        }
    }

    fn work(&mut self, working: bool, turn: &mut Turn<'_, Self>) {
        self.working = working;
        if working {
            self.arm(turn);
        } else if self.armed_at.take().is_some() {
            turn.disarm(self.view);
        }
    }

    fn expire(&mut self, view: View, turn: &mut Turn<'_, Self>) {
        if view != self.view || self.armed_at.is_none() {
            return;
        }
        self.expiries = self.expiries.saturating_add(1);
        turn.arm(self.view, self.duration());
        let again = self.expiries > 1;
        let mute = (again && (!self.temper.insistent || planted!(H26))) || planted!(H25);
        if !mute {
            turn.output(Paced::Expired { times: self.expiries });
        }
    }

    fn complaint(&mut self, from: NodeId, held: Held, turn: &mut Turn<'_, Self>) {
        if held.view < self.view || self.closed.get(&from).is_some_and(|view| *view >= held.view) {
            return;
        }
        let view = held.view;
        let slots = self.complaints.entry(from).or_default();
        match slots.iter_mut().find(|h| h.view == view) {
            Some(old) if old.high.view < held.high.view => *old = held,
            Some(_) => {}
            None => slots.push(held),
        }
        self.trim();
        self.join(turn);
        self.certify(view, turn);
    }

    /// One complaint for the current term and the highest beyond it, lowest first.
    fn trim(&mut self) {
        let (view, end) = (self.view, self.terms.end(self.view));
        for slots in self.complaints.values_mut() {
            slots.sort_by_key(|h| h.view);
            let highest = slots.last().map(|h| h.view).unwrap_or_default();
            slots.retain(|h| h.view >= view && (h.view == end || h.view == highest || planted!(H17)));
        }
        self.complaints.retain(|_, slots| !slots.is_empty());
        self.in_check.retain(|checked| *checked >= view);
        self.closed.retain(|_, closed| *closed >= view);
    }

    /// M3: complain about the highest view that a weak quorum gave up to.
    fn join(&mut self, turn: &mut Turn<'_, Self>) {
        if !self.temper.insistent || planted!(H26) {
            return;
        }
        let mut views: Vec<View> = self.complaints.values().flatten().map(|h| h.view).collect();
        views.sort_unstable();
        let reached = views.into_iter().rev().find(|view| {
            let members: NodeSet = self
                .complaints
                .iter()
                .filter(|(id, slots)| **id != self.own && slots.iter().any(|h| h.view >= *view))
                .map(|(id, _)| *id)
                .collect();
            self.weights.is_weak(members)
        });
        if let Some(view) = reached.filter(|view| *view > self.gave_up) {
            turn.output(Paced::Join(view));
        }
    }

    /// M4: complaints of quorum power about exactly `view`.
    fn certify(&mut self, view: View, turn: &mut Turn<'_, Self>) {
        let about = |slots: &Vec<Held>| slots.iter().find(|h| h.view == view).cloned();
        let held: Vec<(NodeId, Held)> =
            self.complaints.iter().filter_map(|(id, slots)| about(slots).map(|h| (*id, h))).collect();
        let members: NodeSet = held.iter().map(|(id, _)| *id).collect();
        let enough = self.weights.is_quorum(members) || (planted!(H1) && self.weights.is_weak(members));
        if !enough || self.in_check.contains(&view) {
            return;
        }
        let Some(high) = held.iter().map(|(_, h)| &h.high).max_by_key(|qc| qc.view).cloned() else { return };
        let complaints: Vec<Complaint> = held
            .iter()
            .filter_map(|(id, h)| {
                id.member().map(|member| Complaint { member, high: h.high.view, signature: h.signature })
            })
            .collect();
        let Ok(complaints) = List::try_from(complaints) else { return };
        self.in_check.insert(view);
        let tc = Tc { epoch: self.epoch, view, complaints, high: Qc::clone(&high) };
        turn.output(Paced::Quorum(Arc::new(tc)));
    }

    fn close(&mut self, view: View, forgers: &[NodeId], turn: &mut Turn<'_, Self>) {
        self.in_check.remove(&view);
        for forger in forgers {
            if let Some(slots) = self.complaints.get_mut(forger) {
                slots.retain(|h| h.view != view);
            }
            let closed = self.closed.entry(*forger).or_default();
            *closed = (*closed).max(view);
        }
        self.certify(view, turn);
    }
}

impl Machine for Pacemaker {
    type Input = Pace;
    type Message = Never;
    type Timer = View;
    type Record = Never;
    type Job = Never;
    type Output = Paced;

    fn step(&mut self, event: Event<Self>, turn: &mut Turn<'_, Self>) {
        match event {
            Event::Input(Pace::Enter { view, reason, led }) => self.enter(view, reason, led, turn),
            Event::Input(Pace::Work(working)) => self.work(working, turn),
            Event::Input(Pace::Certified(leader)) => {
                self.reach(leader, false, turn);
            }
            // What came after the timer had run out came late by this timer alone: it shows how long this member must wait.
            // A leader that proposes in time and stops shows nothing, nor does one that says again what it proposed.
            Event::Input(Pace::Proposed(leader))
                if self.expiries > 0 && !self.reached.is_some_and(|(_, sample)| sample.late) =>
            {
                self.reach(leader, true, turn);
            }
            Event::Input(Pace::Proposed(_)) => {}
            Event::Input(Pace::Committed) => self.recover(),
            Event::Input(Pace::GaveUp(view)) => self.gave_up = self.gave_up.max(view),
            Event::Input(Pace::Complaint(from, held)) => self.complaint(from, held, turn),
            Event::Input(Pace::Close(view, forgers)) => self.close(view, &forgers, turn),
            Event::Timer(view) => self.expire(view, turn),
            Event::Message { message, .. } => match message {},
            Event::Done(done) => match done {},
            Event::Start | Event::Loaded { .. } | Event::Link { .. } => {}
        }
    }

    fn invariants(&self) {
        assert!(self.complaints.values().all(|slots| slots.len() <= 2));
        assert!(self.samples.values().all(|samples| samples.len() <= SAMPLES_MAX));
    }
}

/// The median of all samples; where half of the newest came behind the timer, that of these if it is longer.
fn middle(samples: &VecDeque<Sample>) -> u64 {
    let of = |mut sorted: Vec<u64>| {
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or(0)
    };
    let all = of(samples.iter().map(|sample| sample.took).collect());
    let newest = samples.iter().rev().take(SAMPLES_NEW);
    let late: Vec<u64> = newest.filter(|sample| sample.late).map(|sample| sample.took).collect();
    if late.len() * 2 >= SAMPLES_NEW { all.max(of(late)) } else { all }
}

#[cfg(test)]
mod tests;
