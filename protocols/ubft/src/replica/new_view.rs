//! Coming to a view (Algorithm 3, lines 8 to 27): where f + 1 replicas stood tells its leader what it must propose again.

use std::collections::BTreeMap;

use synod_crypto::Hash;
use synod_machine::Turn;
use synod_quorum::NodeId;
use synod_wire::List;

use super::consensus::{Consensus, Share};
use super::words::{Want, node};
use crate::batch::{Slot, View};
use crate::body::{Body, LeftBy};
use crate::certificate::{Certificate, Left};
use crate::statement::Statement;
use crate::trace::Rule;

impl Consensus {
    /// Line 8: a replica left for a view; where it stood is signed for the leader of that view.
    pub(super) fn on_sealed(&mut self, of: NodeId, view: View, turn: &mut Turn<'_, Self>) {
        let Some((lane, about)) = self.lanes.get_mut(&of).zip(of.member()) else { return };
        let checkpoint = lane.stream.checkpoint();
        let commits: Vec<_> = lane.stream.commits().collect();
        let commits = List::try_from(commits).unwrap_or_default();
        let left = Left { view, about, low: checkpoint.low, checkpoint: checkpoint.digest, commits };
        let statement = crate::certificate::Subject::statement(&left, 0);
        lane.left = Some(left);
        let Statement::Left { low, checkpoint, commits, .. } = statement else { return };
        turn.applied(Rule::A3Left);
        self.sign(turn, |signer| Statement::Left { signer, view, about, low, checkpoint, commits });
        self.on_peer_view(of, view, turn);
    }

    pub(super) fn on_left_share(&mut self, about: u8, view: View, claim: Share, turn: &mut Turn<'_, Self>) {
        let is_older =
            |last: &Share| matches!(last.statement, Statement::Left { view: last, .. } if last < view);
        if self.left.get(&(about, claim.signer)).is_none_or(is_older) {
            self.left.insert((about, claim.signer), claim);
            self.show_view(turn);
        }
    }

    /// Certificates of where replicas stood when they left for the present view, and bodies that are missing for more.
    fn certificates(&self) -> (BTreeMap<u8, LeftBy>, Vec<u8>) {
        let need = usize::try_from(self.one_correct()).unwrap_or(usize::MAX);
        let (mut found, mut missing) = (BTreeMap::new(), Vec::new());
        for about in self.config.roster.all().iter().filter_map(|id| id.member()) {
            let mut by_statement: BTreeMap<(Slot, Hash, Hash), Vec<_>> = BTreeMap::new();
            for ((_, signer), claim) in self.left.range((about, NodeId(0))..=(about, NodeId(u32::MAX))) {
                let Statement::Left { view, low, checkpoint, commits, .. } = claim.statement else {
                    continue;
                };
                if view == self.view
                    && let Some(member) = signer.member()
                {
                    by_statement
                        .entry((low, checkpoint, commits))
                        .or_default()
                        .push((member, claim.signature));
                }
            }
            let Some((key, mut signed)) = by_statement.into_iter().find(|(_, signed)| signed.len() >= need)
            else {
                continue;
            };
            let of_view = |left: &&Left| left.view == self.view && left.about == about;
            let body = self.lanes.get(&node(about)).and_then(|lane| lane.left.as_ref()).filter(of_view);
            let is_same = |left: &&Left| {
                let statement = crate::certificate::Subject::statement(*left, 0);
                matches!(statement, Statement::Left { low, checkpoint, commits, .. } if (low, checkpoint, commits) == key)
            };
            match body.filter(is_same) {
                Some(body) => {
                    signed.truncate(need);
                    let Ok(signed) = List::try_from(signed) else { continue };
                    found.insert(about, Certificate { subject: body.clone(), signed });
                }
                None => missing.push(about),
            }
        }
        (found, missing)
    }

    /// Lines 13 to 16: the leader, in its view, shows where f + 1 replicas stood.
    pub(super) fn show_view(&mut self, turn: &mut Turn<'_, Self>) {
        let is_mine = self.leader() == self.me() && self.own.view == self.view;
        if !is_mine || self.own.is_shown || self.sealing.is_some() || !self.can_say() {
            return;
        }
        let (found, missing) = self.certificates();
        let need = usize::try_from(self.one_correct()).unwrap_or(usize::MAX);
        if found.len() < need {
            missing.into_iter().for_each(|about| self.want_left(about, turn));
            return;
        }
        let left: Vec<LeftBy> = found.into_values().take(need).collect();
        let base = left.iter().map(|left| left.subject.low).max().unwrap_or_default();
        if base > self.low.low {
            self.want(Want::Checkpoint, super::fetch::For::Itself, turn);
            return;
        }
        self.show_checkpoint(turn);
        if self.own.low < base {
            return;
        }
        let Ok(left) = List::try_from(left) else { return };
        turn.applied(Rule::A3NewView);
        self.own.is_shown = true;
        self.own.next_prepare = Some(self.own.low);
        self.say(&Body::NewView { view: self.view, left }, turn);
    }

    /// Lines 21 to 23: a leader shows its view; whoever is behind goes there (E16).
    pub(super) fn on_new_view(&mut self, view: View, turn: &mut Turn<'_, Self>) {
        if view > self.view {
            turn.applied(Rule::A3Follow);
            self.change_view(view, turn);
        }
    }

    /// This replica came to its view: what its leader proposed there already, and what was said about it, is looked at now.
    pub(super) fn adopt_view(&mut self, turn: &mut Turn<'_, Self>) {
        self.consider_all(turn);
        self.show_view(turn);
    }
}
