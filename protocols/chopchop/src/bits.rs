//! Little-endian bit strings, read in place: bit i is bit i mod 8 of byte i / 8.

/// The eight bytes at `at` as a number; bytes beyond the end count as zero.
#[inline]
pub(crate) fn word(bytes: &[u8], at: usize) -> u64 {
    let rest = bytes.get(at..).unwrap_or_default();
    match rest.first_chunk::<8>() {
        Some(eight) => u64::from_le_bytes(*eight),
        None => rest.iter().rev().fold(0, |word, byte| (word << 8) | u64::from(*byte)),
    }
}

/// The low 32 bits.
pub(crate) const fn low(word: u64) -> u32 {
    let [a, b, c, d, ..] = word.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// The `bits` bits at `at`; `bits` is at most 32.
pub(crate) fn field(bytes: &[u8], at: u64, bits: u32) -> u32 {
    let Ok(byte) = usize::try_from(at / 8) else { return 0 };
    let mask = (1_u64 << bits.min(32)) - 1;
    low((word(bytes, byte) >> (at % 8)) & mask)
}

/// Whether every bit from `count` on is zero.
pub(crate) fn tail_is_zero(bytes: &[u8], count: u64) -> bool {
    let Ok(byte) = usize::try_from(count / 8) else { return true };
    let rest = bytes.get(byte..).unwrap_or_default();
    match rest.split_first() {
        Some((first, rest)) => first >> (count % 8) == 0 && rest.iter().all(|byte| *byte == 0),
        None => true,
    }
}

/// Number of bits that are set.
pub(crate) fn ones(bytes: &[u8]) -> u64 {
    let words = bytes.chunks(8).map(|chunk| u64::from(word(chunk, 0).count_ones()));
    words.sum()
}

/// Positions of set bits, lowest first.
#[derive(Clone, Debug)]
pub(crate) struct Ones<'a> {
    rest: &'a [u8],
    word: u64,
    base: u64,
    read: u64,
}

impl<'a> Ones<'a> {
    /// Starts at the first bit.
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, word: 0, base: 0, read: 0 }
    }
}

impl Iterator for Ones<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        while self.word == 0 {
            if self.rest.is_empty() {
                return None;
            }
            self.base = self.read;
            self.word = word(self.rest, 0);
            self.rest = self.rest.get(8..).unwrap_or_default();
            self.read += 64;
        }
        let bit = u64::from(self.word.trailing_zeros());
        self.word &= self.word - 1;
        Some(self.base + bit)
    }
}

/// The bits from `at` on, to the end.
#[derive(Clone, Debug)]
pub(crate) struct Bits<'a> {
    rest: &'a [u8],
    held: u8,
    left: u32,
}

impl<'a> Bits<'a> {
    /// Starts at bit `at`.
    pub(crate) fn from(bytes: &'a [u8], at: u32) -> Self {
        let rest = bytes.get((at / 8) as usize..).unwrap_or_default();
        match rest.split_first() {
            Some((first, rest)) => Self { rest, held: first >> (at % 8), left: 8 - at % 8 },
            None => Self { rest, held: 0, left: 0 },
        }
    }
}

impl Iterator for Bits<'_> {
    type Item = bool;

    #[inline]
    fn next(&mut self) -> Option<bool> {
        if self.left == 0 {
            let (first, rest) = self.rest.split_first()?;
            (self.rest, self.held, self.left) = (rest, *first, 8);
        }
        let bit = self.held & 1 == 1;
        self.held >>= 1;
        self.left -= 1;
        Some(bit)
    }
}

/// Reads fields of `bits` bits each, from the first bit on; `bits` is at most 32.
pub(crate) fn fields(bytes: &[u8], bits: u32, out: &mut [u32]) {
    let (mask, mut at) = ((1_u64 << bits.min(32)) - 1, 0_usize);
    for field in out {
        // Shifted by seven bits at most, a word still holds 57 of them.
        *field = low((word(bytes, at / 8) >> (at % 8)) & mask);
        at += bits as usize;
    }
}

