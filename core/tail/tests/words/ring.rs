//! Promises of the ring, one thread.

use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};
use synod_tail::ring::{
    DEPTH_MIN, Header, NUMBER_END, Polled, Reader, Ring, RingSpec, SLOT_BYTES_MAX, SLOT_UNIT, TooLong, Unfit,
    Writer,
};
use synod_tail::{Atomics, Words};

use crate::liar::Noise;

const HEADER: Header = Header { queue: 255, epoch: u32::MAX };

fn ring(depth: u32, slot_bytes: u32) -> Ring {
    Ring::new(RingSpec { depth, slot_bytes }).expect("a ring")
}

/// Polls until nothing is left, and gives what came as (sequence, payload).
fn drain(reader: &mut Reader<&Atomics>, ring: Ring) -> Vec<(u64, Vec<u8>)> {
    let (mut buffer, mut got) = (vec![0; ring.payload_max() as usize], Vec::new());
    loop {
        match reader.poll(&mut buffer) {
            Polled::Message(arrived) => got.push((arrived.sequence, arrived.payload(&buffer).to_vec())),
            Polled::Lapped { .. } => {}
            Polled::Empty | Polled::Malformed => return got,
        }
    }
}

#[test]
fn measures_are_checked_at_their_limits() {
    let spec = |depth, slot_bytes| Ring::new(RingSpec { depth, slot_bytes }).map(Ring::payload_max);
    assert_eq!(spec(DEPTH_MIN, SLOT_UNIT), Ok(48));
    assert_eq!(spec(DEPTH_MIN - 1, SLOT_UNIT), Err(Unfit::Depth));
    assert_eq!(spec(DEPTH_MIN, 0), Err(Unfit::Slot));
    assert_eq!(spec(DEPTH_MIN, SLOT_UNIT + 8), Err(Unfit::Slot));
    assert_eq!(spec(DEPTH_MIN, SLOT_BYTES_MAX), Ok(SLOT_BYTES_MAX - 16));
    assert_eq!(spec(DEPTH_MIN, SLOT_BYTES_MAX + SLOT_UNIT), Err(Unfit::Slot));
    assert_eq!(spec(u32::MAX / 8, SLOT_UNIT), Ok(48));
    assert_eq!(spec(u32::MAX / 8 + 1, SLOT_UNIT), Err(Unfit::Size));
    assert_eq!((ring(264, 1_216).words(), ring(264, 1_216).depth()), (264 * 152, 264));
}

#[test]
fn every_length_up_to_the_slot_arrives_as_it_was_sent_and_one_more_byte_is_refused() {
    let ring = ring(3, 64);
    let words = Atomics::zeroed(ring.words());
    let (mut writer, mut reader) = (Writer::new(ring, &words), Reader::new(ring, &words));
    let payload: Vec<u8> = (1..50).collect();
    let mut buffer = [0xee; 48];
    for length in 0..=48_u32 {
        let sent = &payload[..length as usize];
        assert_eq!(writer.send(HEADER, sent), Ok(u64::from(length) + 1));
        let Polled::Message(arrived) = reader.poll(&mut buffer) else { panic!("length {length}") };
        assert_eq!((arrived.header, arrived.length, arrived.payload(&buffer)), (HEADER, length, sent));
        assert!(buffer[..48].iter().skip(sent.len()).take((8 - sent.len() % 8) % 8).all(|byte| *byte == 0));
        assert_eq!(reader.poll(&mut buffer), Polled::Empty);
    }
    assert_eq!(writer.send(HEADER, &payload), Err(TooLong { max: 48 }));
    assert_eq!((writer.sent(), reader.poll(&mut buffer)), (49, Polled::Empty));
}

#[test]
fn a_reader_that_was_away_for_ten_rounds_gets_the_last_messages_in_order_and_goes_on() {
    for depth in [2, 3, 7, 16] {
        let ring = ring(depth, 64);
        let words = Atomics::zeroed(ring.words());
        let (mut writer, mut reader) = (Writer::new(ring, &words), Reader::new(ring, &words));
        for away in
            [0, 1, u64::from(depth) - 1, u64::from(depth), u64::from(depth) + 1, 10 * u64::from(depth)]
        {
            let had = writer.sent();
            for _ in 0..away {
                let next = writer.sent() + 1;
                assert_eq!(writer.send(HEADER, &next.to_le_bytes()), Ok(next));
            }
            let first = (had + 1).max((writer.sent() + 1).saturating_sub(u64::from(depth)));
            let wanted: Vec<_> = (first..=writer.sent()).map(|s| (s, s.to_le_bytes().to_vec())).collect();
            assert_eq!(drain(&mut reader, ring), wanted, "depth {depth}, away for {away}");
        }
        let got = writer.sent() - reader.lost();
        assert!(got < writer.sent() && reader.wanted() == writer.sent() + 1 && reader.malformed() == 0);
    }
}

