//! A member that is further behind than others keep batches takes the state behind the newest certified cut instead: in parts, each
//! checked against the root that a quorum signed, and then what lies above it. Whoever serves a part that is none is blamed, and the
//! part is asked of somebody else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use synod_machine::Turn;
use synod_quorum::{NodeId, NodeSet};

use super::cuts::Kept;
use crate::cut::{Piece, Range, Served, pieces};
use crate::fault::Fault;
use crate::replica::{Carrier, Replica, say};
use crate::trace::Rule;
use crate::words::{Timer, Word};

/// Parts that are asked for at once.
const ASKED_MAX: usize = 8;

/// A state on its way here.
#[derive(Clone, Debug)]
pub(in crate::replica) struct Fetch {
    pub(super) kept: Arc<Kept>,
    /// Parts that nobody was asked for yet, last first.
    want: Vec<Piece>,
    asked: BTreeSet<Piece>,
    pub(super) got: BTreeMap<Piece, Range>,
    /// Which of the others is asked.
    nth: u32,
    /// Members who served what was none.
    liars: NodeSet,
    has_news: bool,
}

impl Fetch {
    pub(super) fn new(kept: Arc<Kept>) -> Self {
        let mut want = pieces(&kept.certified.record);
        want.reverse();
        let nth = u32::try_from(kept.certified.cut.number & 0xff).unwrap_or_default();
        let (asked, got) = (BTreeSet::new(), BTreeMap::new());
        Self { kept, want, asked, got, nth, liars: NodeSet::EMPTY, has_news: false }
    }

    /// Whether all of it is here.
    pub(super) fn is_whole(&self) -> bool {
        self.want.is_empty() && self.asked.is_empty()
    }

    pub(super) fn bytes(&self) -> u64 {
        let parts = self.got.values().map(|range| match range {
            Range::Accounts { accounts, .. } => accounts.len() * 512,
            Range::Holds { holds, .. } => holds.len() * 128,
        });
        parts.sum::<usize>() as u64 + ((self.want.len() + self.asked.len()) * 32) as u64
    }
}

impl<B: Carrier> Replica<B> {
    /// Begins to fetch the state behind the newest certified cut if others may have let go of batches that are missing below it.
    pub(super) fn consider_fetch(&mut self, turn: &mut Turn<'_, Self>) {
        let Some(kept) = self.cuts.newest.clone().filter(|_| self.config.parameters.skips) else { return };
        let retain = self.config.parameters.retain;
        let is_gone = kept.certified.cut.lanes.iter().any(|end| {
            let here = self.lanes.get(&end.lot.source).map_or(0, |lane| lane.frontier);
            end.lot.sequence > here.saturating_add(retain)
        });
        let number = kept.certified.cut.number;
        // Others serve the last two.
        let is_newer = |fetch: &Fetch| fetch.kept.certified.cut.number.saturating_add(1) < number;
        let is_newer = self.cuts.fetch.as_ref().is_none_or(is_newer);
        if is_gone && is_newer {
            turn.applied(Rule::CutFetch);
            self.cuts.fetch = Some(Fetch::new(kept));
            self.ask_pieces(turn);
        }
    }

    /// Asks whose turn it is for more parts.
    fn ask_pieces(&mut self, turn: &mut Turn<'_, Self>) {
        let (all, pull) = (self.others(), self.config.parameters.pull);
        let Some(fetch) = &mut self.cuts.fetch else { return };
        while fetch.asked.len() < ASKED_MAX
            && let Some(piece) = fetch.want.pop()
        {
            fetch.asked.insert(piece);
        }
        let honest = all.minus(fetch.liars);
        let others = if honest.is_empty() { all } else { honest };
        let nth = fetch.nth.checked_rem(others.count()).unwrap_or_default();
        let number = fetch.kept.certified.cut.number;
        if let Some(peer) = others.iter().nth(usize::try_from(nth).unwrap_or_default()) {
            for piece in &fetch.asked {
                say(turn, peer, Word::AskRange { number, piece: *piece });
            }
        }
        if !fetch.asked.is_empty() {
            turn.arm(Timer::Fetch, pull.times(4));
        }
    }

    /// Nothing came for a while: somebody else is asked.
    pub(in crate::replica) fn on_fetch_due(&mut self, turn: &mut Turn<'_, Self>) {
        let Some(fetch) = self.cuts.fetch.as_mut().filter(|fetch| !fetch.asked.is_empty()) else { return };
        if !std::mem::take(&mut fetch.has_news) {
            fetch.nth = fetch.nth.wrapping_add(1);
        }
        self.ask_pieces(turn);
    }

    /// Another member is behind.
    pub(in crate::replica) fn on_ask_range(
        &self,
        from: NodeId,
        (number, piece): (u64, Piece),
        turn: &mut Turn<'_, Self>,
    ) {
        let served = [&self.cuts.served, &self.cuts.served_before].into_iter().flatten();
        let kept = served.into_iter().find(|kept| kept.certified.cut.number == number);
        match kept.and_then(|kept| kept.state.as_ref()).and_then(|state| state.range(piece)) {
            Some(range) => say(turn, from, Word::Range(Box::new(Served { number, piece, range }))),
            None => self.on_ask_cut(from, number, turn),
        }
    }

    /// A part of a state, perhaps.
    pub(in crate::replica) fn on_range(&mut self, from: NodeId, served: Served, turn: &mut Turn<'_, Self>) {
        let Served { number, piece, range } = served;
        let fetch = self.cuts.fetch.as_mut().filter(|fetch| fetch.kept.certified.cut.number == number);
        let Some(fetch) = fetch.filter(|fetch| fetch.asked.contains(&piece)) else { return };
        if !range.is(piece, &fetch.kept.certified.record) {
            turn.blame(from, Fault::WrongRange);
            if fetch.liars.insert(from) {
                fetch.nth = fetch.nth.wrapping_add(1);
                self.ask_pieces(turn);
            }
            return;
        }
        fetch.asked.remove(&piece);
        fetch.got.insert(piece, range);
        fetch.has_news = true;
        if fetch.is_whole() {
            turn.disarm(Timer::Fetch);
        } else if fetch.asked.is_empty() {
            self.ask_pieces(turn);
        }
    }
}
