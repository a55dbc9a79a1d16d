//! The followers as a model: what the liar says, who hears what, and who is killed.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use stateright::{Model, Property};
use synod_machine::Message as _;
use synod_quorum::Epoch;

use super::cast::Proposal;
use super::run::Instance;
use super::table::{Flight, Lie, Local, Outcome, Table, What};
use crate::models::bounded::{Bounded, Limit};

/// What the liar can do once with each follower.
const LIES: [Lie; 12] = [
    Lie::Propose { proposal: Proposal::One, is_signed: false },
    Lie::Propose { proposal: Proposal::One, is_signed: true },
    Lie::Propose { proposal: Proposal::Other, is_signed: false },
    Lie::Propose { proposal: Proposal::Other, is_signed: true },
    Lie::Commit(Epoch(0), Proposal::One),
    Lie::Commit(Epoch(0), Proposal::Other),
    Lie::Propose { proposal: Proposal::Beyond, is_signed: true },
    Lie::Propose { proposal: Proposal::Behind, is_signed: true },
    Lie::Commit(Epoch(1), Proposal::Behind),
    Lie::Back(Epoch(0)),
    Lie::Back(Epoch(1)),
    Lie::Tell,
];

/// Whether it counts against what the liar may say.
const fn counts(lie: Lie) -> bool {
    matches!(lie, Lie::Propose { .. } | Lie::Commit(..))
}

/// Whether it is of the second slot.
const fn is_later(lie: Lie) -> bool {
    match lie {
        Lie::Propose { proposal, .. } => matches!(proposal, Proposal::Behind | Proposal::Beyond),
        Lie::Back(epoch) | Lie::Commit(epoch, _) => epoch.0 > 0,
        Lie::Tell => false,
    }
}

/// The bit of the follower that is killed.
const RISEN: u32 = 1 << 31;

/// The machines, what is on its way, and what was done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    seats: [Local; 2],
    nodes: Vec<Local>,
    /// To each follower from the other, in the order sent.
    links: [Vec<Flight>; 2],
    /// Operations of a follower and epoch to a node, in the order sent.
    lanes: Vec<Vec<Flight>>,
    /// Nodes that served something, the first of them all: the others are alike, and the first of those is next.
    touched: u8,
    /// What the liar said to each follower, a bit each, and whether one was killed.
    said: u32,
    /// The number of the breach that ends this run; 0 for none.
    pub(super) breach: u32,
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// The liar does this with a follower.
    Lie(u8, u8),
    /// A follower hears the next word of the other.
    Hear(u8),
    /// A node serves the next operation of a follower and epoch.
    Serve(u8),
    /// The second follower is killed and starts again.
    Rise,
}

/// One instance, explored once.
pub(super) struct Cluster {
    instance: Instance,
    table: Mutex<Table>,
    first: State,
    limit: Limit,
}

impl Cluster {
    pub(super) fn new(instance: Instance, deadline: Instant) -> Self {
        let (table, seats, nodes) = Table::begin(instance);
        let lanes = vec![Vec::new(); 4 * nodes.len()];
        let first =
            State { seats, nodes, links: [Vec::new(), Vec::new()], lanes, touched: 0, said: 0, breach: 0 };
        Self { instance, table: Mutex::new(table), first, limit: Limit::new(deadline) }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the liar would say next, if it may.
    fn lie(&self, table: &mut Table, state: &State, to: u8, lie: u8) -> Option<Flight> {
        let what = *LIES.get(usize::from(lie))?;
        let is_here = self.instance.speaks_later || !is_later(what);
        // Both proposals are alike: the first that is said is the one.
        let is_first = state.said & !RISEN != 0
            || matches!(what, Lie::Propose { proposal: Proposal::One, .. } | Lie::Back(_) | Lie::Tell);
        let is_left = !counts(what) || state.spent() < u32::from(self.instance.says);
        if !is_here || !is_first || !is_left || state.said & bit(to, lie) != 0 {
            return None;
        }
        table.lie(state.seats, to, (lie, what))
    }
}

fn bit(to: u8, lie: u8) -> u32 {
    1 << (2 * lie + to)
}

impl State {
    /// What the liar said that counts.
    fn spent(&self) -> u32 {
        let all = LIES.iter().zip(0_u8..).filter(|(lie, _)| counts(**lie));
        let mask = all.fold(0, |mask, (_, lie)| mask | bit(0, lie) | bit(1, lie));
        (self.said & mask).count_ones()
    }

