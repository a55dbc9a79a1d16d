//! What the liar signs: its own batches and ACKs, and messages of others changed and made its own.

use std::sync::Arc;

use synod_broadcast::Lot;
use synod_broadcast::signed::{Ack, Acked, Context, Except, Message, Said, View};
use synod_crypto::{Hash, Signature, Statement};
use synod_wire::{Blob, Bytes, List};

use super::super::{CLUSTER, keys, roster};
use super::flock::LIAR;
use crate::tape::Tape;

/// Where statements are good.
const CONTEXT: Context = Context { shard: 0, view: Hash([5; 32]) };
/// The liar's lane.
const LANE: u8 = 3;

/// What stands for a payload.
pub(super) type Digest = fn(&Bytes) -> Option<Hash>;

/// The members.
pub(super) fn view() -> Arc<View> {
    Arc::new(View { cluster: CLUSTER, roster: Arc::new(roster()), context: CONTEXT })
}

/// The liar's signature.
pub(super) fn sign<S: Statement>(statement: S) -> Signature {
    keys(LANE + 1).sign(view().scope(), LIAR, statement).signature
}

/// The liar's part of a certificate.
fn said(lot: Lot, digest: Hash, except: Except) -> Said {
    let acked = Acked { context: CONTEXT, lot, digest, except: except.digest(), authorized: true };
    Said { member: LANE, except, authorized: true, signature: sign(acked) }
}

/// A payload in one of the liar's slots.
pub(super) fn prepare(sequence: u64, payload: Bytes, digest: Digest) -> Option<Message> {
    let lot = Lot { source: LANE, sequence };
    let Said { signature, .. } = said(lot, digest(&payload)?, Except::default());
    Some(Message::Prepare { lot, payload: Blob::try_from(payload).ok()?, signature })
}

/// Up to three of the first items.
fn list(tape: &mut Tape<'_>) -> Except {
    let bits = tape.byte() % 16;
    Except::new((0..4).filter(|item| bits >> item & 1 == 1).collect()).unwrap_or_default()
}

/// A message of another member as the liar's own, changed where the tape says so.
pub(super) fn resigned(message: Message, digest: Digest, tape: &mut Tape<'_>) -> Message {
    let shift = u64::from(tape.byte() % 4);
    match message {
        Message::Prepare { lot, payload, signature } => {
            let own = prepare(1 + shift, payload.bytes().clone(), digest).filter(|_| tape.below(3) == 0);
            let ack = digest(payload.bytes()).map(|digest| {
                let said = said(lot, digest, list(tape));
                Message::Ack(Ack { lot, digest, said })
            });
            own.or(ack).unwrap_or(Message::Prepare { lot, payload, signature })
        }
        Message::Ack(Ack { lot, digest, .. }) => {
            Message::Ack(Ack { lot, digest, said: said(lot, digest, list(tape)) })
        }
        Message::Commit(mut certificate) => {
            let mut all = certificate.said.into_vec();
            all.retain(|said| said.member != LANE);
            all.truncate(3 - usize::from(tape.below(3) == 0));
            all.push(said(certificate.lot, certificate.digest, list(tape)));
            certificate.said = List::try_from(all).unwrap_or_default();
            Message::Commit(certificate)
        }
        Message::Frontier { certified, beyond, life, rows } => {
            let mut all = certified.into_vec();
            all.iter_mut().for_each(|lot| lot.sequence = lot.sequence.wrapping_add(shift));
            let certified = List::try_from(all).unwrap_or_default();
            Message::Frontier { certified, beyond, life, rows: rows.wrapping_add(shift) }
        }
        Message::Rows { life, from, rows } => {
            let mut all = rows.into_vec();
            all.iter_mut().for_each(|row| row.open = list(tape));
            Message::Rows {
                life,
                from: from.wrapping_add(shift),
                rows: List::try_from(all).unwrap_or_default(),
            }
        }
        Message::Pulled { lot, payload } => {
            let mut bytes = payload.bytes().to_vec();
            bytes.push(tape.byte());
            let payload = Blob::try_from(Bytes::from(bytes)).unwrap_or(payload);
            Message::Pulled { lot, payload }
        }
        Message::Pull { .. } | Message::Ask(_) | Message::AskRows(_) => message,
    }
}
