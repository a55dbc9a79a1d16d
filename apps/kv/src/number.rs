//! Decimal integers as Redis reads and writes them: no sign but `-`, no leading zero, no spaces.

/// Reads a decimal integer; `None` when it is not one in its shortest form or does not fit.
pub fn parse(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut value: i64 = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        // Summed on the negative side, whose range is one larger.
        value = value.checked_mul(10)?.checked_sub(i64::from(digit - b'0'))?;
    }
    if negative { Some(value) } else { value.checked_neg() }
}

/// Appends `value` in decimal.
pub fn write(out: &mut Vec<u8>, value: i64) {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_shortest_form_is_an_integer() {
        for (text, value) in [
            ("0", Some(0)),
            ("7", Some(7)),
            ("-7", Some(-7)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("99999999999999999999", None),
            ("", None),
            ("-", None),
            ("-0", None),
            ("+1", None),
            ("01", None),
            (" 1", None),
            ("1 ", None),
            ("1.0", None),
            ("1e3", None),
        ] {
            assert_eq!(parse(text.as_bytes()), value, "{text:?}");
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        for value in [0, 1, -1, 10, -10, 12_345, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            write(&mut out, value);
            assert_eq!(out, value.to_string().into_bytes());
            assert_eq!(parse(&out), Some(value));
        }
    }
}
