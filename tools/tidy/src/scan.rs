//! Splits Rust source into code, comments and literals of equal layout.
//!
//! Why: a rule that looks for a word must not trip over the same word in a string or a comment, and a
//! brace counter must not count braces in either. The three views have the length and the line breaks
//! of the original, so an offset found in one is an offset in all.

/// A Rust source file in four views of equal length.
#[derive(Clone, Debug)]
pub struct Source {
    /// The file as written.
    pub text: String,
    /// Everything but comments and literals; those are blanks.
    pub code: String,
    /// Comments alone, delimiters included.
    pub comments: String,
    /// String, byte string and character literals alone, delimiters included.
    pub literals: String,
    starts: Vec<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

impl Source {
    /// Splits a file. Text that is not valid Rust gives some split, never a panic.
    pub fn new(text: &str) -> Self {
        let kinds = classify(text.as_bytes());
        assert_eq!(kinds.len(), text.len());
        let mut starts = vec![0];
        starts.extend(text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i + 1));
        Self {
            code: keep(text, &kinds, Kind::Code),
            comments: keep(text, &kinds, Kind::Comment),
            literals: keep(text, &kinds, Kind::Literal),
            text: text.to_owned(),
            starts,
        }
    }

    /// Gives the line, from 1, that holds a byte offset.
    pub fn line(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset)
    }

    /// Counts lines; a last line without a line break counts, an empty one does not.
    pub fn lines(&self) -> usize {
        self.text.lines().count()
    }
}

/// Finds every occurrence of `word` that is not part of a longer identifier.
pub fn words(text: &str, word: &str) -> Vec<usize> {
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    let first = word.chars().next().is_some_and(inside);
    let last = word.chars().next_back().is_some_and(inside);
    text.match_indices(word)
        .filter(|(at, _)| !(first && text[..*at].chars().next_back().is_some_and(inside)))
        .filter(|(at, _)| !(last && text[at + word.len()..].chars().next().is_some_and(inside)))
        .map(|(at, _)| at)
        .collect()
}

/// Finds the offset behind the bracket that closes the one at `open`, or the end of the text.
///
/// Round, square and curly brackets are counted together; `code` must be free of literals.
pub fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    code.len()
}

fn keep(text: &str, kinds: &[Kind], kind: Kind) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        if c == '\n' || kinds[at] == kind {
            out.push(c);
        } else {
            // One blank per byte keeps offsets equal in all views.
            out.extend(std::iter::repeat_n(' ', c.len_utf8()));
        }
    }
    out
}

fn classify(bytes: &[u8]) -> Vec<Kind> {
    let mut kinds = Vec::with_capacity(bytes.len());
    while kinds.len() < bytes.len() {
        let at = kinds.len();
        let (end, kind) = token(bytes, at);
        assert!(end > at, "a token has at least one byte");
        kinds.resize(end.min(bytes.len()), kind);
    }
    kinds
}

/// Gives the end and the kind of the token at `at`.
fn token(bytes: &[u8], at: usize) -> (usize, Kind) {
    let rest = &bytes[at..];
    if rest.starts_with(b"//") {
        return (find(bytes, at, b'\n'), Kind::Comment);
    }
    if rest.starts_with(b"/*") {
        return (block_comment(bytes, at), Kind::Comment);
    }
    match bytes[at] {
        b'"' => (string(bytes, at), Kind::Literal),
        b'\'' => character(bytes, at),
        b if b.is_ascii_alphanumeric() || b == b'_' => word(bytes, at),
        _ => (at + 1, Kind::Code),
    }
}

/// Handles an identifier, a number, or the prefix of a literal such as `br#"..."#`.
fn word(bytes: &[u8], at: usize) -> (usize, Kind) {
    let length = bytes[at..].iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
    let end = at + length;
    let next = bytes.get(end).copied();
    match (&bytes[at..end], next) {
        (b"r" | b"br" | b"cr", Some(b'"' | b'#')) => match raw_string(bytes, end) {
            Some(end) => (end, Kind::Literal),
            None => (end, Kind::Code),
        },
        (b"b" | b"c", Some(b'"')) => (string(bytes, end), Kind::Literal),
        (b"b", Some(b'\'')) => character(bytes, end),
        _ => (end, Kind::Code),
    }
}

fn find(bytes: &[u8], from: usize, byte: u8) -> usize {
    bytes.iter().skip(from).position(|b| *b == byte).map_or(bytes.len(), |i| from + i)
}

fn block_comment(bytes: &[u8], at: usize) -> usize {
    let mut depth = 0_usize;
    let mut i = at;
    while i < bytes.len() {
        if bytes[i..].starts_with(b"/*") {
            depth += 1;
            i += 2;
        } else if bytes[i..].starts_with(b"*/") {
            depth -= 1;
            i += 2;
            if depth == 0 {
                return i;
            }
        } else {
            i += 1;
        }
    }
    bytes.len()
}

