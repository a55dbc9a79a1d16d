//! HTTP: JSON bodies, bytes as JSON, percent-encoding, problem objects.

use synod_config::{ERRORS, SynError};
use synod_gateway::foreign::{percent, transaction, value, value_object};
use synod_kv::{Config, Kv, OPERATION_BYTES_MAX, operation};
use synod_service::App;
use synod_wire::Drawn;

use super::{one_of, some_bytes};
use crate::check::{accept, bounded};
use crate::{Kind, Target};

/// The targets of this module.
pub(crate) const TARGETS: &[Target] = &[
    Target::new("http-transaction", Kind::Slow, txn, transactions),
    Target::new("http-value", Kind::Decoder, put, puts),
    Target::new("http-percent", Kind::Decoder, escaped, escapes),
    Target::new("http-problem", Kind::Slow, problem, problems),
];

/// Reads the body of a transaction.
///
/// # Panics
/// When it becomes an operation that is too long, a read, or one that the store does not understand.
pub fn txn(bytes: &[u8]) {
    let Some(operation) = bounded(bytes.len() * 2, || transaction(bytes)) else { return };
    accept();
    assert!(operation.len() <= OPERATION_BYTES_MAX && !operation::is_read(&operation));
    let store = Kv::new(Config::default());
    assert_eq!(store.query(&operation), None, "a transaction is no question");
}

fn transactions(from: &mut Drawn) -> Vec<u8> {
    let key = |from: &mut Drawn| {
        one_of(from, &[r#""key":"a""#, r#""key":"gr\u00fcn""#, r#""key_base64":"/wA=""#, r#""key":"""#])
            .to_owned()
    };
    let compare: Vec<String> = (0..from.below(3))
        .map(|_| format!("{{{},\"version\":\"{}\"}}", key(from), from.next() >> from.below(64)))
        .collect();
    let writes: Vec<String> = (0..from.below(4))
        .map(|_| match from.below(2) {
            0 => format!("{{\"op\":\"put\",{},\"value\":\"v{}\"}}", key(from), from.below(9)),
            _ => format!("{{\"op\":\"delete\",{}}}", key(from)),
        })
        .collect();
    format!("{{\"compare\":[{}],\"writes\":[{}]}}", compare.join(","), writes.join(",")).into_bytes()
}

/// Reads the body of a PUT.
///
/// # Panics
/// When the bytes do not come back through JSON.
pub fn put(bytes: &[u8]) {
    let Some(read) = bounded(bytes.len(), || value(bytes)) else { return };
    accept();
    assert_eq!(value(value_object(&read).as_bytes()), Some(read), "roundtrip: bytes as JSON");
}

fn puts(from: &mut Drawn) -> Vec<u8> {
    let bytes = match from.below(2) {
        0 => some_bytes(from, 200),
        _ => one_of(from, &["text", "gr\u{fc}n", "\u{1f4a9}\"\\\n", ""]).as_bytes().to_vec(),
    };
    let body = value_object(&bytes);
    assert_eq!(value(body.as_bytes()), Some(bytes), "roundtrip: {body}");
    body.into_bytes()
}

/// Reads a percent-encoded text.
///
/// # Panics
/// When the bytes do not come back from their own encoding.
pub fn escaped(bytes: &[u8]) {
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    let Some(read) = bounded(bytes.len(), || percent(text)) else { return };
    accept();
    assert!(read.len() <= bytes.len());
    let again: String = read.iter().map(|byte| format!("%{byte:02X}")).collect();
    assert_eq!(percent(&again), Some(read), "roundtrip: {again}");
}

fn escapes(from: &mut Drawn) -> Vec<u8> {
    let part = |from: &mut Drawn| match from.below(3) {
        0 => format!("%{:02x}", from.below(256)),
        1 => format!("%{:02X}", from.below(256)),
        _ => (*one_of(from, &["a", "/", "+", "gr\u{fc}n", " "])).to_owned(),
    };
    let parts: Vec<String> = (0..from.below(6)).map(|_| part(from)).collect();
    parts.concat().into_bytes()
}

/// Puts foreign text into a problem object. The first two bytes name the error.
///
/// # Panics
/// When the object is not what JSON reads back, or carries more than was put into it.
pub fn problem(bytes: &[u8]) {
    let Some((number, rest)) = bytes.split_first_chunk::<2>() else { return };
    let row = &ERRORS[usize::from(u16::from_le_bytes(*number)) % ERRORS.len()];
    let text = String::from_utf8_lossy(rest);
    accept();
    let error = SynError::with_message(row.code, &text).because(&text);
    let shown = error.to_problem(Some(&text), Some(7)).to_string();
    assert!(shown.bytes().all(|byte| byte >= b' '), "a control character in {shown:?}");
    assert!(shown.contains(&format!("{}", row.code)), "{shown} does not say its code");
}

fn problems(from: &mut Drawn) -> Vec<u8> {
    let mut out = from.next().to_le_bytes()[..2].to_vec();
    out.extend_from_slice(
        one_of(from, &["a {problem} b", "\r\nSet-Cookie: x", "\u{7f}\u{0}", "<script>"]).as_bytes(),
    );
    out
}
