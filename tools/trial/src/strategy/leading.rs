//! Leaders that say different things to different members, or build where they must not.

use std::collections::BTreeMap;

use synod_crypto::Hash;
use synod_hotstuff::{Body, Header, Item, Message, Qc, Statement, View};
use synod_machine::Wall;
use synod_quorum::NodeId;
use synod_wire::{Blob, Bytes};

use super::liar::{Edited, Lie, Move};

/// Signs two headers for one view: different halves hear different ones first, and often both.
#[derive(Default)]
pub(super) struct Equivocate {
    /// Whether the halves are halves of those whose keys are not known.
    pub(super) honest_halves: bool,
    pub(super) seen: BTreeMap<View, u64>,
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
        let keys = lie.act.keys;
        let rank = |to: NodeId| match self.honest_halves {
            true => (0..to.0).filter(|id| !keys.contains_key(&NodeId(*id))).count() as u64,
            false => u64::from(to.0),
        };
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
                0 if rank(to) % 2 == 0 => Edited::Other(vec![other]),
                1 if to.0 <= faults => Edited::Other(vec![other]),
                2 if rank(to) % 2 == 0 => Edited::Other(vec![other, message]),
                2 => Edited::Other(vec![message, other]),
                3 => Edited::Other(vec![message, other]),
                _ => Edited::Same,
            }
        })
    }
}

/// Sends two bodies under one root and one header: the same ids, and another item blanked for each half of the peers.
/// One body must be as long as the other, or the header would tell which it means.
#[derive(Default)]
pub(super) struct TwoBodies {
    /// Lengths of the bodies that were sent, by root.
    sent: BTreeMap<Hash, u32>,
}

impl TwoBodies {
    /// The two bodies, if two items have payloads of equal length.
    fn made(items: &[Item]) -> Option<[Bytes; 2]> {
        let mut first = BTreeMap::new();
        let twins = items.iter().enumerate().filter(|(_, item)| !item.payload.is_empty());
        let pair = twins.into_iter().find_map(|(at, item)| {
            let other = *first.entry(item.payload.len()).or_insert(at);
            (other != at).then_some([other, at])
        })?;
        Some(pair.map(|blanked| {
            let blank = |(at, item): (usize, &Item)| match at == blanked {
                true => Item { payload: Blob::default(), ..item.clone() },
                false => item.clone(),
            };
            Body::pack(items.iter().enumerate().map(blank).collect()).bytes
        }))
    }
}

impl Move for TwoBodies {
    fn play(&mut self, lie: &mut Lie<'_, '_>) -> bool {
        let own = lie.act.node.0;
        let sent = &mut self.sent;
        lie.edit(|lie, to, message| match &message {
            Message::Body { view, root, bytes } => {
                let Some([one, other]) = Body::open(*root, bytes.clone().into_bytes())
                    .ok()
                    .and_then(|body| Self::made(&body.items))
                else {
                    return Edited::Same;
                };
                sent.insert(*root, u32::try_from(one.len()).unwrap_or(u32::MAX));
                while sent.len() > 8 {
                    sent.pop_first();
                }
                let chosen = if to.0.is_multiple_of(2) { one } else { other };
                let blob = Blob::try_from(chosen).ok();
                let body = blob.map(|bytes| Message::Body { view: *view, root: *root, bytes });
                body.map_or(Edited::Same, |body| Edited::Other(vec![body]))
            }
            Message::Propose { header, .. } if u32::from(header.proposer) == own => {
                let Some(bytes) = sent.get(&header.root) else { return Edited::Same };
                let proposed = propose(lie, Header { bytes: *bytes, ..header.clone() });
                proposed.map_or(Edited::Same, |message| Edited::Other(vec![message]))
            }
            _ => Edited::Same,
        })
    }
}

/// Proposes on another certificate than the highest it holds: on a rival of it, one that certifies another block of the
/// same view, if it knows two such; else on an older one.
pub(super) struct Fork {
    /// Share of proposals that go on an older certificate while no rivals are known.
    pub(super) older_ppm: u32,
}

impl Fork {
    /// The certificates it may build on instead of `justify`.
    fn others<'a>(lie: &'a Lie<'_, '_>, justify: &Qc, older: bool) -> Vec<&'a Qc> {
        let known = &lie.memory.qcs;
        let rivals = |qc: &&Qc| {
            let differs =
                |other: &Qc| (other.view, other.kind) == (qc.view, qc.kind) && other.digest != qc.digest;
            qc.view <= justify.view && qc.digest != justify.digest && known.iter().any(differs)
        };
        let newest = known.iter().filter(rivals).map(|qc| qc.view).max();
        match newest {
            Some(view) => known.iter().filter(|qc| qc.view == view).filter(rivals).collect(),
            None if older => known.iter().filter(|qc| qc.view < justify.view).collect(),
            None => Vec::new(),
        }
    }
}

impl Move for Fork {
    fn play(&mut self, lie: &mut Lie<'_, '_>) -> bool {
        let (choice, older) = (lie.act.draws.draw(), lie.act.draws.chance(self.older_ppm));
        let own = lie.act.node.0;
        lie.edit(|lie, _, message| {
            let Message::Propose { header, .. } = &message else { return Edited::Same };
            let others = Self::others(lie, &header.justify, older);
            let pick = usize::try_from(choice % (others.len().max(1) as u64)).unwrap_or(0);
            let (Some(qc), true) = (others.get(pick), u32::from(header.proposer) == own) else {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_bodies_of_one_root_are_as_long_as_each_other_and_no_member_takes_them() {
        let item = |text: &'static str| Item::new(Bytes::from_static(text.as_bytes())).expect("not empty");
        let whole = Body::pack(vec![item("a longer one"), item("one"), item("two")]);
        let [one, other] = TwoBodies::made(&whole.items).expect("two are of one length");
        assert!(one != other && one.len() == other.len() && one.len() < whole.bytes.len());
        for bytes in [one, other] {
            assert!(Body::open(whole.root, bytes).is_err());
        }
        assert!(TwoBodies::made(&[item("one"), item("three")]).is_none());
    }
}
