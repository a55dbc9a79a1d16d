//! `/v1/kv`: reading, writing, removing, listing.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, HeaderValue, Uri, header};
use axum::response::Response;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value};
use synod_config::{SynError, code};
use synod_kv::{KEY_BYTES_MAX, Reply, SCAN_MAX, VALUE_BYTES_MAX, Verb, operation};

use crate::{
    http::{
        ask::{Ask, strange},
        octets,
        request::{Condition, Query, between, body, deadline, malformed, request_id, too_large},
        server::{Answer, Front},
    },
    problem::Problem,
    web::Link,
};

/// Keys of a page when nothing is said.
const LIMIT_USUAL: u32 = 100;

/// The body of a PUT.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Put {
    value: Option<String>,
    value_base64: Option<String>,
}

/// The value of a PUT's body; `None` when the request would be refused.
pub(crate) fn value(body: &[u8]) -> Option<Vec<u8>> {
    let put: Put = serde_json::from_slice(body).ok()?;
    let value = octets::take("value", put.value, put.value_base64).ok()?;
    fits(b"", &value).is_ok().then_some(value)
}

/// The body of a PUT of this value.
pub(crate) fn value_object(bytes: &[u8]) -> String {
    let mut object = Map::new();
    octets::put(&mut object, "value", bytes);
    Value::from(object).to_string()
}

/// The key in a path, percent-encoded.
fn key(uri: &Uri) -> Result<Vec<u8>, Problem> {
    octets::from_percent(between(uri, "/v1/kv/", ""))
        .ok_or_else(|| malformed("the key is not percent-encoded"))
}

/// Refuses what the store would refuse after ordering it.
pub(super) fn fits(key: &[u8], value: &[u8]) -> Result<(), Problem> {
    if key.len() > KEY_BYTES_MAX {
        Err(too_large("the key", key.len(), KEY_BYTES_MAX))
    } else if value.len() > VALUE_BYTES_MAX {
        Err(too_large("the value", value.len(), VALUE_BYTES_MAX))
    } else {
        Ok(())
    }
}

/// The refusal of a write whose condition does not hold.
pub(super) fn condition_failed(key: &[u8]) -> Problem {
    SynError::of(code::CONDITION_FAILED, &[("key", &String::from_utf8_lossy(key))]).into()
}

/// `GET /v1/kv/{key}`.
pub(super) async fn get(
    State(front): State<Arc<Front>>,
    ConnectInfo(link): ConnectInfo<Link>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let query = Query::read(&uri, &["read", "proof"])?;
    let mode = query.mode(front.reads)?;
    let key = key(&uri)?;
    let mut question = Vec::with_capacity(key.len() + 4);
    operation::write_fetch(&key, &mut question);
    let deadline = deadline(&headers, front.deadline)?;
    let ask = Ask { lane: link.share.id(), operation: Bytes::from(question), mode, deadline };
    let told = ask.perform(&front.shared).await?;
    let Reply::Array(parts) = told.reply else { return Err(strange()) };
    let [found, Reply::Integer(version)] = parts.as_slice() else { return Err(strange()) };
    let mut object = Map::new();
    octets::put(&mut object, "key", &key);
    match found {
        Reply::Bulk(value) => {
            link.share.settle(value.len() as u64 * 2);
            octets::put(&mut object, "value", value);
        }
        Reply::Null => drop(object.insert("value".to_owned(), Value::Null)),
        _ => return Err(strange()),
    }
    object.insert("version".to_owned(), Value::from(version.to_string()));
    let mut response = Answer { object, position: told.position, id: None, mode }.into_response();
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{version}\"")) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    Ok(response)
}

