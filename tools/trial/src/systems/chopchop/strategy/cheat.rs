//! A client that signs what it should not: two messages under one number, numbers far ahead, shares of nothing, and
//! signatures in a form that stricter criteria refuse (B15).

use synod_chopchop::config::Cluster;
use synod_chopchop::message::{ClientMessage, Submit};
use synod_chopchop::statement::{BlsShareBytes, Root, Submission};
use synod_chopchop::vocabulary::Message;
use synod_crypto::{Hash, Keys};
use synod_machine::Never;
use synod_quorum::NodeId;
use synod_sim::{Act, Deed, Family, Incident, Keyring, Strategy};
use synod_wire::{Blob, Bytes};

use super::super::sight;
use super::{say, sealed};

/// The cheating client.
pub(super) struct Cheat {
    cluster: Cluster,
    /// Whether it signs submissions in the other form.
    twists: bool,
}

impl Cheat {
    pub(super) const fn new(cluster: Cluster, incident: &Incident) -> Self {
        Self { cluster, twists: incident.amount % 3 == 0 }
    }

    fn resigned(&self, mut submit: Submit, keys: &Keys) -> Submit {
        let message = self.cluster.domains().msg.hash(&submit.message);
        let statement = Submission { id: submit.id, k0: submit.k0, parity: submit.parity, message };
        submit.t = keys.sign(self.cluster.scope(), NodeId::GUESTS, statement).signature;
        submit
    }

    fn other(&self, submit: &Submit, keys: &Keys, act: &mut Act<'_>) -> Option<Submit> {
        let mut other = submit.clone();
        match act.draws.below(4) {
            0 => other.parity = !other.parity,
            1 => other.k0 = other.k0.saturating_add(act.draws.log_uniform(1, u64::MAX / 2)),
            2 => other.id = other.id.saturating_sub(1),
            _ => other.message = Blob::try_from(Bytes::from(vec![3; submit.message.len()])).ok()?,
        }
        Some(self.resigned(other, keys))
    }

    fn share(&self, keys: &Keys) -> Option<Box<BlsShareBytes>> {
        let share = keys.sign_bls(&self.cluster.scope(), &Root { root_commit: Hash::of(b"nothing") })?;
        Some(Box::new(BlsShareBytes(share.to_share())))
    }
}

impl Strategy for Cheat {
    fn name(&self) -> &'static str {
        Family::ByzBatches.name()
    }

    fn act(&mut self, act: &mut Act<'_>) -> bool {
        let all = act.keys;
        let Some(keys) = all.get(&act.node) else { return false };
        let mut deeds = core::mem::take(act.deeds);
        let mut changed = false;
        for deed in &mut deeds {
            let Deed::Send { body, .. } = deed else { continue };
            let Some(Message::<Never>::Client(message)) = sight::opened(body) else { continue };
            match message {
                // It signs nothing else, so its entry stands under this signature.
                ClientMessage::Submit(mut submit) if self.twists => {
                    submit.t = Keyring::twisted(&submit.t);
                    *body = sealed(&Message::Client(ClientMessage::Submit(submit)));
                    changed = true;
                }
                ClientMessage::Submit(submit) if act.draws.chance(400_000) => {
                    let peers: Vec<NodeId> = act.peers.to_vec();
                    if let (Some(other), Some(to)) = (self.other(&submit, keys, act), act.draws.pick(&peers))
                    {
                        say(act, *to, ClientMessage::Submit(other));
                        changed = true;
                    }
                }
                ClientMessage::MultiSig { id, root_commit, .. } if act.draws.chance(400_000) => {
                    if let Some(share) = self.share(keys) {
                        let message = ClientMessage::MultiSig { id, root_commit, share };
                        *body = sealed(&Message::Client(message));
                        changed = true;
                    }
                }
                _ => {}
            }
        }
        let injected = core::mem::take(act.deeds);
        *act.deeds = deeds;
        act.deeds.extend(injected);
        changed
    }
}
