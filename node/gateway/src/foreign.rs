//! What the bytes of HTTP clients become, as plain values, for fuzzing and inspection. Nothing here listens.
//!
//! *Bounds.* Results are at most as long as what they were read from, plus the fields of an operation.

/// The operation that the body of `POST /v1/txn` stands for; `None` when it is refused.
#[must_use]
pub fn transaction(body: &[u8]) -> Option<Vec<u8>> {
    crate::http::transaction(body)
}

/// The value in the body of `PUT /v1/kv/{key}`; `None` when it is refused.
#[must_use]
pub fn value(body: &[u8]) -> Option<Vec<u8>> {
    crate::http::value(body)
}

/// The JSON object that carries `bytes` as `value` or `value_base64`: what [`value`] reads back.
#[must_use]
pub fn value_object(bytes: &[u8]) -> String {
    crate::http::value_object(bytes)
}

/// The bytes that a percent-encoded text stands for; `None` when it is not one.
#[must_use]
pub fn percent(text: &str) -> Option<Vec<u8>> {
    crate::http::percent(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_the_json_rule() {
        for bytes in [&b""[..], b"text", "gr\u{fc}n".as_bytes(), &[0xff, 0, 9]] {
            assert_eq!(value(value_object(bytes).as_bytes()).as_deref(), Some(bytes));
        }
        assert_eq!(value(b"{}"), None);
    }

    #[test]
    fn a_transaction_becomes_an_operation_or_nothing() {
        let body = br#"{"compare":[{"key":"a","version":"1"}],"writes":[{"op":"delete","key":"a"}]}"#;
        assert!(transaction(body).is_some_and(|operation| !operation.is_empty()));
        assert_eq!(transaction(br#"{"writes":[{"op":"incr","key":"a"}]}"#), None);
        assert_eq!(percent("%2f").as_deref(), Some(&b"/"[..]));
    }
}