/// Calls `take` with the position of each bit that is set, lowest first.
pub(crate) fn each_one(bytes: &[u8], mut take: impl FnMut(u64)) {
    let mut base = 0;
    for chunk in bytes.chunks(8) {
        let mut rest = word(chunk, 0);
        while rest != 0 {
            take(base + u64::from(rest.trailing_zeros()));
            rest &= rest - 1;
        }
        base += 64;
    }
}

/// A bit string under construction.
#[derive(Debug, Default)]
pub(crate) struct BitWriter {
    bytes: Vec<u8>,
    held: u64,
    count: u32,
}

impl BitWriter {
    /// Appends the low `bits` bits of `value`; `bits` is at most 32.
    pub(crate) fn push(&mut self, value: u32, bits: u32) {
        let mask = (1_u64 << bits.min(32)) - 1;
        self.held |= (u64::from(value) & mask) << self.count;
        self.count += bits;
        while self.count >= 8 {
            let [first, ..] = self.held.to_le_bytes();
            self.bytes.push(first);
            self.held >>= 8;
            self.count -= 8;
        }
    }

    /// The bytes, the last one filled with zeros.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        if self.count > 0 {
            let [first, ..] = self.held.to_le_bytes();
            self.bytes.push(first);
        }
        self.bytes
    }
}

/// Sets bit `at`; nothing beyond the end.
pub(crate) fn set(bytes: &mut [u8], at: u64) {
    if let Some(byte) = usize::try_from(at / 8).ok().and_then(|byte| bytes.get_mut(byte)) {
        *byte |= 1 << (at % 8);
    }
}

/// Bit `at`; false beyond the end.
pub(crate) fn get(bytes: &[u8], at: u64) -> bool {
    let byte = usize::try_from(at / 8).ok().and_then(|byte| bytes.get(byte));
    byte.is_some_and(|byte| byte >> (at % 8) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back_at_every_width() {
        for bits in 1..=32 {
            let values: Vec<u32> = (0..50_u32)
                .map(|i| low(u64::from(i.wrapping_mul(0x9e37_79b9)) & ((1 << bits) - 1)))
                .collect();
            let mut out = BitWriter::default();
            values.iter().for_each(|value| out.push(*value, bits));
            let bytes = out.finish();
            assert_eq!(bytes.len() as u64, (50 * u64::from(bits)).div_ceil(8));
            let read: Vec<u32> = (0..50).map(|i| field(&bytes, i * u64::from(bits), bits)).collect();
            assert_eq!(read, values, "{bits} bits");
            let mut together = vec![0; 50];
            fields(&bytes, bits, &mut together);
            assert_eq!(together, values, "{bits} bits");
        }
    }

    #[test]
    fn set_bits_are_found_counted_and_bounded() {
        let mut bytes = [0; 21];
        let at = [0, 7, 8, 63, 64, 128, 160];
        at.iter().for_each(|bit| set(&mut bytes, *bit));
        set(&mut bytes, 168);
        assert_eq!(Ones::new(&bytes).collect::<Vec<_>>(), at);
        assert_eq!(ones(&bytes), 7);
        let mut found = Vec::new();
        each_one(&bytes, |bit| found.push(bit));
        assert_eq!(found, at);
        for from in [0, 1, 7, 8, 60, 167, 168, 500] {
            let all: Vec<bool> = (u64::from(from)..168).map(|bit| get(&bytes, bit)).collect();
            assert_eq!(Bits::from(&bytes, from).collect::<Vec<bool>>(), all, "from bit {from}");
        }
        assert!(get(&bytes, 160) && !get(&bytes, 161) && !get(&bytes, 500));
        assert!(tail_is_zero(&bytes, 161) && !tail_is_zero(&bytes, 160) && tail_is_zero(&bytes, 900));
    }
}
