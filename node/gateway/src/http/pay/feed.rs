//! What settled at this node in its order, for who follows it (`GET /v1/changes`), and with all that proves it, for who audits it
//! (`GET /v1/pay/log`).

use std::sync::Arc;

use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use serde_json::{Value, json};
use synod_config::{hex, unhex};
use synod_host::pay::{PAGE_MAX, Teller};

use super::follow;
use super::show::{reply, shown};
use super::{LIMIT_USUAL, blocking, caught_up, number, teller};
use crate::http::request::{Query, malformed};
use crate::http::server::Front;
use crate::problem::Problem;
use crate::web::Link;

/// A position of the query; 0, or all, where it names none.
fn position(query: &Query, name: &str, usual: u64) -> Result<u64, Problem> {
    match query.get(name) {
        None => Ok(usual),
        Some(text) => {
            let number = number(name, &String::from_utf8_lossy(text))?;
            u64::try_from(number).map_err(|_| malformed(&format!("{name} is not below 2^64")))
        }
    }
}

/// Rows of what settled behind a position, so many at most; whether there are more, and the position of the last one.
pub(super) fn rows(teller: &Teller, from: u64, count: usize) -> (Vec<Value>, bool, u64) {
    let found = teller.index().changes(from, count);
    let last = found.entries.last().map_or(from, |last| last.position);
    let rows = found.entries.iter().map(|transfer| shown(teller.index(), transfer));
    (rows.collect(), found.has_more, last)
}

/// `GET /v1/changes`: a page of what settled behind a cursor, and the cursor behind it; to who accepts server-sent events, all that
/// settles behind it as it does.
pub(in crate::http) async fn changes(
    State(front): State<Arc<Front>>,
    ConnectInfo(link): ConnectInfo<Link>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let query = Query::read(&uri, &["from", "limit"])?;
    let teller = Arc::clone(teller(&front)?);
    let from = position(&query, "from", 0)?;
    if follow::is_asked(&headers) {
        return follow::stream(&front, &link, teller, follow::cursor(&headers, from)?);
    }
    let most = u32::try_from(PAGE_MAX).unwrap_or(u32::MAX);
    let count = usize::try_from(query.limit(LIMIT_USUAL, most)?).unwrap_or(usize::MAX);
    caught_up(&front, &teller, &headers).await?;
    let (rows, has_more, cursor) = blocking(move || rows(&teller, from, count)).await?;
    Ok(reply(&link, &json!({ "changes": rows, "more": has_more, "cursor": cursor.to_string() })))
}

/// `GET /v1/pay/log`: a page of the log, records in hex digits, and where the next one begins.
pub(in crate::http) async fn export(
    State(front): State<Arc<Front>>,
    ConnectInfo(link): ConnectInfo<Link>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let query = Query::read(&uri, &["from", "until"])?;
    let teller = Arc::clone(teller(&front)?);
    let until = position(&query, "until", u64::MAX)?;
    let from = query.get("from").map(|text| unhex(&String::from_utf8_lossy(text)));
    let from = from.map(|from| from.ok_or_else(|| malformed("from is not hex digits"))).transpose()?;
    caught_up(&front, &teller, &headers).await?;
    let read = move || {
        // What settles while it is read is beyond it.
        let position = teller.index().position();
        (teller.exported(from.as_deref(), until.min(position)), position)
    };
    let (page, position) = blocking(read).await?;
    let records: Vec<Value> = page.records.iter().map(|record| Value::from(hex(record))).collect();
    let next = page.next.map(|next| hex(&next));
    Ok(reply(&link, &json!({ "position": position.to_string(), "records": records, "next": next })))
}
