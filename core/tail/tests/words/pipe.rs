//! The pipe: everything arrives, a full one refuses, nobody's lie is believed.

#![expect(clippy::disallowed_methods, reason = "one test is about threads")]

use std::sync::Arc;
use std::thread;

use proptest::prelude::*;
use synod_tail::pipe::{CAPACITY_MAX, CAPACITY_MIN, DATA, Next, PIECE_MAX, Piece, Pipe, Put, Reader, Writer};
use synod_tail::{Atomics, Words};

use crate::liar::Noise;

type Shared = Arc<Atomics>;

fn pipe(capacity: u32) -> (Writer<Shared>, Reader<Shared>, Shared) {
    let pipe = Pipe::new(capacity).expect("a pipe");
    let words = Arc::new(Atomics::zeroed(pipe.words()));
    (Writer::new(pipe, Arc::clone(&words)), Reader::new(pipe, Arc::clone(&words)), words)
}

fn take(reader: &mut Reader<Shared>) -> Option<(Piece, Vec<u8>)> {
    match reader.look() {
        Next::Piece(piece) => {
            let mut bytes = Vec::new();
            reader.take(|some| bytes.extend_from_slice(some));
            Some((piece, bytes))
        }
        Next::Empty | Next::Malformed => None,
    }
}

#[test]
fn capacities_end_where_they_are_said_to() {
    for (capacity, fits) in
        [(CAPACITY_MIN - 1, false), (CAPACITY_MIN, true), (CAPACITY_MAX, true), (CAPACITY_MAX + 1, false)]
    {
        assert_eq!(Pipe::new(capacity).is_some(), fits, "{capacity}");
    }
}

#[test]
fn a_full_pipe_refuses_and_goes_on_where_it_was_read() {
    let (mut writer, mut reader, _) = pipe(8);
    assert_eq!(writer.put(3, &[1; 17]), Put::Whole, "a header and three words");
    assert_eq!(writer.put(3, &[2; 40]), Put::Part(24), "a header and the three words that are left");
    assert_eq!((writer.put(3, &[2; 16]), writer.put(3, &[]), writer.free()), (Put::Full, Put::Full, 0));
    assert_eq!(take(&mut reader), Some((Piece { length: 17, more: false, epoch: 3 }, vec![1; 17])));
    writer.acknowledge(reader.acknowledgement());
    assert_eq!(writer.put(4, &[2; 16]), Put::Whole);
    assert_eq!(take(&mut reader), Some((Piece { length: 24, more: true, epoch: 3 }, vec![2; 24])));
    assert_eq!(take(&mut reader), Some((Piece { length: 16, more: false, epoch: 4 }, vec![2; 16])));
    assert_eq!((take(&mut reader), reader.look(), writer.is_empty()), (None, Next::Empty, false));
    writer.acknowledge(reader.acknowledgement());
    assert!(writer.is_empty());
    assert_eq!(writer.put(5, &[]), Put::Whole);
    assert_eq!(take(&mut reader), Some((Piece { length: 0, more: false, epoch: 5 }, vec![])));
}

#[test]
fn an_acknowledgement_of_what_was_never_written_or_goes_back_is_ignored() {
    let (mut writer, _, _) = pipe(8);
    assert_eq!(writer.put(0, &[1; 8]), Put::Whole);
    for lie in [3, u64::MAX, 1 << 62] {
        writer.acknowledge(lie);
        assert_eq!(writer.free(), 6, "{lie}");
    }
    writer.acknowledge(2);
    writer.acknowledge(1);
    assert_eq!(writer.free(), 8);
}

#[test]
fn counts_and_lengths_that_no_writer_leaves_are_malformed_for_ever() {
    let header = |length: u64| length;
    for (count, length) in [(9, 0), (u64::MAX, 0), (1, 1), (2, 9), (8, u64::from(PIECE_MAX))] {
        let (_, mut reader, words) = pipe(8);
        words.store(DATA, header(length));
        words.store(0, count);
        assert_eq!((reader.look(), reader.look()), (Next::Malformed, Next::Malformed), "{count} {length}");
        assert_eq!(reader.acknowledgement(), 0);
    }
    let (mut writer, mut reader, words) = pipe(8);
    assert_eq!(writer.put(0, &[1; 8]), Put::Whole);
    assert!(take(&mut reader).is_some());
    words.store(0, 1);
    assert_eq!(reader.look(), Next::Malformed, "a count that goes back");
}

#[test]
fn what_was_looked_at_is_what_is_taken_whatever_the_writer_does_meanwhile() {
    let (mut writer, mut reader, words) = pipe(8);
    assert_eq!(writer.put(7, &[1; 8]), Put::Whole);
    let seen = reader.look();
    words.store(DATA, u64::MAX);
    words.store(0, u64::MAX);
    assert_eq!(reader.look(), seen);
    let mut bytes = 0;
    reader.take(|some| bytes += some.len());
    assert_eq!((bytes, reader.acknowledgement()), (8, 2));
}

#[test]
fn frames_of_any_length_pass_between_two_threads_in_order_and_whole() {
    const FRAMES: usize = if cfg!(miri) { 40 } else { 20_000 };
    let (mut writer, mut reader, _) = pipe(16);
    let acks = Arc::new(Atomics::zeroed(1));
    let told = Arc::clone(&acks);
    let sender = thread::spawn(move || {
        for number in 0..FRAMES {
            let frame = vec![u8::try_from(number % 251).expect("small"); number % 300];
            let mut at = 0;
            loop {
                writer.acknowledge(told.load(0));
                match writer.put(1, &frame[at..]) {
                    Put::Whole => break,
                    Put::Part(bytes) => at += bytes,
                    Put::Full => thread::yield_now(),
                }
            }
        }
    });
    for number in 0..FRAMES {
        let mut frame = Vec::new();
        loop {
            let Next::Piece(piece) = reader.look() else {
                thread::yield_now();
                continue;
            };
            reader.take(|some| frame.extend_from_slice(some));
            acks.store(0, reader.acknowledgement());
            if !piece.more {
                break;
            }
        }
        assert_eq!(frame, vec![u8::try_from(number % 251).expect("small"); number % 300]);
    }
    sender.join().expect("it ends");
}

proptest! {
    /// Words that change with every look cost a constant number of loads and give no piece longer than the pipe.
    #[test]
    fn a_liar_costs_bounded_steps(drawn in prop::collection::vec((0_u64..40, any::<u64>(), 0_u8..4), 1..64)) {
        let pipe = Pipe::new(16).expect("a pipe");
        let noise = Noise::new(drawn);
        let mut reader = Reader::new(pipe, &noise);
        for _ in 0..64 {
            let before = noise.loads();
            if let Next::Piece(piece) = reader.look() {
                assert!(piece.length <= 15 * 8);
                let mut bytes = 0;
                reader.take(|some| bytes += some.len());
                assert_eq!(bytes, piece.length as usize);
            }
            assert!(noise.loads() - before <= 2 + 15);
        }
        assert_eq!(noise.stores(), 0);
    }
}
