//! Deduplication against the sequential model, over batches and lanes.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use synod_crypto::{Hash, Signature};
use synod_quorum::Epoch;

use super::oracle::{self, Case, Oracle, Standing};
use super::table::tag_of_eight;
use super::{CHUNK_SLOTS, Chunk, Exceptions, Reason, Runs, Slot, Table, tag};
use crate::Domains;
use crate::batch::{Batch, OwnedEntry, Plan, Seal};
use crate::columns::Straggler;
use crate::statement::BlsSignatureBytes;

const LENGTH: u32 = 70_000;

fn domains() -> Domains {
    Domains::of(&Hash::of(b"cluster"))
}

fn batch(k: u64, cases: &[Case], msg_size: u16) -> Batch {
    let entries = cases.iter().map(|case| OwnedEntry {
        id: case.id,
        message: case.message.clone().into(),
        parity: case.parity,
    });
    let indexed = || (0_u32..).zip(cases);
    let stragglers = indexed().filter_map(|(index, case)| match case.standing {
        Standing::Straggler(k) => Some(Straggler { index, k, t: Signature([1; 64]) }),
        Standing::Signer | Standing::Void => None,
    });
    let voids = indexed().filter(|(_, case)| case.standing == Standing::Void).map(|(index, _)| index);
    let signers = cases.iter().any(|case| case.standing == Standing::Signer);
    let plan = Plan { broker: 0, msg_size, epoch: Epoch(0), k, expiry: 9, directory: LENGTH };
    let seal =
        Seal::new(plan, entries.collect()).with_stragglers(stragglers.collect()).with_voids(voids.collect());
    let aggregate = signers.then_some(BlsSignatureBytes([1; 96]));
    Batch::open(&seal.seal(&domains(), aggregate).expect("it is sound")).expect("it is sound")
}

fn table(lanes: u8) -> Table {
    let mut table = Table::new(lanes);
    table.grow(LENGTH);
    table
}

fn codes(exceptions: &Exceptions) -> Vec<u8> {
    (0..exceptions.count()).map(|index| exceptions.reason(index).map_or(0, Reason::code)).collect()
}

fn one(table: &mut Table, k: u64, message: &str, parity: bool, standing: Standing) -> Option<Reason> {
    let case = Case { id: 7, message: message.as_bytes().to_vec(), parity, standing };
    let runs = Runs::split(batch(k, &[case], 0), table).expect("the id is known");
    runs.apply(table).reason(0)
}

#[test]
fn two_equal_consecutive_messages_are_both_delivered() {
    let mut table = table(1);
    assert_eq!(one(&mut table, 1, "pay", false, Standing::Signer), None);
    assert_eq!(one(&mut table, 2, "pay", true, Standing::Signer), None);
    assert_eq!(one(&mut table, 3, "pay", true, Standing::Signer), Some(Reason::Same));
}

#[test]
fn a_retry_under_a_lower_k_is_same() {
    let mut table = table(1);
    assert_eq!(one(&mut table, 9, "pay", false, Standing::Signer), None);
    assert_eq!(one(&mut table, 4, "pay", false, Standing::Straggler(3)), Some(Reason::Same));
    assert_eq!(table.slot(7).map(|slot| slot.next_k), Some(10), "nor does it free numbers");
    assert_eq!(one(&mut table, 20, "pay", false, Standing::Signer), Some(Reason::Same));
    assert_eq!(table.slot(7).map(|slot| slot.next_k), Some(21), "a higher one takes numbers");
    assert_eq!(one(&mut table, 20, "other", true, Standing::Signer), Some(Reason::Stale));
    assert_eq!(one(&mut table, 21, "other", true, Standing::Signer), None);
}

#[test]
fn an_old_root_after_a_newer_message_is_stale_and_a_void_entry_changes_nothing() {
    let mut table = table(1);
    assert_eq!(one(&mut table, 0, "a", false, Standing::Signer), None, "k = 0 counts");
    assert_eq!(one(&mut table, 5, "b", true, Standing::Straggler(2)), None);
    let before = table.slot(7);
    assert_eq!(before.map(|slot| slot.next_k), Some(3), "a straggler comes under its own number");
    assert_eq!(one(&mut table, 0, "a", false, Standing::Signer), Some(Reason::Stale));
    assert_eq!(one(&mut table, 9, "c", false, Standing::Void), Some(Reason::Void));
    assert_eq!(table.slot(7), before);
    assert_eq!(one(&mut table, u64::MAX - 1, "d", false, Standing::Signer), None, "the last number");
    assert_eq!(one(&mut table, u64::MAX - 1, "e", false, Standing::Signer), Some(Reason::Stale));
}

