//! Leaders that say different things to different members, or build where they must not.

use std::collections::BTreeMap;

use synod_crypto::Hash;
use synod_hotstuff::{Header, Message, Statement, View};
use synod_machine::Wall;

use super::liar::{Edited, Lie, Move};

/// Signs two headers for one view: different halves hear different ones first, and often both.
#[derive(Default)]
pub(super) struct Equivocate {
    seen: BTreeMap<View, u64>,
}

fn propose(lie: &Lie<'_, '_>, header: Header) -> Option<Message> {
    let (view, digest) = (header.view, header.digest());
    let signature = lie.sign(Statement::Proposal { view, digest })?;
    Some(Message::Propose { header, signature })
}

impl Move for Equivocate {
    fn play(&mut self, lie: &mut Lie<'_, '_>) -> bool {
        let (shape, faults) = (lie.act.draws.below(4), lie.faults());
        let own = lie.act.node.0;
        let seen = &mut self.seen;
        lie.edit(|lie, to, message| {
            let Message::Propose { header, .. } = &message else { return Edited::Same };
            if u32::from(header.proposer) != own {
                return Edited::Same;
            }
            // One shape per view, whenever its copies leave.
            let shape = *seen.entry(header.view).or_insert(shape);
            while seen.len() > 8 {
                seen.pop_first();
            }
            let other = Header { time: Wall(header.time.0 + 1), ..header.clone() };
            let Some(other) = propose(lie, other) else { return Edited::Same };
            match shape {
                0 if to.0 % 2 == 0 => Edited::Other(vec![other]),
                1 if to.0 <= faults => Edited::Other(vec![other]),
                2 if to.0 % 2 == 0 => Edited::Other(vec![other, message]),
                2 => Edited::Other(vec![message, other]),
                3 => Edited::Other(vec![message, other]),
                _ => Edited::Same,
            }
        })
    }
}

/// Proposes on an older certificate than it holds.
pub(super) struct Fork;

impl Move for Fork {
    fn play(&mut self, lie: &mut Lie<'_, '_>) -> bool {
        let choice = lie.act.draws.draw();
        let own = lie.act.node.0;
        lie.edit(|lie, _, message| {
            let Message::Propose { header, .. } = &message else { return Edited::Same };
            let older: Vec<_> = lie.memory.qcs.iter().filter(|qc| qc.view < header.justify.view).collect();
            let pick = usize::try_from(choice % (older.len().max(1) as u64)).unwrap_or(0);
            let (Some(qc), true) = (older.get(pick), u32::from(header.proposer) == own) else {
                return Edited::Same;
            };
            let parent: Hash = qc.digest;
            let Some(below) = lie.memory.headers.iter().find(|h| h.digest() == parent) else {
                return Edited::Same;
            };
            let forked = Header {
                justify: (*qc).clone(),
                parent,
                height: below.height + 1,
                time: Wall(header.time.0.max(below.time.0)),
                ..header.clone()
            };
            propose(lie, forked).map_or(Edited::Same, |forked| Edited::Other(vec![forked]))
        })
    }
}
