//! From what the simulator shows to what the oracles understand: frames, records and books, decoded.

use std::collections::{BTreeMap, BTreeSet};

use synod_astro::{BackedBatch, Dependency, Message, Opened, Profile, Promise, Record, Word};
use synod_broadcast::Lot;
use synod_broadcast::{bracha, signed};
use synod_crypto::{Hash, merkle};
use synod_ledger::{Digests, Part, Total};
use synod_machine::Message as _;
use synod_wire::{Bytes, Limits, Wire};

use crate::oracle::astro::{Backed, BatchSeen, HeldSeen, Promised, Slot, StandingSeen, StateSeen, paid_to};
use crate::systems::chopchop::sight::recalled;

/// What members say over the signed broadcast.
pub type Spoken = Message<signed::Message>;
/// What members say over Bracha's.
pub type Voted = Message<bracha::Message>;

/// What members say.
pub enum Heard {
    /// In the signed broadcast.
    Signed(signed::Message),
    /// In Bracha's.
    Votes(bracha::Message),
    /// Beside it.
    Own(Word),
}

/// What they keep.
pub enum Kept {
    /// Of the signed broadcast.
    Signed(signed::Record),
    /// Of Bracha's.
    Votes(bracha::Record),
    /// Beside it.
    Own(Promise),
}

const LIMITS: Limits = Limits { frame_max: 16 << 20 };

/// Decodes a frame body of the signed broadcast.
#[must_use]
pub fn opened(body: &Bytes) -> Option<Spoken> {
    let own = body.first() == Some(&Spoken::VERSION);
    own.then(|| Spoken::decode(body.slice(1..), &LIMITS).ok()).flatten()
}

/// Decodes a frame body of Bracha's broadcast.
#[must_use]
pub fn voted(body: &Bytes) -> Option<Voted> {
    let own = body.first() == Some(&Voted::VERSION);
    own.then(|| Voted::decode(body.slice(1..), &LIMITS).ok()).flatten()
}

/// Decodes a frame body of a profile.
#[must_use]
pub fn heard(profile: Profile, body: &Bytes) -> Option<Heard> {
    Some(match profile {
        Profile::I => match voted(body)? {
            Message::Broadcast(message) => Heard::Votes(message),
            Message::Own(word) => Heard::Own(word),
        },
        Profile::II | Profile::Funded => match opened(body)? {
            Message::Broadcast(message) => Heard::Signed(message),
            Message::Own(word) => Heard::Own(word),
        },
    })
}

/// Decodes a record of a profile.
#[must_use]
pub fn record(profile: Profile, bytes: &Bytes) -> Option<Kept> {
    Some(match profile {
        Profile::I => match recalled(bytes)? {
            Record::Broadcast(record) => Kept::Votes(record),
            Record::Own(promise) => Kept::Own(promise),
        },
        Profile::II | Profile::Funded => match recalled(bytes)? {
            Record::Broadcast(record) => Kept::Signed(record),
            Record::Own(promise) => Kept::Own(promise),
        },
    })
}

/// A slot by lane and number.
#[must_use]
pub const fn slot(lot: Lot) -> Slot {
    (lot.source, lot.sequence)
}

/// A batch from its payload, if it is one, of whatever profile: a header fits one reading.
#[must_use]
pub fn batch(payload: &Bytes) -> Option<Opened> {
    Opened::read(payload).or_else(|| Opened::read_as(Profile::II, payload))
}

/// What the oracles know of a batch.
#[must_use]
pub fn seen(batch: &Opened) -> BatchSeen {
    let lines = batch.lines().map(|(_, line, digest)| (line.entry.id, digest));
    let backed = backings(batch).into_iter().map(|(at, with)| (at, with.iter().map(shown).collect()));
    BatchSeen {
        slot: slot(batch.lot()),
        lines: lines.collect(),
        openings: batch.batch.openings.to_vec(),
        backed: backed.collect(),
    }
}