#[test]
fn the_first_message_is_delivered_whatever_its_tag() {
    let mut table = table(1);
    assert_eq!(tag(&[], false), 0, "the tag of a fresh slot");
    assert_eq!(table.slot(7), Some(Slot::default()));
    // A message whose tag is zero: the first word undoes the length.
    let zero = 8_u64.to_le_bytes();
    assert_eq!(tag(&zero, false), 0);
    let case = Case { id: 7, message: zero.to_vec(), parity: false, standing: Standing::Signer };
    let runs = Runs::split(batch(0, &[case], 8), &table).expect("the id is known");
    assert_eq!(runs.apply(&mut table).exc_count(), 0);
    assert_eq!(runs.apply(&mut table).reason(0), Some(Reason::Same));
}

#[test]
fn an_id_beyond_the_table_is_not_split() {
    let mut small = Table::new(4);
    small.grow(7);
    let case = Case { id: 7, message: vec![1], parity: false, standing: Standing::Signer };
    assert!(Runs::split(batch(0, std::slice::from_ref(&case), 0), &small).is_none());
    small.grow(8);
    assert!(Runs::split(batch(0, &[case], 0), &small).is_some());
}

#[test]
fn a_checkpoint_is_not_changed_by_what_follows_and_restores_the_table() {
    let mut table = table(3);
    assert_eq!(one(&mut table, 1, "a", false, Standing::Signer), None);
    let chunks = table.chunks();
    assert_eq!(chunks.len(), 18);
    assert_eq!(one(&mut table, 2, "b", false, Standing::Signer), None);
    let encoded: Vec<_> = chunks.iter().map(|chunk| chunk.encode()).collect();
    assert!(encoded.iter().all(|chunk| chunk.len() == 64 << 10));
    let decoded: Option<Vec<_>> = encoded.iter().map(|chunk| Chunk::decode(chunk).map(Arc::new)).collect();
    let decoded = decoded.expect("what was encoded");
    assert!(Table::restore(5, LENGTH, decoded[1..].to_vec()).is_none(), "a chunk is missing");
    let restored = Table::restore(5, LENGTH, decoded).expect("every chunk is there");
    assert_eq!(restored.slot(7).map(|slot| slot.next_k), Some(2));
    assert_eq!(table.slot(7).map(|slot| slot.next_k), Some(3));
    assert!(Chunk::decode(&[0; 16]).is_none());
}

#[test]
fn exceptions_are_proved_and_read_back() {
    let domains = domains();
    let count = 1_000;
    let list: Vec<(u32, Reason)> = (0..count)
        .step_by(7)
        .map(|i| (i, Reason::of(1 + u8::try_from(i % 3).expect("small")).expect("1 to 3")))
        .collect();
    let exceptions = Exceptions::new(count, list);
    let root = exceptions.root(&domains);
    assert_eq!(Exceptions::from_vector(count, &exceptions.vector()), Some(exceptions.clone()));
    for index in [0, 1, 7, 255, 256, 511, 700, 999] {
        let (leaf, path) = exceptions.prove(&domains, index).expect("below the count");
        let proved = |index, count| Exceptions::proved(&domains, &root, (index, count), &leaf, &path);
        assert_eq!(proved(index, count), Some(exceptions.reason(index)));
        assert_eq!(proved((index + 256) % 1_000, count), None, "another leaf");
        assert_eq!(proved(index, 100_000), None, "another count");
    }
    assert!(exceptions.prove(&domains, count).is_none());
    assert_eq!(Exceptions::new(9, Vec::new()).root(&domains), Hash::ZERO);
    assert!(Exceptions::checked(9, vec![(3, Reason::Same), (3, Reason::Void)]).is_none());
    assert!(Exceptions::checked(9, vec![(9, Reason::Same)]).is_none());
    assert!(Exceptions::from_vector(5, &[0, 4]).is_none(), "a bit behind the last entry");
    assert!(Exceptions::from_vector(5, &[0]).is_none());
}

type Drawn = Vec<(u64, Vec<Case>)>;