/// A reader that finds 4 where it wants 1 in a ring of 3 goes to 2, not to 4.
#[test]
fn a_lapped_reader_goes_to_the_oldest_message_that_still_stands() {
    let ring = ring(3, 64);
    let words = Atomics::zeroed(ring.words());
    let mut reader = Reader::new(ring, &words);
    words.store(0, 4);
    assert_eq!(reader.poll(&mut [0; 48]), Polled::Lapped { skipped: 1 });
    assert_eq!((reader.wanted(), reader.lost()), (2, 1));
}

#[test]
fn sequences_that_no_correct_writer_leaves_are_counted_and_passed_over() {
    let ring = ring(3, 64);
    for (first, odd) in [
        (0, false),
        (2, true),
        (3, true),
        (NUMBER_END - 3, false),
        (NUMBER_END - 1, true),
        (NUMBER_END, true),
        (NUMBER_END + 2, true),
        (u64::MAX, true),
    ] {
        let words = Atomics::zeroed(ring.words());
        let (mut writer, mut reader) = (Writer::new(ring, &words), Reader::new(ring, &words));
        words.store(0, first);
        let polled = reader.poll(&mut [0; 48]);
        assert_eq!((polled == Polled::Malformed, reader.malformed() == 1), (odd, odd), "{first}: {polled:?}");
        if odd {
            assert_eq!(reader.wanted(), 1);
            assert_eq!(writer.send(HEADER, b"and on"), Ok(1));
            assert_eq!(drain(&mut reader, ring), [(1, b"and on".to_vec())]);
        }
    }
}

/// Each slot is a round ahead when it is looked at, for ever.
#[test]
fn a_writer_that_always_laps_its_reader_costs_depth_steps_a_poll() {
    for depth in [2, 3, 7] {
        let ring = ring(depth, 64);
        let racing = Noise::exact((0..1_000).map(|n| n + 1 + u64::from(depth)).collect());
        let mut reader = Reader::new(ring, &racing);
        for polls in 1..=20 {
            assert_eq!(reader.poll(&mut [0; 48]), Polled::Lapped { skipped: depth.into() });
            assert_eq!((racing.loads(), reader.lost()), (polls * u64::from(depth), polls * u64::from(depth)));
        }
    }
}

/// A slot may hold what it held a round before, and nothing else that is older.
#[test]
fn an_older_sequence_than_the_last_round_is_malformed() {
    let ring = ring(2, 64);
    let words = Atomics::zeroed(ring.words());
    let (mut writer, mut reader) = (Writer::new(ring, &words), Reader::new(ring, &words));
    for _ in 0..4 {
        assert!(writer.send(HEADER, b"").is_ok() && drain(&mut reader, ring).len() == 1);
    }
    for (old, polled) in
        [(3, Polled::Empty), (0, Polled::Empty), (1, Polled::Malformed), (2, Polled::Malformed)]
    {
        words.store(0, old);
        assert_eq!(reader.poll(&mut [0; 48]), polled, "{old} where 5 is wanted");
    }
}

#[test]
fn a_huge_length_is_clamped_to_the_slot() {
    let ring = ring(2, 64);
    let words = Atomics::zeroed(ring.words());
    words.store(1, u64::MAX);
    words.store(0, 1);
    let mut buffer = [0xee; 60];
    let Polled::Message(arrived) = Reader::new(ring, &words).poll(&mut buffer) else {
        panic!("it stands there")
    };
    assert_eq!((arrived.length, arrived.header, arrived.payload(&buffer)), (48, HEADER, &[0; 48][..]));
    assert_eq!(buffer[48..], [0xee; 12]);
}

#[test]
#[should_panic(expected = "the buffer holds the longest payload")]
fn a_buffer_shorter_than_the_slot_is_a_bug_of_the_caller() {
    let ring = ring(2, 64);
    let words = Atomics::zeroed(ring.words());
    let _ = Reader::new(ring, &words).poll(&mut [0; 47]);
}

proptest! {
    /// Whatever a faulty writer stores, also between two loads: a poll ends within `depth` steps, sequences rise, and
    /// nothing is said about a payload longer than a slot.
    #[test]
    fn a_faulty_writer_costs_at_most_depth_steps_a_poll(
        depth in 2_u32..6,
        noise in prop::collection::vec((0_u64..40, any::<u64>(), 0_u8..4), 1..400),
    ) {
        let ring = ring(depth, 64);
        let noise = Noise::new(noise);
        let mut reader = Reader::new(ring, &noise);
        let (mut buffer, mut last) = ([0; 48], 0);
        for _ in 0..50 {
            let before = noise.loads();
            let polled = reader.poll(&mut buffer);
            // A step loads the sequence twice, the header, and a payload of six words.
            prop_assert!(noise.loads() - before <= u64::from(depth) * 9);
            if let Polled::Message(arrived) = polled {
                prop_assert!(arrived.sequence > last && arrived.sequence < NUMBER_END);
                prop_assert!(arrived.length <= 48);
                last = arrived.sequence;
            }
            prop_assert!(reader.wanted() > last && reader.wanted() <= NUMBER_END);
        }
        prop_assert_eq!(noise.stores(), 0, "a reader writes nothing");
    }
}
