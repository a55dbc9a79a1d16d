//! Members that sign whatever is put before them, and complain against better knowledge.

use synod_hotstuff::{Header, Kind, Message, Qc, Statement};
use synod_quorum::Epoch;

use super::liar::{Edited, Lie, Move, kinds};

/// Votes and orders for every block it hears of, whatever its rules and its former votes say.
pub(super) struct VoteAll;

fn vote(lie: &Lie<'_, '_>, kind: Kind, header: &Header) -> Option<Message> {
    let (view, digest) = (header.view, header.digest());
    let signature = lie.sign(Statement::vote(kind, view, digest))?;
    Some(match kind {
        Kind::Order => Message::Order { view, digest, signature },
        _ => Message::Vote { kind, view, digest, signature },
    })
}

impl Move for VoteAll {
    fn play(&mut self, lie: &mut Lie<'_, '_>) -> bool {
        let Some(Message::Propose { header, .. }) = lie.heard else { return false };
        let votes: Vec<Message> =
            kinds(lie.secrets.pack).iter().filter_map(|kind| vote(lie, *kind, header)).collect();
        votes.iter().for_each(|vote| lie.say_all(vote));
        // Its own other proposals of that view get its votes too.
        let own: Vec<Header> =
            lie.memory.headers.iter().filter(|h| h.view == header.view && *h != header).cloned().collect();
        for header in own {
            let kind = kinds(lie.secrets.pack)[0];
            if let Some(vote) = vote(lie, kind, &header) {
                lie.say_all(&vote);
            }
        }
        true
    }
}

/// Complains with an old certificate, or before anything is late.
pub(super) struct FalseComplaint;

impl Move for FalseComplaint {
    fn play(&mut self, lie: &mut Lie<'_, '_>) -> bool {
        let old = lie.memory.qcs.front().cloned();
        let old = old.filter(|_| lie.act.draws.chance(500_000));
        lie.edit(|lie, to, message| {
            let Message::Complain { view, high, .. } = &message else { return Edited::Same };
            let genesis = Header::genesis(Epoch(0), high.kind).digest();
            let shown = old.clone().unwrap_or_else(|| Qc::empty(Epoch(0), high.kind, genesis));
            let Some(signature) = lie.sign(Statement::Complain { view: *view, high: shown.view }) else {
                return Edited::Same;
            };
            let lied = Message::Complain { view: *view, high: shown, signature };
            // Some hear the truth, some the lie, some both.
            match to.0 % 3 {
                0 => Edited::Other(vec![lied]),
                1 => Edited::Other(vec![lied, message]),
                _ => Edited::Same,
            }
        })
    }
}
