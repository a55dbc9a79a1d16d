//! From what the simulator shows to what the oracles understand: frames, records and batches, decoded.

use core::any::Any;

use synod_chopchop::Domains;
use synod_chopchop::batch::{Batch, Header, Refusal, Sealed};
use synod_chopchop::client::{ClientRecord, Next};
use synod_chopchop::columns::{Columns, Entry};
use synod_chopchop::dedup::Exceptions;
use synod_chopchop::server::{Apply, ServerInput, ServerRecord};
use synod_chopchop::store::StoreRecord;
use synod_chopchop::vocabulary::Message;
use synod_crypto::Hash;
use synod_machine::broadcast::Position;
use synod_machine::{Message as _, Never, Record};
use synod_service::BatchOutput;
use synod_wire::{Bytes, Limits, Wire};

use crate::oracle::chopchop::{BatchSeen, EntrySeen, Given, How, Kept, Promise, Why};

const LIMITS: Limits = Limits { frame_max: 16 << 20 };

/// Decodes a frame body; none of the ordering layer's.
#[must_use]
pub fn opened(body: &Bytes) -> Option<Message<Never>> {
    let own = body.first() == Some(&Message::<Never>::VERSION);
    own.then(|| Message::decode(body.slice(1..), &LIMITS).ok()).flatten()
}

pub(crate) fn recalled<R: Record>(bytes: &Bytes) -> Option<R> {
    let own = bytes.first() == Some(&R::VERSION);
    own.then(|| R::decode(bytes.slice(1..), &LIMITS).ok()).flatten()
}

/// What a record of a store says.
#[must_use]
pub fn of_store(bytes: &Bytes) -> Option<Kept> {
    match recalled(bytes)? {
        StoreRecord::Pinned(pinned) => Some(Kept::Pinned(pinned.digest)),
        StoreRecord::Released(digest) => Some(Kept::Released(digest)),
        StoreRecord::Silent(_) | StoreRecord::Ordered(_) => None,
    }
}

/// What a record of a server says.
#[must_use]
pub fn of_server(bytes: &Bytes) -> Option<Kept> {
    match recalled::<ServerRecord<Never>>(bytes)? {
        ServerRecord::Mark(mark) => Some(Kept::Mark(mark.height)),
        ServerRecord::Order(never) => match never {},
        // Promises nothing: it names what is fetched.
        ServerRecord::Taking(_) | ServerRecord::Certified(_) => None,
    }
}

/// What a record of a client promises.
#[must_use]
pub fn of_client(bytes: &Bytes) -> Option<Promise> {
    let ClientRecord::Next(next) = recalled(bytes)?;
    let Next { next_k, flight, certificate, .. } = next;
    Some(Promise {
        next_k,
        flight: flight.map(|flying| (flying.k0, flying.message.to_vec(), flying.parity)),
        height: certificate.map_or(0, |proof| proof.height()),
    })
}

fn seen(domains: &Domains, digest: Hash, header: &Header, columns: &Columns) -> BatchSeen {
    let mut entries: Vec<EntrySeen> = columns
        .entries()
        .map(|entry| EntrySeen {
            id: entry.id,
            message: entry.message.to_vec(),
            parity: entry.parity,
            k: header.k,
            how: How::Together,
        })
        .collect();
    for straggler in columns.stragglers() {
        if let Some(entry) = entries.get_mut(straggler.index as usize) {
            (entry.k, entry.how) = (straggler.k, How::Alone);
        }
    }
    for index in columns.voids() {
        if let Some(entry) = entries.get_mut(index as usize) {
            entry.how = How::Void;
        }
    }
    let commit = header.root_commit(domains);
    BatchSeen { digest, root: header.root, commit, size: header.msg_size, entries }
}

/// A batch on its way to a store; `None` when its columns are none.
#[must_use]
pub fn of_sealed(domains: &Domains, digest: Hash, sealed: &Sealed) -> Option<BatchSeen> {
    let batch = Batch::open(sealed).ok()?;
    Some(of_batch(domains, digest, &batch))
}

/// A batch that was delivered.
#[must_use]
pub fn of_batch(domains: &Domains, digest: Hash, batch: &Batch) -> BatchSeen {
    seen(domains, digest, batch.header(), batch.columns())
}

/// What an application is given.
#[must_use]
pub fn given(apply: &Apply) -> Given {
    let delivered = |(index, _): &(u32, Entry<'_>)| apply.exceptions.reason(*index).is_none();
    let operation = |(_, entry): (u32, Entry<'_>)| {
        let word = entry.message.first_chunk::<8>().copied().unwrap_or_default();
        (entry.id, u64::from_le_bytes(word))
    };
    let entries = (0_u32..).zip(apply.batch.columns().entries());
    let operations = entries.filter(delivered).map(operation).collect();
    Given { height: apply.height, directory: apply.directory, draw: apply.draw, operations }
}

/// Position and root of a state that an application says is durable.
#[must_use]
pub fn applied(output: &dyn Any) -> Option<(Position, Hash)> {
    match (output.downcast_ref(), output.downcast_ref()) {
        (Some(ServerInput::Applied { position, root }), _) => Some((*position, *root)),
        (_, Some(BatchOutput::Applied { position, root })) => Some((*position, *root)),
        _ => None,
    }
}

/// Index and reason of what was not delivered.
#[must_use]
pub fn listed(exceptions: &Exceptions) -> Vec<(u32, u8)> {
    exceptions.list().iter().map(|(index, reason)| (*index, reason.code())).collect()
}

/// Why a store does not witness a batch.
#[must_use]
pub const fn why(refusal: Refusal) -> Why {
    match refusal {
        Refusal::Credit | Refusal::Expired | Refusal::TooFar => Why::NotNow,
        Refusal::Directory => Why::Directory,
        Refusal::Malformed
        | Refusal::Ids
        | Refusal::Straggler
        | Refusal::Root
        | Refusal::Aggregate
        | Refusal::Epoch
        | Refusal::Card => Why::Unsound,
    }
}
