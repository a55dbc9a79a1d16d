//! Sizes (`64Mi`) and durations (`100ms`) as they stand in files: integers with one unit, no fractions.

use std::time::Duration;

const SIZES: [(&str, u64); 3] = [("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];
const SPANS: [(&str, u64); 5] =
    [("m", 60_000_000_000), ("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

/// Reads a size in bytes: decimal digits, then nothing, `Ki`, `Mi` or `Gi`. `None` if it is anything else or
/// does not fit 64 bits.
#[must_use]
pub fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    if unit.is_empty() {
        return Some(number);
    }
    let (_, factor) = SIZES.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(*factor)
}

/// Writes a size with the largest unit that divides it; [`parse_size`] reads the same number back.
#[must_use]
pub fn format_size(bytes: u64) -> String {
    match SIZES.iter().find(|(_, factor)| bytes > 0 && bytes.is_multiple_of(*factor)) {
        Some((unit, factor)) => format!("{}{unit}", bytes / factor),
        None => bytes.to_string(),
    }
}

/// Reads a duration: decimal digits and `ns`, `us`, `ms`, `s` or `m`; a bare `0` is zero. `None` otherwise.
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    if unit.is_empty() {
        return (number == 0).then_some(Duration::ZERO);
    }
    let (_, factor) = SPANS.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(*factor).map(Duration::from_nanos)
}

/// Writes a duration with the largest unit that divides it; [`parse_duration`] reads the same one back if it is
/// below 2^64 ns.
#[must_use]
pub fn format_duration(span: Duration) -> String {
    let nanos = span.as_nanos();
    match SPANS.iter().find(|(_, factor)| nanos.is_multiple_of(u128::from(*factor))) {
        Some((unit, factor)) if nanos > 0 => format!("{}{unit}", nanos / u128::from(*factor)),
        _ => "0".to_owned(),
    }
}

/// Splits leading digits from the rest. Refuses a sign, a leading zero of a longer number and an empty number.
fn split(text: &str) -> Option<(u64, &str)> {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at_checked(end)?;
    if digits.len() > 1 && digits.starts_with('0') {
        return None;
    }
    Some((digits.parse().ok()?, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_binary_units_only() {
        let good =
            [("0", 0), ("1", 1), ("64Ki", 65_536), ("64Mi", 64 << 20), ("2Gi", 2 << 30), ("768Ki", 786_432)];
        for (text, bytes) in good {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for bad in
            ["", "Mi", "-1", "+1", "1.5Mi", "64M", "64MB", "64 Mi", "64mi", "007", "17179869184Gi", "é"]
        {
            assert_eq!(parse_size(bad), None, "{bad}");
        }
    }

    #[test]
    fn durations_need_a_unit_unless_they_are_zero() {
        assert_eq!(parse_duration("100ms"), Some(Duration::from_millis(100)));
        assert_eq!(parse_duration("10s"), Some(Duration::from_secs(10)));
        assert_eq!(parse_duration("1m"), Some(Duration::from_secs(60)));
        assert_eq!(parse_duration("0"), Some(Duration::ZERO));
        for bad in ["", "100", "ms", "-1s", "1h", "1 s", "1.5s", "01s", "99999999999999999999s"] {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mut number: u64 = 1;
        for step in 0..2_000_u64 {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step);
            let value = number >> (step % 60);
            assert_eq!(parse_size(&format_size(value)), Some(value));
            let span = Duration::from_nanos(value);
            assert_eq!(parse_duration(&format_duration(span)), Some(span));
        }
        assert_eq!(format_size(0), "0");
        assert_eq!(format_duration(Duration::from_millis(1_500)), "1500ms");
    }
}
