//! What is read of a batch, and how often.

use synod_astro::{Line, Opened, Output, Promise, Purpose, Record, Work};
use synod_broadcast::signed as words;
use synod_crypto::Hash;
use synod_ledger::{EntryId, genesis};
use synod_wire::Blob;

use crate::alone::Alone;
use crate::bank::{Message, custodial, issuer, pay};
use crate::forge::{ALL, batch, carried, prepare};

/// How often a batch was read because it is certified.
fn read_again(alone: &Alone) -> usize {
    let settling = |work: &&Work| matches!(work, Work::Read { purpose: Purpose::Settle(_), .. });
    alone.works.iter().filter(settling).count()
}

fn pulled(opened: &Opened) -> Message {
    let payload = Blob::try_from(opened.payload()).expect("short");
    Message::Broadcast(words::Message::Pulled { lot: opened.lot(), payload })
}

fn payment(amount: u128) -> Line {
    carried(issuer(3), 1, genesis(issuer(3)), pay(custodial(0), amount), 1)
}

fn settled(alone: &Alone) -> Vec<EntryId> {
    let all = alone.told.iter().flat_map(|output| match output {
        Output::Settled { entries, .. } => entries.as_slice(),
        _ => &[],
    });
    all.map(|(entry, _)| entry.id).collect()
}

#[test]
fn a_batch_that_was_judged_is_not_read_again_when_it_is_certified() {
    let mut alone = Alone::new();
    let opened = batch(1, Hash::ZERO, Vec::new(), vec![payment(7)]);
    alone.hear(3, prepare(&opened));
    alone.certify(&opened, ALL);
    assert_eq!(settled(&alone), [EntryId { spender: issuer(3), n: 1 }]);
    assert_eq!(read_again(&alone), 0);
    // After a restart it is known from the log, so a fuller certificate needs no reading either.
    let mut alone = Alone::new();
    alone.hear(3, prepare(&opened));
    alone.certify(&opened, [(0, &[0]), (1, &[]), (3, &[])]);
    let mut again = alone.restarted();
    again.certify(&opened, ALL);
    assert_eq!((settled(&again).len(), read_again(&again)), (1, 0));
}

#[test]
fn a_batch_that_is_certified_in_the_place_of_another_is_read() {
    let mut alone = Alone::new();
    let (one, other) = (batch(1, Hash::ZERO, Vec::new(), vec![payment(7)]), vec![payment(8)]);
    let other = batch(1, Hash::ZERO, Vec::new(), other);
    alone.hear(3, prepare(&one));
    alone.certify(&other, ALL);
    alone.hear(3, pulled(&other));
    assert_eq!(read_again(&alone), 1);
    let digests: Vec<Hash> = alone
        .told
        .iter()
        .flat_map(|output| match output {
            Output::Settled { entries, .. } => entries.as_slice(),
            _ => &[],
        })
        .map(|(_, digest)| *digest)
        .collect();
    assert_eq!(digests, other.digests);
}

#[test]
fn the_record_of_an_endorsement_holds_the_payload_as_it_came() {
    let mut alone = Alone::new();
    let message = prepare(&batch(1, Hash::ZERO, Vec::new(), vec![payment(7)]));
    let Message::Broadcast(words::Message::Prepare { payload, .. }) = &message else {
        unreachable!("it is one")
    };
    let came = payload.bytes().as_ptr();
    alone.hear(3, message);
    let records = alone.kept.iter().filter_map(|record| match record {
        Record::Own(Promise::Endorsed { batch: Some(batch), .. }) => Some(batch.bytes().as_ptr()),
        _ => None,
    });
    assert_eq!(records.collect::<Vec<_>>(), [came], "the same bytes, not their copy");
}
