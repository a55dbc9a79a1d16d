//! Messages as members sign them, whatever they say.

use synod_astro::{Auth, Line, Opened};
use synod_broadcast::Lot;
use synod_broadcast::signed::{self, Ack, Acked, Certificate, Except, Said};
use synod_crypto::{Hash, Scope, Signature};
use synod_ledger::{AccountId, Entry, EntryId, Kind, Opening, UserData};
use synod_quorum::NodeId;
use synod_wire::Blob;

use crate::bank::{CLUSTER, CONTEXT, EPOCH, EURO, Message, draft, keys};

/// Member 3 lies.
pub(crate) const LIAR: NodeId = NodeId(3);
/// Three members endorse all of a batch.
pub(crate) const ALL: [(u32, &[u32]); 3] = [(1, &[]), (2, &[]), (3, &[])];

/// A member's signature on an ACK.
pub(crate) fn acked(by: u32, lot: Lot, digest: Hash, except: &Except) -> Signature {
    let statement = Acked { context: CONTEXT, lot, digest, except: except.digest(), authorized: true };
    keys(by).sign(Scope { cluster: CLUSTER, epoch: EPOCH }, NodeId(by), statement).signature
}

pub(crate) fn said(by: u32, lot: Lot, digest: Hash, except: &[u32]) -> Said {
    let except = Except::new(except.to_vec()).expect("rising");
    let signature = acked(by, lot, digest, &except);
    Said { member: u8::try_from(by).expect("few"), except, authorized: true, signature }
}

/// A batch of the liar's.
pub(crate) fn batch(sequence: u64, prev: Hash, openings: Vec<Opening>, lines: Vec<Line>) -> Opened {
    Opened::new(0, Lot { source: 3, sequence }, prev, openings, lines)
}

pub(crate) fn prepare(opened: &Opened) -> Message {
    let lot = opened.lot();
    let signature = acked(u32::from(lot.source), lot, opened.digest, &Except::default());
    let payload = Blob::try_from(opened.payload()).expect("short");
    Message::Broadcast(signed::Message::Prepare { lot, payload, signature })
}

pub(crate) fn ack(by: u32, lot: Lot, digest: Hash, except: &[u32]) -> Message {
    Message::Broadcast(signed::Message::Ack(Ack { lot, digest, said: said(by, lot, digest, except) }))
}

pub(crate) fn commit(opened: &Opened, said: Vec<Said>) -> Message {
    let said = said.try_into().expect("few");
    let (lot, digest) = (opened.lot(), opened.digest);
    let certificate = Certificate { context: CONTEXT, epoch: EPOCH, lot, digest, said };
    Message::Broadcast(signed::Message::Commit(certificate))
}

/// An entry that an institution carries, whoever's it is.
pub(crate) fn carried(spender: AccountId, n: u64, prev: Hash, kind: Kind, transfer: u128) -> Line {
    let draft = draft(spender, kind, transfer);
    let entry = Entry {
        id: EntryId { spender, n },
        prev,
        kind: draft.kind,
        transfer,
        ledger: EURO,
        code: 0,
        user_data: UserData::default(),
        flags: draft.flags,
    };
    Line { entry: entry.into(), auth: Auth::Institution }
}