/// What the entries of a batch of profile II are backed with.
#[must_use]
pub fn backings(batch: &Opened) -> BTreeMap<u32, Vec<Dependency>> {
    let whole = BackedBatch::decode(batch.payload(), &LIMITS).ok();
    let whole = whole.filter(|whole| whole.batch == batch.batch);
    let all = whole.into_iter().flat_map(|whole| whole.backings.into_vec());
    all.map(|backing| (backing.at, backing.with.into_vec())).collect()
}

/// What a dependency claims to have settled.
fn shown(dependency: &Dependency) -> Backed {
    let plain = digest(&dependency.entry);
    Backed {
        id: dependency.entry.id,
        digest: match dependency.with {
            Hash::ZERO => plain,
            with => Hash::of_value("synod astro backed entry", &(plain, with)),
        },
    }
}

/// What a member signs of payments with these digests.
#[must_use]
pub fn root(digests: &[Hash]) -> Hash {
    merkle::DigestTree::new(digests).root()
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
        Kept::Own(Promise::Endorsed { lot, except, batch: payload }) => {
            let digest =
                payload.as_ref().and_then(|payload| batch(payload.bytes())).map(|batch| batch.digest);
            Some(Promised::Endorsed(slot(*lot), digest, except.items().to_vec()))
        }
        Kept::Own(Promise::Batch { lot, digest, endorsed: Some(except), .. }) => {
            Some(Promised::Endorsed(slot(*lot), Some(*digest), except.items().to_vec()))
        }
        Kept::Signed(signed::Record::Accepted { lot, digest, except, .. }) => {
            Some(Promised::Accepted(slot(*lot), *digest, except.items().to_vec()))
        }
        Kept::Signed(signed::Record::Mine { sequence, digest, .. }) => {
            let own = u8::try_from(node).ok()?;
            Some(Promised::Accepted((own, *sequence), *digest, Vec::new()))
        }
        Kept::Votes(bracha::Record::Echoed(vote)) => {
            Some(Promised::Accepted(slot(vote.lot), vote.digest, Vec::new()))
        }
        Kept::Own(_) | Kept::Signed(_) | Kept::Votes(_) => None,
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

/// What is the member's own in a snapshot.
fn promises(profile: Profile, snapshot: &[Bytes]) -> impl Iterator<Item = Promise> {
    snapshot.iter().filter_map(move |bytes| match record(profile, bytes)? {
        Kept::Own(promise) => Some(promise),
        _ => None,
    })
}

/// The state in a snapshot.
#[must_use]
pub fn whole_state(profile: Profile, snapshot: &[Bytes]) -> StateSeen {
    let (mut parts, mut owed, mut ahead) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
    for promise in promises(profile, snapshot) {
        match promise {
            Promise::Book(part) => parts.push(*part),
            Promise::Unspent { to, entry, .. } => drop(owed.insert((to, entry.id), paid_to(&entry, to))),
            Promise::Ahead { to, id } => drop(ahead.insert((to, id))),
            _ => {}
        }
    }
    StateSeen { under_way: Some((owed, ahead)), ..state(parts) }
}

/// The parts of a snapshot that correct members have in common, as they are written: the book, and payments that nobody
/// collected.
#[must_use]
pub fn book(profile: Profile, snapshot: &[Bytes]) -> Vec<Promise> {
    let is_common = |promise: &Promise| {
        matches!(promise, Promise::Book(_) | Promise::Unspent { .. } | Promise::Ahead { .. })
    };
    promises(profile, snapshot).filter(is_common).collect()
}

/// Payments in a snapshot that a representative can show to have settled.
#[must_use]
pub fn provable(profile: Profile, snapshot: &[Bytes]) -> BTreeSet<synod_ledger::EntryId> {
    let of = |promise: Promise| match promise {
        Promise::Collected(dependency) => Some(dependency.entry.id),
        _ => None,
    };
    promises(profile, snapshot).filter_map(of).collect()
}
