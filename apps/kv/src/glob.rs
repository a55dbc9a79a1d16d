//! Glob patterns of `SCAN ... MATCH`: `*`, `?`, `[a-z]`, `[^x]`, `\` as escape.
//!
//! Iterative, with one point of return (the last star), so the work is at most the product of both lengths. That is
//! far too much for a long pattern and a long key, so the bytes that are looked at are counted and limited.

/// Whether the whole of `text` matches `pattern`; `None` when that takes more than `left` steps, from which those taken
/// are subtracted.
pub(crate) fn matches(pattern: &[u8], text: &[u8], left: &mut u64) -> Option<bool> {
    let (mut p, mut t) = (0, 0);
    // The last star seen: where the pattern goes on behind it, and how much text it has swallowed.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p + 1, t));
            p += 1;
            continue;
        }
        let (met, looked) = one(&pattern[p..], text[t]);
        *left = left.checked_sub(looked as u64)?;
        match (met, star) {
            (true, _) => {
                p += looked;
                t += 1;
            }
            (false, Some((behind, swallowed))) => {
                star = Some((behind, swallowed + 1));
                (p, t) = (behind, swallowed + 1);
            }
            (false, None) => return Some(false),
        }
    }
    Some(pattern[p..].iter().all(|byte| *byte == b'*'))
}

/// Whether one byte matches the front of `pattern`, and how much of the pattern that looked at, at least 1.
fn one(pattern: &[u8], byte: u8) -> (bool, usize) {
    match pattern {
        [] => (false, 1),
        [b'?', ..] => (true, 1),
        [b'\\', literal, ..] => (*literal == byte, 2),
        [b'[', ..] => class(pattern, byte),
        [literal, ..] => (*literal == byte, 1),
    }
}

/// Matches one byte against a class; an unclosed class ends with the pattern.
fn class(pattern: &[u8], byte: u8) -> (bool, usize) {
    let negated = pattern.get(1) == Some(&b'^');
    let mut at = if negated { 2 } else { 1 };
    let mut found = false;
    loop {
        match &pattern[at.min(pattern.len())..] {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', literal, ..] => {
                found |= *literal == byte;
                at += 2;
            }
            [low, b'-', high, ..] => {
                found |= (*low.min(high)..=*low.max(high)).contains(&byte);
                at += 3;
            }
            [literal, ..] => {
                found |= *literal == byte;
                at += 1;
            }
        }
    }
    (found != negated, at)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_whole_texts() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h*llo", "heeeello", true),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hbllo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("user:*:name", "user:1:2:name", true),
            ("user:*:name", "user:1:2:nam", false),
            ("a\\*b", "a*b", true),
            ("a\\*b", "axb", false),
            ("a**", "a", true),
            ("[", "a", false),
            ("[a", "a", true),
            ("[\\]]", "]", true),
            ("\\", "\\", true),
        ] {
            let met = matches(pattern.as_bytes(), text.as_bytes(), &mut 1_000);
            assert_eq!(met, Some(expected), "{pattern:?} {text:?}");
        }
    }

    #[test]
    fn many_stars_stay_cheap() {
        let pattern = "*a".repeat(200) + "b";
        let text = "a".repeat(4_000);
        let mut left = 100_000;
        assert_eq!(matches(pattern.as_bytes(), text.as_bytes(), &mut left), Some(false));
        assert!(left > 0);
    }

    #[test]
    fn what_takes_too_long_is_given_up() {
        for unit in ["a", "[bcdefgha]"] {
            let (pattern, text) = ("*".to_owned() + &unit.repeat(500) + "b", "a".repeat(10_000));
            let mut left = 1 << 20;
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes(), &mut left), None);
            assert!(left < 16, "the steps were taken");
        }
    }
}
