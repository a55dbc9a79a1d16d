//! A batch in bytes: its lines, their digests, and the roots that its header commits to.

use std::collections::BTreeMap;
use std::sync::Arc;

use synod_crypto::merkle::DigestTree;
use synod_crypto::{Hash, Hasher};
use synod_ledger::{Digests, Entry, Opening};
use synod_machine::broadcast::{ITEMS_MAX, PAYLOAD_MAX};
use synod_wire::{Bytes, Limits, List, Malformed, Reader, Why, Wire, Writer};

use super::{Auth, Batch, Beside, EntryProof, Header, LINE_BYTES_MIN, Line, over};
use crate::dependency::{ReadBackings, With, backed};
use crate::together::Shared;

/// Where an entry stands in an encoding.
pub(super) type Span = core::ops::Range<usize>;

/// The lines of a batch one after the other, and where their entries stand there.
pub(super) fn write_lines(lines: &[Line]) -> (Writer, Vec<Span>) {
    let mut out = Writer::with_capacity(lines.iter().map(Wire::size_hint).sum());
    let spans = lines.iter().map(|line| {
        let start = out.len();
        line.entry.write(&mut out);
        let span = start..out.len();
        line.auth.write(&mut out);
        span
    });
    let spans = spans.collect();
    (out, spans)
}

/// What [`Batch::decode`] gives, and where the entries stand in the payload: their bytes are what their digests are of.
pub(super) fn decode(payload: &Bytes) -> Result<(Batch, Vec<Span>), Malformed> {
    decode_rest(Reader::new(payload, &Limits { frame_max: PAYLOAD_MAX })?)
}

/// What [`crate::BackedBatch::decode`] gives, and where all of it stands in the payload that the digests are of.
pub(super) fn decode_backed(payload: &Bytes) -> Result<(ReadBackings, Batch, Vec<Span>), Malformed> {
    let mut input = Reader::new(payload, &Limits { frame_max: PAYLOAD_MAX })?;
    let backings = ReadBackings::read(&mut input)?;
    let (batch, spans) = decode_rest(input)?;
    Ok((backings, batch, spans))
}

/// A batch up to the end.
fn decode_rest(mut input: Reader) -> Result<(Batch, Vec<Span>), Malformed> {
    let (header, openings) = (Header::read(&mut input)?, List::read(&mut input)?);
    let refusal = input.refuse(Why::TooLong);
    let count = input.count(ITEMS_MAX)?;
    // No line is shorter than this: a short input that claims many reserves little and then ends.
    let room = count.min(input.remaining() / LINE_BYTES_MIN + 1);
    let (mut lines, mut spans) = (Vec::with_capacity(room), Vec::with_capacity(room));
    for _ in 0..count {
        let start = input.at();
        let entry = Arc::<Entry>::read(&mut input)?;
        spans.push(start..input.at());
        lines.push(Line { entry, auth: Auth::read(&mut input)? });
    }
    let beside = Beside::read(&mut input)?;
    input.finish()?;
    let lines = List::try_from(lines).map_err(|_| refusal)?;
    Ok((Batch { header, openings, lines, beside }, spans))
}

/// The digests of encoded entries.
pub(super) fn digests(encoded: &[u8], spans: &[Span]) -> Vec<Hash> {
    let entries: Vec<&[u8]> =
        spans.iter().map(|span| encoded.get(span.clone()).unwrap_or_default()).collect();
    Digests::default().encoded(&entries)
}

/// The digests of entries.
pub(crate) fn digests_of(entries: &[Arc<Entry>]) -> Vec<Hash> {
    Digests::default().entries(entries.iter().map(|entry| &**entry))
}

/// The digest of one entry, without what it is backed with.
pub(crate) fn digest_of(entry: &Entry) -> Hash {
    Digests::default().entry(entry)
}

/// The digests of entries with what they are backed with.
pub(super) fn back_all(mut digests: Vec<Hash>, backings: &BTreeMap<u32, With>) -> Vec<Hash> {
    for (at, with) in backings {
        if let Some(digest) = usize::try_from(*at).ok().and_then(|at| digests.get_mut(at)) {
            *digest = backed(*digest, with.root());
        }
    }
    digests
}

/// The root over digests.
pub(crate) fn root(digests: &[Hash]) -> Hash {
    DigestTree::new(digests).root()
}

/// Proves some of these digests under their root.
pub(crate) fn proofs(digests: &[Hash], of: &[u32]) -> Vec<(u32, EntryProof)> {
    if of.is_empty() {
        return Vec::new();
    }
    let tree = DigestTree::new(digests);
    let proof = |at: &u32| {
        let path = List::try_from(tree.path(*at)?).ok()?;
        Some((*at, EntryProof { index: *at, count: tree.count(), path }))
    };
    of.iter().filter_map(proof).collect()
}

/// Proves one entry of a batch of these entries; `None` beyond the last.
pub(crate) fn prove(digests: &[Hash], index: u32) -> Option<EntryProof> {
    let tree = DigestTree::new(digests);
    let path = List::try_from(tree.path(index)?).ok()?;
    Some(EntryProof { index, count: tree.count(), path })
}

/// See [`roots_of`].
pub(super) fn roots(
    digests: &[Hash],
    openings: &[Opening],
    lines: &[Line],
    beside: (&[Hash], Option<&Shared>),
) -> (Hash, Hash, Hash) {
    roots_of(digests, openings, lines.iter().map(|line| &line.auth), beside)
}

/// What a header commits to: its entries, their authorizations, and what is beside them.
pub(crate) fn roots_of<'a>(
    digests: &[Hash],
    openings: &[Opening],
    auths: impl Iterator<Item = &'a Auth> + Clone,
    (imported, together): (&[Hash], Option<&Shared>),
) -> (Hash, Hash, Hash) {
    let opened = over("synod astro openings", openings);
    let beside = match imported {
        [] => opened,
        imported => over("synod astro imports", core::iter::once(&opened).chain(imported)),
    };
    let auths = over_auths(auths);
    let auths =
        together.map_or(auths, |together| Hash::of_value("synod astro together", &(auths, *together)));
    (DigestTree::new(digests).root(), auths, beside)
}

/// Over authorizations. In most batches all of them are the institution's.
fn over_auths<'a>(auths: impl Iterator<Item = &'a Auth> + Clone) -> Hash {
    let domain = "synod astro authorizations";
    if auths.clone().any(|auth| *auth != Auth::Institution) {
        return over(domain, auths);
    }
    Hasher::new(domain).add_times(&Auth::Institution.encode(), auths.count()).finish()
}
