//! Id codecs: what is written comes back, and nothing but what would be written is read.

use std::collections::BTreeSet;

use proptest::prelude::*;
use synod_wire::Bytes;

use super::{IdCodec, IdColumn, IdFault, IdShape, encode, encode_as, length};

const ALL: [IdCodec; 3] = [IdCodec::Packed(32), IdCodec::EliasFano, IdCodec::Range];

fn shape(codec: IdCodec, ids: &[u32], directory: u32) -> IdShape {
    IdShape { codec, count: u32::try_from(ids.len()).expect("few"), directory }
}

fn read(shape: IdShape, bytes: &[u8]) -> Result<Vec<u32>, IdFault> {
    IdColumn::decode(shape, Bytes::copy_from_slice(bytes)).map(|column| {
        let ids: Vec<u32> = column.iter().collect();
        assert_eq!(*column.to_shared(), ids, "all at once and one by one");
        ids
    })
}

fn id_sets() -> impl Strategy<Value = (Vec<u32>, u32)> {
    let dense = proptest::collection::btree_set(0_u32..300, 1..120);
    let sparse = proptest::collection::btree_set(0_u32..u32::MAX - 1, 1..120);
    let block = (0_u32..4_000_000_000, 1_u32..200).prop_map(|(base, n)| (base..base + n).collect());
    let ids = prop_oneof![dense, sparse, block].prop_map(|set: BTreeSet<u32>| set.into_iter().collect());
    (ids, 0_u32..5_000).prop_map(|(ids, beyond): (Vec<u32>, u32)| {
        let last = ids.last().copied().expect("not empty");
        (ids, (last + 1).saturating_add(beyond))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn id_codecs_round_trip_and_are_canonical((ids, directory) in id_sets(), flip in any::<(u16, u8)>()) {
        let chosen = encode(&ids, directory).expect("they rise below the directory");
        let span = ids.last().zip(ids.first()).map_or(0, |(last, first)| last - first);
        // A sparse range is a bitmap of up to 512 MiB, which nobody would write.
        for codec in ALL.into_iter().filter(|codec| *codec != IdCodec::Range || span < 1 << 16) {
            let bytes = encode_as(codec, &ids, directory).expect("they rise below the directory");
            prop_assert!(chosen.bytes.len() <= bytes.len(), "the smallest is chosen");
            let shape = shape(codec, &ids, directory);
            prop_assert_eq!(length(&shape, &bytes), Ok(bytes.len() as u64));
            prop_assert_eq!(read(shape, &bytes), Ok(ids.clone()));
            // Any other bytes are refused or are other ids, which are written as just these bytes.
            let mut other = bytes.clone();
            let at = usize::from(flip.0) % other.len();
            other[at] ^= 1 << (flip.1 % 8);
            if let Ok(read) = read(shape, &other) {
                prop_assert_ne!(&read, &ids, "two encodings of one column");
                let rising = read.windows(2).all(|pair| pair[0] < pair[1]) && read.last() < Some(&directory);
                if rising {
                    prop_assert_eq!(encode_as(codec, &read, directory), Ok(other));
                }
            }
        }
        prop_assert_eq!(read(shape(chosen.codec, &ids, directory), &chosen.bytes), Ok(ids));
    }
}

#[test]
fn columns_have_the_published_sizes() {
    let directory = 257_000_000;
    let ids: Vec<u32> = (0..65_536).map(|i| i * 3_921).collect();
    assert_eq!(encode_as(IdCodec::Packed(28), &ids, directory).map(|b| b.len()), Ok(229_376));
    assert_eq!(encode_as(IdCodec::EliasFano, &ids, directory).map(|b| b.len()), Ok(90_112 + 23_878));
    assert_eq!(encode(&ids, directory).map(|e| e.codec), Ok(IdCodec::EliasFano));
    let block: Vec<u32> = (1_000..1_256).collect();
    let chosen = encode(&block, directory).expect("a block");
    assert_eq!((chosen.codec, chosen.bytes.len()), (IdCodec::Range, 8 + 32));
    assert_eq!(encode(&[9], 10).map(|e| (e.codec, e.bytes)), Ok((IdCodec::Packed(4), vec![9])));
}

#[test]
fn every_malformed_column_is_refused_by_name() {
    let packed = IdShape { codec: IdCodec::Packed(5), count: 3, directory: 32 };
    assert_eq!(read(packed, &[0x21, 0x7c]), Ok(vec![1, 1, 31]), "order is not the decoder's business");
    assert_eq!(read(packed, &[0x21, 0xfc]), Err(IdFault::Tail));
    assert_eq!(read(packed, &[0x21]), Err(IdFault::Short));
    assert_eq!(read(packed, &[0x21, 0x7c, 0]), Err(IdFault::Long));
    assert_eq!(read(IdShape { count: 0, ..packed }, &[]), Err(IdFault::Empty));
    assert_eq!(read(IdShape { directory: 0, ..packed }, &[0x21, 0x7c]), Err(IdFault::Empty));
    assert_eq!(read(IdShape { codec: IdCodec::Packed(33), ..packed }, &[0; 13]), Err(IdFault::Bits));

    // Directory 32, 3 ids: three low bits each (9 bits), then 3 + 3 bits.
    let elias = IdShape { codec: IdCodec::EliasFano, count: 3, directory: 32 };
    let bytes = encode_as(IdCodec::EliasFano, &[1, 9, 31], 32).expect("they rise");
    assert_eq!(bytes, [0b1100_1001, 0b1, 0b10_0101]);
    assert_eq!(read(elias, &[0b1100_1001, 0b11, 0b10_0101]), Err(IdFault::Tail), "behind the low parts");
    assert_eq!(read(elias, &[0b1100_1001, 0b1, 0b110_0101]), Err(IdFault::Tail), "behind the high string");
    assert_eq!(read(elias, &[0b1100_1001, 0b1, 0b10_0111]), Err(IdFault::Ones));
    assert_eq!(read(elias, &[0b1100_1001, 0b1, 0b10_0001]), Err(IdFault::Ones));
    assert_eq!(read(elias, &bytes[..2]), Err(IdFault::Short));

    let range = IdShape { codec: IdCodec::Range, count: 2, directory: 32 };
    let head = |base: u32, span: u32, bitmap: &[u8]| {
        [&base.to_le_bytes()[..], &span.to_le_bytes()[..], bitmap].concat()
    };
    assert_eq!(read(range, &head(7, 3, &[0b101])), Ok(vec![7, 9]));
    assert_eq!(read(range, &head(7, 3, &[0b1101])), Err(IdFault::Tail));
    assert_eq!(read(range, &head(7, 3, &[0b110])), Err(IdFault::Ends));
    assert_eq!(read(range, &head(7, 3, &[0b011])), Err(IdFault::Ends));
    assert_eq!(read(range, &head(7, 3, &[0b111])), Err(IdFault::Ones));
    assert_eq!(read(range, &head(7, 1, &[0b1])), Err(IdFault::Span));
    assert_eq!(read(range, &head(u32::MAX, 2, &[0b11])), Err(IdFault::Span));
    assert_eq!(read(range, &head(7, u32::MAX, &[0b101])), Err(IdFault::Span));
    assert_eq!(read(range, &head(7, 3_000_000, &[0b101])), Err(IdFault::Short));
    assert_eq!(read(range, &[7, 0, 0, 0, 3, 0, 0]), Err(IdFault::Short));
    assert_eq!(IdCodec::of(3, 0), Err(IdFault::Codec));
    for (number, bits) in [(0, 0), (0, 33), (1, 1), (2, 7)] {
        assert_eq!(IdCodec::of(number, bits), Err(IdFault::Bits));
    }
}

#[test]
fn what_does_not_rise_below_the_directory_is_not_written() {
    for codec in ALL {
        for ids in [&[3_u32, 3][..], &[4, 3], &[3, 10]] {
            assert_eq!(encode_as(codec, ids, 10), Err(IdFault::Order), "{ids:?}");
        }
        assert_eq!(encode_as(codec, &[], 10), Err(IdFault::Empty));
        assert!(encode_as(codec, &[u32::MAX - 2, u32::MAX - 1], u32::MAX).is_ok(), "the last id there is");
    }
    assert_eq!(encode_as(IdCodec::Packed(3), &[8], 10), Err(IdFault::Order));
    assert_eq!(encode(&[4, 3], 10), Err(IdFault::Order));
}
