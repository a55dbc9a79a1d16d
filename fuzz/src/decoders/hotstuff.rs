//! HotStuff: messages, certificates, proofs, records, bodies.

use synod_crypto::{Evidence, Hash};
use synod_hotstuff::{
    Anchor, Blocks, Body, CheckpointCert, CommitProof, EntryProof, Header, Item, Message, Proof, Qc, Record,
    Statement, Status, Tc, Want,
};
use synod_wire::{Blob, Bytes, Drawn, Limits, Wire};

use super::{some_bytes, wires};
use crate::check::{accept, bounded, drawn, wire};
use crate::{Kind, Target};

wires! {
    "hotstuff-message" message Message;
    "hotstuff-header" header Header;
    "hotstuff-tc-proof" proof Proof;
    "hotstuff-status" status Status;
    "hotstuff-want" want Want;
    "hotstuff-item" item Item;
    "hotstuff-statement" statement Statement;
    "hotstuff-record" record Record;
    and Target::new("hotstuff-qc", Kind::Decoder, qc, drawn::<Qc>);
    and Target::new("hotstuff-tc", Kind::Decoder, tc, drawn::<Tc>);
    and Target::new("hotstuff-checkpoint", Kind::Decoder, checkpoint, drawn::<CheckpointCert>);
    and Target::new("hotstuff-anchor", Kind::Decoder, anchor, drawn::<Anchor>);
    and Target::new("hotstuff-commit", Kind::Decoder, commit, drawn::<CommitProof>);
    and Target::new("hotstuff-entry", Kind::Decoder, entry, drawn::<EntryProof>);
    and Target::new("hotstuff-blocks", Kind::Decoder, blocks, drawn::<Blocks>);
    and Target::new("hotstuff-body", Kind::Decoder, body, packed);
}

/// Decodes evidence, and says which signatures would prove it: a rule over foreign numbers, so it must be total.
fn evidence<T: Wire + Evidence + PartialEq + core::fmt::Debug>(bytes: &[u8]) {
    wire::<T>(bytes);
    if let Ok(evidence) = T::decode(Bytes::copy_from_slice(bytes), &Limits::default()) {
        let _epoch = evidence.epoch();
        let _fit_or_not = evidence.groups().map(|groups| groups.len());
    }
}

/// Decodes a QC and screens it.
///
/// # Panics
/// With the property that broke.
pub fn qc(bytes: &[u8]) {
    evidence::<Qc>(bytes);
}

/// Decodes a complaint certificate and screens it.
///
/// # Panics
/// With the property that broke.
pub fn tc(bytes: &[u8]) {
    evidence::<Tc>(bytes);
}

/// Decodes a checkpoint certificate and screens it.
///
/// # Panics
/// With the property that broke.
pub fn checkpoint(bytes: &[u8]) {
    evidence::<CheckpointCert>(bytes);
}

/// Decodes an anchor and screens it.
///
/// # Panics
/// With the property that broke.
pub fn anchor(bytes: &[u8]) {
    evidence::<Anchor>(bytes);
}

/// Decodes a commit proof and screens it.
///
/// # Panics
/// With the property that broke.
pub fn commit(bytes: &[u8]) {
    evidence::<CommitProof>(bytes);
}

/// Decodes an entry proof and screens it.
///
/// # Panics
/// With the property that broke.
pub fn entry(bytes: &[u8]) {
    evidence::<EntryProof>(bytes);
}

/// Decodes the answer of block sync and screens it.
///
/// # Panics
/// With the property that broke.
pub fn blocks(bytes: &[u8]) {
    evidence::<Blocks>(bytes);
}

/// Opens a body under a root: 32 bytes of root, then the body.
///
/// # Panics
/// When a body that was opened is not what its items pack to, or misses one of them.
pub fn body(bytes: &[u8]) {
    let Some((root, rest)) = bytes.split_first_chunk::<32>() else { return };
    let input = Bytes::copy_from_slice(rest);
    let Ok(opened) = bounded(bytes.len(), || Body::open(Hash(*root), input)) else { return };
    accept();
    let packed = Body::pack(opened.items.clone());
    assert!(packed.bytes == rest, "roundtrip: a body was opened from other bytes than its items pack to");
    assert_eq!((packed.root, packed.name), (Hash(*root), opened.name), "roundtrip: root and name of a body");
    assert!(opened.items.iter().all(|item| item.is_sound() && opened.contains(&item.id)));
    let payload = Blob::try_from(Bytes::from_static(b"a payload")).expect("it is short");
    for item in &opened.items {
        let mut other = item.clone();
        other.payload = if item.payload.is_empty() { payload.clone() } else { Blob::default() };
        assert!(!other.is_sound(), "one id for an item and for an empty one");
    }
    for index in 0..u32::try_from(opened.items.len()).unwrap_or(u32::MAX).min(4) {
        assert!(opened.path(index).is_some(), "every item has a path");
    }
}

fn packed(from: &mut Drawn) -> Vec<u8> {
    let mut items: Vec<Item> =
        (0..from.below(6)).filter_map(|_| Item::new(Bytes::from(some_bytes(from, 64)))).collect();
    items.sort_by_key(|item| item.id);
    items.dedup_by_key(|item| item.id);
    let body = Body::pack(items);
    let mut out = body.root.0.to_vec();
    out.extend_from_slice(&body.bytes);
    out
}