    fn lane(&self, of: usize, epoch: Epoch, at: u8) -> usize {
        let epoch = usize::from(epoch.0 > 0);
        (2 * of + epoch) * self.nodes.len() + usize::from(at)
    }

    /// Something comes to a follower.
    fn hear(&mut self, table: &mut Table, of: usize, flight: Flight) {
        let Some(seat) = self.seats.get_mut(of) else { return };
        let Outcome { next, words, ops } = table.hear(*seat, flight);
        *seat = next;
        if let Some(link) = self.links.get_mut(1 - of) {
            link.extend(words);
        }
        for (epoch, at, op) in ops {
            let lane = self.lane(of, epoch, at);
            self.lanes.get_mut(lane).into_iter().for_each(|lane| lane.push(op));
        }
        self.breach = table.judge(self.seats);
    }

    fn serve(&mut self, table: &mut Table, lane: usize) {
        let nodes = self.nodes.len();
        let (of, at) = (lane / (2 * nodes), lane % nodes);
        let Some(waiting) = self.lanes.get_mut(lane).filter(|waiting| !waiting.is_empty()) else { return };
        let op = waiting.remove(0);
        let Some(node) = self.nodes.get_mut(at) else { return };
        let at = u8::try_from(at).unwrap_or(0);
        let (next, reply) = table.serve(*node, at, op);
        *node = next;
        self.touched = self.touched.max(at + 1);
        if let Some(reply) = reply {
            self.hear(table, of, reply);
        }
    }

    /// Forgets what comes to nobody, and what nobody waits for any more.
    fn tidy(&mut self, table: &mut Table, is_cut: bool) {
        for (seat, link) in self.seats.iter().zip(&mut self.links) {
            if is_cut || !table.seat(*seat).is_in(Epoch(0)) {
                link.clear();
            }
        }
        let nodes = self.nodes.len();
        for (lane, waiting) in self.lanes.iter_mut().enumerate() {
            let (of, at) = (lane / (2 * nodes), lane % nodes);
            let (Some(seat), Some(node)) = (self.seats.get(of), self.nodes.get(at)) else { continue };
            let at = u8::try_from(at).unwrap_or(0);
            waiting.retain(|op| table.is_awaited(*seat, *node, at, *op));
        }
    }
}

impl Bounded for Cluster {
    const REACHED: &'static str = "what it is about happens";

    fn name(&self) -> String {
        self.instance.name()
    }

    fn limit(&self) -> &Limit {
        &self.limit
    }

    fn breach(&self, state: &State) -> Option<(&'static str, String)> {
        self.table().breach(state.breach).map(|breach| (breach.checker, breach.what.clone()))
    }

    fn size(&self) -> (usize, usize) {
        self.table().size()
    }

    /// Several things, each in some run: the table knows them.
    fn has_reached(&self, _: bool) -> bool {
        self.table().has_seen_all()
    }