/// `PUT /v1/kv/{key}`.
pub(super) async fn put(
    State(front): State<Arc<Front>>,
    ConnectInfo(link): ConnectInfo<Link>,
    uri: Uri,
    headers: HeaderMap,
    content: Body,
) -> Result<Response, Problem> {
    Query::read(&uri, &[])?;
    let (key, condition) = (key(&uri)?, Condition::read(&headers)?);
    let put: Put = body(&headers, content, front.request_max, &link.share).await?;
    let value = octets::take("value", put.value, put.value_base64).map_err(|why| malformed(&why))?;
    fits(&key, &value)?;
    let (key, value) = (key.as_slice(), value.as_slice());
    let words: &[&[u8]] = if condition == Condition::Present { &[key, value, b"XX"] } else { &[key, value] };
    let operation = write(Verb::Set, words, condition);
    let told = front.write(&link, &headers, operation).await?;
    match settled(told.reply, condition) {
        Some(Reply::Simple(_)) => Ok(Answer::of_write(Map::new(), told.position, &headers)),
        None | Some(Reply::Null) => Err(condition_failed(key).of_request(request_id(&headers)?)),
        _ => Err(strange()),
    }
}

/// `DELETE /v1/kv/{key}`.
pub(super) async fn delete(
    State(front): State<Arc<Front>>,
    ConnectInfo(link): ConnectInfo<Link>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    Query::read(&uri, &[])?;
    let (key, condition) = (key(&uri)?, Condition::read(&headers)?);
    let operation = write(Verb::Del, &[key.as_slice()], condition);
    let told = front.write(&link, &headers, operation).await?;
    match settled(told.reply, condition) {
        None => Err(condition_failed(&key).of_request(request_id(&headers)?)),
        Some(Reply::Integer(0)) if condition == Condition::Present => {
            Err(condition_failed(&key).of_request(request_id(&headers)?))
        }
        Some(Reply::Integer(removed)) => {
            let object = Map::from_iter([("deleted".to_owned(), Value::from(removed > 0))]);
            Ok(Answer::of_write(object, told.position, &headers))
        }
        _ => Err(strange()),
    }
}

/// The operation of one write: a command, or a transaction that watches its key, which is the first word.
fn write(verb: Verb, words: &[&[u8]], condition: Condition) -> Bytes {
    let mut out = Vec::new();
    let arguments = words.iter().copied();
    match condition {
        Condition::Always | Condition::Present => operation::write_command(verb, arguments, &mut out),
        Condition::Version(version) => {
            let mut body = Vec::new();
            operation::write_body(verb, arguments, &mut body);
            let key = words.first().copied().unwrap_or_default();
            operation::write_transaction(
                [operation::Watched { key, version }].into_iter(),
                1,
                &body,
                &mut out,
            );
        }
    }
    Bytes::from(out)
}

/// The reply of the command itself; `None` when its transaction was void.
fn settled(reply: Reply, condition: Condition) -> Option<Reply> {
    match (condition, reply) {
        (Condition::Version(_), Reply::NullArray) => None,
        (Condition::Version(_), Reply::Array(results)) => results.into_iter().next(),
        (_, reply) => Some(reply),
    }
}

/// `GET /v1/kv`.
pub(super) async fn scan(
    State(front): State<Arc<Front>>,
    ConnectInfo(link): ConnectInfo<Link>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let query = Query::read(&uri, &["prefix", "after", "limit", "read"])?;
    let mode = query.mode(front.reads)?;
    let limit = query.limit(LIMIT_USUAL, u32::try_from(SCAN_MAX).unwrap_or(u32::MAX))?;
    let (prefix, after) = (query.get("prefix").unwrap_or(b""), query.get("after").unwrap_or(b""));
    let mut question = Vec::new();
    operation::write_range(&operation::Range { prefix, after, limit }, &mut question);
    let deadline = deadline(&headers, front.deadline)?;
    let ask = Ask { lane: link.share.id(), operation: Bytes::from(question), mode, deadline };
    let told = ask.perform(&front.shared).await?;
    let Reply::Array(found) = told.reply else { return Err(strange()) };
    let mut keys = Vec::with_capacity(found.len());
    for one in &found {
        let Reply::Bulk(key) = one else { return Err(strange()) };
        let mut object = Map::new();
        octets::put(&mut object, "key", key);
        keys.push(Value::from(object));
    }
    let object = Map::from_iter([("keys".to_owned(), Value::from(keys))]);
    Ok(Answer { object, position: told.position, id: None, mode }.into_response())
}
