//! Glob patterns of `SCAN ... MATCH`: `*`, `?`, `[a-z]`, `[^x]`, `\` as escape.
//!
//! Iterative, with one point of return (the last star), so the work is at most the product of both lengths and
//! no pattern makes it explode.

/// Whether the whole of `text` matches `pattern`.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // The last star seen: where the pattern goes on behind it, and how much text it has swallowed.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p + 1, t));
            p += 1;
            continue;
        }
        match one(&pattern[p..], text[t]) {
            Some(used) => {
                p += used;
                t += 1;
            }
            None => match star {
                Some((behind, swallowed)) => {
                    star = Some((behind, swallowed + 1));
                    (p, t) = (behind, swallowed + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// Matches one byte against the front of `pattern`; how much of the pattern it used, or `None`.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'\\', literal, ..] => (*literal == byte).then_some(2),
        [b'[', ..] => class(pattern, byte),
        [literal, ..] => (*literal == byte).then_some(1),
    }
}

/// Matches one byte against a class; an unclosed class ends with the pattern.
fn class(pattern: &[u8], byte: u8) -> Option<usize> {
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
    (found != negated).then_some(at)
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
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern:?} {text:?}");
        }
    }

    #[test]
    fn many_stars_stay_cheap() {
        let pattern = "*a".repeat(200) + "b";
        let text = "a".repeat(4_000);
        assert!(!matches(pattern.as_bytes(), text.as_bytes()));
    }
}