    fn told(&self, choices: Vec<Choice>) -> Vec<String> {
        let mut table = self.table();
        let mut state = self.first.clone();
        let mut told = Vec::new();
        for choice in choices {
            let name = |flight: Option<&Flight>| {
                flight.map_or_else(String::new, |flight| table.what(*flight).name())
            };
            told.push(match choice {
                Choice::Lie(to, lie) => {
                    format!("the liar to {}: {:?}", to + 1, LIES.get(usize::from(lie)))
                }
                Choice::Hear(of) => {
                    let link = state.links.get(usize::from(of));
                    format!("replica {} hears {}", of + 1, name(link.and_then(|link| link.first())))
                }
                Choice::Serve(lane) => {
                    let lane = state.lanes.get(usize::from(lane));
                    format!("a node serves {}", name(lane.and_then(|lane| lane.first())))
                }
                Choice::Rise => "replica 2 is killed and starts again".to_owned(),
            });
            if let Some(next) = self.after(&mut table, &state, choice) {
                state = next;
            }
        }
        told
    }
}

impl What {
    /// In a word.
    fn name(&self) -> String {
        let first = |text: String| text.split(" {").next().unwrap_or("").to_owned();
        match self {
            Self::Words(_, _, words) => words.iter().map(|word| first(word_name(word))).collect(),
            Self::Op { own, epoch, op, .. } => {
                let place = op.place();
                format!(
                    "{} of {own} in epoch {} at {} of {}",
                    first(format!("{op:?}")),
                    epoch.0,
                    place.index,
                    place.region.owner
                )
            }
            Self::Reply { reply, .. } => format!("{:?}", reply.said),
            Self::Rise => "its end".to_owned(),
            Self::Over(_) => "the end of the epoch".to_owned(),
        }
    }
}

fn word_name(word: &synod_ubft::replica::Word) -> String {
    match word {
        synod_ubft::replica::Word::Ctb { broadcaster, word } => {
            let text = format!("{word:?}");
            format!("{} of {broadcaster}", text.split(" {").next().unwrap_or(""))
        }
        other => format!("{:?} {other:?}", other.queue()),
    }
}

impl Cluster {
    fn after(&self, table: &mut Table, state: &State, choice: Choice) -> Option<State> {
        let mut next = state.clone();
        match choice {
            Choice::Lie(to, lie) => {
                let flight = self.lie(table, state, to, lie)?;
                next.said |= bit(to, lie);
                next.hear(table, usize::from(to), flight);
            }
            Choice::Hear(of) => {
                let link = next.links.get_mut(usize::from(of)).filter(|link| !link.is_empty())?;
                let flight = link.remove(0);
                next.hear(table, usize::from(of), flight);
            }
            Choice::Serve(lane) => next.serve(table, usize::from(lane)),
            Choice::Rise => {
                next.said |= RISEN;
                let flight = table.rise();
                next.hear(table, 1, flight);
            }
        }
        next.tidy(table, self.instance.is_cut);
        Some(next)
    }
}

impl Model for Cluster {
    type State = State;
    type Action = Choice;

    fn init_states(&self) -> Vec<State> {
        vec![self.first.clone()]
    }

    fn actions(&self, state: &State, choices: &mut Vec<Choice>) {
        let mut table = self.table();
        if self.limit.cuts(table.is_full()) || state.breach != 0 {
            return;
        }
        for lie in (0_u8..).take(LIES.len()) {
            let may = (0..2_u8).filter(|to| self.lie(&mut table, state, *to, lie).is_some());
            choices.extend(may.map(|to| Choice::Lie(to, lie)));
        }
        let due = (0_u8..).zip(&state.links).filter(|(_, link)| !link.is_empty());
        choices.extend(due.map(|(of, _)| Choice::Hear(of)));
        let nodes = state.nodes.len().max(1);
        let is_next = |lane: u8| usize::from(lane) % nodes <= usize::from(state.touched);
        let due = (0_u8..).zip(&state.lanes).filter(|(lane, waiting)| !waiting.is_empty() && is_next(*lane));
        choices.extend(due.map(|(lane, _)| Choice::Serve(lane)));
        if state.said & RISEN == 0 {
            choices.push(Choice::Rise);
        }
    }

    fn next_state(&self, state: &State, choice: Choice) -> Option<State> {
        let mut table = self.table();
        self.after(&mut table, state, choice)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("safe", |_: &Self, state: &State| state.breach == 0),
            Property::sometimes("what it is about happens", |cluster: &Self, _: &State| {
                cluster.table().has_seen_all()
            }),
        ]
    }
}
