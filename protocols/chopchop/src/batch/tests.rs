//! Batches: what is sealed passes every check, and each broken rule is named.

use proptest::prelude::*;
use synod_crypto::{Hash, Signature};
use synod_quorum::Epoch;
use synod_wire::{Bytes, Draw, Drawn, Limits, Wire};

use super::{Batch, BatchFault, Header, Intake, OwnedEntry, Plan, Refusal, Seal, Sealed, Unsealable};
use crate::Domains;
use crate::columns::{ColumnFault, Straggler};
use crate::ids::{IdCodec, IdFault};
use crate::statement::BlsSignatureBytes;

const PLAN: Plan = Plan { broker: 0, msg_size: 8, epoch: Epoch(1), k: 5, expiry: 100, directory: 1_000 };
const AGGREGATE: Option<BlsSignatureBytes> = Some(BlsSignatureBytes([7; 96]));

fn domains() -> Domains {
    Domains::of(&Hash::of(b"cluster"))
}

fn entries(count: u32) -> Vec<OwnedEntry> {
    let message = |i: u32| Bytes::from(u64::from(i).to_le_bytes().to_vec());
    (0..count).map(|i| OwnedEntry { id: 2 * i, message: message(i), parity: i % 2 == 1 }).collect()
}

fn straggler(index: u32, k: u64) -> Straggler {
    Straggler { index, k, t: Signature([9; 64]) }
}

fn sealed() -> Sealed {
    let seal = Seal::new(PLAN, entries(21)).with_stragglers(vec![straggler(2, 4), straggler(9, 5)]);
    seal.with_voids(vec![3, 20]).seal(&domains(), AGGREGATE).expect("it is sound")
}

fn intake() -> Intake {
    Intake { epoch: Epoch(1), height: 40, horizon: 60, batch_max: 21, body_bytes_max: 1 << 20 }
}

fn verdict(sealed: &Sealed) -> Result<(), BatchFault> {
    sealed.header.intake(&intake())?;
    let batch = Batch::open(sealed)?;
    batch.check()?;
    batch.check_root(&domains())
}

#[test]
fn a_sealed_batch_passes_every_check_and_is_read_as_it_was_written() {
    let sealed = sealed();
    assert_eq!(verdict(&sealed), Ok(()));
    let again = Sealed::decode(sealed.encode(), &Limits::default()).expect("it is canonical");
    assert_eq!(again, sealed);
    let batch = Batch::open(&again).expect("it passed before");
    let read: Vec<(u32, Vec<u8>, bool)> =
        batch.columns().entries().map(|entry| (entry.id, entry.message.to_vec(), entry.parity)).collect();
    let written: Vec<(u32, Vec<u8>, bool)> =
        entries(21).into_iter().map(|entry| (entry.id, entry.message.to_vec(), entry.parity)).collect();
    assert_eq!(read, written);
    let stragglers: Vec<Straggler> = batch.columns().stragglers().collect();
    assert_eq!(stragglers, [straggler(2, 4), straggler(9, 5)]);
    assert_eq!(batch.columns().voids().collect::<Vec<_>>(), [3, 20]);
    assert_eq!(again.header.signers(), 17);
}

#[test]
fn full_batches_have_the_published_sizes() {
    let plan = Plan { directory: 257_000_000, ..PLAN };
    let entries: Vec<OwnedEntry> = (0..65_536)
        .map(|i| OwnedEntry { id: 3_921 * i, message: Bytes::from_static(&[1; 8]), parity: false })
        .collect();
    let sealed = Seal::new(plan, entries).seal(&domains(), AGGREGATE).expect("it is sound");
    assert_eq!(sealed.header.codec, IdCodec::EliasFano);
    assert_eq!(sealed.encode().len(), 646_664);
    let packed = Header { codec: IdCodec::Packed(28), ..sealed.header };
    assert_eq!(packed.shape().body_bounds(), (762_048 - 192, 762_048 - 192));
}

