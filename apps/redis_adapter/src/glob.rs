//! Patterns of KEYS and SCAN: `*`, `?`, `[a-c]`, `[^a]`, `\x`.

/// Whether `text` fits `pattern`. Goes back to the last `*` only, so it takes at most the product of both lengths.
pub(crate) fn fits(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut read) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while read < text.len() {
        if pattern.get(at) == Some(&b'*') {
            star = Some((at + 1, read));
            at += 1;
            continue;
        }
        let byte = text.get(read).copied().unwrap_or_default();
        match one(pattern, at, byte) {
            Some(next) => (at, read) = (next, read + 1),
            None => match star {
                Some((behind, from)) => {
                    star = Some((behind, from + 1));
                    (at, read) = (behind, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(|byte| *byte == b'*')
}

/// Where the pattern goes on behind one byte, if it fits.
fn one(pattern: &[u8], at: usize, byte: u8) -> Option<usize> {
    match *pattern.get(at)? {
        b'?' => Some(at + 1),
        b'\\' if at + 1 < pattern.len() => (pattern.get(at + 1) == Some(&byte)).then_some(at + 2),
        b'[' => class(pattern, at + 1, byte),
        literal => (literal == byte).then_some(at + 1),
    }
}

fn class(pattern: &[u8], from: usize, byte: u8) -> Option<usize> {
    let is_not = pattern.get(from) == Some(&b'^');
    let (mut at, mut found) = (from + usize::from(is_not), false);
    loop {
        match pattern.get(at..).unwrap_or_default() {
            // A class without an end ends with the pattern.
            [] => return (found != is_not).then_some(at),
            [b']', ..] => return (found != is_not).then_some(at + 1),
            [b'\\', escaped, ..] => {
                found |= *escaped == byte;
                at += 2;
            }
            [low, b'-', high, ..] => {
                let (low, high) = (low.min(high), low.max(high));
                found |= (low..=high).contains(&&byte);
                at += 3;
            }
            [literal, ..] => {
                found |= *literal == byte;
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn patterns_fit_as_those_of_the_server() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abbd", false),
            ("*a*b*", "xxaxxbxx", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[^ae]llo", "hallo", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("h\\*llo", "h*llo", true),
            ("h\\*llo", "hxllo", false),
            ("[", "[", false),
            ("[a", "a", true),
            ("", "", true),
            ("", "x", false),
        ] {
            assert_eq!(fits(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        let (pattern, text) = ("*a".repeat(40) + "b", "a".repeat(2_000));
        assert!(!fits(pattern.as_bytes(), text.as_bytes()));
    }
}
