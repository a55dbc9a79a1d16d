//! What batches commit to.

use std::sync::Arc;

use synod_astro::{Auth, Batch, Batches, Line, Opened, Setup};
use synod_broadcast::Lot;
use synod_crypto::Hash;
use synod_ledger::{EntryId, Owner};
use synod_machine::broadcast::Items;
use synod_machine::{Condition, Log, Recover as _};
use synod_quorum::NodeId;
use synod_wire::{List, Wire};

use crate::bank::{Replica, config, custodial, first, issuer, opening, pay, signed as sign, signing};

const LOT: Lot = Lot { source: 3, sequence: 5 };

/// Two entries of one log, one of another, and an account.
fn batch() -> Opened {
    let one = first(signing(0), pay(custodial(0), 1), 1);
    let prev = crate::bank::digest(&one.entry);
    let two = sign(EntryId { spender: signing(0), n: 2 }, prev, pay(custodial(0), 2), 2);
    let lines = vec![one, first(signing(1), pay(custodial(0), 3), 3), two];
    let openings = vec![opening(issuer(3), Owner::Custodial(3), 9)];
    Opened::new(0, LOT, Hash([6; 32]), openings, lines)
}

#[test]
fn a_batch_is_read_as_it_was_put_together_and_each_entry_is_proved_under_its_header() {
    let opened = batch();
    let read = Opened::read(&opened.payload()).expect("a batch");
    assert_eq!(read, opened);
    assert_eq!(Batches::digest(&opened.payload()), Some(opened.batch.header.digest()));
    for (at, _, digest) in opened.lines() {
        let proof = opened.prove(at).expect("an entry of it");
        assert!(proof.shows(digest, &opened.batch.header));
        assert!(!proof.shows(Hash([1; 32]), &opened.batch.header));
        let other = (at + 1) % 3;
        assert!(!opened.prove(other).expect("another").shows(digest, &opened.batch.header));
    }
    assert!(opened.prove(3).is_none());
}

#[test]
fn nothing_of_a_batch_can_be_changed_under_its_header() {
    let good = batch().batch;
    let forged = |change: fn(&mut Batch)| {
        let mut batch = good.clone();
        change(&mut batch);
        Opened::read(&batch.encode())
    };
    let lines = |batch: &mut Batch, change: fn(&mut Vec<Line>)| {
        let mut lines = batch.lines.to_vec();
        change(&mut lines);
        batch.lines = List::try_from(lines).expect("few");
    };
    assert!(forged(|_| {}).is_some());
    assert!(forged(|batch| batch.openings = List::default()).is_none());
    for change in [
        |lines: &mut Vec<Line>| drop(lines.pop()),
        |lines: &mut Vec<Line>| lines.swap(0, 1),
        |lines: &mut Vec<Line>| Arc::make_mut(&mut lines[1].entry).transfer += 1,
        |lines: &mut Vec<Line>| lines[1].auth = Auth::Institution,
        |lines: &mut Vec<Line>| lines.push(lines[0].clone()),
    ] {
        let mut batch = good.clone();
        lines(&mut batch, change);
        assert!(Opened::read(&batch.encode()).is_none());
    }
    // Another header is another batch.
    let other = forged(|batch| batch.header.lot.sequence += 1).expect("a batch of another slot");
    assert_ne!(other.digest, good.header.digest());
    let empty = Opened::new(0, LOT, Hash::ZERO, Vec::new(), Vec::new());
    assert!(Opened::read(&empty.payload()).is_none(), "a batch of nothing");
}

#[test]
fn a_broadcast_that_carries_less_than_a_batch_is_refused() {
    let recovered = |short: u32| {
        let setup = config(4, NodeId(0));
        let payload_max = setup.config.parameters.payload_max() - short;
        let Setup { config, channel } = setup;
        let channel = Box::new(move |settled| {
            let mut setup = channel(settled);
            setup.config.bounds.payload_max = payload_max;
            setup
        });
        let log = Log { condition: Condition::Clean, records: &mut std::iter::empty() };
        Replica::recover(Setup { config, channel }, log).map(|_| ())
    };
    assert_eq!(recovered(0), Ok(()));
    let why = recovered(1).expect_err("one byte less").0;
    assert_eq!(why, "batches have up to 8704 bytes, and the broadcast carries 8703");
}

#[test]
fn a_list_of_exceptions_is_closed_behind_each_entry_of_a_log() {
    let payload = batch().payload();
    for (list, may) in [
        (&[][..], true),
        (&[0, 2], true),
        (&[2], true),
        (&[1], true),
        (&[0, 1, 2], true),
        (&[0], false),
        (&[0, 1], false),
        (&[3], false),
        (&[0, 2, 7], false),
    ] {
        assert_eq!(Batches::may_except(&payload, list), may, "{list:?}");
    }
}
