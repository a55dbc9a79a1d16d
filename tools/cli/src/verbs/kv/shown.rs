//! Replies of the store as values of a report and as lines for people.

use serde_json::Value;
use synod_config::{Code, SynError, code};
use synod_kv::Reply;

/// A reply as JSON; bytes that are no text are shown with replacement characters.
pub(super) fn text(reply: &Reply) -> Value {
    let pair = |(left, right): &(Reply, Reply)| Value::Array(vec![text(left), text(right)]);
    match reply {
        Reply::Simple(bytes) | Reply::Bulk(bytes) | Reply::Error(bytes) => {
            Value::from(String::from_utf8_lossy(bytes).into_owned())
        }
        Reply::Integer(number) => Value::from(*number),
        Reply::Double(score) => Value::from(score.text()),
        Reply::Array(items) | Reply::Set(items) => items.iter().map(text).collect(),
        Reply::Map(pairs) | Reply::Pairs(pairs) => pairs.iter().map(pair).collect(),
        Reply::Null | Reply::NullArray => Value::Null,
    }
}

/// A reply on lines: one per element, indented below its list; control characters are escaped.
pub(super) fn lines(reply: &Reply) -> Vec<String> {
    let numbered = |items: Vec<Vec<String>>| {
        let entry = |(number, lines): (usize, Vec<String>)| {
            let lines = lines.into_iter().enumerate();
            lines.map(
                move |(at, line)| if at == 0 { format!("{number}) {line}") } else { format!("   {line}") },
            )
        };
        (1..).zip(items).flat_map(entry).collect::<Vec<_>>()
    };
    match reply {
        Reply::Array(items) | Reply::Set(items) if items.is_empty() => vec!["(empty)".to_owned()],
        Reply::Array(items) | Reply::Set(items) => numbered(items.iter().map(lines).collect()),
        Reply::Map(pairs) | Reply::Pairs(pairs) => {
            let pair = |(left, right): &(Reply, Reply)| [lines(left), lines(right)].concat();
            numbered(pairs.iter().map(pair).collect())
        }
        Reply::Null | Reply::NullArray => vec!["(none)".to_owned()],
        Reply::Error(why) => vec![format!("error {}", escaped(why))],
        Reply::Integer(number) => vec![number.to_string()],
        Reply::Double(score) => vec![score.text().to_string()],
        Reply::Simple(bytes) | Reply::Bulk(bytes) => vec![escaped(bytes)],
    }
}

fn escaped(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if text.chars().any(char::is_control) { text.escape_default().to_string() } else { text.into_owned() }
}

/// The reply, or the error it is.
///
/// # Errors
/// The code in an error's text, SYN-3001 if it names none.
pub(super) fn failed(reply: Reply) -> Result<Reply, SynError> {
    let Reply::Error(why) = &reply else { return Ok(reply) };
    let why = String::from_utf8_lossy(why).into_owned();
    let code = why.split_whitespace().find_map(Code::parse);
    Err(SynError::with_message(code.unwrap_or(code::MALFORMED), &why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use serde_json::json;

    fn bulk(text: &'static str) -> Reply {
        Reply::Bulk(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn a_list_has_a_number_per_element_and_nothing_moves_the_cursor() {
        let inner = Reply::Set(vec![bulk("a"), bulk("b")]);
        let reply = Reply::Array(vec![bulk("x\u{1b}[2J"), inner, Reply::Null, Reply::Integer(-3)]);
        assert_eq!(lines(&reply), ["1) x\\u{1b}[2J", "2) 1) a", "   2) b", "3) (none)", "4) -3"]);
        assert_eq!(text(&reply), json!(["x\u{1b}[2J", ["a", "b"], null, -3]));
        assert_eq!(lines(&Reply::Array(Vec::new())), ["(empty)"]);
    }

    #[test]
    fn an_error_keeps_the_code_in_its_text() {
        let error = |text: &'static str| Reply::Error(Bytes::from_static(text.as_bytes()));
        let wrong = failed(error("WRONGTYPE SYN-3004 no string")).expect_err("it is one");
        assert_eq!(wrong.code(), code::WRONG_TYPE);
        assert_eq!(failed(error("ERR what")).expect_err("it is one").code(), code::MALFORMED);
        assert_eq!(failed(Reply::Null), Ok(Reply::Null));
    }
}
