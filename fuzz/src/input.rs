//! The input of (target, seed, index): structured, mutated, or raw.
//!
//! *Bounds.* At most [`INPUT_BYTES_MAX`].

use synod_crypto::Hash;
use synod_wire::Drawn;

use crate::target::Target;

/// Longest input, in bytes.
pub const INPUT_BYTES_MAX: usize = 256 << 10;

/// Bytes that numbers and lengths like to break on: ends of ranges, padded and overlong varints, large counts.
const TAMPERED: &[&[u8]] = &[
    &[0],
    &[1],
    &[0x7f],
    &[0x80],
    &[0xff],
    &[0x80, 0],
    &[0x80, 0x01],
    &[0xff, 0x7f],
    &[0xff, 0xff, 0x03],
    &[0xff, 0xff, 0xff, 0xff],
    &[0, 0, 0, 0x80],
    &[0xff, 0xff, 0xff, 0x7f],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02],
    &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80],
    &[0xff; 8],
    b"-1",
    b"9223372036854775808",
    b"18446744073709551616",
    b"00",
    b"\r\n",
    b"\n",
    b"\"",
    b"\xf0\x9f\x92\xa9",
];

/// The input `index` of `target` under `seed`; equal arguments give equal inputs.
///
/// # Panics
/// When a drawn value does not come back from its own encoding: a finding of the target.
#[must_use]
pub fn generate(target: &Target, seed: u64, index: u64) -> Vec<u8> {
    let name = Hash::of(target.name.as_bytes()).short();
    let mut from = Drawn::new(seed ^ name ^ index.wrapping_mul(0xd134_2543_de82_ef95));
    let mut bytes = match from.below(16) {
        0..=2 => (target.seed)(&mut from),
        3..=13 => {
            let mut bytes = (target.seed)(&mut from);
            for _ in 0..=from.below(3) {
                mutate(target, &mut bytes, &mut from);
            }
            bytes
        }
        _ => raw(&mut from),
    };
    bytes.truncate(INPUT_BYTES_MAX);
    bytes
}

fn raw(from: &mut Drawn) -> Vec<u8> {
    let longest = [4, 16, 64, 512, 4_096][index(from, 5)];
    (0..index(from, longest)).map(|_| from.next().to_le_bytes()[0]).collect()
}

fn index(from: &mut Drawn, below: usize) -> usize {
    usize::try_from(from.below(below as u64)).unwrap_or(0)
}

fn mutate(target: &Target, bytes: &mut Vec<u8>, from: &mut Drawn) {
    let at = index(from, bytes.len() + 1);
    match from.below(8) {
        0 => flip(bytes, from),
        1 => bytes.truncate(at),
        2 => splice(bytes, &(target.seed)(from), at, from),
        3 => tamper(bytes, at, from),
        4 => repeat(bytes, at, from),
        5 => {
            let end = (at + 1 + index(from, 8)).min(bytes.len());
            bytes.drain(at.min(end)..end);
        }
        6 => {
            let new = from.next().to_le_bytes()[0];
            if let Some(byte) = bytes.get_mut(at) {
                *byte = new;
            }
        }
        _ => {
            let more: Vec<u8> = (0..=index(from, 8)).map(|_| from.next().to_le_bytes()[0]).collect();
            bytes.splice(at..at, more);
        }
    }
}

fn flip(bytes: &mut [u8], from: &mut Drawn) {
    for _ in 0..=from.below(4) {
        let at = index(from, bytes.len());
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= 1 << from.below(8);
        }
    }
}

/// What was before `at`, then the end of another input.
fn splice(bytes: &mut Vec<u8>, other: &[u8], at: usize, from: &mut Drawn) {
    let behind = index(from, other.len() + 1);
    bytes.truncate(at);
    bytes.extend_from_slice(other.get(behind..).unwrap_or_default());
}

/// Puts a troublesome number at `at`, over what stands there or between.
fn tamper(bytes: &mut Vec<u8>, at: usize, from: &mut Drawn) {
    let number = TAMPERED[index(from, TAMPERED.len())];
    let over = if from.below(2) == 0 { number.len() } else { 0 };
    let end = (at + over).min(bytes.len());
    bytes.splice(at..end, number.iter().copied());
}

/// Repeats a part, now and then very often: what is small on the wire and large in memory.
fn repeat(bytes: &mut Vec<u8>, at: usize, from: &mut Drawn) {
    let end = (at + 1 + index(from, 40)).min(bytes.len());
    let part = bytes.get(at..end).unwrap_or_default().to_vec();
    let times = if from.below(64) == 0 { 1 + index(from, 4_096) } else { 1 + index(from, 6) };
    let times = times.min(INPUT_BYTES_MAX / part.len().max(1));
    bytes.splice(end..end, part.repeat(times));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::find;
    use std::collections::BTreeSet;

    #[test]
    fn inputs_are_a_function_of_target_seed_and_index() {
        let target = find("service-message").expect("the largest vocabulary");
        let some = |seed| (0..400).map(|index| generate(target, seed, index)).collect::<Vec<_>>();
        assert_eq!(some(1), some(1));
        assert_ne!(some(1), some(2));
        let distinct: BTreeSet<Vec<u8>> = some(1).into_iter().collect();
        assert!(distinct.len() > 350, "{} distinct inputs", distinct.len());
    }

    #[test]
    fn some_inputs_are_long_and_none_is_too_long() {
        let target = find("service-message").expect("the largest vocabulary");
        let longest = (0..20_000).map(|index| generate(target, 1, index).len()).max();
        assert!(longest.is_some_and(|bytes| (10_000..=INPUT_BYTES_MAX).contains(&bytes)), "{longest:?}");
    }
}
