//! Frames as they travel, made and read, and certificates of servers whose keys are all at hand.

use synod_chopchop::certificate::{Aggregate, Signers};
use synod_chopchop::config::Cluster;
use synod_chopchop::statement::BlsSignatureBytes;
use synod_chopchop::vocabulary::Message;
use synod_crypto::{Keys, Statement};
use synod_machine::{Message as Spoken, Queue};
use synod_quorum::NodeSet;
use synod_wire::{Bytes, Limits, Wire, Writer};

const LIMITS: Limits = Limits { frame_max: 16 << 20 };

/// A frame and its queue.
pub(super) fn sealed<A: Spoken + Wire>(message: &Message<A>) -> (Queue, Bytes) {
    let mut out = Writer::with_capacity(1 + message.size_hint());
    out.byte(Message::<A>::VERSION);
    message.write(&mut out);
    (message.queue(), out.freeze())
}

/// What a frame says, in the vocabulary of an ordering layer.
pub(super) fn opened<A: Spoken + Wire>(body: &Bytes) -> Option<Message<A>> {
    let own = body.first() == Some(&Message::<A>::VERSION);
    own.then(|| Message::decode(body.slice(1..), &LIMITS).ok()).flatten()
}

/// A certificate of f + 1 servers over a statement.
pub(super) fn certified(cluster: &Cluster, keys: &[Keys], statement: &impl Statement) -> Option<Aggregate> {
    let (scope, needed) = (cluster.scope(), cluster.quorums().one_correct());
    let signers = Signers::new(NodeSet::first(needed), cluster.roster().size())?;
    let of = keys.iter().take(needed as usize);
    let shares = of.map(|keys| keys.sign_bls(&scope, statement)).collect::<Option<Vec<_>>>()?;
    let sum = keys.first()?.bls().sum_signatures(shares);
    Some(Aggregate { signers, signature: BlsSignatureBytes(sum.to_signature().to_bytes()) })
}