fn string(bytes: &[u8], quote: usize) -> usize {
    let mut i = quote + 1;
    while i < bytes.len() {
        match bytes[i] {
            b'\\' => i += 2,
            b'"' => return i + 1,
            _ => i += 1,
        }
    }
    bytes.len()
}

/// Gives the end of a raw string whose hashes start at `at`; none for a raw identifier.
fn raw_string(bytes: &[u8], at: usize) -> Option<usize> {
    let hashes = bytes[at..].iter().take_while(|b| **b == b'#').count();
    let open = at + hashes;
    if bytes.get(open) != Some(&b'"') {
        return None;
    }
    let mut i = open + 1;
    while i < bytes.len() {
        let closes =
            bytes[i] == b'"' && bytes[i + 1..].iter().take(hashes).filter(|b| **b == b'#').count() == hashes;
        if closes {
            return Some(i + 1 + hashes);
        }
        i += 1;
    }
    Some(bytes.len())
}

/// Tells a character literal from a lifetime.
fn character(bytes: &[u8], quote: usize) -> (usize, Kind) {
    let Some(first) = bytes.get(quote + 1).copied() else { return (quote + 1, Kind::Code) };
    if first == b'\\' {
        return (find(bytes, quote + 3, b'\'') + 1, Kind::Literal);
    }
    let width = match first {
        0x00..=0x7f => 1,
        0x80..=0xdf => 2,
        0xe0..=0xef => 3,
        _ => 4,
    };
    let close = quote + 1 + width;
    if bytes.get(close) == Some(&b'\'') { (close + 1, Kind::Literal) } else { (quote + 1, Kind::Code) }
}

#[cfg(test)]
mod tests {
    use super::{Source, closing, words};

    #[test]
    fn comments_and_strings_leave_the_code_view() {
        let source = Source::new("let a = \"{ fn\"; // fn }\nlet b = 1; /* a /* b */ c */ let c;");
        assert!(!source.code.contains("fn"));
        assert!(!source.code.contains('{'));
        assert!(source.code.contains("let c;"));
        assert!(source.comments.contains("// fn }"));
        assert!(source.comments.contains("/* a /* b */ c */"));
        assert!(source.literals.contains("\"{ fn\""));
        assert_eq!(source.code.len(), source.text.len());
    }

    #[test]
    fn raw_strings_end_at_their_own_hashes() {
        let source = Source::new("let a = r#\"x\" { \"#; let b = br\"\\\"; let r#type = 1;");
        assert!(!source.code.contains('{'));
        assert!(source.code.contains("let b ="));
        assert!(source.code.contains("let r#type = 1;"));
    }

    #[test]
    fn lifetimes_are_code_and_characters_are_literals() {
        let source = Source::new(
            "fn a<'x>(s: &'x str) { s == '{' || s == '\\'' || s == b'}' || s == 'é'; 'l: loop {} }",
        );
        assert_eq!(source.code.matches('{').count(), 2);
        assert_eq!(source.code.matches('}').count(), 2);
        assert!(source.code.contains("<'x>"));
        assert!(source.code.contains("'l: loop"));
        assert_eq!(source.code.len(), source.text.len());
    }

    #[test]
    fn an_escaped_quote_does_not_end_a_string() {
        let source = Source::new(r#"let a = "\"{"; let b = "\\"; let c = '\u{7d}';"#);
        assert!(!source.code.contains('{'));
        assert!(source.code.contains("let b"));
        assert!(source.code.contains("let c"));
    }

    #[test]
    fn unfinished_text_splits_without_a_panic() {
        for text in ["\"", "'", "/*", "r#\"", "b'", "'\\", "r", "\"\\", "é'"] {
            assert_eq!(Source::new(text).code.len(), text.len(), "{text}");
        }
    }

    #[test]
    fn an_offset_maps_to_its_line() {
        let source = Source::new("a\nb\n\nc");
        assert_eq!([0, 1, 2, 4, 5].map(|at| source.line(at)), [1, 1, 2, 3, 4]);
        assert_eq!(source.lines(), 4);
    }

    #[test]
    fn a_word_is_found_whole_and_a_bracket_finds_its_partner() {
        assert_eq!(words("fn a() {} fnord my_fn fn", "fn"), [0, 22]);
        assert_eq!(words("x.sleep(1) asleep(2)", "sleep("), [2]);
        assert_eq!(closing("a{b(c)[d]}e", 1), 10);
        assert_eq!(closing("a{b", 1), 3);
    }
}
