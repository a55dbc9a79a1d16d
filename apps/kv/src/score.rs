//! Scores of sorted sets: IEEE doubles without NaN, in one total order.
//!
//! Minus zero becomes zero when read, so that the total order of the bits is the order of the numbers. Texts are
//! the shortest digits that read back to the same double, laid out as C's `%.17g` would: plain between 1e-4 and
//! 1e17, scientific beyond, `inf` and `-inf` by name, integers without a point.

use core::cmp::Ordering;

/// A score: never NaN, never minus zero.
#[derive(Clone, Copy, Debug)]
pub struct Score(f64);

impl Score {
    /// Takes a double, or refuses NaN.
    #[must_use]
    pub fn new(value: f64) -> Option<Self> {
        match value {
            value if value.is_nan() => None,
            0.0 => Some(Self(0.0)),
            value => Some(Self(value)),
        }
    }

    /// Reads a decimal number, `inf`, `+inf` or `-inf`; `None` for anything else and for NaN.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        if text.len() > 128 {
            return None;
        }
        core::str::from_utf8(text).ok()?.parse().ok().and_then(Self::new)
    }

    /// Reads eight bytes of a snapshot; `None` when they are not a score.
    #[must_use]
    pub fn from_bits(bits: u64) -> Option<Self> {
        let score = Self::new(f64::from_bits(bits))?;
        (score.to_bits() == bits).then_some(score)
    }

    /// The bits of the double.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        self.0.to_bits()
    }

    /// The double.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }

    /// The sum, rounded as IEEE 754 says; `None` when it is NaN (opposite infinities).
    #[must_use]
    #[expect(clippy::float_arithmetic, reason = "one IEEE addition is the same on every machine")]
    pub fn plus(self, other: Self) -> Option<Self> {
        Self::new(self.0 + other.0)
    }

    /// The text of the score.
    #[must_use]
    pub fn text(self) -> String {
        if self.0.is_infinite() {
            return if self.0 > 0.0 { "inf".to_owned() } else { "-inf".to_owned() };
        }
        let scientific = format!("{:e}", self.0);
        let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
        let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
        format!("{sign}{}", layout(&digits, exponent))
    }
}

/// Lays out `digits`, of which the first stands at ten to the power `exponent`.
fn layout(digits: &str, exponent: i32) -> String {
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    match exponent {
        0..17 if count <= exponent + 1 => {
            let zeros = usize::try_from(exponent + 1 - count).unwrap_or(0);
            format!("{digits}{}", "0".repeat(zeros))
        }
        0..17 => {
            let (whole, part) = digits.split_at(usize::try_from(exponent + 1).unwrap_or(1));
            format!("{whole}.{part}")
        }
        -4..0 => format!("0.{}{digits}", "0".repeat(usize::try_from(-exponent - 1).unwrap_or(0))),
        _ => {
            let (first, rest) = digits.split_at(1);
            let point = if rest.is_empty() { "" } else { "." };
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{first}{point}{rest}e{sign}{:02}", exponent.unsigned_abs())
        }
    }
}

impl PartialEq for Score {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Score {}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Score {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_the_shortest_that_read_back() {
        for (given, text) in [
            ("0", "0"),
            ("-0", "0"),
            ("1", "1"),
            ("1.0", "1"),
            ("100", "100"),
            ("-12.5", "-12.5"),
            ("0.1", "0.1"),
            ("3.3", "3.3"),
            ("0.0001", "0.0001"),
            ("0.00001", "1e-05"),
            ("1e16", "10000000000000000"),
            ("1e17", "1e+17"),
            ("1.5e300", "1.5e+300"),
            ("123456789.125", "123456789.125"),
            ("inf", "inf"),
            ("+inf", "inf"),
            ("-inf", "-inf"),
            ("1e400", "inf"),
        ] {
            let score = Score::parse(given.as_bytes()).expect(given);
            assert_eq!(score.text(), text);
            assert_eq!(Score::parse(score.text().as_bytes()), Some(score));
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in ["", "nan", "-nan", "abc", "1a", " 1", "0x10", "1,5"] {
            assert_eq!(Score::parse(text.as_bytes()), None, "{text:?}");
        }
        let (up, down) = (Score::parse(b"inf").expect("inf"), Score::parse(b"-inf").expect("-inf"));
        assert_eq!(up.plus(down), None);
        assert_eq!(Score::from_bits((-0.0_f64).to_bits()), None);
        assert_eq!(Score::from_bits(f64::NAN.to_bits()), None);
    }

    #[test]
    fn the_order_is_that_of_the_numbers() {
        let mut scores: Vec<Score> = ["3", "inf", "-1", "0", "-inf", "2.5"]
            .iter()
            .map(|t| Score::parse(t.as_bytes()).expect(t))
            .collect();
        scores.sort_unstable();
        let texts: Vec<String> = scores.iter().map(|s| s.text()).collect();
        assert_eq!(texts, ["-inf", "-1", "0", "2.5", "3", "inf"]);
    }
}
