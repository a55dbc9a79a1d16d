//! Promises of the register, one thread.

use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};
use synod_tail::register::{
    Abuse, Backend, Entry, HALF_WORDS, Owner, Pace, Region, RegionSpec, Unwritten, Value, Verdict,
};
use synod_tail::ring::NUMBER_END;
use synod_tail::{Atomics, Words};

use crate::liar::Noise;

const SHARED: Backend = Backend { one_sided: true, atomic_read: false };
const DAEMON: Backend = Backend { one_sided: false, atomic_read: true };

const QUICK: Pace = Pace { taken_ns: 499_999, delta_ns: 1_000_000 };
const SLOW: Pace = Pace { taken_ns: 500_000, delta_ns: 1_000_000 };

fn region(backend: Backend) -> Region {
    Region::new(RegionSpec { registers: 8, tail: 4, backend }).expect("a region")
}

fn value(byte: u8) -> Value {
    Value { digest: [byte; 32], signature: std::array::from_fn(|at| byte ^ u8::try_from(at).expect("64")) }
}

fn entry(k: u64) -> Verdict {
    Verdict::Value(Entry { k, value: value(u8::try_from(k % 251).expect("small")) })
}

/// Stores the whole half of register 5 as a faulty owner would.
fn put(words: &Atomics, half: u32, k: u64) {
    let from = (5 * 2 + half) * HALF_WORDS;
    (0..HALF_WORDS).for_each(|at| words.store(from + at, k));
}

#[test]
fn measures_are_checked() {
    let new = |registers, tail| Region::new(RegionSpec { registers, tail, backend: SHARED }).is_some();
    assert!(new(8, 4) && new(4, 4) && !new(4, 8) && !new(9, 4) && !new(0, 4) && !new(4, 0));
    assert!(new(u32::MAX / 26, 1) && !new(u32::MAX / 26 + 1, 1));
    // n = 3, t = 128: 13 pages per owner (section 8.1 of the specification); half of it with atomic reads.
    let bytes = |backend| {
        Region::new(RegionSpec { registers: 256, tail: 128, backend }).map(|region| region.words() * 8)
    };
    assert_eq!((bytes(SHARED), bytes(DAEMON)), (Some(13 * 4_096), Some(13 * 2_048)));
    assert_eq!(region(SHARED).backend(), SHARED);
}

#[test]
fn a_read_gives_the_newest_value_and_none_before_the_first() {
    for backend in [SHARED, DAEMON] {
        let region = region(backend);
        let words = Atomics::zeroed(region.words());
        let mut owner = Owner::new(region, &words);
        assert_eq!(region.copy(&words, 5).judge(QUICK), Verdict::None);
        for k in (1..60).step_by(4) {
            assert_eq!(owner.write(5, k, &value(u8::try_from(k).expect("small"))), Ok(()));
            assert_eq!((owner.newest(5), region.copy(&words, 5).judge(QUICK)), (k, entry(k)));
            assert_eq!(region.copy(&words, 1).judge(QUICK), Verdict::None, "its neighbour by tail");
        }
        assert_eq!(
            (region.copy(&words, 4).judge(QUICK), region.copy(&words, 6).judge(QUICK)),
            (Verdict::None, Verdict::None)
        );
    }
}

#[test]
fn timestamps_rise_stay_in_their_register_and_below_the_last_number() {
    let region = region(SHARED);
    let words = Atomics::zeroed(region.words());
    let mut owner = Owner::new(region, &words);
    let last = NUMBER_END - 3;
    assert_eq!(owner.write(8, 4, &value(1)), Err(Unwritten::Index));
    assert_eq!(owner.write(4, 0, &value(1)), Err(Unwritten::Misplaced));
    assert_eq!(owner.write(5, 2, &value(1)), Err(Unwritten::Misplaced));
    assert_eq!(owner.write(5, last + 4, &value(1)), Err(Unwritten::Misplaced));
    assert_eq!(owner.write(7, u64::MAX, &value(1)), Err(Unwritten::Misplaced));
    assert!((0..region.words()).all(|at| words.load(at) == 0), "nothing was written");
    assert_eq!(owner.write(5, 9, &value(9)), Ok(()));
    assert_eq!(owner.write(5, 5, &value(5)), Err(Unwritten::Stale));
    assert_eq!(owner.write(5, 5, &value(9)), Err(Unwritten::Stale));
    assert_eq!(owner.write(5, 9, &value(8)), Err(Unwritten::Stale));
    assert_eq!(owner.write(5, last, &value(u8::try_from(last % 251).expect("small"))), Ok(()));
    assert_eq!(region.copy(&words, 5).judge(QUICK), entry(last));
}

/// A WRITE is repeated when its answer was lost (T50).
#[test]
fn writing_the_newest_once_more_is_complete_and_stores_nothing() {
    let region = region(SHARED);
    let words = Atomics::zeroed(region.words());
    let mut owner = Owner::new(region, &words);
    assert_eq!((owner.write(5, 5, &value(5)), owner.write(5, 9, &value(9))), (Ok(()), Ok(())));
    let before: Vec<u64> = (0..region.words()).map(|at| words.load(at)).collect();
    assert_eq!(owner.write(5, 9, &value(9)), Ok(()));
    assert!((0..).zip(before).all(|(at, word)| words.load(at) == word));
}

/// T43 and E36: the READ had the old half whole, and the other was overwritten while it stood still.
#[test]
fn a_slow_read_with_one_whole_half_is_repeated() {
    let region = region(SHARED);
    let words = Atomics::zeroed(region.words());
    put(&words, 0, 5);
    put(&words, 1, 9);
    words.store((5 * 2 + 1) * HALF_WORDS, 0);
    let copies = region.copy(&words, 5);
    assert_eq!(copies.judge(SLOW), Verdict::Retry);
    assert!(matches!(copies.judge(QUICK), Verdict::Value(Entry { k: 5, .. })));
    let instant = Pace { taken_ns: 0, delta_ns: 0 };
    assert_eq!(copies.judge(instant), Verdict::Retry, "without a cooldown nothing is quick");
}

