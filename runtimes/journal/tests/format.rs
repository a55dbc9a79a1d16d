//! Decoders are total and canonical.

use synod_journal::record::{self, BODY_MAX, Chain, Decoded, HEADER_BYTES, Head, Kind, Seed};
use synod_journal::segment::{self, BadHeader, Header, KEPT_MAX, Kept, Origin, Slot, SlotRecord};

mod rig;
use rig::{Draw, body};

fn head(draw: &mut Draw) -> Head {
    Head {
        kind: [Kind::Record, Kind::Blob, Kind::Erase, Kind::Mark][draw.index(4)],
        lane: draw.byte(),
        slotted: draw.below(2) == 1,
        group: u32::try_from(draw.word() >> 32).expect("32 bits"),
        epoch: u32::try_from(draw.word() >> 32).expect("32 bits"),
        lsn: draw.word(),
        durable: draw.word(),
    }
}

fn header(draw: &mut Draw) -> Header {
    let kept =
        |draw: &mut Draw| Kept { number: draw.word(), lsn: draw.word(), chain: Chain([draw.byte(); 16]) };
    Header {
        cluster: [draw.byte(); 32],
        member: 9,
        lanes: draw.byte(),
        number: draw.word(),
        origin: [Origin::Continued, Origin::Compacted, Origin::Restarted][draw.index(3)],
        first: draw.word(),
        durable: draw.word(),
        chain: Chain([draw.byte(); 16]),
        damaged: draw.word(),
        bytes: draw.word(),
        kept: (0..draw.index(KEPT_MAX + 1)).map(|_| kept(draw)).collect(),
        parts: u16::from_le_bytes([draw.byte(), draw.byte()]),
    }
}

#[test]
fn a_record_reads_back_as_written_and_its_chain_continues_the_one_before() {
    let mut draw = Draw(1);
    for round in 0..2000 {
        let seed = Seed(u32::try_from(draw.word() >> 32).expect("32 bits"));
        let (previous, head) = (Chain([draw.byte(); 16]), head(&mut draw));
        let length = draw.index(300);
        let whole = body(round, length);
        let (first, second) = whole.split_at(draw.index(length + 1));
        let mut out = vec![0xaa; 3];
        let chain = record::encode(&mut out, seed, previous, &head, [first, second]);
        let bytes = &out[3..];
        assert_eq!(bytes.len(), record::size(length));
        assert_eq!(bytes.len() % 8, 0);
        let Decoded::Record(found) = record::decode(seed, bytes) else { panic!("round {round}") };
        assert_eq!((found.head, found.body, found.chain, found.size), (head, &whole[..], chain, bytes.len()));
        assert!(found.follows(previous));
        assert!(!found.follows(chain));
        assert!(!matches!(record::decode(Seed(seed.0 ^ 1), bytes), Decoded::Record(_)), "the seed is needed");
        // Canonical: what decodes encodes to the same bytes.
        let mut again = Vec::new();
        record::encode(&mut again, seed, previous, &found.head, [found.body, &[]]);
        assert_eq!(again, bytes);
    }
}

#[test]
fn no_flipped_bit_and_no_cut_of_a_record_is_accepted() {
    let mut draw = Draw(2);
    let (seed, head) = (Seed(77), head(&mut draw));
    let mut bytes = Vec::new();
    record::encode(&mut bytes, seed, Chain([1; 16]), &head, [&body(1, 61), &[]]);
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << bit;
            let decoded = record::decode(seed, &flipped);
            assert!(matches!(decoded, Decoded::Nothing | Decoded::Broken { .. }), "byte {at}: {decoded:?}");
            let readable = matches!(decoded, Decoded::Broken { group } if group == head.group);
            assert_eq!(readable, at >= 36, "a header is readable without its body, and only whole");
        }
        assert!(!matches!(record::decode(seed, &bytes[..at]), Decoded::Record(_)), "cut at {at}");
    }
}

