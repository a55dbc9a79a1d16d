//! Batches as a broker can lay them out that keeps to no rule but those of form.

use synod_chopchop::Domains;
use synod_chopchop::batch::{Batch, Header, Sealed};
use synod_chopchop::columns::Entry;
use synod_chopchop::ids::IdCodec;
use synod_chopchop::statement::BlsSignatureBytes;
use synod_chopchop::tree::{TreeShape, entry_root};
use synod_crypto::Signature;

/// How an entry of a made-up batch is vouched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vouched {
    /// By the multi-signature, if there is one.
    Together,
    /// By this signature under this number.
    Alone(u64, Signature),
    /// By nothing.
    Void,
}

/// One entry.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub(super) id: u32,
    pub(super) message: Vec<u8>,
    pub(super) parity: bool,
    pub(super) by: Vouched,
}

/// The entries of a batch.
pub(super) fn entries(sealed: &Sealed) -> Option<Vec<Made>> {
    let batch = Batch::open(sealed).ok()?;
    let columns = batch.columns();
    let made = |entry: Entry<'_>| Made {
        id: entry.id,
        message: entry.message.to_vec(),
        parity: entry.parity,
        by: Vouched::Together,
    };
    let mut all: Vec<Made> = columns.entries().map(made).collect();
    for straggler in columns.stragglers() {
        if let Some(entry) = all.get_mut(straggler.index as usize) {
            entry.by = Vouched::Alone(straggler.k, straggler.t);
        }
    }
    for index in columns.voids() {
        if let Some(entry) = all.get_mut(index as usize) {
            entry.by = Vouched::Void;
        }
    }
    Some(all)
}

fn column(body: &mut Vec<u8>, bytes: impl IntoIterator<Item = u8>) {
    body.extend(bytes);
    body.resize(body.len().next_multiple_of(8), 0);
}

/// A batch of these entries in this order, with the rest of its header as in `like`. Its root is right; whether anything
/// else is, is up to the entries.
pub(super) fn batch(domains: &Domains, like: &Header, entries: &[Made]) -> Option<Sealed> {
    let count = u32::try_from(entries.len()).ok().filter(|count| *count > 0)?;
    let mut body = Vec::new();
    column(&mut body, entries.iter().flat_map(|entry| entry.id.to_le_bytes()));
    column(&mut body, entries.iter().flat_map(|entry| entry.message.clone()));
    let mut parities = vec![0_u8; entries.len().div_ceil(8)];
    for (at, entry) in entries.iter().enumerate() {
        parities[at / 8] |= u8::from(entry.parity) << (at % 8);
    }
    column(&mut body, parities);
    let (mut alone, mut voids) = (Vec::new(), Vec::new());
    for (index, entry) in (0_u32..).zip(entries) {
        match entry.by {
            Vouched::Together => {}
            Vouched::Alone(k, t) => alone.push((index, k, t)),
            Vouched::Void => voids.push(index),
        }
    }
    column(&mut body, alone.iter().flat_map(|(index, ..)| index.to_le_bytes()));
    column(&mut body, alone.iter().flat_map(|(_, k, _)| k.to_le_bytes()));
    column(&mut body, alone.iter().flat_map(|(.., t)| t.0));
    column(&mut body, voids.iter().flat_map(|index| index.to_le_bytes()));
    let shape = TreeShape { count, msg_size: like.msg_size };
    let of = |made: &Made| (made.id, made.message.clone(), made.parity);
    let plain: Vec<(u32, Vec<u8>, bool)> = entries.iter().map(of).collect();
    let root = entry_root(
        domains,
        &shape,
        plain.iter().map(|(id, message, parity)| Entry { id: *id, message, parity: *parity }),
    );
    let signers = entries.len() - alone.len() - voids.len();
    let infinite = {
        let mut bytes = [0; 96];
        bytes[0] = 0xc0;
        BlsSignatureBytes(bytes)
    };
    let header = Header {
        codec: IdCodec::Packed(32),
        count,
        stragglers: u32::try_from(alone.len()).ok()?,
        voids: u32::try_from(voids.len()).ok()?,
        k: alone.iter().map(|(_, k, _)| *k).max().unwrap_or(like.k).max(like.k),
        body_len: u32::try_from(body.len()).ok()?,
        root,
        aggregate: (signers > 0).then(|| like.aggregate.unwrap_or(infinite)),
        ..like.clone()
    };
    Some(Sealed { header, body: body.into() })
}
