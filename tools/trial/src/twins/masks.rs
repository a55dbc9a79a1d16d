//! Who hears whom: a script's rounds as a rule about frames.
//!
//! Round r is played in the first view behind that of round r - 1 whose turn it is for the leader of r. The views
//! between them belong to round r too, but nothing that anybody proposes in them gets through, so that they are given
//! up within the sides of r. A frame without a view goes by the furthest round that any frame was of. Behind the last
//! round everything gets through.

use synod_hotstuff::Message;
use synod_quorum::NodeId;
use synod_sim::{Passage, Scenario, Script};
use synod_wire::Bytes;

use super::orbits::Round;
use super::{MEMBERS, scenario};
use crate::params::number;
use crate::sight::{REPLICA, opened};

/// What a frame says about its place in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tense {
    /// A proposal of this view.
    Proposal(u64),
    /// Part of this view.
    Of(u64),
    /// Of no view.
    Any,
}

const fn tense(message: &Message) -> Tense {
    match message {
        Message::Propose { header, .. } => Tense::Proposal(header.view.0),
        Message::Body { view, .. } => Tense::Proposal(view.0),
        Message::Vote { view, .. }
        | Message::Order { view, .. }
        | Message::NewView { view, .. }
        | Message::Complain { view, .. } => Tense::Of(view.0),
        Message::Phase(qc) => Tense::Of(qc.view.0),
        Message::Advance(_)
        | Message::Status(_)
        | Message::Fetch(_)
        | Message::Blocks(_)
        | Message::Forward(_)
        | Message::Attest { .. } => Tense::Any,
    }
}

/// The masks of a script.
pub(crate) struct Masks {
    pair: NodeId,
    /// The view each round is played in, and the round.
    rounds: Vec<(u64, Round)>,
    /// The furthest view that a frame was of.
    front: u64,
    /// The last frame looked at, for a frame is asked about once per recipient.
    last: (Bytes, Tense),
}

/// The masks of a scenario; `None` when it has no script.
pub(crate) fn masks(of: &Scenario) -> Option<Masks> {
    let pair = u32::try_from(number(of, "twin", 0)).ok()?.checked_sub(1)?;
    let mut view = 0;
    let rounds = scenario::rounds(of).into_iter().map(Round::of).map(|round| {
        let leader = leader(pair, round);
        view += 1;
        while view % u64::from(MEMBERS) != u64::from(leader) {
            view += 1;
        }
        (view, round)
    });
    let rounds: Vec<(u64, Round)> = rounds.collect();
    let last = (Bytes::new(), Tense::Any);
    (!rounds.is_empty()).then_some(Masks { pair: NodeId(pair), rounds, front: 0, last })
}

/// The member that leads a round: the others are counted without the pair.
const fn leader(pair: u32, round: Round) -> u32 {
    match round.leader as u32 {
        0 => pair,
        other if other <= pair => other - 1,
        other => other,
    }
}

impl Masks {
    /// The view of the last round.
    pub(crate) fn end(&self) -> u64 {
        self.rounds.last().map_or(0, |(view, _)| *view)
    }

    /// The sides of an instance in a round, as bits.
    fn sides(&self, round: Round, (id, twin): (NodeId, u8)) -> u8 {
        if id == self.pair {
            return 1 << twin;
        }
        let other = if id > self.pair { id.0 - 1 } else { id.0 };
        let side = round.sides.get(other as usize).copied().unwrap_or(2);
        [0b01, 0b10, 0b11][usize::from(side.min(2))]
    }

    fn tense(&mut self, body: &Bytes) -> Tense {
        if (self.last.0.as_ptr(), self.last.0.len()) != (body.as_ptr(), body.len()) {
            self.last = (body.clone(), opened(body).as_ref().map_or(Tense::Any, tense));
        }
        self.last.1
    }
}

impl Script for Masks {
    fn passes(&mut self, passage: &Passage<'_>) -> bool {
        let between_members = passage.from.0.is_member() && passage.to.0.is_member();
        if passage.machine != REPLICA || !between_members {
            return true;
        }
        let tense = self.tense(passage.body);
        let view = match tense {
            Tense::Proposal(view) | Tense::Of(view) => view,
            Tense::Any => self.front,
        };
        self.front = self.front.max(view);
        let Some((played, round)) = self.rounds.iter().find(|(played, _)| view <= *played).copied() else {
            return true;
        };
        let is_skipped = tense == Tense::Proposal(view) && view != played;
        !is_skipped && self.sides(round, passage.from) & self.sides(round, passage.to) != 0
    }
}

#[cfg(test)]
mod tests {
    use synod_crypto::{Hash, Signature};
    use synod_hotstuff::{Kind, View};

    use super::*;
    use crate::strategy::sealed;

    /// The pair is member 1; it leads, then the last of the others; the first other hears twin 0, the second twin 1, the
    /// third both.
    fn script() -> Masks {
        let mut of = Scenario::quiet("hotstuff/chain2", 1);
        let first = Round { leader: 0, sides: [0, 1, 2] };
        let second = Round { leader: 3, sides: [0, 1, 2] };
        let numbers = [("twin", 2), ("round_00", first.code()), ("round_01", second.code())];
        of.options.extend(numbers.map(|(key, value)| (key.to_owned(), i64::from(value))));
        masks(&of).expect("a script")
    }

    fn vote(view: u64) -> Bytes {
        let (kind, digest, signature) = (Kind::Generic, Hash::ZERO, Signature([0; 64]));
        sealed(&Message::Vote { kind, view: View(view), digest, signature })
    }

    fn passes(masks: &mut Masks, from: (u32, u8), to: (u32, u8), body: &Bytes) -> bool {
        let ends = [from, to].map(|(id, twin)| (NodeId(id), twin));
        masks.passes(&Passage { from: ends[0], to: ends[1], machine: REPLICA, body })
    }

    #[test]
    fn rounds_are_the_views_their_leaders_have() {
        let masks = script();
        assert_eq!(masks.rounds.iter().map(|(view, _)| *view).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(masks.end(), 3);
    }

    #[test]
    fn members_speak_when_they_share_a_side() {
        let mut masks = script();
        let body = vote(1);
        // Members 0, 2, 3 are the first, second and third other.
        for (from, to, heard) in [
            ((1, 0), (0, 0), true),
            ((1, 1), (0, 0), false),
            ((1, 0), (2, 0), false),
            ((1, 1), (2, 0), true),
            ((1, 0), (3, 0), true),
            ((1, 1), (3, 0), true),
            ((0, 0), (2, 0), false),
            ((0, 0), (3, 0), true),
            ((3, 0), (2, 0), true),
        ] {
            assert_eq!(passes(&mut masks, from, to, &body), heard, "{from:?} to {to:?}");
            assert_eq!(passes(&mut masks, to, from, &body), heard, "{to:?} to {from:?}");
        }
        assert!(passes(&mut masks, (1, 1), (0, 0), &vote(4)), "behind the last round all is whole");
    }

    #[test]
    fn nothing_is_proposed_between_rounds() {
        let mut masks = script();
        let body = |view| {
            let (view, root) = (View(view), Hash::ZERO);
            sealed(&Message::Body { view, root, bytes: Bytes::new().try_into().expect("empty") })
        };
        let reach: Vec<bool> = (1..5).map(|view| passes(&mut masks, (0, 0), (3, 0), &body(view))).collect();
        assert_eq!(reach, [true, false, true, true]);
        assert!(passes(&mut masks, (0, 0), (3, 0), &vote(2)), "but the view is given up");
    }
}
