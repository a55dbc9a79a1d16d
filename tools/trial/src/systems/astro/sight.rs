//! From what the simulator shows to what the oracles understand: frames, records and books, decoded.

use synod_astro::{Message, Opened, Promise, Record};
use synod_broadcast::Lot;
use synod_broadcast::signed;
use synod_crypto::Hash;
use synod_ledger::{Digests, Part, Total};
use synod_machine::Message as _;
use synod_wire::{Bytes, Limits, Wire};

use crate::oracle::astro::{BatchSeen, HeldSeen, Promised, Slot, StandingSeen, StateSeen};
use crate::systems::chopchop::sight::recalled;

/// What members say.
pub type Spoken = Message<signed::Message>;
/// What they keep.
pub type Kept = Record<signed::Record>;

const LIMITS: Limits = Limits { frame_max: 16 << 20 };

/// Decodes a frame body.
#[must_use]
pub fn opened(body: &Bytes) -> Option<Spoken> {
    let own = body.first() == Some(&Spoken::VERSION);
    own.then(|| Spoken::decode(body.slice(1..), &LIMITS).ok()).flatten()
}

/// Whether a frame is a certificate, as it travels.
#[must_use]
pub fn is_certificate(body: &Bytes) -> bool {
    matches!(opened(body), Some(Message::Broadcast(signed::Message::Commit(_))))
}

/// Decodes a record.
#[must_use]
pub fn record(bytes: &Bytes) -> Option<Kept> {
    recalled(bytes)
}

/// A slot by lane and number.
#[must_use]
pub const fn slot(lot: Lot) -> Slot {
    (lot.source, lot.sequence)
}

/// A batch from its payload, if it is one.
#[must_use]
pub fn batch(payload: &Bytes) -> Option<Opened> {
    Opened::read(payload)
}

/// What the oracles know of a batch.
#[must_use]
pub fn seen(batch: &Opened) -> BatchSeen {
    let lines = batch.lines().map(|(_, line, digest)| (line.entry.id, digest));
    BatchSeen { slot: slot(batch.lot()), lines: lines.collect(), openings: batch.batch.openings.to_vec() }
}

/// The digest of an entry.
#[must_use]
pub fn digest(entry: &synod_ledger::Entry) -> Hash {
    Digests::default().entry(entry)
}

/// What a record of a member promises.
#[must_use]
pub fn promised(node: u32, record: &Kept) -> Option<Promised> {
    match record {
        Record::Own(Promise::Endorsed { lot, except, batch: payload }) => {
            let digest =
                payload.as_ref().and_then(|payload| batch(payload.bytes())).map(|batch| batch.digest);
            Some(Promised::Endorsed(slot(*lot), digest, except.items().to_vec()))
        }
        Record::Own(Promise::Batch { lot, digest, endorsed: Some(except), .. }) => {
            Some(Promised::Endorsed(slot(*lot), Some(*digest), except.items().to_vec()))
        }
        Record::Broadcast(signed::Record::Accepted { lot, digest, except, .. }) => {
            Some(Promised::Accepted(slot(*lot), *digest, except.items().to_vec()))
        }
        Record::Broadcast(signed::Record::Mine { sequence, digest, .. }) => {
            let own = u8::try_from(node).ok()?;
            Some(Promised::Accepted((own, *sequence), *digest, Vec::new()))
        }
        Record::Own(_) | Record::Broadcast(_) => None,
    }
}

/// A total as runs can move it.
fn units(total: Total) -> Option<u128> {
    let [a, b, c, d, e, f, g, h, low @ ..] = total.to_be_bytes();
    ([a, b, c, d, e, f, g, h] == [0; 8]).then(|| u128::from_be_bytes(low))
}

/// A book from its parts.
#[must_use]
pub fn state(parts: impl IntoIterator<Item = Part>) -> StateSeen {
    let mut state = StateSeen::default();
    for part in parts {
        match part {
            Part::Account(standing) => {
                let seen = StandingSeen {
                    sequence: standing.sequence,
                    head: standing.head,
                    credits: units(standing.credits),
                    debits: units(standing.debits),
                    limit: standing.opening.terms.limit.0,
                };
                state.accounts.insert(standing.opening.id, seen);
            }
            Part::Hold { id, hold } => {
                let held = HeldSeen { to: hold.to, amount: hold.amount.0, resolver: hold.resolver };
                state.holds.insert(id, held);
            }
            // Nothing leaves or comes in a run of one shard: sums that do not meet show it.
            Part::Exported { .. } | Part::Imported { .. } | Part::Used { .. } => {}
        }
    }
    state
}

/// The parts of a book in a snapshot, as they are written.
#[must_use]
pub fn book(snapshot: &[Bytes]) -> Vec<Part> {
    let parts = snapshot.iter().filter_map(|bytes| match record(bytes)? {
        Record::Own(Promise::Book(part)) => Some(*part),
        _ => None,
    });
    parts.collect()
}
