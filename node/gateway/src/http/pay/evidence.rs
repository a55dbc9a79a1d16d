//! What shows that the owner of an account signed two entries for one place: `GET /v1/pay/accounts/{id}/evidence`, and beside refusals
//! of orders that such an account gives (SYN-3120).

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use serde_json::{Value, json};
use synod_config::{code, hex};
use synod_host::pay::{AccountId, Seen, TWO_ENTRIES, Teller};
use synod_wire::Wire as _;

use super::show::reply;
use super::{account, answered, denied, missing, teller};
use crate::http::request::{Query, between, deadline};
use crate::http::server::Front;
use crate::problem::Problem;
use crate::web::Link;

/// The account as it stands here, if it is open here.
pub(super) async fn seen(front: &Front, id: AccountId, limit: Duration) -> Result<Option<Seen>, Problem> {
    let answer = teller(front)?.look(id, 1);
    let seen = answered(&front.shared, answer, limit, "the question", |why| denied(why, None)).await?;
    Ok(seen.into_iter().find(|seen| seen.standing.opening.id == id))
}

/// Both entries of a conflicted account, as `synod client verify` reads them.
fn evidence(seen: &Seen, by: &Teller) -> Option<Value> {
    let (two, view) = (seen.torn.as_ref()?, by.view());
    Some(json!({
        "schema": "synod-proof/1",
        "kind": TWO_ENTRIES,
        "cluster": view.cluster.to_string(),
        "epoch": view.roster.epoch().0,
        "bytes": hex(&two.encode()),
    }))
}

/// A refusal of an order of this account; one for its conflict with what shows that.
pub(super) async fn with_evidence(
    front: &Front,
    problem: Problem,
    of: AccountId,
    limit: Duration,
) -> Problem {
    if problem.code() != code::CONFLICTED {
        return problem;
    }
    // Without an answer in time the refusal stands by itself.
    let seen = seen(front, of, limit).await.ok().flatten();
    let shown = seen.zip(teller(front).ok()).and_then(|(seen, by)| evidence(&seen, by));
    problem.shown_by(shown)
}

/// `GET /v1/pay/accounts/{id}/evidence`.
pub(in crate::http) async fn show(
    State(front): State<Arc<Front>>,
    ConnectInfo(link): ConnectInfo<Link>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    Query::read(&uri, &[])?;
    let id = account(between(&uri, "/v1/pay/accounts/", "/evidence"))?;
    let limit = deadline(&headers, front.deadline)?;
    let seen = seen(&front, id, limit).await?.ok_or_else(|| missing(&format!("account {id}")))?;
    let by = teller(&front)?;
    let shown = evidence(&seen, by);
    shown
        .map(|shown| reply(&link, &shown))
        .ok_or_else(|| missing(&format!("a second entry for a place of account {id} that nothing decides")))
}
