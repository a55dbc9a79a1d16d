//! `GET /v1/pay/bundles`: what is on its way between shards, as this node knows it.

use std::sync::Arc;

use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use serde_json::{Value, json};
use synod_host::pay::BundleSeen;

use super::show::reply;
use super::{answered, denied, teller};
use crate::http::request::{Query, deadline};
use crate::http::server::Front;
use crate::problem::Problem;
use crate::web::Link;

/// `GET /v1/pay/bundles`.
pub(in crate::http) async fn bundles(
    State(front): State<Arc<Front>>,
    ConnectInfo(link): ConnectInfo<Link>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    Query::read(&uri, &[])?;
    let (teller, limit) = (teller(&front)?, deadline(&headers, front.deadline)?);
    let seen =
        answered(&front.shared, teller.bundles(), limit, "the question", |why| denied(why, None)).await?;
    let row = |bundle: &BundleSeen| {
        let BundleSeen { to, lot, entries, sent } = bundle;
        json!({
            "to_shard": to,
            "lane": lot.source,
            "batch": lot.sequence.to_string(),
            "entries": entries,
            "sent": sent.to_string(),
        })
    };
    Ok(reply(
        &link,
        &json!({
            "shard": teller.seat().shard,
            "entries": seen.entries.to_string(),
            "coming": seen.coming.to_string(),
            "bundles": seen.leaving.iter().map(row).collect::<Vec<Value>>(),
        }),
    ))
}
