//! What a lying replica makes: other messages of its stream, signed as its own, and certificates of nothing.

use synod_crypto::{Hash, Keys, Signature};
use synod_quorum::{Epoch, NodeId};
use synod_sim::Act;
use synod_ubft::batch::{Auth, Batch, Op, Request, View};
use synod_ubft::certificate::{Certificate, Subject};
use synod_ubft::{Body, Config, Statement, ctb};
use synod_wire::{Bytes, Wire};

use super::super::sight::streamed;

/// Signs what a replica says, in an epoch, with its own key.
pub(super) fn signed(
    genesis: &Config,
    (me, epoch): (NodeId, Epoch),
    keys: &Keys,
    statement: Statement,
) -> Option<Signature> {
    Some(keys.sign(genesis.at(epoch)?.scope(), me, statement).signature)
}

/// Message `k` as its broadcaster signs it.
pub(crate) fn shown(
    genesis: &Config,
    (me, epoch): (NodeId, Epoch),
    keys: &Keys,
    (k, body): (u64, &Bytes),
) -> Option<ctb::Message> {
    let (broadcaster, digest) = (me.member()?, Hash::of(body));
    let statement = Statement::Broadcast { signer: broadcaster, k, digest };
    let signature = signed(genesis, (me, epoch), keys, statement)?;
    let body = body.clone().try_into().ok();
    Some(ctb::Message::Signed { broadcaster, k, digest, signature: Box::new(signature), body })
}

/// A request that nobody made.
fn invented(act: &mut Act<'_>, like: &Batch) -> Request {
    let (session, id) = like.requests.first().map_or((128, 1), |first| (first.session, first.id));
    let op =
        Op::Inline(Bytes::copy_from_slice(&act.draws.draw().to_le_bytes()).try_into().unwrap_or_default());
    Request { session, id: id + act.draws.below(3), op, auth: Auth::Heard }
}

/// Another batch that its leader could have proposed, or could not.
fn batch(act: &mut Act<'_>, batch: &Batch) -> Batch {
    let mut other = batch.clone();
    match act.draws.below(6) {
        0 | 1 => other.time_ms = other.time_ms.saturating_add(1 + act.draws.below(3)),
        2 => other.requests = Default::default(),
        3 => {
            let request = invented(act, batch);
            let requests: Vec<Request> = batch.requests.iter().cloned().chain([request]).collect();
            other.requests = requests.try_into().unwrap_or_default();
        }
        4 => {
            let twice: Vec<Request> = batch.requests.iter().chain(batch.requests.iter()).cloned().collect();
            other.requests = twice.try_into().unwrap_or_default();
        }
        _ => other.origin = View(other.origin.0.saturating_add(act.draws.below(2))),
    }
    other
}

/// Fewer signers than are needed, one of them twice, or one that did not sign.
pub(super) fn hollow<T: Subject>(act: &mut Act<'_>, certificate: &Certificate<T>) -> Certificate<T> {
    let mut rows: Vec<(u8, Signature)> = certificate.signed.iter().copied().collect();
    match act.draws.below(3) {
        0 => rows.truncate(rows.len().saturating_sub(1)),
        1 => {
            if let (Some(first), Some(last)) = (rows.first().copied(), rows.last_mut()) {
                *last = first;
            }
        }
        _ => {
            if let Some((_, signature)) = rows.last_mut() {
                signature.0[7] ^= 0x10;
            }
        }
    }
    Certificate { subject: certificate.subject.clone(), signed: rows.try_into().unwrap_or_default() }
}

/// Another message in the place of one of the own stream, that nobody can see to be wrong by itself.
pub(super) fn another(act: &mut Act<'_>, body: &Bytes) -> Option<Bytes> {
    let other = match streamed(body)? {
        Body::Prepare { view, slot, batch: of } => Body::Prepare { view, slot, batch: batch(act, &of) },
        Body::SealView(view) => Body::SealView(View(view.0 + 1 + act.draws.below(2))),
        Body::Commit(of) => {
            // The same certificate by other signers of it is none that there is: an earlier view is.
            Body::SealView(View(of.subject.view.0 + 1))
        }
        Body::Checkpoint(_) | Body::NewView { .. } | Body::Ref { .. } => return None,
    };
    Some(other.encode()).filter(|other| other != body)
}

/// A message of the own stream that proves less than it must.
pub(super) fn unproven(act: &mut Act<'_>, body: &Bytes) -> Option<Bytes> {
    let other = match streamed(body)? {
        Body::Commit(of) => Body::Commit(hollow(act, &of)),
        Body::Checkpoint(of) => Body::Checkpoint(hollow(act, &of)),
        Body::NewView { view, left } => {
            let mut left: Vec<_> = left.iter().cloned().collect();
            match act.draws.below(3) {
                0 => drop(left.pop()),
                1 => {
                    if let (Some(first), Some(last)) = (left.first().cloned(), left.last_mut()) {
                        *last = first;
                    }
                }
                _ => {
                    if let Some(last) = left.last_mut() {
                        *last = hollow(act, last);
                    }
                }
            }
            Body::NewView { view, left: left.try_into().unwrap_or_default() }
        }
        Body::Prepare { view, slot, batch } => {
            let slot = synod_ubft::batch::Slot(slot.0 + act.draws.below(3));
            Body::Prepare { view, slot, batch }
        }
        Body::SealView(_) | Body::Ref { .. } => return None,
    };
    Some(other.encode()).filter(|other| other != body)
}
