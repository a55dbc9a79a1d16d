//! What wallets ask: `POST /v1/pay/check`, `POST /v1/pay/entries` and `GET /v1/pay/accounts/{id}/log`. Entries are hex digits of their
//! canonical encoding, as owners sign them.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use synod_config::{hex, unhex};
use synod_host::pay::{AccountId, Auth, Denied, Entry, LINE_BYTES_MAX, Line, Signature, known};
use synod_wire::{Limits, Wire as _};

use super::show::reply;
use super::{account, answered, blocking, busy, carried, denied, key, level, missing, teller};
use crate::http::request::{Query, between, body, deadline, malformed};
use crate::http::server::Front;
use crate::problem::Problem;
use crate::web::Link;

/// The body of a POST of a check.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Check {
    entry: String,
    ed25519: String,
}

/// The body of a POST of an entry.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Signed {
    entry: String,
    signature: String,
    until: Option<String>,
}

fn entry(text: &str) -> Result<Arc<Entry>, Problem> {
    let bytes = unhex(text).ok_or_else(|| malformed("entry is not hex digits"))?;
    let read = Entry::decode(bytes.into(), &Limits { frame_max: LINE_BYTES_MAX });
    read.map(Arc::new).map_err(|why| malformed(&format!("entry: {why}")))
}

pub(super) fn signature(text: &str) -> Result<Signature, Problem> {
    let bytes = unhex(text).and_then(|bytes| <[u8; 64]>::try_from(bytes).ok());
    bytes.map(Signature).ok_or_else(|| malformed("signature is not 128 hex digits"))
}

/// A refusal with the words of the entry that it is of.
fn refused(why: Denied, entry: &Entry) -> Problem {
    let known = known(entry);
    let values = |to: Option<AccountId>| to.map(|to| to.to_string()).unwrap_or_default();
    if let Denied::Busy(ms) = why {
        return busy(ms);
    }
    let named = super::Named { id: known.id, payer: Some(known.from) };
    denied(why, Some((named, values(known.to), known.amount.map(|sum| sum.to_string()).unwrap_or_default())))
}

/// `POST /v1/pay/check`.
pub(in crate::http) async fn check(
    State(front): State<Arc<Front>>,
    ConnectInfo(link): ConnectInfo<Link>,
    uri: Uri,
    headers: HeaderMap,
    content: Body,
) -> Result<Response, Problem> {
    Query::read(&uri, &[])?;
    let teller = Arc::clone(teller(&front)?);
    let asked: Check = body(&headers, content, front.request_max, &link.share).await?;
    let (entry, key) = (entry(&asked.entry)?, key(&asked.ed25519)?);
    let limit = deadline(&headers, front.deadline)?;
    let of = Arc::clone(&entry);
    let answer = blocking(move || teller.check(entry, key)).await?;
    answered(&front.shared, answer, limit, "the question", |why| refused(why, &of)).await?;
    Ok(reply(&link, &json!({ "answer": "ok" })))
}

/// `POST /v1/pay/entries`.
pub(in crate::http) async fn submit(
    State(front): State<Arc<Front>>,
    ConnectInfo(link): ConnectInfo<Link>,
    uri: Uri,
    headers: HeaderMap,
    content: Body,
) -> Result<Response, Problem> {
    Query::read(&uri, &[])?;
    let teller = teller(&front)?;
    let signed: Signed = body(&headers, content, front.request_max, &link.share).await?;
    let (entry, signature) = (entry(&signed.entry)?, signature(&signed.signature)?);
    let (until, limit) = (level(signed.until.as_deref())?, deadline(&headers, front.deadline)?);
    link.writes();
    let line = Line { entry: Arc::clone(&entry), auth: Auth::Owner(signature) };
    let asked = Arc::clone(teller);
    let answer = blocking(move || asked.submit(line, until)).await?;
    let ids = (entry.transfer, entry.transfer.to_string(), entry.id.spender);
    carried(&front, &link, (answer, limit), ids, |why| refused(why, &entry)).await
}

/// `GET /v1/pay/accounts/{id}/log`.
pub(in crate::http) async fn log(
    State(front): State<Arc<Front>>,
    ConnectInfo(link): ConnectInfo<Link>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    Query::read(&uri, &[])?;
    let teller = teller(&front)?;
    let id = account(between(&uri, "/v1/pay/accounts/", "/log"))?;
    let limit = deadline(&headers, front.deadline)?;
    let log = answered(&front.shared, teller.log(id), limit, "the question", |why| denied(why, None)).await?;
    let log = log.ok_or_else(|| missing(&format!("account {id}")))?;
    let open: Vec<Value> = log.open.iter().map(|line| Value::from(hex(&line.encode()))).collect();
    Ok(reply(
        &link,
        &json!({ "account": id.to_string(), "n": log.sequence.to_string(), "head": log.head.to_string(), "open": open }),
    ))
}
