//! `GET /v1/pay/lanes`: how far the batches of each representative are at this node.

use std::sync::Arc;

use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use serde_json::{Value, json};
use synod_host::pay::LaneSeen;

use super::show::reply;
use super::{answered, denied, teller};
use crate::http::request::{Query, deadline};
use crate::http::server::Front;
use crate::problem::Problem;
use crate::web::Link;

/// `GET /v1/pay/lanes`.
pub(in crate::http) async fn lanes(
    State(front): State<Arc<Front>>,
    ConnectInfo(link): ConnectInfo<Link>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    Query::read(&uri, &[])?;
    let (teller, limit) = (teller(&front)?, deadline(&headers, front.deadline)?);
    let seen =
        answered(&front.shared, teller.lanes(), limit, "the question", |why| denied(why, None)).await?;
    let doubled = teller.doubled();
    let row = |lane: &LaneSeen| {
        let LaneSeen { lane, last, frontier, behind } = lane;
        let owing = |(member, upto): &(u8, u64)| json!({ "member": member, "upto": upto.to_string() });
        let two = doubled.get(&u32::from(*lane)).map(u64::to_string);
        json!({
            "lane": lane,
            "last": last.to_string(),
            "frontier": frontier.to_string(),
            "behind": behind.iter().map(owing).collect::<Vec<Value>>(),
            "two_batches": two,
        })
    };
    Ok(reply(&link, &json!({ "lanes": seen.iter().map(row).collect::<Vec<Value>>() })))
}
