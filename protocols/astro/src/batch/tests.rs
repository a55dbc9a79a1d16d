//! What is put together is read as it was.

use synod_machine::broadcast::PAYLOAD_MAX;
use synod_machine::testing::pick;
use synod_wire::{Draw, Drawn, Limits};

use super::*;

/// Batches of all kinds, whole, cut short, prolonged and with bytes changed.
#[test]
fn a_batch_that_is_read_with_the_places_of_its_entries_is_the_one_that_its_encoding_says() {
    let (mut drawn, mut read, mut refused) = (Drawn::new(3), 0, 0);
    let limits = Limits { frame_max: PAYLOAD_MAX };
    for _ in 0..300 {
        let whole = Batch::draw(&mut drawn).encode();
        for _ in 0..8 {
            let mut bytes = whole.to_vec();
            match drawn.below(4) {
                0 => bytes.truncate(pick(&mut drawn, whole.len())),
                1 => bytes.push(0),
                2 => {
                    let at = pick(&mut drawn, bytes.len());
                    bytes[at] ^= 1 << drawn.below(8);
                }
                _ => {}
            }
            let payload = Bytes::from(bytes);
            let (placed, plain) = (decode(&payload), Batch::decode(payload.clone(), &limits));
            assert_eq!(placed.as_ref().map(|(batch, _)| batch).ok(), plain.as_ref().ok());
            let Ok((batch, spans)) = placed else {
                refused += 1;
                continue;
            };
            read += 1;
            assert_eq!(spans.len(), batch.lines.len());
            for (line, span) in batch.lines.iter().zip(&spans) {
                assert_eq!(payload.slice(span.clone()), line.entry.encode());
            }
            let alone = batch.lines.iter().map(|line| Digests::default().entry(&line.entry));
            assert_eq!(digests(&payload, &spans), alone.collect::<Vec<Hash>>());
        }
    }
    assert!(read > 600 && refused > 600, "{read} read, {refused} refused");
}

#[test]
fn a_batch_that_is_put_together_is_read_as_it_was() {
    let mut drawn = Drawn::new(4);
    for _ in 0..50 {
        let Batch { header, openings, lines, beside } = Batch::draw(&mut drawn);
        let Beside { imports, together } = beside;
        let mut imports = imports.into_vec();
        imports.sort_by_key(|entry| entry.id);
        imports.dedup_by_key(|entry| entry.id);
        let (openings, lines) = (openings.into_vec(), lines.into_vec());
        let digests = lines.iter().filter(|_| drawn.below(40) > 0).map(|line| digest_of(&line.entry));
        let digests = digests.collect();
        let content = Content { openings, lines, digests, imports, together };
        let is_empty = content.lines.is_empty() && content.openings.is_empty() && content.imports.is_empty();
        let opened = Opened::of(header.shard, header.lot, header.prev, content);
        assert_eq!(opened.payload(), opened.batch.encode());
        assert_eq!(Opened::read(&opened.payload()), (!is_empty).then_some(opened));
    }
}
