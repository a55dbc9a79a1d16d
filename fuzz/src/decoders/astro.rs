//! Astro: messages, records, batches, proofs of entries.

use std::sync::Arc;

use synod_astro::audit::Item;
use synod_astro::{
    Authorized, Batches, Draft, EntryProof, Header, Line, Message, Opened, Receipt, Record, Settled,
};
use synod_broadcast::signed;
use synod_crypto::Hash;
use synod_ledger::{AccountId, EntryId, Opening};
use synod_machine::broadcast::{Items, Lot};
use synod_wire::{Bytes, Draw, Drawn};

use super::wires;
use crate::check::{accept, bounded};
use crate::{Kind, Tape, Target};

type Spoken = Message<signed::Message>;
type Kept = Record<signed::Record>;

wires! {
    "astro-message" message Spoken;
    "astro-record" record Kept;
    "astro-line" line Line;
    "astro-header" header Header;
    "astro-receipt" receipt Receipt;
    "astro-draft" draft Draft;
    "astro-statement" statement Settled;
    "astro-authorization" authorization Authorized;
    "astro-entry-proof" entry_proof EntryProof;
    "astro-log" log Item;
    and Target::new("astro-batch", Kind::Slow, batch, batches);
    and Target::new("astro-proof", Kind::Slow, proof, claims);
}

/// Reads a batch, and everything that is said of it: its digest commits to it, its entries have proofs, and lists of exceptions
/// are closed or refused.
///
/// # Panics
/// With the property that broke.
pub fn batch(bytes: &[u8]) {
    let input = Bytes::copy_from_slice(bytes);
    let Some(opened) = bounded(3 * bytes.len(), || Opened::read(&input)) else { return };
    accept();
    assert!(opened.is(&input) && opened.payload() == input, "a batch was read from other bytes");
    let (header, batch) = (&opened.batch.header, &opened.batch);
    let again =
        Opened::new(header.shard, header.lot, header.prev, batch.openings.to_vec(), batch.lines.to_vec());
    assert!(again == opened, "a batch is put together otherwise than it was read");
    assert_eq!(Batches::digest(&input), Some(opened.digest));
    let count = u32::try_from(opened.digests.len()).unwrap_or(u32::MAX);
    for index in (0..count).take(3).chain([count.saturating_sub(1)]).filter(|index| *index < count) {
        let Some(proof) = opened.prove(index) else { unreachable!("every entry has a proof") };
        let Some(digest) = usize::try_from(index).ok().and_then(|at| opened.digests.get(at)) else { return };
        assert!(proof.shows(*digest, header), "a proof shows nothing");
        assert!(!proof.shows(opened.digest, header), "a proof shows what is not there");
    }
    assert!(opened.prove(count).is_none(), "an entry beyond the last has a proof");
    let all: Vec<u32> = (0..count).collect();
    assert!(Batches::may_except(&input, &[]) && Batches::may_except(&input, &all));
    assert!(!Batches::may_except(&input, &[count]), "an item that is not there is excepted");
    // Behind an entry that is left out, its log's later ones are too.
    let spender = |index: u32| {
        let at = usize::try_from(index).ok()?;
        batch.lines.get(at).map(|line| line.entry.id.spender)
    };
    for index in (0..count).take(4) {
        let is_last = (index + 1..count).all(|later| spender(later) != spender(index));
        assert_eq!(Batches::may_except(&input, &[index]), is_last, "a list that is not closed");
    }
}

fn batches(from: &mut Drawn) -> Vec<u8> {
    let spenders: Vec<AccountId> = (0..1 + from.below(3)).map(|_| AccountId::draw(from)).collect();
    let line = |from: &mut Drawn| {
        let mut line = Line::draw(from);
        let at = usize::try_from(from.below(spenders.len() as u64)).unwrap_or(0);
        Arc::make_mut(&mut line.entry).id = EntryId { spender: spenders[at], n: from.below(9) };
        line
    };
    let lines: Vec<Line> = (0..from.below(6)).map(|_| line(from)).collect();
    let least = u64::from(lines.is_empty());
    let openings: Vec<Opening> = (0..least + from.below(3)).map(|_| Opening::draw(from)).collect();
    let lot = Lot { source: 3, sequence: from.below(300) };
    Opened::new(u16::draw(from), lot, Hash::draw(from), openings, lines).payload().to_vec()
}

/// Changes what is claimed of one entry of a batch: its index, the number of entries, the path, the entry.
///
/// # Panics
/// When a claim is proved that is not the true one, or the true one is not.
pub fn proof(bytes: &[u8]) {
    let mut tape = Tape::new(bytes);
    let mut from = Drawn::new(u64::from(tape.byte() % 16));
    let lines: Vec<Line> = (0..1 + tape.below(20)).map(|_| Line::draw(&mut from)).collect();
    let opened = Opened::new(0, Lot { source: 0, sequence: 1 }, Hash::ZERO, Vec::new(), lines);
    let at = tape.below(opened.digests.len());
    let index = u32::try_from(at).unwrap_or(0);
    let (Some(truth), Some(digest)) = (opened.prove(index), opened.digests.get(at).copied()) else { return };
    let (mut claimed, mut hash, mut header) = (truth.clone(), digest, opened.batch.header);
    while !tape.is_over() {
        match tape.byte() % 6 {
            0 => claimed.index = claimed.index.wrapping_add(u32::from(tape.byte())),
            1 => claimed.count = claimed.count.wrapping_add(u32::from(tape.byte())),
            2 => hash = opened.digests[tape.below(opened.digests.len())],
            3 => header.entries.0[tape.below(32)] ^= 1 << (tape.byte() % 8),
            4 => {
                let mut path = claimed.path.into_vec();
                path.truncate(tape.below(path.len() + 1));
                claimed.path = path.try_into().unwrap_or_default();
            }
            _ => {
                let mut path = claimed.path.into_vec();
                let place = tape.below(path.len());
                if let Some(sibling) = path.get_mut(place) {
                    sibling.0[tape.below(32)] ^= 1 << (tape.byte() % 8);
                }
                claimed.path = path.try_into().unwrap_or_default();
            }
        }
    }
    let is_true = header == opened.batch.header
        && opened.prove(claimed.index) == Some(claimed.clone())
        && usize::try_from(claimed.index).ok().and_then(|at| opened.digests.get(at)) == Some(&hash);
    let proved = claimed.shows(hash, &header);
    if proved {
        accept();
    }
    assert_eq!(proved, is_true, "a proof is malleable: {claimed:?}");
}

fn claims(from: &mut Drawn) -> Vec<u8> {
    (0..3 + from.below(6)).map(|_| from.next().to_le_bytes()[0]).collect()
}
