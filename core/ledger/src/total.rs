//! Amounts, and the totals that never wrap.

use core::fmt;

use synod_wire::{Draw, Drawn, Malformed, Reader, Why, Wire, Writer};

use crate::Code;

/// What one leg moves: 1 to 2^96 - 1 units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(u128);

impl Amount {
    /// The largest amount, 2^96 - 1.
    pub const MAX: Self = Self((1 << 96) - 1);

    /// Takes what a client wrote.
    ///
    /// # Errors
    /// [`Code::AmountZero`], or [`Code::AmountTooLarge`] above [`Amount::MAX`].
    pub const fn new(units: Units) -> Result<Self, Code> {
        match units.0 {
            0 => Err(Code::AmountZero),
            units if units > Self::MAX.0 => Err(Code::AmountTooLarge),
            units => Ok(Self(units)),
        }
    }

    /// Its units.
    #[inline]
    #[must_use]
    pub const fn units(self) -> u128 {
        self.0
    }
}

/// A number of units as somebody wrote it, not yet an [`Amount`]: any 128 bits. Encoded as the count of its bytes and
/// these, least first, without zeros at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Units(pub u128);

impl Wire for Units {
    fn write(&self, out: &mut Writer) {
        let bytes = self.0.to_le_bytes();
        let long = 16_u8.saturating_sub(self.0.leading_zeros().to_le_bytes()[0] / 8);
        out.byte(long);
        out.bytes(bytes.get(..usize::from(long)).unwrap_or(&bytes));
    }

    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        let refusal = input.refuse(Why::NotCanonical);
        let long = u8::read(input)?;
        let taken = if long > 16 { return Err(refusal) } else { input.borrow(usize::from(long))? };
        if taken.last() == Some(&0) {
            return Err(refusal);
        }
        Ok(Self(taken.iter().rev().fold(0, |sum, byte| sum << 8 | u128::from(*byte))))
    }

    fn size_hint(&self) -> usize {
        17
    }
}

impl Draw for Units {
    fn draw(from: &mut Drawn) -> Self {
        let shift = from.below(128);
        Self(u128::draw(from) >> shift)
    }
}

/// A sum of amounts: an unsigned counter of 192 bits, since 2^96 credits of the largest amount fit and 128 bits would
/// wrap. Encoded as 24 bytes, most significant first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Total([u64; 3]);

impl Total {
    /// Nothing.
    pub const ZERO: Self = Self([0; 3]);
    /// The largest total, 2^192 - 1.
    pub const MAX: Self = Self([u64::MAX; 3]);

    /// The total of so many units.
    #[inline]
    #[must_use]
    pub const fn of(units: u128) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = units.to_be_bytes();
        Self([0, u64::from_be_bytes([a, b, c, d, e, f, g, h]), u64::from_be_bytes([i, j, k, l, m, n, o, p])])
    }

    /// The sum; `None` above [`Total::MAX`].
    #[inline]
    #[must_use]
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        let (low, carry) = self.low().overflowing_add(other.low());
        let Some(high) = self.0[0].checked_add(other.0[0]) else { return None };
        match high.checked_add(carry as u64) {
            Some(high) => Some(Self::joined(high, low)),
            None => None,
        }
    }

    /// The difference; `None` below 0.
    #[inline]
    #[must_use]
    pub const fn checked_sub(self, other: Self) -> Option<Self> {
        let (low, borrow) = self.low().overflowing_sub(other.low());
        let Some(high) = self.0[0].checked_sub(other.0[0]) else { return None };
        match high.checked_sub(borrow as u64) {
            Some(high) => Some(Self::joined(high, low)),
            None => None,
        }
    }

    /// The difference, or nothing below 0.
    #[inline]
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        match self.checked_sub(other) {
            Some(difference) => difference,
            None => Self::ZERO,
        }
    }

    /// The lower 128 bits.
    #[inline]
    const fn low(self) -> u128 {
        (self.0[1] as u128) << 64 | self.0[2] as u128
    }

    #[inline]
    const fn joined(high: u64, low: u128) -> Self {
        let Self([_, middle, last]) = Self::of(low);
        Self([high, middle, last])
    }

    /// 24 bytes, most significant first.
    #[must_use]
    pub fn to_be_bytes(self) -> [u8; 24] {
        let mut bytes = [0; 24];
        for (out, limb) in bytes.chunks_exact_mut(8).zip(self.0) {
            out.copy_from_slice(&limb.to_be_bytes());
        }
        bytes
    }
}

impl From<Amount> for Total {
    fn from(amount: Amount) -> Self {
        Self::of(amount.0)
    }
}

impl Wire for Total {
    fn write(&self, out: &mut Writer) {
        out.bytes(&self.to_be_bytes());
    }

    fn read(input: &mut Reader) -> Result<Self, Malformed> {
        let mut limbs = [0; 3];
        for limb in &mut limbs {
            *limb = u64::from_be_bytes(input.array()?);
        }
        Ok(Self(limbs))
    }

    fn size_hint(&self) -> usize {
        24
    }
}

impl Draw for Total {
    fn draw(from: &mut Drawn) -> Self {
        Self::joined(u64::draw(from), u128::draw(from))
    }
}

/// As many decimal digits as fit in a u64, and ten to that power.
const DIGITS: (usize, u128) = (19, 10_000_000_000_000_000_000);

impl fmt::Display for Total {
    /// In decimal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut rest, mut groups) = (self.0, Vec::new());
        while rest != [0; 3] || groups.is_empty() {
            let mut carried = 0_u128;
            for limb in &mut rest {
                let whole = carried << 64 | u128::from(*limb);
                *limb = u64::try_from(whole / DIGITS.1).expect("the carry is below the divisor");
                carried = whole % DIGITS.1;
            }
            groups.push(carried);
        }
        let mut text = groups.pop().map_or_else(String::new, |first| first.to_string());
        for group in groups.iter().rev() {
            text.push_str(&format!("{group:0width$}", width = DIGITS.0));
        }
        f.pad_integral(true, "", &text)
    }
}

/// A text is no sum in decimal digits below 2^192, without a sign and needless zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoTotal;

impl fmt::Display for NoTotal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a decimal number below 2^192")
    }
}

impl core::error::Error for NoTotal {}

impl core::str::FromStr for Total {
    type Err = NoTotal;

    /// Reads what `Display` writes.
    fn from_str(text: &str) -> Result<Self, NoTotal> {
        if text.is_empty() || text.len() > 1 && text.starts_with('0') {
            return Err(NoTotal);
        }
        let mut sum = [0_u64; 3];
        for digit in text.bytes() {
            let mut carried = match digit {
                b'0'..=b'9' => u128::from(digit - b'0'),
                _ => return Err(NoTotal),
            };
            for limb in sum.iter_mut().rev() {
                let whole = u128::from(*limb) * 10 + carried;
                let [.., a, b, c, d, e, f, g, h] = whole.to_be_bytes();
                (*limb, carried) = (u64::from_be_bytes([a, b, c, d, e, f, g, h]), whole >> 64);
            }
            if carried > 0 {
                return Err(NoTotal);
            }
        }
        Ok(Self(sum))
    }
}

impl fmt::Debug for Total {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
