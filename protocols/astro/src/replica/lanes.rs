//! How far lanes are, for who watches them (specification, section 9: `lanes`).

use synod_machine::Turn;
use synod_quorum::NodeId;

use super::{Carrier, Replica};
use crate::words::{LaneSeen, Output};

impl<B: Carrier> Replica<B> {
    /// How far every lane is here.
    pub(super) fn on_read_lanes(&self, ticket: u64, turn: &mut Turn<'_, Self>) {
        let me = self.me();
        let seen = self.lanes.iter().map(|(lane, known)| LaneSeen {
            lane: *lane,
            last: known.judged.max(known.frontier),
            frontier: known.frontier,
            behind: if *lane == me { self.owing(known.frontier) } else { Vec::new() },
        });
        turn.output(Output::Lanes { ticket, lanes: seen.collect() });
    }

    /// Who has not said that all certified batches of this node's own have settled there, and up to which each has.
    fn owing(&self, frontier: u64) -> Vec<(u8, u64)> {
        let certified = || self.desk.own.range(..=frontier);
        let first =
            |member: u8| certified().find(|(_, own)| own.lacks(member)).map(|(sequence, _)| *sequence);
        let others = self.others();
        let others = others.iter().filter_map(NodeId::member);
        others.filter_map(|member| Some((member, first(member)?.saturating_sub(1)))).collect()
    }
}