#[test]
fn a_header_that_breaks_a_rule_is_refused_by_name() {
    let good = sealed().header.to_bytes();
    let with = |at: usize, bytes: &[u8]| {
        let mut header = good;
        header[at..at + bytes.len()].copy_from_slice(bytes);
        Header::decode(&header).map(|_| ())
    };
    assert_eq!(with(0, b"CCB1"), Ok(()));
    for (at, bytes, fault) in [
        (0, &b"CCB2"[..], BatchFault::Magic),
        (4, &[2], BatchFault::Version),
        (6, &[1 | 4], BatchFault::Flags),
        (6, &[1 | 2 | 4 | 8], BatchFault::Flags),
        (6, &[1 | 4 | 8 | 16], BatchFault::Flags),
        (6, &[4 | 8], BatchFault::MisplacedAggregate),
        (12, &[0, 0], BatchFault::Flags),
        (14, &[3, 0], BatchFault::Ids(IdFault::Codec)),
        (14, &[1, 1], BatchFault::Ids(IdFault::Bits)),
        (16, &[0; 4], BatchFault::Counts),
        (16, &[3, 0, 0, 0], BatchFault::Counts),
        (16, &[4, 0, 0, 0], BatchFault::Flags),
        (20, &[0xff; 4], BatchFault::Counts),
        (48, &[0; 8], BatchFault::Directory),
        (48, &[0, 0, 0, 0, 1], BatchFault::Directory),
        (60, &[1], BatchFault::Reserved),
    ] {
        assert_eq!(with(at, bytes), Err(fault), "{bytes:?} at {at}");
    }
    let mut unsigned = good;
    unsigned[6] = 4 | 8;
    unsigned[96..].fill(0);
    assert_eq!(Header::decode(&unsigned), Err(BatchFault::Flags), "signers without an aggregate");
}

#[test]
fn intake_refuses_at_each_bound_and_takes_what_lies_on_it() {
    let header = sealed().header;
    let check = |header: &Header| header.intake(&intake());
    assert_eq!(check(&header), Ok(()));
    let with = |change: fn(&mut Header)| {
        let mut header = header.clone();
        change(&mut header);
        check(&header)
    };
    assert_eq!(with(|h| h.epoch = Epoch(2)), Err(BatchFault::Epoch));
    assert_eq!(with(|h| h.expiry = 40), Err(BatchFault::Expired));
    assert_eq!(with(|h| h.expiry = 41), Ok(()));
    assert_eq!(with(|h| h.expiry = 100), Ok(()));
    assert_eq!(with(|h| h.expiry = 101), Err(BatchFault::TooFar));
    assert_eq!(with(|h| h.body_len = 8), Err(BatchFault::BodyLength));
    // Without a range the length is known exactly.
    assert_eq!(with(|h| h.codec = IdCodec::Packed(6)), Ok(()));
    let longer = with(|h| (h.codec, h.body_len) = (IdCodec::Packed(6), h.body_len + 8));
    assert_eq!(longer, Err(BatchFault::BodyLength));
    assert_eq!(with(|h| h.count = 22), Err(BatchFault::Counts));
    let small = Intake { body_bytes_max: header.body_len - 1, ..intake() };
    assert_eq!(header.intake(&small), Err(BatchFault::BodyLength));
    let exact = Intake { body_bytes_max: header.body_len, ..intake() };
    assert_eq!(header.intake(&exact), Ok(()));
}

/// The good batch with `change` made to its body. Its ids are a range of 8 + 8 bytes, then 168 bytes of messages.
fn with_body(change: impl Fn(&mut Vec<u8>)) -> Result<(), BatchFault> {
    let mut sealed = sealed();
    let mut body = sealed.body.to_vec();
    change(&mut body);
    sealed.header.body_len = u32::try_from(body.len()).expect("short");
    sealed.body = body.into();
    let batch = Batch::open(&sealed)?;
    batch.check()?;
    batch.check_root(&domains())
}

#[test]
fn a_body_that_breaks_a_rule_is_refused_by_name() {
    assert_eq!(sealed().header.codec, IdCodec::Range);
    assert_eq!(with_body(|_| {}), Ok(()));
    let columns = |fault| Err(BatchFault::Columns(fault));
    assert_eq!(with_body(|b| b.truncate(b.len() - 8)), columns(ColumnFault::Short));
    assert_eq!(with_body(|b| b.extend([0; 8])), columns(ColumnFault::Trailing));
    assert_eq!(with_body(|b| b[8] = 0b110), columns(ColumnFault::Ids(IdFault::Ends)));
    // 184: parity of 21 entries, 3 bytes and 5 of filling. 192: two straggler indices. 200: their numbers.
    assert_eq!(with_body(|b| b[186] |= 0x20), columns(ColumnFault::Parity));
    assert_eq!(with_body(|b| b[187] = 1), columns(ColumnFault::Padding));
    assert_eq!(with_body(|b| b[192] = 9), Err(BatchFault::Indices), "repeated");
    assert_eq!(with_body(|b| b[192] = 3), Err(BatchFault::Indices), "also void");
    assert_eq!(with_body(|b| b[196] = 21), Err(BatchFault::Indices), "no entry");
    assert_eq!(with_body(|b| b[192] = 10), Err(BatchFault::Indices), "falling");
    assert_eq!(with_body(|b| b[200] = 6), Err(BatchFault::Sequence));
    assert_eq!(with_body(|b| b[16] ^= 1), Err(BatchFault::Root), "another message");
    assert_eq!(with_body(|b| b[184] ^= 1), Err(BatchFault::Root), "another parity");
    let mut last = sealed();
    last.header.k = u64::MAX;
    assert_eq!(Batch::open(&last).and_then(|batch| batch.check()), Err(BatchFault::Sequence));
    last.header.k -= 1;
    assert_eq!(Batch::open(&last).and_then(|batch| batch.check()), Ok(()));
}

