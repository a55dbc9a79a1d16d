//! Items: same bytes, sound fields, one signature over all of it.

use synod_crypto::{Claim, Scope};
use synod_quorum::{Epoch, NodeId};
use synod_service::{
    BODY_MAX, COMMANDS_BYTES_MAX, COMMANDS_MAX, ClientFrame, ITEM_MAX, Item, Opening, Said, UNSIGNED,
    item_digest,
};
use synod_wire::{Blob, Bytes, List, Writer};

use crate::world::{CLUSTER, keys};

fn frame(commands: usize, bytes: usize) -> ClientFrame {
    let one = Blob::try_from(Bytes::from(vec![7; bytes])).expect("short");
    let commands = List::try_from(vec![one; commands]).expect("bounded");
    ClientFrame { session: 3, first: 9, acked: 2, full: 1, commands, signature: UNSIGNED }
}

#[test]
fn the_largest_frame_fits_an_item_and_one_byte_more_is_refused() {
    let largest = Item::Frame(frame(COMMANDS_MAX, COMMANDS_BYTES_MAX / COMMANDS_MAX)).payload();
    assert!(largest.len() <= ITEM_MAX, "{}", largest.len());
    assert!(Item::parse(&largest).is_ok());
    let Item::Frame(mut over) = Item::parse(&largest).expect("sound") else { unreachable!("a frame") };
    let mut commands: Vec<_> = over.commands.into_vec();
    commands[0] = Blob::try_from(Bytes::from(vec![7; 769])).expect("short");
    over.commands = List::try_from(commands).expect("bounded");
    assert!(Item::parse(&Item::Frame(over).payload()).is_err());
    const { assert!(BODY_MAX > COMMANDS_BYTES_MAX, "what was written in one frame can be read in one") };
}

#[test]
fn frames_that_name_nothing_or_too_much_are_refused() {
    let sound = frame(2, 3);
    assert!(Item::parse(&Item::Frame(sound.clone()).payload()).is_ok());
    let refused = [
        frame(0, 0),
        ClientFrame { session: 0, ..sound.clone() },
        ClientFrame { first: 0, ..sound.clone() },
        ClientFrame { first: u64::MAX, ..sound.clone() },
        ClientFrame { first: (1 << 63) - 1, ..sound.clone() },
    ];
    for frame in refused {
        assert!(Item::parse(&Item::Frame(frame.clone()).payload()).is_err(), "{frame:?}");
    }
    let last = ClientFrame { first: (1 << 63) - 2, ..sound };
    assert!(Item::parse(&Item::Frame(last).payload()).is_ok());
}

#[test]
fn every_cut_and_every_other_version_is_refused() {
    let payload = Item::Frame(frame(2, 3)).payload();
    assert!((0..payload.len()).all(|cut| Item::parse(&payload.slice(..cut)).is_err()));
    let mut other = payload.to_vec();
    other[0] = 2;
    assert!(Item::parse(&Bytes::from(other)).is_err());
    let mut longer = Writer::default();
    longer.bytes(&payload);
    longer.byte(0);
    assert!(Item::parse(&longer.freeze()).is_err());
}

#[test]
fn a_signature_covers_every_byte_before_it_and_nothing_else() {
    let payload = Item::Frame(frame(2, 3)).payload();
    let body = payload.len() - 64;
    for at in 0..payload.len() {
        let mut other = payload.to_vec();
        other[at] ^= 1;
        assert_eq!(item_digest(&other) == item_digest(&payload), at >= body, "byte {at}");
    }
}

#[test]
fn a_signature_for_one_kind_of_item_is_none_for_another() {
    let own = keys(1);
    let scope = Scope { cluster: CLUSTER, epoch: Epoch(0) };
    let digest = item_digest(&Item::Frame(frame(1, 1)).payload());
    let signed = own.sign(scope, NodeId(130), Said::Frame(digest)).into_inner();
    assert!(signed.clone().verify(&keys(2)).is_ok());
    for statement in [Said::Open(digest), Said::Channel { session: 3, member: 0, counter: 1 }] {
        assert!(Claim { statement, ..signed.clone() }.verify(&keys(2)).is_err());
    }
    let elsewhere = Scope { cluster: synod_crypto::Hash::ZERO, epoch: Epoch(0) };
    assert!(Claim { scope: elsewhere, ..signed }.verify(&keys(2)).is_err());
}

#[test]
fn signing_keeps_the_rest_of_the_item() {
    let opening = Item::Open(Opening { key: keys(1).public(), nonce: 8, signature: UNSIGNED });
    let signature = keys(1).sign(
        Scope { cluster: CLUSTER, epoch: Epoch(0) },
        NodeId(130),
        opening.said(&opening.payload()),
    );
    let signed = opening.clone().signed(signature.signature);
    assert_eq!(item_digest(&signed.payload()), item_digest(&opening.payload()));
    assert_eq!(signed.signature(), signature.signature);
    assert_eq!(Item::parse(&signed.payload()), Ok(signed));
}
