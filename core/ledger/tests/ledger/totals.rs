//! Amounts and totals.

use proptest::prelude::*;
use synod_ledger::{AccountId, Amount, BadAccountId, Code, NoTotal, Total, Units};
use synod_wire::{Bytes, Limits, Wire};

#[test]
fn amounts_are_1_to_2_to_the_96_less_1() {
    let new = |units: u128| Amount::new(Units(units)).map(Amount::units);
    assert_eq!(new(0), Err(Code::AmountZero));
    assert_eq!(new(1), Ok(1));
    assert_eq!(new((1 << 96) - 1), Ok((1 << 96) - 1));
    for units in [1 << 96, (1 << 96) + 1, 1 << 127, u128::MAX] {
        assert_eq!(new(units), Err(Code::AmountTooLarge));
    }
}

#[test]
fn totals_carry_into_the_upper_bits_and_never_wrap() {
    let one = Total::of(1);
    let past = Total::of(u128::MAX).checked_add(one).expect("2^128 fits");
    assert_eq!(past.to_string(), "340282366920938463463374607431768211456");
    assert_eq!(past.checked_sub(one), Some(Total::of(u128::MAX)));
    assert!(past > Total::of(u128::MAX));
    assert_eq!(Total::MAX.checked_add(one), None);
    assert_eq!(Total::MAX.checked_add(Total::MAX), None);
    assert_eq!(Total::ZERO.checked_sub(one), None);
    assert_eq!(Total::of(5).saturating_sub(Total::of(7)), Total::ZERO);
    assert_eq!(Total::MAX.to_string(), "6277101735386680763835789423207666416102355444464034512895");
    assert_eq!(format!("{:>5}", Total::of(42)), "   42");
}

#[test]
fn the_whole_supply_moves_to_and_fro_2_to_the_33_times_without_a_wrap() {
    // 2^33 payments of the largest amount, counted by doubling.
    let mut sum = Total::from(Amount::MAX);
    for _ in 0..33 {
        sum = sum.checked_add(sum).expect("2^96 of them fit");
    }
    assert_eq!(sum.checked_sub(Total::of(u128::MAX)).map(|over| over > Total::of(1 << 120)), Some(true));
}

#[test]
fn units_have_one_encoding() {
    let decode = |bytes: &[u8]| Units::decode(Bytes::copy_from_slice(bytes), &Limits::default());
    assert_eq!(Units(0).encode().as_ref(), [0]);
    assert_eq!(Units(258).encode().as_ref(), [2, 2, 1]);
    assert_eq!(Units(u128::MAX).encode().len(), 17);
    assert_eq!(decode(&[2, 2, 1]), Ok(Units(258)));
    for refused in [&[1, 0][..], &[3, 2, 1, 0], &[17; 18], &[2, 1], &[0, 0], &[]] {
        assert!(decode(refused).is_err(), "{refused:?}");
    }
}

#[test]
fn accounts_are_read_as_they_are_written() {
    let id = AccountId { shard: 3, registrar: 70_000, local: 42 };
    assert_eq!(id.to_string(), "3-70000-42");
    assert_eq!(id.to_string().parse(), Ok(id));
    assert_eq!(id.number().to_string().parse(), Ok(id));
    assert_eq!(AccountId::try_from(id.number()), Ok(id));
    for (text, why) in [
        ("", BadAccountId::NotAnId),
        ("1-2", BadAccountId::NotAnId),
        ("1-2-3-4", BadAccountId::NotAnId),
        ("65536-1-1", BadAccountId::NotAnId),
        ("a-b-c", BadAccountId::NotAnId),
        ("0-0-0", BadAccountId::Reserved),
        ("0", BadAccountId::Reserved),
        ("340282366920938463463374607431768211455", BadAccountId::Reserved),
    ] {
        assert_eq!(text.parse::<AccountId>(), Err(why), "{text}");
    }
}

proptest! {
    #[test]
    fn sums_and_differences_are_those_of_school_arithmetic(a in any::<[u32; 6]>(), b in any::<[u32; 6]>()) {
        let (one, other) = (total(a), total(b));
        prop_assert_eq!(one.checked_add(other).map(|sum| sum.to_be_bytes()), by_hand(a, b).map(|sum| total(sum).to_be_bytes()));
        if let Some(sum) = one.checked_add(other) {
            prop_assert_eq!(sum.checked_sub(other), Some(one));
            prop_assert!(sum >= one);
        }
        prop_assert_eq!(one.checked_sub(other).is_some(), a >= b);
        prop_assert_eq!(one < other, a < b);
    }

    #[test]
    fn decimals_are_those_of_numbers(units in any::<u128>()) {
        prop_assert_eq!(Total::of(units).to_string(), units.to_string());
    }

    #[test]
    fn account_names_are_ordered_as_their_numbers(a in any::<(u16, u32, u64)>(), b in any::<(u16, u32, u64)>()) {
        let id = |(shard, registrar, local)| AccountId { shard, registrar, local };
        prop_assert_eq!(id(a).cmp(&id(b)), id(a).number().cmp(&id(b).number()));
    }
}

/// A total of six digits to the base 2^32, the most significant first.
fn total(digits: [u32; 6]) -> Total {
    let mut bytes = Vec::new();
    for digit in digits {
        bytes.extend(digit.to_be_bytes());
    }
    Total::decode(Bytes::from(bytes), &Limits::default()).expect("24 bytes are a total")
}

fn by_hand(a: [u32; 6], b: [u32; 6]) -> Option<[u32; 6]> {
    let (mut out, mut carry) = ([0; 6], 0);
    for at in (0..6).rev() {
        let digit = u64::from(a[at]) + u64::from(b[at]) + carry;
        out[at] = u32::try_from(digit & 0xffff_ffff).expect("a digit");
        carry = digit >> 32;
    }
    (carry == 0).then_some(out)
}

#[test]
fn a_total_is_read_back_as_it_is_written_and_nothing_else_is_one() {
    let mut sum = Total::of(1);
    while let Some(twice) = sum.checked_add(sum) {
        assert_eq!(sum.to_string().parse(), Ok(sum));
        sum = twice;
    }
    for whole in [Total::ZERO, Total::MAX] {
        assert_eq!(whole.to_string().parse(), Ok(whole));
    }
    for wrong in [
        "",
        "-1",
        "+1",
        "01",
        "00",
        " 1",
        "1 ",
        "1a",
        "6277101735386680763835789423207666416102355444464034512896",
    ] {
        assert_eq!(wrong.parse::<Total>(), Err(NoTotal), "{wrong}");
    }
}