#[test]
fn ids_that_repeat_fall_or_reach_beyond_the_directory_are_refused() {
    let of = |ids: [u8; 2], directory: u32| {
        let mut header = sealed().header;
        (header.codec, header.count, header.directory) = (IdCodec::Packed(8), 2, directory);
        (header.stragglers, header.voids) = (0, 0);
        let mut body = vec![0; 8 + 16 + 8];
        body[..2].copy_from_slice(&ids);
        header.body_len = 32;
        Batch::open(&Sealed { header, body: body.into() }).and_then(|batch| batch.check())
    };
    assert_eq!(of([4, 9], 10), Ok(()));
    assert_eq!(of([4, 9], 9), Err(BatchFault::IdRange));
    assert_eq!(of([4, 4], 10), Err(BatchFault::IdOrder));
    assert_eq!(of([9, 4], 10), Err(BatchFault::IdOrder));
    assert_eq!(BatchFault::IdOrder.refusal(), Refusal::Ids);
}

#[test]
fn what_servers_would_refuse_is_not_sealed() {
    let seal = |plan: Plan, entries| Seal::new(plan, entries);
    let sealed = |seal: Seal, aggregate| seal.seal(&domains(), aggregate).map(|_| ());
    assert_eq!(sealed(seal(PLAN, Vec::new()), AGGREGATE), Err(Unsealable::Ids(IdFault::Empty)));
    let mut falling = entries(3);
    falling.swap(0, 1);
    assert_eq!(sealed(seal(PLAN, falling), AGGREGATE), Err(Unsealable::Ids(IdFault::Order)));
    let size = Plan { msg_size: 9, ..PLAN };
    assert_eq!(sealed(seal(size, entries(3)), AGGREGATE), Err(Unsealable::Size));
    assert_eq!(sealed(seal(PLAN, entries(3)), None), Err(Unsealable::Aggregate));
    let all = seal(PLAN, entries(2)).with_voids(vec![0, 1]);
    assert_eq!(sealed(all.clone(), AGGREGATE), Err(Unsealable::Aggregate));
    assert_eq!(sealed(all, None), Ok(()));
    let twice = seal(PLAN, entries(3)).with_stragglers(vec![straggler(1, 5)]).with_voids(vec![1]);
    assert_eq!(sealed(twice, AGGREGATE), Err(Unsealable::Indices));
    let above = seal(PLAN, entries(3)).with_stragglers(vec![straggler(1, 6)]);
    assert_eq!(sealed(above, AGGREGATE), Err(Unsealable::Indices));
}

#[test]
fn header_and_body_are_bound_by_the_digest() {
    let (domains, sealed) = (domains(), sealed());
    let digest = sealed.digest(&domains);
    let mut header = sealed.clone();
    header.header.expiry += 1;
    let mut body = sealed.clone();
    body.body = sealed.body.iter().rev().copied().collect();
    assert_ne!(header.digest(&domains), digest);
    assert_ne!(body.digest(&domains), digest);
    assert_ne!(sealed.digest(&Domains::of(&Hash::of(b"another"))), digest);
    assert_eq!(header.name(), sealed.name());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_other_bytes_are_the_same_batch(seed in any::<u64>(), at in any::<u32>(), bit in 0_u8..8) {
        let sealed = Sealed::draw(&mut Drawn::new(seed));
        let batch = Batch::open(&sealed).expect("a drawn batch is sound");
        prop_assert_eq!(batch.check(), Ok(()));
        let (least, most) = sealed.header.shape().body_bounds();
        prop_assert!((least..=most).contains(&u64::from(sealed.header.body_len)));
        let mut bytes = sealed.encode().to_vec();
        let at = at as usize % bytes.len();
        bytes[at] ^= 1 << bit;
        if let Ok(other) = Sealed::decode(bytes.clone().into(), &Limits::default()) {
            prop_assert_ne!(&other, &sealed);
            prop_assert_eq!(other.encode(), Bytes::from(bytes));
            if let Ok(other) = Batch::open(&other) {
                prop_assert_ne!(&other, &batch);
            }
        }
    }
}
