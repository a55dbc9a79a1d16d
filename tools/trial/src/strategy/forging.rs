//! Certificates that prove nothing: too few signers, another view, another kind, another block.

use synod_crypto::{Certificate, Hash};
use synod_hotstuff::{Complaint, Kind, Message, Proof, Qc, Tc, View};
use synod_quorum::NodeId;

use super::liar::{Lie, Move};

/// Sends certificates made from real ones.
pub(super) struct Forge;

fn fewer(qc: &Qc, signers: u32) -> Qc {
    let votes: Vec<_> = qc.votes.signed().take(signers as usize).collect();
    Qc { votes: Certificate::assemble((), votes), ..qc.clone() }
}

fn forged(lie: &Lie<'_, '_>, choice: u64) -> Option<Proof> {
    let qc = lie.memory.qcs.get(usize::try_from(choice / 8).ok()? % lie.memory.qcs.len().max(1))?;
    let quorum = crate::oracle::quorum(lie.secrets.members);
    Some(match choice % 8 {
        0 => Proof::Qc(fewer(qc, quorum - 1)),
        1 => Proof::Qc(Qc { view: View(qc.view.0 + 1 + choice % 5), ..qc.clone() }),
        2 => Proof::Qc(Qc { kind: Kind::Order, ..qc.clone() }),
        3 => Proof::Qc(Qc { kind: Kind::Commit, ..qc.clone() }),
        4 => Proof::Qc(Qc { digest: Hash::of(&choice.to_le_bytes()), ..qc.clone() }),
        5 => Proof::Qc(Qc { view: View(qc.view.0 + 1_000), digest: Hash::ZERO, ..fewer(qc, 1) }),
        6 => {
            let tc = lie.memory.tcs.back()?;
            let complaints: Vec<Complaint> =
                tc.complaints.iter().take(quorum as usize - 1).cloned().collect();
            Proof::Tc(Tc { complaints: complaints.try_into().ok()?, ..tc.clone() })
        }
        _ => {
            let tc = lie.memory.tcs.back()?;
            Proof::Tc(Tc { view: View(tc.view.0 + 1), ..tc.clone() })
        }
    })
}

impl Move for Forge {
    fn play(&mut self, lie: &mut Lie<'_, '_>) -> bool {
        let choice = lie.act.draws.below(1 << 20);
        if lie.heard.is_none() || !choice.is_multiple_of(4) {
            return false;
        }
        let peers: Vec<NodeId> = lie.peers();
        let Some(to) = lie.act.draws.pick(&peers).copied() else { return false };
        let Some(proof) = forged(lie, choice / 4) else { return false };
        if let (Proof::Qc(qc), true) = (&proof, choice.is_multiple_of(8)) {
            lie.say(to, &Message::NewView { view: View(qc.view.0 + 1), high: qc.clone() });
        }
        if let (Proof::Qc(qc), Kind::Prepare | Kind::Precommit | Kind::Commit) =
            (&proof, lie.memory.qcs[0].kind)
        {
            lie.say(to, &Message::Phase(qc.clone()));
        }
        lie.say(to, &Message::Advance(proof));
        true
    }
}
