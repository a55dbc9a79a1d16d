//! The promises of the encoding: canonical, bounded, total.

use synod_wire::{Blob, Bytes, Draw, Drawn, Limits, List, Malformed, Why, Wire, conformance, wire};

wire! {
    /// A struct with every kind of field.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Sample {
        /// Fixed.
        pub small: u8,
        /// Varint.
        pub wide: u64,
        /// Narrow varint.
        pub narrow: u16,
        /// Strict.
        pub yes: bool,
        /// Option.
        pub maybe: Option<u32>,
        /// Bounded bytes.
        pub blob: Blob<16>,
        /// Bounded list.
        pub list: List<u32, 4>,
        /// Array.
        pub hash: [u8; 4],
        /// Big.
        pub big: u128,
        /// Text.
        pub text: String,
    }

    /// An enum with every kind of variant.
    #[derive(Clone, Debug, PartialEq)]
    pub enum Choice {
        /// Nothing.
        0 = Empty,
        /// One value.
        3 = One(Sample),
        /// Named values.
        9 = Named {
            /// First.
            a: u8,
            /// Second.
            b: Box<u64>,
        },
    }
}

fn decode<T: Wire>(bytes: &[u8]) -> Result<T, Malformed> {
    T::decode(Bytes::copy_from_slice(bytes), &Limits::default())
}

#[test]
fn every_drawn_value_survives_the_round_trip() {
    let mut from = Drawn::new(1);
    for _ in 0..5_000 {
        let value = Choice::draw(&mut from);
        let bytes = value.encode();
        assert_eq!(decode::<Choice>(&bytes).as_ref(), Ok(&value));
    }
}

#[test]
fn an_accepted_mutation_encodes_to_the_same_bytes() {
    let mut from = Drawn::new(2);
    let mut accepted = 0_u32;
    for _ in 0..50_000 {
        let mut bytes = Choice::draw(&mut from).encode().to_vec();
        let at = usize::try_from(from.below(bytes.len() as u64)).expect("small");
        bytes[at] ^= 1 << from.below(8);
        if let Ok(value) = decode::<Choice>(&bytes) {
            assert_eq!(value.encode(), bytes);
            accepted += 1;
        }
    }
    assert!(accepted > 1_000, "mutations must reach accepted values too: {accepted}");
}

#[test]
fn every_cut_and_every_extra_byte_is_refused() {
    let mut from = Drawn::new(3);
    for _ in 0..200 {
        let bytes = Choice::draw(&mut from).encode();
        for cut in 0..bytes.len() {
            assert!(decode::<Choice>(&bytes[..cut]).is_err());
        }
        let mut longer = bytes.to_vec();
        longer.push(0);
        assert_eq!(decode::<Choice>(&longer).map_err(|e| e.why), Err(Why::Trailing));
    }
}

#[test]
fn a_padded_varint_is_refused() {
    assert_eq!(decode::<u64>(&[0x81, 0x00]).map_err(|e| e.why), Err(Why::BadVarint));
    assert_eq!(decode::<u64>(&[0x01]), Ok(1));
}

#[test]
fn a_number_too_wide_for_its_type_is_refused() {
    let bytes = 70_000_u64.encode();
    assert_eq!(decode::<u16>(&bytes).map_err(|e| e.why), Err(Why::BadVarint));
    assert_eq!(decode::<u32>(&bytes), Ok(70_000));
}

#[test]
fn a_boolean_is_zero_or_one() {
    assert_eq!(decode::<bool>(&[2]).map_err(|e| e.why), Err(Why::BadBool));
}

#[test]
fn an_unknown_tag_is_named_with_its_place() {
    let error = decode::<Choice>(&[7]).expect_err("no variant has tag 7");
    assert_eq!(error, Malformed { at: 0, why: Why::UnknownTag(7) });
}

#[test]
fn a_sequence_is_accepted_at_its_cap_and_refused_above_it() {
    let at_cap = List::<u8, 3>::try_from(vec![1, 2, 3]).expect("three fit");
    assert_eq!(decode::<List<u8, 3>>(&at_cap.encode()), Ok(at_cap));
    assert_eq!(decode::<List<u8, 3>>(&[4, 1, 2, 3, 4]).map_err(|e| e.why), Err(Why::TooLong));
    assert_eq!(decode::<Blob<2>>(&[3, 1, 2, 3]).map_err(|e| e.why), Err(Why::TooLong));
    assert!(List::<u8, 3>::try_from(vec![0; 4]).is_err());
    assert!(Blob::<2>::try_from(Bytes::from_static(b"abc")).is_err());
}

#[test]
fn a_length_field_reserves_no_memory() {
    // Claims 2^20 elements of 16 bytes each and carries none of them.
    let mut bytes = (1_u64 << 20).encode().to_vec();
    bytes.extend_from_slice(&[0; 8]);
    assert_eq!(decode::<List<u128, { 1 << 20 }>>(&bytes).map_err(|e| e.why), Err(Why::Short));
}

#[test]
fn a_frame_over_its_limit_is_refused_unread() {
    let bytes = Bytes::from(vec![0; 65]);
    let refused = <[u8; 65]>::decode(bytes.clone(), &Limits { frame_max: 64 });
    assert_eq!(refused, Err(Malformed { at: 0, why: Why::TooLarge }));
    assert!(<[u8; 65]>::decode(bytes, &Limits { frame_max: 65 }).is_ok());
}

#[test]
fn what_stands_before_a_value_is_the_callers_and_does_not_count() {
    let frame = Bytes::from_static(&[9, 1, 2, 3]);
    let limits = Limits { frame_max: 3 };
    assert_eq!(<[u8; 3]>::decode_behind(&frame, 1, &limits), Ok([1, 2, 3]));
    let refused = <[u8; 4]>::decode_behind(&frame, 0, &limits);
    assert_eq!(refused, Err(Malformed { at: 0, why: Why::TooLarge }));
    let trailing = <[u8; 2]>::decode_behind(&frame, 1, &limits).map_err(|refusal| refusal.why);
    assert_eq!(trailing, Err(Why::Trailing));
    for head in [4, 5, usize::MAX] {
        let refused = u8::decode_behind(&frame, head, &limits).map_err(|refusal| refusal.why);
        assert_eq!(refused, Err(Why::Short), "nothing is left behind {head}");
    }
}

#[test]
fn a_blob_shares_the_memory_of_its_frame() {
    let frame = Blob::<64>::try_from(Bytes::from_static(b"payload")).expect("fits").encode();
    let inside = frame.as_ptr_range();
    let blob = Blob::<64>::decode(frame.clone(), &Limits::default()).expect("decodes");
    assert!(inside.contains(&blob.bytes().as_ptr()));
}

#[test]
fn a_moved_format_and_a_forgotten_type_are_found() {
    let entries = [conformance::entry::<Sample>("Sample"), conformance::entry::<Choice>("Choice")];
    let stored = conformance::render(&entries);
    assert!(conformance::check(&stored, &entries).is_empty());
    let moved = stored.replace("\"Sample\" = \"", "\"Sample\" = \"0");
    assert_eq!(conformance::check(&moved, &entries), vec!["Sample: the format moved"]);
    assert_eq!(conformance::check(&stored, &entries[..1]), vec!["Choice: stored but no longer drawn"]);
    assert_eq!(conformance::check("", &entries).len(), 2);
}