#[test]
fn any_bytes_decode_to_something() {
    let mut draw = Draw(3);
    let mut records = 0;
    for round in 0..20_000 {
        let mut bytes = Vec::new();
        if round % 2 == 0 {
            record::encode(&mut bytes, Seed(5), Chain::default(), &head(&mut draw), [&body(round, 20), &[]]);
            let at = draw.index(bytes.len());
            bytes[at] = draw.byte();
            bytes.truncate(draw.index(bytes.len() + 1).max(draw.index(bytes.len() + 1)));
        } else {
            bytes.extend((0..draw.index(200)).map(|_| draw.byte()));
        }
        records += u32::from(matches!(record::decode(Seed(5), &bytes), Decoded::Record(_)));
        assert!(Header::decode(&bytes).is_err());
        assert!(!matches!(Slot::decode(&bytes, 0, Seed(5)), Slot::Full(_)));
    }
    assert!(records < 1000, "{records}: only a byte replaced by itself leaves a record");
    // A length field is never trusted: not for an allocation, not beyond the bytes there are.
    let mut bytes = Vec::new();
    let head = head(&mut draw);
    record::encode(&mut bytes, Seed(5), Chain::default(), &head, [&[], &[]]);
    for length in [1, 8, u32::try_from(BODY_MAX).expect("fits"), u32::MAX] {
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        let sum = crc32c::crc32c_append(5, &bytes[..32]);
        bytes[32..36].copy_from_slice(&sum.to_le_bytes());
        assert!(!matches!(record::decode(Seed(5), &bytes), Decoded::Record(_)), "length {length}");
    }
}

#[test]
fn the_largest_body_fits_and_no_larger_one_is_written() {
    let whole = vec![7; BODY_MAX];
    let head = head(&mut Draw(4));
    let mut bytes = Vec::new();
    record::encode(&mut bytes, Seed(1), Chain::default(), &head, [&whole, &[]]);
    assert_eq!(bytes.len(), HEADER_BYTES + BODY_MAX);
    assert!(
        matches!(record::decode(Seed(1), &bytes), Decoded::Record(found) if found.body.len() == BODY_MAX)
    );
    let larger = std::panic::catch_unwind(|| {
        record::encode(&mut Vec::new(), Seed(1), Chain::default(), &head, [&vec![7; BODY_MAX], &[7]])
    });
    assert!(larger.is_err());
}

#[test]
fn a_header_reads_back_as_written_and_no_flipped_bit_is_accepted() {
    let mut draw = Draw(5);
    for _ in 0..200 {
        let header = header(&mut draw);
        let page = header.encode();
        assert_eq!(page.len(), 4096);
        assert_eq!(Header::decode(&page), Ok(header));
        for _ in 0..50 {
            let mut flipped = page.clone();
            flipped[draw.index(4096)] ^= 1 << draw.below(8);
            assert_eq!(Header::decode(&flipped), Err(BadHeader::Damaged));
        }
    }
    assert_eq!(Header::decode(&[]), Err(BadHeader::Damaged));
}

#[test]
fn a_slot_reads_back_for_its_lane_and_seed_only() {
    let mut draw = Draw(6);
    for length in [0, 1, 100, 3999, segment::SLOT_BODY_MAX] {
        let held = SlotRecord { lsn: draw.word(), durable: draw.word(), body: body(7, length) };
        let page = Slot::encode(&held, 3, 1, Seed(9));
        assert_eq!(page.len(), 4096);
        assert_eq!(Slot::decode(&page, 3, Seed(9)), Slot::Full(held));
        assert_eq!(Slot::decode(&page, 2, Seed(9)), Slot::Damaged);
        assert_eq!(Slot::decode(&page, 3, Seed(8)), Slot::Damaged);
        for at in 0..4096 {
            let mut flipped = page.clone();
            flipped[at] ^= 1 << draw.below(8);
            assert_eq!(Slot::decode(&flipped, 3, Seed(9)), Slot::Damaged, "byte {at}");
        }
    }
    assert_eq!(Slot::decode(&[0; 4096], 3, Seed(9)), Slot::Empty);
}

#[test]
fn file_names_are_canonical() {
    for number in [1, 9, 0xabcdef, u64::MAX] {
        assert_eq!(segment::number_of(&segment::name(number)), Some(number));
        assert_eq!(segment::number_of(&segment::temporary(number)), None);
    }
    let others = ["LOCK", "1.seg", "000000000000000G.seg", "00000000000000AB.seg", "+00000000000000a.seg"];
    assert_eq!(others.map(segment::number_of), [None; 5]);
}
