//! uBFT: messages, words of consensus, bodies of streams, what is kept of a snapshot, and what ends an epoch.

use synod_crypto::Hash;
use synod_ubft::batch::{Slot, View};
use synod_ubft::certificate::Snapshotted;
use synod_ubft::epoch::{Change, Epochs};
use synod_ubft::message::Standing;
use synod_ubft::ordering::Message as OrderingMessage;
use synod_ubft::replica::{Incarnation, Word};
use synod_ubft::snapshot::{Held, Part, Snapshot};
use synod_ubft::stream::State;
use synod_ubft::{Body, Message, Statement};
use synod_wire::{Bytes, Drawn, Limits, Wire};

use super::wires;
use crate::check::{drawn, wire};
use crate::{Kind, Target};

wires! {
    "ubft-message" message Message;
    "ubft-word" word Word;
    "ubft-body" body Body;
    "ubft-state" state State;
    "ubft-statement" statement Statement;
    "ubft-standing" standing Standing;
    "ubft-held" held Held;
    "ubft-ordering" ordering OrderingMessage;
    "ubft-record" record Incarnation;
    and Target::new("ubft-snapshot", Kind::Decoder, snapshot, drawn::<Snapshot>);
    and Target::new("ubft-epochs", Kind::Decoder, epochs, ordered);
}

/// Decodes what a snapshot consists of and looks for its parts: rules over foreign numbers, so they must be total.
///
/// # Panics
/// With the property that broke.
pub fn snapshot(bytes: &[u8]) {
    wire::<Snapshot>(bytes);
    let bytes = Bytes::copy_from_slice(bytes);
    let Ok(snapshot) = Snapshot::decode(bytes.clone(), &Limits::default()) else { return };
    let certified = Snapshotted { epoch: snapshot.epoch, low: snapshot.low, root: snapshot.root() };
    let other = Snapshotted { root: Hash::ZERO, ..certified };
    assert_eq!(Snapshot::read(&bytes, &other), None, "of another root");
    let is_sized = Snapshot::read(&bytes, &certified).is_some();
    for place in [0, snapshot.own_chunks, snapshot.count().saturating_sub(1), u32::MAX] {
        let part = snapshot.part(place);
        let found = snapshot.place(part);
        assert!(!is_sized || place >= snapshot.count() || found == Some(place), "a part has its place");
        assert!(!snapshot.proves(part, Hash::ZERO, &[Hash::ZERO; 40]), "no path is so long");
    }
    assert_eq!(snapshot.place(Part::Summary), None);
}

/// Decodes what a replica keeps of epochs and changes it: whatever the numbers are, epochs go on or nothing happens.
///
/// # Panics
/// With the property that broke.
pub fn epochs(bytes: &[u8]) {
    wire::<(Epochs, Change)>(bytes);
    let bytes = Bytes::copy_from_slice(bytes);
    let Ok((before, change)) = <(Epochs, Change)>::decode(bytes, &Limits::default()) else { return };
    for (slot, now_ms, half) in [(0, 0, 16), (u64::MAX, u64::MAX, 256), (77, 1 << 40, 0)] {
        let mut epochs = before.clone();
        if epochs.apply(&change, Slot(slot), now_ms, half) {
            assert!(epochs.is_void(&change), "the same is done once");
            assert!(before.end().is_none() || epochs.end() == before.end(), "an end stays");
            let end = epochs.end().unwrap_or_default();
            let next = epochs.next(end, View(1));
            assert!(next.is_some_and(|next| next.epoch >= before.configuration.epoch));
        } else {
            assert_eq!(epochs, before, "nothing happened");
        }
    }
}

fn ordered(from: &mut Drawn) -> Vec<u8> {
    drawn::<(Epochs, Change)>(from)
}
