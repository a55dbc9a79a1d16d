//! Commands of the store as people write them: words, quoted where they hold spaces.

use crate::session::usage;
use synod_config::{SynError, code};
use synod_host::{Mode, Operation};
use synod_kv::operation::{write_body, write_command};
use synod_kv::{Access, Verb};

/// Splits a line into words as a shell does: quotes keep spaces, a backslash keeps the next character; within
/// double quotes `\n`, `\r`, `\t` and `\xHH` stand for bytes.
///
/// # Errors
/// SYN-1001 if a quote is not closed or an escape is cut short.
pub(super) fn words(line: &str) -> Result<Vec<Vec<u8>>, SynError> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut rest = line.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => words.extend(word.take()),
            b'\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next().ok_or_else(open_quote)? {
                        b'\'' => break,
                        byte => word.push(byte),
                    }
                }
            }
            b'"' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next().ok_or_else(open_quote)? {
                        b'"' => break,
                        b'\\' => word.push(escape(&mut rest)?),
                        byte => word.push(byte),
                    }
                }
            }
            b'\\' => word.get_or_insert_default().push(rest.next().ok_or_else(cut_short)?),
            byte => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word);
    Ok(words)
}

fn escape(rest: &mut std::str::Bytes<'_>) -> Result<u8, SynError> {
    Ok(match rest.next().ok_or_else(cut_short)? {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'x' => {
            let mut digit =
                || char::from(rest.next()?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            digit().zip(digit()).map(|(high, low)| high << 4 | low).ok_or_else(cut_short)?
        }
        byte => byte,
    })
}

fn open_quote() -> SynError {
    usage("a quote is not closed")
}

fn cut_short() -> SynError {
    usage("an escape is cut short")
}

fn verb(words: &[Vec<u8>]) -> Result<Verb, SynError> {
    let name = words.first().ok_or_else(|| usage("a command is missing"))?;
    Verb::find(name).ok_or_else(|| {
        let what = format!("command {:?}", String::from_utf8_lossy(name));
        SynError::of(code::UNSUPPORTED, &[("what", &what)])
    })
}

/// The operation of one command; `reads` says how those that change nothing are carried out.
///
/// # Errors
/// SYN-1001 without words, SYN-3003 for a command that the store does not have.
pub(super) fn command(words: &[Vec<u8>], reads: Mode) -> Result<Operation, SynError> {
    let verb = verb(words)?;
    let mode = if verb.command().access == Access::Read { reads } else { Mode::Ordered };
    let mut body = Vec::new();
    write_command(verb, words[1..].iter().map(Vec::as_slice), &mut body);
    Ok(Operation { body: body.into(), mode })
}

/// Appends one command as a member of a transaction.
///
/// # Errors
/// Those of [`command`].
pub(super) fn member(words: &[Vec<u8>], bodies: &mut Vec<u8>) -> Result<(), SynError> {
    write_body(verb(words)?, words[1..].iter().map(Vec::as_slice), bodies);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> Result<Vec<Vec<u8>>, String> {
        words(line).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn words_are_split_as_in_a_shell() {
        let told = |words: &[&str]| Ok(words.iter().map(|word| word.as_bytes().to_vec()).collect());
        assert_eq!(split("  set a  b\r\n"), told(&["set", "a", "b"]));
        assert_eq!(split("set 'a b' \"c\\\"d\" e\\ f ''"), told(&["set", "a b", "c\"d", "e f", ""]));
        assert_eq!(split("x'y'\"z\""), told(&["xyz"]));
        assert_eq!(split(""), Ok(Vec::new()));
        assert_eq!(split("\"\\x00\\xfF\\n\""), Ok(vec![vec![0, 0xff, b'\n']]));
        for cut in ["'a", "\"a", "a\\", "\"\\x0\"", "\"\\"] {
            assert!(split(cut).is_err(), "{cut}");
        }
    }

    #[test]
    fn only_reads_are_read_without_ordering() {
        let of = |line: &str| command(&words(line).expect("it splits"), Mode::Quorum);
        assert_eq!(of("get a").map(|operation| operation.mode), Ok(Mode::Quorum));
        assert_eq!(of("SET a b").map(|operation| operation.mode), Ok(Mode::Ordered));
        assert_eq!(of("flushall").map(drop).map_err(|error| error.code()), Err(code::UNSUPPORTED));
        assert_eq!(of("").map(drop).map_err(|error| error.code()), Err(code::BAD_USAGE));
    }
}