/// Many small batches over few clients, so that they meet.
fn batches() -> impl Strategy<Value = Drawn> {
    let standing = prop_oneof![
        6 => Just(Standing::Signer),
        2 => (0_u64..12).prop_map(Standing::Straggler),
        1 => Just(Standing::Void),
    ];
    let case = (0_u32..24, 0_u8..3, any::<bool>(), standing);
    let one = (0_u64..12, proptest::collection::vec(case, 1..16)).prop_map(|(k, drawn)| {
        let spread = |at: u32| at * (LENGTH / 24) + at % 3;
        let mut cases: Vec<Case> = drawn
            .into_iter()
            .map(|(at, text, parity, standing)| Case {
                id: spread(at),
                message: vec![text; 1 + usize::from(text)],
                parity,
                standing: match standing {
                    Standing::Straggler(own) => Standing::Straggler(own.min(k)),
                    other => other,
                },
            })
            .collect();
        cases.sort_by_key(|case| case.id);
        cases.dedup_by_key(|case| case.id);
        (k, cases)
    });
    proptest::collection::vec(one, 1..24)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_number_of_lanes_gives_what_the_sequential_model_gives(drawn in batches()) {
        let mut model = Oracle::default();
        let mut tables = [1, 2, 7, 16].map(table);
        for (k, cases) in &drawn {
            let expected = model.batch(*k, cases);
            let batch = batch(*k, cases, 0);
            for table in &mut tables {
                let runs = Runs::split(batch.clone(), table).expect("every id is known");
                let covered: Vec<u32> = runs.runs().iter().flat_map(|run| run.entries.clone()).collect();
                prop_assert_eq!(covered, (0..batch.header().count).collect::<Vec<_>>());
                prop_assert_eq!(&codes(&runs.apply(table)), &expected);
            }
        }
        for table in &tables {
            for (id, ..) in &model.delivered {
                prop_assert_eq!(table.slot(*id).map(|slot| slot.next_k), Some(model.next_k(*id)));
            }
            prop_assert_eq!(table.chunks(), tables[0].chunks());
        }
        // What the rule is for: numbers of a client rise, and no two messages in a row are the same.
        let mut last: BTreeMap<u32, (u64, &[u8], bool)> = BTreeMap::new();
        for (id, k, message, parity) in &model.delivered {
            if let Some((before, text, side)) = last.insert(*id, (*k, message, *parity)) {
                prop_assert!(before < *k && (text, side) != (message, *parity));
            }
        }
    }

    #[test]
    fn batches_of_eight_bytes_give_what_the_sequential_model_gives(
        drawn in proptest::collection::vec((0_u64..6, any::<u64>(), 0_u8..3), 1..8),
        first in 0_u32..200,
        apart in any::<bool>(),
    ) {
        let mut model = Oracle::default();
        let mut tables = [1, 2, 7, 16].map(table);
        for (k, seed, parts) in drawn {
            // Some dense, some sparse, over chunks and lanes; more than one part of each.
            let step = [1, 3, 517][usize::from(parts)];
            let ids = (first..LENGTH).step_by(step).take(300).filter(|id| seed >> (id % 61) & 1 == 0);
            let cases: Vec<Case> = ids
                .map(|id| Case {
                    id,
                    message: (seed % 2 + u64::from(id % 3)).to_le_bytes().to_vec(),
                    parity: seed >> (id % 7) & 1 == 1,
                    standing: match id % 5 {
                        0 if apart => Standing::Straggler(k / 2),
                        1 if apart => Standing::Void,
                        _ => Standing::Signer,
                    },
                })
                .collect();
            if cases.is_empty() {
                continue;
            }
            let expected = model.batch(k, &cases);
            let batch = batch(k, &cases, 8);
            for table in &mut tables {
                let runs = Runs::split(batch.clone(), table).expect("every id is known");
                prop_assert_eq!(&codes(&runs.apply(table)), &expected);
            }
        }
        for table in &tables {
            prop_assert_eq!(table.chunks(), tables[0].chunks());
        }
    }

    #[test]
    fn tags_are_those_of_the_specification(
        message in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..40),
            proptest::collection::vec(any::<u8>(), 8),
        ],
        parity in any::<bool>(),
    ) {
        prop_assert_eq!(tag(&message, parity), oracle::tag(&message, parity));
        if let Ok(word) = <[u8; 8]>::try_from(message.as_slice()) {
            prop_assert_eq!(tag_of_eight(u64::from_le_bytes(word), parity), oracle::tag(&message, parity));
        }
    }
}

#[test]
fn lanes_hold_the_ids_they_are_given_as_the_table_grows() {
    for lanes in [1, 2, 7, 16] {
        let mut table = Table::new(lanes);
        for length in [1, 4_095, 4_096, 4_097, 50_000] {
            table.grow(length);
            assert_eq!(table.len(), length);
            assert_eq!(table.slot(length - 1), Some(Slot::default()));
            assert_eq!(table.slot(length), None);
        }
        assert_eq!(table.bytes(), 50_000_u64.next_multiple_of(CHUNK_SLOTS as u64) * 16);
    }
}