#[test]
fn two_whole_halves_need_no_clock() {
    let region = region(SHARED);
    for (first, second, newest) in [(5, 9, 9), (9, 5, 9), (1, NUMBER_END - 3, NUMBER_END - 3)] {
        let words = Atomics::zeroed(region.words());
        put(&words, 0, first);
        put(&words, 1, second);
        let Verdict::Value(entry) = region.copy(&words, 5).judge(SLOW) else { panic!("{first}, {second}") };
        assert_eq!(entry.k, newest);
        assert_eq!(entry.value.digest[..8], newest.to_le_bytes());
        assert_eq!(entry.value.signature[56..], newest.to_le_bytes());
    }
}

/// T6, E26.
#[test]
fn equal_timestamps_are_abuse_however_slow_the_read_and_zeros_are_none() {
    let region = region(SHARED);
    let words = Atomics::zeroed(region.words());
    assert_eq!(region.copy(&words, 5).judge(QUICK), Verdict::None);
    put(&words, 0, 5);
    put(&words, 1, 5);
    for pace in [QUICK, SLOW] {
        assert_eq!(region.copy(&words, 5).judge(pace), Verdict::Abuse(Abuse::EqualTimestamps));
    }
}

#[test]
fn timestamps_of_another_register_or_beyond_the_last_number_count_as_none() {
    let region = region(SHARED);
    for foreign in [2, 4, NUMBER_END + 1, u64::MAX] {
        let words = Atomics::zeroed(region.words());
        put(&words, 0, foreign);
        put(&words, 1, foreign);
        assert_eq!(region.copy(&words, 5).judge(QUICK), Verdict::None, "{foreign}");
        assert_eq!(region.copy(&words, 5).judge(SLOW), Verdict::Retry, "{foreign}");
        put(&words, 1, 9);
        assert!(
            matches!(region.copy(&words, 5).judge(QUICK), Verdict::Value(Entry { k: 9, .. })),
            "{foreign}"
        );
    }
}

/// What each pair of halves gives, quickly and slowly: W whole, Z zero, C changed under the copy.
#[test]
fn every_pair_of_halves_has_the_verdict_of_the_specification() {
    // A script of loads: two per half matter, the timestamp before and behind the data.
    let half = |kind: char, k: u64| match kind {
        'W' => (k, k),
        'Z' => (0, 0),
        _ => (k, 0),
    };
    let abuse = Verdict::Abuse(Abuse::Restless);
    for (first, second, quick, slow) in [
        ('W', 'W', Ok(9), Ok(9)),
        ('W', 'Z', Ok(5), Err(Verdict::Retry)),
        ('W', 'C', Ok(5), Err(Verdict::Retry)),
        ('Z', 'W', Ok(9), Err(Verdict::Retry)),
        ('Z', 'Z', Err(Verdict::None), Err(Verdict::Retry)),
        ('Z', 'C', Err(Verdict::None), Err(Verdict::Retry)),
        ('C', 'W', Ok(9), Err(Verdict::Retry)),
        ('C', 'Z', Err(Verdict::None), Err(Verdict::Retry)),
        ('C', 'C', Err(abuse), Err(Verdict::Retry)),
    ] {
        let mut loads = Vec::new();
        for (before, behind) in [half(first, 5), half(second, 9)] {
            loads.push(before);
            loads.extend([7; 12]);
            loads.push(behind);
        }
        let copies = region(SHARED).copy(&Noise::exact(loads), 5);
        for (pace, wanted) in [(QUICK, quick), (SLOW, slow)] {
            match (copies.judge(pace), wanted) {
                (Verdict::Value(entry), Ok(k)) => assert_eq!(entry.k, k, "{first}{second}"),
                (verdict, wanted) => assert_eq!(Err(verdict), wanted, "{first}{second}"),
            }
        }
    }
}

/// An atomic backend changes nothing under a copy; one that does is not believed.
#[test]
fn an_atomic_read_needs_no_clock_and_is_not_believed_when_it_was_none() {
    let region = region(DAEMON);
    let words = Atomics::zeroed(region.words());
    let mut owner = Owner::new(region, &words);
    assert_eq!(region.copy(&words, 5).judge(SLOW), Verdict::None);
    assert_eq!(owner.write(5, 5, &value(5)), Ok(()));
    assert_eq!(region.copy(&words, 5).judge(SLOW), entry(5));
    let mut loads = vec![7; 14];
    loads[0] = 5;
    loads[13] = 9;
    assert_eq!(region.copy(&Noise::exact(loads), 5).judge(QUICK), Verdict::Retry);
}

proptest! {
    /// T6, T7: whatever a faulty owner stores, also between two loads, a quick READ ends with a verdict after 28 loads.
    #[test]
    fn a_faulty_owner_never_makes_a_quick_read_last(
        noise in prop::collection::vec((0_u64..40, any::<u64>(), 0_u8..4), 1..60),
    ) {
        let noise = Noise::new(noise);
        for index in 0..8 {
            let before = noise.loads();
            let verdict = region(SHARED).copy(&noise, index).judge(QUICK);
            prop_assert_eq!(noise.loads() - before, 28);
            prop_assert!(verdict != Verdict::Retry);
            if let Verdict::Value(entry) = verdict {
                prop_assert!(entry.k > 0 && entry.k < NUMBER_END && entry.k % 4 == u64::from(index) % 4);
            }
        }
        prop_assert_eq!(noise.stores(), 0, "a reader writes nothing");
    }
}
