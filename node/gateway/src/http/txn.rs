//! `/v1/txn`: versions compared, writes applied, as one ordered operation.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use bytes::Bytes;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde_json::{Map, Value, json};
use synod_kv::{COMMANDS_MAX, OPERATION_BYTES_MAX, Reply, Verb, WATCHED_MAX, operation};

use crate::{
    http::{
        ask::strange,
        kv::{condition_failed, fits},
        octets,
        request::{Query, body, malformed, request_id, too_large, version},
        server::{Answer, Front},
    },
    problem::Problem,
    resp_server::reply_code,
    web::Link,
};

/// A list whose length is checked while it is read, before memory is taken for more.
struct Few<T, const MAX: usize>(Vec<T>);

impl<T, const MAX: usize> Default for Few<T, MAX> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for Few<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items<T, const MAX: usize>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for Items<T, MAX> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {MAX}")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
                let mut few = Vec::new();
                while let Some(item) = items.next_element()? {
                    if few.len() == MAX {
                        return Err(A::Error::custom(format_args!("a list has more than {MAX} elements")));
                    }
                    few.push(item);
                }
                Ok(few)
            }
        }

        deserializer.deserialize_seq(Items::<T, MAX>(PhantomData)).map(Self)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Compare {
    key: Option<String>,
    key_base64: Option<String>,
    version: String,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Op {
    Put,
    Delete,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Write {
    op: Op,
    key: Option<String>,
    key_base64: Option<String>,
    value: Option<String>,
    value_base64: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Txn {
    #[serde(default)]
    compare: Few<Compare, WATCHED_MAX>,
    writes: Few<Write, COMMANDS_MAX>,
}

/// `POST /v1/txn`.
pub(super) async fn post(
    State(front): State<Arc<Front>>,
    ConnectInfo(link): ConnectInfo<Link>,
    uri: Uri,
    headers: HeaderMap,
    content: Body,
) -> Result<Response, Problem> {
    Query::read(&uri, &[])?;
    let txn: Txn = body(&headers, content, front.request_max, &link.share).await?;
    let ops: Vec<Op> = txn.writes.0.iter().map(|write| write.op).collect();
    let operation = encode(txn)?;
    if operation.len() > OPERATION_BYTES_MAX {
        return Err(too_large("the transaction", operation.len(), OPERATION_BYTES_MAX));
    }
    let told = front.write(&link, &headers, Bytes::from(operation)).await?;
    let results = match told.reply {
        Reply::NullArray => {
            return Err(condition_failed(b"one of the compared keys").of_request(request_id(&headers)?));
        }
        Reply::Array(results) if results.len() == ops.len() => results,
        _ => return Err(strange()),
    };
    let results: Option<Vec<Value>> =
        ops.into_iter().zip(&results).map(|(op, reply)| shown(op, reply)).collect();
    let object = Map::from_iter([("results".to_owned(), Value::from(results.ok_or_else(strange)?))]);
    Ok(Answer::of_write(object, told.position, &headers))
}

/// What a write did. The store refuses a write only when it is full; the others of the transaction stand.
fn shown(op: Op, reply: &Reply) -> Option<Value> {
    match (op, reply) {
        (Op::Put, Reply::Simple(_)) => Some(json!({ "written": true })),
        (Op::Delete, Reply::Integer(removed)) => Some(json!({ "deleted": *removed > 0 })),
        (_, Reply::Error(text)) => {
            let mut line = vec![b'-'];
            line.extend_from_slice(text);
            let code = reply_code(&line)?;
            Some(json!({ "code": code.to_string(), "detail": String::from_utf8_lossy(text) }))
        }
        _ => None,
    }
}

/// The operation of a request's body; `None` when the request would be refused.
pub(crate) fn transaction(body: &[u8]) -> Option<Vec<u8>> {
    let operation = encode(serde_json::from_slice(body).ok()?).ok()?;
    (operation.len() <= OPERATION_BYTES_MAX).then_some(operation)
}

fn encode(txn: Txn) -> Result<Vec<u8>, Problem> {
    let wrong = |why: String| malformed(&why);
    let mut watched = Vec::with_capacity(txn.compare.0.len());
    for compare in txn.compare.0 {
        let key = octets::take("key", compare.key, compare.key_base64).map_err(wrong)?;
        fits(&key, b"")?;
        let version =
            version(&compare.version).ok_or_else(|| malformed("a version is not a decimal string"))?;
        watched.push((key, version));
    }
    let count = txn.writes.0.len();
    let mut bodies = Vec::new();
    for write in txn.writes.0 {
        let key = octets::take("key", write.key, write.key_base64).map_err(wrong)?;
        match write.op {
            Op::Put => {
                let value = octets::take("value", write.value, write.value_base64).map_err(wrong)?;
                fits(&key, &value)?;
                operation::write_body(Verb::Set, [key.as_slice(), &value].into_iter(), &mut bodies);
            }
            Op::Delete if write.value.is_some() || write.value_base64.is_some() => {
                return Err(malformed("a delete has a value"));
            }
            Op::Delete => {
                fits(&key, b"")?;
                operation::write_body(Verb::Del, [key.as_slice()].into_iter(), &mut bodies);
            }
        }
    }
    let watched = watched.iter().map(|(key, version)| operation::Watched { key, version: *version });
    let mut out = Vec::with_capacity(bodies.len());
    operation::write_transaction(watched, count, &bodies, &mut out);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_a_bound() {
        let list = |count: usize| format!("[{}]", vec!["1"; count].join(","));
        let read = |count| serde_json::from_str::<Few<u8, 4>>(&list(count)).map(|few| few.0.len());
        assert_eq!(read(3).ok(), Some(3));
        assert_eq!(read(4).ok(), Some(4));
        assert!(read(5).is_err());
    }

    #[test]
    fn an_unknown_field_or_operation_is_refused() {
        for text in [
            r#"{"writes":[{"op":"put","key":"a","value":"b","ttl":1}]}"#,
            r#"{"writes":[{"op":"incr","key":"a"}]}"#,
            r#"{"writes":[],"if":[]}"#,
            r#"{"compare":[{"key":"a","version":3}],"writes":[]}"#,
            r"{}",
        ] {
            assert!(serde_json::from_str::<Txn>(text).is_err(), "{text}");
        }
        let read = |text| {
            serde_json::from_str::<Txn>(text).map_err(|_| ()).and_then(|txn| encode(txn).map_err(|_| ()))
        };
        assert!(read(r#"{"writes":[{"op":"delete","key":"a","value":"b"}]}"#).is_err());
        assert!(read(r#"{"compare":[{"key":"a","version":"-1"}],"writes":[]}"#).is_err());
        assert!(
            read(r#"{"compare":[{"key":"a","version":"1"}],"writes":[{"op":"delete","key":"a"}]}"#).is_ok()
        );
    }
}
