//! The ordered store in memory.

use std::collections::BTreeMap;

use synod_machine::broadcast::Position;
use synod_service::{Change, MemoryStore, StateStore};
use synod_wire::{Bytes, Drawn};

fn name(n: u64) -> Bytes {
    Bytes::from(format!("key{n:02}"))
}

#[test]
fn the_store_agrees_with_a_map_and_counts_its_bytes() {
    let (mut store, mut model) = (MemoryStore::default(), BTreeMap::new());
    let mut from = Drawn::new(3);
    for position in 1..200 {
        let mut changes = Vec::new();
        for _ in 0..from.below(6) {
            let key = name(from.below(30));
            if from.below(3) == 0 {
                model.remove(&key);
                changes.push(Change::Delete(key));
            } else {
                let value = Bytes::from(vec![1; usize::try_from(from.below(9)).expect("small")]);
                model.insert(key.clone(), value.clone());
                changes.push(Change::Put(key, value));
            }
        }
        store.commit(Position(position), changes);
        let bytes: usize = model.iter().map(|(key, value)| key.len() + value.len()).sum();
        assert_eq!((store.bytes(), store.position()), (bytes as u64, Position(position)));
        let start = name(from.below(30));
        let expected: Vec<_> =
            model.range(start.clone()..).take(5).map(|(k, v)| (k.clone(), v.clone())).collect();
        assert_eq!(store.scan(&start, 5), expected);
        assert_eq!(store.get(&start), model.get(&start).cloned());
    }
    store.clear();
    assert_eq!((store.bytes(), store.position(), store.scan(b"", 9)), (0, Position(0), Vec::new()));
}

#[test]
#[should_panic(expected = "positions only rise")]
fn a_batch_of_an_older_position_is_a_bug() {
    let mut store = MemoryStore::default();
    store.commit(Position(2), Vec::new());
    store.commit(Position(1), Vec::new());
}
