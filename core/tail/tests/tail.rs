//! The collections against plain models, over drawn operations.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use synod_tail::{BitWindow, ByteFifo, Fifo, Inserted, Pushed, Seen, TailMap, WINDOW_MAX, WINDOW_MIN};
use synod_wire::Drawn;

fn size(n: u64) -> usize {
    usize::try_from(n).expect("small")
}

#[test]
fn a_full_refusing_queue_keeps_what_it_has() {
    let mut queue = Fifo::refusing(2);
    assert_eq!((queue.push(1), queue.push(2)), (Pushed::Kept, Pushed::Kept));
    assert_eq!(queue.push(3), Pushed::Refused(3));
    assert_eq!(queue.drain().collect::<Vec<_>>(), [1, 2]);
    assert_eq!(Fifo::refusing(0).push('x'), Pushed::Refused('x'));
    assert_eq!(Fifo::evicting(0).push('x'), Pushed::Refused('x'));
}

#[test]
fn an_evicting_queue_is_the_tail_of_what_was_pushed() {
    for seed in 0..200 {
        let mut from = Drawn::new(seed);
        let max = size(1 + from.below(9));
        let (mut queue, mut model) = (Fifo::evicting(max), VecDeque::new());
        for n in 0..100 {
            if from.below(4) == 0 {
                assert_eq!(queue.pop(), model.pop_front());
                continue;
            }
            let evicted = if model.len() == max { model.pop_front() } else { None };
            model.push_back(n);
            assert_eq!(queue.push(n), evicted.map_or(Pushed::Kept, Pushed::Evicted));
            assert_eq!(
                (queue.count(), queue.front(), queue.back()),
                (model.len(), model.front(), model.back())
            );
            assert_eq!(queue.room(), max - model.len());
        }
        assert!(queue.iter().eq(model.iter()));
    }
}

#[test]
fn an_evicting_map_holds_the_largest_keys() {
    for seed in 0..200 {
        let mut from = Drawn::new(seed);
        let max = size(1 + from.below(9));
        let (mut map, mut model) = (TailMap::evicting(max), BTreeMap::new());
        for n in 0..100_u64 {
            let key = from.below(30);
            let expected = match (model.get(&key).copied(), model.first_key_value()) {
                (Some(old), _) => Inserted::Replaced(old),
                (None, Some((&k, &v))) if model.len() == max && k < key => Inserted::Evicted(k, v),
                (None, _) if model.len() == max => Inserted::Refused(n),
                _ => Inserted::New,
            };
            assert_eq!(map.insert(key, n), expected);
            if !matches!(expected, Inserted::Refused(_)) {
                model.insert(key, n);
            }
            if model.len() > max {
                model.pop_first();
            }
            assert!(map.iter().eq(model.iter()), "seed {seed}");
        }
    }
}

#[test]
fn a_full_refusing_map_still_replaces() {
    let mut map = TailMap::refusing(1);
    assert_eq!(map.insert(1, 'a'), Inserted::New);
    assert_eq!(map.insert(2, 'b'), Inserted::Refused('b'));
    assert_eq!(map.insert(1, 'c'), Inserted::Replaced('a'));
    assert_eq!((map.remove(&1), map.room()), (Some('c'), 1));
}

#[test]
fn a_byte_queue_never_exceeds_its_bytes() {
    for seed in 0..200 {
        let mut from = Drawn::new(seed);
        let max = 50 + from.below(50);
        let (mut queue, mut model) = (ByteFifo::new(max), VecDeque::<(u64, u64)>::new());
        for n in 0..100 {
            let bytes = from.below(60);
            let mut gone = Vec::new();
            let fits = queue.push_evicting(n, bytes, |old| gone.push(old));
            if bytes > max {
                assert_eq!((fits, gone.len()), (Err(n), 0));
                continue;
            }
            model.push_back((n, bytes));
            let mut expected = Vec::new();
            while model.iter().map(|(_, bytes)| bytes).sum::<u64>() > max {
                expected.extend(model.pop_front().map(|(old, _)| old));
            }
            assert_eq!((fits, gone), (Ok(()), expected));
            assert_eq!(queue.bytes(), model.iter().map(|(_, bytes)| bytes).sum::<u64>());
            assert!(queue.bytes() <= queue.bytes_max());
            assert!(queue.iter().eq(model.iter().map(|(n, _)| n)));
        }
    }
}

#[test]
fn a_byte_queue_that_does_not_evict_gives_the_item_back() {
    let mut queue = ByteFifo::new(10);
    assert_eq!(queue.push('a', 6), Ok(()));
    assert_eq!(queue.push('b', 5), Err('b'));
    assert_eq!(queue.push('c', 4), Ok(()));
    assert_eq!((queue.pop(), queue.bytes(), queue.count()), (Some('a'), 4, 1));
}

#[test]
fn a_window_remembers_exactly_what_was_set_in_it() {
    for seed in 0..300 {
        let mut from = Drawn::new(seed);
        let width = 64_u64 << from.below(3);
        let start = if from.below(8) == 0 { u64::MAX - 500 } else { from.below(1_000) };
        let mut window = BitWindow::new(start, u32::try_from(width).expect("small"));
        let (mut base, mut model) = (start, BTreeSet::new());
        for _ in 0..200 {
            if from.below(5) == 0 {
                let to = base.saturating_sub(10).saturating_add(from.below(width + 40)).min(u64::MAX - 200);
                window.advance(to);
                base = base.max(to);
                model.retain(|n| *n >= base);
            }
            let number = base.saturating_sub(5).saturating_add(from.below(width + 10));
            let expected = match number {
                n if n < base => Seen::Below,
                n if n >= base.saturating_add(width) => Seen::Beyond,
                n if model.contains(&n) => Seen::Before,
                _ => Seen::New,
            };
            assert_eq!(window.set(number), expected, "seed {seed}");
            if expected == Seen::New {
                model.insert(number);
            }
            assert_eq!((window.base(), size(u64::from(window.count()))), (base, model.len()));
            assert!(model.iter().all(|n| window.contains(*n)));
        }
    }
}

#[test]
fn the_edges_of_a_window_are_sharp() {
    for width in [WINDOW_MIN, 1_024, WINDOW_MAX] {
        let mut window = BitWindow::new(1, width);
        assert_eq!((window.set(0), window.set(1)), (Seen::Below, Seen::New));
        assert_eq!(
            (window.set(u64::from(width)), window.set(u64::from(width) + 1)),
            (Seen::New, Seen::Beyond)
        );
        window.advance(2);
        assert_eq!((window.set(1), window.set(u64::from(width) + 1)), (Seen::Below, Seen::New));
    }
    assert!(!BitWindow::is_size(32) && !BitWindow::is_size(96) && !BitWindow::is_size(8_192));
}

#[test]
fn equal_windows_have_equal_words_whatever_their_history() {
    let mut direct = BitWindow::new(100, 64);
    direct.set(120);
    let mut moved = BitWindow::new(1, 64);
    (1..=64).for_each(|n| {
        moved.set(n);
    });
    moved.advance(100);
    moved.set(120);
    assert_eq!(direct, moved);
    assert_eq!(BitWindow::from_words(100, direct.words().to_vec()), Some(direct));
    assert_eq!(BitWindow::from_words(1, vec![0; 3]), None);
    assert_eq!(BitWindow::from_words(1, Vec::new()), None);
}
